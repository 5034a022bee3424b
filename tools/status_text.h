// The daemon's `status` and `stat` answers as tables. Fields that are missing leave empty cells:
// daemon and command may be of different versions.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace verbena::tools {

[[nodiscard]] std::string device_table(const nlohmann::json& status);
[[nodiscard]] std::string client_table(const nlohmann::json& status);

// The rules for faults of the wire and what they did; nothing when there are none.
[[nodiscard]] std::string fault_table(const nlohmann::json& faults);

// What the wire does wrong and which capture is on, a line each; nothing when neither.
[[nodiscard]] std::string wire_text(const nlohmann::json& status);

// A member's value as text: strings as they are, numbers and truth values printed, others "".
[[nodiscard]] std::string field(const nlohmann::json& object, const std::string& key);

// The array at `key`, or an empty one.
[[nodiscard]] nlohmann::json list(const nlohmann::json& object, const std::string& key);

// Counter values by name, of one device of a `stat` answer.
using Counters = std::map<std::string, uint64_t>;
[[nodiscard]] Counters counters_of(const nlohmann::json& device);

}  // namespace verbena::tools
