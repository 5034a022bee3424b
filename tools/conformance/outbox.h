// Outbox: what the engine has sent and nothing was held against yet, by queue pair, requests and
// responses apart.
//
// The engine is asked for one packet at a time, so that it is never further than the capture: what
// it would do next can still depend on the packets to come.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "stack/wire/parse.h"
#include "tools/conformance/stage.h"

namespace verbena::conformance {

struct SentPacket {
  std::vector<uint8_t> frame;
  wire::ParsedPacket packet;  // with the numbers of the capture; refers to `frame`
  Timestamp time = 0;         // when the engine was asked for it
};

struct Stream {
  size_t qp = 0;
  bool responses = false;

  [[nodiscard]] size_t index() const { return 2 * qp + (responses ? 1 : 0); }
};

class Outbox {
 public:
  Outbox(Stage& stage, size_t qps) : stage_(stage), queues_(2 * qps), answered_(qps) {}

  // Asks the engine until it has something for this stream, or has nothing more to say.
  bool fill(Stream stream, Timestamp now);
  // Asks for the answer to a request that was just played, whole: all responses of a READ.
  void fill_answer(size_t qp, Timestamp now);
  // Asks for all.
  void fill_all(Timestamp now);
  // Whether the engine has something to send, which stays with it.
  bool engine_wants_to_send(Timestamp now);
  // Plays a frame to the engine.
  void play(std::span<const uint8_t> frame, Timestamp now);

  std::deque<SentPacket>& of(Stream stream) { return queues_[stream.index()]; }
  // Packets that cannot be read, or belong to none of the queue pairs.
  [[nodiscard]] const std::vector<std::vector<uint8_t>>& broken() const { return broken_; }
  // Whether the queue pair has answered anything since the last call.
  bool take_answered(size_t qp);

  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

 private:
  // Where the engine's next packet went; nothing when it has none.
  std::optional<Stream> pull(Timestamp now);
  std::optional<Stream> take(std::vector<uint8_t> frame, Timestamp now);

  Stage& stage_;
  std::vector<std::deque<SentPacket>> queues_;
  std::vector<std::vector<uint8_t>> broken_;
  std::vector<bool> answered_;
};

}  // namespace verbena::conformance
