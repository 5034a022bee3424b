#include "tools/conformance/names.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "stack/abi/cqe.h"
#include "stack/abi/wqe.h"
#include "stack/events.h"
#include "stack/objects.h"
#include "tools/conformance/case.h"

namespace verbena::conformance {
namespace {

template <typename Enum>
constexpr Name name(std::string_view word, Enum value) {
  return {word, static_cast<uint32_t>(value)};
}

constexpr Name kRoles[] = {
    name("requester", Role::kRequester),
    name("responder", Role::kResponder),
    name("both", Role::kBoth),
};
constexpr Name kQpTypes[] = {name("RC", QpType::kRc), name("UD", QpType::kUd)};
constexpr Name kQpStates[] = {
    name("RESET", QpState::kReset), name("INIT", QpState::kInit), name("RTR", QpState::kRtr),
    name("RTS", QpState::kRts),     name("SQD", QpState::kSqd),   name("ERR", QpState::kErr),
};
constexpr Name kAccess[] = {
    name("LOCAL_WRITE", kAccessLocalWrite),
    name("REMOTE_WRITE", kAccessRemoteWrite),
    name("REMOTE_READ", kAccessRemoteRead),
    name("REMOTE_ATOMIC", kAccessRemoteAtomic),
};
constexpr Name kWrOpcodes[] = {
    name("SEND", abi::WrOpcode::kSend),
    name("SEND_WITH_IMM", abi::WrOpcode::kSendImm),
    name("RDMA_WRITE", abi::WrOpcode::kWrite),
    name("RDMA_WRITE_WITH_IMM", abi::WrOpcode::kWriteImm),
    name("RDMA_READ", abi::WrOpcode::kRead),
};
constexpr Name kWrFlags[] = {
    name("FENCE", abi::kWrFence),
    name("SIGNALED", abi::kWrSignaled),
    name("SOLICITED", abi::kWrSolicited),
};
constexpr Name kWcStatus[] = {
    name("SUCCESS", abi::WcStatus::kSuccess),
    name("LOC_LEN_ERR", abi::WcStatus::kLocLen),
    name("LOC_QP_OP_ERR", abi::WcStatus::kLocQpOp),
    name("LOC_PROT_ERR", abi::WcStatus::kLocProt),
    name("WR_FLUSH_ERR", abi::WcStatus::kWrFlush),
    name("MW_BIND_ERR", abi::WcStatus::kMwBind),
    name("BAD_RESP_ERR", abi::WcStatus::kBadResp),
    name("LOC_ACCESS_ERR", abi::WcStatus::kLocAccess),
    name("REM_INV_REQ_ERR", abi::WcStatus::kRemInvReq),
    name("REM_ACCESS_ERR", abi::WcStatus::kRemAccess),
    name("REM_OP_ERR", abi::WcStatus::kRemOp),
    name("RETRY_EXC_ERR", abi::WcStatus::kRetryExc),
    name("RNR_RETRY_EXC_ERR", abi::WcStatus::kRnrRetryExc),
    name("REM_ABORT_ERR", abi::WcStatus::kRemAbort),
    name("FATAL_ERR", abi::WcStatus::kFatal),
    name("GENERAL_ERR", abi::WcStatus::kGeneral),
};
constexpr Name kWcOpcodes[] = {
    name("SEND", abi::WcOpcode::kSend),
    name("RDMA_WRITE", abi::WcOpcode::kWrite),
    name("RDMA_READ", abi::WcOpcode::kRead),
    name("RECV", abi::WcOpcode::kRecv),
    name("RECV_RDMA_WITH_IMM", abi::WcOpcode::kRecvWriteImm),
};
constexpr Name kAsyncEvents[] = {
    name("QP_FATAL", AsyncEventType::kQpFatal),
    name("QP_REQ_ERR", AsyncEventType::kQpReqErr),
    name("QP_ACCESS_ERR", AsyncEventType::kQpAccessErr),
    name("COMM_EST", AsyncEventType::kCommEst),
    name("SQ_DRAINED", AsyncEventType::kSqDrained),
    name("QP_LAST_WQE_REACHED", AsyncEventType::kQpLastWqeReached),
};
constexpr Name kMtus[] = {
    name("256", PathMtu::k256),   name("512", PathMtu::k512),   name("1024", PathMtu::k1024),
    name("2048", PathMtu::k2048), name("4096", PathMtu::k4096),
};

}  // namespace

const Names kRoleNames = kRoles;
const Names kQpTypeNames = kQpTypes;
const Names kQpStateNames = kQpStates;
const Names kAccessNames = kAccess;
const Names kWrOpcodeNames = kWrOpcodes;
const Names kWrFlagNames = kWrFlags;
const Names kWcStatusNames = kWcStatus;
const Names kWcOpcodeNames = kWcOpcodes;
const Names kAsyncEventNames = kAsyncEvents;
const Names kMtuNames = kMtus;

std::optional<uint32_t> value_of(Names names, std::string_view word) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const Name& candidate) { return candidate.word == word; });
  if (found == names.end()) return std::nullopt;
  return found->value;
}

std::string word_of(Names names, uint32_t value) {
  for (const Name& candidate : names) {
    if (candidate.value == value) return std::string(candidate.word);
  }
  return std::to_string(value);
}

std::string choices(Names names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i != 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i].word;
  }
  return text;
}

std::optional<Gid> parse_ip(const std::string& text) {
  in_addr ipv4{};
  if (inet_pton(AF_INET, text.c_str(), &ipv4) == 1) return Gid::from_ipv4(ntohl(ipv4.s_addr));
  Gid gid;
  if (inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) == 1) return gid;
  return std::nullopt;
}

std::string ip_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool ipv4 = gid.is_ipv4();
  inet_ntop(ipv4 ? AF_INET : AF_INET6, gid.bytes.data() + (ipv4 ? 12 : 0), text, sizeof text);
  return text;
}

std::optional<MacAddr> parse_mac(const std::string& text) {
  MacAddr mac;
  auto& b = mac.bytes;
  int end = 0;
  const int count = std::sscanf(text.c_str(), "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &b[0], &b[1],
                                &b[2], &b[3], &b[4], &b[5], &end);
  if (count != 6 || static_cast<size_t>(end) != text.size()) return std::nullopt;
  return mac;
}

std::string mac_text(const MacAddr& mac) {
  return fmt::format("{:02x}", fmt::join(mac.bytes, ":"));
}

}  // namespace verbena::conformance
