#include "tools/trace/comments.h"

#include <cstdint>
#include <optional>
#include <span>

namespace verbena::trace {
namespace {

using Bytes = std::span<const uint8_t>;

// PCAP Next Generation (pcapng) Capture File Format, draft-ietf-opsawg-pcapng.
constexpr uint32_t kSectionHeader = 0x0A0D0D0A;
constexpr uint32_t kOldPacket = 2;
constexpr uint32_t kSimplePacket = 3;
constexpr uint32_t kEnhancedPacket = 6;
constexpr uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr uint32_t kByteOrderMagicSwapped = 0x4D3C2B1A;
constexpr uint32_t kMostBytes = 16 << 20;  // of a block: what libpcap reads, too
constexpr size_t kCapturedLengthAt = 12;   // in the body of an old or an enhanced packet block
constexpr size_t kPacketAt = 20;           // in the same
constexpr uint16_t kEndOfOptions = 0;
constexpr uint16_t kComment = 1;

class Blocks {
 public:
  explicit Blocks(std::FILE* file) : file_(file) {}

  // Its type; nothing when there is no further whole block.
  std::optional<uint32_t> next() {
    uint8_t head[8];
    if (std::fread(head, 1, sizeof head, file_) != sizeof head) return std::nullopt;
    // A section's type reads alike in both byte orders; its length is known only behind its magic.
    const bool section = number32(head) == kSectionHeader;
    if (first_ && !section) return std::nullopt;
    first_ = false;
    uint8_t magic[4] = {};
    if (section) {
      if (std::fread(magic, 1, sizeof magic, file_) != sizeof magic) return std::nullopt;
      swapped_ = false;
      swapped_ = number32(magic) == kByteOrderMagicSwapped;
      if (number32(magic) != kByteOrderMagic) return std::nullopt;
    }
    const uint32_t type = number32(head);
    const uint32_t bytes = number32(head + 4);
    const size_t read = sizeof head + (section ? sizeof magic : 0);
    if (bytes % 4 != 0 || bytes < read + 4 || bytes > kMostBytes) return std::nullopt;
    rest_.resize(bytes - read);
    if (std::fread(rest_.data(), 1, rest_.size(), file_) != rest_.size()) return std::nullopt;
    return type;
  }

  // Of an old or an enhanced packet block.
  [[nodiscard]] std::string comment() const {
    const Bytes body = Bytes(rest_).first(rest_.size() - 4);
    if (body.size() < kPacketAt) return {};
    const uint64_t captured = number32(&body[kCapturedLengthAt]);
    const uint64_t options_at = kPacketAt + (captured + 3) / 4 * 4;
    if (options_at > body.size()) return {};
    Bytes options = body.subspan(static_cast<size_t>(options_at));
    while (options.size() >= 4) {
      const uint16_t code = number16(options.data());
      const uint16_t length = number16(&options[2]);
      const size_t padded = (size_t{length} + 3) / 4 * 4;
      if (code == kEndOfOptions || padded > options.size() - 4) break;
      if (code == kComment) return {options.begin() + 4, options.begin() + 4 + length};
      options = options.subspan(4 + padded);
    }
    return {};
  }

 private:
  [[nodiscard]] uint16_t number16(const uint8_t* at) const {
    const int low = swapped_ ? at[1] : at[0];
    const int high = swapped_ ? at[0] : at[1];
    return static_cast<uint16_t>(low | high << 8);
  }
  [[nodiscard]] uint32_t number32(const uint8_t* at) const {
    const uint32_t first = number16(at);
    const uint32_t second = number16(at + 2);
    return swapped_ ? first << 16 | second : second << 16 | first;
  }

  std::FILE* file_;
  bool first_ = true;
  bool swapped_ = false;       // the section's byte order is not little endian
  std::vector<uint8_t> rest_;  // of a block, up to its end
};

}  // namespace

std::vector<std::string> read_comments(std::FILE* file) {
  std::vector<std::string> comments;
  if (std::fseek(file, 0, SEEK_SET) != 0) return comments;
  Blocks blocks(file);
  while (const auto type = blocks.next()) {
    if (*type == kEnhancedPacket || *type == kOldPacket) comments.push_back(blocks.comment());
    if (*type == kSimplePacket) comments.emplace_back();
  }
  std::rewind(file);
  return comments;
}

}  // namespace verbena::trace
