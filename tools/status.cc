// verbena status: the daemon, its devices, and the programs that use them.
#include <fmt/format.h>

#include <optional>

#include "tools/admin.h"
#include "tools/commands.h"
#include "tools/status_text.h"

namespace verbena::tools {

void status(Context* context) {
  const RunDir dir = context->run_dir();
  const std::optional<AdminClient> daemon = AdminClient::connect(dir);
  if (!daemon) {
    context->status = 1;
    if (context->json) {
      fmt::print("{}\n", nlohmann::json{{"up", false}, {"dir", dir.path.string()}}.dump(2));
    } else {
      fmt::print("no daemon is up in {}; `verbena up{}` starts one\n", dir.path.string(),
                 dir.name_option());
    }
    return;
  }
  nlohmann::json answer = daemon->ask("status");
  if (context->json) {
    if (answer.is_object()) {
      answer["up"] = true;
      answer["dir"] = dir.path.string();
    }
    fmt::print("{}\n", answer.dump(2));
    return;
  }
  fmt::print("verbenad is up, as process {}, in {}\n\n{}", daemon->daemon_pid(), dir.path.string(),
             device_table(answer));
  if (const std::string wire = wire_text(answer); !wire.empty()) fmt::print("\n{}", wire);
  if (const std::string clients = client_table(answer); !clients.empty()) {
    fmt::print("\n{}", clients);
  }
}

}  // namespace verbena::tools
