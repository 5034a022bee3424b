#!/usr/bin/env python3
"""Captures of running programs hold what was on the wire: no malformed packet, every ICRC right by an
independent computation, and a comment on each packet that says what became of it. Traffic within one
device is captured too."""

import os
import shutil
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


def comments(path):
    """The comment of each packet."""
    answer = subprocess.run(["tshark", "-r", path, "-T", "fields", "-e", "frame.comment"],
                            capture_output=True, text=True, check=True, timeout=300)
    return answer.stdout.splitlines()


def captured(daemon, name, run):
    path = os.path.join(daemon.root, f"{name}.pcapng")
    daemon.verbena("capture", "start", path)
    run()
    daemon.verbena("capture", "stop")
    expect(os.path.getsize(path) > 1000, f"{path} has {os.path.getsize(path)} bytes")
    checked(path)
    return path


def every_packet_has_a_reason(path):
    unexplained = [text for text in comments(path) if not text or "not " in text]
    expect(not unexplained, f"{len(unexplained)} packets such as: {unexplained[:3]}")


# The case, the faults and what is found in comments then, as a whole.
STORIES = (
    ("ib_write_bw -n 20 -s 65536", "opcode=WRITE_MIDDLE nth=3 drop=1",
     ("request; wire: dropped", "NAK: a packet is missing; verbena1: sends again from PSN",
      "request sent again: after a sequence NAK; verbena0: expected PSN: executed")),
    ("ib_send_bw -n 20 -s 65536", "opcode=SEND_FIRST nth=2 dup=1",
     ("request; wire: delivered twice; verbena0: expected PSN: executed; "
      "verbena0: duplicate: acknowledged again, not executed", "ACK; verbena1: acknowledges up to")),
    ("ib_read_bw -n 20 -s 65536", "opcode=READ_RESPONSE nth=2 corrupt=1",
     ("READ response 2 of 16; wire: bit", "verbena1: dropped: ", "is missing: asks for it again",
      "request sent again: a READ response is missing; verbena0: duplicate: READ answered again")),
    ("ibv_ud_pingpong -g 0 -n 10", "opcode=UD_SEND nth=1 delay=1ms",
     ("request; wire: delayed by 1000 us; verbena0: datagram delivered",)),
)


def tell_stories(daemon, checks):
    for i, (case, fault, texts) in enumerate(STORIES):
        with checks.check(f"{case} with {fault}"):
            daemon.verbena("fault", "clear")
            daemon.verbena("fault", "wire", *fault.split())
            path = captured(daemon, f"story{i}", lambda case=case: run_pair(daemon, case, 60))
            told = "\n".join(comments(path))
            missing = [text for text in texts if text not in told]
            expect(not missing, f"no comment has {missing}; those after the fault:\n"
                   + told[max(told.find("wire:") - 200, 0):][:2000])


def pair_on(daemon, devices):
    process = daemon.run_on(PEERS, "pair", "0", "20", "10001",
                            env={"VERBENA_E2E_DEVICES": devices})
    expect("ok messages=" in process.stdout(), process.describe())


def main():
    checks = Checks()
    with Daemon() as daemon:
        for i, case in enumerate(RUNS):
            with checks.check(case):
                every_packet_has_a_reason(
                    captured(daemon, f"run{i}", lambda case=case: run_pair(daemon, case, 60)))
        with checks.check("traffic within one device"):
            captured(daemon, "loopback", lambda: pair_on(daemon, "verbena0,verbena0"))
        with checks.check("traffic between the devices"):
            captured(daemon, "pair", lambda: pair_on(daemon, "verbena0,verbena1"))
        if shutil.which("tshark"):
            tell_stories(daemon, checks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
