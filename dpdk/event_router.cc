#include "dpdk/event_router.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "dpdk/message.h"
#include "stack/base/assert.h"

namespace verbena {
namespace {

constexpr DurationNs kFirstPauseNs = 1'000'000;
constexpr DurationNs kLongestPauseNs = 64'000'000;

enum class SendResult { kSent, kFull, kGone };

SendResult send_event(int fd, const void* message, size_t bytes) {
  if (send(fd, message, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(bytes)) {
    return SendResult::kSent;
  }
  const bool later = errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM;
  return later ? SendResult::kFull : SendResult::kGone;
}

// The same number may be the user handle of objects of several kinds.
DeviceEvent::Kind kind_of(uint32_t type) {
  if (type == static_cast<uint32_t>(AsyncEventType::kCqErr)) return DeviceEvent::Kind::kCqAsync;
  if (type == static_cast<uint32_t>(AsyncEventType::kSrqLimitReached)) {
    return DeviceEvent::Kind::kSrqAsync;
  }
  return DeviceEvent::Kind::kQpAsync;
}

// Takes all messages of type T out of the client's end and sends back those that are not `ours`.
// There is room for them: this thread is the only sender, and they were in there before.
template <typename T, typename Predicate>
uint32_t purge(int client_end, int own_end, Predicate&& ours) {
  std::vector<T> others;
  uint32_t purged = 0;
  constexpr size_t kMostMessages = 65536;  // more than any socket buffer holds
  for (size_t i = 0; i < kMostMessages; ++i) {
    T message;
    const ssize_t got = recv(client_end, &message, sizeof message, MSG_DONTWAIT);
    if (got <= 0) break;
    if (got != sizeof message) continue;
    if (ours(message)) {
      ++purged;
    } else {
      others.push_back(message);
    }
  }
  for (const T& message : others) send_event(own_end, &message, sizeof message);
  return purged;
}

uint32_t purge_async(const EventSocket& socket, int client_end, uint64_t user_handle,
                     DeviceEvent::Kind kind) {
  return purge<abi::AsyncEvent>(client_end, socket.fd, [&](const abi::AsyncEvent& event) {
    return event.element == user_handle && kind_of(event.event_type) == kind;
  });
}

bool is_end_of(int fd, const EventSocket& socket) {
  return socket.client_cookie != 0 && socket_cookie(fd) == socket.client_cookie;
}

}  // namespace

void EventRouter::add_client(ClientId client, EventSocket async) {
  clients_[client].async = async;
}

void EventRouter::add_cq(ClientId client, CqId cq, uint64_t user_handle,
                         std::optional<EventSocket> channel) {
  Object object;
  object.user_handle = user_handle;
  if (channel) object.channel = *channel;
  clients_[client].cqs[cq] = object;
}

void EventRouter::add_qp(ClientId client, Qpn qpn, uint64_t user_handle) {
  Object object;
  object.user_handle = user_handle;
  clients_[client].qps[qpn] = object;
}

void EventRouter::add_srq(ClientId client, SrqId srq, uint64_t user_handle) {
  Object object;
  object.user_handle = user_handle;
  clients_[client].srqs[srq] = object;
}

EventRouter::Objects& EventRouter::objects_of(Client& client, DeviceEvent::Kind kind) {
  if (kind == DeviceEvent::Kind::kQpAsync) return client.qps;
  if (kind == DeviceEvent::Kind::kSrqAsync) return client.srqs;
  return client.cqs;
}

EventRouter::Object* EventRouter::find(const DeviceEvent& event, Client*& client) {
  const auto found = clients_.find(event.client);
  if (found == clients_.end()) return nullptr;
  client = &found->second;
  Objects& objects = objects_of(*client, event.kind);
  const auto object = objects.find(event.object);
  if (object == objects.end() || object->second.user_handle != event.user_handle) return nullptr;
  return &object->second;
}

void EventRouter::deliver(const DeviceEvent& event, Timestamp now) {
  Client* client = nullptr;
  Object* object = find(event, client);
  if (object == nullptr) return;  // destroyed meanwhile
  if (event.kind == DeviceEvent::Kind::kCompletion) {
    if (object->channel.fd >= 0) ++object->completions_pending;
  } else {
    object->asyncs_pending |= uint32_t{1} << static_cast<unsigned>(event.async);
  }
  send_pending(*client, *object);
  if (still_pending(*object) && next_retry_ == kNever) {
    pause_ns_ = kFirstPauseNs;
    next_retry_ = now + pause_ns_;
  }
}

void EventRouter::send_pending(Client& client, Object& object) {
  while (object.completions_pending != 0) {
    const auto result =
        send_event(object.channel.fd, &object.user_handle, sizeof object.user_handle);
    if (result == SendResult::kFull) break;
    --object.completions_pending;
    if (result == SendResult::kSent) ++object.completions_sent;
  }
  while (object.asyncs_pending != 0) {
    const auto type = static_cast<uint32_t>(__builtin_ctz(object.asyncs_pending));
    const abi::AsyncEvent message{object.user_handle, type, 0};
    const auto result = send_event(client.async.fd, &message, sizeof message);
    if (result == SendResult::kFull) break;
    object.asyncs_pending &= object.asyncs_pending - 1;
    if (result == SendResult::kSent) ++object.asyncs_sent;
  }
}

void EventRouter::retry(Timestamp now) {
  if (now < next_retry_) return;
  if (retry_all()) {
    pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
    next_retry_ = now + pause_ns_;
  } else {
    next_retry_ = kNever;
  }
}

bool EventRouter::retry_all() {
  bool pending = false;
  for (auto& [id, client] : clients_) {
    for (auto* objects : {&client.cqs, &client.qps, &client.srqs}) {
      for (auto& [key, object] : *objects) {
        if (!still_pending(object)) continue;
        send_pending(client, object);
        pending = pending || still_pending(object);
      }
    }
  }
  return pending;
}

bool EventRouter::is_async_end(ClientId client, int fd) const {
  const auto found = clients_.find(client);
  return found != clients_.end() && is_end_of(fd, found->second.async);
}

Status EventRouter::check_ends(ClientId client, CqId cq, int async_end, int channel_end) const {
  if (!is_async_end(client, async_end)) return Status(EINVAL);
  const auto& cqs = clients_.at(client).cqs;
  const auto found = cqs.find(cq);
  if (found == cqs.end()) return Status(EINVAL);
  if (channel_end >= 0 && !is_end_of(channel_end, found->second.channel)) return Status(EINVAL);
  return kOk;
}

abi::DestroyReply EventRouter::remove_cq(ClientId client, CqId cq, int async_end, int channel_end) {
  Client& owner = clients_[client];
  const Object object = owner.cqs[cq];
  owner.cqs.erase(cq);
  abi::DestroyReply reply{object.completions_sent, object.asyncs_sent};
  reply.async_events -=
      purge_async(owner.async, async_end, object.user_handle, DeviceEvent::Kind::kCqAsync);
  if (channel_end >= 0) {
    reply.comp_events -= purge<uint64_t>(channel_end, object.channel.fd, [&](uint64_t handle) {
      return handle == object.user_handle;
    });
  }
  return reply;
}

abi::DestroyReply EventRouter::remove(ClientId client, DeviceEvent::Kind kind, uint32_t number,
                                      int async_end) {
  Client& owner = clients_[client];
  Objects& objects = objects_of(owner, kind);
  const Object object = objects[number];
  objects.erase(number);
  abi::DestroyReply reply{0, object.asyncs_sent};
  reply.async_events -= purge_async(owner.async, async_end, object.user_handle, kind);
  return reply;
}

abi::DestroyReply EventRouter::remove_qp(ClientId client, Qpn qpn, int async_end) {
  return remove(client, DeviceEvent::Kind::kQpAsync, qpn, async_end);
}

abi::DestroyReply EventRouter::remove_srq(ClientId client, SrqId srq, int async_end) {
  return remove(client, DeviceEvent::Kind::kSrqAsync, srq, async_end);
}

}  // namespace verbena
