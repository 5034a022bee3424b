#include "tests/provider/fake_daemon.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace verbena::test {

namespace {

template <typename T>
T as(const std::vector<uint8_t>& body) {
  T value{};
  EXPECT_EQ(body.size(), sizeof value);
  std::memcpy(&value, body.data(), std::min(body.size(), sizeof value));
  return value;
}

template <typename T>
std::vector<uint8_t> bytes_of(const T& value) {
  std::vector<uint8_t> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::pair<int, int> socket_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) std::abort();
  return {fds[0], fds[1]};
}

int duplicate(int fd) {
  return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

uint32_t round_up(uint32_t value, uint32_t to) {
  return (value + to - 1) / to * to;
}

void close_fd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

}  // namespace

SharedRegion::SharedRegion(size_t size) : bytes(size) {
  fd = memfd_create("verbena-test", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) != 0) std::abort();
  void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) std::abort();
  base = static_cast<uint8_t*>(mapped);
}

SharedRegion::~SharedRegion() {
  munmap(base, bytes);
  close(fd);
}

abi::Cqe& FakeCq::entry(uint32_t index) {
  return reinterpret_cast<abi::Cqe*>(region->base + abi::kCqEntriesOffset)[index & (depth - 1)];
}

void FakeCq::push(uint32_t qpn, uint32_t wqe_index, abi::CqeKind kind, abi::WcStatus status) {
  abi::Cqe& cqe = entry(producer);
  cqe.timestamp_ns = 1000 + producer;
  cqe.wqe_index = wqe_index;
  cqe.qpn = qpn;
  cqe.byte_len = 64;
  cqe.imm_wire = 0;
  cqe.src_qpn = 0x77;
  cqe.opcode =
      static_cast<uint8_t>(kind == abi::kCqeSend ? abi::WcOpcode::kSend : abi::WcOpcode::kRecv);
  cqe.status = static_cast<uint8_t>(status);
  cqe.vendor_err = 0;
  cqe.flags = 0;
  cqe.kind = kind;
  cqe.sequence.store(++producer, std::memory_order_release);
}

const uint8_t* FakeQp::send_entry(uint32_t index) const {
  return region->base + layout.sq_offset + size_t{index & (layout.sq_depth - 1)} * layout.sq_stride;
}

const uint8_t* FakeQp::recv_entry(uint32_t index) const {
  return region->base + layout.rq_offset + size_t{index & (layout.rq_depth - 1)} * layout.rq_stride;
}

abi::SendWqe FakeQp::send_wqe(uint32_t index) const {
  abi::SendWqe wqe;
  std::memcpy(&wqe, send_entry(index), sizeof wqe);
  return wqe;
}

uint32_t FakeSrq::slot_at(uint32_t index) const {
  uint32_t number;
  const size_t entry = index & (layout.depth - 1);
  std::memcpy(&number, region->base + layout.index_offset + entry * sizeof number, sizeof number);
  return number;
}

const uint8_t* FakeSrq::slot(uint32_t number) const {
  return region->base + layout.slots_offset + size_t{number} * layout.stride;
}

FakeDaemon::FakeDaemon() {
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/control.sock", directory().c_str());
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener_, 8) != 0 || pipe2(stop_, O_CLOEXEC) != 0) {
    std::abort();
  }
  thread_ = std::thread([this] { serve(); });
}

FakeDaemon::~FakeDaemon() {
  die();
  close_fd(memory_fd);
  close_fd(stop_[0]);
  close_fd(stop_[1]);
}

void FakeDaemon::die() {
  if (!thread_.joinable()) return;
  const char byte = 0;
  if (write(stop_[1], &byte, 1) != 1) std::abort();
  thread_.join();
  close_events();
}

void FakeDaemon::close_events() {
  close_fd(async_fd_);
  close_fd(kick_fd_);
  for (int& fd : channels_) close_fd(fd);
  channels_.clear();
}

// One connection after the other: each test has one, or a second after the first has gone.
void FakeDaemon::serve() {
  int connection = -1;
  for (;;) {
    pollfd wait[2] = {{stop_[0], POLLIN, 0}, {connection >= 0 ? connection : listener_, POLLIN, 0}};
    poll(wait, 2, -1);
    if (wait[0].revents != 0) break;
    if (connection < 0) {
      connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    } else if (!serve_one(connection)) {
      close_fd(connection);
    }
  }
  close_fd(connection);
  close_fd(listener_);
}

bool FakeDaemon::serve_one(int connection) {
  std::vector<uint8_t> packet(abi::kMaxMessage);
  iovec part{packet.data(), packet.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(8 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  const ssize_t got = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  if (got < static_cast<ssize_t>(sizeof(abi::Request))) return false;
  std::vector<int> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    fds.resize((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(fds.data(), CMSG_DATA(c), fds.size() * sizeof(int));
  }
  abi::Request request;
  std::memcpy(&request, packet.data(), sizeof request);
  EXPECT_EQ(request.magic, abi::kMagic);
  EXPECT_EQ(request.abi_version, abi::kAbiVersion);
  EXPECT_EQ(request.body_bytes + sizeof request, static_cast<size_t>(got));
  const std::vector<uint8_t> body(packet.begin() + sizeof request, packet.begin() + got);

  const auto lock = state();
  ops.push_back(request.op);
  last_body = body;
  last_fd_count = fds.size();
  Reply reply;
  if (const auto error = errors.find(request.op); error != errors.end()) {
    reply.error = error->second;
  } else {
    reply = answer(request.op, body, fds);
  }
  for (int fd : fds) {
    if (fd != memory_fd) close(fd);
  }
  send_reply(connection, request.op, reply);
  return true;
}

void FakeDaemon::send_reply(int connection, abi::Op op, const Reply& reply) {
  const abi::Reply head{abi::kMagic, reply.error, op, static_cast<uint32_t>(reply.body.size())};
  iovec parts[2] = {{const_cast<abi::Reply*>(&head), sizeof head},
                    {const_cast<uint8_t*>(reply.body.data()), reply.body.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char space[CMSG_SPACE(8 * sizeof(int))] = {};
  const size_t fd_bytes = reply.fds.size() * sizeof(int);
  if (fd_bytes != 0) {
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(fd_bytes);
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fd_bytes);
    std::memcpy(CMSG_DATA(c), reply.fds.data(), fd_bytes);
  }
  EXPECT_GT(sendmsg(connection, &message, MSG_NOSIGNAL), 0);
  for (int fd : reply.fds) close(fd);
}

FakeDaemon::Reply FakeDaemon::answer(abi::Op op, const std::vector<uint8_t>& body,
                                     const std::vector<int>& fds) {
  switch (op) {
    case abi::Op::kOpenDevice:
      return open_device(fds);
    case abi::Op::kQueryPort: {
      abi::PortAttr port{};
      port.state = 4;
      port.max_mtu = port.active_mtu = 5;
      port.gid_tbl_len = 2;
      port.pkey_tbl_len = 1;
      port.max_msg_sz = 1U << 31;
      return {0, bytes_of(port), {}};
    }
    case abi::Op::kAllocPd:
      return {0, bytes_of(abi::Handle{next_handle_++, 0}), {}};
    case abi::Op::kRegMr:
    case abi::Op::kReregMr: {
      const uint32_t handle = next_handle_++;
      return {0, bytes_of(abi::RegMrReply{handle, handle << 8 | 1, handle << 8 | 2, 0}), {}};
    }
    case abi::Op::kCreateChannel:
      return create_channel();
    case abi::Op::kCreateCq:
      return create_cq(body);
    case abi::Op::kResizeCq:
      return resize_cq(body);
    case abi::Op::kDestroyCq:
      cqs.erase(as<abi::Handle>(body).handle);
      return {0, bytes_of(delivered), {}};
    case abi::Op::kCreateQp:
      return create_qp(body);
    case abi::Op::kModifyQp: {
      const auto change = as<abi::ModifyQp>(body);
      qps.at(change.handle)->changes.push_back(change);
      return {};
    }
    case abi::Op::kQueryQp:
      return {0, bytes_of(query_answer), {}};
    case abi::Op::kDestroyQp:
      qps.erase(as<abi::Handle>(body).handle);
      return {0, bytes_of(delivered), {}};
    case abi::Op::kCreateSrq:
      return create_srq(body);
    case abi::Op::kModifySrq: {
      const auto change = as<abi::ModifySrq>(body);
      srqs.at(change.handle)->changes.push_back(change);
      return {};
    }
    case abi::Op::kQuerySrq:
      return {0, bytes_of(srq_answer), {}};
    case abi::Op::kDestroySrq:
      EXPECT_EQ(fds.size(), 1U);
      srqs.erase(as<abi::Handle>(body).handle);
      return {0, bytes_of(delivered), {}};
    case abi::Op::kCreateAh:
      return create_ah(body);
    case abi::Op::kDestroyAh:
      ahs.erase(as<abi::Handle>(body).handle);
      return {};
    case abi::Op::kDeallocPd:
    case abi::Op::kDeregMr:
    case abi::Op::kAdmin:
      return {};
  }
  return {EINVAL, {}, {}};
}

FakeDaemon::Reply FakeDaemon::open_device(const std::vector<int>& fds) {
  EXPECT_EQ(fds.size(), 1U);
  close_fd(memory_fd);
  close_events();
  memory_fd = fds.at(0);
  const auto [async_here, async_there] = socket_pair();
  async_fd_ = async_here;
  kick_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  abi::OpenDeviceReply reply{};
  reply.limits.vendor_id = 0x1234;
  reply.limits.max_qp = 1000;
  reply.limits.max_sge = 16;
  reply.limits.max_ah = 11;
  reply.limits.max_srq = 12;
  reply.limits.max_srq_wr = 13;
  reply.limits.max_srq_sge = 14;
  std::snprintf(reply.limits.fw_ver, sizeof reply.limits.fw_ver, "1.2.3");
  return {0,
          bytes_of(reply),
          {duplicate(worker_.fd), duplicate(doorbells_.fd), async_there, duplicate(kick_fd_)}};
}

FakeDaemon::Reply FakeDaemon::create_channel() {
  const auto [here, there] = socket_pair();
  // Out of the way of the low numbers, which the client gets.
  channels_.push_back(fcntl(here, F_DUPFD_CLOEXEC, 200));
  close(here);
  return {0, bytes_of(abi::Handle{next_handle_++, 0}), {there}};
}

FakeDaemon::Reply FakeDaemon::create_cq(const std::vector<uint8_t>& body) {
  auto cq = std::make_shared<FakeCq>();
  cq->request = as<abi::CreateCq>(body);
  cq->depth = std::bit_ceil(cq->request.cqe);
  cq->region = std::make_unique<SharedRegion>(abi::kCqEntriesOffset + cq->depth * sizeof(abi::Cqe));
  const uint32_t handle = next_handle_++;
  cqs[handle] = cq;
  return {
      0, bytes_of(abi::CqReply{handle, cq->depth, cq->region->bytes}), {duplicate(cq->region->fd)}};
}

FakeDaemon::Reply FakeDaemon::resize_cq(const std::vector<uint8_t>& body) {
  const auto request = as<abi::ResizeCq>(body);
  auto old = cqs.at(request.handle);
  auto cq = std::make_shared<FakeCq>();
  cq->request = old->request;
  cq->depth = std::bit_ceil(request.cqe);
  cq->producer = old->producer;
  cq->region = std::make_unique<SharedRegion>(abi::kCqEntriesOffset + cq->depth * sizeof(abi::Cqe));
  const uint32_t consumer = old->header().consumer.load();
  if (old->producer - consumer > cq->depth) return {EINVAL, {}, {}};
  for (uint32_t i = consumer; i != old->producer; ++i) {
    std::memcpy(static_cast<void*>(&cq->entry(i)), &old->entry(i), sizeof(abi::Cqe));
  }
  cqs[request.handle] = cq;
  return {0,
          bytes_of(abi::CqReply{request.handle, cq->depth, cq->region->bytes}),
          {duplicate(cq->region->fd)}};
}

FakeDaemon::Reply FakeDaemon::create_qp(const std::vector<uint8_t>& body) {
  auto qp = std::make_shared<FakeQp>();
  qp->request = as<abi::CreateQp>(body);
  abi::QpLayout& layout = qp->layout;
  layout.handle = next_handle_++;
  layout.qpn = reuse_qpns ? next_qpn_ : next_qpn_++;
  layout.doorbell_slot = 70 + layout.handle;
  layout.max_send_wr = qp->request.max_send_wr;
  layout.max_recv_wr = qp->request.max_recv_wr;
  layout.max_send_sge = qp->request.max_send_sge;
  layout.max_recv_sge = qp->request.max_recv_sge;
  layout.max_inline_data = qp->request.max_inline_data;
  layout.sq_depth = std::bit_ceil(std::max(1U, layout.max_send_wr));
  layout.rq_depth = qp->request.srq != 0 ? 0 : std::bit_ceil(std::max(1U, layout.max_recv_wr));
  layout.sq_stride = round_up(64 + std::max(16 * layout.max_send_sge, layout.max_inline_data), 64);
  layout.rq_stride = round_up(16 + 16 * layout.max_recv_sge, 16);
  layout.sq_offset = abi::kQpRingsOffset;
  layout.rq_offset = layout.sq_offset + uint64_t{layout.sq_depth} * layout.sq_stride;
  layout.region_bytes = layout.rq_offset + uint64_t{layout.rq_depth} * layout.rq_stride;
  qp->region = std::make_unique<SharedRegion>(layout.region_bytes);
  qps[layout.handle] = qp;
  return {0, bytes_of(layout), {duplicate(qp->region->fd)}};
}

FakeDaemon::Reply FakeDaemon::create_srq(const std::vector<uint8_t>& body) {
  auto srq = std::make_shared<FakeSrq>();
  srq->request = as<abi::CreateSrq>(body);
  abi::SrqLayout& layout = srq->layout;
  layout.handle = next_handle_++;
  layout.max_wr = srq->request.max_wr;
  layout.max_sge = srq->request.max_sge;
  layout.depth = std::bit_ceil(std::max(1U, layout.max_wr));
  layout.stride = round_up(16 + 16 * layout.max_sge, 16);
  layout.index_offset = abi::kSrqIndexOffset;
  layout.slots_offset = layout.index_offset + round_up(4 * layout.depth, 64);
  layout.region_bytes = layout.slots_offset + uint64_t{layout.depth} * layout.stride;
  srq->region = std::make_unique<SharedRegion>(layout.region_bytes);
  if (unsound_srqs) layout.stride += 16;
  srqs[layout.handle] = srq;
  return {0, bytes_of(layout), {duplicate(srq->region->fd)}};
}

FakeDaemon::Reply FakeDaemon::create_ah(const std::vector<uint8_t>& body) {
  const uint32_t handle = next_handle_++;
  ahs[handle] = as<abi::CreateAh>(body);
  return {0, bytes_of(abi::Handle{handle, 0}), {}};
}

std::shared_ptr<FakeCq> FakeDaemon::only_cq() {
  EXPECT_EQ(cqs.size(), 1U);
  return cqs.begin()->second;
}

std::shared_ptr<FakeQp> FakeDaemon::only_qp() {
  EXPECT_EQ(qps.size(), 1U);
  return qps.begin()->second;
}

std::vector<uint32_t> FakeDaemon::drain_doorbells() {
  std::vector<uint32_t> rung;
  doorbells().drain([&](uint32_t slot) { rung.push_back(slot); });
  return rung;
}

int FakeDaemon::kicks() {
  uint64_t count = 0;
  return read(kick_fd_, &count, sizeof count) < 0 ? 0 : static_cast<int>(count);
}

void FakeDaemon::send_async(uint64_t element, uint32_t type) {
  const abi::AsyncEvent event{element, type, 0};
  EXPECT_EQ(send(async_fd_, &event, sizeof event, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof event));
}

void FakeDaemon::send_completion_event(uint64_t user_handle) {
  EXPECT_EQ(send(channels_.back(), &user_handle, sizeof user_handle, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof user_handle));
}

}  // namespace verbena::test
