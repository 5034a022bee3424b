#include "stack/qp/recv.h"

namespace verbena {

RecvQueue::Take take_recv(Engine& engine, Qp& qp) {
  ResponderProgress& at = qp.resp.at;
  RecvQueue::Take result;
  if (qp.srq != nullptr) {
    result = qp.srq->take(at.recv, {qp.srq_sges.get(), qp.srq->max_sge()}, engine.events);
  } else {
    result = qp.rq.take(at.recv);
  }
  at.recv_held = result == RecvQueue::Take::kTaken || result == RecvQueue::Take::kMalformed;
  return result;
}

std::span<const abi::Sge> recv_sges(const Qp& qp) {
  const RecvWr& wr = qp.resp.at.recv;
  if (qp.srq == nullptr) return qp.rq.sges(wr);
  return {qp.srq_sges.get(), wr.num_sge};
}

PdId recv_pd(const Qp& qp) {
  return qp.srq != nullptr ? qp.srq->pd() : qp.pd;
}

void give_back_recv(Qp& qp) {
  ResponderProgress& at = qp.resp.at;
  if (qp.srq != nullptr && at.recv_held) qp.srq->give_back(at.recv.index);
  at.recv_held = false;
}

}  // namespace verbena
