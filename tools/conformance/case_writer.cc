#include "tools/conformance/case_writer.h"

#include <fmt/format.h>

#include "stack/wire/opcode.h"
#include "tools/conformance/compare.h"
#include "tools/conformance/names.h"

namespace verbena::conformance {
namespace {

std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    all += c;
  }
  return all + '"';
}

// TOML's integers end at 2^63.
std::string number_text(uint64_t value) {
  return value > INT64_MAX ? fmt::format("\"0x{:x}\"", value) : fmt::format("0x{:x}", value);
}

std::string bits_text(uint32_t bits, Names names) {
  std::vector<std::string> words;
  for (const Name& name : names) {
    if ((bits & name.value) != 0) words.push_back(quoted(std::string(name.word)));
  }
  return fmt::format("[{}]", fmt::join(words, ", "));
}

std::string data_text(const Data& data) {
  switch (data.kind) {
    case Data::Kind::kZero:
      return "\"zero\"";
    case Data::Kind::kHex:
      return fmt::format("\"hex {:02x}\"", fmt::join(data.bytes, " "));
    case Data::Kind::kPattern:
      return fmt::format("\"pattern {}\"", data.seed);
    case Data::Kind::kPackets:
      return fmt::format("\"packets {}\"", packets_text(data.packets));
  }
  return "";
}

std::string peer_text(const Peer& peer) {
  return fmt::format("{{ ip = \"{}\", mac = \"{}\", qpn = 0x{:x} }}", ip_text(peer.gid),
                     mac_text(peer.mac), peer.qpn);
}

std::string field_list(const std::vector<FieldValue>& fields) {
  std::vector<std::string> texts;
  for (const FieldValue& field : fields) {
    const bool named = field.field == "opcode" &&
                       opcode_of(field_text("opcode", field.value), Transport::kRc) == field.value;
    texts.push_back(
        fmt::format("{} = {}", field.field,
                    named ? quoted(field_text("opcode", field.value)) : number_text(field.value)));
  }
  return fmt::format("{{ {} }}", fmt::join(texts, ", "));
}

class Writer {
 public:
  explicit Writer(const Case& c) : case_(c) {}

  std::string write() {
    head();
    for (const QpSection& qp : case_.qps) write(qp);
    network();
    compare();
    for (const MemorySection& memory : case_.memories) write(memory);
    for (const RecvSection& recv : case_.recvs) write(recv);
    for (const SendSection& send : case_.sends) write(send);
    for (const StoreSection& store : case_.stores) write(store);
    for (const ModifySection& modify : case_.modifies) write(modify);
    for (const Difference& difference : case_.differences) write(difference);
    expect();
    return std::move(text_);
  }

 private:
  void line(const char* key, const std::string& value) {
    text_ += fmt::format("{} = {}\n", key, value);
  }
  // Only what differs from the default.
  template <typename Number>
  void number(const char* key, Number value, Number otherwise) {
    if (value != otherwise) line(key, std::to_string(value));
  }
  void hex(const char* key, uint64_t value) { line(key, number_text(value)); }
  void table(const char* name) { text_ += fmt::format("\n[{}]\n", name); }
  void element(const char* name) { text_ += fmt::format("\n[[{}]]\n", name); }
  void packets(const char* key, const std::vector<uint32_t>& list) {
    if (!list.empty()) line(key, quoted(packets_text(list)));
  }

  void head();
  void write(const QpSection& qp);
  void write(const MemorySection& memory);
  void pieces(const char* key, const std::vector<Piece>& list);
  void which_qp(size_t qp);
  void when(const When& when);
  void sges(const std::vector<SgeSection>& list);
  void completion(const std::optional<Completion>& completion);
  void write(const RecvSection& recv);
  void write(const SendSection& send);
  void write(const StoreSection& store);
  void write(const ModifySection& modify);
  void network();
  void compare();
  void write(const Difference& difference);
  void expect();

  const Case& case_;
  std::string text_;
};

void Writer::head() {
  line("title", quoted(case_.title));
  std::vector<std::string> rules;
  for (const std::string& rule : case_.rules) rules.push_back(quoted(rule));
  line("rules", fmt::format("[{}]", fmt::join(rules, ", ")));
  const auto folder = case_.file.parent_path();
  line("capture", quoted(std::filesystem::proximate(case_.capture, folder.empty() ? "." : folder)
                             .generic_string()));
  line("role", quoted(word_of_enum(kRoleNames, case_.role)));
  if (case_.first_packet != 1 || case_.last_packet != 0) {
    line("packets", fmt::format("[{}, {}]", case_.first_packet, case_.last_packet));
  }
  if (!case_.engine_only.empty()) line("engine_only", quoted(case_.engine_only));
  if (case_.play_all) line("play_all", "true");
  if (!case_.until_idle) line("until_idle", "false");
  table("device");
  line("ip", quoted(ip_text(case_.device.gid)));
  line("mac", quoted(mac_text(case_.device.mac)));
  const DeviceSection plain;
  number("window_packets", case_.device.window_packets, plain.window_packets);
  number("ack_every_packets", case_.device.ack_every_packets, plain.ack_every_packets);
  number("active_mtu", mtu_bytes(case_.device.active_mtu), mtu_bytes(plain.active_mtu));
}

void Writer::write(const QpSection& qp) {
  const QpSection plain;
  element("qp");
  if (qp.type != plain.type) line("type", quoted(word_of_enum(kQpTypeNames, qp.type)));
  if (qp.qpn) hex("qpn", *qp.qpn);
  if (qp.type == QpType::kRc) {
    line("peer", peer_text(qp.peer));
    line("path_mtu", std::to_string(mtu_bytes(qp.path_mtu)));
    if (qp.rq_psn != 0) hex("rq_psn", qp.rq_psn);
    number("msn", qp.msn, plain.msn);
    if (qp.access != 0) line("access", bits_text(qp.access, kAccessNames));
    number("max_rd_atomic", qp.max_rd_atomic, plain.max_rd_atomic);
    number("max_dest_rd_atomic", qp.max_dest_rd_atomic, plain.max_dest_rd_atomic);
    number("timeout", qp.timeout, plain.timeout);
    number("retry_cnt", qp.retry_cnt, plain.retry_cnt);
    number("rnr_retry", qp.rnr_retry, plain.rnr_retry);
    number("min_rnr_timer", qp.min_rnr_timer, plain.min_rnr_timer);
  } else if (qp.qkey != 0) {
    hex("qkey", qp.qkey);
  }
  if (qp.sq_psn != 0) hex("sq_psn", qp.sq_psn);
  if (qp.traffic_class != 0) hex("traffic_class", qp.traffic_class);
  if (qp.flow_label != 0) hex("flow_label", qp.flow_label);
  if (qp.state != plain.state) line("state", quoted(word_of_enum(kQpStateNames, qp.state)));
  if (qp.end_state != qp.state) {
    line("end_state", quoted(word_of_enum(kQpStateNames, qp.end_state)));
  }
}

void Writer::pieces(const char* key, const std::vector<Piece>& list) {
  if (list.empty()) return;
  text_ += fmt::format("{} = [\n", key);
  for (const Piece& piece : list) {
    text_ += fmt::format("  {{ offset = {}, data = {} }},\n", piece.offset, data_text(piece.data));
  }
  text_ += "]\n";
}

void Writer::write(const MemorySection& memory) {
  element("memory");
  hex("va", memory.va);
  line("bytes", std::to_string(memory.bytes));
  if (memory.key) hex("key", *memory.key);
  if (memory.access != 0) line("access", bits_text(memory.access, kAccessNames));
  if (memory.other_pd) line("other_pd", "true");
  pieces("contents", memory.contents);
  pieces("expect", memory.expect);
}

void Writer::which_qp(size_t qp) {
  if (case_.qps.size() > 1) hex("qpn", *case_.qps[qp].qpn);
}

void Writer::when(const When& when) {
  switch (when.kind) {
    case When::Kind::kStart:
      return;
    case When::Kind::kBefore:
      return line("before", std::to_string(when.packet));
    case When::Kind::kAfter:
      return line("after", std::to_string(when.packet));
    case When::Kind::kAt:
      return line("at", fmt::format("{:.9f}", static_cast<double>(when.at) / 1e9));
  }
}

void Writer::sges(const std::vector<SgeSection>& list) {
  if (list.empty()) return;
  std::vector<std::string> texts;
  for (const SgeSection& sge : list) {
    texts.push_back(fmt::format("{{ va = {}, bytes = {}, lkey = 0x{:x} }}", number_text(sge.va),
                                sge.bytes, sge.lkey));
  }
  line("sges", fmt::format("[{}]", fmt::join(texts, ", ")));
}

void Writer::completion(const std::optional<Completion>& completion) {
  if (!completion) return;
  const std::string status = quoted(word_of_enum(kWcStatusNames, completion->status));
  std::string more;
  if (!completion->or_status.empty()) {
    std::vector<std::string> others;
    for (const abi::WcStatus other : completion->or_status) {
      others.push_back(quoted(word_of_enum(kWcStatusNames, other)));
    }
    more += fmt::format(", or = [{}]", fmt::join(others, ", "));
  }
  if (completion->opcode) {
    more += fmt::format(", opcode = \"{}\"", word_of_enum(kWcOpcodeNames, *completion->opcode));
  }
  if (completion->byte_len) more += fmt::format(", byte_len = {}", *completion->byte_len);
  if (completion->imm) more += fmt::format(", imm = 0x{:x}", *completion->imm);
  if (completion->src_qpn) more += fmt::format(", src_qpn = 0x{:x}", *completion->src_qpn);
  line("completion", more.empty() ? status : fmt::format("{{ status = {}{} }}", status, more));
}

void Writer::write(const RecvSection& recv) {
  element("recv");
  which_qp(recv.qp);
  when(recv.when);
  if (recv.bytes != 0) line("bytes", std::to_string(recv.bytes));
  sges(recv.sges);
  if (recv.expect) line("expect", data_text(*recv.expect));
  completion(recv.completion);
}

void Writer::write(const SendSection& send) {
  element("send");
  which_qp(send.qp);
  when(send.when);
  if (send.opcode != abi::WrOpcode::kSend) {
    line("opcode", quoted(word_of_enum(kWrOpcodeNames, send.opcode)));
  }
  if (send.flags != abi::kWrSignaled) line("flags", bits_text(send.flags, kWrFlagNames));
  if (send.bytes != 0) line("bytes", std::to_string(send.bytes));
  sges(send.sges);
  if (send.data.kind != Data::Kind::kZero) line("data", data_text(send.data));
  if (send.expect) line("expect", data_text(*send.expect));
  if (send.remote_va != 0) hex("remote_va", send.remote_va);
  if (send.rkey != 0) hex("rkey", send.rkey);
  if (send.imm != 0) hex("imm", send.imm);
  if (send.to) {
    line("to", peer_text(*send.to));
    hex("qkey", send.qkey);
  }
  completion(send.completion);
}

void Writer::write(const StoreSection& store) {
  element("store");
  when(store.when);
  hex("va", case_.memories[store.memory].va + store.piece.offset);
  line("data", data_text(store.piece.data));
}

void Writer::write(const ModifySection& modify) {
  element("modify");
  which_qp(modify.qp);
  when(modify.when);
  line("state", quoted(word_of_enum(kQpStateNames, modify.state)));
}

void Writer::network() {
  const NetworkSection& network = case_.network;
  if (network.lost.empty() && network.repeated.empty() && network.corrupted.empty() &&
      network.copied.empty() && network.late.empty() && network.unseen.empty()) {
    return;
  }
  table("network");
  packets("lost", network.lost);
  packets("repeated", network.repeated);
  packets("corrupted", network.corrupted);
  packets("copied", network.copied);
  if (!network.late.empty()) {
    std::vector<std::string> texts;
    for (const auto& [packet, after] : network.late) {
      texts.push_back(fmt::format("{{ packet = {}, after = {} }}", packet, after));
    }
    line("late", fmt::format("[{}]", fmt::join(texts, ", ")));
  }
  if (network.unseen.empty()) return;
  text_ += "unseen = [\n";
  for (const ExtraPacket& packet : network.unseen) {
    text_ +=
        fmt::format("  {{ after = {}, packet = {} }},\n", packet.after, field_list(packet.fields));
  }
  text_ += "]\n";
}

void Writer::compare() {
  const CompareSection plain;
  const CompareSection& compare = case_.compare;
  if (!compare.exact_acks && compare.timer_tolerance == plain.timer_tolerance &&
      compare.optional.empty() && compare.ignored.empty()) {
    return;
  }
  table("compare");
  if (compare.exact_acks) line("exact_acks", "true");
  if (compare.timer_tolerance != plain.timer_tolerance) {
    line("timer_tolerance", fmt::format("{}", compare.timer_tolerance));
  }
  packets("optional", compare.optional);
  if (compare.ignored.empty()) return;
  text_ += "ignore = [\n";
  for (const Ignored& ignored : compare.ignored) {
    text_ += fmt::format("  {{ packets = \"{}\", fields = [\"{}\"] }},\n",
                         packets_text(ignored.packets), fmt::join(ignored.fields, "\", \""));
  }
  text_ += "]\n";
}

void Writer::write(const Difference& difference) {
  element("difference");
  line("rule", quoted(difference.rule));
  line("why", quoted(difference.why));
  switch (difference.kind) {
    case Difference::Kind::kFields:
      packets("packets", difference.packets);
      return line("ours", field_list(difference.ours));
    case Difference::Kind::kNothing:
      packets("packets", difference.packets);
      return line("ours", "\"nothing\"");
    case Difference::Kind::kExtra:
      line("after", std::to_string(difference.extra.after));
      return line("ours", field_list(difference.extra.fields));
  }
}

void Writer::expect() {
  if (case_.events.empty() && case_.counters.empty()) return;
  table("expect");
  if (!case_.events.empty()) {
    std::vector<std::string> texts;
    for (const ExpectedEvent& event : case_.events) {
      const auto& qpn = case_.qps[event.qp].qpn;
      texts.push_back(fmt::format("{{ event = \"{}\"{} }}",
                                  word_of_enum(kAsyncEventNames, event.event),
                                  qpn ? fmt::format(", qpn = 0x{:x}", *qpn) : ""));
    }
    line("events", fmt::format("[{}]", fmt::join(texts, ", ")));
  }
  if (case_.counters.empty()) return;
  std::vector<std::string> texts;
  for (const auto& [name, value] : case_.counters) {
    texts.push_back(fmt::format("{} = {}", name, value));
  }
  line("counters", fmt::format("{{ {} }}", fmt::join(texts, ", ")));
}

}  // namespace

std::string packets_text(const std::vector<uint32_t>& packets) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < packets.size();) {
    size_t last = i;
    while (last + 1 < packets.size() && packets[last + 1] == packets[last] + 1) ++last;
    ranges.push_back(last == i ? std::to_string(packets[i])
                               : fmt::format("{}-{}", packets[i], packets[last]));
    i = last + 1;
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

std::string case_text(const Case& c) {
  return Writer(c).write();
}

}  // namespace verbena::conformance
