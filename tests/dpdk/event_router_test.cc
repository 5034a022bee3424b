// Events on their way to clients: none is lost when a socket is full, and a destroyed object leaves
// none behind.

#include "dpdk/event_router.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

#include "dpdk/message.h"

namespace verbena {
namespace {

constexpr ClientId kClient = 3;
constexpr Timestamp kMs = 1'000'000;

class EventRouterTest : public testing::Test {
 protected:
  EventRouterTest() {
    EXPECT_TRUE(make_socket_pair(async_, async_end_));
    EXPECT_TRUE(make_socket_pair(channel_, channel_end_));
    router_.add_client(kClient, {async_.value(), socket_cookie(async_end_.value())});
  }

  EventSocket channel() const { return {channel_.value(), socket_cookie(channel_end_.value())}; }

  void complete(CqId cq, uint64_t user_handle) {
    router_.deliver({DeviceEvent::Kind::kCompletion, {}, kClient, cq, user_handle}, now_);
  }
  void async_event(DeviceEvent::Kind kind, AsyncEventType type, uint32_t object, uint64_t handle) {
    router_.deliver({kind, type, kClient, object, handle}, now_);
  }

  template <typename T>
  static std::vector<T> read_all(int fd) {
    std::vector<T> all;
    T message;
    while (recv(fd, &message, sizeof message, MSG_DONTWAIT) == sizeof message) {
      all.push_back(message);
    }
    return all;
  }

  ForeignFd async_, channel_;
  UniqueFd async_end_, channel_end_;
  EventRouter router_;
  Timestamp now_ = 1;
};

TEST_F(EventRouterTest, CompletionCarriesUserHandle) {
  router_.add_cq(kClient, 1, 0xABCD, channel());
  complete(1, 0xABCD);
  EXPECT_EQ(read_all<uint64_t>(channel_end_.value()), std::vector<uint64_t>{0xABCD});
}

TEST_F(EventRouterTest, StaleAndUnknownEventsGoNowhere) {
  router_.add_cq(kClient, 1, 0xABCD, channel());
  router_.add_cq(kClient, 2, 5, {});
  complete(1, 0xDEAD);  // an earlier owner of the number
  complete(2, 5);       // no channel
  complete(9, 0xABCD);
  router_.deliver({DeviceEvent::Kind::kCompletion, {}, kClient + 1, 1, 0xABCD}, now_);
  EXPECT_TRUE(read_all<uint64_t>(channel_end_.value()).empty());
}

TEST_F(EventRouterTest, FullSocketKeepsEveryEventPending) {
  router_.add_cq(kClient, 1, 7, channel());
  constexpr size_t kEvents = 5000;
  for (size_t i = 0; i < kEvents; ++i) complete(1, 7);
  ASSERT_NE(router_.next_retry(), kNever);
  size_t seen = read_all<uint64_t>(channel_end_.value()).size();
  ASSERT_LT(seen, kEvents);
  for (int round = 0; round < 200 && router_.next_retry() != kNever; ++round) {
    now_ = router_.next_retry();
    router_.retry(now_);
    seen += read_all<uint64_t>(channel_end_.value()).size();
  }
  EXPECT_EQ(seen, kEvents);
  EXPECT_EQ(router_.next_retry(), kNever);
}

TEST_F(EventRouterTest, RetriesPauseLongerWhileTheClientSleeps) {
  router_.add_cq(kClient, 1, 7, channel());
  for (int i = 0; i < 5000; ++i) complete(1, 7);
  Timestamp pause = 0;
  for (int i = 0; i < 10; ++i) {
    const Timestamp next = router_.next_retry();
    EXPECT_GE(next - now_, pause);
    pause = next - now_;
    now_ = next;
    router_.retry(now_);
  }
  EXPECT_EQ(pause, 64 * kMs);
}

TEST_F(EventRouterTest, ClosedChannelDropsItsEvents) {
  router_.add_cq(kClient, 1, 7, channel());
  channel_end_.reset();
  complete(1, 7);
  EXPECT_EQ(router_.next_retry(), kNever);
  EXPECT_EQ(router_.remove_cq(kClient, 1, async_end_.value(), -1).comp_events, 0U);
}

TEST_F(EventRouterTest, AsyncEventHasTheLayoutThatLibibverbsReads) {
  router_.add_qp(kClient, 42, 0x1122334455667788);
  async_event(DeviceEvent::Kind::kQpAsync, AsyncEventType::kQpAccessErr, 42, 0x1122334455667788);
  const auto events = read_all<abi::AsyncEvent>(async_end_.value());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].element, 0x1122334455667788U);
  EXPECT_EQ(events[0].event_type, 3U);
  static_assert(sizeof(abi::AsyncEvent) == 16);
}

TEST_F(EventRouterTest, RemovingACqTakesBackItsUnreadEventsOnly) {
  router_.add_cq(kClient, 1, 100, channel());
  router_.add_cq(kClient, 2, 200, channel());
  complete(1, 100);
  complete(2, 200);
  uint64_t read = 0;
  ASSERT_EQ(recv(channel_end_.value(), &read, sizeof read, MSG_DONTWAIT), 8);
  EXPECT_EQ(read, 100U);
  complete(1, 100);
  complete(1, 100);
  complete(2, 200);
  async_event(DeviceEvent::Kind::kCqAsync, AsyncEventType::kCqErr, 1, 100);
  ASSERT_TRUE(router_.check_ends(kClient, 1, async_end_.value(), channel_end_.value()).ok());
  const auto reply = router_.remove_cq(kClient, 1, async_end_.value(), channel_end_.value());
  EXPECT_EQ(reply.comp_events, 1U);  // the one that was read
  EXPECT_EQ(reply.async_events, 0U);
  EXPECT_EQ(read_all<uint64_t>(channel_end_.value()), (std::vector<uint64_t>{200, 200}));
  EXPECT_TRUE(read_all<abi::AsyncEvent>(async_end_.value()).empty());
}

TEST_F(EventRouterTest, RemovingAQpLeavesTheCqEventOfTheSameHandle) {
  router_.add_cq(kClient, 1, 100, {});
  router_.add_qp(kClient, 5, 100);
  async_event(DeviceEvent::Kind::kCqAsync, AsyncEventType::kCqErr, 1, 100);
  async_event(DeviceEvent::Kind::kQpAsync, AsyncEventType::kQpFatal, 5, 100);
  EXPECT_EQ(router_.remove_qp(kClient, 5, async_end_.value()).async_events, 0U);
  const auto left = read_all<abi::AsyncEvent>(async_end_.value());
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].event_type, 0U);
}

TEST_F(EventRouterTest, SharedReceiveQueuesHaveEventsOfTheirOwn) {
  router_.add_qp(kClient, 5, 100);
  router_.add_srq(kClient, 5, 100);
  async_event(DeviceEvent::Kind::kQpAsync, AsyncEventType::kQpLastWqeReached, 5, 100);
  async_event(DeviceEvent::Kind::kSrqAsync, AsyncEventType::kSrqLimitReached, 5, 100);
  EXPECT_EQ(router_.remove_srq(kClient, 5, async_end_.value()).async_events, 0U);
  const auto left = read_all<abi::AsyncEvent>(async_end_.value());
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].event_type, 16U);
  async_event(DeviceEvent::Kind::kSrqAsync, AsyncEventType::kSrqLimitReached, 5, 100);
  EXPECT_TRUE(read_all<abi::AsyncEvent>(async_end_.value()).empty()) << "it is gone";
  EXPECT_EQ(router_.remove_qp(kClient, 5, async_end_.value()).async_events, 1U) << "it was read";
}

TEST_F(EventRouterTest, ForeignDescriptorsAreRefused) {
  ForeignFd other;
  UniqueFd other_end;
  ASSERT_TRUE(make_socket_pair(other, other_end));
  router_.add_cq(kClient, 1, 100, channel());
  EXPECT_EQ(router_.check_ends(kClient, 1, other.value(), -1).error(), EINVAL);
  EXPECT_EQ(router_.check_ends(kClient, 1, async_end_.value(), other.value()).error(), EINVAL);
  EXPECT_EQ(router_.check_ends(kClient, 1, STDIN_FILENO, -1).error(), EINVAL);
  EXPECT_EQ(router_.check_ends(kClient, 9, async_end_.value(), -1).error(), EINVAL);
  EXPECT_FALSE(router_.is_async_end(kClient + 1, async_end_.value()));
}

}  // namespace
}  // namespace verbena
