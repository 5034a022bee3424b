// A context of the provider on a fake daemon, opened through the stock libibverbs.
//
// The provider is compiled into the test. Two library functions are answered by the test itself:
// verbs_register_driver_34 (to get at the provider's device operations without /sys and /dev) and
// verbena_preload_register (to get at the callback that makes completion channels).
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <tuple>
#include <vector>

#include "provider/rdma_core_abi.h"
#include "tests/provider/fake_daemon.h"

namespace verbena::test {

const rdma::DeviceOps& device_ops();

class ProviderTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Null with errno, as ibv_open_device.
  ibv_context* open();
  void close();

  ibv_pd* make_pd();
  ibv_cq* make_cq(int cqe = 16, ibv_comp_channel* channel = nullptr);
  // What ibv_create_comp_channel does with the preload library's help.
  ibv_comp_channel* make_channel();
  struct Caps {
    uint32_t send_wr = 4;
    uint32_t recv_wr = 4;
    uint32_t sge = 2;
    uint32_t inline_data = 32;
    ibv_srq* srq = nullptr;
    ibv_qp_type type = IBV_QPT_RC;
  };
  ibv_qp* make_qp(const Caps& caps, uint64_t send_ops = 0);
  ibv_qp* make_qp() { return make_qp(Caps()); }
  // TearDown() destroys what a test has made and not destroyed itself, in the right order.
  template <typename Object>
  Object* keep(Object* object) {
    if (object != nullptr) objects<Object>().push_back(object);
    return object;
  }
  int destroy(ibv_qp* qp);
  int destroy(ibv_cq* cq);
  int destroy(ibv_comp_channel* channel);
  int destroy(ibv_pd* pd);
  ibv_srq* make_srq(uint32_t wr = 4, uint32_t sge = 2);
  int destroy(ibv_srq* srq);
  ibv_ah* make_ah(uint8_t last_byte_of_dgid);
  int destroy(ibv_ah* ah);
  // Through INIT and RTR to RTS: nothing but the states counts here.
  void to_rts(ibv_qp* qp);
  int modify_state(ibv_qp* qp, ibv_qp_state state);
  int post_send(ibv_qp* qp, uint64_t wr_id, ibv_wr_opcode opcode = IBV_WR_SEND,
                unsigned flags = IBV_SEND_SIGNALED);
  int post_recv(ibv_qp* qp, uint64_t wr_id);
  int post_srq_recv(ibv_srq* srq, uint64_t wr_id);
  // Polls until `count` completions have come; fails the test after two seconds.
  std::vector<ibv_wc> poll(ibv_cq* cq, size_t count);

  std::shared_ptr<FakeCq> fake(ibv_cq* cq);
  std::shared_ptr<FakeQp> fake(ibv_qp* qp);
  std::shared_ptr<FakeSrq> fake(ibv_srq* srq);

  template <typename Object>
  std::vector<Object*>& objects() {
    return std::get<std::vector<Object*>>(objects_);
  }
  template <typename Object>
  int forget(Object* object, int error) {
    if (error == 0) std::erase(objects<Object>(), object);
    return error;
  }
  template <typename Object>
  void destroy_all() {
    while (!objects<Object>().empty()) {
      ASSERT_EQ(destroy(objects<Object>().back()), 0);
    }
  }

  FakeDaemon daemon_;
  rdma::DeviceBase* device_ = nullptr;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  uint8_t buffer_[4096] = {};
  ibv_sge sge_{};
  std::tuple<std::vector<ibv_qp*>, std::vector<ibv_srq*>, std::vector<ibv_ah*>,
             std::vector<ibv_cq*>, std::vector<ibv_comp_channel*>, std::vector<ibv_pd*>>
      objects_;
};

}  // namespace verbena::test
