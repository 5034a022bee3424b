// A conformance case: a capture, and what Verbena is to be in it. docs/conformance.md describes the
// file format key by key; this is the same in C++.
//
// Numbers of packets are those of the capture's frames, from 1, as Wireshark counts. Times are
// nanoseconds after the first frame that the case uses. QPNs, keys and addresses are those of the
// capture: the runner translates between them and the engine's own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stack/abi/cqe.h"
#include "stack/abi/wqe.h"
#include "stack/base/time.h"
#include "stack/events.h"
#include "stack/types.h"

namespace verbena::conformance {

// When something happens: at a time, or with a packet of the capture.
struct When {
  enum class Kind : uint8_t { kStart, kBefore, kAfter, kAt };
  Kind kind = Kind::kStart;
  uint32_t packet = 0;  // kBefore, kAfter
  DurationNs at = 0;    // kAt
};

// Bytes, described.
struct Data {
  enum class Kind : uint8_t { kZero, kHex, kPattern, kPackets };
  Kind kind = Kind::kZero;
  std::vector<uint8_t> bytes;     // kHex
  uint32_t seed = 0;              // kPattern
  std::vector<uint32_t> packets;  // kPackets: their payloads, one behind the other
};
// Bytes at a place of a memory region.
struct Piece {
  uint64_t offset = 0;
  Data data;
};

enum class Role : uint8_t { kRequester, kResponder, kBoth };

struct DeviceSection {
  Gid gid;
  MacAddr mac;
  uint32_t window_packets = 512;
  uint32_t ack_every_packets = 32;
  PathMtu active_mtu = PathMtu::k4096;
};

struct Peer {
  Gid gid;
  MacAddr mac;
  Qpn qpn = 0;
};

struct QpSection {
  std::optional<Qpn> qpn;  // absent when no packet of the capture names it
  QpType type = QpType::kRc;
  Peer peer;  // UD: unused
  PathMtu path_mtu = PathMtu::k1024;
  uint32_t sq_psn = 0;
  uint32_t rq_psn = 0;
  uint32_t msn = 0;  // messages that the responder had completed when the capture begins
  uint32_t access = 0;
  uint32_t max_rd_atomic = 16;
  uint32_t max_dest_rd_atomic = 16;
  uint32_t timeout = 14;
  uint32_t retry_cnt = 7;
  uint32_t rnr_retry = 7;
  uint32_t min_rnr_timer = 12;
  uint32_t qkey = 0;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;
  QpState state = QpState::kRts;      // to be set up to
  QpState end_state = QpState::kRts;  // expected at the end
};

struct MemorySection {
  uint64_t va = 0;
  uint64_t bytes = 0;
  uint32_t access = 0;
  std::optional<Key> key;  // lkey and rkey; absent: nothing names it
  bool other_pd = false;   // it belongs to a protection domain that no queue pair is of
  std::vector<Piece> contents;
  std::vector<Piece> expect;  // what is different at the end
};

struct SgeSection {
  uint64_t va = 0;
  uint32_t bytes = 0;
  Key lkey = 0;
};

// An expected completion entry. What is absent is not compared.
struct Completion {
  abi::WcStatus status = abi::WcStatus::kSuccess;
  std::vector<abi::WcStatus> or_status;  // others that a rule allows in its place
  std::optional<abi::WcOpcode> opcode;
  std::optional<uint32_t> byte_len;
  std::optional<uint32_t> imm;  // as a number: the wire's first byte is the highest
  std::optional<Qpn> src_qpn;

  static Completion of(abi::WcStatus status, std::optional<abi::WcOpcode> opcode = {}) {
    Completion completion;
    completion.status = status;
    completion.opcode = opcode;
    return completion;
  }
  [[nodiscard]] bool allows(abi::WcStatus real) const {
    return real == status || std::find(or_status.begin(), or_status.end(), real) != or_status.end();
  }
};

struct RecvSection {
  size_t qp = 0;  // position in Case::qps
  When when;
  uint32_t bytes = 0;            // of a buffer of its own, unless there are `sges`
  std::vector<SgeSection> sges;  // in memory sections
  std::optional<Data> expect;    // the buffer's beginning at the end (UD: behind the 40 bytes)
  std::optional<Completion> completion;
};

struct SendSection {
  size_t qp = 0;
  When when;
  abi::WrOpcode opcode = abi::WrOpcode::kSend;
  uint8_t flags = 0;
  uint32_t bytes = 0;
  std::vector<SgeSection> sges;
  Data data;                   // SEND, WRITE without `sges`: what is sent
  std::optional<Data> expect;  // READ without `sges`: what is in the buffer at the end
  uint64_t remote_va = 0;
  Key rkey = 0;
  uint32_t imm = 0;
  std::optional<Peer> to;  // UD
  uint32_t qkey = 0;       // UD
  std::optional<Completion> completion;
};

// The local application writes to its memory.
struct StoreSection {
  size_t memory = 0;  // position in Case::memories
  When when;
  Piece piece;
};

struct ModifySection {
  size_t qp = 0;
  When when;
  QpState state = QpState::kErr;
};

// A field of a packet, by the name that compare.h gives it, and its value.
struct FieldValue {
  std::string field;
  uint64_t value = 0;
};

// A packet that the device sends and the capture has not.
struct ExtraPacket {
  uint32_t after = 0;  // the packet of the capture that it follows
  std::vector<FieldValue> fields;
};

// What the network did between the capture's place and the played side.
struct NetworkSection {
  std::vector<uint32_t> lost;         // never arrived
  std::vector<uint32_t> repeated;     // arrived twice
  std::map<uint32_t, uint32_t> late;  // packet -> the one that it arrived directly after
  std::vector<uint32_t> corrupted;    // sent by the played side, and changed before it was captured
  std::vector<uint32_t> copied;       // sent once by the played side, and repeated before capture
  std::vector<ExtraPacket> unseen;    // sent by the played side, and lost before it was captured
};

// Where the capture's sender and Verbena differ, and a rule says who is right.
struct Difference {
  enum class Kind : uint8_t {
    kFields,   // in `packets`, Verbena's fields have these values
    kNothing,  // Verbena does not send `packets`
    kExtra,    // Verbena sends `extra` besides
  };
  Kind kind = Kind::kFields;
  std::string rule;
  std::string why;
  std::vector<uint32_t> packets;
  std::vector<FieldValue> ours;
  ExtraPacket extra;
};

// Which of the packets' fields a rule leaves open.
struct Ignored {
  std::vector<uint32_t> packets;
  std::vector<std::string> fields;
};

// How strictly packets are compared.
struct CompareSection {
  bool exact_acks = false;         // else ACKs may be merged and split as RC-RSP-40 allows
  double timer_tolerance = 4;      // factor, both ways, on the time that a timer waited
  std::vector<uint32_t> optional;  // packets that Verbena may leave out
  std::vector<Ignored> ignored;
};

struct ExpectedEvent {
  AsyncEventType event = AsyncEventType::kQpFatal;
  size_t qp = 0;
};

struct Case {
  std::filesystem::path file;  // of the case
  std::string title;
  std::vector<std::string> rules;
  std::filesystem::path capture;  // absolute, or from the working directory
  Role role = Role::kBoth;
  // The frames to be used; last 0: to the end.
  uint32_t first_packet = 1;
  uint32_t last_packet = 0;
  std::string engine_only;  // why it cannot be played to a live device; empty: it can
  bool play_all = false;    // all frames that the device did not send, not just its QPs'
  bool until_idle = true;   // go on behind the last packet until nothing happens any more

  CompareSection compare;
  DeviceSection device;
  std::vector<QpSection> qps;
  std::vector<MemorySection> memories;
  std::vector<RecvSection> recvs;
  std::vector<SendSection> sends;
  std::vector<StoreSection> stores;
  std::vector<ModifySection> modifies;
  NetworkSection network;
  std::vector<Difference> differences;
  std::vector<ExpectedEvent> events;
  std::map<std::string, uint64_t> counters;  // names of DeviceStats::for_each, or "drop_<reason>"
};

}  // namespace verbena::conformance
