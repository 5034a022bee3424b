// Compiled once for all scenarios.

#include <gtest/gtest.h>
