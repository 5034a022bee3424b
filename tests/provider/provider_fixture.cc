#include "tests/provider/provider_fixture.h"

#include <cstdlib>
#include <cstring>

#include "provider/preload/preload_api.h"

// Exported by libibverbs for programs that bring their own device.
extern "C" ibv_context* verbs_open_device(ibv_device* device, void* private_data);

namespace {

const verbena::rdma::DeviceOps* registered_ops;
verbena_create_channel_fn create_channel;
void* create_channel_context;

}  // namespace

extern "C" {

void verbs_register_driver_34(const verbena::rdma::DeviceOps* ops) {
  registered_ops = ops;
}

int verbena_preload_register(int, verbena_create_channel_fn function, void* context) {
  create_channel = function;
  create_channel_context = context;
  return 0;
}

void verbena_preload_unregister(int) {
  create_channel = nullptr;
}
}

namespace verbena::test {

const rdma::DeviceOps& device_ops() {
  return *registered_ops;
}

void ProviderTest::SetUp() {
  setenv("VERBENA_DIR", daemon_.directory().c_str(), 1);
  device_ = device_ops().alloc_device(nullptr);
  device_->ops = &device_ops();
  device_->refcount.store(1);
  std::strcpy(device_->device.name, "verbena7");
  sge_ = {reinterpret_cast<uint64_t>(buffer_), 64, 0x1234};
}

void ProviderTest::TearDown() {
  {
    const auto lock = daemon_.state();
    daemon_.errors.clear();
    daemon_.delivered = {};
  }
  destroy_all<ibv_qp>();
  destroy_all<ibv_srq>();
  destroy_all<ibv_ah>();
  destroy_all<ibv_cq>();
  destroy_all<ibv_comp_channel>();
  destroy_all<ibv_pd>();
  close();
  device_ops().uninit_device(device_);
}

ibv_context* ProviderTest::open() {
  context_ = verbs_open_device(&device_->device, nullptr);
  return context_;
}

void ProviderTest::close() {
  if (context_ != nullptr) ibv_close_device(context_);
  context_ = nullptr;
}

int ProviderTest::destroy(ibv_qp* qp) {
  return forget(qp, ibv_destroy_qp(qp));
}
int ProviderTest::destroy(ibv_cq* cq) {
  return forget(cq, ibv_destroy_cq(cq));
}
int ProviderTest::destroy(ibv_comp_channel* channel) {
  return forget(channel, ibv_destroy_comp_channel(channel));
}
int ProviderTest::destroy(ibv_pd* pd) {
  return forget(pd, ibv_dealloc_pd(pd));
}

int ProviderTest::destroy(ibv_srq* srq) {
  return forget(srq, ibv_destroy_srq(srq));
}
int ProviderTest::destroy(ibv_ah* ah) {
  return forget(ah, ibv_destroy_ah(ah));
}

ibv_pd* ProviderTest::make_pd() {
  if (context_ == nullptr && open() == nullptr) ADD_FAILURE() << strerror(errno);
  if (pd_ == nullptr) pd_ = keep(ibv_alloc_pd(context_));
  return pd_;
}

ibv_cq* ProviderTest::make_cq(int cqe, ibv_comp_channel* channel) {
  make_pd();
  ibv_cq* cq = keep(ibv_create_cq(context_, cqe, this, channel, 0));
  if (cq_ == nullptr) cq_ = cq;
  return cq;
}

ibv_comp_channel* ProviderTest::make_channel() {
  make_pd();
  const int fd = create_channel(create_channel_context);
  EXPECT_GE(fd, 0);
  auto* channel = static_cast<ibv_comp_channel*>(std::calloc(1, sizeof(ibv_comp_channel)));
  channel->context = context_;
  channel->fd = fd;
  return keep(channel);
}

ibv_srq* ProviderTest::make_srq(uint32_t wr, uint32_t sge) {
  make_pd();
  ibv_srq_init_attr attr{};
  attr.srq_context = this;
  attr.attr = {wr, sge, 0xDEAD};  // the limit means nothing here
  return keep(ibv_create_srq(pd_, &attr));
}

ibv_ah* ProviderTest::make_ah(uint8_t last_byte_of_dgid) {
  make_pd();
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid.raw[15] = last_byte_of_dgid;
  attr.grh.hop_limit = 64;
  attr.grh.traffic_class = 0x60;
  return keep(ibv_create_ah(pd_, &attr));
}

ibv_qp* ProviderTest::make_qp(const Caps& caps, uint64_t send_ops) {
  make_pd();
  if (cq_ == nullptr) make_cq();
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq_;
  attr.cap = {caps.send_wr, caps.recv_wr, caps.sge, caps.sge, caps.inline_data};
  attr.qp_type = caps.type;
  attr.srq = caps.srq;
  attr.pd = pd_;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  if (send_ops != 0) attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags = send_ops;
  return keep(ibv_create_qp_ex(context_, &attr));
}

int ProviderTest::modify_state(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void ProviderTest::to_rts(ibv_qp* qp) {
  EXPECT_EQ(modify_state(qp, IBV_QPS_INIT), 0);
  EXPECT_EQ(modify_state(qp, IBV_QPS_RTR), 0);
  EXPECT_EQ(modify_state(qp, IBV_QPS_RTS), 0);
}

int ProviderTest::post_send(ibv_qp* qp, uint64_t wr_id, ibv_wr_opcode opcode, unsigned flags) {
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge_;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = flags;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &wr, &bad);
}

int ProviderTest::post_recv(ibv_qp* qp, uint64_t wr_id) {
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge_;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

int ProviderTest::post_srq_recv(ibv_srq* srq, uint64_t wr_id) {
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge_;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(srq, &wr, &bad);
}

std::vector<ibv_wc> ProviderTest::poll(ibv_cq* cq, size_t count) {
  std::vector<ibv_wc> all;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (all.size() < count && std::chrono::steady_clock::now() < deadline) {
    ibv_wc wc;
    if (ibv_poll_cq(cq, 1, &wc) == 1) all.push_back(wc);
  }
  EXPECT_EQ(all.size(), count);
  return all;
}

std::shared_ptr<FakeCq> ProviderTest::fake(ibv_cq* cq) {
  const auto lock = daemon_.state();
  return daemon_.cqs.at(cq->handle);
}

std::shared_ptr<FakeQp> ProviderTest::fake(ibv_qp* qp) {
  const auto lock = daemon_.state();
  return daemon_.qps.at(qp->handle);
}

std::shared_ptr<FakeSrq> ProviderTest::fake(ibv_srq* srq) {
  const auto lock = daemon_.state();
  return daemon_.srqs.at(srq->handle);
}

}  // namespace verbena::test
