// Counters of one device. Each is monotonic, written by the device's thread alone; other threads
// read a copy that the device's thread made.
//
// Names follow the hw_counters of rxe and mlx5, which operators know. Every reason for which a
// packet is dropped has a name and a counter of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbena {

enum class DropReason : uint8_t {
  kTooShort,        // shorter than its headers say
  kNotForUs,        // destination MAC or EtherType of somebody else
  kNotRoce,         // IP, but not UDP 4791
  kBadIpHeader,     // version, options, fragment or checksum
  kBadLength,       // IP, UDP and pad lengths contradict each other
  kBadUdpChecksum,  // non-zero and wrong
  kBadIcrc,
  kBadTransportVersion,
  kUnknownOpcode,
  kBadPkey,
  kUnknownQp,
  kWrongTransport,     // opcode of another transport than the QP's
  kWrongAddress,       // not from the peer (or its QP) that the QP is connected to, or not to us
  kQpState,            // the QP does not take packets in its state
  kDuplicateNotFound,  // a duplicate READ that matches none remembered (RC-RSP-31)
  kGhostAck,           // acknowledges what was never sent or is long done
  kBadResponse,        // READ response out of order (RC-REQ-12)
  kMemoryLater,        // client memory not ready; the peer will send it again
  kRepeatedGap,        // ahead of the expected PSN and already NAKed (RC-RSP-1)
  kReservedSyndrome,   // RC-REQ-15
  kBadQkey,            // UD-4
  kNoReceive,          // UD: no receive work request (UD-7)
  kCount,
};

// Stable lower-case identifier, e.g. "bad_icrc": the counter's name.
std::string_view drop_reason_name(DropReason reason);

struct DeviceStats {
  // Packets and bytes (frame bytes without FCS).
  uint64_t sent_pkts = 0;
  uint64_t rcvd_pkts = 0;
  uint64_t sent_bytes = 0;
  uint64_t rcvd_bytes = 0;
  // Responder.
  uint64_t rx_write_requests = 0;
  uint64_t rx_read_requests = 0;
  uint64_t rx_atomic_requests = 0;
  uint64_t rx_send_requests = 0;
  uint64_t duplicate_request = 0;
  uint64_t out_of_sequence = 0;  // requests ahead of the expected PSN
  uint64_t out_of_buffer = 0;    // no receive WQE: RNR NAK sent
  uint64_t acks_sent = 0;
  uint64_t naks_sent = 0;  // all but RNR
  uint64_t resp_local_length_error = 0;
  uint64_t resp_remote_access_errors = 0;
  uint64_t resp_invalid_requests = 0;
  // Requester.
  uint64_t packet_seq_err = 0;  // PSN sequence NAKs received
  uint64_t implied_nak_seq_err = 0;
  uint64_t rnr_nak_received = 0;
  uint64_t local_ack_timeout_err = 0;
  uint64_t retransmitted_pkts = 0;
  uint64_t retry_exceeded_err = 0;
  uint64_t rnr_nak_retry_err = 0;  // RNR retries exhausted
  uint64_t req_remote_invalid_request = 0;
  uint64_t req_remote_access_errors = 0;
  uint64_t req_remote_operational_errors = 0;
  uint64_t req_cqe_error = 0;
  uint64_t req_cqe_flush_error = 0;
  uint64_t resp_cqe_error = 0;
  uint64_t resp_cqe_flush_error = 0;
  uint64_t cq_overruns = 0;
  uint64_t cnp_received = 0;
  uint64_t malformed_wqe = 0;  // a client's ring broke a rule

  std::array<uint64_t, static_cast<size_t>(DropReason::kCount)> dropped{};

  void drop(DropReason reason) { ++dropped[static_cast<size_t>(reason)]; }

  // Calls visit(name, value) for each counter above; drops are named "drop_<reason>".
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    visit("sent_pkts", sent_pkts);
    visit("rcvd_pkts", rcvd_pkts);
    visit("sent_bytes", sent_bytes);
    visit("rcvd_bytes", rcvd_bytes);
    visit("rx_write_requests", rx_write_requests);
    visit("rx_read_requests", rx_read_requests);
    visit("rx_atomic_requests", rx_atomic_requests);
    visit("rx_send_requests", rx_send_requests);
    visit("duplicate_request", duplicate_request);
    visit("out_of_sequence", out_of_sequence);
    visit("out_of_buffer", out_of_buffer);
    visit("acks_sent", acks_sent);
    visit("naks_sent", naks_sent);
    visit("resp_local_length_error", resp_local_length_error);
    visit("resp_remote_access_errors", resp_remote_access_errors);
    visit("resp_invalid_requests", resp_invalid_requests);
    visit("packet_seq_err", packet_seq_err);
    visit("implied_nak_seq_err", implied_nak_seq_err);
    visit("rnr_nak_received", rnr_nak_received);
    visit("local_ack_timeout_err", local_ack_timeout_err);
    visit("retransmitted_pkts", retransmitted_pkts);
    visit("retry_exceeded_err", retry_exceeded_err);
    visit("rnr_nak_retry_err", rnr_nak_retry_err);
    visit("req_remote_invalid_request", req_remote_invalid_request);
    visit("req_remote_access_errors", req_remote_access_errors);
    visit("req_remote_operational_errors", req_remote_operational_errors);
    visit("req_cqe_error", req_cqe_error);
    visit("req_cqe_flush_error", req_cqe_flush_error);
    visit("resp_cqe_error", resp_cqe_error);
    visit("resp_cqe_flush_error", resp_cqe_flush_error);
    visit("cq_overruns", cq_overruns);
    visit("cnp_received", cnp_received);
    visit("malformed_wqe", malformed_wqe);
  }
};

}  // namespace verbena
