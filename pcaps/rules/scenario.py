"""Scenarios: what happens between a device and a peer that the case speaks for, in order.

A scenario is a list of steps: packets of `peer` and of `dut` (the device under test), what the device's
application does (recv, send, store, modify), and time (wait). Steps may be nested lists: a message is the
list of its packets, so peer.send(0, 700)[1:] is the message without its first packet. What the device is
to send stands here because a rule says so; no device is asked.
"""
import dataclasses

from frame import Frame, Host

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(0x00, 0x06)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(0x06, 0x0C)
READ_REQUEST, RESPONSE_FIRST, RESPONSE_MIDDLE, RESPONSE_LAST, RESPONSE_ONLY = range(0x0C, 0x11)
ACKNOWLEDGE = 0x11
UD_SEND_ONLY, UD_SEND_ONLY_IMM = 0x64, 0x65
CNP = 0x81

SEQUENCE, INVALID, ACCESS, OPERATIONAL = 0x60, 0x61, 0x62, 0x63
NO_CREDITS = 0x1F

MTU = 256
# A region of the device with all rights, and one of the peer.
VA, KEY = 0x10000000, 0x1100
PEER_VA, PEER_KEY = 0x20000000, 0x2200
QKEY = 0x11111111

DUT = Host('02:00:5e:10:00:01', '192.0.2.1', 0x11)
PEER = Host('02:00:5e:10:00:02', '192.0.2.2', 0x22)
STRANGER = Host('02:00:5e:10:00:03', '192.0.2.3', 0x33)

US, MS, S = 10**3, 10**6, 10**9
RNR_HUNDREDTHS_OF_MS = (65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
                        1024,
                        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152)


def ack_timeout(code):
    return 4096 << code


def rnr_delay(code):
    return RNR_HUNDREDTHS_OF_MS[code] * 10 * US


def pattern(seed, size, start=0):
    """The bytes that a case file calls "pattern SEED"."""
    return bytes((i * 0x9E3779B1 + seed * 0x85EBCA6B) % 2**32 >> 24 for i in range(start, start + size))


# ---- Packets ----

@dataclasses.dataclass
class Packet:
    from_dut: bool
    fields: dict
    optional: bool = False   # a rule leaves it to the device to send it
    open_fields: tuple = ()  # fields that a rule leaves to the device

    def frame(self, dut, other):
        ends = {'source': dut, 'dest': other} if self.from_dut else {'source': other, 'dest': dut}
        return Frame(**(ends | self.fields))


class Side:
    """Makes the packets of one of the two."""

    def __init__(self, from_dut):
        self.from_dut = from_dut

    def packet(self, opcode, psn, payload=b'', **fields):
        return Packet(self.from_dut, {'opcode': opcode, 'psn': psn % 2**24, 'payload': payload} | fields)

    def send(self, psn, size=64, seed=1, **more):
        return self._message(SEND_FIRST, psn, size, seed, **more)

    def write(self, psn, size=64, seed=1, va=None, key=None, **more):
        va, key = self._remote(va, key)
        return self._message(WRITE_FIRST, psn, size, seed, va=va, rkey=key, **more)

    def read(self, psn, size=64, va=None, key=None, **fields):
        va, key = self._remote(va, key)
        return self.packet(READ_REQUEST, psn, ack_req=True, va=va, rkey=key, length=size, **fields)

    def responses(self, psn, size=64, msn=1, seed=7, at=0, mtu=MTU):
        """The answer to a READ of `size` bytes from byte `at` of pattern `seed` on."""
        count = max(1, -(-size // mtu))
        data = pattern(seed, size, at)
        packets = []
        for i in range(count):
            opcode = RESPONSE_MIDDLE
            if i == 0:
                opcode = RESPONSE_ONLY if count == 1 else RESPONSE_FIRST
            elif i == count - 1:
                opcode = RESPONSE_LAST
            packets.append(self.packet(opcode, psn + i, data[i * mtu:(i + 1) * mtu], syndrome=NO_CREDITS,
                                       msn=msn))
        return packets

    def ack(self, psn, msn, syndrome=NO_CREDITS):
        return self.packet(ACKNOWLEDGE, psn, syndrome=syndrome, msn=msn)

    def nak(self, psn, syndrome, msn):
        return self.ack(psn, msn, syndrome)

    def rnr(self, psn, timer, msn):
        return self.ack(psn, msn, 0x20 | timer)

    def datagram(self, psn, size=64, seed=1, qkey=QKEY, imm=None, **fields):
        fields = {'qkey': qkey, 'source_qpn': (DUT if self.from_dut else PEER).qpn} | fields
        if imm is not None:
            fields['imm'] = imm
        return self.packet(UD_SEND_ONLY if imm is None else UD_SEND_ONLY_IMM, psn, pattern(seed, size),
                           **fields)

    def _remote(self, va, key):
        own = (PEER_VA, PEER_KEY) if self.from_dut else (VA, KEY)
        return own[0] if va is None else va, own[1] if key is None else key

    def _message(self, first, psn, size, seed, imm=None, solicited=False, ack=True, ack_every=32, mtu=MTU,
                 **fields):
        """A SEND or WRITE cut at the path MTU. `ack`: whether its last packet asks for one."""
        count = max(1, -(-size // mtu))
        data = pattern(seed, size)
        packets = []
        for i in range(count):
            begins, ends = i == 0, i == count - 1
            position = 4 if begins and ends else 0 if begins else 2 if ends else 1
            if ends and imm is not None:
                position += 1
            more = dict(fields)
            if begins and first == WRITE_FIRST:
                more['length'] = size
            if ends and imm is not None:
                more['imm'] = imm
            packets.append(self.packet(first + position, psn + i, data[i * mtu:(i + 1) * mtu],
                                       ack_req=ack if ends else ack and (i + 1) % ack_every == 0,
                                       solicited=solicited and ends, **more))
        return packets


peer, dut = Side(False), Side(True)


def optional(packet):
    return dataclasses.replace(packet, optional=True)


def leave_open(packets, *fields):
    return [dataclasses.replace(packet, open_fields=fields) for packet in packets]


# ---- The device's application, and time ----

@dataclasses.dataclass
class Action:
    """A table of the case file that happens at its place in the scenario."""
    table: str
    keys: dict


@dataclasses.dataclass
class Wait:
    ns: int


def wait(ns):
    return Wait(ns)


def recv(size=64, seed=1, got=None, status='SUCCESS', **completion):
    """A receive of `size` bytes, which `got` bytes of pattern `seed` fill. status None: it stays posted;
    "A or B": either."""
    got = size if got is None else got
    keys = {'bytes': size}
    if status == 'SUCCESS':
        if completion.get('opcode', 'RECV') == 'RECV' and got:
            keys['expect'] = f'pattern {seed}'
            if got < size:
                keys['expect'] = 'hex ' + pattern(seed, got).hex()
        keys['completion'] = {'status': status, 'opcode': 'RECV', 'byte_len': got} | completion
    elif status:
        first, *others = status.split(' or ')
        keys['completion'] = {'status': first} | ({'or': others} if others else {}) | completion
    return Action('recv', keys)


def idle(size=64):
    return recv(size, status=None)


def flushed(size=64):
    return recv(size, status='WR_FLUSH_ERR')


def send(opcode='SEND', size=64, seed=1, status='SUCCESS', flags=('SIGNALED',), **more):
    """A work request. status None: no completion is expected."""
    keys = {'opcode': opcode, 'flags': list(flags), 'bytes': size}
    if 'WRITE' in opcode or opcode == 'RDMA_READ':
        keys |= {'remote_va': PEER_VA, 'rkey': PEER_KEY}
    if opcode == 'RDMA_READ':
        if status == 'SUCCESS' and size:
            keys['expect'] = f'pattern {seed}'
    elif size:
        keys['data'] = f'pattern {seed}'
    keys |= more
    if status == 'SUCCESS':
        keys['completion'] = {'status': status, 'opcode': opcode.removesuffix('_WITH_IMM')}
        if opcode == 'RDMA_READ':
            keys['completion']['byte_len'] = size
    elif status:
        keys['completion'] = status
    return Action('send', keys)


def flushed_send(opcode='SEND', size=64, **more):
    return send(opcode, size, status='WR_FLUSH_ERR', **more)


def store(data, va=VA):
    return Action('store', {'va': va, 'data': data})


def modify(state):
    return Action('modify', {'state': state})


# ---- What stands before ----

def rc(**changes):
    """The device's queue pair, and what of it the case changes."""
    return {'type': 'RC', 'path_mtu': str(MTU), 'rq_psn': 0, 'sq_psn': 0,
            'access': ['REMOTE_WRITE', 'REMOTE_READ'],
            'timeout': 14, 'retry_cnt': 7, 'rnr_retry': 7, 'min_rnr_timer': 12, 'state': 'RTS'} | changes


def ud(**changes):
    return {'type': 'UD', 'qkey': QKEY, 'state': 'RTS'} | changes


def memory(size=4096, seed=7, va=VA, key=KEY, access=('LOCAL_WRITE', 'REMOTE_WRITE', 'REMOTE_READ'),
           expect=()):
    """A region that holds pattern `seed`; `expect` are pairs of an offset and what is there at the end."""
    keys = {'va': va, 'bytes': size, 'key': key, 'access': list(access),
            'contents': [{'data': f'pattern {seed}'}]}
    if expect:
        keys['expect'] = [{'offset': offset, 'data': data} for offset, data in expect]
    return keys


def written(size, seed=1, offset=0, start=0):
    """The part of a region that a WRITE of pattern `seed` has changed."""
    return offset, 'hex ' + pattern(seed, size, start).hex()


# ---- Cases ----

@dataclasses.dataclass
class Case:
    name: str
    rules: list
    title: str
    qp: dict
    steps: list
    memories: list = dataclasses.field(default_factory=list)
    events: list = dataclasses.field(default_factory=list)
    counters: dict = dataclasses.field(default_factory=dict)
    device: dict = dataclasses.field(default_factory=dict)
    options: dict = dataclasses.field(default_factory=dict)
    compare: dict = dataclasses.field(default_factory=dict)
    hosts: tuple = (DUT, PEER)
    waits_for: str = ''


CASES = []


def case(name, rules, title, qp, steps, compare=None, merged_acks=False, **more):
    """`merged_acks`: the device may answer more or fewer requests by one ACK than the scenario shows."""
    steps = list(flat(steps))
    answers = any(isinstance(step, Packet) and step.from_dut and step.fields['opcode'] == ACKNOWLEDGE
                  for step in steps)
    exact = {'exact_acks': True} if answers and not merged_acks else {}
    CASES.append(Case(name, rules.split(), title, qp, steps, compare=exact | (compare or {}), **more))


def flat(steps):
    for step in steps:
        if isinstance(step, (list, tuple)):
            yield from flat(step)
        else:
            yield step
