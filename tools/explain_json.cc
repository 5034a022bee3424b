#include "tools/explain_json.h"

#include <string>

#include "tools/explain/summary.h"
#include "tools/explain/text.h"

namespace verbena::tools {

namespace {

using nlohmann::json;

const char* place_name(trace::Place place) {
  switch (place) {
    case trace::Place::kUnordered:
      return "unordered";
    case trace::Place::kNew:
      return "new";
    case trace::Place::kAgain:
      return "again";
    case trace::Place::kCopy:
      return "copy";
    case trace::Place::kLate:
      return "late";
    case trace::Place::kRestart:
      return "restart";
  }
  return "";
}

json endpoint_json(const trace::Endpoint& endpoint) {
  json object;
  object["address"] = explain::gid_text(endpoint.gid);
  object["mac"] = explain::mac_text(endpoint.mac);
  object["qpn"] = endpoint.qpn ? json(*endpoint.qpn) : json();
  return object;
}

json summary_json(const trace::Trace& trace, const explain::ConnectionSummary& summary) {
  const trace::Connection& connection = trace.connections[summary.connection];
  json object;
  object["service"] = explain::service_name(connection.service);
  object["sides"] = {endpoint_json(connection.sides[0]), endpoint_json(connection.sides[1])};
  object["path_mtu"] = connection.path_mtu_known ? json(connection.path_mtu) : json();
  object["packets"] = summary.packets;
  object["messages"] = summary.messages;
  object["payload_bytes"] = summary.payload_bytes;
  object["sent_again"] = summary.again;
  object["copies"] = summary.copies;
  object["late"] = summary.late;
  object["gaps"] = summary.gaps;
  object["sequence_naks"] = summary.sequence_naks;
  object["rnr_naks"] = summary.rnr_naks;
  object["other_naks"] = summary.fatal_naks;
  object["reserved_answers"] = summary.reserved;
  object["answers_to_nothing_sent"] = summary.not_sent;
  object["wrong_lengths"] = summary.wrong_lengths;
  object["timeouts"] = summary.timeouts;
  object["cnps"] = summary.cnps;
  object["congestion_marks"] = summary.marked;
  object["bad_icrc"] = summary.bad_icrc;
  object["lost_on_wire"] = summary.lost;
  object["unanswered"] = summary.one_way ? json() : json(summary.unanswered);
  object["longest_silence_ns"] = summary.longest_silence;
  object["findings"] = summary.findings;
  return object;
}

json packet_json(const trace::Trace& trace, trace::Index index) {
  const trace::TracedPacket& traced = trace.packets[index];
  const explain::PacketWords words = explain::words_of(trace, traced);
  json object;
  object["number"] = traced.number;
  object["time_ns"] = static_cast<int64_t>(traced.time - trace.packets.front().time);
  object["bytes"] = traced.wire_bytes;
  object["name"] = words.name;
  object["details"] = words.details;
  object["note"] = words.note;
  if (!traced.comment.empty()) object["comment"] = traced.comment;
  object["place"] = place_name(traced.place);
  object["dropped"] = traced.drop ? json(drop_reason_name(*traced.drop)) : json();
  if (traced.packet) {
    object["opcode"] = traced.packet->opcode;
    object["psn"] = traced.packet->psn.value();
    object["payload_bytes"] = traced.payload_bytes;
    object["dest_qpn"] = traced.packet->dest_qpn;
    if (traced.packet->info->has_aeth) {
      object["syndrome"] = traced.packet->syndrome;
      object["msn"] = traced.packet->msn;
    }
  }
  if (traced.connection != trace::kNoIndex) object["side"] = traced.side;
  if (traced.missing > 0) object["missing_psns"] = traced.missing;
  const auto refer = [&](const char* name, trace::Index other) {
    if (other != trace::kNoIndex) object[name] = trace.packets[other].number;
  };
  refer("repeats", traced.repeats);
  refer("because_of", traced.cause_packet);
  refer("answers", traced.answers);
  refer("answered_by", traced.answered_by);
  return object;
}

}  // namespace

nlohmann::json explain_json(const trace::Trace& trace, const explain::Picture& picture) {
  json object = {{"connections", json::array()}, {"packets", json::array()}};
  std::vector<size_t> position(trace.connections.size(), 0);
  for (const explain::ConnectionSummary& summary : explain::summarise(trace, picture)) {
    position[summary.connection] = object["connections"].size();
    object["connections"].push_back(summary_json(trace, summary));
  }
  for (const trace::Index i : picture.selected) {
    json packet = packet_json(trace, i);
    const trace::Index connection = trace.packets[i].connection;
    packet["connection"] = connection == trace::kNoIndex ? json() : json(position[connection]);
    object["packets"].push_back(std::move(packet));
  }
  object["packets_in_capture"] = trace.packets.size();
  object["other_frames"] = trace.other_frames;
  object["rocev1_frames"] = trace.rocev1_frames;
  return object;
}

}  // namespace verbena::tools
