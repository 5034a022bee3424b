#!/usr/bin/env python3
"""The distribution's own verbs programs, server on verbena0 and client on verbena1, with the options
that people use. Every run's two exit statuses must be 0.

  tools_matrix.py [--build DIR] [--quick] [--user NAME] [--only REGEX] [--seconds N] [--list]
                  [--fault SPEC]

--quick runs a part that takes less than a minute. A run that does not end in time is shown with the
stacks of both programs.
"""

import argparse
import re
import sys
import time

from e2e_support import Checks, Daemon, expect, free_port, is_listening, wait_until

SERVER_DEVICE, CLIENT_DEVICE = "verbena0", "verbena1"
BW_TOOLS = ("ib_send_bw", "ib_write_bw", "ib_read_bw")
LAT_TOOLS = ("ib_send_lat", "ib_write_lat", "ib_read_lat")
# Of perftest 4.5: "allowed" is what the tool itself accepts.
WITH_EVENTS = ("ib_send_bw", "ib_read_bw", "ib_send_lat", "ib_read_lat")
WITH_INLINE = ("ib_send_bw", "ib_write_bw", "ib_send_lat", "ib_write_lat")

QUICK = {
    "ibv_devices", "ibv_devinfo -v", "ibv_rc_pingpong -g 0", "ibv_rc_pingpong -g 0 -e",
    "ibv_rc_pingpong -g 0 -c", "ibv_rc_pingpong -g 0 -N", "ib_write_bw -n 1000",
    "ib_write_bw -a -n 20", "ib_send_lat -a -n 5", "ib_send_lat -e -n 200",
    "ib_read_lat -n 500", "ib_write_bw -q 16 -n 200", "ib_send_bw -b -n 500",
    "ib_send_bw -m 512 -n 500", "ib_write_lat -I 64 -n 500",
    "ib_write_bw --use_old_post_send -n 1000", "ibv_ud_pingpong -g 0", "ibv_srq_pingpong -g 0 -e",
    "ib_send_bw -c UD -n 1000", "ib_send_bw --use-srq -n 1000",
}


def cases():
    """Command lines of both sides, without device and port."""
    for options in ("", "-s 1", "-s 1048576 -n 100", "-e", "-m 256", "-c", "-N", "-e -c -s 65537",
                    "-t"):
        yield f"ibv_rc_pingpong -g 0 {options}".strip()
    for tool in ("ibv_ud_pingpong", "ibv_srq_pingpong"):
        for options in ("", "-e", "-c", "-s 1"):
            yield f"{tool} -g 0 {options}".strip()
    for tool in ("ib_send_bw", "ib_send_lat"):
        for options in ("-n 1000", "-s 4096 -n 500", "-e -n 200", "-I 64 -s 64 -n 500",
                        "--use_old_post_send -n 500"):
            yield f"{tool} -c UD {options}"
    for options in ("-n 1000", "-q 16 -n 200", "-e -n 200"):
        yield f"ib_send_bw --use-srq {options}"
    for tool in BW_TOOLS:
        yield f"{tool} -n 1000"
        yield f"{tool} -a -n 20"
        yield f"{tool} -a -n 100"
        yield f"{tool} -q 16 -n 200"
        yield f"{tool} -b -n 500"
        yield f"{tool} -b -q 16 -n 100"
        yield f"{tool} -m 512 -n 500"
        yield f"{tool} --use_old_post_send -n 1000"
    for tool in LAT_TOOLS:
        yield f"{tool} -n 500"
        yield f"{tool} -a -n 5"
        yield f"{tool} -a -n 50"
        yield f"{tool} -m 512 -s 4097 -n 200"
        yield f"{tool} --use_old_post_send -n 500"
    for tool in WITH_EVENTS:
        yield f"{tool} -e -n 200"
    for tool in WITH_INLINE:
        yield f"{tool} -I 64 -n 500"
        yield f"{tool} -I 64 -s 64 -n 500"


def options_for(command, device):
    # -F: no warning about the processor's frequency governor.
    return [f"--ib-dev={device}"] + (["-F"] if command[0].startswith("ib_") else [])


def finish(process, other, seconds):
    status = process.wait(seconds)
    expect(status == 0, f"\n{process.describe()}\nThe other side: {other.describe()}")


def run_pair(daemon, case, seconds):
    command, port = case.split(), free_port()
    common = ["-p", str(port)]
    server = daemon.start_on(*command, *options_for(command, SERVER_DEVICE), *common)
    client = None
    try:
        wait_until(lambda: is_listening(port) or server.popen.poll() is not None, 20,
                   f"{server.describe()} listening")
        client = daemon.start_on(*command, *options_for(command, CLIENT_DEVICE), *common,
                                 "127.0.0.1")
        finish(client, server, seconds)
        finish(server, client, 10)
        return last_figures(client.stdout())
    finally:
        server.kill()
        if client:
            client.kill()


def last_figures(output):
    lines = [line for line in output.splitlines() if re.match(r"\s*\d", line)]
    return " ".join(lines[-1].split()) if lines else ""


def run_single(daemon, command):
    process = daemon.run_on(*command)
    for device in (SERVER_DEVICE, CLIENT_DEVICE):
        expect(device in process.stdout(), f"{device} is not in: {process.stdout()}")
    return ""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--user")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--fault")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    chosen = [case for case in ["ibv_devices", "ibv_devinfo -v", *cases()]
              if re.search(arguments.only, case) and (not arguments.quick or case in QUICK)]
    if arguments.list:
        print("\n".join(chosen))
        return 0
    checks, rows = Checks(), []
    up = ["--fault", arguments.fault] if arguments.fault else []
    with Daemon(*up, user=arguments.user) as daemon:
        for case in chosen:
            start, figures = time.monotonic(), "FAILED"
            with checks.check(case):
                single = case in ("ibv_devices", "ibv_devinfo -v")
                figures = (run_single(daemon, case.split()) if single
                           else run_pair(daemon, case, arguments.seconds))
            rows.append((case, f"{time.monotonic() - start:.1f} s", figures))
    print()
    for case, took, figures in rows:
        print(f"{case:42} {took:>8}  {figures}")
    expect(not arguments.quick or len(chosen) == len(QUICK), "the quick part names unknown cases")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
