// Taking receive work requests, from a queue pair's own receive queue or its shared one.
#pragma once

#include <span>

#include "stack/qp/engine.h"

namespace verbena {

// Takes the next work request into resp.at.recv; it is held after kTaken and kMalformed.
RecvQueue::Take take_recv(Engine& engine, Qp& qp);

// The SGEs of the held work request, and the protection domain that they are checked against.
std::span<const abi::Sge> recv_sges(const Qp& qp);
PdId recv_pd(const Qp& qp);

// Before the queue pair is reset or destroyed: a held work request goes back to its shared queue.
void give_back_recv(Qp& qp);

}  // namespace verbena
