// Engine: what the queue pair code needs of its device, in one place.
//
// `now` and `sink` are those of the device call in progress. The scheduler part keeps the queue
// pairs that have something to send in a round-robin list, and one timer per queue pair.
#pragma once

#include <cstdint>

#include "stack/base/id_table.h"
#include "stack/base/timer_heap.h"
#include "stack/config.h"
#include "stack/cq/event_queue.h"
#include "stack/mem/mr_table.h"
#include "stack/mem/placement.h"
#include "stack/qp/frame_batch.h"
#include "stack/qp/qp.h"
#include "stack/stats.h"
#include "stack/tx_sink.h"
#include "stack/wire/emit.h"

namespace verbena {

// An address handle: where datagrams go.
struct Ah {
  ClientId client = 0;
  PdId pd = 0;
  wire::Path path;
};

struct Engine {
  explicit Engine(const DeviceConfig& c)
      : config(c),
        mrs(c.max_mr, c.seed),
        events(size_t{c.max_cq} * 2 + size_t{c.max_qp} * 4),
        timers(c.max_qp),
        ahs(c.max_ah) {}

  // The queue pair may have something to send.
  void activate(Qp& qp) {
    if (qp.active) return;
    qp.active = true;
    qp.next_active = nullptr;
    (active_tail != nullptr ? active_tail->next_active : active_head) = &qp;
    active_tail = &qp;
  }
  Qp* next_active() {
    Qp* qp = active_head;
    if (qp == nullptr) return nullptr;
    active_head = qp->next_active;
    if (active_head == nullptr) active_tail = nullptr;
    qp->active = false;
    return qp;
  }
  // Before a queue pair is destroyed or reset.
  void forget(Qp& qp) {
    timers.remove(qp.timer);
    placement.discard(&qp);
    if (!qp.active) return;
    Qp* previous = nullptr;
    for (Qp* q = active_head; q != &qp; q = q->next_active) previous = q;
    (previous != nullptr ? previous->next_active : active_head) = qp.next_active;
    if (active_tail == &qp) active_tail = previous;
    qp.active = false;
  }
  // One timer serves both waits of a queue pair.
  void arm_timer(Qp& qp) {
    const Timestamp hold = qp.req.hold_until != 0 ? qp.req.hold_until : kNever;
    // The transport timer does not run during an RNR wait (RC-REQ-35).
    timers.arm(qp.timer, hold != kNever ? hold : qp.req.ack_deadline);
  }

  // The frame being received is no good.
  void drop(DropReason reason) {
    stats.drop(reason);
    verdict = {.kind = RxVerdict::Kind::kDropped, .drop = reason};
  }

  void async_event(const Qp& qp, AsyncEventType type) {
    (void)events.push({DeviceEvent::Kind::kQpAsync, type, qp.client, qp.qpn, qp.user_handle});
  }

  // What every packet of the connection has in common.
  wire::PacketSpec packet(const Qp& qp, Opcode opcode, Psn psn) {
    wire::PacketSpec spec;
    spec.path = &qp.path;
    spec.opcode = opcode;
    spec.mig_req = config.mig_req;
    spec.dest_qpn = qp.attr.dest_qp_num;
    spec.source_qpn = qp.qpn;
    spec.psn = psn;
    spec.ip_id = ip_id++;
    return spec;
  }
  DeviceConfig config;
  DeviceStats stats;
  MrTable mrs;
  EventQueue events;
  TimerHeap timers;
  IdTable<Ah> ahs;
  Placement placement;
  FrameBatch frames;  // empty between uses
  Timestamp now = 0;
  TxSink* sink = nullptr;
  uint16_t ip_id = 0;
  RxVerdict verdict;              // of the frame being received
  const Qp* receiving = nullptr;  // its queue pair
  Qp* active_head = nullptr;
  Qp* active_tail = nullptr;
};

// How a turn of a queue pair at sending ended.
enum class Turn : uint8_t {
  kIdle,      // nothing (more) to send now; an event will activate it again
  kMore,      // the quantum is used up
  kSinkFull,  // no room for a frame
  kLater,     // client memory is not ready
};

}  // namespace verbena
