// verbena fault: what the wire does wrong, changed while the daemon runs.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tools/admin.h"
#include "tools/commands.h"
#include "tools/status_text.h"

namespace verbena::tools {

namespace {

nlohmann::json ask(const Context& context, std::string_view question,
                   const std::vector<std::string>& words) {
  const AdminClient daemon = AdminClient::connect_or_fail(context.run_dir());
  return daemon.ask(words.empty() ? std::string(question)
                                  : fmt::format("{} {}", question, fmt::join(words, " ")));
}

void print(const Context& context, const nlohmann::json& answer) {
  if (context.json) {
    fmt::print("{}\n", answer.dump(2));
  } else {
    const std::string table = fault_table(answer);
    fmt::print("{}", table.empty() ? "the wire has no faults\n" : table);
  }
}

}  // namespace

void set_fault(const Context& context, const std::vector<std::string>& rule) {
  print(context, ask(context, "fault wire", rule));
}

void show_faults(const Context& context) {
  print(context, ask(context, "fault show", {}));
}

void clear_faults(const Context& context, const std::vector<std::string>& selector) {
  print(context, ask(context, "fault clear", selector));
}

}  // namespace verbena::tools
