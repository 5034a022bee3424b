// Stage: the device that a case describes, with its queue pairs, regions and buffers, and what its
// application does. It translates between the capture's QPNs and keys and the engine's own.
//
// Every region and buffer lies somewhere in the station's memory; regions are registered so that
// they have the case's virtual addresses. What every byte of them must be at the end is kept
// beside.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stack/wire/parse.h"
#include "tools/conformance/case.h"
#include "tools/sim/station.h"
#include "tools/trace/capture_reader.h"

namespace verbena::conformance {

class Stage {
 public:
  // Both must outlive it. Throws tools::CommandError when the device refuses what the case wants.
  Stage(const Case& c, const trace::Capture& capture, Timestamp now);

  Device& device() { return station_.device; }

  // A captured frame with the QPN and the keys that the engine knows it by.
  [[nodiscard]] std::vector<uint8_t> for_engine(std::span<const uint8_t> frame) const;
  // What the engine sent, with the numbers of the capture.
  [[nodiscard]] wire::ParsedPacket for_capture(wire::ParsedPacket packet, size_t qp) const;

  // The queue pair that sent a packet of the engine's.
  [[nodiscard]] std::optional<size_t> sender_of(const wire::ParsedPacket& packet) const;

  void post_recv(size_t index, Timestamp now);
  void post_send(size_t index, Timestamp now);
  void store(size_t index);
  void modify(size_t index, Timestamp now);
  // To be called after each time that the device did something.
  void take_events();

  // What is not as the case says it must be at the end: a sentence each.
  std::vector<std::string> check();

 private:
  // Bytes of the station's memory.
  struct Place {
    std::string name;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    bool compared = false;  // else its content at the end is nobody's concern
    uint64_t skipped = 0;   // bytes at its beginning that are not compared
  };
  struct Region {
    size_t place = 0;
    MrKeys keys;
  };
  struct Queues {
    sim::ClientQp* qp = nullptr;
    sim::ClientCq* send_cq = nullptr;
    sim::ClientCq* recv_cq = nullptr;
    std::vector<size_t> sends;  // posted, as positions in the case, by index in the ring
    std::vector<size_t> recvs;
  };

  size_t add_place(std::string name, uint64_t bytes, bool compared);
  void lay_out();
  static uint64_t memory_bytes(const Case& c, const trace::Capture& capture);
  size_t add_buffer(const char* kind, size_t index, uint64_t bytes, bool compared);
  // Writes what `data` describes to a place. `memory` is the station's, or expected_'s.
  void put(uint8_t* memory, size_t place, uint64_t offset, const Data& data) const;
  void register_memory();
  void add_queues(size_t index);
  void bring_up(size_t index, Timestamp now);
  void bring_up_rc(const QpSection& section, const sim::ClientQp& qp, Timestamp now);
  void bring_up_ud(const QpSection& section, const sim::ClientQp& qp, Timestamp now);
  void step(const sim::ClientQp& qp, const sim::Step& step, const QpSection& section,
            Timestamp now);
  [[nodiscard]] Key key_for_engine(Key key) const;
  [[nodiscard]] std::vector<abi::Sge> sges_of(const std::vector<SgeSection>& sges,
                                              size_t place) const;
  AhId address_of(const SendSection& send);
  void expect_contents();
  void check_memory(std::vector<std::string>& wrong) const;
  void check_events(std::vector<std::string>& wrong) const;
  void check_counters(std::vector<std::string>& wrong) const;
  [[nodiscard]] std::string qp_name(size_t index) const;

  const Case& case_;
  const trace::Capture& capture_;
  sim::Station station_;
  PdId other_pd_ = 0;
  std::vector<Place> places_;
  std::vector<Region> regions_;      // of Case::memories
  std::vector<size_t> recv_places_;  // of Case::recvs
  std::vector<size_t> send_places_;  // of Case::sends
  std::vector<Queues> queues_;       // of Case::qps
  std::vector<uint8_t> expected_;    // of the station's memory, at the end
  std::vector<DeviceEvent> events_;
};

}  // namespace verbena::conformance
