#!/usr/bin/env python3
"""The layers of the project, read off the #include lines.

stack/ takes bytes and a time and gives bytes and a deadline: whatever could bring in a socket, a
clock, a thread or a library is refused there. dpdk/, provider/ and tools/ meet in stack/abi/ only.
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop()).resolve()
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# What stack/ may include from outside itself: the C++ standard library, minus what knows time,
# threads, files or streams.
STANDARD = set('''
    algorithm array atomic bit bitset cassert cctype cerrno climits compare concepts cstdarg cstddef
    cstdint cstdio cstdlib cstring exception functional initializer_list iterator limits memory new
    numeric optional span string string_view tuple type_traits utility variant vector
    deque list map set unordered_map unordered_set queue charconv ratio
'''.split())
# One exception each, with its file: the CRC comes from ISA-L.
STACK_EXCEPTIONS = {('stack/wire/icrc.cc', 'isa-l.h'), ('stack/wire/icrc.cc', 'isa-l/crc.h'),
                    ('stack/wire/icrc.cc', 'crc.h')}

# Order of the folders inside stack/: each may include those of its own and of lower rank.
STACK_RANK = {'base': 0, 'wire': 1, 'abi': 1, 'mem': 1, 'qp': 2, 'cq': 2, 'cc': 2, 'net': 2}
ROOT_HEADERS = {'types.h', 'config.h', 'events.h', 'stats.h', 'trace.h', 'tx_sink.h', 'objects.h'}

MAY_INCLUDE = {
    'stack': {'stack'},
    'dpdk': {'dpdk', 'stack'},
    'provider': {'provider', 'stack'},
    'tools': {'tools', 'stack'},
    'tests': {'dpdk', 'provider', 'stack', 'tests', 'tools'},
}


def sources():
    for folder in MAY_INCLUDE:
        for path in sorted((ROOT / folder).rglob('*')):
            if path.suffix in ('.h', '.cc'):
                yield path


def includes(path):
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        line = text.count('\n', 0, match.start()) + 1
        yield line, match.group(1) == '"', match.group(2)


class LayeringTest(unittest.TestCase):
    def complain_if_any(self, complaints):
        if complaints:
            self.fail('\n' + '\n'.join(complaints))

    def test_there_is_something_to_check(self):
        folders = {path.relative_to(ROOT).parts[0] for path in sources()}
        self.assertLessEqual({'stack', 'dpdk', 'provider', 'tools'}, folders)

    def test_own_headers_are_named_from_the_root(self):
        complaints = []
        for path in sources():
            for line, quoted, name in includes(path):
                if quoted and not (ROOT / name).is_file():
                    complaints.append(f'{path.relative_to(ROOT)}:{line}: "{name}": write the path '
                                      'from the root of the repository')
        self.complain_if_any(complaints)

    def test_folders_include_only_what_lies_below_them(self):
        complaints = []
        for path in sources():
            folder = path.relative_to(ROOT).parts[0]
            for line, quoted, name in includes(path):
                target = name.split('/')[0]
                if quoted and target in MAY_INCLUDE and target not in MAY_INCLUDE[folder]:
                    complaints.append(f'{path.relative_to(ROOT)}:{line}: {folder}/ must not '
                                      f'include {name}')
        self.complain_if_any(complaints)

    def test_stack_knows_the_standard_library_alone(self):
        complaints = []
        for path in sources():
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith('stack/'):
                continue
            for line, quoted, header in includes(path):
                if not quoted and header not in STANDARD and (name, header) not in STACK_EXCEPTIONS:
                    complaints.append(f'{name}:{line}: <{header}> does not belong in stack/')
        self.complain_if_any(complaints)

    def test_stack_folders_have_an_order(self):
        complaints = []
        for path in sources():
            parts = path.relative_to(ROOT).parts
            if parts[0] != 'stack' or len(parts) < 3 or parts[1] not in STACK_RANK:
                continue
            for line, quoted, header in includes(path):
                other = header.split('/')
                if not quoted or other[0] != 'stack':
                    continue
                if len(other) == 2:
                    bad = other[1] not in ROOT_HEADERS
                else:
                    bad = STACK_RANK.get(other[1], 9) > STACK_RANK[parts[1]]
                if bad:
                    complaints.append(f'{"/".join(parts)}:{line}: {header} lies above stack/'
                                      f'{parts[1]}/')
        self.complain_if_any(complaints)


if __name__ == '__main__':
    unittest.main()
