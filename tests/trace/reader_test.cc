// Captures as files: the formats and link types that can be read, and those that cannot.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tools/trace/capture_reader.h"

namespace verbena::trace {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint16_t kEthernet = 1;
constexpr uint16_t kRawIp = 101;
constexpr uint16_t kCooked = 113;
constexpr uint16_t kWifi = 105;
constexpr uint16_t kCooked2 = 276;

void put32(Bytes& file, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) file.push_back(static_cast<uint8_t>(value >> shift));
}

// A pcap file of one frame, in this machine's byte order, taken at second 5, microsecond 6.
Bytes pcap_of(uint16_t link_type, const Bytes& frame, uint32_t wire_bytes) {
  Bytes file;
  put32(file, 0xA1B2C3D4);
  put32(file, 0x00040002);
  put32(file, 0);
  put32(file, 0);
  put32(file, 65535);
  put32(file, link_type);
  put32(file, 5);
  put32(file, 6);
  put32(file, static_cast<uint32_t>(frame.size()));
  put32(file, wire_bytes);
  file.insert(file.end(), frame.begin(), frame.end());
  return file;
}

Capture read(Bytes file) {
  return read_capture(fmemopen(file.data(), file.size(), "rb"));
}

Capture read(uint16_t link_type, const Bytes& frame) {
  return read(pcap_of(link_type, frame, static_cast<uint32_t>(frame.size())));
}

TEST(CaptureReader, EthernetFramesAreTakenAsTheyAre) {
  const Bytes frame = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0, 0x45};
  const Capture capture = read(kEthernet, frame);
  EXPECT_EQ(capture.error, "");
  ASSERT_EQ(capture.frames.size(), 1U);
  EXPECT_EQ(capture.frames[0].bytes, frame);
  EXPECT_EQ(capture.frames[0].time, 5'000'006'000);
  EXPECT_EQ(capture.frames[0].wire_bytes, frame.size());
  EXPECT_EQ(capture.frames[0].missing_bytes, 0U);
}

TEST(CaptureReader, ACutFrameSaysHowLongItWas) {
  const Capture capture = read(pcap_of(kEthernet, Bytes(20, 1), 1500));
  ASSERT_EQ(capture.frames.size(), 1U);
  EXPECT_EQ(capture.frames[0].missing_bytes, 1480U);
  EXPECT_EQ(capture.frames[0].wire_bytes, 1500U);
}

// The length is the capture's, not that of the frame with the made-up header.
TEST(CaptureReader, AMadeUpHeaderIsNotCounted) {
  const Capture whole = read(kRawIp, Bytes(124, 0x45));
  EXPECT_EQ(whole.frames.at(0).wire_bytes, 124U);
  EXPECT_EQ(whole.frames.at(0).bytes.size(), 138U);
  const Capture cut = read(pcap_of(kRawIp, Bytes(20, 0x45), 124));
  EXPECT_EQ(cut.frames.at(0).wire_bytes, 124U);
  EXPECT_EQ(cut.frames.at(0).missing_bytes, 104U);
}

TEST(CaptureReader, RawIpGetsAnEthernetHeader) {
  const Bytes zeros(12, 0);
  Bytes expected = zeros;
  expected.insert(expected.end(), {0x08, 0x00, 0x45, 9});
  EXPECT_EQ(read(kRawIp, {0x45, 9}).frames.at(0).bytes, expected);
  expected = zeros;
  expected.insert(expected.end(), {0x86, 0xDD, 0x60, 9});
  EXPECT_EQ(read(kRawIp, {0x60, 9}).frames.at(0).bytes, expected);
}

const Bytes kCookedFrame = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x00, 0x45, 9};

TEST(CaptureReader, LinuxCookedBecomesEthernetWithoutAddresses) {
  const Bytes frame = {0, 4, 0, 1, 0, 6, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0, 0, 8, 0, 0x45, 9};
  const Capture capture = read(kCooked, frame);
  EXPECT_EQ(capture.error, "");
  EXPECT_EQ(capture.frames.at(0).bytes, kCookedFrame);
}

TEST(CaptureReader, LinuxCookedVersion2BecomesEthernetWithoutAddresses) {
  const Bytes frame = {8, 0,    0,    0,    0,    0,    0,    2, 0, 1,    4,
                       6, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0, 0, 0x45, 9};
  EXPECT_EQ(read(kCooked2, frame).frames.at(0).bytes, kCookedFrame);
}

TEST(CaptureReader, ACookedFrameTooShortForItsHeaderIsEmpty) {
  EXPECT_TRUE(read(kCooked, Bytes(15, 0)).frames.at(0).bytes.empty());
}

TEST(CaptureReader, OtherLinkTypesAreNamed) {
  const Capture capture = read(kWifi, {1, 2, 3});
  EXPECT_NE(capture.error.find("its link type is 802.11"), std::string::npos) << capture.error;
  EXPECT_NE(capture.error.find("Ethernet, raw IP and Linux cooked"), std::string::npos);
  EXPECT_TRUE(capture.frames.empty());
}

TEST(CaptureReader, WhatWasReadBeforeAFaultIsKept) {
  Bytes file = pcap_of(kEthernet, Bytes(20, 1), 20);
  put32(file, 7);
  const Capture capture = read(file);
  EXPECT_EQ(capture.frames.size(), 1U);
  EXPECT_NE(capture.error, "");
}

// Blocks of a pcapng file, in either byte order.
class PcapNg {
 public:
  explicit PcapNg(bool big_endian) : big_endian_(big_endian) {
    Bytes header;
    put(header, 4, 0x1A2B3C4D);
    put(header, 2, 1);
    put(header, 2, 0);
    put(header, 8, ~uint64_t{0});
    block(0x0A0D0D0A, header);
    Bytes interface;
    put(interface, 2, kEthernet);
    put(interface, 2, 0);
    put(interface, 4, 65535);
    block(1, interface);
  }
  void packet(const Bytes& frame, const Bytes& options) {
    Bytes body;
    for (int i = 0; i < 3; ++i) put(body, 4, 0);
    put(body, 4, frame.size());
    put(body, 4, frame.size());
    append(body, frame);
    append(body, options);
    block(6, body);
  }
  Bytes option(uint16_t code, const std::string& value) const {
    Bytes bytes;
    put(bytes, 2, code);
    put(bytes, 2, value.size());
    append(bytes, Bytes(value.begin(), value.end()));
    return bytes;
  }

  Bytes file;

 private:
  void put(Bytes& to, int width, uint64_t value) const {
    for (int i = 0; i < width; ++i) {
      to.push_back(static_cast<uint8_t>(value >> 8 * (big_endian_ ? width - 1 - i : i)));
    }
  }
  static void append(Bytes& to, const Bytes& more) {
    to.insert(to.end(), more.begin(), more.end());
    to.resize((to.size() + 3) / 4 * 4);
  }
  void block(uint32_t type, const Bytes& body) {
    put(file, 4, type);
    put(file, 4, body.size() + 12);
    append(file, body);
    put(file, 4, body.size() + 12);
  }

  bool big_endian_;
};

TEST(CaptureReader, CommentsGoWithTheirPackets) {
  for (const bool big_endian : {false, true}) {
    PcapNg ng(big_endian);
    const std::string flags(4, '\0');
    Bytes options = ng.option(2, flags);
    const Bytes comment = ng.option(1, "request; wire: dropped");
    options.insert(options.end(), comment.begin(), comment.end());
    ng.packet(Bytes(21, 1), options);
    ng.packet(Bytes(22, 2), {});
    ng.packet(Bytes(23, 3), ng.option(1, "second"));
    const Capture capture = read(ng.file);
    EXPECT_EQ(capture.error, "");
    ASSERT_EQ(capture.frames.size(), 3U);
    EXPECT_EQ(capture.frames[0].bytes, Bytes(21, 1));
    EXPECT_EQ(capture.frames[0].comment, "request; wire: dropped");
    EXPECT_EQ(capture.frames[1].comment, "");
    EXPECT_EQ(capture.frames[2].comment, "second");
  }
}

TEST(CaptureReader, AnOptionLongerThanItsBlockIsNoComment) {
  PcapNg ng(false);
  Bytes options = ng.option(1, "abcd");
  options[2] = 200;
  ng.packet(Bytes(20, 1), options);
  const Capture capture = read(ng.file);
  ASSERT_EQ(capture.frames.size(), 1U);
  EXPECT_EQ(capture.frames[0].comment, "");
}

TEST(CaptureReader, NoCaptureAtAll) {
  EXPECT_NE(read(Bytes(40, 'x')).error, "");
  EXPECT_NE(read(Bytes{1}).error, "");
}

}  // namespace
}  // namespace verbena::trace
