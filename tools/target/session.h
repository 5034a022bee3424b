// Session: what one conformance case needs at the device under test, made with ordinary verbs:
// queue pairs, memory regions, receives. Its end destroys all of it.
//
// The queue pairs are connected to a peer that is no verbs program: the tester speaks for it, frame
// by frame. So this side only answers: it posts receives and lends memory.
//
// Errors are std::runtime_error with a sentence that names the verb and says what it answered.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace verbena::target {

// Frees a verbs object when it goes.
struct Destroy {
  void operator()(ibv_context* context) const { ibv_close_device(context); }
  void operator()(ibv_pd* pd) const { ibv_dealloc_pd(pd); }
  void operator()(ibv_cq* cq) const { ibv_destroy_cq(cq); }
  void operator()(ibv_qp* qp) const { ibv_destroy_qp(qp); }
  void operator()(ibv_mr* mr) const { ibv_dereg_mr(mr); }
};
template <typename Object>
using Owned = std::unique_ptr<Object, Destroy>;

// An open device, and which of its addresses to use.
struct Port {
  Owned<ibv_context> context;
  ibv_gid gid{};
  uint8_t gid_index = 0;
};

// The RoCE v2 address `gid` of one of the devices, or of the one with that name.
Port open_port(const ibv_gid& gid, const std::string& device);

class Session {
 public:
  // `wanted` is the message "open" of docs/conformance.md.
  Session(Port& port, const nlohmann::json& wanted);

  // QPNs and keys, for the tester.
  [[nodiscard]] nlohmann::json numbers() const;
  void post_recv(size_t index);
  void store(size_t memory, uint64_t offset, const std::string& hex);
  void modify(size_t qp, const std::string& state);
  // Completions so far, contents of all memory, states.
  nlohmann::json result();

 private:
  // Memory that lies in its page as `va` does: kernels register no other under that address.
  struct Region {
    Region() = default;
    Region(size_t size, uint64_t va);

    [[nodiscard]] uint8_t* data() { return storage.data() + start; }
    std::vector<uint8_t> storage;
    size_t start = 0;
    size_t bytes = 0;
    Owned<ibv_mr> mr;
  };
  struct Queue {
    Owned<ibv_cq> send_cq;
    Owned<ibv_cq> recv_cq;
    Owned<ibv_qp> qp;
    uint32_t access = 0;
  };

  void add_region(const nlohmann::json& wanted);
  void add_queue(const nlohmann::json& wanted);
  void bring_up(Queue& queue, const nlohmann::json& wanted);
  void to_init(Queue& queue, const nlohmann::json& wanted);
  void to_rtr(Queue& queue, const nlohmann::json& wanted);
  void to_rts(Queue& queue, const nlohmann::json& wanted);
  [[nodiscard]] std::vector<ibv_sge> sges_of(const nlohmann::json& recv, size_t buffer);

  Port& port_;
  ibv_gid peer_{};
  // In the order in which they can be destroyed, the last one first.
  Owned<ibv_pd> pd_;
  Owned<ibv_pd> other_pd_;
  std::vector<Region> regions_;
  std::vector<Region> buffers_;  // of the receives; empty where one has pieces of regions
  std::vector<Queue> queues_;
  std::vector<nlohmann::json> recvs_;
};

std::string to_hex(const uint8_t* bytes, size_t count);
std::vector<uint8_t> from_hex(const std::string& hex);
// "::ffff:192.0.2.1" and the like, or an IPv4 address.
ibv_gid parse_gid(const std::string& text);

}  // namespace verbena::target
