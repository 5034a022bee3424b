#include "tools/conformance/outbox.h"

#include <memory>
#include <utility>

namespace verbena::conformance {
namespace {

using wire::ParsedPacket;

// Takes up to `room` frames.
class Sink : public TxSink {
 public:
  explicit Sink(uint32_t room) : room_(room) {}

  bool allocate(uint32_t bytes, TxFrame& frame) override {
    if (room_ == 0) return false;
    --room_;
    auto buffer = std::make_unique<std::vector<uint8_t>>(bytes);
    frame.data = buffer->data();
    frame.handle = buffer.release();
    return true;
  }
  void commit(const TxFrame& frame, uint32_t bytes) override {
    const auto buffer = owned(frame);
    buffer->resize(bytes);
    frames.push_back(std::move(*buffer));
  }
  void release(const TxFrame& frame) override {
    ++room_;
    owned(frame);
  }

  std::vector<std::vector<uint8_t>> frames;

 private:
  static std::unique_ptr<std::vector<uint8_t>> owned(const TxFrame& frame) {
    return std::unique_ptr<std::vector<uint8_t>>(static_cast<std::vector<uint8_t>*>(frame.handle));
  }

  uint32_t room_;
};

bool is_unfinished(const ParsedPacket& packet) {
  return packet.info->operation == Operation::kReadResponse && !packet.info->ends_message();
}

}  // namespace

std::optional<Stream> Outbox::take(std::vector<uint8_t> frame, Timestamp now) {
  const auto parsed = wire::parse(frame);
  const auto* packet = std::get_if<ParsedPacket>(&parsed);
  const auto qp =
      packet != nullptr && wire::icrc_valid(*packet) ? stage_.sender_of(*packet) : std::nullopt;
  if (!qp) {
    broken_.push_back(std::move(frame));
    return std::nullopt;
  }
  const Stream stream{*qp, packet->info->is_response()};
  if (stream.responses) answered_[*qp] = true;
  // The packet's spans stay right: the bytes do not move with their vector.
  const ParsedPacket ours = stage_.for_capture(*packet, *qp);
  of(stream).push_back({std::move(frame), ours, now});
  return stream;
}

std::optional<Stream> Outbox::pull(Timestamp now) {
  while (stage_.device().has_work()) {
    Sink sink(1);
    const uint32_t done = stage_.device().poll(now, sink, 1);
    stage_.take_events();
    if (done == 0) return std::nullopt;
    if (sink.frames.empty()) continue;  // a work request that sends nothing (UD-1)
    if (const auto stream = take(std::move(sink.frames.front()), now)) return stream;
  }
  return std::nullopt;
}

bool Outbox::fill(Stream stream, Timestamp now) {
  while (of(stream).empty()) {
    const auto pulled = pull(now);
    if (!pulled) break;
    // A queue pair answers before it asks: it has no answer to give.
    if (stream.responses && pulled->qp == stream.qp && !pulled->responses) break;
  }
  return !of(stream).empty();
}

void Outbox::fill_answer(size_t qp, Timestamp now) {
  const std::deque<SentPacket>& answers = of({qp, true});
  while (const auto pulled = pull(now)) {
    if (pulled->qp != qp) continue;
    if (!pulled->responses || !is_unfinished(answers.back().packet)) return;
  }
}

void Outbox::fill_all(Timestamp now) {
  while (pull(now)) {
  }
}

bool Outbox::engine_wants_to_send(Timestamp now) {
  Sink sink(0);
  stage_.device().poll(now, sink, 1);
  return stage_.device().has_work();
}

void Outbox::play(std::span<const uint8_t> frame, Timestamp now) {
  Sink sink(UINT32_MAX);
  const RxFrame received{frame.data(), static_cast<uint32_t>(frame.size())};
  stage_.device().on_burst({&received, 1}, now, sink);
  stage_.take_events();
  for (std::vector<uint8_t>& sent : sink.frames) (void)take(std::move(sent), now);
}

bool Outbox::take_answered(size_t qp) {
  const bool answered = answered_[qp];
  answered_[qp] = false;
  return answered;
}

}  // namespace verbena::conformance
