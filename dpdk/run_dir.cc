#include "dpdk/run_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace verbena {
namespace {

[[noreturn]] void fail(const std::string& text) {
  throw std::runtime_error(text);
}

void make_dirs(const std::filesystem::path& path) {
  if (path.empty() || mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return;
  if (errno != ENOENT || path == path.parent_path()) {
    fail(fmt::format("cannot create {}: {}", path.string(), std::strerror(errno)));
  }
  make_dirs(path.parent_path());
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    fail(fmt::format("cannot create {}: {}", path.string(), std::strerror(errno)));
  }
}

// Nobody else may be able to put another directory in the place of ours.
void check_parent(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    fail(fmt::format("cannot look at {}: {}", path, std::strerror(errno)));
  }
  const bool known_owner = status.st_uid == geteuid() || status.st_uid == 0;
  const bool open_to_all =
      S_ISDIR(status.st_mode) && (status.st_mode & 022) != 0 && (status.st_mode & S_ISVTX) == 0;
  if (!known_owner || open_to_all) {
    fail(fmt::format("{} can be changed by other users: choose a directory below one of your own",
                     path));
  }
}

void check_own(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    fail(fmt::format("cannot look at {}: {}", path, std::strerror(errno)));
  }
  if (!S_ISDIR(status.st_mode)) {
    fail(fmt::format("{} is not a directory (a symbolic link is not followed): name the directory",
                     path));
  }
  if (status.st_uid != geteuid()) {
    fail(fmt::format("{} belongs to user {}: choose a directory of your own", path, status.st_uid));
  }
  if ((status.st_mode & 077) != 0) {
    fail(fmt::format("{} is open to other users: chmod 700 {}", path, path));
  }
}

}  // namespace

InstanceDir::InstanceDir(std::string path) : path_(std::move(path)) {
  make_dirs(path_);
  check_parent(std::filesystem::path(path_).parent_path().string());
  check_own(path_);
  lock();
}

InstanceDir::~InstanceDir() {
  if (owner_pid_ != getpid()) return;
  unlink_socket();
  unlink((path_ + "/verbenad.pid").c_str());
}

void InstanceDir::lock() {
  const std::string name = path_ + "/verbenad.pid";
  for (;;) {
    pid_file_.reset(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!pid_file_) fail(fmt::format("cannot open {}: {}", name, std::strerror(errno)));
    if (flock(pid_file_.value(), LOCK_EX | LOCK_NB) != 0) {
      std::array<char, 16> pid{};
      const ssize_t size = pread(pid_file_.value(), pid.data(), pid.size(), 0);
      std::string who(pid.data(), size > 0 ? static_cast<size_t>(size) : 0);
      while (!who.empty() && who.back() == '\n') who.pop_back();
      fail(
          fmt::format("{} is served by another verbenad{}: end that one (verbena down), or choose "
                      "another --dir",
                      path_, who.empty() ? "" : " (process " + who + ")"));
    }
    // A daemon that ended meanwhile may have unlinked the file that we locked.
    struct stat locked {};
    struct stat named {};
    if (fstat(pid_file_.value(), &locked) == 0 && lstat(name.c_str(), &named) == 0 &&
        locked.st_ino == named.st_ino && locked.st_dev == named.st_dev) {
      return;
    }
  }
}

void InstanceDir::write_pid() {
  owner_pid_ = getpid();
  const std::string text = fmt::format("{}\n", owner_pid_);
  if (ftruncate(pid_file_.value(), 0) != 0 ||
      pwrite(pid_file_.value(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    fail(fmt::format("cannot write {}/verbenad.pid: {}", path_, std::strerror(errno)));
  }
}

UniqueFd InstanceDir::listen() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path_ + "/control.sock";
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);  // the options check the length
  unlink(name.c_str());
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  constexpr int kBacklog = 1024;
  if (!fd || bind(fd.value(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.value(), kBacklog) != 0) {
    fail(fmt::format("cannot listen at {}: {}", name, std::strerror(errno)));
  }
  return fd;
}

void InstanceDir::unlink_socket() {
  unlink((path_ + "/control.sock").c_str());
}

}  // namespace verbena
