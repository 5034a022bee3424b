#!/usr/bin/env python3
"""Checks capture files: are every RoCEv2 frame's ICRC, lengths and checksums right, and does tshark
find malformed ones?

Independent of Verbena's own code: file formats, headers and the ICRC (zlib's CRC-32) are done here
with Python's standard library. Reads pcap and pcapng of link type Ethernet and raw IP.

  check_capture.py [--json] [--no-tshark] FILE...

Exit status 0: every RoCEv2 frame of every file is right, and each file has at least one.
1: something is wrong (the report says what). 2: a file could not be read.

tshark, when installed, is asked for malformed packets. Those with 0 to 4 bytes after the transport
headers are not held against the capture: tshark 4.0 tries other protocols on small payloads and
calls the result malformed.
"""

import argparse
import collections
import json
import shutil
import struct
import subprocess
import sys
import zlib

ROCE_PORT = 4791
LINK_ETHERNET = 1
LINK_RAW_IP = (12, 101, 228, 229)
# Microseconds and nanoseconds, little and big endian.
PCAP_MAGICS = (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d")
MAX_REPORTED = 20
# Not all expert errors: tshark counts a UDP checksum of 0 over IPv6 as one, and RoCEv2 has that.
TSHARK_FILTER = "_ws.malformed"
# Protocols that tshark believes to recognise in a payload; it calls others' bytes malformed then.
TSHARK_GUESSES = ("smc", "smb_direct", "rpcordma", "nvme-rdma", "lnet", "iser", "infiniband_sdp",
                  "fcoib", "eoib")

OPERATIONS = [
    "SEND First", "SEND Middle", "SEND Last", "SEND Last Imm", "SEND Only", "SEND Only Imm",
    "WRITE First", "WRITE Middle", "WRITE Last", "WRITE Last Imm", "WRITE Only", "WRITE Only Imm",
    "READ Request", "READ Response First", "READ Response Middle", "READ Response Last",
    "READ Response Only", "Acknowledge", "Atomic Acknowledge", "CmpSwap", "FetchAdd", None,
    "SEND Last Inv", "SEND Only Inv",
]
TRANSPORTS = {0x00: "RC", 0x20: "UC", 0x60: "UD"}
BASE_HEADER_BYTES = 12
RC_HEADER_BYTES = {0x03: 16, 0x05: 16, 0x06: 28, 0x09: 16, 0x0A: 28, 0x0B: 32, 0x0C: 28, 0x0D: 16,
                   0x0F: 16, 0x10: 16, 0x11: 16, 0x12: 24, 0x13: 40, 0x14: 40, 0x16: 16, 0x17: 16}


class CaptureError(Exception):
    pass


def read_exactly(data, offset, count):
    if offset + count > len(data):
        raise CaptureError(f"file ends inside a record at byte {offset}")
    return data[offset:offset + count]


def pcap_packets(data):
    order = "<" if data[:4] in PCAP_MAGICS[:2] else ">"
    link = struct.unpack(order + "I", read_exactly(data, 20, 4))[0] & 0xFFFF
    offset = 24
    while offset < len(data):
        captured, original = struct.unpack(order + "II", read_exactly(data, offset, 16)[8:])
        yield link, read_exactly(data, offset + 16, captured), captured < original
        offset += 16 + captured


def pcapng_packets(data):
    offset, order, links = 0, "<", []
    while offset < len(data):
        kind = read_exactly(data, offset, 12)[:4]
        if kind == b"\x0a\x0d\x0d\x0a":  # a section begins: its byte order, interfaces afresh
            order = "<" if data[offset + 8:offset + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            links = []
        kind, length = struct.unpack(order + "II", data[offset:offset + 8])
        if length < 12 or length % 4:
            raise CaptureError(f"block of impossible length {length} at byte {offset}")
        body = read_exactly(data, offset, length)[8:-4]
        if kind == 1:
            links.append(struct.unpack(order + "H", body[:2])[0])
        elif kind == 6:
            interface, _, _, captured, original = struct.unpack(order + "5I", body[:20])
            yield links[interface], read_exactly(body, 20, captured), captured < original
        elif kind == 3:
            original = struct.unpack(order + "I", body[:4])[0]
            captured = min(original, len(body) - 4)
            yield links[0], body[4:4 + captured], captured < original
        offset += length


def packets(path):
    """Yields (link type, bytes, was cut short)."""
    with open(path, "rb") as file:
        data = file.read()
    magic = data[:4]
    if magic == b"\x0a\x0d\x0d\x0a":
        return pcapng_packets(data)
    if magic in PCAP_MAGICS:
        return pcap_packets(data)
    raise CaptureError("neither pcap nor pcapng")


def ip_packet(link, frame):
    """The bytes from the IP header on, or None."""
    if link in LINK_RAW_IP:
        return frame
    if link != LINK_ETHERNET:
        raise CaptureError(f"link type {link} is neither Ethernet nor raw IP")
    offset = 12
    while frame[offset:offset + 2] in (b"\x81\x00", b"\x88\xa8"):
        offset += 4
    if frame[offset:offset + 2] in (b"\x08\x00", b"\x86\xdd"):
        return frame[offset + 2:]
    return None


def roce_packet(ip):
    """(IP header length, IP packet without trailing bytes), or None when it is not RoCEv2."""
    if ip is None or len(ip) < 20:
        return None
    if ip[0] >> 4 == 4:
        header, total, protocol = (ip[0] & 15) * 4, struct.unpack(">H", ip[2:4])[0], ip[9]
    elif ip[0] >> 4 == 6 and len(ip) >= 40:
        header, total, protocol = 40, 40 + struct.unpack(">H", ip[4:6])[0], ip[6]
    else:
        return None
    if protocol != 17 or ip[header + 2:header + 4] != struct.pack(">H", ROCE_PORT):
        return None
    return header, ip[:total], total


def icrc(ip, header):
    """Of an IP packet without its last four bytes."""
    masked = bytearray(ip)
    if ip[0] >> 4 == 4:
        ones = [1, 8, 10, 11]
    else:
        ones = [1, 2, 3, 7]
        masked[0] |= 0x0F
    for offset in ones + [header + 6, header + 7, header + 12]:
        masked[offset] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def internet_sum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data[:len(data) // 2 * 2]))
    total += data[-1] << 8 if len(data) % 2 else 0
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def checksum_fault(header, ip):
    """IPv4 header checksum, and the UDP checksum when there is one."""
    if ip[0] >> 4 == 4 and internet_sum(ip[:header]) != 0xFFFF:
        return "IPv4 header checksum is wrong"
    if ip[header + 6:header + 8] == b"\0\0":
        return None
    addresses = ip[12:20] if ip[0] >> 4 == 4 else ip[8:40]
    pseudo = addresses + struct.pack(">HH", 17, len(ip) - header)
    return "UDP checksum is wrong" if internet_sum(pseudo + ip[header:]) != 0xFFFF else None


def opcode_name(opcode):
    if opcode == 0x81:
        return "CNP"
    operation = opcode & 0x1F
    name = OPERATIONS[operation] if operation < len(OPERATIONS) else None
    transport = TRANSPORTS.get(opcode & 0xE0)
    return f"{transport} {name}" if name and transport else f"opcode 0x{opcode:02x}"


def header_bytes(opcode):
    if opcode == 0x81:
        return 28
    return RC_HEADER_BYTES.get(opcode & 0x1F, BASE_HEADER_BYTES) + (8 if opcode >> 5 == 3 else 0)


def fault_of(header, ip, total):
    """What is wrong with a RoCEv2 packet, or None."""
    if len(ip) < total:
        return "packet is cut short"
    if total < header + 8 + BASE_HEADER_BYTES + 4:
        return "too short for BTH and ICRC"
    if struct.unpack(">H", ip[header + 4:header + 6])[0] != total - header:
        return "UDP length contradicts the IP length"
    if (total - header) % 4:
        return "length is no multiple of 4: pad bytes are missing"
    computed = icrc(ip[:-4], header)
    if computed != ip[-4:]:
        return f"ICRC is {ip[-4:].hex()}, should be {computed.hex()}"
    return checksum_fault(header, ip)


def check_file(path):
    report = {"file": path, "frames": 0, "roce": 0, "right": 0, "opcodes": {}, "faults": []}
    opcodes = collections.Counter()
    payload_bytes = {}  # by frame number, as tshark counts
    for number, (link, frame, cut) in enumerate(packets(path), 1):
        report["frames"] += 1
        found = roce_packet(ip_packet(link, frame))
        if found is None:
            continue
        header, ip, total = found
        report["roce"] += 1
        fault = "packet is cut short by the capture" if cut else fault_of(header, ip, total)
        if len(ip) > header + 9:
            opcode, pad = ip[header + 8], ip[header + 9] >> 4 & 3
            opcodes[opcode_name(opcode)] += 1
            payload_bytes[number] = total - header - 8 - header_bytes(opcode) - pad - 4
        if fault is None:
            report["right"] += 1
        else:
            report["faults"].append(f"frame {number}: {fault}")
    report["opcodes"] = dict(sorted(opcodes.items()))
    if report["roce"] == 0:
        report["faults"].append("no RoCEv2 frame")
    return report, payload_bytes


def tshark_malformed(path, payload_bytes):
    """Frame numbers that tshark calls malformed (small payloads excepted), and how many were."""
    command = ["tshark", "-n", "-r", path, "-Y", TSHARK_FILTER, "-T", "fields", "-e",
               "frame.number"]
    for protocol in TSHARK_GUESSES:
        command += ["--disable-protocol", protocol]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CaptureError("tshark: " + result.stderr.strip().splitlines()[-1])
    numbers = [int(line) for line in result.stdout.split()]
    held = [n for n in numbers if not 0 <= payload_bytes.get(n, -1) <= 4]
    return held, len(numbers) - len(held)


def print_report(report):
    state = "ok" if not report["faults"] else "WRONG"
    print(f"{report['file']}: {state}: {report['frames']} frames, {report['roce']} RoCEv2, "
          f"{report['right']} right")
    for name, count in report["opcodes"].items():
        print(f"  {count:8}  {name}")
    if report.get("tshark_small_payloads"):
        print(f"  {report['tshark_small_payloads']} small payloads that tshark takes for malformed")
    for fault in report["faults"][:MAX_REPORTED]:
        print(f"  {fault}")
    if len(report["faults"]) > MAX_REPORTED:
        print(f"  and {len(report['faults']) - MAX_REPORTED} more")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print a JSON array, one object a file")
    parser.add_argument("--no-tshark", action="store_true", help="do not run tshark")
    options = parser.parse_args()
    with_tshark = not options.no_tshark and shutil.which("tshark") is not None

    reports = []
    for path in options.files:
        try:
            report, payload_bytes = check_file(path)
            report["tshark"] = with_tshark
            if with_tshark:
                held, report["tshark_small_payloads"] = tshark_malformed(path, payload_bytes)
                report["faults"] += [f"frame {n}: tshark finds it malformed" for n in held]
        except (OSError, CaptureError, struct.error, IndexError) as error:
            print(f"{path}: cannot be read: {error}", file=sys.stderr)
            return 2
        reports.append(report)
    if options.json:
        print(json.dumps(reports, indent=1))
    else:
        for report in reports:
            print_report(report)
    return 1 if any(report["faults"] for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
