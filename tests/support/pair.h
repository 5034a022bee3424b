// The simulator for tests: its faults fail the test. Pair is two stations, a queue pair on each,
// connected.
#pragma once

#include "tests/support/matchers.h"
#include "tools/sim/fabric.h"

namespace verbena::test {

using namespace sim;  // NOLINT(google-build-using-namespace)
using FakeMemory = sim::Memory;

class Fabric : public sim::Fabric {
 public:
  Fabric();

  // Until idle; fails the test after an hour of virtual time or a million steps.
  void drive();
  // The recorded frames that match.
  size_t count(const Expect& expected) const;
};

class Pair : public Fabric {
 public:
  explicit Pair(const ConnectOptions& connect = {}, const QpOptions& options = {});

  Station& a;
  Station& b;
  ClientQp& qa;
  ClientQp& qb;
};

}  // namespace verbena::test
