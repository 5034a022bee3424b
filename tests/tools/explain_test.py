#!/usr/bin/env python3
"""`verbena explain` from outside, on the captures of pcaps/ and on files that are none."""
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import unittest

VERBENA = os.environ['VERBENA']
PCAPS = pathlib.Path(os.environ['VERBENA_PCAPS'])
LIMIT_S = 60
# What a packet's row begins with: number and time.
ROW = re.compile(r'^ *(\d+) +\d+\.\d{3}  ', re.MULTILINE)


def environment(**more):
    plain = {k: v for k, v in os.environ.items() if k not in ('COLUMNS', 'NO_COLOR')}
    return {**plain, **more}


def run(*words, stdin=None, **more):
    return subprocess.run([VERBENA, 'explain', *map(str, words)], env=environment(**more),
                          input=stdin, capture_output=True, timeout=LIMIT_S, check=False)


def captures():
    return sorted(PCAPS.glob('*.pcap'))


def expected_opcodes():
    """From pcaps/expected.txt: how often each opcode is in each capture, as tshark counts."""
    expected = {}
    for line in (PCAPS / 'expected.txt').read_text().splitlines():
        if line.startswith('#') or not line:
            continue
        name, *counts = line.split()
        expected[name] = {int(k, 16): int(n) for k, n in (c.split(':') for c in counts)
                          if k.startswith('0x')}
    return expected


def frames_of(capture):
    """The records of a little-endian pcap file, whose header is 24 bytes."""
    data = capture.read_bytes()
    at = 24
    while at < len(data):
        seconds, fraction, captured, length = struct.unpack_from('<IIII', data, at)
        yield seconds, fraction, length, data[at + 16:at + 16 + captured]
        at += 16 + captured


def pcapng(frames):
    def block(kind, body):
        body += b'\0' * (-len(body) % 4)
        size = len(body) + 12
        return struct.pack('<II', kind, size) + body + struct.pack('<I', size)

    section = block(0x0A0D0D0A, struct.pack('<IHHq', 0x1A2B3C4D, 1, 0, -1))
    interface = block(1, struct.pack('<HHI', 1, 0, 0))
    packets = b''.join(
        block(6, struct.pack('<IIIII', 0, i >> 32, i & 0xFFFFFFFF, len(frame), len(frame)) + frame)
        for i, (_, _, _, frame) in enumerate(frames))
    return section + interface + packets


class ExplainCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, content):
        path = pathlib.Path(self.folder.name, name)
        path.write_bytes(content)
        return path

    def good(self, *words, **more):
        result = run(*words, **more)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stdout.decode()

    def refused(self, *words, says, status=1, **more):
        result = run(*words, **more)
        self.assertEqual(result.returncode, status, result.stdout.decode())
        self.assertIn(says, result.stderr.decode())
        self.assertIn('try: ', result.stderr.decode())
        self.assertEqual(result.stdout, b'')


class CapturesTest(ExplainCase):
    def test_each_packet_has_its_row(self):
        for capture in captures():
            with self.subTest(capture=capture.name):
                text = self.good('--all', capture)
                self.assertEqual([int(n) for n in ROW.findall(text)],
                                 [i + 1 for i, _ in enumerate(frames_of(capture))])

    def test_rows_are_not_wider_than_the_terminal(self):
        for capture in captures():
            for columns in (80, 100):
                text = self.good(capture, COLUMNS=str(columns))
                drawn = text.split('\n\n')[1]
                self.assertLessEqual(max(map(len, drawn.splitlines())), columns, capture.name)

    def test_opcodes_are_those_that_tshark_counts(self):
        for name, expected in expected_opcodes().items():
            with self.subTest(capture=name):
                found = {}
                for packet in json.loads(self.good('--json', PCAPS / name))['packets']:
                    if 'opcode' in packet:
                        found[packet['opcode']] = found.get(packet['opcode'], 0) + 1
                self.assertEqual(found, expected)

    def test_a_sequence_nak_is_told(self):
        text = self.good(PCAPS / 'rc_seq_nak.pcap')
        self.assertIn('10.77.0.3 QPN 0x000089', text)
        self.assertIn('10.77.0.2 QPN 0x000151', text)
        self.assertRegex(text, r'6 +1\.765  │◀─ NAK +PSN 0xe1b388  PSN sequence error, MSN 0 ─+┤')
        self.assertIn('the responder waits for PSN 0xe1b388 and drops what comes after it', text)
        self.assertRegex(text, r'7 +2\.514  ├── SEND Middle +PSN 0xe1b388  1024 B ─+▶│')
        self.assertIn('sent again (packet 3): for the NAK in packet 6', text)
        self.assertRegex(text, r'904 B, again \(packet 5\), AckReq')
        self.assertIn('1 message, 5000 B of payload, 3 sent again, 1 sequence NAK', text)
        self.assertIn('every request was acknowledged in the end', text)

    def test_the_sample_in_the_documentation_is_so(self):
        page = (PCAPS.parent / 'docs' / 'explain.md').read_text()
        sample = page.split('```\n')[3]
        self.assertTrue(sample.startswith('packet '))
        self.assertIn(sample, self.good(PCAPS / 'badicrc_send.pcap'))

    def test_other_troubles_are_told(self):
        for name, words in (
                ('rc_timeout_request', 'sent again (packet 1): no answer for 67.1 ms'),
                ('connectx5-rc-write-only-1024', 'the capture holds no answers'),
                ('rxe-read-request-pcapplusplus', 'the capture holds no answers'),
                ('gem5-ipv6-golden', '3 times an answer was to a PSN that was not sent'),
                ('rc_retry_exceeded', '1 request packet not acknowledged'),
                ('rc_rnr_nak', 'send it again, 41 ms from now at the earliest'),
                ('rc_rnr_nak', '5 times the responder had no receive posted'),
                ('rc_nak_rkey_write', 'remote access error (packet 5): the request failed'),
                ('rc_nak_qp_read', 'invalid request, MSN 0, answers packet 1'),
                ('rc_read_response_lost', 'PSN 0xaaf900 is missing before it'),
                ('rc_read_response_lost', 'from its response 3 on'),
                ('badicrc_send', 'wrong ICRC: damaged on its way'),
                ('cm_reject', 'reason 8: invalid service ID'),
                ('cm_rping', 'QPN 0x000164 accepts'),
                ('rc_dup_request', 'says nothing new'),
                ('uc_send', 'the QPN of their sender is not in them'),
                ('strom-fpga-placeholder-icrc', 'unreadable, 124 B frame: bad IP header')):
            text = self.good(PCAPS / f'{name}.pcap')
            words_only = re.sub(r'[│\s]+', ' ', text)
            self.assertIn(words, words_only, name)

    def test_a_capture_without_trouble_says_so(self):
        text = self.good(PCAPS / 'rc_mixed.pcap')
        self.assertIn('nothing went wrong', text)
        self.assertNotIn('again', text)
        self.assertNotIn('\n  !', text)

    def test_alike_packets_are_folded(self):
        text = self.good(PCAPS / 'rc_send.pcap')
        self.assertRegex(text, r'… +├┄┄ 60 x SEND Middle +PSN 0xbb290d to 0xbb2948  61440 B in all')
        self.assertLess(text.count('\n'), 40)
        self.assertIn('--all', text)
        self.assertNotIn('--all', self.good('--all', PCAPS / 'rc_send.pcap'))


class OptionsTest(ExplainCase):
    def test_qp_selects_connections(self):
        capture = PCAPS / 'cm_ucmatose.pcap'
        text = self.good('--qp', '0x9e', capture)
        self.assertIn('8 of 26 packets', text)
        self.assertNotIn('0x00009f', text)
        self.assertEqual(self.good('--qp', '158', capture), text)
        self.assertIn('packets 7 to 22 of 26', self.good('--qp', '0x9e', '--qp', '0x9f', capture))
        self.refused('--qp', '0x77', capture, says='no packet is selected')
        self.refused('--qp', '0x1000000', capture, says='is no QPN', status=2)
        self.refused('--qp', 'nine', capture, says='is no QPN', status=2)

    def test_from_and_count(self):
        text = self.good('--from', 6, '--count', 2, PCAPS / 'rc_seq_nak.pcap')
        self.assertEqual(ROW.findall(text), ['6', '7'])
        self.assertIn('; packets 6 to 7 of 10 are shown', text)
        self.assertIn('; packet 6 of 10 is shown',
                      self.good('--from', 6, '--count', 1, PCAPS / 'rc_seq_nak.pcap'))
        self.refused('--from', 11, PCAPS / 'rc_seq_nak.pcap', says='it has packets 1 to 10')
        for option in ('--from', '--count'):
            for number in ('0', '-3', 'x', '1.5', '4294967296'):
                self.refused(option, number, PCAPS / 'rc_seq_nak.pcap',
                             says=f'{option}: write a number from 1 to 4294967295', status=2)
        self.refused('--html', '-', PCAPS / 'rc_seq_nak.pcap', says='--html page.html', status=2)

    def test_what_is_summed_up_is_the_whole_whatever_is_shown(self):
        capture = PCAPS / 'rc_seq_nak.pcap'
        summary = self.good(capture)[self.good(capture).index('RC, 10.77.0.3'):]
        self.assertIn('every request was acknowledged in the end', summary)
        self.assertIn(summary, self.good('--from', 4, '--count', 2, capture))
        report = json.loads(self.good('--json', '--from', 4, '--count', 2, capture))
        self.assertEqual([packet['number'] for packet in report['packets']], [4, 5])
        self.assertEqual(report['packets_in_capture'], 10)
        self.assertEqual(report['connections'],
                         json.loads(self.good('--json', capture))['connections'])
        # Of a capture's other connections nothing is said.
        self.assertEqual(self.good('--qp', '0x9e', PCAPS / 'cm_ucmatose.pcap').count('RC, '), 1)

    def test_ascii(self):
        for name in ('rc_send', 'badicrc_send', 'cm_ucmatose'):
            text = self.good('--ascii', PCAPS / f'{name}.pcap')
            self.assertTrue(text.isascii())
        self.assertIn('-x|', self.good('--ascii', PCAPS / 'badicrc_send.pcap'))

    def on_a_terminal(self, **more):
        ours, theirs = pty.openpty()
        capture = PCAPS / 'rc_seq_nak.pcap'
        with subprocess.Popen([VERBENA, 'explain', capture], stdout=theirs,
                              env=environment(TERM='xterm', **more)) as process:
            os.close(theirs)
            text = b''
            try:
                while piece := os.read(ours, 65536):
                    text += piece
            except OSError:  # what Linux says at the end
                pass
            self.assertEqual(process.wait(LIMIT_S), 0)
        os.close(ours)
        return text.decode()

    def test_colours_on_a_terminal_only(self):
        self.assertIn('\033[', self.on_a_terminal())
        self.assertNotIn('\033', self.on_a_terminal(NO_COLOR='1'))
        self.assertNotIn('\033', self.good(PCAPS / 'rc_seq_nak.pcap', TERM='xterm'))

    def test_json_refers_to_packets_by_number(self):
        report = json.loads(self.good('--json', PCAPS / 'rc_seq_nak.pcap'))
        packet = report['packets'][6]
        self.assertEqual((packet['number'], packet['place'], packet['repeats'],
                          packet['because_of']), (7, 'again', 3, 6))
        self.assertEqual(report['connections'][0]['sent_again'], 3)
        self.assertEqual([side['qpn'] for side in report['connections'][0]['sides']],
                         [0x89, 0x151])


class PageTest(ExplainCase):
    def page(self, capture, *words):
        path = pathlib.Path(self.folder.name, 'page.html')
        self.good('--html', path, *words, capture)
        return path.read_text()

    def test_nothing_comes_from_elsewhere(self):
        for name in ('rc_seq_nak', 'cm_ucmatose', 'rc_send', 'ipv6_rc'):
            page = self.page(PCAPS / f'{name}.pcap')
            self.assertNotRegex(page, r'https?:|<[^>]+\bsrc=|url\(|@import|<link')
            self.assertIn("default-src 'none'", page)

    def test_each_packet_is_there_folded_or_not(self):
        page = self.page(PCAPS / 'rc_send.pcap')
        self.assertEqual(sorted(int(n) for n in re.findall(r'data-packet="(\d+)"', page)),
                         list(range(1, 80)))
        self.assertIn('60 packets</button>', page)
        self.assertNotIn('</button></', self.page(PCAPS / 'rc_send.pcap', '--all')
                         .split('<aside')[0])

    def test_links_lead_to_packets_that_are_there(self):
        for words in ((), ('--from', 5, '--count', 3)):
            page = self.page(PCAPS / 'rc_seq_nak.pcap', *words)
            links = set(re.findall(r'href="#p(\d+)"', page))
            self.assertTrue(links)
            self.assertLessEqual(links, set(re.findall(r'id="p(\d+)"', page)))

    def test_names_are_escaped(self):
        name = '<img src=x onerror=alert(1)>&"\'.pcap'
        page = self.page(self.file(name, (PCAPS / 'rc_seq_nak.pcap').read_bytes()))
        self.assertNotIn('<img', page)
        self.assertIn('<h1>&lt;img src=x onerror=alert(1)&gt;&amp;&quot;', page)

    def test_two_forms_at_once_are_refused(self):
        page = pathlib.Path(self.folder.name, 'page.html')
        self.refused('--html', page, '--json', PCAPS / 'rc_send.pcap', says='--html and --json',
                     status=2)
        self.assertFalse(page.exists())

    def test_a_page_that_cannot_be_written(self):
        capture = pathlib.Path(self.folder.name, 'mine.pcap')
        capture.write_bytes((PCAPS / 'rc_send.pcap').read_bytes())
        self.refused('--html', capture, capture, says='would overwrite the capture')
        self.assertEqual(capture.read_bytes(), (PCAPS / 'rc_send.pcap').read_bytes())
        self.refused('--html', self.folder.name + '/none/page.html', PCAPS / 'rc_send.pcap',
                     says='cannot be written: No such file or directory')


class FilesTest(ExplainCase):
    def test_pcapng_and_stdin_say_the_same(self):
        capture = PCAPS / 'rc_mixed.pcap'
        arrows = re.compile(r'PSN 0x\w+')
        expected = arrows.findall(self.good(capture))
        self.assertTrue(expected)
        converted = self.file('mixed.pcapng', pcapng(frames_of(capture)))
        self.assertEqual(arrows.findall(self.good(converted)), expected)
        self.assertEqual(arrows.findall(self.good('-', stdin=capture.read_bytes())), expected)

    def test_what_was_read_before_a_fault_is_shown(self):
        cut = self.file('cut.pcap', (PCAPS / 'rc_mixed.pcap').read_bytes()[:-5])
        result = run(cut)
        self.assertEqual(result.returncode, 0)
        self.assertIn('39 packets', result.stdout.decode())
        self.assertIn('shown is what comes before that', result.stderr.decode())

    def test_files_that_are_none(self):
        self.refused(self.folder.name + '/none.pcap', says='No such file')
        self.refused(self.folder.name, says='is a directory')
        self.refused(self.file('empty', b''), says='empty')
        self.refused(self.file('text', b'not a capture at all, but long enough for its magic'),
                     says='text: ')

    def test_no_roce_packet(self):
        header = (PCAPS / 'rc_mixed.pcap').read_bytes()[:24]
        nothing = self.file('nothing.pcap', header)
        self.refused(nothing, says='0 packets')
        arp = bytes(12) + b'\x08\x06' + bytes(46)
        other = self.file('arp.pcap', header + struct.pack('<IIII', 1, 0, 60, 60) + arp)
        self.refused(other, says='1 frame left out that is no RoCEv2')


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], '-v'])
