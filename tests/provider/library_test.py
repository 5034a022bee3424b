#!/usr/bin/env python3
"""libverbena-rdmav34.so loads into any program: it needs libibverbs and libc alone.

usage: library_test.py LIBRARY
"""

import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(library):
    dynamic = run("readelf", "-d", library)
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    problems = []
    if extra := needed - {"libibverbs.so.1", "libc.so.6"}:
        problems.append(f"needs {sorted(extra)}")
    if "NODELETE" not in dynamic:
        problems.append("is not linked with -z nodelete")
    if exported := run("nm", "-D", "--defined-only", library).split("\n")[:-1]:
        problems.append(f"exports {exported}")
    private = set(re.findall(r" U (\S+)@IBVERBS_PRIVATE_(\S+)", run("nm", "-D", library)))
    if not private:
        problems.append("uses nothing of libibverbs' private interface")
    if wrong := sorted(name for name, abi in private if abi != "34"):
        problems.append(f"is not for private ABI 34: {wrong}")
    for problem in problems:
        print(f"{library} {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
