#!/usr/bin/env python3
"""Makes the conformance cases of this folder, NAME.pcap and NAME.toml, and the table of rules in
docs/conformance.md.

  generate.py            write them
  generate.py --check    only say which differ from what would be written; exit status 1 if one does

What is written depends on nothing but these scripts.
"""
import importlib
import pathlib
import sys

sys.dont_write_bytecode = True  # the folder may not be ours to write to

from emit import Emitter  # noqa: E402
from rules import RULES, SOURCES  # noqa: E402
from scenario import CASES  # noqa: E402

# The scenarios put themselves into CASES.
for scenarios in ('responder', 'errors', 'requester', 'recovery', 'datagrams', 'headers'):
    importlib.import_module(scenarios)

FOLDER = pathlib.Path(__file__).resolve().parent
DOCUMENT = FOLDER.parent.parent / 'docs' / 'conformance.md'
BEGIN = '<!-- made by pcaps/rules/generate.py -->\n'
END = '<!-- end -->\n'


def check_rules():
    names = [rule.name for rule in RULES]
    cases = [case.name for case in CASES]
    for kind, all_ in (('rule', names), ('case', cases)):
        twice = sorted({name for name in all_ if all_.count(name) > 1})
        assert not twice, f'{kind}s with the same name: {", ".join(twice)}'
    for case in CASES:
        unknown = [name for name in case.rules if name not in names]
        assert not unknown, f'{case.name}: no rule is called {", ".join(unknown)}'
    shown = {name for case in CASES for name in case.rules}
    for rule in RULES:
        decided = (rule.name in shown) != bool(rule.without)
        assert decided, f'{rule.name}: give it a case, or say why it has none'


def table():
    lines = ['| rule | what it says | source | cases | status |', '| --- | --- | --- | --- | --- |']
    for rule in RULES:
        cases = [case for case in CASES if rule.name in case.rules]
        links = ', '.join(f'[{case.name}](../pcaps/rules/{case.name}.toml)' for case in cases)
        waiting = sorted({case.waits_for for case in cases if case.waits_for})
        status = rule.without or ('; '.join(waiting) if waiting else 'passes')
        lines.append(f'| {rule.name} | {rule.text} | {rule.source} | {links} | {status} |')
    return '\n'.join(lines) + '\n'


def document():
    text = DOCUMENT.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + table() + END + after


def files():
    """All files that are made, with their contents."""
    made = {}
    for case in CASES:
        source = '; '.join(f'{name}: {SOURCES[name]}' for name in case.rules)
        capture, toml = Emitter(case, source).files()
        made[FOLDER / f'{case.name}.pcap'] = capture
        made[FOLDER / f'{case.name}.toml'] = toml.encode()
    made[DOCUMENT] = document().encode()
    return made


def main():
    check_rules()
    made = files()
    stale = [path for suffix in ('pcap', 'toml') for path in FOLDER.glob(f'*.{suffix}') if path not in made]
    wrong = [path for path, data in made.items() if not path.exists() or path.read_bytes() != data]
    if sys.argv[1:] == ['--check']:
        for path in sorted(stale + wrong):
            print(f'{path} is not what generate.py makes; run it')
        return 1 if stale or wrong else 0
    for path in stale:
        path.unlink()
    for path in wrong:
        path.write_bytes(made[path])
    print(f'{len(CASES)} cases, {len(wrong)} files changed, {len(stale)} removed')
    return 0


if __name__ == '__main__':
    sys.exit(main())
