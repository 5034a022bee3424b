#include "tools/conformance/case_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "stack/objects.h"
#include "stack/stats.h"
#include "tools/conformance/case_text.h"
#include "tools/conformance/compare.h"
#include "tools/conformance/input_file.h"
#include "tools/conformance/toml_table.h"
#include "tools/error.h"

namespace verbena::conformance {
namespace {

constexpr uint64_t kMax8 = 0xFF;
constexpr uint64_t kMax16 = 0xFFFF;
constexpr uint64_t kMax20 = 0xFFFFF;
constexpr uint64_t kMax24 = 0xFFFFFF;
constexpr uint64_t kMax32 = 0xFFFFFFFF;
constexpr uint64_t kMax64 = UINT64_MAX;
constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 28;
std::optional<Data> read_data(TomlTable& table, std::string_view key) {
  const auto text = table.text(key);
  if (!text) return std::nullopt;
  const auto data = parse_data(*text);
  if (!data) table.refuse(key, fmt::format("'{}' describes no bytes", *text), kDataHelp);
  return data;
}

// A list of packets as numbers or as text.
std::vector<uint32_t> read_packets(TomlTable& table, std::string_view key) {
  if (!table.is_text(key)) {
    const std::vector<uint64_t> numbers = table.numbers(key, kMax32);
    return {numbers.begin(), numbers.end()};
  }
  const std::string text = table.need_text(key);
  const auto packets = parse_packets(text);
  if (!packets) {
    table.refuse(key, fmt::format("'{}' is no list of packets", text),
                 fmt::format("{} = \"1-5, 7\"", key));
  }
  return *packets;
}

void check_field(const TomlTable& table, std::string_view key, std::string_view field) {
  const std::vector<std::string_view> known = field_names();
  if (std::find(known.begin(), known.end(), field) != known.end()) return;
  table.refuse(key, fmt::format("'{}' is no field of a packet", field),
               fmt::format("use one of {}", fmt::join(known, ", ")));
}

std::vector<FieldValue> read_fields(TomlTable& table) {
  std::vector<FieldValue> values;
  for (const std::string& key : table.keys()) check_field(table, key, key);
  for (const std::string_view field : field_names()) {
    if (!table.has(field)) continue;
    FieldValue value{std::string(field), 0};
    if (field == "opcode" && table.is_text(field)) {
      const std::string name = table.need_text(field);
      const auto opcode = opcode_of(name, Transport::kRc);
      if (!opcode) {
        table.refuse(field, fmt::format("'{}' is no opcode of RC", name),
                     "as tshark writes it: opcode = \"RDMA READ response First\"");
      }
      value.value = *opcode;
    } else {
      value.value = table.need_number(field, kMax64);
    }
    values.push_back(value);
  }
  return values;
}

// At least the opcode and the PSN, which tell one packet from another.
ExtraPacket read_extra(const TomlTable& parent, uint32_t after, TomlTable& table) {
  ExtraPacket extra{after, read_fields(table)};
  const auto has = [&](std::string_view field) {
    return std::any_of(extra.fields.begin(), extra.fields.end(),
                       [&](const FieldValue& value) { return value.field == field; });
  };
  if (has("opcode") && has("psn")) return extra;
  parent.refuse("it does not say which packet it is",
                "at least { opcode = \"Acknowledge\", psn = 7 }");
}

// ---- The parts of a case ----

class Reader {
 public:
  Reader(TomlTable root, Case& result) : root_(std::move(root)), case_(result) {}

  void read() {
    read_head();
    read_device();
    for (TomlTable& table : root_.tables("qp")) read_qp(table);
    if (case_.qps.empty()) root_.refuse("it has no queue pair", "a table [[qp]]");
    for (TomlTable& table : root_.tables("memory")) read_memory(table);
    for (TomlTable& table : root_.tables("recv")) read_recv(table);
    for (TomlTable& table : root_.tables("send")) read_send(table);
    for (TomlTable& table : root_.tables("store")) read_store(table);
    for (TomlTable& table : root_.tables("modify")) read_modify(table);
    if (auto table = root_.table("network")) read_network(*table);
    for (TomlTable& table : root_.tables("difference")) read_difference(table);
    if (auto table = root_.table("compare")) read_compare(*table);
    if (auto table = root_.table("expect")) read_expect(*table);
    root_.done();
    check_role();
  }

 private:
  void read_head();
  void read_device();
  void read_qp(TomlTable& table);
  void read_memory(TomlTable& table);
  void read_recv(TomlTable& table);
  void read_send(TomlTable& table);
  void read_store(TomlTable& table);
  void read_modify(TomlTable& table);
  void read_network(TomlTable& table);
  void read_difference(TomlTable& table);
  void read_compare(TomlTable& table);
  void read_expect(TomlTable& table);
  void check_role();

  static Peer read_peer(TomlTable table, bool with_qpn);
  When read_when(TomlTable& table);
  size_t read_qp_of(TomlTable& table);
  static std::vector<Piece> read_pieces(TomlTable& table, std::string_view key, uint64_t bytes);
  std::vector<SgeSection> read_sges(TomlTable& table);
  static std::optional<Completion> read_completion(TomlTable& table);

  TomlTable root_;
  Case& case_;
};

void Reader::read_head() {
  case_.title = root_.need_text("title");
  case_.rules = root_.texts("rules");
  case_.capture = case_.file.parent_path() / root_.need_text("capture");
  const auto role = root_.word("role", kRoleNames);
  if (!role) root_.refuse("role", "is missing", "role = \"requester\", \"responder\" or \"both\"");
  case_.role = static_cast<Role>(*role);
  const std::vector<uint64_t> range = root_.numbers("packets", kMax32);
  if (root_.has("packets")) {
    if (range.size() != 2 || range[0] == 0 || range[1] < range[0]) {
      root_.refuse("packets", "is no range of packets", "packets = [first, last], from 1");
    }
    case_.first_packet = static_cast<uint32_t>(range[0]);
    case_.last_packet = static_cast<uint32_t>(range[1]);
  }
  case_.engine_only = root_.text("engine_only").value_or("");
  case_.play_all = root_.flag("play_all", false);
  case_.until_idle = root_.flag("until_idle", true);
}

void Reader::read_device() {
  TomlTable table = root_.need_table("device");
  DeviceSection& device = case_.device;
  device.gid = table.need_ip("ip");
  device.mac = table.need_mac("mac");
  table.read("window_packets", device.window_packets, kMax16);
  table.read("ack_every_packets", device.ack_every_packets, kMax16);
  if (device.window_packets == 0) table.refuse("window_packets", "is 0", "a number from 1 on");
  if (device.ack_every_packets == 0) {
    table.refuse("ack_every_packets", "is 0", "a number from 1 on");
  }
  table.read_word("active_mtu", device.active_mtu, kMtuNames);
  table.done();
}

Peer Reader::read_peer(TomlTable table, bool with_qpn) {
  Peer peer;
  peer.gid = table.need_ip("ip");
  peer.mac = table.need_mac("mac");
  if (with_qpn) peer.qpn = static_cast<Qpn>(table.need_number("qpn", kMax24));
  table.done();
  return peer;
}

void Reader::read_qp(TomlTable& table) {
  QpSection qp;
  if (const auto qpn = table.number("qpn", kMax24)) qp.qpn = static_cast<Qpn>(*qpn);
  table.read_word("type", qp.type, kQpTypeNames);
  if (qp.type == QpType::kRc) {
    qp.peer = read_peer(table.need_table("peer"), true);
    table.read_word("path_mtu", qp.path_mtu, kMtuNames);
    table.read("rq_psn", qp.rq_psn, kMax24);
    table.read("msn", qp.msn, kMax24);
    qp.access = table.bits("access", kAccessNames).value_or(0);
    table.read("max_rd_atomic", qp.max_rd_atomic, 16);
    table.read("max_dest_rd_atomic", qp.max_dest_rd_atomic, 16);
    table.read("timeout", qp.timeout, 31);
    table.read("retry_cnt", qp.retry_cnt, 7);
    table.read("rnr_retry", qp.rnr_retry, 7);
    table.read("min_rnr_timer", qp.min_rnr_timer, 31);
  } else {
    if (!qp.qpn) table.refuse("qpn", "is missing", "its number, which datagrams hold");
    table.read("qkey", qp.qkey, kMax32);
  }
  table.read("sq_psn", qp.sq_psn, kMax24);
  table.read("traffic_class", qp.traffic_class, kMax8);
  table.read("flow_label", qp.flow_label, kMax20);
  table.read_word("state", qp.state, kQpStateNames);
  if (qp.state > QpState::kRts) table.refuse("state", "is not one to begin in", "RTR or RTS");
  qp.end_state = qp.state;
  table.read_word("end_state", qp.end_state, kQpStateNames);
  table.done();
  case_.qps.push_back(qp);
}

// Pieces of a region of so many bytes.
std::vector<Piece> Reader::read_pieces(TomlTable& table, std::string_view key, uint64_t bytes) {
  std::vector<Piece> pieces;
  for (TomlTable& entry : table.tables(key)) {
    Piece piece;
    entry.read("offset", piece.offset, bytes - 1);
    const auto data = read_data(entry, "data");
    if (!data) entry.refuse("data", "is missing", kDataHelp);
    piece.data = *data;
    entry.done();
    pieces.push_back(piece);
  }
  return pieces;
}

void Reader::read_memory(TomlTable& table) {
  MemorySection memory;
  memory.va = table.need_number("va", kMax64);
  memory.bytes = table.need_number("bytes", kMaxRegionBytes);
  if (memory.bytes == 0) table.refuse("bytes", "is 0", "at least 1");
  if (memory.va > kMax64 - (memory.bytes - 1)) {
    table.refuse("va", "and bytes reach beyond 2^64", "va + bytes at most 2^64");
  }
  memory.access = table.bits("access", kAccessNames).value_or(0);
  const uint32_t remote_write = kAccessRemoteWrite | kAccessRemoteAtomic;
  if ((memory.access & remote_write) != 0) memory.access |= kAccessLocalWrite;
  if (const auto key = table.number("key", kMax32)) memory.key = static_cast<Key>(*key);
  memory.other_pd = table.flag("other_pd", false);
  memory.contents = read_pieces(table, "contents", memory.bytes);
  memory.expect = read_pieces(table, "expect", memory.bytes);
  table.done();
  case_.memories.push_back(std::move(memory));
}

When Reader::read_when(TomlTable& table) {
  When when;
  uint32_t given = 0;
  if (const auto packet = table.number("before", kMax32)) {
    when = {When::Kind::kBefore, static_cast<uint32_t>(*packet), 0};
    ++given;
  }
  if (const auto packet = table.number("after", kMax32)) {
    when = {When::Kind::kAfter, static_cast<uint32_t>(*packet), 0};
    ++given;
  }
  if (const auto at = table.seconds("at")) {
    when = {When::Kind::kAt, 0, *at};
    ++given;
  }
  if (given > 1) table.refuse("it has more than one time", "one of before, after and at");
  return when;
}

size_t Reader::read_qp_of(TomlTable& table) {
  const auto qpn = table.number("qpn", kMax24);
  if (!qpn) {
    if (case_.qps.size() == 1) return 0;
    table.refuse("qpn", "is missing, and there are several", "qpn of one of the [[qp]]");
  }
  for (size_t i = 0; i < case_.qps.size(); ++i) {
    if (case_.qps[i].qpn == static_cast<Qpn>(*qpn)) return i;
  }
  table.refuse("qpn", fmt::format("no [[qp]] has the number 0x{:x}", *qpn), "one of theirs");
}

std::vector<SgeSection> Reader::read_sges(TomlTable& table) {
  std::vector<SgeSection> sges;
  for (TomlTable& entry : table.tables("sges")) {
    SgeSection sge;
    sge.va = entry.need_number("va", kMax64);
    sge.bytes = static_cast<uint32_t>(entry.need_number("bytes", kMax32));
    sge.lkey = static_cast<Key>(entry.need_number("lkey", kMax32));
    entry.done();
    sges.push_back(sge);
  }
  if (sges.size() > 16) table.refuse("sges", "are too many", "at most 16");
  return sges;
}

// `completion = "SUCCESS"`, or a table with more.
std::optional<Completion> Reader::read_completion(TomlTable& table) {
  if (!table.has("completion")) return std::nullopt;
  Completion completion;
  if (table.is_text("completion")) {
    table.read_word("completion", completion.status, kWcStatusNames);
    return completion;
  }
  TomlTable inner = table.need_table("completion");
  inner.read_word("status", completion.status, kWcStatusNames);
  for (const uint32_t other : inner.words("or", kWcStatusNames)) {
    completion.or_status.push_back(static_cast<abi::WcStatus>(other));
  }
  if (const auto opcode = inner.word("opcode", kWcOpcodeNames)) {
    completion.opcode = static_cast<abi::WcOpcode>(*opcode);
  }
  if (const auto bytes = inner.number("byte_len", kMax32)) {
    completion.byte_len = static_cast<uint32_t>(*bytes);
  }
  if (const auto imm = inner.number("imm", kMax32)) completion.imm = static_cast<uint32_t>(*imm);
  if (const auto qpn = inner.number("src_qpn", kMax24)) {
    completion.src_qpn = static_cast<Qpn>(*qpn);
  }
  inner.done();
  return completion;
}

void Reader::read_recv(TomlTable& table) {
  RecvSection recv;
  recv.qp = read_qp_of(table);
  recv.when = read_when(table);
  table.read("bytes", recv.bytes, kMaxRegionBytes);
  recv.sges = read_sges(table);
  recv.expect = read_data(table, "expect");
  if (!recv.sges.empty() && (recv.bytes != 0 || recv.expect)) {
    table.refuse("sges", "are in memory of their own", "leave out bytes and expect");
  }
  recv.completion = read_completion(table);
  table.done();
  case_.recvs.push_back(std::move(recv));
}

void Reader::read_send(TomlTable& table) {
  SendSection send;
  send.qp = read_qp_of(table);
  send.when = read_when(table);
  table.read_word("opcode", send.opcode, kWrOpcodeNames);
  send.flags = static_cast<uint8_t>(table.bits("flags", kWrFlagNames).value_or(abi::kWrSignaled));
  table.read("bytes", send.bytes, kMaxRegionBytes);
  send.sges = read_sges(table);
  const bool is_read = send.opcode == abi::WrOpcode::kRead;
  if (is_read) {
    send.expect = read_data(table, "expect");
  } else if (const auto data = read_data(table, "data")) {
    send.data = *data;
  }
  if (!send.sges.empty() && (send.bytes != 0 || table.has("data") || send.expect)) {
    table.refuse("sges", "are in memory of their own", "leave out bytes, data and expect");
  }
  const bool is_send =
      send.opcode == abi::WrOpcode::kSend || send.opcode == abi::WrOpcode::kSendImm;
  if (!is_send) {
    table.read("remote_va", send.remote_va, kMax64);
    table.read("rkey", send.rkey, kMax32);
  }
  table.read("imm", send.imm, kMax32);
  if (case_.qps[send.qp].type == QpType::kUd) {
    send.to = read_peer(table.need_table("to"), true);
    table.read("qkey", send.qkey, kMax32);
  }
  send.completion = read_completion(table);
  table.done();
  case_.sends.push_back(std::move(send));
}

void Reader::read_store(TomlTable& table) {
  StoreSection store;
  store.when = read_when(table);
  const uint64_t va = table.need_number("va", kMax64);
  const auto data = read_data(table, "data");
  if (!data) table.refuse("data", "is missing", kDataHelp);
  table.done();
  for (size_t i = 0; i < case_.memories.size(); ++i) {
    const MemorySection& memory = case_.memories[i];
    if (va < memory.va || va - memory.va >= memory.bytes) continue;
    store.memory = i;
    store.piece = {va - memory.va, *data};
    case_.stores.push_back(store);
    return;
  }
  table.refuse("va", "lies in no [[memory]]", "an address in one of them");
}

void Reader::read_modify(TomlTable& table) {
  ModifySection modify;
  modify.qp = read_qp_of(table);
  modify.when = read_when(table);
  const auto state = table.word("state", kQpStateNames);
  if (!state) table.refuse("state", "is missing", "state = \"ERR\"");
  modify.state = static_cast<QpState>(*state);
  table.done();
  case_.modifies.push_back(modify);
}

void Reader::read_network(TomlTable& table) {
  NetworkSection& network = case_.network;
  network.lost = read_packets(table, "lost");
  network.repeated = read_packets(table, "repeated");
  network.corrupted = read_packets(table, "corrupted");
  network.copied = read_packets(table, "copied");
  for (TomlTable& entry : table.tables("late")) {
    const auto packet = static_cast<uint32_t>(entry.need_number("packet", kMax32));
    const auto after = static_cast<uint32_t>(entry.need_number("after", kMax32));
    if (after <= packet) entry.refuse("after", "is not later than the packet", "a later packet");
    entry.done();
    network.late[packet] = after;
  }
  for (TomlTable& entry : table.tables("unseen")) {
    const auto after = static_cast<uint32_t>(entry.need_number("after", kMax32));
    if (after == 0) entry.refuse("after", "is 0", "the number of a packet, from 1 on");
    TomlTable packet = entry.need_table("packet");
    network.unseen.push_back(read_extra(entry, after, packet));
    entry.done();
  }
  table.done();
}

void Reader::read_compare(TomlTable& table) {
  CompareSection& compare = case_.compare;
  compare.exact_acks = table.flag("exact_acks", false);
  compare.timer_tolerance = table.factor("timer_tolerance").value_or(compare.timer_tolerance);
  compare.optional = read_packets(table, "optional");
  for (TomlTable& entry : table.tables("ignore")) {
    Ignored ignored;
    ignored.packets = read_packets(entry, "packets");
    ignored.fields = entry.texts("fields");
    if (ignored.packets.empty() || ignored.fields.empty()) {
      entry.refuse("it does not say which fields of which packets",
                   "{ packets = \"3\", fields = [\"msn\"] }");
    }
    for (const std::string& field : ignored.fields) check_field(entry, "fields", field);
    entry.done();
    compare.ignored.push_back(std::move(ignored));
  }
  table.done();
}

void Reader::read_difference(TomlTable& table) {
  Difference difference;
  difference.rule = table.need_text("rule");
  difference.why = table.need_text("why");
  difference.packets = read_packets(table, "packets");
  uint32_t after = 0;
  table.read("after", after, kMax32);
  if (difference.packets.empty() == (after == 0)) {
    table.refuse("it says of no packet, or of two kinds, what is different",
                 "packets = \"4\", or after = 4 for a packet that the capture has not");
  }
  if (table.is_text("ours")) {
    if (table.need_text("ours") != "nothing" || after != 0) {
      table.refuse("ours", "is neither \"nothing\" nor a table of fields",
                   "ours = { syndrome = 0x61 }");
    }
    difference.kind = Difference::Kind::kNothing;
  } else {
    TomlTable ours = table.need_table("ours");
    if (after != 0) {
      difference.kind = Difference::Kind::kExtra;
      difference.extra = read_extra(table, after, ours);
    } else {
      difference.ours = read_fields(ours);
      if (difference.ours.empty()) {
        table.refuse("ours", "has no field", "ours = { syndrome = 0x61 }");
      }
    }
  }
  table.done();
  case_.differences.push_back(std::move(difference));
}

void Reader::read_expect(TomlTable& table) {
  for (TomlTable& entry : table.tables("events")) {
    ExpectedEvent expected;
    const auto event = entry.word("event", kAsyncEventNames);
    if (!event) entry.refuse("event", "is missing", "one of " + choices(kAsyncEventNames));
    expected.event = static_cast<AsyncEventType>(*event);
    expected.qp = read_qp_of(entry);
    entry.done();
    case_.events.push_back(expected);
  }
  if (auto counters = table.table("counters")) {
    std::vector<std::string> known;
    DeviceStats().for_each([&](const char* name, uint64_t) { known.emplace_back(name); });
    for (size_t i = 0; i < static_cast<size_t>(DropReason::kCount); ++i) {
      known.push_back(fmt::format("drop_{}", drop_reason_name(static_cast<DropReason>(i))));
    }
    for (const std::string& name : counters->keys()) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        counters->refuse(name, "is no counter",
                         fmt::format("use one of {}", fmt::join(known, ", ")));
      }
      case_.counters[name] = counters->need_number(name, kMax64);
    }
  }
  table.done();
}

void Reader::check_role() {
  if (case_.role == Role::kResponder && !case_.sends.empty()) {
    root_.refuse("role", "is responder, and yet there is a [[send]]",
                 "role = \"requester\", or \"both\"");
  }
  if (case_.role != Role::kResponder && case_.sends.empty()) {
    root_.refuse("role", "is not responder, and yet there is no [[send]]", "role = \"responder\"");
  }
}

}  // namespace

Case parse_case(std::string_view text, const std::filesystem::path& file) {
  Case result;
  result.file = file;
  try {
    const toml::table table = toml::parse(text);
    Reader(TomlTable(table, file.string(), ""), result).read();
  } catch (const toml::parse_error& error) {
    throw tools::CommandError(
        fmt::format("{}:{}: {}", file.string(), error.source().begin.line, error.description()),
        "TOML as https://toml.io describes it");
  }
  return result;
}

Case read_case(const std::filesystem::path& file) {
  need_regular_file(file, "a case file (*.toml), or a folder with some");
  std::ifstream stream(file);
  if (!stream) {
    throw tools::CommandError(fmt::format("{} cannot be read", file.string()),
                              "a case file that you may read");
  }
  std::ostringstream text;
  text << stream.rdbuf();
  return parse_case(text.str(), file);
}

}  // namespace verbena::conformance
