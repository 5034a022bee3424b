// Views of the extended transport headers (IBTA vol. 1 ch. 9.3). Views check nothing: see
// ethernet.h. Which of them follow a BTH, and that they follow in this order, is said by the opcode
// table: DETH, RETH or AtomicETH or AETH, AtomicAckETH, ImmDt or IETH.
#pragma once

#include <cstdint>
#include <cstring>

#include "stack/base/bytes.h"
#include "stack/types.h"

namespace verbena::wire {

template <typename Byte>
class DethView {
 public:
  static constexpr uint32_t kBytes = 8;

  explicit DethView(Byte* bytes) : bytes_(bytes) {}

  uint32_t qkey() const { return load_be32(bytes_); }
  Qpn source_qpn() const { return load_be24(bytes_ + 5); }

  void set_qkey(uint32_t qkey) { store_be32(bytes_, qkey); }
  void set_source_qpn(Qpn qpn) { store_be32(bytes_ + 4, qpn & 0xFFFFFF); }  // reserved byte 0

 private:
  Byte* bytes_;
};

template <typename Byte>
class RethView {
 public:
  static constexpr uint32_t kBytes = 16;

  explicit RethView(Byte* bytes) : bytes_(bytes) {}

  uint64_t va() const { return load_be64(bytes_); }
  Key rkey() const { return load_be32(bytes_ + 8); }
  uint32_t dma_length() const { return load_be32(bytes_ + 12); }

  void set_va(uint64_t va) { store_be64(bytes_, va); }
  void set_rkey(Key rkey) { store_be32(bytes_ + 8, rkey); }
  void set_dma_length(uint32_t length) { store_be32(bytes_ + 12, length); }

 private:
  Byte* bytes_;
};

template <typename Byte>
class AtomicEthView {
 public:
  static constexpr uint32_t kBytes = 28;

  explicit AtomicEthView(Byte* bytes) : bytes_(bytes) {}

  uint64_t va() const { return load_be64(bytes_); }
  Key rkey() const { return load_be32(bytes_ + 8); }
  uint64_t swap_add() const { return load_be64(bytes_ + 12); }
  uint64_t compare() const { return load_be64(bytes_ + 20); }

  void set_va(uint64_t va) { store_be64(bytes_, va); }
  void set_rkey(Key rkey) { store_be32(bytes_ + 8, rkey); }
  void set_swap_add(uint64_t value) { store_be64(bytes_ + 12, value); }
  void set_compare(uint64_t value) { store_be64(bytes_ + 20, value); }

 private:
  Byte* bytes_;
};

template <typename Byte>
class AethView {
 public:
  static constexpr uint32_t kBytes = 4;

  explicit AethView(Byte* bytes) : bytes_(bytes) {}

  uint8_t syndrome() const { return bytes_[0]; }
  uint32_t msn() const { return load_be24(bytes_ + 1); }

  void set_syndrome_msn(uint8_t syndrome, uint32_t msn) {
    store_be32(bytes_, uint32_t{syndrome} << 24 | (msn & 0xFFFFFF));
  }

 private:
  Byte* bytes_;
};

template <typename Byte>
class AtomicAckEthView {
 public:
  static constexpr uint32_t kBytes = 8;

  explicit AtomicAckEthView(Byte* bytes) : bytes_(bytes) {}

  uint64_t original() const { return load_be64(bytes_); }
  void set_original(uint64_t value) { store_be64(bytes_, value); }

 private:
  Byte* bytes_;
};

// Immediate data is opaque: handed on in the order of its bytes on the wire.
template <typename Byte>
class ImmDtView {
 public:
  static constexpr uint32_t kBytes = 4;

  explicit ImmDtView(Byte* bytes) : bytes_(bytes) {}

  uint32_t imm_wire() const {
    uint32_t imm;
    std::memcpy(&imm, bytes_, sizeof imm);
    return imm;
  }
  void set_imm_wire(uint32_t imm) { std::memcpy(bytes_, &imm, sizeof imm); }

 private:
  Byte* bytes_;
};

template <typename Byte>
class IethView {
 public:
  static constexpr uint32_t kBytes = 4;

  explicit IethView(Byte* bytes) : bytes_(bytes) {}

  Key rkey() const { return load_be32(bytes_); }
  void set_rkey(Key rkey) { store_be32(bytes_, rkey); }

 private:
  Byte* bytes_;
};

}  // namespace verbena::wire
