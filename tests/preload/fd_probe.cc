// Opens /dev/infiniband/uverbs0 of the preload library that it runs under, and checks how command
// fds are followed and how commands are answered, at the level of the system calls.

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "provider/preload/preload_api.h"
#include "tests/preload/probe.h"

using verbena::probe::expect;

namespace {

constexpr char kDevice[] = "/dev/infiniband/uverbs0";
constexpr uint32_t kUntouched = 0xdeadbeef;

decltype(&verbena_preload_register) register_fd = nullptr;
decltype(&verbena_preload_unregister) unregister_fd = nullptr;

// Stands for a provider's context: counts the channels made, and keeps the other end of the last.
struct FakeContext {
  int channels = 0;
  int other_end = -1;
  int error = 0;
};

int create_channel(void* context) {
  auto* fake = static_cast<FakeContext*>(context);
  if (fake->error != 0) return -fake->error;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return -errno;
  ++fake->channels;
  fake->other_end = ends[1];
  return ends[0];
}

struct Command {
  ib_uverbs_cmd_hdr header;
  ib_uverbs_create_comp_channel body;
};

Command channel_command(ib_uverbs_create_comp_channel_resp* response) {
  return {.header = {.command = IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
                     .in_words = sizeof(Command) / 4,
                     .out_words = 1},
          .body = {.response = reinterpret_cast<uintptr_t>(response)}};
}

// Asks for a channel on `fd`; true when one was made by `fake` and carries an event.
bool makes_channel(int fd, FakeContext& fake) {
  ib_uverbs_create_comp_channel_resp response = {.fd = kUntouched};
  const Command command = channel_command(&response);
  const int before = fake.channels;
  if (write(fd, &command, sizeof(command)) != sizeof(command)) return false;
  if (fake.channels != before + 1) return false;
  const uint64_t event = 0x1122334455667788;
  uint64_t got = 0;
  const int channel = static_cast<int>(response.fd);
  const bool carried = send(fake.other_end, &event, sizeof(event), 0) == sizeof(event) &&
                       read(channel, &got, sizeof(got)) == sizeof(got) && got == event;
  close(channel);
  close(fake.other_end);
  return carried;
}

// Asks for a channel on `fd`; true when that is refused with `error` and no answer is placed.
bool refuses_channel(int fd, int error) {
  ib_uverbs_create_comp_channel_resp response = {.fd = kUntouched};
  const Command command = channel_command(&response);
  errno = 0;
  return write(fd, &command, sizeof(command)) == -1 && errno == error && response.fd == kUntouched;
}

// Whether `fd` takes the bytes of a command as any /dev/null does.
bool is_foreign(int fd) {
  ib_uverbs_create_comp_channel_resp response = {.fd = kUntouched};
  const Command command = channel_command(&response);
  return write(fd, &command, sizeof(command)) == sizeof(command) && response.fd == kUntouched;
}

void check_device() {
  const int fd = open(kDevice, O_RDWR | O_CLOEXEC);
  struct stat status = {};
  expect(fd >= 0 && fstat(fd, &status) == 0, "the device opens");
  expect(S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3), "it is character device 1:3");
  struct stat by_path = {};
  expect(stat(kDevice, &by_path) == 0 && by_path.st_rdev == status.st_rdev, "stat says the same");
  expect(access(kDevice, R_OK | W_OK) == 0, "it is accessible");
  errno = 0;
  expect(open("/dev/infiniband/uverbs77", O_RDWR) == -1 && errno == ENOENT, "no uverbs77");

  ib_uverbs_ioctl_hdr header = {.length = sizeof(header)};
  errno = 0;
  expect(ioctl(fd, RDMA_VERBS_IOCTL, &header) == -1 && errno == ENOTTY, "ioctl mode is refused");
  expect(refuses_channel(fd, EINVAL), "no channel without a context");
  close(fd);
}

void check_commands() {
  FakeContext fake;
  const int fd = open(kDevice, O_RDWR | O_CLOEXEC);
  expect(register_fd(-1, create_channel, &fake) == -EBADF, "fd -1 is refused");
  expect(register_fd(fd, nullptr, &fake) == -EINVAL, "a null callback is refused");
  expect(register_fd(fd, create_channel, &fake) == 0, "register");
  expect(makes_channel(fd, fake), "a channel is made");
  expect(fake.channels == 1, "by the callback");

  const ib_uverbs_cmd_hdr other = {.command = IB_USER_VERBS_CMD_QUERY_DEVICE, .in_words = 2};
  errno = 0;
  expect(write(fd, &other, sizeof(other)) == -1 && errno == EOPNOTSUPP, "other commands");
  errno = 0;
  expect(write(fd, "hello", 5) == -1 && errno == EINVAL, "not a command");

  ib_uverbs_create_comp_channel_resp response = {.fd = kUntouched};
  Command command = channel_command(&response);
  errno = 0;
  expect(write(fd, &command, sizeof(command.header)) == -1 && errno == EINVAL, "truncated command");
  command.header.in_words = 9;
  errno = 0;
  expect(write(fd, &command, sizeof(command)) == -1 && errno == EINVAL, "length disagrees");
  command = channel_command(&response);
  command.header.out_words = 0;
  errno = 0;
  expect(write(fd, &command, sizeof(command)) == -1 && errno == ENOSPC, "no room for the answer");
  command = channel_command(nullptr);
  errno = 0;
  expect(write(fd, &command, sizeof(command)) == -1 && errno == EFAULT, "null answer");
  expect(fake.channels == 1 && response.fd == kUntouched, "refused commands make no channel");

  fake.error = EMFILE;
  expect(refuses_channel(fd, EMFILE), "the callback's error is errno");
  unregister_fd(fd);
  expect(refuses_channel(fd, EINVAL), "no channel after unregister");
  unregister_fd(fd);
  unregister_fd(-1);
  close(fd);
}

void check_duplicates() {
  FakeContext fake;
  const int fd = open(kDevice, O_RDWR | O_CLOEXEC);
  expect(register_fd(fd, create_channel, &fake) == 0, "register");
  const int copies[] = {dup(fd), dup2(fd, 201), dup3(fd, 202, O_CLOEXEC), fcntl(fd, F_DUPFD, 203),
                        fcntl(fd, F_DUPFD_CLOEXEC, 210)};
  for (const int copy : copies) expect(makes_channel(copy, fake), "a duplicate makes a channel");

  close(copies[0]);
  expect(open("/dev/null", O_RDWR) == copies[0] && is_foreign(copies[0]), "close ends it");
  expect(dup2(copies[0], 201) == 201 && is_foreign(201), "dup2 of another file ends it");
  expect(close_range(202, 202, CLOSE_RANGE_CLOEXEC) == 0 && makes_channel(202, fake),
         "close_range that closes nothing");
  expect(close_range(202, 209, 0) == 0 && open("/dev/null", O_RDWR | O_CLOEXEC) >= 0 &&
             dup2(copies[0], 203) == 203 && is_foreign(203),
         "close_range ends it");
  closefrom(210);
  expect(dup2(copies[0], 210) == 210 && is_foreign(210), "closefrom ends it");
  expect(makes_channel(fd, fake), "the first is as before");

  const int kept = dup(fd);
  unregister_fd(fd);
  FakeContext next;
  expect(register_fd(fd, create_channel, &next) == 0, "register again");
  expect(refuses_channel(kept, EINVAL) && next.channels == 0,
         "an old duplicate never reaches the next context");
  expect(makes_channel(fd, next), "the new context makes channels");
  unregister_fd(fd);
  closefrom(3);
}

// fclose closes inside libc, unseen: the number must not stay a command fd.
void check_unseen_close() {
  FakeContext fake;
  const int fd = open(kDevice, O_RDWR | O_CLOEXEC);
  expect(register_fd(fd, create_channel, &fake) == 0, "register");
  FILE* stream = fdopen(dup(fd), "w");
  const int unseen = fileno(stream);
  fclose(stream);
  int ends[2];
  expect(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && ends[0] == unseen,
         "the number is used again");
  expect(is_foreign(unseen), "a socket is a socket");
  const int again = dup(fd);
  stream = fdopen(again, "w");
  fclose(stream);
  expect(open("/dev/null", O_RDWR) == again && is_foreign(again), "and /dev/null is /dev/null");
  unregister_fd(fd);
  closefrom(3);
}

bool child_succeeded(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void check_children() {
  FakeContext fake;
  const int fd = open(kDevice, O_RDWR | O_CLOEXEC);
  expect(register_fd(fd, create_channel, &fake) == 0, "register");

  pid_t child = fork();
  if (child == 0) {
    const int copy = dup(fd);
    bool good = makes_channel(fd, fake) && makes_channel(copy, fake);
    close(copy);
    good = good && open("/dev/null", O_RDWR) == copy && is_foreign(copy);
    closefrom(3);
    _exit(good ? 0 : 1);
  }
  expect(child_succeeded(child), "a child has the fds of its parent, and its own");
  expect(makes_channel(fd, fake), "what a child closes stays open here");

  child = vfork();
  if (child == 0) {
    closefrom(3);
    _exit(0);
  }
  expect(child_succeeded(child), "vfork");
  expect(makes_channel(fd, fake), "what a child of vfork closes stays open here");

  child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) {
    const int own_fd = open(kDevice, O_RDWR | O_CLOEXEC);
    _exit(register_fd(own_fd, create_channel, &fake) == 0 && makes_channel(own_fd, fake) ? 0 : 1);
  }
  expect(child_succeeded(child), "a child that no fork handler saw can open the device");
  unregister_fd(fd);
  close(fd);
}

void check_high_numbers() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max <= 65536) {
    std::printf("not checked: numbers above 65535 (the limit on open files is lower)\n");
    return;
  }
  const int fd = open(kDevice, O_RDWR | O_CLOEXEC);
  errno = 0;
  expect(fcntl(fd, F_DUPFD, 65536) == -1 && errno == EMFILE, "too high a number is refused");
  const int null_fd = open("/dev/null", O_RDWR);
  expect(fcntl(null_fd, F_DUPFD, 65536) >= 65536, "for our devices only");
  closefrom(3);
}

}  // namespace

int main() {
  register_fd =
      reinterpret_cast<decltype(register_fd)>(dlsym(RTLD_DEFAULT, "verbena_preload_register"));
  unregister_fd =
      reinterpret_cast<decltype(unregister_fd)>(dlsym(RTLD_DEFAULT, "verbena_preload_unregister"));
  if (register_fd == nullptr || unregister_fd == nullptr) {
    std::printf("FAILED: the preload library is not loaded\n");
    return 1;
  }
  check_device();
  check_commands();
  check_duplicates();
  check_unseen_close();
  check_children();
  check_high_numbers();
  return verbena::probe::finish();
}
