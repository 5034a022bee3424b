// Copying a send work request's bytes into packets.
#pragma once

#include <span>

#include "stack/mem/sg_copy.h"
#include "stack/qp/engine.h"

namespace verbena {

// Copies the message's bytes from `offset` on into `payloads`: inline data from the ring, else what
// the SGEs of the fetched work request at `index` describe.
CopyResult gather_message(Engine& engine, const Qp& qp, const SendWr& wr, uint32_t index,
                          uint64_t offset, std::span<const MutableBytes> payloads);

}  // namespace verbena
