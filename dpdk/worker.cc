#include "dpdk/worker.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "stack/base/assert.h"

namespace verbena {
namespace {

constexpr uint32_t kBurst = 32;
constexpr uint32_t kBurstsPerRound = 2;
constexpr uint32_t kSendBudget = 64;  // packets per device and round
constexpr uint32_t kRoundsBeforeYield = 32;
constexpr DurationNs kMsInNs = 1'000'000;
constexpr int kLongestSleepMs = 60'000;

}  // namespace

Worker::Worker(const Policy& policy, const Clock& clock, abi::WorkerPage* page)
    : policy_(policy),
      clock_(clock),
      page_(page),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      verdicts_(kBurst) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  const bool ok =
      epoll_ && epoll_ctl(epoll_.value(), EPOLL_CTL_ADD, commands_.wake_fd(), &event) == 0;
  VERBENA_ASSERT(ok);
}

void Worker::add_device(Device* device, Port* port) {
  slots_.push_back({device, port, {}});
  if (port->wake_fd() >= 0) {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
    epoll_ctl(epoll_.value(), EPOLL_CTL_ADD, port->wake_fd(), &event);
  }
}

void Worker::attach(WorkerClient* client) {
  clients_.push_back(client);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = client}};
  epoll_ctl(epoll_.value(), EPOLL_CTL_ADD, client->kick_fd, &event);
}

void Worker::detach(WorkerClient* client) {
  std::erase(clients_, client);
  epoll_ctl(epoll_.value(), EPOLL_CTL_DEL, client->kick_fd, nullptr);
}

void Worker::run() {
  last_work_ = clock_.now();
  while (!stop_) {
    if (commands_.pending()) [[unlikely]] {
      note_activity();
      commands_.run_pending();
      if (stop_) break;  // idle() below would sleep first
    }
    const Timestamp now = clock_.now();
    if (round(now) != 0) {
      last_work_ = now;
      empty_rounds_ = 0;
      note_activity();
    } else if (++empty_rounds_ > kRoundsBeforeYield) {
      idle(now);
    }
  }
  while (commands_.pending()) commands_.run_pending();
}

// Returns how much was done; 0 = nothing.
uint32_t Worker::round(Timestamp now) {
  uint32_t done = 0;
  for (Slot& slot : slots_) done += receive(slot, now);
  done += ring_doorbells(now);
  for (Slot& slot : slots_) {
    if (slot.device->next_timeout() <= now) {
      slot.device->on_timeout(now);
      ++done;
    }
    done += slot.device->poll(now, *slot.port, kSendBudget);
    slot.port->flush(now);
    route_events(slot);
    if (slot.events.next_retry() <= now) [[unlikely]] {
      slot.events.retry(now);
    }
  }
  return done;
}

uint32_t Worker::receive(Slot& slot, Timestamp now) {
  std::array<rte_mbuf*, kBurst> mbufs;
  std::array<RxFrame, kBurst> frames;
  uint32_t total = 0;
  for (uint32_t burst = 0; burst < kBurstsPerRound; ++burst) {
    const uint32_t count = slot.port->rx_burst(mbufs);
    if (count == 0) break;
    for (uint32_t i = 0; i < count; ++i) {
      frames[i] = {rte_pktmbuf_mtod(mbufs[i], const uint8_t*), mbufs[i]->data_len,
                   slot.port->sender_of(*mbufs[i])};
    }
    const auto told = std::span(verdicts_).first(slot.port->captured() ? count : 0);
    slot.device->on_burst(std::span(frames).first(count), now, *slot.port, told);
    if (!told.empty()) [[unlikely]] {
      slot.port->received(std::span(mbufs).first(count), told);
    }
    rte_pktmbuf_free_bulk(mbufs.data(), count);
    total += count;
    if (count < kBurst) break;
  }
  return total;
}

uint32_t Worker::ring_doorbells(Timestamp now) {
  uint32_t rung = 0;
  for (WorkerClient* client : clients_) {
    Device& device = *slots_[client->device].device;
    client->doorbells->drain([&](uint32_t slot) {
      device.doorbell(client->id, slot, now);
      ++rung;
    });
  }
  return rung;
}

void Worker::route_events(Slot& slot) {
  while (const auto event = slot.device->poll_event()) slot.events.deliver(*event, clock_.now());
}

void Worker::idle(Timestamp now) {
  const bool sleepy = policy_.sleeps && now - last_work_ >= policy_.idle_ns && !work_waits();
  const Timestamp wake = sleepy ? next_wake() : 0;
  if (wake < now + kMsInNs) {
    sched_yield();
    return;
  }
  const auto ms =
      wake == kNever
          ? kLongestSleepMs
          : static_cast<int>(std::min<DurationNs>((wake - now) / kMsInNs, kLongestSleepMs));
  page_->sleeping.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Whoever rings after this look sees that we sleep, and kicks.
  if (commands_.prepare_sleep() && !work_waits()) wait(ms);
  page_->sleeping.store(0, std::memory_order_seq_cst);
  commands_.end_sleep();
}

bool Worker::work_waits() const {
  for (const Slot& slot : slots_) {
    // What cannot be sent for want of room waits for a frame in a port, or for next_wake().
    if ((slot.device->has_work() && slot.port->has_room()) || slot.port->busy()) return true;
  }
  return std::any_of(clients_.begin(), clients_.end(),
                     [](const WorkerClient* client) { return client->doorbells->any(); });
}

Timestamp Worker::next_wake() const {
  Timestamp wake = kNever;
  for (const Slot& slot : slots_) {
    wake = std::min(
        {wake, slot.device->next_timeout(), slot.port->next_flush(), slot.events.next_retry()});
  }
  return wake;
}

void Worker::wait(int timeout_ms) {
  std::array<epoll_event, 64> events;
  const int count =
      epoll_wait(epoll_.value(), events.data(), static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < count; ++i) {
    if (events[static_cast<size_t>(i)].data.ptr != nullptr) {
      take_kicks(static_cast<WorkerClient*>(events[static_cast<size_t>(i)].data.ptr));
    }
  }
}

// The client has the same eventfd: it may have taken the kicks itself, and made reading it wait.
void Worker::take_kicks(WorkerClient* client) {
  uint64_t kicks = 0;
  iovec iov{&kicks, sizeof kicks};
  if (preadv2(client->kick_fd, &iov, 1, -1, RWF_NOWAIT) < 0 && errno != EAGAIN) {
    epoll_ctl(epoll_.value(), EPOLL_CTL_DEL, client->kick_fd,
              nullptr);  // else it wakes us for ever
  }
}

}  // namespace verbena
