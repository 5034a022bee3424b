// Compiled once for all of the command line tool: the headers that cost most.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
