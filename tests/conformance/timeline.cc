#include "tests/conformance/timeline.h"

#include <gtest/gtest.h>

#include "stack/qp/qp_state.h"
#include "stack/wire/describe.h"
#include "stack/wire/syndrome.h"

namespace verbena::test {
namespace {

DeviceConfig config_of(const TimelineOptions& options) {
  DeviceConfig config = small_config(1);
  config.window_packets = options.window_packets;
  return config;
}

}  // namespace

Timeline::Timeline(const TimelineOptions& options)
    : station(fabric.add(config_of(options), options.memory_bytes)),
      cq(station.add_cq(256, true, 0xC0)),
      qp(station.add_qp(options.qp, &cq)),
      connect(options.connect) {
  const DeviceConfig peer = small_config(2);
  station.connect(qp, peer.gids[0], kPeerQpn, connect, fabric.now, options.until);
  from_peer_.source_mac = peer.mac;
  from_peer_.dest_mac = station.device.config().mac;
  from_peer_.source_gid = peer.gids[0];
  from_peer_.dest_gid = station.device.config().gids[0];
  station.memory.fill(station.va(kFrom), 0x20000, 1);
}

// Requests of a side use its own PSNs; answers those of the requests.
uint32_t Timeline::absolute(Opcode opcode, uint32_t psn, bool from_device) const {
  const bool ours = opcode_info(opcode).is_response() != from_device;
  return (psn + (ours ? connect.sq_psn : connect.rq_psn)) & Psn::kMask;
}

std::vector<uint8_t> Timeline::peer_packet(PacketFields fields) const {
  fields.psn = absolute(fields.opcode, fields.psn, false);
  return build_packet(from_peer_, qp.qpn(), fields);
}

void Timeline::peer_frame(std::vector<uint8_t> frame) {
  fabric.inject(0, std::move(frame));
  settle();
}

void Timeline::peer(PacketFields fields) {
  peer_frame(peer_packet(fields));
}

void Timeline::peer_burst(std::vector<PacketFields> burst) {
  for (const PacketFields& fields : burst) fabric.inject(0, peer_packet(fields));
  settle();
}

void Timeline::ack(uint32_t psn, uint32_t msn) {
  peer({.opcode = Opcode::kAcknowledge, .psn = psn, .msn = msn});
}

void Timeline::nak(uint32_t psn, NakCode code) {
  peer({.opcode = Opcode::kAcknowledge, .psn = psn, .syndrome = nak_syndrome(code)});
}

void Timeline::rnr_nak(uint32_t psn, uint8_t timer) {
  peer({.opcode = Opcode::kAcknowledge, .psn = psn, .syndrome = rnr_syndrome(timer)});
}

uint32_t Timeline::post(const SendRequest& request) {
  const uint32_t index = qp.post_send(request);
  qp.ring(fabric.now);
  settle();
  return index;
}

uint32_t Timeline::post_send(uint32_t bytes, uint8_t flags) {
  return post({.flags = flags, .sges = {station.sge(kFrom, bytes)}});
}

uint32_t Timeline::post_write(uint32_t bytes, uint8_t flags) {
  return post({.opcode = abi::WrOpcode::kWrite,
               .flags = flags,
               .sges = {station.sge(kFrom, bytes)},
               .rkey = kPeerRkey,
               .remote_va = kPeerVa});
}

uint32_t Timeline::post_read(uint32_t bytes, uint8_t flags) {
  return post({.opcode = abi::WrOpcode::kRead,
               .flags = flags,
               .sges = {station.sge(kInto, bytes)},
               .rkey = kPeerRkey,
               .remote_va = kPeerVa});
}

uint32_t Timeline::post_recv(uint32_t bytes) {
  const uint32_t index = qp.post_recv(std::vector{station.sge(kInto, bytes)});
  qp.ring_if_flushing(fabric.now);
  settle();
  return index;
}

Status Timeline::modify(QpState state, uint32_t extra_mask, const abi::QpAttr& attr) {
  abi::QpAttr with_state = attr;
  with_state.qp_state = static_cast<uint32_t>(state);
  const Status status = station.modify(qp, with_state, kAttrState | extra_mask, fabric.now);
  settle();
  return status;
}

void Timeline::pass(DurationNs duration) {
  fabric.drive_until(fabric.now + duration);
  collect();
}

void Timeline::settle() {
  while (fabric.step()) {
  }
  collect();
}

void Timeline::collect() {
  for (auto& frame : fabric.sent) sent_.push_back(std::move(frame));
  fabric.sent.clear();
  notes_.insert(notes_.end(), fabric.notes.begin(), fabric.notes.end());
  fabric.notes.clear();
  while (const auto wc = cq.poll()) completed_.push_back(*wc);
  for (const DeviceEvent& event : station.take_events()) events_.push_back(event);
}

void Timeline::expect(const Expect& expected) {
  collect();
  ASSERT_FALSE(sent_.empty()) << "nothing was sent";
  const std::vector<uint8_t> frame = std::move(sent_.front());
  sent_.pop_front();
  note_ = notes_.front();
  notes_.pop_front();
  const auto packet = parse_good(frame);
  ASSERT_TRUE(packet);
  Expect wanted = expected;
  wanted.dest_qpn = kPeerQpn;
  if (wanted.psn) *wanted.psn = absolute(static_cast<Opcode>(packet->opcode), *wanted.psn, true);
  EXPECT_EQ(mismatch(wanted, *packet), "");
}

void Timeline::expect_ack(uint32_t psn, uint32_t msn) {
  expect({.opcode = Opcode::kAcknowledge, .psn = psn, .syndrome = kAckNoCredits, .msn = msn});
}

void Timeline::expect_nak(uint32_t psn, NakCode code) {
  expect({.opcode = Opcode::kAcknowledge, .psn = psn, .syndrome = nak_syndrome(code)});
}

void Timeline::expect_rnr_nak(uint32_t psn, uint8_t timer) {
  expect({.opcode = Opcode::kAcknowledge, .psn = psn, .syndrome = rnr_syndrome(timer)});
}

Wc Timeline::expect_wc(uint32_t index, abi::WcStatus status) {
  collect();
  if (completed_.empty()) {
    ADD_FAILURE() << "nothing was completed";
    return {};
  }
  const Wc wc = completed_.front();
  completed_.pop_front();
  EXPECT_EQ(wc.wqe_index, index);
  EXPECT_EQ(wc.status, status);
  EXPECT_EQ(wc.qpn, qp.qpn());
  return wc;
}

void Timeline::expect_recv(uint32_t index, uint32_t bytes) {
  const Wc wc = expect_wc(index);
  EXPECT_TRUE(wc.recv);
  EXPECT_EQ(wc.byte_len, bytes);
  EXPECT_EQ(wc.src_qpn, kPeerQpn);
}

void Timeline::expect_wc_error(uint32_t index, abi::WcStatus status, abi::VendorErr vendor,
                               bool recv) {
  const Wc wc = expect_wc(index, status);
  EXPECT_EQ(wc.vendor, vendor);
  EXPECT_EQ(wc.recv, recv);
}

void Timeline::expect_event(AsyncEventType type) {
  collect();
  ASSERT_FALSE(events_.empty()) << "no event";
  EXPECT_EQ(events_.front().async, type);
  events_.pop_front();
}

void Timeline::expect_silence() {
  collect();
  for (const auto& frame : sent_) ADD_FAILURE() << "sent: " << wire::describe(frame);
  for (const Wc& wc : completed_) {
    ADD_FAILURE() << "completed: " << (wc.recv ? "recv " : "send ") << wc.wqe_index << " status "
                  << static_cast<int>(wc.status);
  }
  for (const DeviceEvent& event : events_) {
    ADD_FAILURE() << "event " << static_cast<int>(event.async);
  }
  EXPECT_EQ(station.memory.out_of_range(), 0U);
}

}  // namespace verbena::test
