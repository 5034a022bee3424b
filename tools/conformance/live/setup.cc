#include "tools/conformance/live/setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/conformance/names.h"
#include "tools/conformance/script.h"

namespace verbena::conformance::live {
namespace {

using nlohmann::json;

constexpr size_t kGrhBytes = 40;

json qp_message(const QpSection& qp) {
  return {{"type", qp.type == QpType::kUd ? "UD" : "RC"},
          {"peer_qpn", qp.peer.qpn},
          {"path_mtu", mtu_bytes(qp.path_mtu)},
          {"sq_psn", qp.sq_psn},
          {"rq_psn", qp.rq_psn},
          {"access", qp.access},
          {"max_dest_rd_atomic", qp.max_dest_rd_atomic},
          {"min_rnr_timer", qp.min_rnr_timer},
          {"qkey", qp.qkey},
          {"state", word_of_enum(kQpStateNames, qp.state)}};
}

size_t buffer_bytes(const RecvSection& recv, const trace::Capture& capture) {
  if (recv.bytes != 0 || !recv.expect) return recv.bytes;
  return natural_size(*recv.expect, capture);
}

json recv_message(const Case& c, const RecvSection& recv, const trace::Capture& capture) {
  json message = {{"qp", recv.qp}, {"bytes", buffer_bytes(recv, capture)}};
  for (const SgeSection& sge : recv.sges) {
    int memory = -1;
    for (size_t i = 0; i < c.memories.size(); ++i) {
      if (c.memories[i].key == sge.lkey) memory = static_cast<int>(i);
    }
    message["sges"].push_back({{"va", sge.va}, {"bytes", sge.bytes}, {"memory", memory}});
  }
  return message;
}

void compare_bytes(std::vector<std::string>& wrong, const std::string& name,
                   const std::string& real, const std::vector<uint8_t>& expected, size_t skipped) {
  const std::string wanted = to_hex(expected);
  const size_t bytes = std::min(real.size() / 2, expected.size());
  for (size_t i = skipped; i < bytes; ++i) {
    if (real.compare(2 * i, 2, wanted, 2 * i, 2) == 0) continue;
    wrong.push_back(fmt::format("{}: byte {} is 0x{}, expected 0x{}", name, i - skipped,
                                real.substr(2 * i, 2), wanted.substr(2 * i, 2)));
    return;
  }
}

void compare_completion(std::vector<std::string>& wrong, size_t recv, const Completion& want,
                        const json& real) {
  const auto differ = [&](const char* what, const std::string& expected, const std::string& was) {
    if (expected == was) return;
    wrong.push_back(fmt::format("completion of [[recv]] {}: {} is {}, expected {}", recv + 1, what,
                                was, expected));
  };
  const auto number = [&](const char* key) {
    return real.contains(key) ? std::to_string(real.at(key).get<uint64_t>()) : "absent";
  };
  const auto status = real.at("status").get<uint32_t>();
  if (!want.allows(static_cast<abi::WcStatus>(status))) {
    differ("status", word_of_enum(kWcStatusNames, want.status), word_of(kWcStatusNames, status));
  }
  if (status != 0 || want.status != abi::WcStatus::kSuccess) return;
  if (want.opcode) {
    differ("opcode", word_of_enum(kWcOpcodeNames, *want.opcode),
           word_of(kWcOpcodeNames, real.at("opcode").get<uint32_t>()));
  }
  if (want.byte_len) differ("byte_len", std::to_string(*want.byte_len), number("byte_len"));
  if (want.imm) differ("imm", std::to_string(*want.imm), number("imm"));
  if (want.src_qpn) differ("src_qpn", std::to_string(*want.src_qpn), number("src_qpn"));
}

void check_completions(std::vector<std::string>& wrong, const Case& c,
                       const std::vector<size_t>& posted, const json& completions) {
  std::vector<size_t> expected;
  for (const size_t index : posted) {
    if (c.recvs[index].completion) expected.push_back(index);
  }
  size_t next = 0;
  for (const json& real : completions) {
    const auto index = real.at("recv").get<size_t>();
    if (next < expected.size() && expected[next] == index) {
      compare_completion(wrong, index, *c.recvs[index].completion, real);
      ++next;
      continue;
    }
    wrong.push_back(fmt::format("completion of [[recv]] {} ({}) came, and was not expected",
                                index + 1,
                                word_of(kWcStatusNames, real.at("status").get<uint32_t>())));
  }
  for (; next < expected.size(); ++next) {
    wrong.push_back(fmt::format("completion of [[recv]] {} did not come", expected[next] + 1));
  }
}

}  // namespace

std::string to_hex(const std::vector<uint8_t>& bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::vector<uint8_t> bytes_of(const Piece& piece, size_t region_bytes,
                              const trace::Capture& capture) {
  const size_t room = region_bytes - std::min<size_t>(piece.offset, region_bytes);
  const size_t own = natural_size(piece.data, capture);
  if (room == 0) return {};
  return resolve(piece.data, own != 0 ? std::min(own, room) : room, capture);
}

void put(std::vector<uint8_t>& region, const Piece& piece, const trace::Capture& capture) {
  const std::vector<uint8_t> bytes = bytes_of(piece, region.size(), capture);
  if (bytes.empty()) return;
  std::copy(bytes.begin(), bytes.end(), region.begin() + static_cast<std::ptrdiff_t>(piece.offset));
}

std::vector<std::vector<uint8_t>> contents_of(const Case& c, const trace::Capture& capture) {
  std::vector<std::vector<uint8_t>> all;
  for (const MemorySection& memory : c.memories) {
    all.emplace_back(memory.bytes);
    for (const Piece& piece : memory.contents) put(all.back(), piece, capture);
  }
  return all;
}

json open_message(const Case& c, const trace::Capture& capture, const Host& target,
                  const Host& peer) {
  json message = {
      {"do", "open"},         {"address", ip_text(target.gid)}, {"peer", ip_text(peer.gid)},
      {"qps", json::array()}, {"memories", json::array()},      {"recvs", json::array()}};
  for (const QpSection& qp : c.qps) message["qps"].push_back(qp_message(qp));
  const auto contents = contents_of(c, capture);
  for (size_t i = 0; i < c.memories.size(); ++i) {
    message["memories"].push_back({{"va", c.memories[i].va},
                                   {"access", c.memories[i].access},
                                   {"other_pd", c.memories[i].other_pd},
                                   {"contents", to_hex(contents[i])}});
  }
  for (const RecvSection& recv : c.recvs) {
    message["recvs"].push_back(recv_message(c, recv, capture));
  }
  return message;
}

std::vector<std::string> check_result(const Case& c, const trace::Capture& capture,
                                      const std::vector<size_t>& posted,
                                      std::vector<std::vector<uint8_t>> memories,
                                      const json& result) {
  std::vector<std::string> wrong;
  check_completions(wrong, c, posted, result.at("completions"));
  for (size_t i = 0; i < c.memories.size(); ++i) {
    for (const Piece& piece : c.memories[i].expect) put(memories[i], piece, capture);
    compare_bytes(wrong, fmt::format("[[memory]] {}", i + 1), result.at("memories").at(i),
                  memories[i], 0);
  }
  for (size_t i = 0; i < c.recvs.size(); ++i) {
    const RecvSection& recv = c.recvs[i];
    if (!recv.expect || !recv.sges.empty()) continue;
    const size_t skipped = c.qps[recv.qp].type == QpType::kUd ? kGrhBytes : 0;
    std::vector<uint8_t> buffer(buffer_bytes(recv, capture));
    put(buffer, {skipped, *recv.expect}, capture);
    compare_bytes(wrong, fmt::format("the buffer of [[recv]] {}", i + 1),
                  result.at("buffers").at(i), buffer, skipped);
  }
  for (size_t i = 0; i < c.qps.size(); ++i) {
    const std::string state = result.at("states").at(i);
    const std::string expected = word_of_enum(kQpStateNames, c.qps[i].end_state);
    if (state == expected) continue;
    wrong.push_back(
        fmt::format("[[qp]] {} is in {} at the end, expected {}", i + 1, state, expected));
  }
  return wrong;
}

}  // namespace verbena::conformance::live
