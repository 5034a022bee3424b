// verbena capture: the packets of all devices into a pcapng file, while it runs.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "tools/admin.h"
#include "tools/commands.h"
#include "tools/error.h"
#include "tools/status_text.h"

namespace verbena::tools {

namespace {

void answer(const Context& context, const nlohmann::json& json, const std::string& text) {
  if (context.json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}\n", text);
  }
}

}  // namespace

void start_capture(const Context& context, const std::string& file) {
  // The daemon's working directory is another one.
  const std::filesystem::path path = std::filesystem::absolute(file).lexically_normal();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw CommandError(fmt::format("{} is a directory", path.string()),
                       fmt::format("verbena capture start {}", (path / "wire.pcapng").string()));
  }
  if (!std::filesystem::is_directory(path.parent_path(), error)) {
    throw CommandError(fmt::format("{} is not a directory", path.parent_path().string()),
                       fmt::format("mkdir -p {}", path.parent_path().string()));
  }
  const AdminClient daemon = AdminClient::connect_or_fail(context.run_dir());
  const nlohmann::json json = daemon.ask("capture start " + path.string());
  answer(context, json,
         fmt::format("capturing into {}; `verbena capture stop` ends it", path.string()));
}

void stop_capture(const Context& context) {
  const AdminClient daemon = AdminClient::connect_or_fail(context.run_dir());
  const nlohmann::json json = daemon.ask("capture stop");
  const std::string file = field(json, "file");
  const std::string packets = field(json, "packets");
  if (const std::string problem = field(json, "write_error"); !problem.empty()) {
    throw CommandError(fmt::format("{}: {}", file, problem), "df -h, for the room on that disk");
  }
  answer(context, json,
         fmt::format("the capture has ended{}{}", packets.empty() ? "" : ", packets: " + packets,
                     file.empty() ? "" : fmt::format("; read it with: tshark -r {}", file)));
}

}  // namespace verbena::tools
