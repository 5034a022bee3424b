// VERBENA_ASSERT is for our own mistakes only, and stays on in every build. What a peer or a client
// can cause is never asserted: it is a Result, a NAK, an error completion or a counted drop.
#pragma once

#include <cstdio>
#include <cstdlib>

#define VERBENA_ASSERT(condition)                                                            \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: assertion failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
