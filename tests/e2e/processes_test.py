#!/usr/bin/env python3
"""Processes that share the devices, and their deaths: two on one device, two on two devices, 64 at
once; kill -9 of a client, of a client that has forked, and of the daemon."""

import os
import signal
import statistics
import sys
import time

from e2e_support import Checks, Daemon, expect, is_sanitised, program, wait_until

PEERS = program("tests/e2e/verbs_peers")
CLEANUP_SECONDS = 1.0   # within which the objects of a dead client must be gone
FLUSH_SECONDS = 0.050   # within which a polling client must see flushed completions: the median
SLOWEST_SECONDS = 1.0   # of TRIES times; the slowest may have waited for a processor
TRIES = 5               # of the killing of the daemon, each with all kinds of waiting clients


def start_pair(daemon, seconds, messages, size, devices="verbena0,verbena1"):
    return daemon.start_on(PEERS, "pair", str(seconds), str(messages), str(size),
                           env={"VERBENA_E2E_DEVICES": devices})


def finish_pair(pair, seconds=120):
    status = pair.wait(seconds)
    expect(status == 0 and "ok messages=" in pair.stdout(), pair.describe())


def pair_pids(pair):
    match = pair.wait_line(r"^ready requester=(\d+) responder=(\d+)", 30)
    return int(match[1]), int(match[2])


def client_pids(daemon):
    return {client["pid"] for client in daemon.clients()}


def objects(daemon, pid):
    return sum(client[kind] for client in daemon.clients() if client["pid"] == pid
               for kind in ("pds", "mrs", "cqs", "qps"))


def check_pairs(checks, daemon):
    with checks.check("two processes on two devices"):
        finish_pair(start_pair(daemon, 1, 200, 100_001))
    with checks.check("two processes on one device"):
        finish_pair(start_pair(daemon, 1, 200, 100_001, "verbena0,verbena0"))
    with checks.check("64 processes at once"):
        pairs = [start_pair(daemon, 2, 20, 10_000 + i,
                            "verbena1,verbena1" if i % 4 == 0 else "verbena0,verbena1")
                 for i in range(32)]
        try:
            pids = {pid for pair in pairs for pid in pair_pids(pair)}
            expect(len(pids) == 64, f"{len(pids)} processes instead of 64")
            for pair in pairs:
                finish_pair(pair)
        finally:
            for pair in pairs:
                pair.kill()
    with checks.check("nothing is left of processes that ended by themselves"):
        wait_until(lambda: not daemon.clients(), CLEANUP_SECONDS, "an empty list of clients")


def check_killed_client(checks, daemon, victim_is_requester):
    side = "requester" if victim_is_requester else "responder"
    with checks.check(f"kill -9 of a {side} in mid-transfer"):
        survivors = start_pair(daemon, 3, 100, 200_003)
        broken = start_pair(daemon, 60, 1, 1_000_003)
        try:
            pair_pids(survivors)
            requester, responder = pair_pids(broken)
            time.sleep(0.3)
            victim, other = (requester, responder) if victim_is_requester else (responder, requester)
            expect(objects(daemon, victim) >= 6, f"status does not show {victim}: "
                                                 f"{daemon.clients()}")
            os.kill(victim, signal.SIGKILL)
            took = wait_until(lambda: victim not in client_pids(daemon), CLEANUP_SECONDS,
                              "the victim's objects gone")
            print(f"       the victim's objects were gone after {took * 1000:.0f} ms")
            if not victim_is_requester:
                # Nobody answers any more: the requester's retries run out.
                broken.wait_line(r"^broken: transport retry counter exceeded", 30, by_child=True)
                wait_until(lambda: other not in client_pids(daemon), 10, "the requester's end")
            finish_pair(survivors)
        finally:
            broken.kill()
            survivors.kill()
        wait_until(lambda: not daemon.clients(), 5, "an empty list of clients")


def check_orphan(checks, daemon):
    with checks.check("kill -9 of a client that has forked"):
        orphan = daemon.start_on(PEERS, "orphan")
        try:
            match = orphan.wait_line(r"^ready parent=(\d+) child=(\d+)", 30)
            parent, child = int(match[1]), int(match[2])
            expect(objects(daemon, parent) >= 5, f"status does not show {parent}")
            os.kill(parent, signal.SIGKILL)
            took = wait_until(lambda: not daemon.clients(), CLEANUP_SECONDS,
                              "the parent's objects gone")
            os.kill(child, 0)  # still there, with all descriptors
            print(f"       gone after {took * 1000:.0f} ms, with the child alive")
        finally:
            orphan.kill()


def check_killed_daemon(checks):
    """Clients that poll, that wait for a completion event and for an async event."""
    # A sanitizer's shadow memory makes the end of a process itself take long.
    limit = SLOWEST_SECONDS if is_sanitised(program("dpdk/verbenad")) else FLUSH_SECONDS
    times = []
    with Daemon(expect_crash=True) as daemon:
        for attempt in range(TRIES):
            with checks.check(f"kill -9 of the daemon, time {attempt + 1}"):
                times.append(kill_daemon_once(daemon))
            with checks.check(f"up again after kill -9, time {attempt + 1}"):
                daemon.up()
                finish_pair(start_pair(daemon, 0, 20, 50_000))
    with checks.check(f"a polling client sees flushed completions within {limit * 1000:.0f} ms"):
        expect(len(times) == TRIES and statistics.median(times) <= limit, f"{times}")


def kill_daemon_once(daemon):
    """Returns after how many seconds the polling client had its flushed completions."""
    watchers = {what: daemon.start_on(PEERS, "watch", what)
                for what in ("poll", "cq-event", "async-event")}
    pair = start_pair(daemon, 60, 1, 100_000)
    try:
        for watcher in watchers.values():
            watcher.wait_line(r"^ready watcher=\d+", 30)
        pair_pids(pair)
        time.sleep(0.2)
        killed_at = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        os.kill(daemon.pid, signal.SIGKILL)
        flushed = watchers["poll"].wait_line(r"^flushed at=(\d+) count=21", 10)
        took = (int(flushed[1]) - killed_at) / 1e9
        print(f"       flushed completions after {took * 1000:.1f} ms")
        expect(watchers["poll"].wait(10) == 0, watchers["poll"].describe())
        expect(took <= SLOWEST_SECONDS, f"flushed after {took * 1000:.1f} ms")
        for what in ("cq-event", "async-event"):
            returned = watchers[what].wait_line(r"^returned at=(\d+) result=(-?\d+)(.*)", 10)
            print(f"       {what}: {returned[0]}, "
                  f"{(int(returned[1]) - killed_at) / 1e6:.1f} ms after the kill")
            expect(watchers[what].wait(10) == 0, watchers[what].describe())
            expect(returned[2] != "0" or "device fatal" in returned[3].lower()
                   or "catastrophic" in returned[3], returned[0])
        # The pair that was transferring ends by itself too.
        expect(pair.wait(10) == 3 and "broken: " in pair.stdout(), pair.describe())
        return took
    finally:
        pair.kill()
        for watcher in watchers.values():
            watcher.kill()


def main():
    checks = Checks()
    with Daemon() as daemon:
        check_pairs(checks, daemon)
        check_killed_client(checks, daemon, victim_is_requester=True)
        check_killed_client(checks, daemon, victim_is_requester=False)
        check_orphan(checks, daemon)
    check_killed_daemon(checks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
