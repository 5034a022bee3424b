#!/usr/bin/env python3
"""Counts the cases in Meson's testlog.json: prints "PASSED FAILED".

A GoogleTest or unittest program and `verbena conformance run` count as their cases, any other
program as one. A program that fails without a failed case (a crash, a time limit) counts as one
failure. Skipped cases count as neither.
"""
import json
import re
import sys

GTEST_RAN = re.compile(r'^\[=+\] (\d+) tests? from .* ran', re.MULTILINE)
GTEST_PASSED = re.compile(r'^\[  PASSED  \] (\d+) test', re.MULTILINE)
GTEST_FAILED = re.compile(r'^\[  FAILED  \] (\d+) test', re.MULTILINE)
UNITTEST_RAN = re.compile(r'^Ran (\d+) tests? in', re.MULTILINE)
UNITTEST_BAD = re.compile(r'\b(?:failures|errors|unexpected successes)=(\d+)')
# `verbena conformance run`
RUNNER_COUNT = re.compile(r'^(\d+) passed, (\d+) failed$', re.MULTILINE)
UNITTEST_SKIPPED = re.compile(r'\bskipped=(\d+)')
GOOD = ('OK', 'EXPECTEDFAIL')


def total(pattern, text):
    return sum(int(number) for number in pattern.findall(text))


def cases(test):
    """(passed, failed) of one test program."""
    text = test.get('stdout', '') + '\n' + test.get('stderr', '')
    good = test['result'] in GOOD
    if test['result'] == 'SKIP':
        return 0, 0
    if GTEST_RAN.search(text):
        passed, failed = total(GTEST_PASSED, text), total(GTEST_FAILED, text)
    elif UNITTEST_RAN.search(text):
        # The verdict is the last line: FAILED (failures=1, skipped=2).
        verdict = '\n'.join(line for line in text.splitlines() if line.startswith(('OK', 'FAILED')))
        failed = total(UNITTEST_BAD, verdict)
        passed = total(UNITTEST_RAN, text) - failed - total(UNITTEST_SKIPPED, verdict)
    elif RUNNER_COUNT.search(text):
        passed, failed = (int(number) for number in RUNNER_COUNT.search(text).groups())
    else:
        return (1, 0) if good else (0, 1)
    return passed, failed if good else max(failed, 1)


def main():
    passed = failed = 0
    seen = False
    for path in sys.argv[1:]:
        with open(path, encoding='utf-8') as file:
            for line in file:
                seen = True
                more = cases(json.loads(line))
                passed += more[0]
                failed += more[1]
    if not seen:
        sys.exit('no test was run')
    print(passed, failed)


if __name__ == '__main__':
    main()
