#include "tools/trace/cm.h"

#include <array>

#include "stack/base/bytes.h"

namespace verbena::trace {
namespace {

constexpr size_t kHeaderBytes = 24;
constexpr size_t kMadBytes = 256;
constexpr uint8_t kCmClass = 0x07;
constexpr uint8_t kCmClassVersion = 2;

// By reason; empty where the specification leaves a hole.
constexpr std::array<std::string_view, 36> kRejectReasons = {
    "",
    "no QP available",
    "no EEC available",
    "no resources available",
    "timeout",
    "unsupported request",
    "invalid communication ID",
    "invalid communication instance",
    "invalid service ID: nobody listens there",
    "invalid transport service type",
    "stale connection",
    "RDC does not exist",
    "primary remote port GID rejected",
    "primary remote port LID rejected",
    "invalid primary SL",
    "invalid primary traffic class",
    "invalid primary hop limit",
    "invalid primary packet rate",
    "alternate remote port GID rejected",
    "alternate remote port LID rejected",
    "invalid alternate SL",
    "invalid alternate traffic class",
    "invalid alternate hop limit",
    "invalid alternate packet rate",
    "port and CM redirection",
    "port redirection",
    "invalid path MTU",
    "insufficient responder resources",
    "consumer reject",
    "RNR retry count reject",
    "duplicate local communication ID",
    "invalid class version",
    "invalid flow label",
    "invalid alternate flow label",
    "",
    "vendor option not supported",
};

constexpr std::array<std::string_view, 11> kNames = {
    "REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};

void read_req(const uint8_t* data, CmMessage& message) {
  message.service_id = load_be64(data + 8);
  message.qpn = load_be24(data + 32);
  message.starting_psn = Psn(load_be24(data + 44));
  message.retry_count = data[47] & 7;
  message.path_mtu = data[50] >> 4;
  message.rnr_retry_count = data[50] & 7;
  message.ack_timeout = data[95] >> 3;
}

void read_rep(const uint8_t* data, CmMessage& message) {
  message.qpn = load_be24(data + 12);
  message.starting_psn = Psn(load_be24(data + 20));
  message.rnr_retry_count = data[27] >> 5;
}

}  // namespace

std::optional<CmMessage> parse_cm(std::span<const uint8_t> mad) {
  if (mad.size() < kMadBytes || mad[1] != kCmClass || mad[2] != kCmClassVersion) return {};
  const uint16_t attribute = load_be16(mad.data() + 16);
  constexpr auto kFirst = static_cast<uint16_t>(CmAttribute::kReq);
  if (attribute < kFirst || attribute - kFirst >= static_cast<int>(kNames.size())) return {};
  CmMessage message;
  message.attribute = static_cast<CmAttribute>(attribute);
  message.name = kNames[attribute - kFirst];
  message.transaction = load_be64(mad.data() + 8);
  const uint8_t* data = mad.data() + kHeaderBytes;
  message.local_id = load_be32(data);
  switch (message.attribute) {
    case CmAttribute::kReq:
      read_req(data, message);
      return message;
    case CmAttribute::kSidrReq:
      message.service_id = load_be64(data + 8);
      return message;
    case CmAttribute::kSidrRep:
      message.reason = data[4];
      message.qpn = load_be24(data + 8);
      message.service_id = load_be64(data + 12);
      return message;
    case CmAttribute::kRep:
      read_rep(data, message);
      break;
    case CmAttribute::kRej:
      message.reason = load_be16(data + 10);
      break;
    case CmAttribute::kDreq:
      message.qpn = load_be24(data + 8);
      break;
    case CmAttribute::kMra:
    case CmAttribute::kRtu:
    case CmAttribute::kDrep:
    case CmAttribute::kLap:
    case CmAttribute::kApr:
      break;
  }
  message.remote_id = load_be32(data + 4);
  return message;
}

std::string_view reject_reason_name(uint16_t reason) {
  const std::string_view name = reason < kRejectReasons.size() ? kRejectReasons[reason] : "";
  return name.empty() ? "unknown reason" : name;
}

}  // namespace verbena::trace
