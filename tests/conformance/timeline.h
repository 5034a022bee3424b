// Timeline: one device with one connected queue pair, and a peer that the test speaks for.
//
// A scenario is a list of what happens, in order: the peer sends, the application posts, time
// passes, and the device is expected to send or to complete something. PSNs are relative: those of
// our requests and their answers to kSqPsn, those of the peer's requests and their answers to
// kRqPsn. expect_silence() at the end says that nothing else was sent, completed or reported.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "stack/wire/syndrome.h"
#include "tests/support/matchers.h"
#include "tests/support/packet_builder.h"
#include "tests/support/pair.h"

namespace verbena::test {

struct TimelineOptions {
  ConnectOptions connect{.sq_psn = 0x1000, .rq_psn = 0x5000};
  QpOptions qp{};
  QpState until = QpState::kRts;
  uint32_t window_packets = 512;
  uint32_t memory_bytes = 1 << 20;
};

class Timeline {
 public:
  static constexpr Qpn kPeerQpn = 0x77;
  static constexpr uint32_t kMtu = 1024;

  explicit Timeline(const TimelineOptions& options = {});

  // ---- The peer ----
  // Sends a packet and lets the device work.
  void peer(PacketFields fields);
  // Sends several at once: the device sees one burst.
  void peer_burst(std::vector<PacketFields> burst);
  void ack(uint32_t psn, uint32_t msn = 0);
  void nak(uint32_t psn, NakCode code);
  void rnr_nak(uint32_t psn, uint8_t timer);
  // Any frame.
  void peer_frame(std::vector<uint8_t> frame);
  std::vector<uint8_t> peer_packet(PacketFields fields) const;

  // ---- The application ----
  uint32_t post(const SendRequest& request);  // and rings
  // Shorthands; the bytes are those at offset kFrom of the memory.
  uint32_t post_send(uint32_t bytes, uint8_t flags = abi::kWrSignaled);
  uint32_t post_write(uint32_t bytes, uint8_t flags = abi::kWrSignaled);
  uint32_t post_read(uint32_t bytes, uint8_t flags = abi::kWrSignaled);
  uint32_t post_recv(uint32_t bytes);
  Status modify(QpState state, uint32_t extra_mask = 0, const abi::QpAttr& attr = {});

  // ---- Time ----
  // Lets time pass; timers fire when due.
  void pass(DurationNs duration);
  // Lets the device do what it can now.
  void settle();

  // ---- Why ----
  // The packet that was expected last was sent because of this.
  const TxNote& note() const { return note_; }
  // What became of the peer's last packet.
  const RxVerdict& verdict() const { return fabric.verdicts.back(); }

  // ---- What is expected ----
  void expect(const Expect& expected);  // the next packet sent; PSN relative
  void expect_ack(uint32_t psn, uint32_t msn);
  void expect_nak(uint32_t psn, NakCode code);
  void expect_rnr_nak(uint32_t psn, uint8_t timer);
  Wc expect_wc(uint32_t index, abi::WcStatus status = abi::WcStatus::kSuccess);
  void expect_recv(uint32_t index, uint32_t bytes);
  void expect_wc_error(uint32_t index, abi::WcStatus status, abi::VendorErr vendor,
                       bool recv = false);
  void expect_event(AsyncEventType type);
  void expect_silence();
  QpState state() const { return station.state(qp); }
  uint64_t dropped(DropReason reason) const { return station.dropped(reason); }

  static constexpr uint64_t kFrom = 0;        // our payloads
  static constexpr uint64_t kInto = 0x40000;  // receives, READs
  static constexpr uint64_t kPeerVa = 0x7000'0000'0000;
  static constexpr Key kPeerRkey = 0x4242;

  Fabric fabric;
  Station& station;
  ClientCq& cq;
  ClientQp& qp;
  ConnectOptions connect;

 private:
  void collect();
  uint32_t absolute(Opcode opcode, uint32_t psn, bool from_device) const;

  wire::Path from_peer_;
  std::deque<std::vector<uint8_t>> sent_;
  std::deque<TxNote> notes_;  // of sent_
  TxNote note_;
  std::deque<Wc> completed_;
  std::deque<DeviceEvent> events_;
};

}  // namespace verbena::test
