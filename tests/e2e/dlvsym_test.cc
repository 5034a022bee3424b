// A program that is not linked to libibverbs: it opens the library with dlopen and resolves the
// functions by dlvsym with the version IBVERBS_1.1, as NCCL does, or IBVERBS_1.0 where the library
// has no newer one (completion channels). It makes a completion channel, connects two queue pairs
// of one device and sends a message that an event announces.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kBytes = 10'000;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "dlvsym_test: %s failed\n", what);
  std::exit(1);
}

void* library() {
  static void* const handle = dlopen("libibverbs.so.1", RTLD_NOW);
  if (handle == nullptr) fail(dlerror());
  return handle;
}

template <typename Function>
Function* resolve(const char* name, Function*) {
  void* found = dlvsym(library(), name, "IBVERBS_1.1");
  if (found == nullptr) found = dlvsym(library(), name, "IBVERBS_1.0");
  if (found == nullptr) fail(name);
  return reinterpret_cast<Function*>(found);
}

// The declared type of `name`, from the library opened above.
#define VERBENA_RESOLVE(name) resolve(#name, static_cast<decltype(&(name))>(nullptr))

ibv_context* open_device(const char* wanted) {
  int count = 0;
  ibv_device** list = VERBENA_RESOLVE(ibv_get_device_list)(&count);
  if (list == nullptr) fail("ibv_get_device_list");
  ibv_context* context = nullptr;
  for (int i = 0; i < count; ++i) {
    const char* name = VERBENA_RESOLVE(ibv_get_device_name)(list[i]);
    if (std::strcmp(name, wanted) == 0) context = VERBENA_RESOLVE(ibv_open_device)(list[i]);
  }
  VERBENA_RESOLVE(ibv_free_device_list)(list);
  if (context == nullptr) fail("opening the device");
  return context;
}

struct Objects {
  ibv_context* context;
  ibv_pd* pd;
  ibv_comp_channel* channel;
  ibv_cq* cq;
  ibv_qp* qp[2];
  ibv_mr* mr;
  uint8_t memory[2 * kBytes];
};

ibv_qp* make_qp(Objects& objects) {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = objects.cq;
  attr.cap.max_send_wr = attr.cap.max_recv_wr = 4;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  attr.qp_type = IBV_QPT_RC;
  ibv_qp* qp = VERBENA_RESOLVE(ibv_create_qp)(objects.pd, &attr);
  if (qp == nullptr) fail("ibv_create_qp");
  return qp;
}

void make_objects(Objects& objects) {
  objects.pd = VERBENA_RESOLVE(ibv_alloc_pd)(objects.context);
  objects.channel = VERBENA_RESOLVE(ibv_create_comp_channel)(objects.context);
  if (objects.pd == nullptr || objects.channel == nullptr) fail("making a PD and a channel");
  objects.cq = VERBENA_RESOLVE(ibv_create_cq)(objects.context, 8, nullptr, objects.channel, 0);
  if (objects.cq == nullptr) fail("ibv_create_cq");
  for (ibv_qp*& qp : objects.qp) qp = make_qp(objects);
  using RegMr = ibv_mr*(ibv_pd*, void*, size_t, int);
  objects.mr = resolve("ibv_reg_mr", static_cast<RegMr*>(nullptr))(
      objects.pd, objects.memory, sizeof(objects.memory), IBV_ACCESS_LOCAL_WRITE);
  if (objects.mr == nullptr) fail("ibv_reg_mr");
}

void connect_to(Objects& objects, ibv_qp* qp, const ibv_qp* peer) {
  const auto modify = VERBENA_RESOLVE(ibv_modify_qp);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  if (modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) !=
      0) {
    fail("INIT");
  }
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer->qp_num;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.hop_limit = 1;
  if (VERBENA_RESOLVE(ibv_query_gid)(objects.context, 1, 0, &attr.ah_attr.grh.dgid) != 0) {
    fail("ibv_query_gid");
  }
  if (modify(qp, &attr,
             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    fail("RTR");
  }
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  if (modify(qp, &attr,
             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                 IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    fail("RTS");
  }
}

void send_message(Objects& objects) {
  for (size_t i = 0; i < kBytes; ++i) objects.memory[i] = static_cast<uint8_t>(i * 7 + 1);
  ibv_sge target{reinterpret_cast<uint64_t>(objects.memory + kBytes), kBytes, objects.mr->lkey};
  ibv_recv_wr receive{};
  receive.sg_list = &target;
  receive.num_sge = 1;
  ibv_recv_wr* bad_receive = nullptr;
  if (ibv_req_notify_cq(objects.cq, 0) != 0) fail("ibv_req_notify_cq");
  if (ibv_post_recv(objects.qp[1], &receive, &bad_receive) != 0) fail("ibv_post_recv");
  ibv_sge source{reinterpret_cast<uint64_t>(objects.memory), kBytes, objects.mr->lkey};
  ibv_send_wr send{};
  send.sg_list = &source;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad_send = nullptr;
  if (ibv_post_send(objects.qp[0], &send, &bad_send) != 0) fail("ibv_post_send");
}

// Waits for events until both completions are there.
void wait_for_message(Objects& objects) {
  int completions = 0;
  while (completions < 2) {
    pollfd waiting{objects.channel->fd, POLLIN, 0};
    if (poll(&waiting, 1, 10'000) != 1) fail("waiting for a completion event");
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (VERBENA_RESOLVE(ibv_get_cq_event)(objects.channel, &cq, &context) != 0) {
      fail("ibv_get_cq_event");
    }
    if (cq != objects.cq) fail("naming the right queue in the event");
    VERBENA_RESOLVE(ibv_ack_cq_events)(cq, 1);
    if (ibv_req_notify_cq(cq, 0) != 0) fail("ibv_req_notify_cq");
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 1) {
      if (wc.status != IBV_WC_SUCCESS) fail("the transfer");
      ++completions;
    }
  }
  if (std::memcmp(objects.memory, objects.memory + kBytes, kBytes) != 0) fail("comparing bytes");
}

void destroy(Objects& objects) {
  int result = VERBENA_RESOLVE(ibv_dereg_mr)(objects.mr);
  for (ibv_qp* qp : objects.qp) result |= VERBENA_RESOLVE(ibv_destroy_qp)(qp);
  result |= VERBENA_RESOLVE(ibv_destroy_cq)(objects.cq);
  result |= VERBENA_RESOLVE(ibv_destroy_comp_channel)(objects.channel);
  result |= VERBENA_RESOLVE(ibv_dealloc_pd)(objects.pd);
  result |= VERBENA_RESOLVE(ibv_close_device)(objects.context);
  if (result != 0) fail("destroying the objects");
}

}  // namespace

int main(int argc, char** argv) {
  static Objects objects{};
  objects.context = open_device(argc > 1 ? argv[1] : "verbena0");
  make_objects(objects);
  connect_to(objects, objects.qp[0], objects.qp[1]);
  connect_to(objects, objects.qp[1], objects.qp[0]);
  send_message(objects);
  wait_for_message(objects);
  destroy(objects);
  std::puts("dlvsym_test: a message of 10000 bytes, announced by an event, is right");
}
