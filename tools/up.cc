// verbena up: starts the daemon in the background and waits until it serves.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "tools/admin.h"
#include "tools/commands.h"
#include "tools/error.h"
#include "tools/launch.h"
#include "tools/status_text.h"

namespace verbena::tools {

void up(const Context& context, const DaemonOptions& options) {
  if (options.devices.size() == 1) {
    throw CommandError("a wire has two ends: --device is given twice or not at all",
                       "verbena up --device mlx5_0 --device mlx5_1");
  }
  const RunDir dir = context.run_dir();
  const auto begin = std::chrono::steady_clock::now();
  const Started started = start_daemon(dir, find_layout(), options);
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  const AdminClient daemon = AdminClient::connect_or_fail(dir);
  const nlohmann::json status = daemon.ask("status");
  if (context.json) {
    fmt::print("{}\n", status.dump(2));
    return;
  }
  if (started == Started::kWasUp) {
    fmt::print("verbenad is up already, as process {}:\n", daemon.daemon_pid());
  } else {
    fmt::print("verbenad is up, as process {}, after {} ms:\n", daemon.daemon_pid(),
               elapsed.count());
  }
  fmt::print("{}", device_table(status));
  fmt::print("Programs see these devices with: verbena run{} -- PROGRAM\n", dir.name_option());
}

}  // namespace verbena::tools
