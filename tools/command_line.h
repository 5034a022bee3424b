// The command line of `verbena`: which subcommands and options there are.
#pragma once

#include <string>
#include <vector>

#include "tools/commands.h"

namespace verbena::tools {

// Parses the arguments (without the program's name) and runs the subcommand they name. Returns the
// exit status. Throws CommandError.
int run_command_line(std::vector<std::string> arguments, Context& context);

}  // namespace verbena::tools
