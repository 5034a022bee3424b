#include "tools/target/session.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace verbena::target {
namespace {

using nlohmann::json;

constexpr uint8_t kPort = 1;
constexpr uint32_t kDepth = 256;
constexpr uint32_t kMaxSge = 16;
constexpr uint64_t kPageBytes = 4096;
// A key that nothing here has: for pieces of a receive that lie in no region.
constexpr uint32_t kNoKey = 0xFFFFFF00;

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

template <typename Object>
Owned<Object> own(Object* object, const char* verb) {
  if (object == nullptr) fail(verb, errno);
  return Owned<Object>(object);
}

ibv_mtu mtu_of(uint32_t bytes) {
  for (const ibv_mtu mtu : {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
    if (bytes == 128U << mtu) return mtu;
  }
  throw std::runtime_error("path_mtu " + std::to_string(bytes) + " is none of RoCE's");
}

struct StateName {
  const char* name;
  ibv_qp_state state;
};
constexpr StateName kStates[] = {{"RESET", IBV_QPS_RESET}, {"INIT", IBV_QPS_INIT},
                                 {"RTR", IBV_QPS_RTR},     {"RTS", IBV_QPS_RTS},
                                 {"SQD", IBV_QPS_SQD},     {"ERR", IBV_QPS_ERR}};

ibv_qp_state state_of(const std::string& name) {
  for (const StateName& known : kStates) {
    if (name == known.name) return known.state;
  }
  throw std::runtime_error("'" + name + "' is no state of a queue pair");
}

std::string name_of(ibv_qp_state state) {
  for (const StateName& known : kStates) {
    if (state == known.state) return known.name;
  }
  return "unknown";
}

void modify_qp(ibv_qp* qp, ibv_qp_attr& attr, int mask) {
  const int error = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
  if (error != 0) fail("ibv_modify_qp to " + name_of(attr.qp_state), error);
}

json completions_of(ibv_cq* cq) {
  json all = json::array();
  ibv_wc wc{};
  while (ibv_poll_cq(cq, 1, &wc) > 0) {
    json entry = {{"recv", wc.wr_id}, {"status", static_cast<int>(wc.status)}};
    if (wc.status == IBV_WC_SUCCESS) {
      entry["opcode"] = static_cast<int>(wc.opcode);
      entry["byte_len"] = wc.byte_len;
      entry["src_qpn"] = wc.src_qp;
      if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) entry["imm"] = ntohl(wc.imm_data);
    }
    all.push_back(entry);
  }
  return all;
}

bool is_roce_v2(const ibv_gid_entry& entry) {
  return entry.gid_type == IBV_GID_TYPE_ROCE_V2;
}

}  // namespace

std::string to_hex(const uint8_t* bytes, size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * count);
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::vector<uint8_t> from_hex(const std::string& hex) {
  std::vector<uint8_t> bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

ibv_gid parse_gid(const std::string& text) {
  ibv_gid gid{};
  if (inet_pton(AF_INET6, text.c_str(), gid.raw) == 1) return gid;
  gid.raw[10] = gid.raw[11] = 0xFF;
  if (inet_pton(AF_INET, text.c_str(), gid.raw + 12) == 1) return gid;
  throw std::runtime_error("'" + text + "' is no IP address");
}

Port open_port(const ibv_gid& gid, const std::string& device) {
  int count = 0;
  ibv_device** const all = ibv_get_device_list(&count);
  const std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)> list(all,
                                                                           &ibv_free_device_list);
  for (int i = 0; i < count; ++i) {
    if (!device.empty() && device != ibv_get_device_name(all[i])) continue;
    Port port;
    port.context.reset(ibv_open_device(all[i]));
    if (!port.context) continue;
    ibv_gid_entry entry{};
    for (uint32_t index = 0; index < 256; ++index) {
      if (ibv_query_gid_ex(port.context.get(), kPort, index, &entry, 0) != 0) continue;
      if (!is_roce_v2(entry) || std::memcmp(&entry.gid, &gid, sizeof gid) != 0) continue;
      port.gid = gid;
      port.gid_index = static_cast<uint8_t>(index);
      return port;
    }
  }
  throw std::runtime_error(
      "no RDMA device here has that RoCE v2 address; `ibv_devinfo -v` shows those there are");
}

Session::Session(Port& port, const json& wanted) : port_(port) {
  peer_ = parse_gid(wanted.at("peer"));
  pd_ = own(ibv_alloc_pd(port.context.get()), "ibv_alloc_pd");
  other_pd_ = own(ibv_alloc_pd(port.context.get()), "ibv_alloc_pd");
  for (const json& memory : wanted.at("memories")) add_region(memory);
  for (const json& recv : wanted.at("recvs")) {
    Region buffer;
    if (!recv.contains("sges") && recv.at("bytes") != 0) {
      buffer = Region(recv.at("bytes"), 0);
      const int access = IBV_ACCESS_LOCAL_WRITE;  // the macro ibv_reg_mr wants no enumerator
      buffer.mr = own(ibv_reg_mr(pd_.get(), buffer.data(), buffer.bytes, access), "ibv_reg_mr");
    }
    buffers_.push_back(std::move(buffer));
    recvs_.push_back(recv);
  }
  for (const json& qp : wanted.at("qps")) add_queue(qp);
}

Session::Region::Region(size_t size, uint64_t va) : storage(size + 2 * kPageBytes), bytes(size) {
  const uint64_t behind = (va - reinterpret_cast<uintptr_t>(storage.data())) % kPageBytes;
  start = static_cast<size_t>(behind);
}

// The region has the addresses that the case says, wherever it lies here.
void Session::add_region(const json& wanted) {
  const std::vector<uint8_t> contents = from_hex(wanted.at("contents"));
  const auto va = wanted.at("va").get<uint64_t>();
  Region region(contents.size(), va);
  std::copy(contents.begin(), contents.end(), region.data());
  const bool other = wanted.at("other_pd");
  region.mr = own(ibv_reg_mr_iova(other ? other_pd_.get() : pd_.get(), region.data(), region.bytes,
                                  va, wanted.at("access").get<int>()),
                  "ibv_reg_mr_iova");
  regions_.push_back(std::move(region));
}

void Session::add_queue(const json& wanted) {
  Queue queue;
  ibv_context* const context = port_.context.get();
  queue.send_cq = own(ibv_create_cq(context, kDepth, nullptr, nullptr, 0), "ibv_create_cq");
  queue.recv_cq = own(ibv_create_cq(context, kDepth, nullptr, nullptr, 0), "ibv_create_cq");
  ibv_qp_init_attr attr{};
  attr.send_cq = queue.send_cq.get();
  attr.recv_cq = queue.recv_cq.get();
  attr.qp_type = wanted.at("type") == "UD" ? IBV_QPT_UD : IBV_QPT_RC;
  attr.cap.max_send_wr = 1;
  attr.cap.max_send_sge = 1;
  attr.cap.max_recv_wr = kDepth;
  attr.cap.max_recv_sge = kMaxSge;
  queue.qp = own(ibv_create_qp(pd_.get(), &attr), "ibv_create_qp");
  bring_up(queue, wanted);
  queues_.push_back(std::move(queue));
}

void Session::bring_up(Queue& queue, const json& wanted) {
  const ibv_qp_state until = state_of(wanted.at("state"));
  to_init(queue, wanted);
  if (until == IBV_QPS_INIT) return;
  to_rtr(queue, wanted);
  if (until == IBV_QPS_RTR) return;
  to_rts(queue, wanted);
}

void Session::to_init(Queue& queue, const json& wanted) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  if (queue.qp->qp_type == IBV_QPT_UD) {
    attr.qkey = wanted.at("qkey");
    return modify_qp(queue.qp.get(), attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  }
  attr.qp_access_flags = wanted.at("access");
  modify_qp(queue.qp.get(), attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

void Session::to_rtr(Queue& queue, const json& wanted) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  if (queue.qp->qp_type == IBV_QPT_UD) return modify_qp(queue.qp.get(), attr, 0);
  attr.path_mtu = mtu_of(wanted.at("path_mtu"));
  attr.dest_qp_num = wanted.at("peer_qpn");
  attr.rq_psn = wanted.at("rq_psn");
  attr.max_dest_rd_atomic = wanted.at("max_dest_rd_atomic");
  attr.min_rnr_timer = wanted.at("min_rnr_timer");
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = kPort;
  attr.ah_attr.grh.dgid = peer_;
  attr.ah_attr.grh.sgid_index = port_.gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  modify_qp(queue.qp.get(), attr,
            IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

void Session::to_rts(Queue& queue, const json& wanted) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = wanted.at("sq_psn");
  if (queue.qp->qp_type == IBV_QPT_UD) return modify_qp(queue.qp.get(), attr, IBV_QP_SQ_PSN);
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  modify_qp(queue.qp.get(), attr,
            IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                IBV_QP_MAX_QP_RD_ATOMIC);
}

json Session::numbers() const {
  json answer = {{"qps", json::array()}, {"keys", json::array()}};
  for (const Queue& queue : queues_) answer["qps"].push_back(queue.qp->qp_num);
  for (const Region& region : regions_) answer["keys"].push_back(region.mr->rkey);
  return answer;
}

std::vector<ibv_sge> Session::sges_of(const json& recv, size_t buffer) {
  std::vector<ibv_sge> sges;
  if (!recv.contains("sges")) {
    Region& own = buffers_[buffer];
    if (own.mr) {
      sges.push_back({reinterpret_cast<uintptr_t>(own.data()), static_cast<uint32_t>(own.bytes),
                      own.mr->lkey});
    }
    return sges;
  }
  for (const json& piece : recv.at("sges")) {
    const int region = piece.at("memory");
    const uint32_t key = region < 0 ? kNoKey : regions_.at(static_cast<size_t>(region)).mr->lkey;
    sges.push_back({piece.at("va").get<uint64_t>(), piece.at("bytes").get<uint32_t>(), key});
  }
  return sges;
}

void Session::post_recv(size_t index) {
  const json& recv = recvs_.at(index);
  std::vector<ibv_sge> sges = sges_of(recv, index);
  ibv_recv_wr wr{};
  wr.wr_id = index;
  wr.sg_list = sges.data();
  wr.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(queues_.at(recv.at("qp").get<size_t>()).qp.get(), &wr, &bad);
  if (error != 0) fail("ibv_post_recv", error);
}

void Session::store(size_t memory, uint64_t offset, const std::string& hex) {
  Region& region = regions_.at(memory);
  const std::vector<uint8_t> bytes = from_hex(hex);
  if (offset > region.bytes || bytes.size() > region.bytes - offset) {
    throw std::runtime_error("store: it does not fit in the region");
  }
  std::copy(bytes.begin(), bytes.end(), region.data() + offset);
}

void Session::modify(size_t qp, const std::string& state) {
  ibv_qp_attr attr{};
  attr.qp_state = state_of(state);
  modify_qp(queues_.at(qp).qp.get(), attr, 0);
}

json Session::result() {
  json answer = {{"completions", json::array()},
                 {"buffers", json::array()},
                 {"memories", json::array()},
                 {"states", json::array()}};
  for (const Queue& queue : queues_) {
    for (const json& entry : completions_of(queue.recv_cq.get())) {
      answer["completions"].push_back(entry);
    }
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    const int error = ibv_query_qp(queue.qp.get(), &attr, IBV_QP_STATE, &init);
    if (error != 0) fail("ibv_query_qp", error);
    answer["states"].push_back(name_of(attr.qp_state));
  }
  for (Region& buffer : buffers_) {
    answer["buffers"].push_back(to_hex(buffer.data(), buffer.bytes));
  }
  for (Region& region : regions_) {
    answer["memories"].push_back(to_hex(region.data(), region.bytes));
  }
  return answer;
}

}  // namespace verbena::target
