// A client's memory through /proc/self/mem, shared regions and their budget, and the instance
// directory.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "dpdk/proc_memory.h"
#include "dpdk/ring_budget.h"
#include "dpdk/run_dir.h"
#include "dpdk/shm.h"
#include "tests/support/temp_dir.h"

namespace verbena {
namespace {

using testing::HasSubstr;

constexpr size_t kPage = 4096;

uint64_t address(const void* p) {
  return reinterpret_cast<uint64_t>(p);
}

UniqueFd own_memory() {
  return UniqueFd(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
}

// Three pages, of which the last is not there.
class ProcMemoryTest : public testing::Test {
 protected:
  ProcMemoryTest() : memory_(own_memory()) {
    void* base =
        mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base_ = static_cast<uint8_t*>(base);
    munmap(base_ + 2 * kPage, kPage);
    std::iota(base_, base_ + 2 * kPage, uint8_t{0});
  }
  ~ProcMemoryTest() override { munmap(base_, 2 * kPage); }

  uint8_t* base_;
  ProcMemory memory_;
};

TEST_F(ProcMemoryTest, ReadsIntoPiecesInOrder) {
  std::vector<uint8_t> a(3), b(0), c(4090);
  const MutableBytes pieces[] = {{a.data(), 3}, {b.data(), 0}, {c.data(), 4090}};
  EXPECT_EQ(memory_.read(address(base_) + 5, pieces), MemResult::kDone);
  EXPECT_EQ(std::memcmp(a.data(), base_ + 5, 3), 0);
  EXPECT_EQ(std::memcmp(c.data(), base_ + 8, 4090), 0);
}

TEST_F(ProcMemoryTest, WritesEverySizeWithAndWithoutOrder) {
  std::vector<uint8_t> source(600);
  std::iota(source.begin(), source.end(), uint8_t{100});
  for (const bool ordered : {false, true}) {
    for (uint32_t size = 0; size < 300; ++size) {
      for (const uint32_t cut : {0U, 1U, size / 2, size > 3 ? size - 3 : 0U, size}) {
        std::memset(base_, 0, 2 * kPage);
        const uint32_t first = std::min(cut, size);
        const ConstBytes pieces[] = {{source.data(), first}, {source.data() + first, size - first}};
        ASSERT_EQ(memory_.write(address(base_) + 7, pieces, ordered), MemResult::kDone);
        ASSERT_EQ(std::memcmp(base_ + 7, source.data(), size), 0) << size << " " << cut;
        ASSERT_EQ(base_[6], 0);
        ASSERT_EQ(base_[7 + size], 0);
      }
    }
  }
}

TEST_F(ProcMemoryTest, ManyMorePiecesThanOneSystemCallTakes) {
  std::vector<uint8_t> source(5000);
  std::iota(source.begin(), source.end(), uint8_t{9});
  std::vector<ConstBytes> pieces;
  for (uint8_t& byte : source) pieces.push_back({&byte, 1});
  EXPECT_EQ(memory_.write(address(base_), pieces, true), MemResult::kDone);
  EXPECT_EQ(std::memcmp(base_, source.data(), source.size()), 0);
}

TEST_F(ProcMemoryTest, MissingPagesAreAFault) {
  std::vector<uint8_t> data(2 * kPage);
  const MutableBytes to[] = {{data.data(), 2 * kPage}};
  const ConstBytes from[] = {{data.data(), 2 * kPage}};
  EXPECT_EQ(memory_.read(address(base_) + kPage, to), MemResult::kFault);
  EXPECT_EQ(memory_.write(address(base_) + kPage, from, true), MemResult::kFault);
  EXPECT_EQ(memory_.read(0, to), MemResult::kFault);
  EXPECT_EQ(memory_.read(~uint64_t{0} - 100, to), MemResult::kFault);
}

TEST_F(ProcMemoryTest, DeadProcessIsAFault) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    _exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
  }
  const std::string path = "/proc/" + std::to_string(child) + "/mem";
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd);
  EXPECT_TRUE(check_memory_fd(fd.value(), child).ok());
  EXPECT_EQ(check_memory_fd(fd.value(), getpid()).error(), EINVAL);
  ProcMemory memory(std::move(fd));
  uint8_t byte = 1;
  const MutableBytes to[] = {{&byte, 1}};
  EXPECT_EQ(memory.read(address(base_), to), MemResult::kDone);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(memory.read(address(base_), to), MemResult::kGone);
  const ConstBytes from[] = {{&byte, 1}};
  EXPECT_EQ(memory.write(address(base_), from, true), MemResult::kGone);
  close(ends[0]);
  close(ends[1]);
}

TEST(MemoryFdTest, OnlyTheMemoryFileOfTheProcess) {
  const UniqueFd good = own_memory();
  EXPECT_TRUE(check_memory_fd(good.value(), getpid()).ok());
  const auto refused = [](const char* path, int flags) {
    const UniqueFd fd(open(path, flags | O_CLOEXEC));
    EXPECT_TRUE(fd) << path;
    return check_memory_fd(fd.value(), getpid()).error() == EINVAL;
  };
  EXPECT_TRUE(refused("/proc/self/mem", O_RDONLY));
  EXPECT_TRUE(refused("/proc/self/maps", O_RDONLY));
  EXPECT_TRUE(refused("/dev/null", O_RDWR));
  EXPECT_TRUE(refused("/proc/self/comm", O_RDWR));
  const test::TempDir directory;
  const std::string imitation = directory.file("mem");
  std::ofstream(imitation) << "x";
  EXPECT_TRUE(refused(imitation.c_str(), O_RDWR));
  EXPECT_EQ(check_memory_fd(-1, getpid()).error(), EINVAL);
}

TEST(SharedRegionTest, CannotBeShrunkGrownOrUnsealed) {
  auto region = SharedRegion::create("test", 5000, SharedRegion::ClientAccess::kReadWrite);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(region->bytes(), 2 * kPage);
  EXPECT_NE(ftruncate(region->fd(), 0), 0);
  EXPECT_NE(ftruncate(region->fd(), 1 << 20), 0);
  EXPECT_NE(fcntl(region->fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  auto* other = static_cast<uint8_t*>(
      mmap(nullptr, region->bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, region->fd(), 0));
  ASSERT_NE(other, MAP_FAILED);
  other[17] = 5;
  EXPECT_EQ(region->base()[17], 5);
  munmap(other, region->bytes());
  EXPECT_EQ(SharedRegion::create("x", 0, SharedRegion::ClientAccess::kReadWrite).error(), EINVAL);
}

TEST(SharedRegionTest, ReadOnlyForClients) {
  auto region = SharedRegion::create("test", 1, SharedRegion::ClientAccess::kReadOnly);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd(), 0), MAP_FAILED);
  EXPECT_LT(write(region->fd(), "x", 1), 0);
  void* view = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, region->fd(), 0);
  ASSERT_NE(view, MAP_FAILED);
  EXPECT_NE(mprotect(view, kPage, PROT_READ | PROT_WRITE), 0);
  region->base()[3] = 9;
  EXPECT_EQ(static_cast<uint8_t*>(view)[3], 9);
  munmap(view, kPage);
}

// Each in a process of its own: the handler is for good.
TEST(RingBudgetTest, EachClientFindsAsMuchAsTheGreediestGot) {
  RingBudget budget(64);
  RingBudget::Account greedy;
  RingBudget::Account modest;
  std::vector<RingBudget::Loan> loans;
  for (;;) {
    auto loan = budget.lend(1, greedy);
    if (!loan.ok()) break;
    loans.push_back(std::move(*loan));
  }
  EXPECT_EQ(greedy.bytes, 32U);
  EXPECT_EQ(budget.lend(17, modest).error(), ENOMEM);
  {
    const auto loan = budget.lend(16, modest);
    EXPECT_TRUE(loan.ok());
    EXPECT_EQ(modest.bytes, 16U);
  }
  loans.clear();
  EXPECT_EQ(greedy.bytes, 0U);
  EXPECT_EQ(modest.bytes, 0U);
  EXPECT_TRUE(budget.lend(32, modest).ok());
}

TEST(RingBudgetTest, SizesThatWrapAreRefused) {
  RingBudget budget(64);
  RingBudget::Account account;
  const auto loan = budget.lend(1, account);
  EXPECT_EQ(budget.lend(UINT64_MAX, account).error(), ENOMEM);
}

TEST(RingBudgetTest, ThereIsMemoryForRings) {
  EXPECT_GE(memory_for_rings(), uint64_t{64} << 20);
}

TEST(LostPagesTest, AreReplacedInSharedMappings) {
  const auto touch = [] {
    survive_lost_pages();
    const UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
    if (ftruncate(fd.value(), 2 * kPage) != 0) _exit(1);
    void* base = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd.value(), 0);
    auto* bytes = static_cast<volatile uint8_t*>(base);
    bytes[0] = 7;
    bytes[kPage] = 7;
    if (ftruncate(fd.value(), kPage) != 0) _exit(1);  // the second page is not there any more
    if (bytes[kPage + 5] != 0) _exit(2);
    bytes[kPage] = 9;
    _exit(bytes[kPage] == 9 && bytes[0] == 7 ? 0 : 3);
  };
  EXPECT_EXIT(touch(), testing::ExitedWithCode(0), "");
}

TEST(LostPagesTest, OfOtherMappingsStillEndTheProcess) {
  const auto touch = [] {
    survive_lost_pages();
    const UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
    void* base = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.value(), 0);
    *static_cast<volatile uint8_t*>(base) = 1;
    _exit(0);
  };
  EXPECT_EXIT(touch(), testing::KilledBySignal(SIGBUS), "");
}

class InstanceDirTest : public testing::Test {
 protected:
  static std::string refusal(const std::string& path) {
    try {
      const InstanceDir dir(path);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "not refused";
  }

  const test::TempDir directory_;
  const std::string& base_ = directory_.path();
};

TEST_F(InstanceDirTest, IsMadePrivate) {
  const InstanceDir dir(base_ + "/a/b");
  for (const char* name : {"/a", "/a/b"}) {
    struct stat status {};
    ASSERT_EQ(stat((base_ + name).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700U);
  }
}

TEST_F(InstanceDirTest, SecondDaemonIsRefusedAndNamesTheFirst) {
  InstanceDir first(base_);
  first.write_pid();
  EXPECT_THAT(refusal(base_), HasSubstr("process " + std::to_string(getpid())));
}

TEST_F(InstanceDirTest, LeftoversOfADeadDaemonAreTakenOver) {
  std::ofstream(base_ + "/verbenad.pid") << "999999\n";
  std::ofstream(base_ + "/control.sock") << "";
  {
    InstanceDir dir(base_);
    dir.write_pid();
    const UniqueFd socket = dir.listen();
    EXPECT_TRUE(socket);
    EXPECT_TRUE(std::filesystem::is_socket(base_ + "/control.sock"));
  }
  EXPECT_FALSE(std::filesystem::exists(base_ + "/control.sock"));
  EXPECT_FALSE(std::filesystem::exists(base_ + "/verbenad.pid"));
}

TEST_F(InstanceDirTest, UnsafeDirectoriesAreRefused) {
  const std::string open_dir = base_ + "/open";
  ASSERT_EQ(mkdir(open_dir.c_str(), 0700), 0);
  ASSERT_EQ(chmod(open_dir.c_str(), 0755), 0);
  EXPECT_THAT(refusal(open_dir), HasSubstr("chmod 700"));
  ASSERT_EQ(chmod(open_dir.c_str(), 0777), 0);
  EXPECT_THAT(refusal(open_dir + "/child"), HasSubstr("other users"));
  ASSERT_EQ(symlink(base_.c_str(), (base_ + "/link").c_str()), 0);
  EXPECT_THAT(refusal(base_ + "/link"), HasSubstr("symbolic link"));
  std::ofstream(base_ + "/file") << "";
  EXPECT_THAT(refusal(base_ + "/file"), HasSubstr("not a directory"));
}

}  // namespace
}  // namespace verbena
