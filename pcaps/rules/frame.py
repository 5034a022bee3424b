"""RoCEv2 frames, right ones and broken ones, from fields.

Independent of Verbena's own code: headers by struct, the ICRC by zlib's CRC-32. The layout is that of
IBTA vol. 1 chapters 9.2 and 9.3 and of its Annex A17.
"""
import dataclasses
import ipaddress
import struct
import zlib

UDP_PORT = 4791

# What follows the BTH, by opcode.
RETH = {0x06, 0x0A, 0x0B, 0x0C}
AETH = {0x0D, 0x0F, 0x10, 0x11}
IMM = {0x03, 0x05, 0x09, 0x0B, 0x65}
IETH = {0x16, 0x17}
DETH = {0x64, 0x65}


@dataclasses.dataclass(frozen=True)
class Host:
    mac: str
    ip: str
    qpn: int

    def mac_bytes(self):
        return bytes.fromhex(self.mac.replace(':', ''))


@dataclasses.dataclass
class Frame:
    """All fields of a frame. The second half makes it a wrong one, or an unusual one."""
    source: Host
    dest: Host
    opcode: int
    psn: int
    payload: bytes = b''
    ack_req: bool = False
    solicited: bool = False
    mig_req: bool = True
    pkey: int = 0xFFFF
    va: int = 0
    rkey: int = 0
    length: int = 0
    syndrome: int = 0
    msn: int = 0
    imm: int = 0
    qkey: int = 0
    source_qpn: int = 0

    dest_qpn: int | None = None
    dest_mac: str | None = None
    tver: int = 0
    pad: int | None = None      # PadCnt; by itself what fills the payload up
    pad_bytes: bytes | None = None
    byte4: int = 0              # FECN, BECN and 6 reserved bits
    reserved7: int = 0          # beside AckReq
    after: bytes = b''          # between payload and ICRC
    tos: int = 0
    ttl: int = 64
    ident: int = 0
    fragment: int = 0x4000      # DF
    version_ihl: int = 0x45
    protocol: int = 17
    options: bytes = b''
    ip_checksum: int = 0        # exclusive-or
    ip_length: int = 0          # added to the right one
    udp_length: int = 0
    udp_checksum: str = 'zero'  # 'right', 'wrong'
    source_port: int | None = None
    dest_port: int = UDP_PORT
    flow_label: int = 0
    icrc: int = 0               # exclusive-or
    vlan: int | None = None
    ether_type: int | None = None
    trailer: bytes = b''        # behind the IP packet
    cut: int | None = None      # of the whole frame only so many bytes

    def build(self):
        transport = self._transport()
        ipv6 = ':' in self.dest.ip
        udp = self._udp(len(transport) + 4)
        network = self._ipv6(8 + len(transport) + 4) if ipv6 else self._ipv4(8 + len(transport) + 4)
        packet = bytearray(network + udp + transport)
        packet += struct.pack('<I', icrc(bytes(packet)) ^ self.icrc)
        if self.udp_checksum != 'zero':
            sum_ = self._udp_sum(packet, len(network)) ^ (0x5555 if self.udp_checksum == 'wrong' else 0)
            struct.pack_into('>H', packet, len(network) + 6, sum_ or 0xFFFF)
        dest_mac = dataclasses.replace(self.dest, mac=self.dest_mac) if self.dest_mac else self.dest
        frame = dest_mac.mac_bytes() + self.source.mac_bytes()
        if self.vlan is not None:
            frame += struct.pack('>HH', 0x8100, self.vlan)
        frame += struct.pack('>H', self.ether_type or (0x86DD if ipv6 else 0x0800))
        frame += bytes(packet) + self.trailer
        return frame[:self.cut]

    def _transport(self):
        """From the BTH to the end of the pad."""
        pad_bytes = bytes(-len(self.payload) % 4) if self.pad_bytes is None else self.pad_bytes
        pad = len(pad_bytes) if self.pad is None else self.pad
        flags = self.solicited << 7 | self.mig_req << 6 | pad << 4 | self.tver
        qpn = self.dest.qpn if self.dest_qpn is None else self.dest_qpn
        bth = struct.pack('>BBHII', self.opcode, flags, self.pkey, self.byte4 << 24 | qpn,
                          (self.ack_req << 7 | self.reserved7) << 24 | self.psn & 0xFFFFFF)
        return bth + self._extended() + self.payload + pad_bytes + self.after

    def _extended(self):
        headers = b''
        if self.opcode in DETH:
            headers += struct.pack('>II', self.qkey, self.source_qpn)
        if self.opcode in RETH:
            headers += struct.pack('>QII', self.va & 0xFFFFFFFFFFFFFFFF, self.rkey, self.length)
        if self.opcode in AETH:
            headers += struct.pack('>I', self.syndrome << 24 | self.msn & 0xFFFFFF)
        if self.opcode in IMM:
            headers += struct.pack('>I', self.imm)
        if self.opcode in IETH:
            headers += struct.pack('>I', self.rkey)
        return headers

    def _udp(self, transport_bytes):
        port = self.source_port
        if port is None:
            port = source_port(self.flow_label, self.source.qpn, self.dest.qpn)
        return struct.pack('>HHHH', port, self.dest_port, 8 + transport_bytes + self.udp_length, 0)

    def _ipv4(self, udp_bytes):
        header = bytearray(struct.pack(
            '>BBHHHBBH4s4s', self.version_ihl, self.tos, 20 + len(self.options) + udp_bytes + self.ip_length,
            self.ident, self.fragment, self.ttl, self.protocol, 0, address(self.source), address(self.dest)))
        header += self.options
        struct.pack_into('>H', header, 10, internet_checksum(header) ^ self.ip_checksum)
        return bytes(header)

    def _ipv6(self, udp_bytes):
        version = self.version_ihl >> 4 if self.version_ihl != 0x45 else 6
        return struct.pack('>IHBB16s16s', version << 28 | self.tos << 20 | self.flow_label,
                           udp_bytes + self.ip_length, self.protocol, self.ttl,
                           address(self.source), address(self.dest))

    def _udp_sum(self, packet, udp_at):
        addresses = packet[8:40] if ':' in self.dest.ip else packet[12:20]
        datagram = packet[udp_at:]
        return internet_checksum(addresses + struct.pack('>II', len(datagram), 17) + datagram)


def address(host):
    return ipaddress.ip_address(host.ip).packed


def source_port(flow_label, qpn, other_qpn):
    """What Linux' drivers take: from the flow label, or from the two QPNs."""
    if flow_label == 0:
        v = qpn * other_qpn
        v ^= v >> 20
        v ^= v >> 40
        flow_label = v & 0xFFFFF
    return 0xC000 | (flow_label & 0x3FFF ^ flow_label >> 14)


def internet_checksum(data):
    data = bytes(data) + bytes(len(data) % 2)
    total = sum(struct.unpack(f'>{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def icrc(packet):
    """The ICRC of an IP packet without it: what routers change is taken as ones (Annex A17.3.3)."""
    masked = bytearray(packet)
    if masked[0] >> 4 == 6:
        udp = 40
        masked[0] |= 0x0F
        masked[1:4] = b'\xff\xff\xff'
        masked[7] = 0xFF
    else:
        udp = (masked[0] & 15) * 4
        masked[1] = masked[8] = 0xFF
        masked[10:12] = b'\xff\xff'
    masked[udp + 6:udp + 8] = b'\xff\xff'
    if len(masked) > udp + 12:
        masked[udp + 12] = 0xFF
    return zlib.crc32(b'\xff' * 8 + bytes(masked))


def pcap(frames):
    """A capture file with nanoseconds. `frames` are pairs of a time in ns and the bytes."""
    data = struct.pack('<IHHiIII', 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)
    for time, frame in frames:
        data += struct.pack('<IIII', time // 10**9, time % 10**9, len(frame), len(frame)) + frame
    return data
