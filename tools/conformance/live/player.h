// Plays the peer's side of a case to a live device, in real time, and holds what comes back against
// the capture by the rules of the engine's player.
//
// What is different: the device answers when it likes, so a packet of the capture is waited for;
// its QPNs, keys and addresses are its own; its counters and events cannot be seen from here.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/conformance/case.h"
#include "tools/conformance/live/agent.h"
#include "tools/conformance/live/wire.h"
#include "tools/conformance/result.h"
#include "tools/conformance/script.h"

namespace verbena::conformance::live {

// Why a case cannot be played to that target; nothing when it can.
std::optional<std::string> unsuitable(const Case& c, const Host& target);

class Player {
 public:
  // All must outlive it.
  Player(const Case& c, const trace::Capture& capture, const Script& script, Wire& wire,
         Agent& agent);

  // Throws AgentError when the target cannot be set up as the case wants.
  CaseResult play();
  // Whether the target has sent anything.
  [[nodiscard]] bool answered() const { return answered_; }

 private:
  struct Received {
    std::vector<uint8_t> frame;
    wire::ParsedPacket packet;  // with the numbers of the capture; refers to `frame`
  };

  void open();
  void run(const Step& step);
  void wait_until(DurationNs time);
  void play_frame(const Step& step);
  void act(const Step& step);
  void expect_frame(const Step& step);
  void expect_extra(const Step& step);
  bool covered(const Step& step, const wire::ParsedPacket& capture);
  void match(const Step& step, const wire::ParsedPacket& capture);
  void finish();

  bool fill(DurationNs within);
  [[nodiscard]] std::vector<uint8_t> for_target(std::span<const uint8_t> frame) const;
  [[nodiscard]] wire::ParsedPacket for_capture(wire::ParsedPacket packet) const;
  [[nodiscard]] Key key_at_target(Key key) const;
  [[nodiscard]] DurationNs now() const;
  Row& add_row(Row::Kind kind, uint32_t packet, std::string note = {});

  const Case& case_;
  const trace::Capture& capture_;
  const Script& script_;
  Wire& wire_;
  Agent& agent_;
  std::map<Qpn, Qpn> qpns_;  // of the capture, to the target's
  std::map<Key, Key> keys_;
  std::vector<Host> peers_;  // of the capture: we are in their place
  std::deque<Received> inbox_;
  std::vector<size_t> posted_;                  // receives, in order
  std::vector<std::vector<uint8_t>> memories_;  // as the application left them
  int64_t begin_ = 0;                           // of the steady clock
  bool answered_ = false;
  CaseResult result_;
};

}  // namespace verbena::conformance::live
