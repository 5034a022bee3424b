#!/usr/bin/env python3
"""Gives the headers of an rdma-core source tree the names that its own build gives them.

usage: rdma_core_includes.py RDMA_CORE_SOURCE OUTPUT_DIRECTORY
"""

import os
import sys


def main(source, output):
    os.makedirs(output, exist_ok=True)
    folders = {"infiniband": "libibverbs", "ccan": "ccan", "rdma": "kernel-headers/rdma",
               "util": "util"}
    for name, folder in folders.items():
        target = os.path.join(source, folder)
        if not os.path.isdir(target):
            sys.exit(f"{source} is no rdma-core source tree: {target} is missing")
        link = os.path.join(output, name)
        if os.path.islink(link):
            os.unlink(link)
        os.symlink(target, link)
    with open(os.path.join(output, "config.h"), "w", encoding="ascii"):
        pass  # what its configuration would define has no effect on the layouts


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), sys.argv[2])
