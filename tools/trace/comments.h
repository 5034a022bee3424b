// Comments on the packets of a pcapng file, which libpcap passes over.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace verbena::trace {

// One for each packet from the file's beginning, empty where it has none; of several on one packet,
// the first. Ends before the first block that is not whole. Nothing for files that are no pcapng or
// have no place to go back to (pipes). Leaves `file` at its beginning.
std::vector<std::string> read_comments(std::FILE* file);

}  // namespace verbena::trace
