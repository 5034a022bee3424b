#include "dpdk/pcapng.h"

#include <cstring>

namespace verbena::pcapng {
namespace {

constexpr uint32_t kSectionBlock = 0x0A0D0D0A;
constexpr uint32_t kInterfaceBlock = 1;
constexpr uint32_t kEnhancedPacketBlock = 6;
constexpr uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr uint16_t kLinkTypeEthernet = 1;
constexpr uint16_t kOptEnd = 0;
constexpr uint16_t kOptComment = 1;
constexpr uint16_t kShbHardware = 2;
constexpr uint16_t kShbApplication = 4;
constexpr uint16_t kIfName = 2;
constexpr uint16_t kIfTsResol = 9;
constexpr uint8_t kNanoseconds = 9;  // 10^-9

template <typename T>
void append(std::vector<uint8_t>& out, T value) {
  const auto* p = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), p, p + sizeof value);
}

void append_option(std::vector<uint8_t>& out, uint16_t code, std::string_view value) {
  append(out, code);
  append(out, static_cast<uint16_t>(value.size()));
  out.insert(out.end(), value.begin(), value.end());
  out.resize((out.size() + 3) / 4 * 4);
}

// Type and a length to be filled in by end_block().
size_t begin_block(std::vector<uint8_t>& out, uint32_t type) {
  const size_t start = out.size();
  append(out, type);
  append(out, uint32_t{0});
  return start;
}

void end_block(std::vector<uint8_t>& out, size_t start) {
  const auto total = static_cast<uint32_t>(out.size() - start + sizeof(uint32_t));
  append(out, total);
  std::memcpy(out.data() + start + sizeof(uint32_t), &total, sizeof total);
}

}  // namespace

void append_section(std::vector<uint8_t>& out, std::string_view hardware,
                    std::string_view application) {
  const size_t start = begin_block(out, kSectionBlock);
  append(out, kByteOrderMagic);
  append(out, uint16_t{1});  // version 1.0
  append(out, uint16_t{0});
  append(out, ~uint64_t{0});  // section length: not given
  append_option(out, kShbHardware, hardware);
  append_option(out, kShbApplication, application);
  append_option(out, kOptEnd, {});
  end_block(out, start);
}

void append_interface(std::vector<uint8_t>& out, std::string_view name, uint32_t snap_bytes) {
  const size_t start = begin_block(out, kInterfaceBlock);
  append(out, kLinkTypeEthernet);
  append(out, uint16_t{0});
  append(out, snap_bytes);
  append_option(out, kIfName, name);
  append_option(out, kIfTsResol, std::string_view(reinterpret_cast<const char*>(&kNanoseconds), 1));
  append_option(out, kOptEnd, {});
  end_block(out, start);
}

std::span<uint8_t> append_packet(std::vector<uint8_t>& out, uint32_t interface,
                                 uint64_t timestamp_ns, uint32_t frame_bytes,
                                 std::string_view comment) {
  const size_t start = begin_block(out, kEnhancedPacketBlock);
  append(out, interface);
  append(out, static_cast<uint32_t>(timestamp_ns >> 32));
  append(out, static_cast<uint32_t>(timestamp_ns));
  append(out, frame_bytes);  // captured
  append(out, frame_bytes);  // on the wire
  const size_t frame = out.size();
  out.resize((frame + frame_bytes + 3) / 4 * 4);
  if (!comment.empty()) {
    append_option(out, kOptComment, comment);
    append_option(out, kOptEnd, {});
  }
  end_block(out, start);
  return {out.data() + frame, frame_bytes};
}

}  // namespace verbena::pcapng
