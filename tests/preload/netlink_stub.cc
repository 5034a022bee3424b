// A preload library that plays a kernel with ib_core: the RDMA netlink socket can be opened there.
// Whoever gets through to it is told on stderr.

#include <dlfcn.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

extern "C" int socket(int domain, int type, int protocol) noexcept {
  using Socket = int(int, int, int);
  auto* next = reinterpret_cast<Socket*>(dlsym(RTLD_NEXT, "socket"));
  if (domain != AF_NETLINK || protocol != NETLINK_RDMA) return next(domain, type, protocol);
  constexpr char kReached[] = "RDMA netlink reached\n";
  if (write(STDERR_FILENO, kReached, sizeof(kReached) - 1) < 0) return -1;
  return next(domain, type, NETLINK_ROUTE);
}
