"""Compares what the preload library makes of many spellings of paths with a model of it.

Runs under the library. A path is put together at random from names that exist and "..", ".", "//".
The model follows it name by name from the root, as the kernel would if the virtual tree were there.
"""

import os
import random
import sys

VIRTUAL = {"/sys/class/infiniband": "infiniband", "/sys/class/infiniband_verbs": "infiniband_verbs"}
NAMES = ["sys", "class", "infiniband", "infiniband_verbs", "verbena0", "ports", "1", "uverbs0",
         "fw_ver", "net", "lo", "dev", "null", "..", "..", "..", ".", ""]


def kept(tree, path):
    """Where the model says that `path`, free of "..", is kept."""
    for virtual, name in VIRTUAL.items():
        if path == virtual or path.startswith(virtual + "/"):
            return tree + "/" + name + path[len(virtual):]
    return path


def resolve(tree, path):
    """The place of `path`, or None when a name on the way is no directory."""
    at = "/"
    for name in path.split("/"):
        if name in ("", "."):
            continue
        if not os.path.isdir(kept(tree, at)):
            return None
        at = os.path.normpath(os.path.join(at, name))
    return kept(tree, at)


def identity(path):
    try:
        status = os.stat(path)
        return status.st_dev, status.st_ino
    except OSError:
        return None


def main():
    tree = os.environ["VERBENA_DIR"] + "/sysfs/class"
    numbers = random.Random(20240607)
    compared = virtual = 0
    while compared < 20000:
        start = numbers.choice(["/", "/sys/class", "/sys/class/infiniband", "//sys/./class/"])
        names = [numbers.choice(NAMES) for _ in range(numbers.randrange(8))]
        path = start + "/" + "/".join(names)
        place = resolve(tree, path)
        # Links of the real sysfs (net/lo) are not the model's business.
        if place is None or "/dev" in path or "/net/" in path:
            continue
        compared += 1
        virtual += place.startswith(tree)
        if identity(path) != identity(place):
            sys.exit(f"{path}: not the same as {place}")
    if virtual < compared // 4:
        sys.exit("too few virtual paths among those compared")


main()
