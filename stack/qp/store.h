// Storing packet payloads in client memory through the engine's Placement.
//
// Anything here may flush bytes that waited before, of this queue pair or another. A failure is
// handled at once at the queue pair whose bytes they were: it falls back to where they began, or
// goes to ERR. The caller is told when that was its own queue pair, and must stop then.
#pragma once

#include <span>

#include "stack/abi/wqe.h"
#include "stack/mem/sg_copy.h"
#include "stack/qp/engine.h"

namespace verbena {

// Stores what waits. Returns the queue pair whose bytes could not be stored, or nullptr.
Qp* flush_placement(Engine& engine);

// Adds checked bytes. False: bytes of the same queue pair before these could not be stored.
bool store(Engine& engine, const Placement::Owner& owner, const Translation& where,
           std::span<const uint8_t> bytes);

// Adds `bytes` at `offset` of the message that `sges` describe, as protection domain `pd` may.
// Bytes beyond their end are an error of the caller. kLater: as false from store().
CopyResult scatter_to_sges(Engine& engine, const Placement::Owner& owner, PdId pd,
                           std::span<const abi::Sge> sges, uint64_t offset,
                           std::span<const uint8_t> bytes);

}  // namespace verbena
