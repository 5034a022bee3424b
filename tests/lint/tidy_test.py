#!/usr/bin/env python3
"""Style that a text search can see: sizes, tabs, trailing blanks, leftovers, links."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop()).resolve()
FOLDERS = ('stack', 'dpdk', 'provider', 'tools', 'tests', 'docs', '.ci')
CODE = ('.h', '.cc')
TEXT = CODE + ('.py', '.build', '.md', '.txt', '.map', '')
MAX_COLUMNS = {'.h': 100, '.cc': 100, '.build': 110, '.py': 110}
MAX_LINES = 600
MAX_TEST_LINES = 900
# Written in halves so that this file does not find itself.
LEFTOVER = re.compile(r'\b(' + '|'.join(('TO' 'DO', 'FIX' 'ME', 'XX' 'X', 'HA' 'CK')) + r')\b')
# A statement behind // is code that somebody switched off.
COMMENTED_CODE = re.compile(r'^\s*//\s*(if|for|while|return|switch)\b[^.]*[;{]\s*$')
GET_NAME = re.compile(r'\bget_\w+\s*\([^)]*\)\s*(const)?\s*(\{|;)')
LINK = re.compile(r'\[[^\]]*\]\(([^)#\s]+)(#[^)]*)?\)')


def files(suffixes):
    found = [path for path in ROOT.glob('*') if path.is_file() and path.suffix in ('.md', '.build')]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob('*') if path.is_file()]
    return sorted(path for path in found if path.suffix in suffixes and 'corpus' not in path.parts
                  and '__pycache__' not in path.parts)


def lines(path):
    return list(enumerate(path.read_text(errors='replace').splitlines(), 1))


class TidyTest(unittest.TestCase):
    def complain_if_any(self, complaints):
        if complaints:
            self.fail('\n' + '\n'.join(complaints))

    def search(self, suffixes, wrong):
        """wrong(line) gives the complaint about a line, or nothing."""
        complaints = []
        for path in files(suffixes):
            for number, line in lines(path):
                complaint = wrong(line)
                if complaint:
                    complaints.append(f'{path.relative_to(ROOT)}:{number}: {complaint}')
        self.complain_if_any(complaints)

    def test_there_is_something_to_check(self):
        self.assertGreater(len(files(CODE)), 50)

    def test_lines_are_short_enough(self):
        complaints = []
        for path in files(tuple(MAX_COLUMNS)):
            table = False  # aligned by hand, between "clang-format off" and "on"
            for number, line in lines(path):
                if '// clang-format o' in line:
                    table = '// clang-format off' in line
                limit = MAX_COLUMNS[path.suffix]
                if len(line) > limit and not table:
                    complaints.append(f'{path.relative_to(ROOT)}:{number}: {len(line)} columns; '
                                      f'{limit} are the limit')
        self.complain_if_any(complaints)

    def test_files_are_short_enough(self):
        complaints = []
        for path in files(CODE + ('.py',)):
            limit = MAX_TEST_LINES if path.relative_to(ROOT).parts[0] == 'tests' else MAX_LINES
            if len(lines(path)) > limit:
                complaints.append(f'{path.relative_to(ROOT)}: {len(lines(path))} lines; '
                                  f'{limit} are the limit')
        self.complain_if_any(complaints)

    def test_no_tabs_and_no_trailing_blanks(self):
        self.search(CODE + ('.py', '.build', '.md'),
                    lambda line: ('\t' in line and 'a tab')
                    or (line != line.rstrip() and 'blanks at the end'))

    def test_nothing_is_left_for_later(self):
        self.search(TEXT, lambda line: LEFTOVER.search(line) and f'left over: {line.strip()}')

    def test_no_code_is_commented_out(self):
        self.search(CODE, lambda line: COMMENTED_CODE.match(line) and f'dead code: {line.strip()}')

    def test_functions_are_not_named_get(self):
        self.search(('.h',), lambda line: GET_NAME.search(line) and 'name it without get_')

    def test_headers_guard_themselves_and_say_what_they_are(self):
        complaints = []
        for path in files(('.h',)):
            text = path.read_text()
            guarded = re.search(r'^#(pragma once|ifndef VERBENA_)', text, re.MULTILINE)
            if not guarded and path.parent.name != 'pch':  # those are compiled by themselves
                complaints.append(f'{path.relative_to(ROOT)}: no #pragma once')
            if not text.startswith(('//', '/*')):
                complaints.append(f'{path.relative_to(ROOT)}: begins without a comment')
        self.complain_if_any(complaints)

    def test_links_lead_somewhere(self):
        complaints = []
        for path in files(('.md',)):
            for target, _ in LINK.findall(path.read_text()):
                if '://' in target or target.startswith('mailto:'):
                    continue
                if not (path.parent / target).exists():
                    complaints.append(f'{path.relative_to(ROOT)}: {target} does not exist')
        self.complain_if_any(complaints)

    def test_scripts_can_be_executed(self):
        complaints = []
        for path in files(TEXT):
            with open(path, 'rb') as file:
                script = file.read(2) == b'#!'
            if script and not path.stat().st_mode & 0o100:
                complaints.append(f'{path.relative_to(ROOT)}: chmod +x')
        self.complain_if_any(complaints)

    def test_scripts_pass_shellcheck(self):
        scripts = []
        for path in files(TEXT):
            with open(path, 'rb') as file:
                head = file.readline()
            if head.startswith(b'#!') and head.strip().endswith((b'bash', b'/sh')):
                scripts.append(path)
        self.assertTrue(scripts)
        try:
            result = subprocess.run(['shellcheck', *scripts], capture_output=True, text=True)
        except FileNotFoundError:
            self.skipTest('shellcheck is not installed')
        self.assertEqual(result.returncode, 0, result.stdout)


if __name__ == '__main__':
    unittest.main()
