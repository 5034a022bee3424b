#include "tests/e2e/verbs_pair.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace verbena::e2e {
namespace {

using Clock = std::chrono::steady_clock;

bool g_tolerate_teardown_errors = false;

Owned<ibv_context> open_by_name(const std::string& name) {
  int count = 0;
  ibv_device** list = checked(ibv_get_device_list(&count), "ibv_get_device_list");
  Owned<ibv_context> context;
  for (int i = 0; i < count && !context; ++i) {
    if (name == ibv_get_device_name(list[i])) context.reset(ibv_open_device(list[i]));
  }
  ibv_free_device_list(list);
  if (!context) fail("device '" + name + "' not found among " + std::to_string(count) + " devices");
  return context;
}

Owned<ibv_qp> make_qp(ibv_context* context, const QpOptions& options, ibv_pd* pd, ibv_cq* send_cq,
                      ibv_cq* recv_cq, uint32_t* max_inline) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = send_cq;
  attr.recv_cq = recv_cq;
  attr.cap = {options.send_wr, options.recv_wr, options.send_sge, options.recv_sge,
              options.inline_data};
  attr.srq = options.srq;
  attr.qp_type = options.type;
  attr.sq_sig_all = options.sq_sig_all ? 1 : 0;
  attr.pd = pd;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  if (options.extended) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ;
  }
  Owned<ibv_qp> qp(checked(ibv_create_qp_ex(context, &attr), "ibv_create_qp_ex"));
  *max_inline = attr.cap.max_inline_data;
  return qp;
}

void start_extended(ibv_qp_ex* qp, const SendRequest& request) {
  qp->wr_id = request.wr_id;
  qp->wr_flags = request.flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
  const uint32_t imm = htonl(request.imm);
  switch (request.opcode) {
    case IBV_WR_SEND:
      return ibv_wr_send(qp);
    case IBV_WR_SEND_WITH_IMM:
      return ibv_wr_send_imm(qp, imm);
    case IBV_WR_RDMA_WRITE:
      return ibv_wr_rdma_write(qp, request.rkey, request.remote_va);
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return ibv_wr_rdma_write_imm(qp, request.rkey, request.remote_va, imm);
    case IBV_WR_RDMA_READ:
      return ibv_wr_rdma_read(qp, request.rkey, request.remote_va);
    default:
      fail("opcode not made for the extended API by these tests");
  }
}

void set_extended_data(ibv_qp_ex* qp, const SendRequest& request) {
  if ((request.flags & IBV_SEND_INLINE) == 0) {
    if (request.sges.size() == 1) {
      const ibv_sge& sge = request.sges[0];
      return ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
    }
    return ibv_wr_set_sge_list(qp, request.sges.size(), request.sges.data());
  }
  std::vector<ibv_data_buf> pieces;
  for (const ibv_sge& sge : request.sges) {
    pieces.push_back({reinterpret_cast<void*>(sge.addr), sge.length});
  }
  if (pieces.size() == 1) return ibv_wr_set_inline_data(qp, pieces[0].addr, pieces[0].length);
  ibv_wr_set_inline_data_list(qp, pieces.size(), pieces.data());
}

int post_extended(Endpoint& endpoint, std::span<const SendRequest> requests) {
  ibv_qp_ex* qp = checked(ibv_qp_to_qp_ex(endpoint.qp()), "ibv_qp_to_qp_ex");
  ibv_wr_start(qp);
  for (const SendRequest& request : requests) {
    start_extended(qp, request);
    set_extended_data(qp, request);
  }
  return ibv_wr_complete(qp);
}

int post_chain(Endpoint& endpoint, std::span<const SendRequest> requests, size_t* bad) {
  std::vector<ibv_send_wr> chain(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const SendRequest& request = requests[i];
    ibv_send_wr& wr = chain[i];
    wr.wr_id = request.wr_id;
    wr.next = i + 1 < requests.size() ? &chain[i + 1] : nullptr;
    wr.sg_list = const_cast<ibv_sge*>(request.sges.data());
    wr.num_sge = static_cast<int>(request.sges.size());
    wr.opcode = request.opcode;
    wr.send_flags = request.flags;
    wr.imm_data = htonl(request.imm);
    wr.wr.rdma.remote_addr = request.remote_va;
    wr.wr.rdma.rkey = request.rkey;
  }
  ibv_send_wr* first_bad = nullptr;
  const int error = ibv_post_send(endpoint.qp(), chain.data(), &first_bad);
  if (error != 0 && bad != nullptr) *bad = static_cast<size_t>(first_bad - chain.data());
  return error;
}

}  // namespace

void fail(const std::string& what) {
  throw std::runtime_error(what);
}

void fail_errno(const std::string& what, int error) {
  fail(what + " failed: " + std::strerror(error));
}

void check(int result, const char* verb) {
  if (result != 0) fail_errno(verb, result > 0 ? result : errno);
}

void tolerate_teardown_errors() {
  g_tolerate_teardown_errors = true;
}

void report_teardown(int result, const char* verb) {
  if (result == 0 || g_tolerate_teardown_errors) return;
  std::fprintf(stderr, "ibv_%s failed at the end of a test: %s\n", verb,
               std::strerror(result > 0 ? result : errno));
  std::abort();
}

Owned<ibv_cq> make_cq(ibv_context* context, int cqe, ibv_comp_channel* channel) {
  return Owned<ibv_cq>(checked(ibv_create_cq(context, cqe, nullptr, channel, 0), "ibv_create_cq"));
}

Owned<ibv_mr> make_mr(ibv_pd* pd, std::span<uint8_t> bytes, int access) {
  // ibv_reg_mr is also a macro that picks a variant by the constness of the flags.
  return Owned<ibv_mr>(checked(
      (ibv_reg_mr)(pd, bytes.data(), std::max<size_t>(1, bytes.size()), access), "ibv_reg_mr"));
}

Owned<ibv_comp_channel> make_channel(ibv_context* context) {
  return Owned<ibv_comp_channel>(
      checked(ibv_create_comp_channel(context), "ibv_create_comp_channel"));
}

std::string device_name(size_t index) {
  const char* names = std::getenv("VERBENA_E2E_DEVICES");
  const std::string list = names != nullptr ? names : "verbena0,verbena1";
  const size_t comma = list.find(',');
  if (index == 0 || comma == std::string::npos) return list.substr(0, comma);
  return list.substr(comma + 1);
}

Rnic::Rnic(const std::string& name) : context_(open_by_name(name)) {
  check(ibv_query_device(context(), &attributes_), "ibv_query_device");
  check(ibv_query_gid(context(), 1, 0, &gid_), "ibv_query_gid");
}

Endpoint::Endpoint(Rnic& rnic, const QpOptions& options)
    : rnic_(rnic), pd_(options.pd), send_cq_(options.send_cq), recv_cq_(options.recv_cq) {
  if (pd_ == nullptr) {
    own_pd_.reset(checked(ibv_alloc_pd(rnic.context()), "ibv_alloc_pd"));
    pd_ = own_pd_.get();
  }
  if (send_cq_ == nullptr) {
    own_send_cq_ = make_cq(rnic.context(), options.cqe);
    send_cq_ = own_send_cq_.get();
  }
  if (recv_cq_ == nullptr) {
    own_recv_cq_ = make_cq(rnic.context(), options.cqe);
    recv_cq_ = own_recv_cq_.get();
  }
  qp_ = make_qp(rnic.context(), options, pd_, send_cq_, recv_cq_, &max_inline_);
  extended_ = options.extended;
  psn_ = static_cast<uint32_t>(Random::mix(qp_->qp_num)) & 0xFFFFFF;
}

void Endpoint::to_init(int access) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = static_cast<unsigned>(access);
  check(ibv_modify_qp(qp(), &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        "ibv_modify_qp to INIT");
}

void Endpoint::to_rtr(const Address& peer, const PathOptions& path) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = path.mtu;
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = path.rd_atomic;
  attr.min_rnr_timer = path.min_rnr_timer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.hop_limit = 64;
  check(ibv_modify_qp(qp(), &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
        "ibv_modify_qp to RTR");
}

void Endpoint::to_rts(const PathOptions& path) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = psn_;
  attr.timeout = path.timeout;
  attr.retry_cnt = path.retry_cnt;
  attr.rnr_retry = path.rnr_retry;
  attr.max_rd_atomic = path.rd_atomic;
  check(ibv_modify_qp(qp(), &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
        "ibv_modify_qp to RTS");
}

void Endpoint::to_state(ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  check(ibv_modify_qp(qp(), &attr, IBV_QP_STATE), "ibv_modify_qp");
}

ibv_qp_state Endpoint::state() const {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  check(ibv_query_qp(qp(), &attr, IBV_QP_STATE, &init), "ibv_query_qp");
  return attr.qp_state;
}

void connect(Endpoint& a, Endpoint& b, const PathOptions& path) {
  a.to_init(path.access);
  b.to_init(path.access);
  a.to_rtr(b.address(), path);
  b.to_rtr(a.address(), path);
  a.to_rts(path);
  b.to_rts(path);
}

Buffer::Buffer(ibv_pd* pd, size_t bytes, size_t misalign, int access)
    : memory_(bytes, misalign), mr_(make_mr(pd, memory_.bytes(), access)) {}

int try_post_send(Endpoint& endpoint, std::span<const SendRequest> requests, size_t* bad) {
  if (endpoint.extended()) return post_extended(endpoint, requests);
  return post_chain(endpoint, requests, bad);
}

void post_send(Endpoint& endpoint, std::span<const SendRequest> requests) {
  check(try_post_send(endpoint, requests), "posting sends");
}

void post_send(Endpoint& endpoint, const SendRequest& request) {
  post_send(endpoint, std::span(&request, 1));
}

int try_post_recv(Endpoint& endpoint, uint64_t wr_id, std::span<const ibv_sge> sges) {
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = const_cast<ibv_sge*>(sges.data());
  wr.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(endpoint.qp(), &wr, &bad);
}

void post_recv(Endpoint& endpoint, uint64_t wr_id, std::span<const ibv_sge> sges) {
  check(try_post_recv(endpoint, wr_id, sges), "ibv_post_recv");
}

ibv_wc wait_completion(ibv_cq* cq, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  ibv_wc wc{};
  for (;;) {
    const int count = ibv_poll_cq(cq, 1, &wc);
    if (count < 0) fail("ibv_poll_cq failed");
    if (count == 1) return wc;
    if (Clock::now() > deadline) {
      fail("no completion within " + std::to_string(limit.count()) + " ms");
    }
    std::this_thread::yield();
  }
}

std::vector<ibv_wc> wait_completions(ibv_cq* cq, size_t count, std::chrono::milliseconds limit) {
  std::vector<ibv_wc> all;
  while (all.size() < count) all.push_back(wait_completion(cq, limit));
  return all;
}

ibv_wc wait_success(ibv_cq* cq, const char* what) {
  const ibv_wc wc = wait_completion(cq);
  if (wc.status != IBV_WC_SUCCESS) {
    fail(std::string(what) + " completed with " + ibv_wc_status_str(wc.status) + " (vendor error " +
         std::to_string(wc.vendor_err) + ")");
  }
  return wc;
}

void expect_no_completion(ibv_cq* cq, std::chrono::milliseconds time) {
  const auto deadline = Clock::now() + time;
  ibv_wc wc{};
  while (Clock::now() < deadline) {
    if (ibv_poll_cq(cq, 1, &wc) != 0) {
      fail(std::string("unexpected completion: ") + ibv_wc_status_str(wc.status));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void wait_state(Endpoint& endpoint, ibv_qp_state state, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (endpoint.state() != state) {
    if (Clock::now() > deadline) {
      fail("queue pair did not reach state " + std::to_string(state) + ", it is in " +
           std::to_string(endpoint.state()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

ibv_async_event wait_async_event(ibv_context* context, std::chrono::milliseconds limit) {
  pollfd waiting{context->async_fd, POLLIN, 0};
  if (poll(&waiting, 1, static_cast<int>(limit.count())) != 1) fail("no async event came");
  ibv_async_event event{};
  if (ibv_get_async_event(context, &event) != 0) fail_errno("ibv_get_async_event", errno);
  ibv_ack_async_event(&event);
  return event;
}

std::vector<ibv_async_event> drain_async_events(ibv_context* context) {
  std::vector<ibv_async_event> events;
  for (;;) {
    pollfd waiting{context->async_fd, POLLIN, 0};
    if (poll(&waiting, 1, 0) != 1) return events;
    events.push_back(wait_async_event(context));
  }
}

}  // namespace verbena::e2e
