#!/usr/bin/env python3
"""What libstack.a asks of the world, read off its undefined symbols.

The engine has no socket, file, clock, thread, lock or output, whatever its sources include: this
looks at the product. Memory may be allocated (control calls make objects).
"""
import re
import subprocess
import sys
import unittest

LIBRARY = sys.argv.pop()

ALLOWED = [re.compile(pattern) for pattern in (
    # Memory and text in memory, with the checked forms.
    r'mem(cpy|move|set|cmp|chr)', r'__mem(cpy|move|set)_chk', r'str(len|cmp|ncmp|chr)', r'bcmp',
    r'(v?snprintf|__v?snprintf_chk)',
    # VERBENA_ASSERT, for faults of our own.
    r'abort', r'fprintf', r'__fprintf_chk', r'stderr', r'fwrite',
    # The C++ run time: allocation, and containers that cannot get it.
    r'_Zn[wa]m(St11align_val_t)?(RKSt9nothrow_t)?', r'_Zd[la]Pv(m)?(St11align_val_t)?',
    r'_ZSt\d+__throw_\w+', r'_ZSt7nothrow', r'__cxa_pure_virtual',
    r'_ZNS?t?.*basic_string.*', r'_ZSt\d+_Rb_tree_\w+',
    r'_ZNKSt8__detail20_Prime_rehash_policy.*', r'_ZSt\w*_Hash_bytes\w*',
    # The CRC.
    r'crc32_gzip_refl',
    # The compiler, its run time and the sanitizers.
    r'_GLOBAL_OFFSET_TABLE_', r'__stack_chk_fail', r'__(popcount|clz|ctz|u?div|u?mod)[sdt]i[23]',
    r'__(asan|ubsan|tsan|sanitizer|gcov)_.*',
)]

# Named for a better message; none of them matches ALLOWED.
WORLD = re.compile(
    r'^(socket|bind|send|recv|read|write|open|close|ioctl|mmap|poll|epoll_|syscall|clock_|time$|'
    r'gettimeofday|nanosleep|usleep|pthread_|printf|puts|putchar|rand|getenv|'
    r'_ZNSt6chrono|_ZNSt6thread|_ZSt4cout|_ZNSo)')


def nm(option):
    text = subprocess.run(['nm', option, LIBRARY], check=True, capture_output=True,
                          text=True).stdout
    return {line.split()[-1] for line in text.splitlines() if line and not line.endswith(':')}


class PurityTest(unittest.TestCase):
    def test_engine_needs_nothing_of_the_world(self):
        needed = nm('--undefined-only') - nm('--defined-only')
        self.assertTrue(needed, 'no symbols were read from the library')
        # Symbols of the engine that other members of the archive define are taken out above.
        strange = sorted(s for s in needed if not any(p.fullmatch(s) for p in ALLOWED))
        world = [s for s in strange if WORLD.match(s)]
        self.assertFalse(strange, f'libstack.a needs {strange}; of the outside world: {world}')

    def test_engine_throws_nothing(self):
        self.assertFalse(nm('--undefined-only') & {'__cxa_throw', '__cxa_rethrow'})


if __name__ == '__main__':
    unittest.main()
