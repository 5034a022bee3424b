#!/usr/bin/env python3
"""Tests check_capture.py: right captures pass, and each kind of fault is found.

  check_capture_test.py PCAP_DIR
"""

import importlib.util
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "check_capture.py"
PCAP_DIR = pathlib.Path(sys.argv.pop(1))
WRONG = {"badicrc_send.pcap", "strom-fpga-placeholder-icrc.pcap"}

spec = importlib.util.spec_from_file_location("check_capture", SCRIPT)
check_capture = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_capture)


def run(*files):
    command = [sys.executable, str(SCRIPT), "--json", "--no-tshark", *map(str, files)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, json.loads(result.stdout) if result.stdout else None


def frames_of(name):
    return [frame for _, frame, _ in check_capture.packets(PCAP_DIR / name)]


def pcap(frames, order="<"):
    data = struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for frame in frames:
        data += struct.pack(order + "IIII", 0, 0, len(frame), len(frame)) + frame
    return data


def pcapng_block(order, kind, body):
    body += b"\0" * (-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def pcapng(frames, order="<"):
    """One section; between the packets a block of a kind that readers must skip."""
    data = pcapng_block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    data += pcapng_block(order, 1, struct.pack(order + "HHI", 1, 0, 0))
    for frame in frames:
        head = struct.pack(order + "IIIII", 0, 0, 0, len(frame), len(frame))
        comment = struct.pack(order + "HH4sHH", 1, 4, b"text", 0, 0)
        padded = frame + b"\0" * (-len(frame) % 4)
        data += pcapng_block(order, 6, head + padded + comment)
        data += pcapng_block(order, 0x0BAD, b"skip me")
    return data


class CheckCapture(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def check(self, data):
        path = pathlib.Path(self.folder.name) / "capture"
        path.write_bytes(data)
        return run(path)

    def test_right_captures_pass(self):
        files = [path for path in PCAP_DIR.glob("*.pcap") if path.name not in WRONG]
        status, reports = run(*files)
        self.assertEqual(status, 0)
        self.assertGreater(len(reports), 40)
        for report in reports:
            self.assertEqual(report["right"], report["frames"], report["file"])

    def test_corrupted_frame_is_named(self):
        status, (report,) = run(PCAP_DIR / "badicrc_send.pcap")
        self.assertEqual(status, 1)
        self.assertEqual((report["roce"], report["right"]), (7, 6))
        self.assertRegex(report["faults"][0], "^frame 2: ICRC is ")

    def test_placeholder_icrcs_fail(self):
        status, (report,) = run(PCAP_DIR / "strom-fpga-placeholder-icrc.pcap")
        self.assertEqual((status, report["right"], len(report["faults"])), (1, 0, 5))

    def test_every_container_gives_the_same_result(self):
        frames = frames_of("rc_mixed.pcap")
        for container in (pcap, pcapng):
            for order in "<>":
                status, (report,) = self.check(container(frames, order))
                self.assertEqual((status, report["right"]), (0, 40))
                self.assertEqual(report["opcodes"]["RC READ Request"], 4)

    def test_flipped_bits_are_found_unless_routers_change_them(self):
        frame = frames_of("rc_send_imm.pcap")[0]
        damaged = [frame[:i] + bytes([frame[i] ^ 1]) + frame[i + 1:] for i in range(14, len(frame))]
        status, (report,) = self.check(pcap(damaged))
        # The four that are no RoCEv2 any more: IP header length, protocol, both bytes of the port.
        # Only BTH byte 4 is in no checksum and not in the ICRC.
        no_roce = {14, 23, 36, 37}
        faulty = {int(fault.split()[1].rstrip(":")) + 13 for fault in report["faults"]}
        self.assertEqual(status, 1)
        self.assertEqual(faulty, set(range(14, len(frame))) - no_roce - {46})
        self.assertEqual(report["right"], 1)

    def test_length_faults(self):
        frame = frames_of("rc_send_solicited.pcap")[0]
        self.assertEqual(self.check(pcap([frame[:-1]]))[0], 1)
        self.assertEqual(self.check(pcap([frame + b"padding of Ethernet"]))[0], 0)

    def test_nothing_to_check_is_a_fault(self):
        status, (report,) = self.check(pcap([]))
        self.assertEqual((status, report["faults"]), (1, ["no RoCEv2 frame"]))

    def test_unreadable_files(self):
        whole = pcap(frames_of("rc_mixed.pcap"))
        self.assertEqual(self.check(whole[:-5])[0], 2)
        self.assertEqual(self.check(b"text")[0], 2)
        self.assertEqual(run(PCAP_DIR / "no such file")[0], 2)


if __name__ == "__main__":
    unittest.main()
