// DeviceConfig: everything about a device that is fixed at construction.
#pragma once

#include <cstdint>
#include <vector>

#include "stack/base/time.h"
#include "stack/types.h"

namespace verbena {

// A station that can be reached without asking: its address and MAC.
struct Neighbor {
  Gid gid;
  MacAddr mac;
};

struct DeviceConfig {
  MacAddr mac;
  std::vector<Gid> gids;            // the GID table, index 0 first; all RoCE v2
  std::vector<Neighbor> neighbors;  // static; the device's own addresses are known by themselves
  PathMtu active_mtu = PathMtu::k4096;
  uint64_t seed = 1;  // first QPN, key variants and IPv4 identification derive from it

  // Limits. Tables are sized by them at construction.
  uint32_t max_qp = 16384;
  uint32_t max_cq = 16384;
  uint32_t max_mr = 65536;
  uint32_t max_pd = 16384;
  uint32_t max_srq = 4096;
  uint32_t max_ah = 65536;
  uint32_t max_clients = 1024;
  uint32_t max_qp_wr = 16384;
  uint32_t max_sge = 32;
  uint32_t max_cqe = 262143;
  uint32_t max_inline_data = 512;  // bytes
  uint32_t max_rd_atomic = 16;     // both as requester and as responder, per QP
  uint64_t max_mr_size = uint64_t{1} << 46;
  uint32_t max_msg_bytes = uint32_t{1} << 30;

  // Transport. A window in packets bounds what one QP has in flight.
  uint32_t window_packets = 512;
  uint32_t ack_every_packets = 32;  // AckReq inside long messages at least this often
  uint32_t quantum_packets = 16;    // packets of one QP before the next QP's turn
  bool mig_req = true;              // BTH.MigReq of what is sent: 1 as ConnectX, 0 as rxe
};

}  // namespace verbena
