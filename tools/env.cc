// verbena env: the environment of `verbena run`, for a whole shell.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/admin.h"
#include "tools/commands.h"
#include "tools/layout.h"
#include "tools/program_environment.h"

namespace verbena::tools {

namespace {

// Nothing is special to the shell between single quotes but the single quote.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

}  // namespace

void env(const Context& context, const std::string& device) {
  const RunDir dir = context.run_dir();
  const Layout layout = find_layout();
  check_for_programs(layout);
  const bool up = AdminClient::connect(dir).has_value();
  if (!up) {
    fmt::print(stderr, "verbena: note: no daemon is up yet; `verbena up{}` starts it\n",
               dir.name_option());
  }
  if (up && !device.empty()) check_device_name(dir, device);
  const std::vector<Setting> settings = program_environment(dir, layout, device);
  if (context.json) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [variable, value] : settings) object[variable] = value;
    fmt::print("{}\n", object.dump(2));
    return;
  }
  for (const auto& [variable, value] : settings) {
    fmt::print("export {}={}\n", variable, quoted(value));
  }
}

}  // namespace verbena::tools
