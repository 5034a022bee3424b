// Client, continued: the objects with rings in shared memory: completion queues, queue pairs and
// shared receive queues.
//
// A region is mapped here before the engine learns of it and unmapped after the engine has let go.

#include <cerrno>

#include "dpdk/client.h"

namespace verbena {
namespace {

Region region_of(const SharedRegion& shared) {
  return {shared.base(), shared.bytes()};
}

}  // namespace

Result<Client::Rings> Client::make_rings(const char* name, uint64_t bytes) {
  auto loan = daemon_.ring_budget.lend(bytes, ring_account_);
  if (!loan.ok()) return loan.status();
  auto memory = SharedRegion::create(name, bytes, SharedRegion::ClientAccess::kReadWrite);
  if (!memory.ok()) return memory.status();
  return Rings{std::move(*loan), std::move(*memory)};
}

void Client::give(Rings& rings, Answer& answer) {
  answer.given = rings.memory.take_fd();
  answer.fds = {answer.given.value()};
}

void Client::create_cq(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::CreateCq>(message);
  std::optional<EventSocket> channel;
  if (body.channel != 0) {
    const auto found = channels_.find(body.channel);
    if (found == channels_.end()) return answer.set(Status(EINVAL));
    channel = EventSocket{found->second.fd.value(), found->second.client_cookie};
  }
  const auto depth = on_worker([&](Device& device) { return device.cq_depth(body.cqe); });
  if (!depth.ok()) return answer.set(depth.status());
  auto rings = make_rings("verbena-cq", Device::cq_region_bytes(*depth));
  if (!rings.ok()) return answer.set(rings.status());
  const auto cq = on_worker([&](Device& device) {
    const auto made = device.create_cq(
        id(), {body.user_handle, *depth, channel.has_value(), region_of(rings->memory)});
    if (made.ok()) {
      daemon_.worker.events(device_index()).add_cq(id(), *made, body.user_handle, channel);
    }
    return made;
  });
  if (!cq.ok()) return answer.set(cq.status());
  if (body.channel != 0) ++channels_[body.channel].users;
  answer.set(abi::CqReply{*cq, *depth, rings->memory.bytes()});
  give(*rings, answer);
  cqs_[*cq] = {std::move(*rings), body.channel};
}

void Client::resize_cq(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::ResizeCq>(message);
  const auto found = cqs_.find(body.handle);
  if (found == cqs_.end()) return answer.set(Status(EINVAL));
  const auto depth = on_worker([&](Device& device) { return device.cq_depth(body.cqe); });
  if (!depth.ok()) return answer.set(depth.status());
  auto rings = make_rings("verbena-cq", Device::cq_region_bytes(*depth));
  if (!rings.ok()) return answer.set(rings.status());
  const auto resized = on_worker([&](Device& device) {
    return device.resize_cq(id(), body.handle, *depth, region_of(rings->memory));
  });
  if (!resized.ok()) return answer.set(resized);
  answer.set(abi::CqReply{body.handle, *depth, rings->memory.bytes()});
  give(*rings, answer);
  found->second.rings = std::move(*rings);
}

void Client::destroy_cq(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::Handle>(message);
  const auto found = cqs_.find(body.handle);
  if (found == cqs_.end()) return answer.set(Status(EINVAL));
  const int async_end = message.fds[0].value();
  const int channel_end = message.fd_count > 1 ? message.fds[1].value() : -1;
  abi::DestroyReply delivered{};
  const auto destroyed = on_worker([&](Device& device) {
    EventRouter& events = daemon_.worker.events(device_index());
    if (const auto status = events.check_ends(id(), body.handle, async_end, channel_end);
        !status.ok()) {
      return status;
    }
    // What the device has ready is sent first: afterwards nothing of this object is under way.
    daemon_.worker.route_events(device_index());
    if (const auto status = device.destroy_cq(id(), body.handle); !status.ok()) return status;
    delivered = events.remove_cq(id(), body.handle, async_end, channel_end);
    return kOk;
  });
  if (!destroyed.ok()) return answer.set(destroyed);
  answer.set(delivered);
  if (found->second.channel != 0) release_channel(found->second.channel);
  cqs_.erase(found);
}

void Client::create_qp(const ReceivedMessage& message, Answer& answer) {
  auto body = body_of<abi::CreateQp>(message);
  if (body.sq_sig_all > 1) return answer.set(Status(EINVAL));
  // A number that is no QpType keeps its value below 256, so the engine sees what was asked.
  if (body.qp_type > UINT8_MAX) return answer.set(Status(EINVAL));
  // With a shared receive queue these limits mean nothing (man page of ibv_create_qp).
  if (body.srq != 0) body.max_recv_wr = body.max_recv_sge = 0;
  auto layout = on_worker([&](Device& device) { return device.qp_layout(body); });
  if (!layout.ok()) return answer.set(layout.status());
  auto rings = make_rings("verbena-qp", layout->region_bytes);
  if (!rings.ok()) return answer.set(rings.status());
  QpSpec spec;
  spec.user_handle = body.user_handle;
  spec.type = static_cast<QpType>(body.qp_type);
  spec.pd = body.pd;
  spec.send_cq = body.send_cq;
  spec.recv_cq = body.recv_cq;
  spec.srq = body.srq;
  spec.sq_sig_all = body.sq_sig_all != 0;
  spec.layout = *layout;
  spec.region = region_of(rings->memory);
  auto made = on_worker([&](Device& device) {
    auto created = device.create_qp(id(), spec);
    if (created.ok()) {
      daemon_.worker.events(device_index()).add_qp(id(), created->qpn, body.user_handle);
    }
    return created;
  });
  if (!made.ok()) return answer.set(made.status());
  layout->handle = made->qpn;
  layout->qpn = made->qpn;
  layout->doorbell_slot = made->doorbell_slot;
  layout->region_bytes = rings->memory.bytes();
  answer.set(*layout);
  give(*rings, answer);
  qps_[made->qpn] = std::move(*rings);
}

void Client::modify_qp(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::ModifyQp>(message);
  answer.set(on_worker([&](Device& device) {
    return device.modify_qp(id(), body.handle, body.attr, body.attr_mask, daemon_.worker.now());
  }));
}

void Client::query_qp(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::Handle>(message);
  const auto attr = on_worker([&](Device& device) { return device.query_qp(id(), body.handle); });
  if (!attr.ok()) return answer.set(attr.status());
  answer.set(*attr);
}

void Client::destroy_qp(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::Handle>(message);
  const auto found = qps_.find(body.handle);
  if (found == qps_.end()) return answer.set(Status(EINVAL));
  const int async_end = message.fds[0].value();
  abi::DestroyReply delivered{};
  const auto destroyed = on_worker([&](Device& device) {
    EventRouter& events = daemon_.worker.events(device_index());
    if (!events.is_async_end(id(), async_end)) return Status(EINVAL);
    daemon_.worker.route_events(device_index());
    if (const auto status = device.destroy_qp(id(), body.handle); !status.ok()) return status;
    delivered = events.remove_qp(id(), body.handle, async_end);
    return kOk;
  });
  if (!destroyed.ok()) return answer.set(destroyed);
  answer.set(delivered);
  qps_.erase(found);
}

void Client::create_srq(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::CreateSrq>(message);
  auto layout = on_worker([&](Device& device) { return device.srq_layout(body); });
  if (!layout.ok()) return answer.set(layout.status());
  auto rings = make_rings("verbena-srq", layout->region_bytes);
  if (!rings.ok()) return answer.set(rings.status());
  SrqSpec spec;
  spec.user_handle = body.user_handle;
  spec.pd = body.pd;
  spec.limit = body.srq_limit;
  spec.layout = *layout;
  spec.region = region_of(rings->memory);
  const auto srq = on_worker([&](Device& device) {
    const auto made = device.create_srq(id(), spec);
    if (made.ok()) daemon_.worker.events(device_index()).add_srq(id(), *made, body.user_handle);
    return made;
  });
  if (!srq.ok()) return answer.set(srq.status());
  layout->handle = *srq;
  layout->region_bytes = rings->memory.bytes();
  answer.set(*layout);
  give(*rings, answer);
  srqs_[*srq] = std::move(*rings);
}

void Client::modify_srq(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::ModifySrq>(message);
  answer.set(on_worker([&](Device& device) {
    return device.modify_srq(id(), body.handle, body.attr, body.attr_mask);
  }));
}

void Client::query_srq(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::Handle>(message);
  const auto attr = on_worker([&](Device& device) { return device.query_srq(id(), body.handle); });
  if (!attr.ok()) return answer.set(attr.status());
  answer.set(*attr);
}

void Client::destroy_srq(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::Handle>(message);
  const auto found = srqs_.find(body.handle);
  if (found == srqs_.end()) return answer.set(Status(EINVAL));
  const int async_end = message.fds[0].value();
  abi::DestroyReply delivered{};
  const auto destroyed = on_worker([&](Device& device) {
    EventRouter& events = daemon_.worker.events(device_index());
    if (!events.is_async_end(id(), async_end)) return Status(EINVAL);
    daemon_.worker.route_events(device_index());
    if (const auto status = device.destroy_srq(id(), body.handle); !status.ok()) return status;
    delivered = events.remove_srq(id(), body.handle, async_end);
    return kOk;
  });
  if (!destroyed.ok()) return answer.set(destroyed);
  answer.set(delivered);
  srqs_.erase(found);
}

}  // namespace verbena
