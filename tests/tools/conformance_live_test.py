#!/usr/bin/env python3
"""`verbena conformance run --target` against a responder played here, on a veth pair.

The responder is a few lines of Python behind raw sockets, with an agent of its own: it answers as the rules
say, or deviates in one point, and the tool must see which. Everything is in namespaces of the test's own, so
no root is needed; where namespaces may not be made, the test is skipped.
"""
import json
import os
import pathlib
import selectors
import socket
import struct
import subprocess
import sys
import unittest
import zlib

VERBENA = os.environ['VERBENA']
RULES = pathlib.Path(__file__).resolve().parents[2] / 'pcaps' / 'rules'
TARGET, TESTER = '198.51.100.1', '198.51.100.2'
PORT = 18515
SEND_ONLY, ACKNOWLEDGE = 0x04, 0x11
QPN = 0x4321


class Responder:
    """One queue pair that takes SEND Only packets. `flaw` is what it does wrong."""

    def __init__(self, flaw):
        self.flaw = flaw
        self.wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        self.wire.bind(('target', 0))
        self.open({})

    def open(self, request):
        qp = request.get('qps', [{'rq_psn': 0, 'peer_qpn': 0}])[0]
        self.epsn, self.peer_qpn = qp['rq_psn'], qp['peer_qpn']
        self.msn, self.gap, self.completions = 0, False, []
        self.recvs, self.posted = request.get('recvs', []), []
        self.buffers = [bytes(recv['bytes']) for recv in self.recvs]

    # ---- The agent ----

    def answer(self, request):
        if request['do'] == 'open':
            if self.flaw == 'refuses':
                return {'error': 'ibv_create_qp: Cannot allocate memory'}
            self.open(request)
            return {'qps': [QPN], 'keys': []}
        if request['do'] == 'recv':
            self.posted.append(request['index'])
        if request['do'] == 'result':
            return {'completions': self.completions, 'memories': [], 'states': ['RTS'],
                    'buffers': [buffer.hex() for buffer in self.buffers]}
        return {}

    # ---- The device ----

    def receive(self):
        frame = self.wire.recv(4096)
        if frame[23] != 17 or struct.unpack_from('>H', frame, 36)[0] != 4791:
            return
        ip = frame[14:14 + struct.unpack_from('>H', frame, 16)[0]]
        if icrc(ip[:-4]) != ip[-4:] or self.flaw == 'silent':
            return
        opcode, flags = ip[28], ip[29]
        qpn, psn = (int.from_bytes(ip[at:at + 3], 'big') for at in (33, 37))
        if opcode != SEND_ONLY or qpn != QPN:
            return
        self.request(frame, psn, ip[40:len(ip) - 4 - (flags >> 4 & 3)])

    def request(self, frame, psn, payload):
        ahead = (psn - self.epsn + 2**23) % 2**24 - 2**23
        if ahead > 0:
            if not self.gap or self.flaw == 'naks each':
                self.send(frame, self.epsn, 0x60)
            self.gap = True
            return
        if ahead == 0:
            self.gap = False
            self.epsn = (self.epsn + 1) % 2**24
            self.msn += 1
            self.take(payload)
        self.send(frame, (self.epsn - 1) % 2**24, 0x1F)

    def take(self, payload):
        index = self.posted.pop(0)
        if self.flaw == 'changes a byte':
            payload = bytes([payload[0] ^ 1]) + payload[1:]
        self.buffers[index] = payload
        self.completions.append({'recv': index, 'status': 0, 'opcode': 128, 'byte_len': len(payload),
                                 'src_qpn': self.peer_qpn})

    def send(self, request, psn, syndrome):
        msn = self.msn + (1 if self.flaw == 'miscounts' else 0)
        bth = struct.pack('>BBHII', ACKNOWLEDGE, 0x40, 0xFFFF, self.peer_qpn, psn)
        transport = bth + struct.pack('>I', syndrome << 24 | msn)
        header = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 28 + len(transport) + 4, 7, 0x4000, 64, 17, 0,
                             socket.inet_aton(TARGET), socket.inet_aton(TESTER))
        header = header[:10] + struct.pack('>H', checksum(header)) + header[12:]
        packet = header + struct.pack('>HHHH', 0xC000, 4791, 8 + len(transport) + 4, 0) + transport
        self.wire.send(request[6:12] + request[0:6] + b'\x08\x00' + packet + icrc(packet))


def icrc(packet):
    masked = bytearray(packet)
    masked[1] = masked[8] = masked[32] = 0xFF
    masked[10:12] = masked[26:28] = b'\xff\xff'
    return struct.pack('<I', zlib.crc32(b'\xff' * 8 + bytes(masked)))


def checksum(header):
    total = sum(struct.unpack('>10H', header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def respond(flaw):
    """Both parts of the responder, in one thread: what is asked over TCP, and what comes by the wire."""
    responder = Responder(flaw)
    listener = socket.create_server(('', PORT))
    selector = selectors.DefaultSelector()
    selector.register(responder.wire, selectors.EVENT_READ, None)
    selector.register(listener, selectors.EVENT_READ, None)
    print('ready', flush=True)
    while True:
        for key, _ in selector.select():
            if key.fileobj is responder.wire:
                responder.receive()
            elif key.fileobj is listener:
                connection, _ = listener.accept()
                selector.register(connection, selectors.EVENT_READ, connection.makefile('rw'))
            else:
                line = key.data.readline()
                if not line:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    continue
                key.data.write(json.dumps(responder.answer(json.loads(line))) + '\n')
                key.data.flush()


def ip(*arguments, pid=None):
    inside = ['nsenter', '-t', str(pid), '-n'] if pid else []
    subprocess.run([*inside, 'ip', *arguments], check=True)


class LiveTest(unittest.TestCase):
    def start(self, flaw=''):
        """A responder in a network namespace of its own, with a wire to this one."""
        subprocess.run(['ip', 'link', 'del', 'tester'], stderr=subprocess.DEVNULL)
        wait_then = ['unshare', '-n', 'sh', '-c', 'echo; read _; exec "$@"', 'sh']
        child = subprocess.Popen([*wait_then, sys.executable, __file__, '--respond', flaw],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        child.stdout.readline()
        ip('link', 'add', 'tester', 'type', 'veth', 'peer', 'name', 'target', 'netns', str(child.pid))
        ip('addr', 'add', TESTER + '/24', 'dev', 'tester')
        ip('link', 'set', 'tester', 'up')
        ip('addr', 'add', TARGET + '/24', 'dev', 'target', pid=child.pid)
        ip('link', 'set', 'target', 'up', pid=child.pid)
        child.stdin.write('\n')
        child.stdin.flush()
        self.assertEqual(child.stdout.readline(), 'ready\n')

    def run_cases(self, *names, more=()):
        cases = [str(RULES / f'{name}.toml') for name in names]
        result = subprocess.run([VERBENA, 'conformance', 'run', '--target', TARGET, *more, *cases],
                                capture_output=True, text=True, timeout=60)
        return result.returncode, result.stdout + result.stderr

    def test_right_device_passes(self):
        self.start()
        status, text = self.run_cases('rsp-psn-wrap', 'rsp-gap-nak-once', 'hdr-icrc', 'rsp-duplicate-send')
        self.assertEqual((status, text), (0, '4 passed, 0 failed\n'))

    def test_requester_cases_are_not_played(self):
        self.start()
        status, text = self.run_cases('req-send-0', 'hdr-ipv6', 'rsp-psn-wrap', more=['-v'])
        self.assertEqual(status, 0, text)
        self.assertIn('the device is the requester in it', text)
        self.assertIn('it is over IPv6', text)
        self.assertIn('1 passed, 0 failed', text)

    def test_wrong_msn_is_seen(self):
        self.start('miscounts')
        status, text = self.run_cases('rsp-psn-wrap')
        self.assertEqual(status, 1, text)
        self.assertIn('msn: expected 1, the target sent 2', text)

    def test_too_many_naks_are_seen(self):
        self.start('naks each')
        status, text = self.run_cases('rsp-gap-nak-once')
        self.assertEqual(status, 1, text)
        self.assertIn('0 passed, 1 failed', text)

    def test_wrong_memory_is_seen(self):
        self.start('changes a byte')
        status, text = self.run_cases('rsp-first-psn')
        self.assertEqual(status, 1, text)
        self.assertIn('the buffer of [[recv]] 1: byte 0 is', text)

    def test_silence_is_explained(self):
        self.start('silent')
        status, text = self.run_cases('rsp-first-psn')
        self.assertEqual(status, 1, text)
        self.assertIn('the target sends nothing', text)
        self.assertIn('The target sent no RoCEv2 packet at all on tester', text)

    def test_refusal_of_the_agent_is_said(self):
        self.start('refuses')
        status, text = self.run_cases('rsp-first-psn')
        self.assertEqual(status, 1, text)
        self.assertIn('the target says: ibv_create_qp: Cannot allocate memory', text)

    def test_missing_agent_is_explained(self):
        self.start()
        status, text = self.run_cases('rsp-first-psn', more=['--port', '9'])
        self.assertEqual(status, 1, text)
        self.assertIn('nobody answers at 198.51.100.1, TCP port 9', text)
        self.assertIn('verbena-conformance-target --port 9', text)

    def test_unreachable_target_is_explained(self):
        result = subprocess.run([VERBENA, 'conformance', 'run', '--target', '203.0.113.1', str(RULES)],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertIn('there is no way to 203.0.113.1', result.stderr)


if __name__ == '__main__':
    if sys.argv[1:2] == ['--respond']:
        respond(sys.argv[2])
    elif os.environ.get('INSIDE'):
        unittest.main()
    else:
        inside = ['unshare', '--user', '--map-root-user', '--net', '--fork', '--kill-child']
        if subprocess.run([*inside, 'true'], capture_output=True).returncode != 0:
            print('namespaces may not be made here')
            sys.exit(77)
        sys.exit(subprocess.run([*inside, sys.executable, __file__, *sys.argv[1:]],
                                env={**os.environ, 'INSIDE': '1'}).returncode)
