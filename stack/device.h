// Device: one RNIC, sans-IO. Bytes and a time go in; bytes, events and a next deadline come out.
//
// Thread rule: a Device belongs to one thread. It has no clock, socket, lock or log; the same calls
// with the same times give the same bytes.
//
// Data path: on_burst(), doorbell(), on_timeout() feed it; after any of them call poll() until it
// returns less than its budget, then drain poll_event(), then sleep at most until next_timeout().
// Spurious calls are harmless. The data path does not allocate.
//
// Control path: attach_client() ... destroy_qp() may allocate. Each checks that the client owns
// what it names, and answers with an errno (EINVAL, ENOMEM, EBUSY ... as the verbs man pages say).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stack/abi/control.h"
#include "stack/base/result.h"
#include "stack/base/time.h"
#include "stack/config.h"
#include "stack/events.h"
#include "stack/mem/client_memory.h"
#include "stack/objects.h"
#include "stack/stats.h"
#include "stack/tx_sink.h"
#include "stack/types.h"

namespace verbena {

struct RxFrame {
  const uint8_t* data;
  uint32_t bytes;
  // The queue pair that sent it, where the port knows it: RC packets do not say. 0: not known.
  Qpn sender = 0;
};

// What `verbena status` and the counters of a client show.
struct ClientUsage {
  uint32_t pds = 0;
  uint32_t mrs = 0;
  uint32_t cqs = 0;
  uint32_t qps = 0;
  uint32_t srqs = 0;
  uint32_t ahs = 0;
};

class DeviceImpl;

class Device {
 public:
  explicit Device(const DeviceConfig& config);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceConfig& config() const;
  const DeviceStats& stats() const;

  // ---- Control path ----

  // `memory` is not owned and must outlive the client. EUSERS when max_clients are attached.
  Result<ClientId> attach_client(ClientMemory& memory);
  // Destroys all that the client owns. Its regions and memory are not touched after the return.
  void detach_client(ClientId client);
  ClientUsage usage(ClientId client) const;

  Result<PdId> alloc_pd(ClientId client);
  Status dealloc_pd(ClientId client, PdId pd);

  Result<MrKeys> reg_mr(ClientId client, const MrSpec& spec);
  // flags: bits of enum ibv_rereg_mr_flags (1 translation, 2 pd, 4 access). New keys each time.
  Result<MrKeys> rereg_mr(ClientId client, uint32_t handle, uint32_t flags, const MrSpec& spec);
  Status dereg_mr(ClientId client, uint32_t handle);

  // Ring depth for `cqe` wanted entries; EINVAL if out of limits.
  Result<uint32_t> cq_depth(uint32_t cqe) const;
  static uint64_t cq_region_bytes(uint32_t depth);
  Result<CqId> create_cq(ClientId client, const CqSpec& spec);
  // Copies the entries that the client has not consumed. EINVAL if they do not fit.
  Status resize_cq(ClientId client, CqId cq, uint32_t depth, Region region);
  Status destroy_cq(ClientId client, CqId cq);  // EBUSY while a QP uses it

  // Sizes and offsets for the wanted limits (handle, qpn and doorbell_slot stay 0); EINVAL if they
  // exceed the device's limits.
  Result<abi::QpLayout> qp_layout(const abi::CreateQp& wanted) const;
  struct CreatedQp {
    Qpn qpn = 0;
    uint32_t doorbell_slot = 0;  // per client
  };
  Result<CreatedQp> create_qp(ClientId client, const QpSpec& spec);
  // attr_mask has the bits of enum ibv_qp_attr_mask. EINVAL leaves the QP unchanged; EHOSTUNREACH
  // when the destination GID has no known neighbor.
  Status modify_qp(ClientId client, Qpn qpn, const abi::QpAttr& attr, uint32_t attr_mask,
                   Timestamp now);
  Result<abi::QpAttr> query_qp(ClientId client, Qpn qpn) const;
  Status destroy_qp(ClientId client, Qpn qpn);

  // Sizes and offsets for the wanted limits (handle stays 0); EINVAL if they exceed the device's.
  Result<abi::SrqLayout> srq_layout(const abi::CreateSrq& wanted) const;
  Result<SrqId> create_srq(ClientId client, const SrqSpec& spec);
  Status modify_srq(ClientId client, SrqId srq, const abi::SrqAttr& attr, uint32_t attr_mask);
  Result<abi::SrqAttr> query_srq(ClientId client, SrqId srq) const;
  Status destroy_srq(ClientId client, SrqId srq);  // EBUSY while a QP uses it

  // EINVAL, or EHOSTUNREACH when the destination GID has no known neighbor.
  Result<AhId> create_ah(ClientId client, const abi::CreateAh& wanted);
  Status destroy_ah(ClientId client, AhId ah);

  // ---- Data path ----

  // Handles a burst of received frames, in order. The bytes must stay valid until the return. The
  // sink is used only where a request must not overtake the data of a READ accepted before it.
  // What became of each frame is left in `verdicts`, as far as there is room.
  void on_burst(std::span<const RxFrame> frames, Timestamp now, TxSink& sink,
                std::span<RxVerdict> verdicts = {});

  // The client has rung this doorbell. Unknown slots are ignored.
  void doorbell(ClientId client, uint32_t slot, Timestamp now);

  // Fires the timers that are due.
  void on_timeout(Timestamp now);

  // Builds and sends at most about `budget` packets; returns how many. Less than `budget` means
  // that nothing is left to send now, or that the sink is full (then call again later).
  uint32_t poll(Timestamp now, TxSink& sink, uint32_t budget);

  // True while poll() has something to send.
  bool has_work() const;

  // The earliest timer, or kNever.
  Timestamp next_timeout() const;

  std::optional<DeviceEvent> poll_event();

 private:
  std::unique_ptr<DeviceImpl> impl_;
};

}  // namespace verbena
