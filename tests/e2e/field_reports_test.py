#!/usr/bin/env python3
"""Checks from docs/field-reports.md: what users of other software adapters ran into, tried here with
the distribution's programs.

  field_reports_test.py [--build DIR] [--long] [--only REGEX] [--seconds N]

Each check is named by the number of its report. --long adds those that take minutes; --seconds is
how long the storm of report 12 lasts.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import time

from e2e_support import Checks, Daemon, expect, free_port, is_listening, program, wait_until
from tools_matrix import run_pair

PEERS = program("tests/e2e/verbs_peers")
ERRORS_TEST = program("tests/e2e/errors_test")
DATA_TEST = program("tests/e2e/data_test")
SYSTEM_PYTHON = "/usr/bin/python3"  # that of python3-pyverbs
CHECKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support/check_capture.py")
GIB = 1 << 30
TIMEOUT_17 = 4.096e-6 * 2**17  # seconds

REGISTER = f"""
import resource
import pyverbs.device as d
from pyverbs.pd import PD
from pyverbs.mr import MR
assert resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == 65536
with d.Context(name="verbena0") as context, PD(context) as pd, MR(pd, {GIB}, 7) as mr:
    mr.write("end", 3, {GIB} - 3)
    print("registered", mr.length, mr.read(3, {GIB} - 3))
"""


def opcodes_of(daemon, case):
    """Captures a pair of programs; how many packets of each opcode they sent. Every packet's ICRC is
    computed anew on the way."""
    path = f"{daemon.root}/segments.pcapng"
    daemon.verbena("capture", "start", path)
    run_pair(daemon, case, 60)
    daemon.verbena("capture", "stop")
    answer = subprocess.run([sys.executable, CHECKER, "--json", "--no-tshark", path],
                            capture_output=True, text=True, check=False, timeout=60)
    expect(answer.returncode == 0, f"{case}: {answer.stdout}{answer.stderr}")
    return collections.Counter(json.loads(answer.stdout)[0]["opcodes"])


def check_segments(daemon, tool, verb, mtu, size):
    case = f"{tool} -m {mtu} -s {size} -n 5"
    sent_again = daemon.counters()["retransmitted_pkts"]
    count = opcodes_of(daemon, case)
    if daemon.counters()["retransmitted_pkts"] != sent_again:
        return check_segments(daemon, tool, verb, mtu, size)  # a starved processor: once more
    first, middle, last, only = (count[f"RC {verb} {part}"]
                                 for part in ("First", "Middle", "Last", "Only"))
    packets = max(1, -(-size // mtu))
    messages = only if packets == 1 else first
    expect(messages >= 5, f"{case}: {count}")
    expected = (0, 0, 0, messages) if packets == 1 else (messages, messages * (packets - 2),
                                                         messages, 0)
    return expect((first, middle, last, only) == expected, f"{case}: {count}, not {expected}")


def check_segmentation(daemon, mtus, multiples):
    """Report 3: sizes around multiples of the path MTU; First, Middle and Last as many as they must
    be."""
    for mtu in mtus:
        for size in [k * mtu + d for k in multiples for d in (-1, 0, 1)]:
            for tool, verb in (("ib_send_lat", "SEND"), ("ib_write_lat", "WRITE"),
                               ("ib_read_lat", "READ Response")):
                check_segments(daemon, tool, verb, mtu, size)


def check_locked_memory(daemon):
    """Report 16: nothing is pinned, so a small limit of locked memory stops nobody."""
    answer = daemon.run_on("prlimit", "--memlock=65536", SYSTEM_PYTHON, "-c", REGISTER)
    expect(f"registered {GIB} b'end'" in answer.stdout(), answer.describe())


def check_locked_transfer(daemon):
    daemon.run_on("prlimit", "--memlock=65536", DATA_TEST, "--gtest_filter=HugeDataTest.*",
                  seconds=600)


def check_own_address(daemon):
    """Report 20: both ends of a pingpong on one device, through its own address."""
    for tool in ("rc", "ud", "srq"):
        command = [f"ibv_{tool}_pingpong", "-g", "0", "-d", "verbena0", "-n", "100"]
        port = free_port()
        server = daemon.start_on(*command, "-p", str(port))
        try:
            wait_until(lambda: is_listening(port) or server.popen.poll() is not None, 20,
                       f"{server.describe()} listening")
            daemon.run_on(*command, "-p", str(port), "localhost")
            expect(server.wait(20) == 0, server.describe())
        finally:
            server.kill()


def doctor(daemon, device):
    findings = json.loads(daemon.verbena("doctor", "--json").stdout())["checks"]
    return [finding for finding in findings if finding["check"] == device]


def expect_diagnosis(daemon, *words):
    findings = doctor(daemon, "verbena0")
    expect(len(findings) == 1 and findings[0]["level"] == "warn", f"doctor says {findings}")
    for word in words:
        expect(word in findings[0]["text"] + findings[0]["help"], f"no '{word}' in {findings}")


def check_diagnosis():
    """Reports 17 and 20: a peer that nothing reaches. The completion says how it ended; `doctor` says
    why."""
    with Daemon() as daemon:
        healthy = doctor(daemon, "traffic")
        expect(healthy and healthy[0]["level"] == "ok", f"before: {healthy}")
        daemon.verbena("fault", "wire", "drop=1")
        pair = daemon.run_on(PEERS, "pair", "0", "1", "1000", check=False)
        expect("transport retry counter exceeded" in pair.stdout(), pair.describe())
        expect_diagnosis(daemon, "sent, nothing received from the peer",
                         "dropped by the wire's faults", "verbena fault show")
    with Daemon() as daemon:
        daemon.run_on(ERRORS_TEST, "--gtest_filter=DeadPeerTest.DestroyedQueuePair")
        expect_diagnosis(daemon, "1 queue pair gave up", "does not exist, or no longer (verbena1)",
                         "QP numbers")


class Bandwidth:
    """ib_write_bw for some seconds, with a timeout of 0.54 s that outlives a silence of 2 s."""

    def __init__(self, daemon, seconds):
        port = free_port()
        command = ["ib_write_bw", "-F", "-u", "17", "-D", str(seconds), "-p", str(port)]
        self.server = daemon.start_on(*command, "-d", "verbena0")
        wait_until(lambda: is_listening(port), 20, self.server.describe())
        self.client = daemon.start_on(*command, "-d", "verbena1", "127.0.0.1")

    def finish(self):
        for process in (self.client, self.server):
            expect(process.wait(60) == 0, process.describe())

    def kill(self):
        self.client.kill()
        self.server.kill()


def sample_until(daemon, end):
    """How long the polling thread took for each of many answers, in seconds."""
    samples = []
    while time.monotonic() < end:
        begin = time.monotonic()
        daemon.counters()
        samples.append(time.monotonic() - begin)
        time.sleep(0.2)
    return samples


def check_storm(seconds):
    """Report 12: two clients, 5 % loss both ways, 2 s of silence in the middle."""
    with Daemon("--fault", "drop=5%") as daemon:
        clients = [Bandwidth(daemon, seconds) for _ in range(2)]
        # Traffic within a device meets no faults: it shows whether others suffer.
        bystander = daemon.start_on(PEERS, "pair", str(seconds + 2), "1", "10001",
                                    env={"VERBENA_E2E_DEVICES": "verbena0,verbena0"})
        try:
            samples = watch_storm(daemon, seconds)
            for client in clients:
                client.finish()
            expect(bystander.wait(60) == 0, bystander.describe())
        finally:
            for victim in (*clients, bystander):
                victim.kill()
        print("       " + bystander.stdout().strip().splitlines()[-1])
        slowest = max(samples)
        print(f"       slowest of {len(samples)} answers of the polling thread: "
              f"{slowest * 1000:.0f} ms")
        expect(slowest < 2, "the daemon did not answer")
        counters = daemon.counters()
        causes = {name: counters[name] for name in
                  ("retransmitted_pkts", "packet_seq_err", "implied_nak_seq_err",
                   "local_ack_timeout_err", "retry_exceeded_err")}
        print(f"       {causes}")
        expect(causes["retransmitted_pkts"] and causes["packet_seq_err"] and
               causes["local_ack_timeout_err"], "resends without a counted cause")
        expect(not causes["retry_exceeded_err"], "a queue pair gave up")


def answers_received(daemon):
    """By the clients' device, which the bystander does not use."""
    devices = json.loads(daemon.verbena("--json", "stat").stdout())["devices"]
    return next(device["counters"]["rcvd_pkts"] for device in devices
                if device["name"] == "verbena1")


def watch_storm(daemon, seconds):
    """Asks the daemon all through the storm; prints how soon bytes flowed after the silence."""
    begin = time.monotonic()
    samples = sample_until(daemon, begin + seconds / 2)
    # Only the wire: the bystander goes on.
    daemon.verbena("fault", "wire", "drop=1")
    time.sleep(2)
    silent = answers_received(daemon)
    daemon.verbena("fault", "wire", "drop=5%")
    resumed = wait_until(lambda: answers_received(daemon) > silent + 50, 10,
                         "traffic after the silence")
    print(f"       50 answers had come {resumed:.2f} s after the silence")
    expect(resumed < 4 * TIMEOUT_17, "longer than a timeout may take (IBTA: up to four times)")
    return samples + sample_until(daemon, begin + seconds)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=int, default=300)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    checks = Checks()

    def check(name, body):
        if re.search(arguments.only, name):
            with checks.check(name):
                body()

    mtus, multiples = ((256, 512, 1024, 2048, 4096), (1, 2, 17)) if arguments.long else ((1024,), (1,))
    with Daemon() as daemon:
        check("3: segments at the path MTU", lambda: check_segmentation(daemon, mtus, multiples))
        check("16: 1 GiB where 64 KiB may be locked", lambda: check_locked_memory(daemon))
        check("20: a device speaks with itself", lambda: check_own_address(daemon))
        if arguments.long:
            check("16: 1 GiB transferred", lambda: check_locked_transfer(daemon))
    check("17, 20: why nothing arrives", check_diagnosis)
    if arguments.long:
        check("12: a storm of losses", lambda: check_storm(arguments.seconds))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
