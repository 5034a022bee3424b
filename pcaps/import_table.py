#!/usr/bin/env python3
"""Imports every capture of some folders, and writes what came of each into docs/conformance.md.

    pcaps/import_table.py VERBENA FOLDER...    write the table
    pcaps/import_table.py VERBENA --check      only look whether the rows of pcaps/ are right

VERBENA is the command, FOLDER has captures; pcaps/ itself is always among them. Captures that do
not lie in pcaps/ are marked.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

PCAPS = pathlib.Path(__file__).resolve().parent
PAGE = PCAPS.parent / 'docs' / 'conformance.md'
BEGIN = '<!-- imports: made by pcaps/import_table.py -->\n'
END = '<!-- end of imports -->\n'


def captures(folders):
    """By name, each once: the one in pcaps/ where there are several."""
    found = {}
    for folder in [PCAPS, *map(pathlib.Path, folders)]:
        for path in [*folder.glob('*.pcap'), *folder.glob('*.pcapng')]:
            found.setdefault(path.name, path)
    return [found[name] for name in sorted(found)]


def outcome(verbena, capture):
    """What the command says, in one sentence."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([verbena, 'conformance', 'import', capture, '-o', folder],
                             capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1) or not run.stdout:
        sys.exit(f'{capture}: {run.stderr}')
    lines = run.stdout.splitlines()

    def found(pattern):
        return [match[1] for line in lines if (match := re.match(pattern, line))]

    roles = found(r'\S+\.(requester|responder|both)\S*\.toml: ')
    failed = found(r'FAIL \S+\.(requester|responder|both)\S*\.toml')
    rules = sorted(set(found(r'  differs: .*?: ([A-Z-]+[0-9]+): ')))
    # Behind the name of the queue pair or the connection.
    reasons = dict.fromkeys(line.removeprefix('skipped: ').rsplit(': ', 1)[-1]
                            for line in lines if line.startswith('skipped: '))
    parts = []
    passed = [role for role in roles if role not in failed]
    if passed:
        parts.append('passes: ' + ', '.join(passed))
    if failed:
        parts.append('does not pass: ' + ', '.join(failed))
    if rules:
        parts.append('differs: ' + ', '.join(rules))
    if reasons:
        parts.append('skipped: ' + '; '.join(reasons))
    return '. '.join(parts)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    verbena, folders = sys.argv[1], [word for word in sys.argv[2:] if word != '--check']
    rows = [f'| {path.stem}{"" if path.parent == PCAPS else " *"} | {outcome(verbena, path)} |\n'
            for path in captures(folders)]
    page = PAGE.read_text()
    if '--check' in sys.argv:
        wrong = [row for row in rows if row not in page]
        sys.exit(f'{PAGE} does not have:\n{"".join(wrong)}' if wrong else 0)
    head, rest = page.split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(head + BEGIN + '\n| capture | what import makes of it |\n| --- | --- |\n'
                    + ''.join(rows) + '\n' + END + tail)


if __name__ == '__main__':
    main()
