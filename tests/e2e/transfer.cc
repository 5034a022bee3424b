#include "tests/e2e/transfer.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace verbena::e2e {
namespace {

constexpr size_t kMaxGap = 61;

size_t arena_bytes(size_t bytes, size_t pieces) {
  return bytes + (pieces + 1) * kMaxGap;
}

std::string expected_got(const char* what, uint64_t expected, uint64_t got) {
  if (expected == got) return "";
  return std::string(what) + " is " + std::to_string(got) + " instead of " +
         std::to_string(expected) + "; ";
}

std::string wrong_status(const ibv_wc& wc) {
  return std::string("status ") + ibv_wc_status_str(wc.status) + ", vendor error " +
         std::to_string(wc.vendor_err);
}

}  // namespace

const char* verb_name(Verb verb) {
  switch (verb) {
    case Verb::kSend:
      return "Send";
    case Verb::kSendImm:
      return "SendImm";
    case Verb::kWrite:
      return "Write";
    case Verb::kWriteImm:
      return "WriteImm";
    case Verb::kRead:
      return "Read";
  }
  return "";
}

ibv_wr_opcode wr_opcode(Verb verb) {
  switch (verb) {
    case Verb::kSend:
      return IBV_WR_SEND;
    case Verb::kSendImm:
      return IBV_WR_SEND_WITH_IMM;
    case Verb::kWrite:
      return IBV_WR_RDMA_WRITE;
    case Verb::kWriteImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Verb::kRead:
      break;
  }
  return IBV_WR_RDMA_READ;
}

ibv_wc_opcode send_wc_opcode(Verb verb) {
  if (verb == Verb::kRead) return IBV_WC_RDMA_READ;
  return verb == Verb::kSend || verb == Verb::kSendImm ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
}

bool takes_receive(Verb verb) {
  return verb != Verb::kWrite && verb != Verb::kRead;
}

bool has_immediate(Verb verb) {
  return verb == Verb::kSendImm || verb == Verb::kWriteImm;
}

std::vector<size_t> cut(size_t bytes, size_t pieces, Random& random) {
  if (pieces == 0) return {};
  std::vector<size_t> ends(pieces, bytes);
  for (size_t i = 0; i + 1 < pieces; ++i) ends[i] = random.below(bytes + 1);
  if (pieces > 2) ends[1] = ends[0];  // at least one piece of no bytes
  std::sort(ends.begin(), ends.end());
  std::vector<size_t> lengths(pieces);
  std::adjacent_difference(ends.begin(), ends.end(), lengths.begin());
  return lengths;
}

Arena::Arena(ibv_pd* pd, size_t bytes, size_t pieces, Random& random)
    : buffer_(pd, arena_bytes(bytes, pieces), random.below(64)) {
  random.fill(buffer_.bytes());
  size_t offset = 0;
  for (const size_t length : cut(bytes, pieces, random)) {
    offset += 1 + random.below(kMaxGap);
    if ((buffer_.va() + offset) % 2 == 0) --offset;
    sges_.push_back(buffer_.sge(offset, length));
    offset += length + 1;
  }
  image_.assign(buffer_.bytes().begin(), buffer_.bytes().end());
}

std::vector<uint8_t> Arena::message() {
  std::vector<uint8_t> bytes;
  for (const ibv_sge& sge : sges_) {
    const auto* piece = reinterpret_cast<const uint8_t*>(sge.addr);
    bytes.insert(bytes.end(), piece, piece + sge.length);
  }
  return bytes;
}

void Arena::expect(const std::vector<uint8_t>& message) {
  size_t at = 0;
  for (const ibv_sge& sge : sges_) {
    const size_t length = std::min<size_t>(sge.length, message.size() - at);
    std::copy_n(message.begin() + static_cast<ptrdiff_t>(at), length,
                image_.begin() + static_cast<ptrdiff_t>(sge.addr - buffer_.va()));
    at += length;
  }
}

std::string Arena::difference() {
  if (!buffer_.guards_intact()) return "bytes outside the region were changed";
  const auto bytes = buffer_.bytes();
  if (std::memcmp(bytes.data(), image_.data(), image_.size()) == 0) return "";
  const auto at = std::mismatch(bytes.begin(), bytes.end(), image_.begin()).first - bytes.begin();
  std::string where = "byte " + std::to_string(at) + " of the arena differs; pieces:";
  for (const ibv_sge& sge : sges_) {
    where +=
        " [" + std::to_string(sge.addr - buffer_.va()) + ",+" + std::to_string(sge.length) + ")";
  }
  return where;
}

Transfer::Transfer(Endpoint& requester, Endpoint& responder, const Plan& plan, uint64_t wr_id,
                   Random& random)
    : plan_(plan),
      wr_id_(wr_id),
      imm_(static_cast<uint32_t>(random.next())),
      local_(requester.pd(), plan.bytes, plan.local_pieces, random),
      remote_(responder.pd(), plan.bytes,
              plan.verb == Verb::kSend || plan.verb == Verb::kSendImm ? plan.remote_pieces : 1,
              random) {
  if (plan.verb == Verb::kRead) {
    local_.expect(remote_.message());
  } else {
    remote_.expect(local_.message());
  }
}

void Transfer::post_receive(Endpoint& responder) {
  if (!takes_receive(plan_.verb)) return;
  // The buffers of a receive that WRITE with immediate takes stay untouched (RC-RSP-25), so giving
  // none is as good.
  if (plan_.verb == Verb::kWriteImm) return post_recv(responder, wr_id_, {});
  post_recv(responder, wr_id_, remote_.sges());
}

SendRequest Transfer::request() const {
  SendRequest request;
  request.wr_id = wr_id_;
  request.opcode = wr_opcode(plan_.verb);
  request.flags = plan_.flags;
  request.sges = local_.sges();
  request.remote_va = remote_.va();
  request.rkey = remote_.rkey();
  request.imm = imm_;
  return request;
}

std::string Transfer::check_send(const ibv_wc& wc, uint32_t qpn) const {
  if (wc.status != IBV_WC_SUCCESS) return wrong_status(wc);
  std::string wrong = expected_got("send wr_id", wr_id_, wc.wr_id) +
                      expected_got("send opcode", send_wc_opcode(plan_.verb), wc.opcode) +
                      expected_got("send qp_num", qpn, wc.qp_num);
  if (plan_.verb == Verb::kRead) wrong += expected_got("read byte_len", plan_.bytes, wc.byte_len);
  return wrong;
}

std::string Transfer::check_receive(const ibv_wc& wc, uint32_t qpn) const {
  if (wc.status != IBV_WC_SUCCESS) return wrong_status(wc);
  const bool write = plan_.verb == Verb::kWriteImm;
  std::string wrong =
      expected_got("receive wr_id", wr_id_, wc.wr_id) +
      expected_got("receive opcode", write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, wc.opcode) +
      expected_got("receive qp_num", qpn, wc.qp_num) +
      expected_got("receive byte_len", plan_.bytes, wc.byte_len) +
      expected_got("immediate flag", has_immediate(plan_.verb),
                   (wc.wc_flags & IBV_WC_WITH_IMM) != 0);
  if (has_immediate(plan_.verb)) wrong += expected_got("immediate", imm_, ntohl(wc.imm_data));
  return wrong;
}

std::string Transfer::check_data() {
  std::string wrong;
  if (const auto local = local_.difference(); !local.empty()) wrong += "at requester: " + local;
  if (const auto remote = remote_.difference(); !remote.empty()) wrong += "at responder: " + remote;
  return wrong;
}

std::string run_transfer(Endpoint& requester, Endpoint& responder, const Plan& plan,
                         Random& random) {
  Transfer transfer(requester, responder, plan, random.next(), random);
  transfer.post_receive(responder);
  post_send(requester, transfer.request());
  std::string wrong;
  if (takes_receive(plan.verb)) {
    wrong += transfer.check_receive(wait_completion(responder.recv_cq()), responder.qpn());
  }
  wrong += transfer.check_send(wait_completion(requester.send_cq()), requester.qpn());
  return wrong + transfer.check_data();
}

}  // namespace verbena::e2e
