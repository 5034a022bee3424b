// The pcapng encoder against fixed bytes, the byte ring, comments, and the capture thread. Also
// built with thread sanitizer.

#include "dpdk/capture.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "dpdk/pcapng.h"
#include "tests/support/temp_dir.h"

namespace verbena {
namespace {

using test::TempDir;
using testing::ElementsAreArray;
using testing::HasSubstr;

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
    std::vector<uint8_t> out;
    const auto frame = pcapng::append_packet(out, 1, 0x1122334455667788, bytes, "");
    EXPECT_EQ(frame.data(), out.data() + 28);
    EXPECT_EQ(frame.size(), bytes);
    const uint32_t total = 28 + 64 + 4 - (bytes == 60 ? 4 : 0);
    ASSERT_EQ(out.size(), total);
    uint32_t head[7];
    std::memcpy(head, out.data(), sizeof head);
    EXPECT_THAT(head, testing::ElementsAre(6, total, 1, 0x11223344, 0x55667788, bytes, bytes));
    EXPECT_EQ(word(out, total - 4), total);
  }
}

TEST(PcapngTest, CommentIsAnOption) {
  std::vector<uint8_t> out;
  pcapng::append_packet(out, 0, 0, 4, "12345");
  ASSERT_EQ(out.size(), 28U + 4 + 4 + 8 + 4 + 4);
  const uint8_t expected[] = {1, 0, 5, 0, '1', '2', '3', '4', '5', 0, 0, 0, 0, 0, 0, 0};
  EXPECT_THAT(std::span(out).subspan(32, sizeof expected), ElementsAreArray(expected));
  EXPECT_EQ(word(out, 4), out.size());
}

TEST(ByteRingTest, WrapsAndRefusesWhatDoesNotFit) {
  ByteRing ring(64);
  const std::vector<uint8_t> chunk = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  std::vector<uint8_t> taken(chunk.size());
  uint64_t position = 0;
  for (int i = 0; i < 50; ++i) {
    while (ring.fits(chunk.size())) {
      ring.put(chunk);
      ring.commit();
    }
    ASSERT_EQ(ring.readable_end() - position, 3 * chunk.size());
    ring.copy(position + chunk.size(), taken);  // looks ahead
    EXPECT_EQ(taken, chunk);
    EXPECT_FALSE(ring.fits(chunk.size()));
    position += chunk.size();
    ring.consume(position);
  }
  EXPECT_FALSE(ring.fits(65));
}

// ---- Comments ----

const std::string kNames[] = {"left", "right"};

FrameStory story(const TxNote& note, const FaultVerdict& fate,
                 std::initializer_list<RxVerdict> verdicts) {
  FrameStory made;
  made.frame.note = note;
  made.frame.fate = fate;
  for (const RxVerdict& verdict : verdicts) {
    made.receipts[made.received++] = {.interface = 1, .verdict = verdict};
  }
  return made;
}

constexpr TxNote kRequest{.kind = TxNote::Kind::kRequest};
constexpr RxVerdict kExecuted{.kind = RxVerdict::Kind::kExecuted};
constexpr RxVerdict kDuplicate{.kind = RxVerdict::Kind::kDuplicate};
constexpr RxVerdict kBadIcrc{.kind = RxVerdict::Kind::kDropped, .drop = DropReason::kBadIcrc};

TEST(CaptureCommentTest, TellsTheLifeOfAPacket) {
  EXPECT_EQ(capture_comment(story(kRequest, {}, {kExecuted}), kNames),
            "request; right: expected PSN: executed");
  EXPECT_EQ(capture_comment(story(kRequest, {.drop = true}, {}), kNames), "request; wire: dropped");
  EXPECT_EQ(capture_comment(story(kRequest, {.duplicate = true}, {kExecuted, kDuplicate}), kNames),
            "request; wire: delivered twice; right: expected PSN: executed; "
            "right: duplicate: acknowledged again, not executed");
  EXPECT_EQ(
      capture_comment(story(kRequest, {.corrupt_bit = 77, .delay_ns = 1500}, {kBadIcrc}), kNames),
      "request; wire: bit 77 flipped, delayed by 1.5 us; right: dropped: bad_icrc");
  EXPECT_EQ(capture_comment(story(kRequest, {.overtaken_by = 9}, {}), kNames),
            "request; wire: put behind up to 9 later ones; not received when this was written");
}

// ---- The thread ----

struct Captured {
  uint32_t interface;
  uint64_t timestamp;
  std::vector<uint8_t> frame;
  std::string comment;
};

// The packets of a file; fails when it is not whole.
std::vector<Captured> packets_of(const std::string& path) {
  const auto bytes = read_file(path);
  std::vector<Captured> packets;
  for (size_t at = 0; at < bytes.size();) {
    if (at + 12 > bytes.size() || at + word(bytes, at + 4) > bytes.size()) {
      ADD_FAILURE() << "the file ends within a block";
      return packets;
    }
    const uint32_t length = word(bytes, at + 4);
    EXPECT_EQ(word(bytes, at + length - 4), length);
    if (word(bytes, at) == 6) {
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at + 28);
      const uint32_t frame_bytes = word(bytes, at + 20);
      Captured packet{word(bytes, at + 8), word(bytes, at + 16), {begin, begin + frame_bytes}, ""};
      const size_t option = at + 28 + (frame_bytes + 3) / 4 * 4;
      if (option + 4 < at + length) {
        const auto text = bytes.begin() + static_cast<std::ptrdiff_t>(option + 4);
        packet.comment = {text, text + (word(bytes, option) >> 16)};
      }
      packets.push_back(packet);
    }
    at += length;
  }
  return packets;
}

class CaptureTest : public testing::Test {
 protected:
  CaptureTest() : path_(dir_.file("a.pcapng")) {}

  std::unique_ptr<Capture> begin(uint64_t ring_bytes = Capture::kRingBytes) {
    std::string wrong;
    UniqueFd file = open_capture_file(path_, wrong);
    EXPECT_TRUE(file) << wrong;
    return std::make_unique<Capture>(path_, std::move(file), kNames, 1000, ring_bytes);
  }
  std::vector<std::string> comments() const {
    std::vector<std::string> all;
    for (const auto& packet : packets_of(path_)) all.push_back(packet.comment);
    return all;
  }

  const TempDir dir_;
  const std::string path_;
  const std::vector<uint8_t> frame_ = std::vector<uint8_t>(100);
};

TEST_F(CaptureTest, EveryFrameIsInTheFileOrCounted) {
  const auto capture = begin(uint64_t{1} << 20);
  constexpr uint64_t kFrames = 4000;  // more than the ring holds at once
  std::vector<uint8_t> frame(4178);
  for (uint64_t i = 0; i < kFrames; ++i) {
    std::memcpy(frame.data(), &i, sizeof i);
    const uint64_t tag = capture->tap(i % 2, i, frame, kRequest, {});
    capture->received(1 - i % 2, tag, kExecuted);
  }
  const auto totals = capture->finish();
  EXPECT_EQ(totals.written + totals.dropped, kFrames);
  EXPECT_EQ(totals.error, 0);
  EXPECT_GT(totals.written, 200U);
  const auto packets = packets_of(path_);
  EXPECT_EQ(packets.size(), totals.written);
  uint64_t next = 0;
  for (const Captured& packet : packets) {
    uint64_t index;
    std::memcpy(&index, packet.frame.data(), sizeof index);
    EXPECT_GE(index, next);
    EXPECT_EQ(packet.frame.size(), frame.size());
    EXPECT_EQ(packet.interface, index % 2);
    EXPECT_EQ(packet.timestamp, index + 1000);
    next = index + 1;
  }
}

TEST_F(CaptureTest, FramesKeepTheirOrderWhateverTheOrderOfReceipts) {
  const auto capture = begin();
  std::vector<uint64_t> tags;
  for (uint64_t i = 0; i < 3; ++i) {
    tags.push_back(capture->tap(0, i, frame_, kRequest, {.duplicate = i == 1}));
  }
  capture->received(1, tags[2], kBadIcrc);
  capture->received(1, tags[1], kExecuted);
  capture->received(1, tags[0], kExecuted);
  capture->received(1, tags[1], kDuplicate);
  capture->finish();
  EXPECT_THAT(comments(),
              testing::ElementsAre("request; right: expected PSN: executed",
                                   HasSubstr("right: expected PSN: executed; right: duplicate"),
                                   "request; right: dropped: bad_icrc"));
}

TEST_F(CaptureTest, FrameThatNobodyReceivesHoldsUpNoOther) {
  const auto capture = begin();
  capture->tap(0, 1, frame_, kRequest, {});
  const uint64_t second = capture->tap(0, 2, frame_, kRequest, {});
  capture->received(1, second, kExecuted);
  // The writer gives up waiting for the first: the file has both before the end.
  const std::string word = "executed";
  std::vector<uint8_t> bytes;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    bytes = read_file(path_);
  } while (std::search(bytes.begin(), bytes.end(), word.begin(), word.end()) == bytes.end());
  capture->finish();
  EXPECT_THAT(comments(), testing::ElementsAre(HasSubstr("not received"), HasSubstr(word)));
}

TEST_F(CaptureTest, ForeignTagsHaveNoEffect) {
  const auto earlier = begin();
  const uint64_t foreign = earlier->tap(0, 1, frame_, kRequest, {});
  earlier->finish();
  const auto capture = begin();
  capture->received(1, foreign, kBadIcrc);
  capture->received(1, 0, kBadIcrc);
  const uint64_t tag = capture->tap(0, 1, frame_, kRequest, {});
  capture->received(1, tag + 1, kBadIcrc);
  capture->received(1, tag, kExecuted);
  capture->received(1, tag, kBadIcrc);
  capture->finish();
  EXPECT_THAT(comments(), testing::ElementsAre(HasSubstr("executed")));
}

TEST_F(CaptureTest, FullDiskIsReportedAndDoesNotStop) {
  UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  const std::string names[] = {"only"};
  Capture capture("/dev/full", std::move(full), names, 0);
  for (int i = 0; i < 1000; ++i) capture.tap(0, 1, frame_, kRequest, {.drop = true});
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
