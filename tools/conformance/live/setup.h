// What the target's agent is asked for before a case, and what its answer afterwards is held
// against.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/conformance/case.h"
#include "tools/conformance/live/wire.h"
#include "tools/trace/capture_reader.h"

namespace verbena::conformance::live {

// The message "open".
nlohmann::json open_message(const Case& c, const trace::Capture& capture, const Host& target,
                            const Host& peer);

// What a piece describes, in a region of that size.
std::vector<uint8_t> bytes_of(const Piece& piece, size_t region_bytes,
                              const trace::Capture& capture);
// Writes it to its place in the region.
void put(std::vector<uint8_t>& region, const Piece& piece, const trace::Capture& capture);
// The contents of all regions at the beginning.
std::vector<std::vector<uint8_t>> contents_of(const Case& c, const trace::Capture& capture);
std::string to_hex(const std::vector<uint8_t>& bytes);

// What is wrong with the answer to "result": a sentence each. `posted` are the receives that were
// posted, in order; `memories` what the application left in the regions.
std::vector<std::string> check_result(const Case& c, const trace::Capture& capture,
                                      const std::vector<size_t>& posted,
                                      std::vector<std::vector<uint8_t>> memories,
                                      const nlohmann::json& result);

}  // namespace verbena::conformance::live
