#!/usr/bin/env python3
"""A faulty wire loses no data: with 1 % of the packets dropped, duplicated, reordered and corrupted
each, and with rules for worse that are set, shown and cleared while programs run. A wire that drops
all ends the connection."""

import json
import sys

from e2e_support import Checks, Daemon, expect, free_port, is_listening, program, wait_until
from tools_matrix import CLIENT_DEVICE, SERVER_DEVICE, run_pair

FAULTS = "drop=0.01,dup=0.01,reorder=0.01,corrupt=0.01"
HARD = "drop=10% dup=10% reorder=10% reorder-by=64 corrupt=1%".split()
DATA_TEST = program("tests/e2e/data_test")
# What must be more than nothing after thousands of packets: recovery on both sides, by each cause.
EXPECTED = ("retransmitted_pkts", "duplicate_request", "out_of_sequence", "packet_seq_err",
            "local_ack_timeout_err", "drop_bad_icrc")
HARD_DATA_TESTS = ("*EveryPieceCountUpToSixteen/Classic", "*EveryFourthSignalled/Extended",
                   "*ManyQueuePairsShareACompletionQueue")
HARD_TOOLS = ("ib_send_bw -c RC -n 50", "ib_write_bw -n 50", "ib_read_bw -n 50")


def run_data_tests(daemon, tests):
    run = daemon.run_on(DATA_TEST, f"--gtest_filter={tests}", seconds=900, check=False)
    expect(run.popen.returncode == 0 and "[  PASSED  ]" in run.stdout(),
           "\n".join(line for line in run.describe().splitlines()
                     if "       OK" not in line and "RUN" not in line))


def rules(daemon, *words):
    """The rules after `verbena fault WORDS`, by what they say."""
    answer = json.loads(daemon.verbena("--json", "fault", *words).stdout())
    return {rule["rule"]: rule for rule in answer["rules"]}


def counters_say_what_happened(daemon):
    counters = daemon.counters()
    for name, value in sorted(counters.items()):
        if value:
            print(f"       {name:32} {value}")
    missing = [name for name in EXPECTED if not counters.get(name)]
    expect(not missing, f"these are 0: {missing}")
    expect(counters["retransmitted_pkts"] < counters["sent_pkts"], "more was sent again than sent")


def rules_change_under_load(daemon):
    """Each rule comes to a wire that carries packets, is seen to act, and goes again."""
    rules(daemon, "clear")
    port = free_port()
    bandwidth = ("ib_write_bw", "-F", "--run_infinitely", "-p", str(port))
    server = daemon.start_on(*bandwidth, "-d", SERVER_DEVICE)
    client = None
    try:
        wait_until(lambda: is_listening(port), 20, f"{server.describe()} listening")
        client = daemon.start_on(*bandwidth, "-d", CLIENT_DEVICE, "127.0.0.1")
        for words, done in ((f"from={SERVER_DEVICE} opcode=ACK nth=2 drop=100%", "dropped"),
                            ("opcode=WRITE_MIDDLE dup=5%", "duplicated"),
                            ("reorder=5% reorder-by=64", "reordered"),
                            ("corrupt=1%", "corrupted"),
                            ("delay=10us", "delayed")):
            expect(rules(daemon, "wire", *words.split()).keys() == {words}, f"not alone: {words}")
            wait_until(lambda words=words, done=done: rules(daemon, "show")[words][done] != 0, 20,
                       f"'{words}' {done} a packet")
            expect(not rules(daemon, "clear"), "a rule is left")
            for process in (server, client):
                expect(process.popen.poll() is None, process.describe())
    finally:
        server.kill()
        if client:
            client.kill()


def dead_wire_ends_the_connection(daemon):
    """The client gets IBV_WC_RETRY_EXC_ERR, number 12."""
    rules(daemon, "wire", "drop=100%")
    port = free_port()
    pingpong = ("ibv_rc_pingpong", "-g", "0", "-p", str(port))
    server = daemon.start_on(*pingpong, "-d", SERVER_DEVICE)
    try:
        wait_until(lambda: is_listening(port), 20, f"{server.describe()} listening")
        client = daemon.run_on(*pingpong, "-d", CLIENT_DEVICE, "127.0.0.1", check=False)
        expect("transport retry counter exceeded (12)" in client.stderr(), client.describe())
    finally:
        server.kill()


def main():
    checks = Checks()
    with Daemon("--fault", FAULTS) as daemon:
        with checks.check("the data tests pass on a faulty wire"):
            run_data_tests(daemon, "-HugeDataTest.*")
        with checks.check("counters show what happened"):
            counters_say_what_happened(daemon)
        with checks.check("rules change while a program runs"):
            rules_change_under_load(daemon)
        rules(daemon, "wire", *HARD)
        for case in HARD_TOOLS:
            with checks.check(f"{case} on a wire with {' '.join(HARD)}"):
                run_pair(daemon, case, 120)
        with checks.check("data arrives on that wire"):
            run_data_tests(daemon, ":".join(HARD_DATA_TESTS))
        with checks.check("a wire that drops all ends the connection"):
            dead_wire_ends_the_connection(daemon)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
