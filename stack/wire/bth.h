// View of the base transport header (IBTA vol. 1 ch. 9.2). Views check nothing: see ethernet.h.
//
//   byte 0      opcode
//   byte 1      7 SE, 6 MigReq, 5:4 PadCnt, 3:0 TVer
//   bytes 2-3   P_Key
//   byte 4      7 FECN, 6 BECN, 5:0 reserved (real adapters set some; not covered by the ICRC)
//   bytes 5-7   destination QP
//   byte 8      7 AckReq, 6:0 reserved
//   bytes 9-11  PSN
#pragma once

#include <cstdint>

#include "stack/base/bytes.h"
#include "stack/types.h"
#include "stack/wire/psn.h"

namespace verbena::wire {

template <typename Byte>
class BthView {
 public:
  static constexpr uint32_t kBytes = 12;

  explicit BthView(Byte* bytes) : bytes_(bytes) {}

  uint8_t opcode() const { return bytes_[0]; }
  bool solicited() const { return (bytes_[1] & 0x80) != 0; }
  bool mig_req() const { return (bytes_[1] & 0x40) != 0; }
  uint8_t pad_count() const { return (bytes_[1] >> 4) & 3; }
  uint8_t transport_version() const { return bytes_[1] & 0x0F; }
  uint16_t pkey() const { return load_be16(bytes_ + 2); }
  bool fecn() const { return (bytes_[4] & 0x80) != 0; }
  bool becn() const { return (bytes_[4] & 0x40) != 0; }
  Qpn dest_qpn() const { return load_be24(bytes_ + 5); }
  bool ack_req() const { return (bytes_[8] & 0x80) != 0; }
  Psn psn() const { return Psn(load_be24(bytes_ + 9)); }

  void set_opcode(uint8_t opcode) { bytes_[0] = opcode; }
  // Transport version 0.
  void set_flags(bool solicited, bool mig_req, uint8_t pad_count) {
    bytes_[1] = static_cast<uint8_t>(unsigned{solicited} << 7 | unsigned{mig_req} << 6 |
                                     (pad_count & 3U) << 4);
  }
  void set_pkey(uint16_t pkey) { store_be16(bytes_ + 2, pkey); }
  // FECN and the reserved bits 0.
  void set_becn_dest_qpn(bool becn, Qpn qpn) {
    store_be32(bytes_ + 4, uint32_t{becn} << 30 | (qpn & 0xFFFFFF));
  }
  void set_ack_req_psn(bool ack_req, Psn psn) {
    store_be32(bytes_ + 8, uint32_t{ack_req} << 31 | psn.value());
  }
  // What the ICRC does not cover: FECN, BECN and the bits beside them (Annex A17.3.3).
  void mask_variant_fields() { bytes_[4] = 0xFF; }

 private:
  Byte* bytes_;
};

}  // namespace verbena::wire
