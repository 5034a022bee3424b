// Player: goes through a script in virtual time, plays the peers' packets to the engine, and holds
// what it sends against the capture.
#pragma once

#include <optional>
#include <vector>

#include "tools/conformance/case.h"
#include "tools/conformance/outbox.h"
#include "tools/conformance/result.h"
#include "tools/conformance/script.h"
#include "tools/conformance/stage.h"

namespace verbena::conformance {

class Player {
 public:
  // All must outlive it. The stage's clock begins at kBegin.
  static constexpr Timestamp kBegin = 1'000'000;
  Player(const Case& c, const trace::Capture& capture, const Script& script, Stage& stage);

  CaseResult play();

 private:
  // What is known of one queue pair.
  struct QpState {
    Timestamp last_frame = kBegin;  // when the last one was played, or was due
    DurationNs last_in_capture = 0;
    bool owes_answer = false;         // a request that asked for an ACK was not answered yet
    std::optional<Psn> expected_psn;  // of the next request to be played
    std::optional<Psn> next_to_send;  // behind the newest request sent
    std::optional<uint8_t> rnr_code;  // of the RNR NAK played last, until something is sent again
  };

  void run(const Step& step);
  void play_frame(const Step& step);
  void act(const Step& step);
  void note_played(const wire::ParsedPacket& packet, size_t qp);
  void expect_frame(const Step& step);
  void expect_extra(const Step& step);
  bool expect_ack(const Step& step, const wire::ParsedPacket& capture, Stream stream);
  void allow_early_acks(Stream stream, const wire::ParsedPacket& before);
  bool wait_for(Stream stream, DurationNs limit);
  void match(const Step& step, const wire::ParsedPacket& capture, Stream stream);
  void check_time(const Step& step, const SentPacket& ours, Stream stream);
  void run_out();
  void finish();

  void advance(Timestamp to);
  void fire_timers();
  Row& add_row(Row::Kind kind, uint32_t packet, std::string note = {});
  void note_frame(const Step& step, size_t qp);
  [[nodiscard]] std::optional<size_t> receiver_of(const wire::ParsedPacket& packet) const;

  const Case& case_;
  const trace::Capture& capture_;
  const Script& script_;
  Stage& stage_;
  Outbox outbox_;
  Timestamp now_ = kBegin;
  DurationNs shift_ = 0;               // by how much we are later than the capture
  std::optional<Timestamp> woken_at_;  // when a timer made an idle engine want to send
  std::vector<QpState> states_;
  CaseResult result_;
};

}  // namespace verbena::conformance
