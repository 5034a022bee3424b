// The pcapng encoder against fixed bytes, the byte ring, and the capture thread. Also built with
// thread sanitizer.

#include "dpdk/capture.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "dpdk/pcapng.h"

namespace verbena {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/verbena-capture-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

uint32_t word(const std::vector<uint8_t>& bytes, size_t at) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

TEST(PcapngTest, SectionHeaderBytes) {
  std::vector<uint8_t> out;
  pcapng::append_section(out, "hw", "app!!");
  const uint8_t expected[] = {
      0x0A, 0x0D, 0x0D, 0x0A, 0x34, 0,    0,    0,  // type, length 52
      0x4D, 0x3C, 0x2B, 0x1A, 1,    0,    0,    0,  // byte order, version 1.0
      0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
      2,    0,    2,    0,    'h',  'w',  0,    0,  // hardware
      4,    0,    5,    0,    'a',  'p',  'p',  '!',
      '!',  0,    0,    0,    0,    0,    0,    0,  // end of options
      0x34, 0,    0,    0};
  EXPECT_THAT(out, ElementsAreArray(expected));
}

TEST(PcapngTest, InterfaceHasNanosecondsAndName) {
  std::vector<uint8_t> out;
  pcapng::append_interface(out, "v0", 4224);
  const uint8_t expected[] = {1, 0, 0, 0, 0x28, 0,    0, 0,  // type, length 40
                              1, 0, 0, 0, 0x80, 0x10, 0, 0,  // Ethernet, 4224
                              2, 0, 2, 0, 'v',  '0',  0, 0,  // name
                              9, 0, 1, 0, 9,    0,    0, 0,  // 10^-9
                              0, 0, 0, 0, 0x28, 0,    0, 0};
  EXPECT_THAT(out, ElementsAreArray(expected));
}

TEST(PcapngTest, PacketIsPaddedToWords) {
  for (uint32_t bytes = 60; bytes < 64; ++bytes) {
    const auto packet = pcapng::frame_packet(1, 0x1122334455667788, bytes);
    EXPECT_EQ((packet.head.size() + bytes + packet.tail_bytes) % 4, 0U);
    uint32_t head[7];
    std::memcpy(head, packet.head.data(), sizeof head);
    const uint32_t total = 28 + 64 + 4 - (bytes == 60 ? 4 : 0);
    EXPECT_THAT(head, testing::ElementsAre(6, total, 1, 0x11223344, 0x55667788, bytes, bytes));
    uint32_t end;
    std::memcpy(&end, packet.tail.data() + packet.tail_bytes - 4, sizeof end);
    EXPECT_EQ(end, total);
  }
}

TEST(ByteRingTest, WrapsAndRefusesWhatDoesNotFit) {
  ByteRing ring(64);
  const std::vector<uint8_t> chunk = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  std::vector<uint8_t> put;
  std::vector<uint8_t> taken;
  for (int i = 0; i < 50; ++i) {
    while (ring.fits(chunk.size())) {
      ring.put(chunk);
      ring.commit();
      put.insert(put.end(), chunk.begin(), chunk.end());
    }
    const auto bytes = ring.readable();
    ASSERT_FALSE(bytes.empty());
    ASSERT_LE(bytes.size(), 64U);
    taken.insert(taken.end(), bytes.begin(), bytes.end());
    ring.consume(bytes.size());
  }
  put.resize(taken.size());
  EXPECT_EQ(taken, put);
  EXPECT_FALSE(ring.fits(65));
}

TEST(CaptureTest, EveryFrameIsInTheFileOrCounted) {
  const TempDir dir;
  const std::string path = dir.file("a.pcapng");
  std::string wrong;
  UniqueFd file = open_capture_file(path, wrong);
  ASSERT_TRUE(file) << wrong;
  const std::string names[] = {"left", "right"};
  Capture capture(path, std::move(file), names, 1000, uint64_t{1} << 20);
  constexpr uint64_t kFrames = 4000;  // more than the ring holds at once
  std::vector<uint8_t> frame(4178);
  for (uint64_t i = 0; i < kFrames; ++i) {
    std::memcpy(frame.data(), &i, sizeof i);
    capture.tap(i % 2, i, frame);
  }
  const auto totals = capture.finish();
  EXPECT_EQ(totals.written + totals.dropped, kFrames);
  EXPECT_EQ(totals.error, 0);
  EXPECT_GT(totals.written, 200U);

  const auto bytes = read_file(path);
  uint64_t packets = 0;
  uint64_t last = 0;
  for (size_t at = 0; at < bytes.size();) {
    ASSERT_LE(at + 12, bytes.size());
    const uint32_t length = word(bytes, at + 4);
    ASSERT_LE(at + length, bytes.size());
    ASSERT_EQ(word(bytes, at + length - 4), length);
    if (word(bytes, at) == 6) {
      uint64_t index;
      std::memcpy(&index, bytes.data() + at + 28, sizeof index);
      EXPECT_EQ(word(bytes, at + 8), index % 2);
      EXPECT_EQ(word(bytes, at + 16), index + 1000);
      EXPECT_TRUE(packets == 0 || index > last);
      last = index;
      ++packets;
    }
    at += length;
  }
  EXPECT_EQ(packets, totals.written);
}

TEST(CaptureTest, FullDiskIsReportedAndDoesNotStop) {
  UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  const std::string names[] = {"only"};
  Capture capture("/dev/full", std::move(full), names, 0);
  const std::vector<uint8_t> frame(100);
  for (int i = 0; i < 1000; ++i) capture.tap(0, 1, frame);
  EXPECT_EQ(capture.finish().error, ENOSPC);
}

TEST(CaptureFileTest, OverwritesOnlyCapturesOfItsOwn) {
  const TempDir dir;
  std::string wrong;
  const auto refused = [&](const std::string& path) {
    wrong.clear();
    return !open_capture_file(path, wrong) && !wrong.empty();
  };
  EXPECT_TRUE(refused("relative.pcapng"));
  EXPECT_THAT(wrong, HasSubstr("absolute"));
  EXPECT_TRUE(refused(dir.file("no/such/dir")));
  EXPECT_TRUE(refused("/dev/null"));

  const std::string text = dir.file("notes.txt");
  std::ofstream(text) << "precious";
  EXPECT_TRUE(refused(text));
  EXPECT_EQ(read_file(text).size(), 8U);

  const std::string link = dir.file("link");
  ASSERT_EQ(symlink(text.c_str(), link.c_str()), 0);
  EXPECT_TRUE(refused(link));
  EXPECT_THAT(wrong, HasSubstr("symbolic link"));

  const std::string fifo = dir.file("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(refused(fifo));

  const std::string capture = dir.file("old.pcapng");
  std::ofstream(capture) << "\x0A\x0D\x0D\x0A and more";
  EXPECT_TRUE(open_capture_file(capture, wrong)) << wrong;
  EXPECT_EQ(read_file(capture).size(), 0U);
}

}  // namespace
}  // namespace verbena
