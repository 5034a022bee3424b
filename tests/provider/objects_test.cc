// Opening, attributes, memory registration and control calls of the provider.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/provider/provider_fixture.h"

namespace verbena::test {
namespace {

using DeviceTest = ProviderTest;
using MrTest = ProviderTest;
using QpControlTest = ProviderTest;
using CqControlTest = ProviderTest;
using ForkTest = ProviderTest;

TEST_F(DeviceTest, MatchesOnlyDirectoriesWithTheDaemonsMark) {
  rdma::SysfsDevice found{};
  std::snprintf(found.ibdev_path, sizeof found.ibdev_path, "%s", daemon_.directory().c_str());
  EXPECT_FALSE(device_ops().match_device(&found));
  std::ofstream(daemon_.directory() + "/verbena") << "verbena7\n";
  EXPECT_TRUE(device_ops().match_device(&found));
}

TEST_F(DeviceTest, OpenNamesTheDeviceAndPassesItsMemory) {
  ASSERT_NE(open(), nullptr);
  const auto lock = daemon_.state();
  ASSERT_EQ(daemon_.ops, std::vector{abi::Op::kOpenDevice});
  EXPECT_STREQ(reinterpret_cast<const char*>(daemon_.last_body.data()), "verbena7");
  std::strcpy(reinterpret_cast<char*>(buffer_), "seen from outside");
  char copy[32] = {};
  EXPECT_EQ(pread(daemon_.memory_fd, copy, sizeof copy,
                  static_cast<off_t>(reinterpret_cast<uintptr_t>(buffer_))),
            static_cast<ssize_t>(sizeof copy));
  EXPECT_STREQ(copy, "seen from outside");
}

TEST_F(DeviceTest, OpenWithoutDaemonSaysConnectionRefused) {
  daemon_.die();
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(errno, ECONNREFUSED);
}

TEST_F(DeviceTest, OpenWithoutInstanceDirectorySaysNoEntry) {
  setenv("VERBENA_DIR", (daemon_.directory() + "/none").c_str(), 1);
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(DeviceTest, DirectoryOpenToOthersIsRefused) {
  ASSERT_EQ(chmod(daemon_.directory().c_str(), 0750), 0);
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(errno, EPERM);
}

TEST_F(DeviceTest, SymbolicLinkAsDirectoryIsRefused) {
  const std::string link = daemon_.directory() + "/link";
  std::filesystem::create_directory_symlink(daemon_.directory(), link);
  setenv("VERBENA_DIR", link.c_str(), 1);
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(errno, ENOTDIR);
}

TEST_F(DeviceTest, RefusalOfTheDaemonIsReported) {
  {
    const auto lock = daemon_.state();
    daemon_.errors[abi::Op::kOpenDevice] = EPROTO;
  }
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(errno, EPROTO);
}

TEST_F(DeviceTest, ClosingLeavesNoDescriptorBehind) {
  const auto count_fds = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = count_fds();
  for (int i = 0; i < 30; ++i) {
    ASSERT_NE(open(), nullptr);
    close();
  }
  // The fake daemon lives in this process and closes its ends of the last connection when it gets
  // to it.
  EXPECT_LT(count_fds(), before + 10);
}

TEST_F(DeviceTest, QueryDeviceKeepsToTheCallersSize) {
  ASSERT_NE(open(), nullptr);
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_EQ(attr.vendor_id, 0x1234U);
  EXPECT_EQ(attr.max_qp, 1000);
  EXPECT_STREQ(attr.fw_ver, "1.2.3");
  EXPECT_EQ(attr.phys_port_cnt, 1);
  EXPECT_EQ(attr.max_ah, 11);
  EXPECT_EQ(attr.max_srq, 12);
  EXPECT_EQ(attr.max_srq_wr, 13);
  EXPECT_EQ(attr.max_srq_sge, 14);

  ibv_device_attr_ex extended;
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &extended), 0);
  EXPECT_EQ(extended.hca_core_clock, 1000000U);

  // A library that is older than ours passes fewer bytes.
  std::vector<uint8_t> room(sizeof(ibv_device_attr_ex), 0xEE);
  const size_t size = sizeof(ibv_device_attr) + 16;
  verbs_context* full = verbs_get_ctx(context_);
  ASSERT_EQ(full->query_device_ex(context_, nullptr,
                                  reinterpret_cast<ibv_device_attr_ex*>(room.data()), size),
            0);
  EXPECT_EQ(std::memcmp(room.data(), &extended, size), 0);
  for (size_t i = size; i < room.size(); ++i) ASSERT_EQ(room[i], 0xEE) << i;
}

TEST_F(DeviceTest, QueryPortAnswersForPortOneOnly) {
  ASSERT_NE(open(), nullptr);
  ibv_port_attr attr;
  ASSERT_EQ(ibv_query_port(context_, 1, &attr), 0);
  EXPECT_EQ(attr.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(attr.gid_tbl_len, 2);
  EXPECT_EQ(attr.flags, IBV_QPF_GRH_REQUIRED);
  EXPECT_EQ(ibv_query_port(context_, 2, &attr), EINVAL);
}

class Pages {
 public:
  explicit Pages(size_t count, int protection = PROT_READ | PROT_WRITE)
      : bytes_(count * 4096),
        base_(static_cast<uint8_t*>(
            mmap(nullptr, bytes_, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(base_, bytes_); }
  uint8_t* operator+(size_t offset) { return base_ + offset; }
  uint8_t* base() { return base_; }

 private:
  size_t bytes_;
  uint8_t* base_;
};

constexpr int kRw = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

TEST_F(MrTest, RegistrationCarriesRangeAndKeys) {
  ibv_mr* mr = ibv_reg_mr(make_pd(), buffer_ + 5, 100, kRw | IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_NE(mr, nullptr);
  abi::RegMr sent;
  {
    const auto lock = daemon_.state();
    std::memcpy(&sent, daemon_.last_body.data(), sizeof sent);
  }
  EXPECT_EQ(sent.va, reinterpret_cast<uint64_t>(buffer_ + 5));
  EXPECT_EQ(sent.iova, sent.va);
  EXPECT_EQ(sent.length, 100U);
  EXPECT_EQ(sent.pd, pd_->handle);
  EXPECT_EQ(sent.access, static_cast<uint32_t>(kRw)) << "hints stay here";
  EXPECT_EQ(mr->lkey, mr->handle << 8 | 1);
  EXPECT_EQ(mr->rkey, mr->handle << 8 | 2);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

int registration_error(ibv_pd* pd, void* addr, size_t length, int access) {
  errno = 0;
  ibv_mr* mr = ibv_reg_mr(pd, addr, length, access);
  if (mr != nullptr) ibv_dereg_mr(mr);
  return mr != nullptr ? 0 : errno;
}

TEST_F(MrTest, OnlyMemoryThatTheProgramCouldUseIsRegistered) {
  make_pd();
  Pages pages(4);
  EXPECT_EQ(registration_error(pd_, pages.base(), 4 * 4096, kRw), 0);
  mprotect(pages + 4096, 4096, PROT_READ);
  EXPECT_EQ(registration_error(pd_, pages.base(), 4 * 4096, kRw), EFAULT);
  EXPECT_EQ(registration_error(pd_, pages.base(), 4 * 4096, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(registration_error(pd_, pages.base(), 4096, kRw), 0) << "ends before that page";
  EXPECT_EQ(registration_error(pd_, pages.base(), 4097, kRw), EFAULT) << "reaches into it";
  mprotect(pages + 4096, 4096, PROT_NONE);
  EXPECT_EQ(registration_error(pd_, pages.base(), 4 * 4096, 0), EFAULT);
  munmap(pages + 4096, 4096);
  EXPECT_EQ(registration_error(pd_, pages.base(), 4 * 4096, 0), EFAULT);
  EXPECT_EQ(registration_error(pd_, nullptr, 1, 0), EFAULT);
}

TEST_F(MrTest, ArgumentsAreCheckedAsTheKernelDoes) {
  make_pd();
  EXPECT_EQ(registration_error(pd_, buffer_, 0, 0), EINVAL);
  EXPECT_EQ(registration_error(pd_, buffer_, SIZE_MAX, 0), EINVAL);
  EXPECT_EQ(registration_error(pd_, buffer_, 8, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(registration_error(pd_, buffer_, 8, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_EQ(registration_error(pd_, buffer_, 8, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr_iova(pd_, buffer_, 8, reinterpret_cast<uint64_t>(buffer_) + 1, 0), nullptr);
  EXPECT_EQ(errno, EINVAL) << "the offset within the page must agree";
}

TEST_F(MrTest, ReregistrationSendsWhatChangesAndWhatStays) {
  ibv_mr* mr = ibv_reg_mr(make_pd(), buffer_, 64, kRw);
  ASSERT_NE(mr, nullptr);
  const auto sent = [&] {
    abi::ReregMr body;
    const auto lock = daemon_.state();
    std::memcpy(&body, daemon_.last_body.data(), sizeof body);
    return body;
  };
  const uint32_t first_handle = mr->handle;
  ASSERT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, buffer_ + 128, 32, 0), 0);
  EXPECT_EQ(sent().handle, first_handle);
  EXPECT_EQ(sent().mr.va, reinterpret_cast<uint64_t>(buffer_ + 128));
  EXPECT_EQ(sent().mr.access, static_cast<uint32_t>(kRw));
  EXPECT_EQ(mr->rkey, mr->handle << 8 | 2) << "new keys";

  ASSERT_EQ(
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(sent().mr.access, static_cast<uint32_t>(IBV_ACCESS_REMOTE_READ));
  EXPECT_EQ(sent().mr.length, 32U);

  ibv_pd* other = keep(ibv_alloc_pd(context_));
  ASSERT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(sent().mr.pd, other->handle);
  EXPECT_EQ(mr->pd, other);

  EXPECT_EQ(
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
      IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(CqControlTest, LimitsAndKindsAreChecked) {
  make_pd();
  EXPECT_EQ(ibv_create_cq(context_, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context_, 4, nullptr, nullptr, 1), nullptr);
  EXPECT_EQ(errno, EINVAL) << "one completion vector";
  ibv_comp_channel foreign{context_, 0, 0};
  EXPECT_EQ(ibv_create_cq(context_, 4, nullptr, &foreign, 0), nullptr);
  EXPECT_EQ(errno, EINVAL) << "a channel that the daemon did not make";
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 4;
  attr.wc_flags = IBV_WC_EX_WITH_CVLAN;
  EXPECT_EQ(ibv_create_cq_ex(context_, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(CqControlTest, ChannelIsFoundByItsDescriptor) {
  ibv_comp_channel* first = make_channel();
  ibv_comp_channel* second = make_channel();
  ibv_cq* cq = make_cq(4, second);
  ASSERT_NE(cq, nullptr);
  const uint32_t second_handle = fake(cq)->request.channel;
  ibv_cq* other = make_cq(4, first);
  EXPECT_EQ(fake(other)->request.channel, second_handle - 1) << "handles count up";
  EXPECT_EQ(fake(cq)->request.user_handle, reinterpret_cast<uint64_t>(cq));
  EXPECT_EQ(destroy(cq), 0);
  {
    const auto lock = daemon_.state();
    EXPECT_EQ(daemon_.last_fd_count, 2U) << "async and channel";
  }
  EXPECT_EQ(destroy(other), 0);

  // The number of a closed channel is reused for the next.
  const int number = second->fd;
  EXPECT_EQ(destroy(second), 0);
  ibv_comp_channel* third = make_channel();
  ASSERT_EQ(third->fd, number);
  cq = make_cq(4, third);
  EXPECT_GT(fake(cq)->request.channel, second_handle);
  EXPECT_EQ(destroy(cq), 0);
  EXPECT_EQ(destroy(first), 0);
  EXPECT_EQ(destroy(third), 0);
}

TEST_F(CqControlTest, QueueInUseIsBusy) {
  ibv_qp* qp = make_qp();
  EXPECT_EQ(destroy(cq_), EBUSY);
  EXPECT_EQ(destroy(qp), 0);
  EXPECT_EQ(destroy(cq_), 0);
}

TEST_F(QpControlTest, CreationCarriesTheLimitsBothWays) {
  ibv_qp* qp = make_qp({.send_wr = 10, .recv_wr = 3, .sge = 4, .inline_data = 236});
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->qp_num, fake(qp)->layout.qpn);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(fake(qp)->request.max_inline_data, 236U);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  {
    const auto lock = daemon_.state();
    daemon_.query_answer.qp_state = IBV_QPS_RTS;
    daemon_.query_answer.sq_psn = 0xABCDEF;
    daemon_.query_answer.ah_dgid[15] = 9;
  }
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.sq_psn, 0xABCDEFU);
  EXPECT_EQ(attr.ah_attr.grh.dgid.raw[15], 9);
  EXPECT_EQ(init.cap.max_send_wr, 10U);
  EXPECT_EQ(init.send_cq, cq_);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
}

TEST_F(QpControlTest, OtherTransportsAndOperationsAreNotSupported) {
  make_cq();
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq_;
  for (ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND}) {
    attr.qp_type = type;
    EXPECT_EQ(ibv_create_qp(pd_, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP) << type;
  }
  EXPECT_EQ(make_qp({}, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(QpControlTest, ModifySendsOnlyTheFieldsOfTheMask) {
  ibv_qp* qp = make_qp();
  ibv_qp_attr attr;
  std::memset(&attr, 0xA5, sizeof attr);  // as an application that clears nothing
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
  abi::QpAttr expected{};
  expected.qp_state = IBV_QPS_INIT;
  expected.port_num = 1;
  const abi::ModifyQp sent = fake(qp)->changes.at(0);
  EXPECT_EQ(std::memcmp(&sent.attr, &expected, sizeof expected), 0);
  EXPECT_EQ(sent.attr_mask, static_cast<uint32_t>(IBV_QP_STATE | IBV_QP_PORT));
}

TEST_F(QpControlTest, RefusedChangeLeavesTheStateAsItWas) {
  ibv_qp* qp = make_qp();
  to_rts(qp);
  {
    const auto lock = daemon_.state();
    daemon_.errors[abi::Op::kModifyQp] = EINVAL;
  }
  EXPECT_EQ(modify_state(qp, IBV_QPS_RESET), EINVAL);
  EXPECT_EQ(post_send(qp, 1), 0);
}

TEST_F(QpControlTest, UnsoundLayoutFromTheDaemonIsRefused) {
  ibv_qp* qp = make_qp();
  ASSERT_NE(qp, nullptr);
  // One send entry more than the stride holds: the fake daemon computes strides from max_send_sge,
  // and 2^27 of them wrap its 32-bit stride to nearly nothing.
  EXPECT_EQ(make_qp({.send_wr = 1, .recv_wr = 1, .sge = 1U << 28, .inline_data = 0}), nullptr);
  EXPECT_EQ(errno, EPROTO);
  const auto lock = daemon_.state();
  EXPECT_EQ(daemon_.qps.size(), 1U) << "what the daemon had made is destroyed again";
}

// The parent's conversation with the daemon is not the child's business.
TEST_F(ForkTest, ChildGetsErrorsAndTheParentGoesOn) {
  ibv_qp* qp = make_qp();
  size_t before;
  {
    const auto lock = daemon_.state();
    before = daemon_.ops.size();
  }
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = ibv_alloc_pd(context_) == nullptr && errno == EIO;
    const bool cleans_up = destroy(qp) == 0 && destroy(cq_) == 0 && destroy(pd_) == 0 &&
                           ibv_close_device(context_) == 0;
    _exit(refused && cleans_up ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  {
    const auto lock = daemon_.state();
    EXPECT_EQ(daemon_.ops.size(), before);
  }
  to_rts(qp);
  EXPECT_EQ(post_send(qp, 5), 0);
  EXPECT_EQ(destroy(qp), 0);
}

}  // namespace
}  // namespace verbena::test
