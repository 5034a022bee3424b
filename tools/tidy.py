#!/usr/bin/env python3
"""Runs clang-tidy over the project's own sources, one per processor: prints "PASSED FAILED" files.

    tools/tidy.py BUILD_DIRECTORY [SECONDS]

No check is begun after SECONDS (60); what was not reached is said on stderr, counts as neither, and
comes first when this runs again.

A file that passed is remembered in BUILD_DIRECTORY/tidy.json by a hash of its text, its command
line, the configuration and the headers of its layer; it is checked again when one of them changes.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Tests are left out: what they do wrong they do to themselves, and they are half of the time.
FOLDERS = ('stack', 'dpdk', 'provider', 'tools')
# Each folder's headers are part of its key; a layer sees those below it.
BELOW = {'stack': ('stack',), 'dpdk': ('stack', 'dpdk'), 'provider': ('stack', 'provider'),
         'tools': ('stack', 'tools')}


def headers_hash(folders):
    digest = hashlib.sha256((ROOT / '.clang-tidy').read_bytes())
    for folder in folders:
        for path in sorted((ROOT / folder).rglob('*.h')):
            digest.update(path.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


# A header that gcc has precompiled is nothing to clang.
PRECOMPILED = re.compile(r'-include \S+_pch\.h|-I\S+\.p |-Winvalid-pch|-fpch-preprocess')


def entries(build):
    """The compilation database's entry of each source by its path: once, and not as a test's."""
    found = {}
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        path = pathlib.Path(entry['directory'], entry['file']).resolve()
        if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in FOLDERS:
            continue
        if entry['output'].startswith('tests/'):
            continue
        entry['command'] = PRECOMPILED.sub('', entry['command'])
        found[path.relative_to(ROOT).as_posix()] = entry
    return dict(sorted(found.items()))


def latest_first(names):
    """In the order of the last change, so that a bound in time leaves out what was long at rest."""
    log = subprocess.run(['git', '-C', str(ROOT), 'log', '--format=', '--name-only'],
                         capture_output=True, text=True, check=False).stdout
    rank = {}
    for line in log.splitlines():
        rank.setdefault(line, len(rank))
    return sorted(names, key=lambda name: rank.get(name, -1))


def check(database, name, deadline):
    """(passed, text), or nothing when it is too late to begin."""
    if time.monotonic() > deadline:
        return None
    result = subprocess.run(
        ['clang-tidy', '-p', str(database), '--quiet', '--extra-arg=-Wno-unknown-warning-option',
         str(ROOT / name)], capture_output=True, text=True, check=False)
    return result.returncode == 0, result.stdout


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    deadline = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 60)
    memory = build / 'tidy.json'
    known = json.loads(memory.read_text()) if memory.exists() else {}
    headers = {folder: headers_hash(BELOW[folder]) for folder in FOLDERS}
    keys = {}
    database = build / 'tidy'
    database.mkdir(exist_ok=True)
    sources = entries(build)
    (database / 'compile_commands.json').write_text(json.dumps(list(sources.values())))
    for name, entry in sources.items():
        text = ((ROOT / name).read_bytes() + entry['command'].encode() +
                headers[name.split('/')[0]].encode())
        keys[name] = hashlib.sha256(text).hexdigest()
    todo = latest_first(name for name in keys if known.get(name) != keys[name])
    print(f'{len(keys)} files, {len(keys) - len(todo)} of them unchanged', file=sys.stderr)
    failed = unreached = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, result in zip(todo, pool.map(lambda n: check(database, n, deadline), todo)):
            if result is None:
                unreached += 1
            elif result[0]:
                known[name] = keys[name]
            else:
                failed += 1
                print(f'FAILED: {name}\n{result[1]}', file=sys.stderr)
    if unreached:
        print(f'{unreached} files were not reached in time; run this again', file=sys.stderr)
    memory.write_text(json.dumps({name: known[name] for name in keys if name in known}))
    print(len(keys) - failed - unreached, failed)


if __name__ == '__main__':
    main()
