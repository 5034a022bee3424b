#!/usr/bin/env python3
"""The data path makes no system call per message: the calls of an ib_write_bw client, counted by
strace, do not grow with the number of its messages. Two kinds grow with time instead: sched_yield
of an empty poll, and the look for the daemon's death that an empty poll takes every 10 ms."""

import os
import re
import sys
import time

from e2e_support import Checks, Daemon, expect, free_port, is_listening, wait_until

TOOL = "ib_write_bw"
FEW, MANY = 1000, 20_000
# Of all calls but sched_yield, for MANY - FEW more messages: where others want the processors the
# polling thread is woken now and then, once in a hundred messages.
MAX_GROWTH = 500
MAX_PER_SECOND = 110   # ... and for each second that they take longer


def count_calls(daemon, tool, messages):
    """Calls by name of a client that sends this many messages, and the seconds it took."""
    port = free_port()
    report = os.path.join(daemon.root, f"strace-{tool}-{messages}")
    command = [tool, "-F", "-n", str(messages), "-s", "4096", "-p", str(port)]
    server = daemon.start_on(*command, "-d", "verbena0")
    try:
        wait_until(lambda: is_listening(port), 20, "the server listening")
        start = time.monotonic()
        client = daemon.run_on("strace", "-f", "-c", "-o", report, *command, "-d", "verbena1",
                               "127.0.0.1")
        seconds = time.monotonic() - start
        expect(re.search(rf"^\s*4096\s+{messages}\s", client.stdout(), re.MULTILINE),
               client.describe())
        expect(server.wait(10) == 0, server.describe())
    finally:
        server.kill()
    calls = {}
    with open(report, encoding="ascii") as lines:
        for line in lines:
            match = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", line)
            if match and match[2] != "total":
                calls[match[2]] = int(match[1])
    expect(calls, f"no calls counted in {report}")
    return calls, seconds


def main():
    checks = Checks()
    with Daemon() as daemon:
        for tool in (TOOL, "ib_send_bw"):
            with checks.check(f"{tool}: no system call per message"):
                few, few_seconds = count_calls(daemon, tool, FEW)
                many, many_seconds = count_calls(daemon, tool, MANY)
                grown = {name: (few.get(name, 0), count) for name, count in many.items()
                         if count > few.get(name, 0)}
                print(f"       calls with {FEW} messages and with {MANY}, where more: {grown}")
                growth = sum(after - before for name, (before, after) in grown.items()
                             if name != "sched_yield")
                limit = MAX_GROWTH + MAX_PER_SECOND * max(0.0, many_seconds - few_seconds)
                expect(growth <= limit, f"{growth} more calls for {MANY - FEW} more messages")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
