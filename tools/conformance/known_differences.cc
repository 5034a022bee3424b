#include "tools/conformance/known_differences.h"

#include <algorithm>
#include <optional>

#include "stack/wire/parse.h"
#include "stack/wire/syndrome.h"

namespace verbena::conformance {
namespace {

using wire::ParsedPacket;

// A failed row, with the packets that it is about.
struct Failure {
  const Row& row;
  const ParsedPacket* capture;  // null: there is none
  const ParsedPacket* ours;
};

bool differs_in(const Row& row, std::string_view field) {
  return row.mismatches.size() == 1 && row.mismatches[0].field == field;
}

Difference fields(const Failure& failure, const char* rule, const char* why) {
  Difference difference;
  difference.rule = rule;
  difference.why = why;
  difference.packets = {failure.row.packet};
  for (const FieldMismatch& mismatch : failure.row.mismatches) {
    difference.ours.push_back({mismatch.field, *mismatch.ours_value});
  }
  return difference;
}

// RC-RSP-22: rxe takes "longer than what is left of the receive" for a malformed work request.
std::optional<Difference> too_long(const Failure& failure) {
  if (failure.capture == nullptr || failure.ours == nullptr ||
      !differs_in(failure.row, "syndrome") ||
      failure.capture->syndrome != nak_syndrome(NakCode::kRemoteOperational) ||
      failure.ours->syndrome != nak_syndrome(NakCode::kInvalidRequest)) {
    return std::nullopt;
  }
  return fields(failure, "RC-RSP-22",
                "a SEND longer than the receive is an invalid request; the capture's sender "
                "answers remote operational error");
}

// RC-RSP-31: rxe goes on with the opcodes of the first answer.
std::optional<Difference> read_replay(const Failure& failure) {
  if (failure.capture == nullptr || failure.ours == nullptr ||
      failure.capture->info->operation != Operation::kReadResponse ||
      failure.ours->info->operation != Operation::kReadResponse ||
      failure.capture->info->starts_message() || !failure.ours->info->starts_message()) {
    return std::nullopt;
  }
  // The opcode, and the AETH that only First and Only have.
  for (const FieldMismatch& mismatch : failure.row.mismatches) {
    if (mismatch.field != "opcode" && mismatch.expected != "absent") return std::nullopt;
  }
  return fields(failure, "RC-RSP-31",
                "the answer to a READ asked for again begins with First or Only; the capture's "
                "sender goes on where the first answer stopped");
}

// RC-RSP-3: rxe does not count an RNR NAK as the one NAK.
std::optional<Difference> nak_behind_rnr(const Case& c, const trace::Capture& capture,
                                         const Failure& failure) {
  if (failure.row.kind != Row::Kind::kMissing || failure.capture == nullptr ||
      failure.capture->info->operation != Operation::kAcknowledge ||
      failure.capture->syndrome != nak_syndrome(NakCode::kPsnSequence)) {
    return std::nullopt;
  }
  for (size_t i = failure.row.packet - 1; i-- > 0;) {
    const auto parsed = wire::parse(capture.frames[i].bytes);
    const auto* before = std::get_if<ParsedPacket>(&parsed);
    if (before == nullptr || before->source_gid != c.device.gid ||
        before->dest_qpn != failure.capture->dest_qpn || !before->info->is_response()) {
      continue;
    }
    const bool rnr = before->info->operation == Operation::kAcknowledge &&
                     syndrome_kind(before->syndrome) == SyndromeKind::kRnrNak;
    if (!rnr || before->psn != failure.capture->psn) return std::nullopt;
    Difference difference;
    difference.kind = Difference::Kind::kNothing;
    difference.rule = "RC-RSP-3";
    difference.why =
        "behind an RNR NAK Verbena is silent about what follows, until the packet comes again";
    difference.packets = {failure.row.packet};
    return difference;
  }
  return std::nullopt;
}

const ParsedPacket* packet_of(const std::variant<ParsedPacket, DropReason>& parsed) {
  return std::get_if<ParsedPacket>(&parsed);
}

}  // namespace

size_t add_known_differences(Case& c, const trace::Capture& capture, const CaseResult& result) {
  size_t added = 0;
  for (const Row& row : result.rows) {
    if (!row.failed() || row.packet == 0) continue;
    const auto theirs = wire::parse(capture.frames[row.packet - 1].bytes);
    const auto ours = wire::parse(row.ours);
    const Failure failure{row, packet_of(theirs), packet_of(ours)};
    std::optional<Difference> difference = too_long(failure);
    if (!difference) difference = read_replay(failure);
    if (!difference) difference = nak_behind_rnr(c, capture, failure);
    if (!difference) continue;
    c.differences.push_back(std::move(*difference));
    ++added;
  }
  return added;
}

}  // namespace verbena::conformance
