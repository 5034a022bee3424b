// How fast this machine could move RoCEv2 payload at best: for every 4 KiB packet one core copies
// and takes the CRC at the sender, and takes the CRC and copies at the receiver, as Verbena with
// its two wired devices does. No protocol, no system call, no other process.
//
// The working set is that of ib_write_bw with 64 KiB messages: one message at each end and the
// packets under way between them. Prints JSON; GB are 10^9 bytes of payload.
#include <isa-l/crc.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPayload = 4096;
constexpr size_t kHeaders = 74;  // Ethernet to RETH: the ICRC covers almost all of it
constexpr size_t kMessage = 64 * 1024;
constexpr size_t kUnderWay = 128;  // packets
constexpr size_t kStride = 4608;   // of packet buffers
constexpr auto kTime = std::chrono::milliseconds(300);
constexpr int kRepeats = 5;

struct Memory {
  std::vector<uint8_t> source = std::vector<uint8_t>(kMessage, 1);
  std::vector<uint8_t> target = std::vector<uint8_t>(kMessage, 2);
  std::vector<uint8_t> packets = std::vector<uint8_t>(kUnderWay * kStride, 3);
  uint32_t crc = 0;
};

// The best of some runs, in GB/s: `step` handles packet number i.
template <typename Step>
double best_gbytes_per_s(Step&& step) {
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = Clock::now();
    size_t packets = 0;
    while (Clock::now() - start < kTime / kRepeats) {
      for (int i = 0; i < 512; ++i) step(packets++);
    }
    const std::chrono::duration<double> seconds = Clock::now() - start;
    best = std::max(best, static_cast<double>(packets * kPayload) / seconds.count() / 1e9);
  }
  return best;
}

uint8_t* packet(Memory& memory, size_t i) {
  return &memory.packets[i % kUnderWay * kStride];
}
size_t message_offset(size_t i) {
  return i * kPayload % kMessage;
}

void send(Memory& memory, size_t i) {
  std::memcpy(packet(memory, i) + kHeaders, &memory.source[message_offset(i)], kPayload);
  memory.crc ^= crc32_gzip_refl(0, packet(memory, i), kHeaders + kPayload);
}

void receive(Memory& memory, size_t i) {
  memory.crc ^= crc32_gzip_refl(0, packet(memory, i), kHeaders + kPayload);
  std::memcpy(&memory.target[message_offset(i)], packet(memory, i) + kHeaders, kPayload);
}

}  // namespace

int main() {
  Memory memory;
  const double copy = best_gbytes_per_s([&](size_t i) {
    std::memcpy(packet(memory, i) + kHeaders, &memory.source[message_offset(i)], kPayload);
  });
  const double crc = best_gbytes_per_s(
      [&](size_t i) { memory.crc ^= crc32_gzip_refl(0, packet(memory, i), kHeaders + kPayload); });
  const double sender = best_gbytes_per_s([&](size_t i) { send(memory, i); });
  // A burst of packets on their way, as the daemon handles them: all sent, then all received.
  constexpr size_t kBurst = 32;
  const double both = best_gbytes_per_s([&](size_t i) {
    send(memory, i);
    if (i % kBurst != kBurst - 1) return;
    for (size_t sent = i + 1 - kBurst; sent <= i; ++sent) receive(memory, sent);
  });
  std::printf(
      "{\"copy_gbytes_per_s\": %.2f, \"crc_gbytes_per_s\": %.2f, "
      "\"copy_and_crc_gbytes_per_s\": %.2f, \"both_ends_gbytes_per_s\": %.2f, \"crc\": %u}\n",
      copy, crc, sender, both, static_cast<unsigned>(memory.crc));
}
