// Compiled once for each test program: the headers that cost most.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>
