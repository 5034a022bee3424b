// View of the UDP header. Views check nothing: see ethernet.h.
#pragma once

#include <cstdint>
#include <cstring>

#include "stack/base/bytes.h"
#include "stack/wire/ip.h"

namespace verbena::wire {

template <typename Byte>
class UdpView {
 public:
  static constexpr uint32_t kBytes = 8;

  explicit UdpView(Byte* bytes) : bytes_(bytes) {}

  uint16_t source_port() const { return load_be16(bytes_); }
  uint16_t dest_port() const { return load_be16(bytes_ + 2); }
  uint16_t length() const { return load_be16(bytes_ + 4); }
  uint16_t checksum() const { return load_be16(bytes_ + 6); }
  // Sums length() bytes from the header on, with the pseudo header (RFC 768, RFC 8200 section 8.1).
  // `address_sum` is that of the IP header before it.
  bool checksum_right(uint64_t address_sum) const {
    const uint64_t pseudo =
        address_sum + __builtin_bswap16(kIpProtocolUdp) + __builtin_bswap16(length());
    return internet_fold(pseudo + internet_sum(bytes_, length())) == 0xFFFF;
  }

  void set_source_port(uint16_t port) { store_be16(bytes_, port); }
  void set_dest_port(uint16_t port) { store_be16(bytes_ + 2, port); }
  void set_length(uint16_t length) { store_be16(bytes_ + 4, length); }
  void set_checksum(uint16_t checksum) { store_be16(bytes_ + 6, checksum); }
  // What the ICRC does not cover: the checksum (Annex A17.3.3).
  void mask_variant_fields() { set_checksum(0xFFFF); }

 private:
  Byte* bytes_;
};

}  // namespace verbena::wire
