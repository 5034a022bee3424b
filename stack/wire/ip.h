// Views of the IPv4 and IPv6 headers, and the ones' complement sum of RFC 1071.
//
// RoCEv2 uses IPv4 without options and IPv6 without extension headers (IBTA Annex A17), so both
// headers have a fixed size. Views check nothing: see ethernet.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stack/base/bytes.h"
#include "stack/types.h"

namespace verbena::wire {

inline constexpr uint8_t kIpProtocolUdp = 17;

// The sum of 16-bit words, not folded: add sums, then fold once. It is taken over words as they lie
// in memory, because the ones' complement sum does not depend on byte order (RFC 1071, section 2).
// `bytes` up to 64 KiB; an odd last byte is padded with zero.
inline uint64_t internet_sum(const uint8_t* bytes, size_t count) {
  uint64_t sum = 0;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    sum += (word & 0xFFFFFFFF) + (word >> 32);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, bytes, count);
  return sum + (rest & 0xFFFFFFFF) + (rest >> 32);
}

// 16 bits in the byte order of the words summed. A correct checksum makes the folded sum of all
// words 0xFFFF.
inline uint16_t internet_fold(uint64_t sum) {
  sum = (sum & 0xFFFFFFFF) + (sum >> 32);
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

template <typename Byte>
class Ipv4View {
 public:
  static constexpr uint32_t kBytes = 20;
  static constexpr uint8_t kVersionIhl = 0x45;
  static constexpr uint16_t kDontFragment = 0x4000;
  static constexpr uint16_t kFragmentMask = 0x3FFF;  // more fragments, and the offset

  explicit Ipv4View(Byte* bytes) : bytes_(bytes) {}

  uint8_t version_ihl() const { return bytes_[0]; }
  uint8_t tos() const { return bytes_[1]; }
  uint16_t total_length() const { return load_be16(bytes_ + 2); }
  uint16_t identification() const { return load_be16(bytes_ + 4); }
  uint16_t flags_fragment() const { return load_be16(bytes_ + 6); }
  bool is_fragment() const { return (flags_fragment() & kFragmentMask) != 0; }
  uint8_t ttl() const { return bytes_[8]; }
  uint8_t protocol() const { return bytes_[9]; }
  Gid source() const { return gid_at(12); }
  Gid dest() const { return gid_at(16); }
  bool checksum_right() const { return internet_fold(internet_sum(bytes_, kBytes)) == 0xFFFF; }
  uint64_t address_sum() const { return internet_sum(bytes_ + 12, 8); }

  // The whole header at once, so that the checksum is summed from values: reading back what was
  // just stored in other widths would stall.
  void set(uint8_t tos, uint16_t total_length, uint16_t id, uint8_t ttl, const Gid& source,
           const Gid& dest) {
    const uint32_t length_word = uint32_t{kVersionIhl} << 24 | uint32_t{tos} << 16 | total_length;
    const uint32_t fragment_word = uint32_t{id} << 16 | kDontFragment;
    const uint32_t ttl_word = uint32_t{ttl} << 24 | uint32_t{kIpProtocolUdp} << 16;
    const uint32_t source_word = load_be32(source.bytes.data() + 12);
    const uint32_t dest_word = load_be32(dest.bytes.data() + 12);
    const uint16_t sum =
        internet_fold(uint64_t{length_word} + fragment_word + ttl_word + source_word + dest_word);
    store_be32(bytes_, length_word);
    store_be32(bytes_ + 4, fragment_word);
    store_be32(bytes_ + 8, ttl_word | (~uint32_t{sum} & 0xFFFF));
    store_be32(bytes_ + 12, source_word);
    store_be32(bytes_ + 16, dest_word);
  }
  // What the ICRC does not cover: ToS, TTL and checksum (Annex A17.3.3).
  void mask_variant_fields() {
    bytes_[1] = 0xFF;
    bytes_[8] = 0xFF;
    store_be16(bytes_ + 10, 0xFFFF);
  }

 private:
  Gid gid_at(uint32_t offset) const {
    Gid gid;
    gid.bytes[10] = gid.bytes[11] = 0xFF;
    std::memcpy(gid.bytes.data() + 12, bytes_ + offset, 4);
    return gid;
  }

  Byte* bytes_;
};

template <typename Byte>
class Ipv6View {
 public:
  static constexpr uint32_t kBytes = 40;
  static constexpr uint8_t kVersion = 6;

  explicit Ipv6View(Byte* bytes) : bytes_(bytes) {}

  uint8_t version() const { return bytes_[0] >> 4; }
  uint8_t traffic_class() const { return static_cast<uint8_t>(load_be16(bytes_) >> 4); }
  uint32_t flow_label() const { return load_be32(bytes_) & 0xFFFFF; }
  uint16_t payload_length() const { return load_be16(bytes_ + 4); }
  uint8_t next_header() const { return bytes_[6]; }
  uint8_t hop_limit() const { return bytes_[7]; }
  Gid source() const { return gid_at(8); }
  Gid dest() const { return gid_at(24); }
  uint64_t address_sum() const { return internet_sum(bytes_ + 8, 32); }

  void set_version_class_flow(uint8_t traffic_class, uint32_t flow_label) {
    store_be32(bytes_,
               uint32_t{kVersion} << 28 | uint32_t{traffic_class} << 20 | (flow_label & 0xFFFFF));
  }
  void set_payload_length(uint16_t length) { store_be16(bytes_ + 4, length); }
  void set_next_header(uint8_t protocol) { bytes_[6] = protocol; }
  void set_hop_limit(uint8_t limit) { bytes_[7] = limit; }
  void set_source(const Gid& gid) { std::memcpy(bytes_ + 8, gid.bytes.data(), 16); }
  void set_dest(const Gid& gid) { std::memcpy(bytes_ + 24, gid.bytes.data(), 16); }
  // What the ICRC does not cover: traffic class, flow label and hop limit (Annex A17.3.3).
  void mask_variant_fields() {
    store_be32(bytes_, load_be32(bytes_) | 0x0FFFFFFF);
    bytes_[7] = 0xFF;
  }

 private:
  Gid gid_at(uint32_t offset) const {
    Gid gid;
    std::memcpy(gid.bytes.data(), bytes_ + offset, 16);
    return gid;
  }

  Byte* bytes_;
};

}  // namespace verbena::wire
