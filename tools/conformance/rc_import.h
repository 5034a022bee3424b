// One side of an RC connection in a capture -> a case.
#pragma once

#include <optional>
#include <string>

#include "tools/conformance/case.h"
#include "tools/conformance/messages.h"
#include "tools/conformance/regions.h"

namespace verbena::conformance {

// Why a connection makes no case, for either side; nothing when it does.
std::optional<std::string> reason_to_skip_rc(const trace::Trace& trace,
                                             const trace::Connection& connection);

class RcImport {
 public:
  RcImport(const trace::Capture& capture, const trace::Trace& trace,
           const trace::Connection& connection, unsigned side);

  // Why this side makes no case.
  [[nodiscard]] std::optional<std::string> reason_to_skip() const;
  // The case but for its file, capture and title.
  Case make();

 private:
  void device_and_qp();
  void network();
  [[nodiscard]] bool is_corrupted(Psn psn) const;
  void unseen_requests();
  void unseen_responses();
  void lost_answers();
  void read_answers_from_peer();
  void sends();
  void give_up();
  void read_refusals();
  void receives();
  [[nodiscard]] bool is_executed_rdma(const Message& message) const;
  [[nodiscard]] Regions reached() const;
  void memory();
  void timers();
  void rules();
  void count_messages();
  [[nodiscard]] bool is_refused(const Message& message) const;
  // The number of the packet before which the receive for it must be posted; 0: from the beginning;
  // nothing: the message was never taken.
  [[nodiscard]] std::optional<uint32_t> receive_posted_before(const Message& message) const;
  RecvSection receive_for(const Message& message) const;
  [[nodiscard]] std::vector<uint32_t> read_payloads(const Message& read, const Packets& responses,
                                                    bool& whole) const;
  void add_rule(const char* rule);

  const trace::Capture& capture_;
  const trace::Trace& trace_;
  const trace::Connection& connection_;
  unsigned side_;
  uint32_t first_packet_;  // from which on messages are whole
  Packets mine_;           // good packets of this side
  Packets theirs_;         // and of the other
  Requests asked_;         // by this side
  Requests served_;        // asked by the other side
  Case case_;
  QpSection qp_;

  // As requester.
  std::optional<Psn> acked_;                       // the newest PSN acknowledged
  const trace::TracedPacket* refused_ = nullptr;   // a NAK from the peer that ended it
  const trace::TracedPacket* last_rnr_ = nullptr;  // an RNR NAK that nothing followed
  uint32_t rnr_naks_ = 0;                          // in a row, at the end
  // As responder.
  Packets not_ready_;                             // our RNR NAKs
  const trace::TracedPacket* refusal_ = nullptr;  // our NAK that ended it
};

}  // namespace verbena::conformance
