#!/usr/bin/env python3
"""Captures of running programs hold what was on the wire: no malformed packet, every ICRC right by an
independent computation. Traffic within one device is captured too."""

import os
import subprocess
import sys

from e2e_support import Checks, Daemon, expect, program
from tools_matrix import run_pair

PEERS = program("tests/e2e/verbs_peers")
CHECKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support/check_capture.py")

RUNS = (
    "ibv_rc_pingpong -g 0 -n 100",
    "ibv_rc_pingpong -g 0 -s 1 -n 100",
    "ib_write_bw -n 20 -s 65536",
    "ib_read_bw -n 20 -s 4097 -m 1024",
    "ib_send_bw -n 20 -s 3001 -m 512",
    "ib_send_bw -n 20 -s 8",
    "ib_send_lat -n 50",
)


def checked(path):
    answer = subprocess.run([sys.executable, CHECKER, path], capture_output=True, text=True,
                            check=False, timeout=300)
    print("       " + answer.stdout.strip().replace("\n", "\n       "))
    expect(answer.returncode == 0, f"{answer.stdout}{answer.stderr}")


def captured(daemon, name, run):
    path = os.path.join(daemon.root, f"{name}.pcapng")
    daemon.verbena("capture", "start", path)
    run()
    daemon.verbena("capture", "stop")
    expect(os.path.getsize(path) > 1000, f"{path} has {os.path.getsize(path)} bytes")
    checked(path)


def pair_on(daemon, devices):
    process = daemon.run_on(PEERS, "pair", "0", "20", "10001",
                            env={"VERBENA_E2E_DEVICES": devices})
    expect("ok messages=" in process.stdout(), process.describe())


def main():
    checks = Checks()
    with Daemon() as daemon:
        for i, case in enumerate(RUNS):
            with checks.check(case):
                captured(daemon, f"run{i}", lambda case=case: run_pair(daemon, case, 60))
        with checks.check("traffic within one device"):
            captured(daemon, "loopback", lambda: pair_on(daemon, "verbena0,verbena0"))
        with checks.check("traffic between the devices"):
            captured(daemon, "pair", lambda: pair_on(daemon, "verbena0,verbena1"))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
