#include "dpdk/client.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>

#include "dpdk/log.h"

namespace verbena {
namespace {

// Then it is the next client's turn.
constexpr int kMessagesPerTurn = 16;
constexpr std::chrono::milliseconds kLongestTurn{2};
constexpr size_t kMaxChannels = 1024;  // per client
constexpr uint32_t kMaxChannelNumber = (1U << 24) - 1;

bool reserved_zero(const ReceivedMessage& message, uint32_t body_offset) {
  if (body_offset == 0) return true;
  uint32_t value;
  std::memcpy(&value, message.bytes.data() + sizeof(abi::Request) + body_offset, sizeof value);
  return value == 0;
}

}  // namespace

Client::Client(uint64_t serial, ForeignFd socket, UniqueFd pidfd, PeerIdentity peer, Daemon& daemon,
               ClientHost& host)
    : serial_(serial),
      socket_(std::move(socket)),
      pidfd_(std::move(pidfd)),
      peer_(peer),
      daemon_(daemon),
      host_(host) {}

Client::~Client() {
  if (!open()) return;
  on_worker([this](Device& device) {
    daemon_.worker.detach(&worker_client_);
    device.detach_client(id());
    daemon_.worker.events(device_index()).remove_client(id());
  });
  log::info("process {} has left {}", peer_.pid, daemon_.devices[device_index()].identity.name);
}

std::span<const Client::Operation> Client::operations() {
  using abi::Op;
  constexpr uint32_t kHandleReserved = offsetof(abi::Handle, reserved);
  constexpr uint32_t kModifySrqReserved =
      offsetof(abi::ModifySrq, attr) + offsetof(abi::SrqAttr, reserved);
  static constexpr Operation kOperations[] = {
      {Op::kOpenDevice, sizeof(abi::OpenDevice), 1, 1, 0, &Client::open_device},
      {Op::kQueryPort, 0, 0, 0, 0, &Client::query_port},
      {Op::kAllocPd, 0, 0, 0, 0, &Client::alloc_pd},
      {Op::kDeallocPd, sizeof(abi::Handle), 0, 0, kHandleReserved, &Client::dealloc_pd},
      {Op::kRegMr, sizeof(abi::RegMr), 0, 0, 0, &Client::reg_mr},
      {Op::kDeregMr, sizeof(abi::Handle), 0, 0, kHandleReserved, &Client::dereg_mr},
      {Op::kReregMr, sizeof(abi::ReregMr), 0, 0, 0, &Client::rereg_mr},
      {Op::kCreateChannel, 0, 0, 0, 0, &Client::create_channel},
      {Op::kCreateCq, sizeof(abi::CreateCq), 0, 0, 0, &Client::create_cq},
      {Op::kResizeCq, sizeof(abi::ResizeCq), 0, 0, 0, &Client::resize_cq},
      {Op::kDestroyCq, sizeof(abi::Handle), 1, 2, kHandleReserved, &Client::destroy_cq},
      {Op::kCreateQp, sizeof(abi::CreateQp), 0, 0, offsetof(abi::CreateQp, reserved),
       &Client::create_qp},
      {Op::kModifyQp, sizeof(abi::ModifyQp), 0, 0, 0, &Client::modify_qp},
      {Op::kQueryQp, sizeof(abi::Handle), 0, 0, kHandleReserved, &Client::query_qp},
      {Op::kDestroyQp, sizeof(abi::Handle), 1, 1, kHandleReserved, &Client::destroy_qp},
      {Op::kCreateSrq, sizeof(abi::CreateSrq), 0, 0, 0, &Client::create_srq},
      {Op::kModifySrq, sizeof(abi::ModifySrq), 0, 0, kModifySrqReserved, &Client::modify_srq},
      {Op::kQuerySrq, sizeof(abi::Handle), 0, 0, kHandleReserved, &Client::query_srq},
      {Op::kDestroySrq, sizeof(abi::Handle), 1, 1, kHandleReserved, &Client::destroy_srq},
      {Op::kCreateAh, sizeof(abi::CreateAh), 0, 0, 0, &Client::create_ah},
      {Op::kDestroyAh, sizeof(abi::Handle), 0, 0, kHandleReserved, &Client::destroy_ah},
  };
  return kOperations;
}

bool Client::serve() {
  ReceivedMessage message;
  const auto end = std::chrono::steady_clock::now() + kLongestTurn;
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    if (i > 0 && std::chrono::steady_clock::now() > end) return true;
    switch (receive_message(socket_.value(), message)) {
      case ReceiveResult::kNothing:
        return true;
      case ReceiveResult::kClosed:
        return false;
      case ReceiveResult::kBroken:
        log::warn("process {}: dropped, its message is too large or has too many descriptors",
                  peer_.pid);
        return false;
      case ReceiveResult::kMessage:
        if (!handle(message)) return false;
        break;
    }
  }
  return true;
}

bool Client::phase_allows(abi::Op op) const {
  if (op == abi::Op::kOpenDevice) return phase_ == Phase::kNew;
  if (op == abi::Op::kAdmin) return phase_ != Phase::kDevice;
  return phase_ == Phase::kDevice;
}

bool Client::handle(const ReceivedMessage& message) {
  abi::Request request;
  if (message.size < sizeof request) return false;
  std::memcpy(&request, message.bytes.data(), sizeof request);
  if (request.magic != abi::kMagic || message.size - sizeof request != request.body_bytes) {
    return false;
  }
  if (request.abi_version != abi::kAbiVersion) {
    Answer refusal;
    refusal.error = EPROTO;
    reply(request.op, refusal);
    return false;
  }
  if (!phase_allows(request.op)) return false;
  if (request.op == abi::Op::kAdmin) return handle_admin(message, request.body_bytes);
  for (const Operation& operation : operations()) {
    if (operation.op != request.op) continue;
    if (request.body_bytes != operation.body_bytes || message.fd_count < operation.min_fds ||
        message.fd_count > operation.max_fds || !reserved_zero(message, operation.reserved_at)) {
      return false;
    }
    Answer answer;
    try {
      (this->*operation.handle)(message, answer);
    } catch (const std::bad_alloc&) {
      answer.set(Status(ENOMEM));
    }
    return reply(request.op, answer);
  }
  return false;
}

bool Client::reply(abi::Op op, const Answer& answer) {
  std::array<uint8_t, sizeof(abi::Reply) + sizeof(Answer::body)> bytes;
  const bool ok = answer.error == 0;
  const abi::Reply head{abi::kMagic, static_cast<uint32_t>(answer.error), op,
                        ok ? answer.body_bytes : 0};
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, answer.body.data(), head.body_bytes);
  const auto fds = ok ? std::span<const int>(answer.fds) : std::span<const int>();
  if (send_message(socket_.value(), {bytes.data(), sizeof head + head.body_bytes}, fds)) {
    return true;
  }
  log::warn("process {}: dropped, it does not take its replies", peer_.pid);
  return false;
}

bool Client::handle_admin(const ReceivedMessage& message, uint32_t body_bytes) {
  if (message.fd_count != 0) return false;
  phase_ = Phase::kAdmin;
  const auto* text = reinterpret_cast<const char*>(message.bytes.data() + sizeof(abi::Request));
  auto memory = text_memfd(host_.admin({text, body_bytes}));
  Answer answer;
  if (memory.ok()) {
    answer.fds = {memory->value()};
  } else {
    answer.error = memory.error();
  }
  return reply(abi::Op::kAdmin, answer);
}

// ---- Opening ----

namespace {

abi::DeviceLimits limits_of(const DeviceIdentity& identity, const DeviceConfig& config) {
  abi::DeviceLimits limits{};
  const auto guid = identity.guid();
  std::memcpy(&limits.node_guid, guid.data(), guid.size());
  limits.sys_image_guid = limits.node_guid;
  limits.max_mr_size = config.max_mr_size;
  limits.vendor_id = identity.vendor_id;
  limits.vendor_part_id = identity.part_id;
  limits.hw_ver = kHwVersion;
  limits.max_qp = config.max_qp;
  limits.max_qp_wr = config.max_qp_wr;
  limits.max_sge = config.max_sge;
  limits.max_cq = config.max_cq;
  limits.max_cqe = config.max_cqe;
  limits.max_mr = config.max_mr;
  limits.max_pd = config.max_pd;
  limits.max_qp_rd_atom = config.max_rd_atomic;
  limits.max_qp_init_rd_atom = config.max_rd_atomic;
  limits.max_inline_data = config.max_inline_data;
  limits.max_ah = config.max_ah;
  limits.max_srq = config.max_srq;
  limits.max_srq_wr = config.max_qp_wr;
  limits.max_srq_sge = config.max_sge;
  limits.max_pkeys = kPkeyTableLen;
  limits.gid_tbl_len = kGidTableLen;
  std::strncpy(limits.fw_ver, VERBENA_VERSION, sizeof limits.fw_ver - 1);
  return limits;
}

}  // namespace

void Client::open_device(const ReceivedMessage& message, Answer& answer) {
  auto body = body_of<abi::OpenDevice>(message);
  if (std::memchr(body.device_name, 0, sizeof body.device_name) == nullptr) {
    return answer.set(Status(EINVAL));
  }
  uint32_t index = 0;
  while (index < daemon_.devices.size() &&
         daemon_.devices[index].identity.name != body.device_name) {
    ++index;
  }
  if (index == daemon_.devices.size()) return answer.set(Status(ENODEV));
  const int memory_fd = message.fds[0].value();
  if (const auto status = check_memory_fd(memory_fd, peer_.pid); !status.ok()) {
    return answer.set(status);
  }
  auto doorbells = SharedRegion::create("verbena-doorbells", sizeof(abi::DoorbellPage),
                                        SharedRegion::ClientAccess::kReadWrite);
  if (!doorbells.ok()) return answer.set(doorbells.status());
  UniqueFd memory(fcntl(memory_fd, F_DUPFD_CLOEXEC, 0));
  if (!memory || !make_socket_pair(async_, answer.given)) return answer.set(Status(errno));
  kick_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!kick_) return answer.set(Status(errno));
  memory_ = std::make_unique<ProcMemory>(std::move(memory));
  async_cookie_ = socket_cookie(answer.given.value());
  doorbells_ = std::move(*doorbells);
  worker_client_.device = index;
  worker_client_.doorbells = reinterpret_cast<abi::DoorbellPage*>(doorbells_.base());
  worker_client_.kick_fd = kick_.value();
  const auto attached = on_worker([&](Device& device) -> Status {
    const auto id = device.attach_client(*memory_);
    if (!id.ok()) return id.status();
    worker_client_.id = *id;
    phase_ = Phase::kDevice;  // whatever fails from here on, there is something to detach
    daemon_.worker.events(index).add_client(*id, {async_.value(), async_cookie_});
    daemon_.worker.attach(&worker_client_);
    return kOk;
  });
  if (!attached.ok()) {
    log::warn("{} was refused to a program: {}", daemon_.devices[index].identity.name,
              std::strerror(attached.error()));
    return answer.set(attached);
  }
  const auto& slot = daemon_.devices[index];
  answer.set(abi::OpenDeviceReply{limits_of(slot.identity, slot.device->config()),
                                  static_cast<uint32_t>(getpid()), 0});
  answer.fds = {daemon_.worker_page.fd(), doorbells_.fd(), answer.given.value(), kick_.value()};
  log::info("process {} has opened {}", peer_.pid, slot.identity.name);
}

void Client::query_port(const ReceivedMessage&, Answer& answer) {
  constexpr uint32_t kActive = 4;  // IBV_PORT_ACTIVE
  constexpr uint32_t kLinkUp = 5;
  constexpr uint32_t kEdr = 32;  // 25 Gb/s a lane
  constexpr uint32_t kWidth4 = 2;
  const DeviceConfig& config = device().config();
  abi::PortAttr port{};
  port.state = kActive;
  port.phys_state = kLinkUp;
  port.max_mtu = static_cast<uint32_t>(PathMtu::k4096);
  port.active_mtu = static_cast<uint32_t>(config.active_mtu);
  port.gid_tbl_len = kGidTableLen;
  port.pkey_tbl_len = kPkeyTableLen;
  port.max_msg_sz = config.max_msg_bytes;
  port.active_speed = kEdr;
  port.active_width = kWidth4;
  answer.set(port);
}

// ---- Protection domains and memory ----

void Client::alloc_pd(const ReceivedMessage&, Answer& answer) {
  const auto pd = on_worker([this](Device& device) { return device.alloc_pd(id()); });
  if (!pd.ok()) return answer.set(pd.status());
  answer.set(abi::Handle{*pd, 0});
}

void Client::dealloc_pd(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::Handle>(message);
  answer.set(on_worker([&](Device& device) { return device.dealloc_pd(id(), body.handle); }));
}

namespace {

MrSpec mr_spec(const abi::RegMr& body) {
  return {body.pd, body.access, body.va, body.length, body.iova};
}
abi::RegMrReply mr_reply(const MrKeys& keys) {
  return {keys.handle, keys.lkey, keys.rkey, 0};
}

}  // namespace

void Client::reg_mr(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::RegMr>(message);
  const auto keys = on_worker([&](Device& device) { return device.reg_mr(id(), mr_spec(body)); });
  if (!keys.ok()) return answer.set(keys.status());
  answer.set(mr_reply(*keys));
}

void Client::dereg_mr(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::Handle>(message);
  answer.set(on_worker([&](Device& device) { return device.dereg_mr(id(), body.handle); }));
}

void Client::rereg_mr(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::ReregMr>(message);
  const auto keys = on_worker([&](Device& device) {
    return device.rereg_mr(id(), body.handle, body.flags, mr_spec(body.mr));
  });
  if (!keys.ok()) return answer.set(keys.status());
  answer.set(mr_reply(*keys));
}

// ---- Address handles ----

void Client::create_ah(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::CreateAh>(message);
  const auto ah = on_worker([&](Device& device) { return device.create_ah(id(), body); });
  if (!ah.ok()) return answer.set(ah.status());
  answer.set(abi::Handle{*ah, 0});
}

void Client::destroy_ah(const ReceivedMessage& message, Answer& answer) {
  const auto body = body_of<abi::Handle>(message);
  answer.set(on_worker([&](Device& device) { return device.destroy_ah(id(), body.handle); }));
}

// ---- Completion channels ----

void Client::create_channel(const ReceivedMessage&, Answer& answer) {
  if (channels_.size() >= kMaxChannels) return answer.set(Status(EMFILE));
  Channel channel;
  if (!make_socket_pair(channel.fd, answer.given)) return answer.set(Status(errno));
  channel.client_cookie = socket_cookie(answer.given.value());
  do {
    last_channel_ = last_channel_ % kMaxChannelNumber + 1;
  } while (channels_.contains(last_channel_));
  host_.watch_channel(serial_, last_channel_, channel.fd.value());
  channels_[last_channel_] = std::move(channel);
  answer.set(abi::Handle{last_channel_, 0});
  answer.fds = {answer.given.value()};
}

int Client::channel_fd(uint32_t channel) const {
  const auto found = channels_.find(channel);
  return found == channels_.end() ? -1 : found->second.fd.value();
}

void Client::channel_closed(uint32_t channel) {
  const auto found = channels_.find(channel);
  if (found == channels_.end()) return;
  found->second.closed = true;
  if (found->second.users == 0) channels_.erase(found);
}

void Client::release_channel(uint32_t channel) {
  const auto found = channels_.find(channel);
  if (found == channels_.end()) return;
  if (--found->second.users == 0 && found->second.closed) channels_.erase(found);
}

}  // namespace verbena
