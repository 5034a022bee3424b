#!/usr/bin/env python3
"""With 1 % of the packets dropped, duplicated, reordered and corrupted each, the data tests still
pass, and the counters say what happened."""

import sys

from e2e_support import Checks, Daemon, expect, program

FAULTS = "drop=0.01,dup=0.01,reorder=0.01,corrupt=0.01"
DATA_TEST = program("tests/e2e/data_test")
# What must be more than nothing after thousands of packets: recovery on both sides, by each cause.
EXPECTED = ("retransmitted_pkts", "duplicate_request", "out_of_sequence", "packet_seq_err",
            "local_ack_timeout_err", "drop_bad_icrc")


def main():
    checks = Checks()
    with Daemon("--fault", FAULTS) as daemon:
        with checks.check("the data tests pass on a faulty wire"):
            tests = daemon.run_on(DATA_TEST, "--gtest_filter=-HugeDataTest.*", seconds=900,
                                  check=False)
            expect(tests.popen.returncode == 0 and "[  PASSED  ]" in tests.stdout(),
                   "\n".join(line for line in tests.describe().splitlines()
                             if "       OK" not in line and "RUN" not in line))
        with checks.check("counters show what happened"):
            counters = daemon.counters()
            for name, value in sorted(counters.items()):
                if value:
                    print(f"       {name:32} {value}")
            missing = [name for name in EXPECTED if not counters.get(name)]
            expect(not missing, f"these are 0: {missing}")
            expect(counters["retransmitted_pkts"] < counters["sent_pkts"],
                   "more was sent again than sent")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
