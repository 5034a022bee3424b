#!/usr/bin/env python3
"""Runs a test program on a daemon of its own: verbena up, verbena run -- PROGRAM, verbena down.

  with_daemon.py [--build DIR] [--seconds N] [--up ARGUMENT]... [--expect REGEX] PROGRAM [ARG]...

Passes when the program exits with 0, its output matches the expression (by default: GoogleTest says
that at least one test passed), the daemon lived to the end, and no sanitizer had a finding.
"""

import argparse
import os
import re
import sys

from e2e_support import Daemon

GTEST_PASSED = r"\[  PASSED  \] [1-9]\d* tests?"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--up", action="append", default=[])
    parser.add_argument("--expect", default=GTEST_PASSED)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.command[0] = os.path.abspath(options.command[0])
    with Daemon(*options.up) as daemon:
        process = daemon.run_on(*options.command, seconds=options.seconds, check=False)
        print(process.stdout())
        print(process.stderr(), file=sys.stderr)
        if process.popen.returncode != 0:
            print(process.hang)
            print(f"exit status {process.popen.returncode}{daemon.log_end()}")
            return 1
        if not re.search(options.expect, process.stdout()):
            print(f"the output does not match '{options.expect}'")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
