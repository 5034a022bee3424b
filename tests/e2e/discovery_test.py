#!/usr/bin/env python3
"""An ordinary user's programs find the devices, whichever way they look, and no library warns about
them. When started by root, everything runs as nobody."""

import os
import re
import subprocess
import sys

from e2e_support import Checks, Daemon, expect, program

DEVICES = ("verbena0", "verbena1")
SYSFS_READER = program("tests/e2e/sysfs_reader")
NETLINK_STUB = program("tests/preload/libpreload-netlink-stub.so")
SYSTEM_PYTHON = "/usr/bin/python3"  # that of python3-pyverbs

PYVERBS = """
import pyverbs.device as d
for device in d.get_device_list():
    print(device.name.decode())
    with d.Context(name=device.name.decode()) as context:
        print(context.query_device().max_qp, context.query_gid(1, 0))
"""

WALK = """
import os
for name in sorted(os.listdir("/sys/class/infiniband")):
    print(name, open(f"/sys/class/infiniband/{name}/node_guid").read().strip())
"""


def find(daemon, command, env=None, allowed_stderr=None):
    """Runs a command that must print both devices' names, and nothing on stderr."""
    process = daemon.run_on(*command, env=env)
    output, errors = process.stdout(), process.stderr()
    for device in DEVICES:
        expect(re.search(rf"\b{device}\b", output), f"{device} not found: {process.describe()}")
    expect(not errors.strip() or (allowed_stderr and re.fullmatch(allowed_stderr, errors)),
           f"stderr: {errors}")
    expect(not re.search(r"\bwarn", output, re.IGNORECASE), f"a warning: {output}")
    expect(not re.search(r"\bERROR\b", output), f"an error: {output}")
    return output


def ways():
    yield "ibv_devices", ["ibv_devices"]
    yield "ibv_devinfo", ["ibv_devinfo", "-v"]
    yield "pyverbs", [SYSTEM_PYTHON, "-c", PYVERBS]
    yield "ucx_info", ["ucx_info", "-d"]
    yield "fi_info", ["fi_info", "-p", "verbs"]
    yield "a child of sh -c", ["sh", "-c", "true; ibv_devices"]
    yield "a grandchild with a cleared path", ["sh", "-c", "sh -c 'exec ibv_devinfo; true'"]
    yield "a program that reads /sys/class/infiniband", [SYSFS_READER]
    yield "ls of /sys/class/infiniband", ["sh", "-c", "ls /sys/class/infiniband | cat"]
    yield "Python that walks /sys/class/infiniband", [SYSTEM_PYTHON, "-c", WALK]


def check_sysfs(daemon):
    for line in find(daemon, [SYSFS_READER]).splitlines():
        expect(re.fullmatch(r"verbena[01] guid=([0-9a-f]{4}:){3}[0-9a-f]{4} type=1: CA "
                            r"state=4: ACTIVE link=Ethernet gid0=0000:0000:0000:0000:0000:ffff:"
                            r"[0-9a-f:]{9} gidtype0=RoCE v2", line), f"sysfs says {line}")


def check_stub_is_reached(daemon):
    """The control: without Verbena's library the stub's socket is used."""
    env = {name: value for name, value in daemon.env.items() if name != "LD_PRELOAD"}
    answer = subprocess.run(["ibv_devices"], env=dict(env, LD_PRELOAD=NETLINK_STUB),
                            capture_output=True, text=True, check=False, timeout=30)
    expect("RDMA netlink reached" in answer.stderr, f"{answer.stdout}{answer.stderr}")
    expect("verbena" not in answer.stdout, answer.stdout)


def main():
    checks = Checks()
    user = "nobody" if os.geteuid() == 0 else None
    with Daemon(user=user) as daemon:
        for name, command in ways():
            with checks.check(name):
                find(daemon, command)
        with checks.check("UCX finds both transports on both devices"):
            output = find(daemon, ["ucx_info", "-d"])
            for transport in ("rc_verbs", "ud_verbs"):
                found = re.findall(rf"Transport: {transport}\n#\s+Device: (\w+):1", output)
                expect(sorted(found) == sorted(DEVICES), f"{transport}: {found}: {output}")
        with checks.check("contents of the virtual sysfs"):
            check_sysfs(daemon)
        with checks.check("a stub makes the RDMA netlink socket succeed"):
            check_stub_is_reached(daemon)
        for name, command in ways():
            with checks.check(f"{name}, where the RDMA netlink socket succeeds"):
                find(daemon, command, env={"LD_PRELOAD": NETLINK_STUB})
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
