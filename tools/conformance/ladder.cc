#include "tools/conformance/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "stack/wire/parse.h"

namespace verbena::conformance {
namespace {

constexpr size_t kWidth = 46;         // of one ladder
constexpr size_t kMostFailures = 10;  // that are shown

std::string_view mark(Row::Kind kind) {
  switch (kind) {
    case Row::Kind::kSame:
      return "=";
    case Row::Kind::kDifferent:
      return "≠";
    case Row::Kind::kMissing:
    case Row::Kind::kExtra:
    case Row::Kind::kUntimely:
      return "!";
    case Row::Kind::kCovered:
    case Row::Kind::kAllowed:
      return "~";
    case Row::Kind::kPlayed:
    case Row::Kind::kLost:
    case Row::Kind::kAction:
      return " ";
  }
  return " ";
}

// An arrow with its text, filled up to the width: "── SEND Only PSN 0x1 64 B ────▶".
std::string arrow(const std::string& text, bool to_device) {
  const size_t used = text.size() + 5;
  std::string line;
  for (size_t i = used; i < kWidth; ++i) line += "─";
  return to_device ? fmt::format("── {} {}▶", text, line) : fmt::format("◀─ {} {}─", text, line);
}

std::string side(std::span<const uint8_t> frame, bool to_device) {
  return frame.empty() ? std::string(kWidth, ' ') : arrow(packet_text(frame), to_device);
}

void add_row(std::string& text, const Row& row, const std::string& device,
             const trace::Capture& capture) {
  const std::string head =
      fmt::format("{:>6} {:>11.6f}", row.packet != 0 ? std::to_string(row.packet) : "",
                  static_cast<double>(row.time) / 1e9);
  if (row.kind == Row::Kind::kAction) {
    text += fmt::format("{}  · {}\n", head, row.note);
    return;
  }
  std::span<const uint8_t> captured;
  if (row.packet != 0) captured = capture.frames[row.packet - 1].bytes;
  const bool played = row.kind == Row::Kind::kPlayed;
  const bool to_device = played || row.kind == Row::Kind::kLost;
  text += fmt::format("{}  {} {} {}", head, side(captured, to_device), mark(row.kind),
                      played ? side(captured, true) : side(row.ours, false));
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
  for (const FieldMismatch& mismatch : row.mismatches) {
    text += fmt::format("{:20}{}: expected {}, {} sent {}\n", "", mismatch.field, mismatch.expected,
                        device, mismatch.ours);
  }
  if (!row.note.empty()) text += fmt::format("{:20}{}\n", "", row.note);
}

std::string header(const std::string& device) {
  const std::string names = fmt::format("{:<23}{:>23}", "peer", "device");
  return fmt::format("{:>6} {:>11}  {:<46}   {}\n{:>6} {:>11}  {}   {}\n", "packet", "seconds",
                     "the capture", device, "", "", names, names);
}

}  // namespace

std::string packet_text(std::span<const uint8_t> frame) {
  const auto parsed = wire::parse(frame);
  if (const auto* reason = std::get_if<DropReason>(&parsed)) {
    return fmt::format("{} bytes, {}", frame.size(), drop_reason_name(*reason));
  }
  const auto& packet = *std::get_if<wire::ParsedPacket>(&parsed);
  std::string text = fmt::format("{} {:06x}", packet.info->name, packet.psn.value());
  if (packet.info->has_reth) text += fmt::format(" of {} B", packet.dma_length);
  if (packet.info->operation == Operation::kAcknowledge) {
    text += fmt::format(" 0x{:02x} MSN {}", packet.syndrome, packet.msn);
  }
  if (packet.info->has_payload && !packet.payload.empty()) {
    text += fmt::format(" {} B", packet.payload.size());
  }
  if (!wire::icrc_valid(packet)) text += " bad ICRC";
  return text;
}

std::string ladder(const CaseResult& result, const trace::Capture& capture, size_t context) {
  const std::vector<Row>& rows = result.rows;
  std::vector<bool> shown(rows.size(), false);
  size_t failures = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].failed() || ++failures > kMostFailures) continue;
    const size_t first = i - std::min(i, context);
    const size_t last = std::min(rows.size() - 1, i + context);
    for (size_t j = first; j <= last; ++j) shown[j] = true;
  }
  std::string text = header(result.device);
  for (size_t i = 0; i < rows.size();) {
    size_t left_out = 0;
    while (i < rows.size() && !shown[i]) ++i, ++left_out;
    if (left_out != 0) text += fmt::format("{:>6} {} rows left out\n", "…", left_out);
    if (i < rows.size()) add_row(text, rows[i++], result.device, capture);
  }
  if (failures > kMostFailures) {
    text += fmt::format("{:>6} {} more failures\n", "…", failures - kMostFailures);
  }
  return text;
}

}  // namespace verbena::conformance
