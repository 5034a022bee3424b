#include "dpdk/shm.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

namespace verbena {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMaxRegion = uint64_t{1} << 32;

int spare_page = -1;  // a memfd; lives as long as the process

// System calls only: this may interrupt anything.
void replace_lost_page(int, siginfo_t* info, void*) {
  void* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(info->si_addr) & ~(kPage - 1));
  // Only a shared mapping can be mapped a second time like this: our program's own pages are
  // private.
  void* twin = mremap(page, 0, kPage, MREMAP_MAYMOVE);
  const bool shared = twin != MAP_FAILED;
  if (shared) munmap(twin, kPage);
  if (!shared || mmap(page, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, spare_page, 0) ==
                     MAP_FAILED) {
    signal(SIGBUS, SIG_DFL);  // the touch is repeated, and ends the process
  }
}

}  // namespace

SharedRegion::SharedRegion(SharedRegion&& other) noexcept
    : fd_(std::move(other.fd_)),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedRegion& SharedRegion::operator=(SharedRegion&& other) noexcept {
  if (this != &other) {
    if (base_ != nullptr) munmap(base_, bytes_);
    fd_ = std::move(other.fd_);
    base_ = std::exchange(other.base_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

SharedRegion::~SharedRegion() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

Result<SharedRegion> SharedRegion::create(const char* name, uint64_t bytes, ClientAccess access) {
  if (bytes == 0 || bytes > kMaxRegion) return Status(EINVAL);
  SharedRegion region;
  region.fd_.reset(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!region.fd_) return Status(errno);
  const uint64_t size = (bytes + kPage - 1) / kPage * kPage;
  // Reserved now: a full tmpfs is an error here, not a SIGBUS later.
  if (const int error = posix_fallocate(region.fd(), 0, static_cast<off_t>(size)); error != 0) {
    return Status(error);
  }
  void* base =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, region.fd(), 0);
  if (base == MAP_FAILED) return Status(errno);
  region.base_ = static_cast<uint8_t*>(base);
  region.bytes_ = size;
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (access == ClientAccess::kReadOnly) seals |= F_SEAL_FUTURE_WRITE;
  if (fcntl(region.fd(), F_ADD_SEALS, seals) != 0) return Status(errno);
  return region;
}

void survive_lost_pages() {
  spare_page = memfd_create("verbena-spare", MFD_CLOEXEC);
  struct sigaction action {};
  action.sa_sigaction = replace_lost_page;
  action.sa_flags = SA_SIGINFO;
  if (spare_page < 0 || posix_fallocate(spare_page, 0, kPage) != 0 ||
      sigaction(SIGBUS, &action, nullptr) != 0) {
    throw std::runtime_error("no memory for a spare page");
  }
}

Result<UniqueFd> text_memfd(std::string_view text) {
  UniqueFd fd(memfd_create("verbena-answer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return Status(errno);
  for (size_t done = 0; done < text.size();) {
    const ssize_t put =
        pwrite(fd.value(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (put <= 0) return Status(put < 0 ? errno : EIO);
    done += static_cast<size_t>(put);
  }
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (fcntl(fd.value(), F_ADD_SEALS, seals) != 0) return Status(errno);
  return fd;
}

}  // namespace verbena
