// Captures made packet by packet: two hosts, times in microseconds.
#pragma once

#include <string>

#include "stack/wire/emit.h"
#include "stack/wire/syndrome.h"
#include "tools/trace/conversation.h"

namespace verbena::trace::test {

struct Host {
  uint32_t ip = 0;
  uint8_t mac = 0;
};

inline constexpr Host kA = {0x0A000001, 1};
inline constexpr Host kB = {0x0A000002, 2};

// One end's way to the other's QP.
struct Way {
  Host from;
  Host to;
  Qpn dest_qpn = 0;
  uint16_t source_port = 0xC000;
};
inline constexpr Way kToB = {kA, kB, 0x22};
inline constexpr Way kToA = {kB, kA, 0x11};

struct Fields {
  uint32_t payload_bytes = 0;
  uint32_t dma_length = 0;
  uint8_t syndrome = kAckNoCredits;
  Qpn source_qpn = 0;  // datagrams
};

class Scenario {
 public:
  // The packet's number, from 1. The IPv4 identification counts up, as with rxe.
  uint32_t send(uint64_t us, const Way& way, Opcode opcode, uint32_t psn,
                const Fields& fields = {});
  // A frame of the capture once more, bytes and all.
  uint32_t repeat(uint64_t us, uint32_t number);
  uint32_t raw(uint64_t us, std::vector<uint8_t> frame);
  void comment(uint32_t number, const std::string& text) {
    capture_.frames[number - 1].comment = text;
  }
  std::vector<uint8_t>& frame(uint32_t number) { return capture_.frames[number - 1].bytes; }
  // As a small snapshot length leaves it.
  void cut(uint32_t number, size_t bytes);

  // Valid until the scenario changes. Packets by number: all frames are RoCEv2 here.
  const Trace& analyse();
  [[nodiscard]] const TracedPacket& packet(uint32_t number) const {
    return trace_.packets[number - 1];
  }
  [[nodiscard]] const Connection& connection_of(uint32_t number) const {
    return trace_.connections[packet(number).connection];
  }
  // The number of a packet that another refers to; 0: none.
  [[nodiscard]] uint32_t number(Index index) const {
    return index == kNoIndex ? 0 : trace_.packets[index].number;
  }

 private:
  Capture capture_;
  Trace trace_;
  uint16_t ip_id_ = 0;
};

}  // namespace verbena::trace::test
