// Checks for the programs that run under the preload library: a failed one is printed and counted,
// and makes the program's exit status 1. (A test framework would bring its own file accesses
// along.)
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace verbena::probe {

inline int failures = 0;

inline void expect(bool holds, const char* what) {
  const int saved_errno = errno;
  if (!holds) {
    ++failures;
    std::printf("FAILED: %s (errno: %s)\n", what, std::strerror(saved_errno));
  }
}

inline int finish() {
  std::printf("%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace verbena::probe
