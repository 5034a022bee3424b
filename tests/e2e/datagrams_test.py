#!/usr/bin/env python3
"""Datagrams that a receiver must not take are dropped and counted, each under its reason."""

import sys

from e2e_support import Checks, Daemon, expect, program

REASONS = {
    "UdTest.AWrongQkeyIsDropped": "drop_bad_qkey",
    "UdTest.WithoutAReceiveADatagramIsDropped": "drop_no_receive",
}


def main():
    checks = Checks()
    with Daemon() as daemon:
        for test, counter in REASONS.items():
            with checks.check(counter):
                before = daemon.counters()
                daemon.run_on(program("tests/e2e/srq_ud_test"), f"--gtest_filter={test}")
                after = daemon.counters()
                changed = {name: after[name] - before[name] for name in after
                           if name.startswith("drop_") and after[name] != before[name]}
                expect(changed == {counter: 1}, f"drops: {changed}")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
