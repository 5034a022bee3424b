// EventRouter: takes a device's events to the sockets of its clients.
//
// A client that does not read fills its socket; then its events stay pending here and are tried
// again, with growing pauses. None is lost, none blocks, and nothing is allocated when an event
// comes: pending completions are a count, pending async events a bit mask.
//
// Polling thread only. Descriptors are owned by the control thread, which keeps them open until the
// object or client is removed.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "stack/abi/control.h"
#include "stack/base/result.h"
#include "stack/base/time.h"
#include "stack/events.h"

namespace verbena {

// Our end of a socket pair and the identity of the client's end.
struct EventSocket {
  int fd = -1;
  uint64_t client_cookie = 0;
};

class EventRouter {
 public:
  void add_client(ClientId client, EventSocket async);
  void remove_client(ClientId client) { clients_.erase(client); }

  void add_cq(ClientId client, CqId cq, uint64_t user_handle, std::optional<EventSocket> channel);
  void add_qp(ClientId client, Qpn qpn, uint64_t user_handle);
  void add_srq(ClientId client, SrqId srq, uint64_t user_handle);

  void deliver(const DeviceEvent& event, Timestamp now);

  // Tries the pending ones again, if their pause is over.
  void retry(Timestamp now);
  Timestamp next_retry() const { return next_retry_; }

  // Are these the client's ends of its async socket and of the CQ's channel (-1: not given)? EINVAL
  // if not.
  Status check_ends(ClientId client, CqId cq, int async_end, int channel_end) const;
  bool is_async_end(ClientId client, int fd) const;

  // Forgets an object. Its events that the client has not read yet are taken out of the sockets,
  // whose client ends (checked) are given; the counts tell how many were read. Other events keep
  // their order.
  abi::DestroyReply remove_cq(ClientId client, CqId cq, int async_end, int channel_end);
  abi::DestroyReply remove_qp(ClientId client, Qpn qpn, int async_end);
  abi::DestroyReply remove_srq(ClientId client, SrqId srq, int async_end);

 private:
  struct Object {
    uint64_t user_handle = 0;
    EventSocket channel;  // fd -1: none
    uint32_t completions_sent = 0;
    uint32_t asyncs_sent = 0;
    uint32_t completions_pending = 0;
    uint32_t asyncs_pending = 0;  // bit per AsyncEventType
  };
  using Objects = std::unordered_map<uint32_t, Object>;
  struct Client {
    EventSocket async;
    Objects cqs;
    Objects qps;
    Objects srqs;
  };

  static Objects& objects_of(Client& client, DeviceEvent::Kind kind);
  abi::DestroyReply remove(ClientId client, DeviceEvent::Kind kind, uint32_t number, int async_end);
  Object* find(const DeviceEvent& event, Client*& client);
  static void send_pending(Client& client, Object& object);
  static bool still_pending(const Object& object) {
    return object.completions_pending != 0 || object.asyncs_pending != 0;
  }
  bool retry_all();

  std::unordered_map<ClientId, Client> clients_;
  Timestamp next_retry_ = kNever;
  DurationNs pause_ns_ = 0;
};

}  // namespace verbena
