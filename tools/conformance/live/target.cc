#include "tools/conformance/live/target.h"

#include <fmt/format.h>

#include "tools/conformance/live/agent.h"
#include "tools/conformance/live/player.h"
#include "tools/conformance/script.h"

namespace verbena::conformance::live {

Target::Target(const TargetOptions& options)
    : options_(options), wire_(options.address, options.interface) {
  if (options_.control.empty()) options_.control = options_.address;
  const Agent probe(options_.control, options_.port);
}

std::optional<std::string> Target::unsuitable(const Case& c) const {
  return live::unsuitable(c, wire_.target());
}

CaseResult Target::run(const Case& c, const trace::Capture& capture) {
  const Script script = make_script(c, capture);
  // A connection for each case: its end frees all that the case had.
  Agent agent(options_.control, options_.port);
  Player player(c, capture, script, wire_, agent);
  CaseResult result;
  try {
    result = player.play();
  } catch (const AgentError& error) {
    result.wrong.emplace_back(error.what());
  } catch (const nlohmann::json::exception& error) {
    result.wrong.push_back(
        fmt::format("the target's agent answers what none of ours would: {}", error.what()));
  }
  answered_ = answered_ || player.answered();
  return result;
}

}  // namespace verbena::conformance::live
