// DPDK's environment layer, started small: no hugepages, PCI, shared configuration or telemetry; as
// an ordinary user.
#pragma once

#include <string>

namespace verbena {

class Eal {
 public:
  // The calling thread becomes EAL's main lcore, free to run on all CPUs that the process may use.
  // Throws std::runtime_error. `dir` is the instance directory: EAL's messages go to its log file.
  explicit Eal(const std::string& dir);
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;
};

}  // namespace verbena
