"""Writes a scenario as a capture and a case file."""
from frame import pcap
from scenario import US, Action, Packet, Wait

PEER_STEP = 10 * US  # between what came before and a packet of the peer
DUT_STEP = 1 * US
HEX_KEYS = {'qpn', 'key', 'rkey', 'lkey', 'va', 'remote_va', 'qkey', 'imm', 'src_qpn', 'sq_psn', 'rq_psn'}


class Emitter:
    def __init__(self, case, source):
        self.case = case
        self.source = source
        self.clock = 0
        self.frames = []
        self.tables = []
        self.waited = False
        self.optional = []
        self.ignored = []

    def files(self):
        for step in self.case.steps:
            self._add(step)
        return pcap(self.frames), self._toml()

    def _add(self, step):
        if isinstance(step, Wait):
            self.clock += step.ns
            self.waited = True
        elif isinstance(step, Packet):
            self.clock += DUT_STEP if step.from_dut else PEER_STEP
            self.frames.append((self.clock, step.frame(*self.case.hosts).build()))
            self.waited = False
            self._note_choices(step)
        else:
            assert isinstance(step, Action), step
            self.tables.append((step.table, self._when() | step.keys))

    def _note_choices(self, packet):
        number = len(self.frames)
        if packet.optional:
            self.optional.append(number)
        if packet.open_fields:
            self.ignored.append({'packets': [number], 'fields': list(packet.open_fields)})

    def _when(self):
        if not self.frames:
            return {}
        if self.waited:
            return {'at': (self.clock - self.frames[0][0]) / 1e9}
        return {'after': len(self.frames)}

    def _role(self):
        sends = any(isinstance(step, Action) and step.table == 'send' for step in self.case.steps)
        if not sends:
            return 'responder'
        answered = any(isinstance(step, Packet) and not step.from_dut and step.fields['opcode'] <= 0x0C
                       for step in self.case.steps)
        return 'both' if answered else 'requester'

    def _toml(self):
        case, (device, other) = self.case, self.case.hosts
        head = {'title': case.title, 'rules': case.rules, 'capture': f'{case.name}.pcap',
                'role': self._role()}
        lines = ['# Made by generate.py; to be changed there.'] + [f'# Source: {self.source}']
        lines += assignments(head | case.options)
        lines += ['', '[device]'] + assignments({'ip': device.ip, 'mac': device.mac} | case.device)
        qp = {'qpn': device.qpn} | case.qp
        if qp['type'] == 'RC':
            qp['peer'] = {'ip': other.ip, 'mac': other.mac, 'qpn': other.qpn}
        lines += ['', '[[qp]]'] + assignments(qp)
        for region in case.memories:
            lines += ['', '[[memory]]'] + assignments(region)
        for table in ('recv', 'send', 'store', 'modify'):
            for name, keys in self.tables:
                if name == table:
                    lines += ['', f'[[{name}]]'] + assignments(keys)
        expected = {}
        if case.events:
            expected['events'] = [{'event': event} for event in case.events]
        if case.counters:
            expected['counters'] = case.counters
        compare = dict(case.compare)
        if self.optional:
            compare['optional'] = self.optional
        if self.ignored:
            compare['ignore'] = self.ignored
        for name, keys in (('compare', compare), ('expect', expected)):
            if keys:
                lines += ['', f'[{name}]'] + assignments(keys)
        return '\n'.join(lines) + '\n'


def assignments(keys):
    return [f'{key} = {value_text(key, value)}' for key, value in keys.items()]


def value_text(key, value):
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, int):
        if value >= 2**63:
            return f'"0x{value:x}"'
        return f'0x{value:x}' if key in HEX_KEYS else str(value)
    if isinstance(value, float):
        return f'{value:.9f}'.rstrip('0')
    if isinstance(value, dict):
        return '{ ' + ', '.join(assignments(value)) + ' }'
    if isinstance(value, (list, tuple)):
        return '[' + ', '.join(value_text(key, element) for element in value) + ']'
    return '"' + value.replace('\\', '\\\\').replace('"', '\\"') + '"'
