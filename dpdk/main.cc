// verbenad: start, privileges, shutdown. The main thread becomes the polling thread.

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <string>

#include "dpdk/log.h"
#include "dpdk/options.h"
#include "dpdk/run_dir.h"
#include "dpdk/serve.h"
#include "dpdk/shm.h"

namespace verbena {
namespace {

// Clients hand over what is needed to reach their memory; the right to reach everybody's is not.
void drop_ptrace_capability() {
  prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return;
  const uint32_t bit = uint32_t{1} << CAP_SYS_PTRACE;
  data[0].effective &= ~bit;
  data[0].permitted &= ~bit;
  data[0].inheritable &= ~bit;
  syscall(SYS_capset, &header, data.data());
}

void prepare_process() {
  umask(077);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a ring beyond `ulimit -f` is an error of that ring
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);  // the control thread reads them
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  drop_ptrace_capability();
}

// The background daemon tells its parent, which waits at the terminal, how the start went.
class Parent {
 public:
  // Forks unless `foreground`. In the parent it never returns.
  explicit Parent(bool foreground) {
    int ends[2];
    if (foreground || pipe2(ends, O_CLOEXEC) != 0) return;
    const pid_t child = fork();
    if (child < 0) return;  // then in the foreground
    if (child > 0) wait(ends[0], ends[1]);
    close(ends[0]);
    report_.reset(ends[1]);
    setsid();
  }

  void serving() {
    if (!report_) return;
    const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null.value(), fd);
    [[maybe_unused]] const ssize_t put = write(report_.value(), "s", 1);
    report_.reset();
  }

 private:
  [[noreturn]] static void wait(int read_end, int write_end) {
    close(write_end);
    char byte = 0;
    const ssize_t got = read(read_end, &byte, 1);
    _exit(got == 1 ? 0 : 1);
  }

  UniqueFd report_;
};

// Who started the daemon reads "s" when it serves; "r", what is wrong, a line feed and what to
// write instead when it refuses its options; the end of file alone when it cannot start for another
// reason.
void tell_starter(const Options& options, const std::string& text) {
  if (options.ready_fd < 0) return;
  [[maybe_unused]] const ssize_t put = write(options.ready_fd, text.data(), text.size());
  close(options.ready_fd);
}

int run(const Options& options) {
  prepare_process();
  bool logging = false;
  try {
    survive_lost_pages();
    InstanceDir dir(options.dir);
    Parent parent(options.foreground);
    dir.write_pid();
    if (options.ready_fd >= 0) fcntl(options.ready_fd, F_SETFD, FD_CLOEXEC);
    open_log(options.dir + "/verbenad.log", options.log_level);
    logging = true;
    log::info("verbenad " VERBENA_VERSION " starts as process {}", getpid());
    serve(options, dir, [&] {
      parent.serving();
      tell_starter(options, "s");
    });
    log::info("verbenad has ended");
    return 0;
  } catch (const std::exception& error) {
    if (logging) log::error("{}", error.what());
    fmt::print(stderr, "verbenad: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace verbena

int main(int argc, char** argv) {
  const auto parsed = verbena::parse_options(argc, argv);
  if (parsed.stop) {
    std::fputs(parsed.text.c_str(), parsed.exit_status == 0 ? stdout : stderr);
    if (const auto& refusal = parsed.refusal) {
      verbena::tell_starter(parsed.options, "r" + refusal.what + '\n' + refusal.instead);
    }
    return parsed.exit_status;
  }
  return verbena::run(parsed.options);
}
