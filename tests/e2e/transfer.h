// One message of a data test: where its bytes come from, where they must arrive, and the check that
// they did so and that no other byte changed.
//
// Both sides' memory is an Arena: pieces at odd addresses with gaps between, and an image of what
// the whole of it must hold after the transfer.
#pragma once

#include <string>
#include <vector>

#include "tests/e2e/verbs_pair.h"

namespace verbena::e2e {

enum class Verb { kSend, kSendImm, kWrite, kWriteImm, kRead };

inline constexpr Verb kAllVerbs[] = {Verb::kSend, Verb::kSendImm, Verb::kWrite, Verb::kWriteImm,
                                     Verb::kRead};

const char* verb_name(Verb verb);
ibv_wr_opcode wr_opcode(Verb verb);
ibv_wc_opcode send_wc_opcode(Verb verb);
bool takes_receive(Verb verb);  // consumes a receive work request at the responder
bool has_immediate(Verb verb);

// Cuts `bytes` into `pieces` random lengths, some of them zero.
std::vector<size_t> cut(size_t bytes, size_t pieces, Random& random);

class Arena {
 public:
  Arena(ibv_pd* pd, size_t bytes, size_t pieces, Random& random);

  const std::vector<ibv_sge>& sges() const { return sges_; }
  uint64_t va() const { return sges_.empty() ? 0 : sges_[0].addr; }
  uint32_t rkey() const { return buffer_.rkey(); }
  std::vector<uint8_t> message();                    // the bytes of the pieces, in order
  void expect(const std::vector<uint8_t>& message);  // what the pieces must hold from now on
  void scramble() {
    for (uint8_t& byte : buffer_.bytes()) byte = static_cast<uint8_t>(~byte);
  }
  std::string difference();  // empty if all is as expected

 private:
  Buffer buffer_;
  std::vector<ibv_sge> sges_;
  std::vector<uint8_t> image_;
};

struct Plan {
  Verb verb = Verb::kSend;
  size_t bytes = 0;
  size_t local_pieces = 1;
  size_t remote_pieces = 1;  // of the receive, for SEND
  unsigned flags = IBV_SEND_SIGNALED;
};

class Transfer {
 public:
  Transfer(Endpoint& requester, Endpoint& responder, const Plan& plan, uint64_t wr_id,
           Random& random);

  const Plan& plan() const { return plan_; }
  void post_receive(Endpoint& responder);  // if its verb takes one
  SendRequest request() const;
  Arena& local() { return local_; }

  // What is wrong with a completion, or with the memory of both sides; empty if all is right.
  std::string check_send(const ibv_wc& wc, uint32_t qpn) const;
  std::string check_receive(const ibv_wc& wc, uint32_t qpn) const;
  std::string check_data();

 private:
  Plan plan_;
  uint64_t wr_id_;
  uint32_t imm_;
  Arena local_;
  Arena remote_;
};

// Posts the transfer, waits for its completions and checks everything; the reason if it is wrong.
std::string run_transfer(Endpoint& requester, Endpoint& responder, const Plan& plan,
                         Random& random);

}  // namespace verbena::e2e
