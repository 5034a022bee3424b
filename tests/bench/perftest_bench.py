#!/usr/bin/env python3
"""perftest's figures beside the machine's own limit, measured in the same run, and start-up times.

  perftest_bench.py [--build DIR] [--json] [--poll]

The limit is copy and CRC of 4 KiB packets at both ends on one core (copy_crc_limit.cc).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from e2e_support import Daemon, free_port, is_listening, program, wait_until  # noqa: E402

WRITE_SIZES = ((8, 200_000), (4096, 100_000), (65536, 20_000), (1 << 20, 2000))
LATENCY_TOOLS = ("ib_read_lat", "ib_send_lat")
REPEATS = 3          # of each measurement; the best counts
START_REPEATS = 15   # of each start-up time; the median counts


def measure(daemon, tool, size, iterations):
    """The numbers of perftest's result line."""
    port = free_port()
    command = [tool, "-F", "-s", str(size), "-n", str(iterations), "-p", str(port), "-m", "4096"]
    if tool.endswith("_bw"):
        command += ["--report_gbits", "-N"]
    server = daemon.start_on(*command, "-d", "verbena0")
    try:
        wait_until(lambda: is_listening(port), 20, "the server listening")
        client = daemon.run_on(*command, "-d", "verbena1", "127.0.0.1", seconds=120)
        server.wait(10)
    finally:
        server.kill()
    for line in client.stdout().splitlines():
        words = line.split()
        if words and words[0] == str(size):
            return [float(word) for word in words]
    raise AssertionError(client.describe())


def bandwidth(daemon, size, iterations):
    """(GB/s, million messages per second), the best of some runs."""
    rows = [measure(daemon, "ib_write_bw", size, iterations) for _ in range(REPEATS)]
    best = max(rows, key=lambda row: row[3])
    return best[3] / 8, best[4]


def latency(daemon, tool):
    """(typical, 99 %) in microseconds, of the best of some runs."""
    rows = [measure(daemon, tool, 8, 5000) for _ in range(REPEATS)]
    best = min(rows, key=lambda row: row[4])
    return best[4], best[7]


def milliseconds(command, env):
    times = []
    for _ in range(START_REPEATS):
        start = time.monotonic()
        subprocess.run(command, env=env, capture_output=True, check=False, timeout=30)
        times.append((time.monotonic() - start) * 1000)
    return statistics.median(times)


def start_up_times():
    """Milliseconds: verbena up; ibv_devinfo without devices, with them, and with verbena run."""
    ups = []
    for _ in range(5):
        daemon = Daemon()
        start = time.monotonic()
        with daemon:
            ups.append((time.monotonic() - start) * 1000)
    with Daemon() as daemon:
        verbena = [program("tools/verbena"), "--name", daemon.name, "run", "--"]
        seen = daemon.run_on("env").stdout().splitlines()
        inside = dict(daemon.env, **dict(line.split("=", 1) for line in seen if line.startswith(
            ("LD_PRELOAD=", "IBV_DRIVERS=", "VERBENA_"))))
        return {"up_ms": statistics.median(ups),
                "devinfo_without_devices_ms": milliseconds(["ibv_devinfo"], daemon.env),
                "devinfo_ms": milliseconds(["ibv_devinfo"], inside),
                "run_devinfo_ms": milliseconds(verbena + ["ibv_devinfo"], daemon.env)}


def run(poll):
    limit = json.loads(subprocess.run([program("tests/bench/copy_crc_limit")], check=True,
                                      capture_output=True, text=True).stdout)
    result = {"limit": limit, "write_bw": {}, "latency": {}}
    with Daemon(*(["--poll"] if poll else [])) as daemon:
        for size, iterations in WRITE_SIZES:
            gbytes, messages = bandwidth(daemon, size, iterations)
            result["write_bw"][size] = {
                "gbytes_per_s": gbytes, "million_messages_per_s": messages,
                "of_limit": gbytes / limit["both_ends_gbytes_per_s"]}
        for tool in LATENCY_TOOLS:
            typical, p99 = latency(daemon, tool)
            result["latency"][tool] = {"typical_us": typical, "p99_us": p99}
    result["start_up"] = start_up_times()
    return result


def print_table(result):
    limit = result["limit"]
    print("The machine, one core, per 4 KiB packet (GB/s of payload):")
    print(f"  copy {limit['copy_gbytes_per_s']:.1f}, CRC {limit['crc_gbytes_per_s']:.1f}, copy and "
          f"CRC {limit['copy_and_crc_gbytes_per_s']:.1f}, both ends "
          f"{limit['both_ends_gbytes_per_s']:.1f} (the limit)")
    print(f"\n{'ib_write_bw':>12} {'GB/s':>8} {'Gb/s':>8} {'M msg/s':>9} {'of the limit':>13}")
    for size, row in result["write_bw"].items():
        print(f"{size:>12} {row['gbytes_per_s']:8.3f} {row['gbytes_per_s'] * 8:8.2f} "
              f"{row['million_messages_per_s']:9.4f} {row['of_limit']:13.1%}")
    print()
    for tool, row in result["latency"].items():
        print(f"{tool} of 8 bytes: {row['typical_us']:.2f} us typical, {row['p99_us']:.2f} us at 99 %")
    start = result["start_up"]
    print(f"\nverbena up: {start['up_ms']:.0f} ms (limit 500)")
    print(f"ibv_devinfo: {start['devinfo_without_devices_ms']:.1f} ms without devices, "
          f"{start['devinfo_ms']:.1f} ms with them, {start['run_devinfo_ms']:.1f} ms by verbena run: "
          f"{start['run_devinfo_ms'] - start['devinfo_ms']:.1f} ms added (limit 50)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--poll", action="store_true", help="a daemon that never sleeps")
    arguments = parser.parse_args()
    result = run(arguments.poll)
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        print_table(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
