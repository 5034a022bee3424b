// Closing what a client chose can take as long as it likes: a file of a FUSE server that does not
// answer, a terminal that is not read. A socket has such descriptors too, in messages not received.
#pragma once

namespace verbena {

// Closes on a thread of its own, in order. Any thread; never waits. The thread starts with the
// first call and ends with the process. Where none can be started, closes at once.
void close_later(int fd) noexcept;

}  // namespace verbena
