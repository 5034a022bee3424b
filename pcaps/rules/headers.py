"""Headers that are wrong, and headers that are only unusual.

A packet with a wrong header is dropped and counted by its reason, and leaves no trace: the same PSN, with
other bytes, is taken when it comes right. An unusual one is taken.
"""
import dataclasses

from scenario import (ACKNOWLEDGE, CNP, DUT, INVALID, PEER, QKEY, SEND_ONLY, STRANGER, case, dut, optional,
                      pattern, peer, rc, recv, ud)
from datagrams import ud_recv

DUT6 = dataclasses.replace(DUT, ip='2001:db8::1')
PEER6 = dataclasses.replace(PEER, ip='2001:db8::2')
VLAN = {'engine_only': 'which VLANs are taken is a setting of the target\'s interface'}
OTHER_SIZE = {'payload': pattern(9, 62)}


def changed(packets, fields):
    return [dataclasses.replace(packet, fields=packet.fields | fields) for packet in packets]


def wrong(name, rule, title, counter, hosts=(DUT, PEER), **fields):
    """Between two right SENDs one with `fields` that are wrong. What is in it must not be seen."""
    case(f'hdr-{name}', rule, title, rc(), [
        recv(seed=0), recv(seed=1),
        peer.send(0, seed=0), dut.ack(0, 1),
        changed(peer.send(1, seed=9), fields),
        peer.send(1, seed=1), dut.ack(1, 2),
    ], hosts=hosts, counters={f'drop_{counter}': 1}, options={'play_all': True})


def right(name, title, hosts=(DUT, PEER), rule='WIRE-IGNORE', size=64, options=None, **fields):
    """A SEND with `fields` that are unusual is taken as any other."""
    case(f'hdr-{name}', rule, title, rc(), [
        recv(seed=0), recv(size),
        peer.send(0, seed=0), dut.ack(0, 1),
        changed(peer.send(1, size), fields), dut.ack(1, 2),
    ], hosts=hosts, options=options or {})


# ---- Outside of the transport ----

wrong('roce-v1', 'WIRE-ETH', 'The EtherType of RoCE v1 is not RoCE v2', 'not_for_us', ether_type=0x8915)
wrong('other-ether-type', 'WIRE-ETH', 'Another EtherType', 'not_for_us', ether_type=0x88B5)
wrong('other-mac', 'WIRE-ETH', 'A destination MAC address of somebody else', 'not_for_us',
      dest_mac=STRANGER.mac)
wrong('ip-version', 'WIRE-IP', 'IP version 5 behind the EtherType of IPv4', 'bad_ip_header', version_ihl=0x55)
wrong('ip-options', 'WIRE-IP', 'IPv4 options', 'bad_ip_header', version_ihl=0x46, options=b'\x01\x01\x01\x00')
wrong('ip-short-ihl', 'WIRE-IP', 'An IPv4 header of 16 bytes', 'bad_ip_header', version_ihl=0x44)
wrong('ip-checksum', 'WIRE-IP', 'A wrong IPv4 header checksum', 'bad_ip_header', ip_checksum=0x0100)
wrong('ip-more-fragments', 'WIRE-IP', 'A first fragment', 'bad_ip_header', fragment=0x2000)
wrong('ip-fragment-offset', 'WIRE-IP', 'A later fragment', 'bad_ip_header', fragment=0x0001)
wrong('ip-protocol', 'WIRE-IP', 'Another protocol than UDP', 'not_roce', protocol=6)
wrong('ip-length-long', 'WIRE-LEN', 'An IP length beyond the end of the frame', 'too_short', ip_length=4)
wrong('ip-length-short', 'WIRE-LEN', 'An IP length that ends before the UDP length does', 'bad_length',
      ip_length=-4)
wrong('ipv6-version', 'WIRE-IP', 'IP version 4 behind the EtherType of IPv6', 'bad_ip_header',
      hosts=(DUT6, PEER6),
      version_ihl=0x40)
wrong('ipv6-next-header', 'WIRE-IP', 'An IPv6 extension header before UDP', 'not_roce', hosts=(DUT6, PEER6),
      protocol=60)
wrong('ipv6-length-long', 'WIRE-LEN', 'An IPv6 length beyond the end of the frame', 'too_short',
      hosts=(DUT6, PEER6),
      ip_length=4)
wrong('udp-port', 'WIRE-UDP', 'Another UDP port than 4791', 'not_roce', dest_port=4792)
wrong('udp-length-long', 'WIRE-LEN', 'A UDP length beyond the IP packet', 'bad_length', udp_length=4)
wrong('udp-length-short', 'WIRE-LEN', 'A UDP length that leaves a rest of the IP packet', 'bad_length',
      udp_length=-4)
wrong('udp-checksum', 'WIRE-UDP', 'A UDP checksum that is neither 0 nor right', 'bad_udp_checksum',
      udp_checksum='wrong')
wrong('udp-checksum-ipv6', 'WIRE-UDP', 'A wrong UDP checksum over IPv6', 'bad_udp_checksum',
      hosts=(DUT6, PEER6),
      udp_checksum='wrong')

# ---- Short frames: cut behind each header ----

for bytes_left, where in ((14, 'its first header'), (33, 'the IPv4 header'), (41, 'the UDP header'),
                          (53, 'the BTH'),
                          (57, 'the BTH, with a half ICRC'), (121, 'the payload')):
    wrong(f'cut-{bytes_left}', 'WIRE-LEN', f'A frame of {bytes_left} bytes, which ends within {where}',
          'too_short',
          cut=bytes_left)

# ---- Transport headers ----

wrong('tver', 'WIRE-BTH', 'Transport header version 1', 'bad_transport_version', tver=1)
wrong('tver-15', 'WIRE-BTH', 'Transport header version 15', 'bad_transport_version', tver=15)
for opcode, what in ((0x44, 'reliable datagram, SEND Only'), (0xA4, 'XRC, SEND Only'),
                     (0xC0, 'manufacturer\'s own'),
                     (0xE4, 'manufacturer\'s own'), (0x80, 'reserved beside the CNP'), (0x2C, 'UC, reserved'),
                     (0x60, 'UD, reserved')):
    wrong(f'opcode-{opcode:02x}', 'WIRE-BTH', f'Opcode 0x{opcode:02x} ({what})', 'unknown_opcode',
          opcode=opcode)
for opcode in (0x15, 0x18, 0x1B, 0x1E, 0x1F):
    case(f'hdr-opcode-{opcode:02x}', 'RC-RSP-11 WIRE-BTH',
         f'The reserved RC opcode 0x{opcode:02x}: dropped, or NAK '
         'invalid request', rc(), [
             recv(),
             peer.send(0), dut.ack(0, 1),
             peer.packet(opcode, 1, pattern(9, 64), ack_req=True), optional(dut.nak(1, INVALID, 1)),
         ])
wrong('pad-beyond', 'WIRE-LEN', 'A PadCnt of 3 with no byte of payload', 'bad_length', payload=b'', pad=3)
wrong('pad-missing', 'WIRE-LEN', 'A payload of 62 bytes without pad', 'bad_length', pad_bytes=b'', pad=2,
      **OTHER_SIZE)
wrong('pad-too-much', 'WIRE-LEN', 'A payload of 62 bytes with one pad byte', 'bad_length', pad_bytes=b'\0',
      pad=1,
      **OTHER_SIZE)
wrong('no-icrc', 'WIRE-LEN', 'A packet that ends with the BTH, where its ICRC should be', 'bad_length',
      payload=b'',
      ip_length=-4, udp_length=-4, cut=54)
wrong('ack-with-payload', 'WIRE-LEN', 'An ACK with a payload', 'bad_length', opcode=ACKNOWLEDGE,
      syndrome=0x1F)
wrong('read-with-payload', 'WIRE-LEN', 'A READ request with a payload', 'bad_length', opcode=0x0C, length=64)
wrong('write-without-reth', 'WIRE-LEN', 'A WRITE Only that ends within its RETH', 'bad_length', payload=b'',
      opcode=0x0A,
      ip_length=-8, udp_length=-8, cut=14 + 20 + 8 + 12 + 8 + 4)
wrong('icrc', 'WIRE-ICRC', 'A wrong ICRC', 'bad_icrc', icrc=0x00000001)
wrong('icrc-zero', 'WIRE-ICRC', 'An ICRC with all bits turned', 'bad_icrc', icrc=0xFFFFFFFF)
wrong('icrc-read', 'WIRE-ICRC', 'A READ request with a wrong ICRC is not answered', 'bad_icrc', opcode=0x0C,
      payload=b'',
      icrc=0x80000000)
wrong('pkey', 'WIRE-PKEY', 'Another P_Key', 'bad_pkey', pkey=0x8001)
wrong('pkey-zero', 'WIRE-PKEY', 'The invalid P_Key 0', 'bad_pkey', pkey=0x0000)
wrong('unknown-qp', 'WIRE-QP', 'A queue pair that does not exist', 'unknown_qp', dest_qpn=0xFFFFF0)
wrong('qp-0', 'WIRE-QP', 'Queue pair 0', 'unknown_qp', dest_qpn=0)
wrong('uc-opcode', 'WIRE-QP', 'A UC packet for an RC queue pair', 'wrong_transport', opcode=0x24)
wrong('ud-opcode', 'WIRE-QP', 'A datagram for an RC queue pair', 'wrong_transport', opcode=0x64, qkey=QKEY,
      source_qpn=0x22)
wrong('other-source', 'WIRE-ADDR', 'A source address that is not the peer\'s', 'wrong_address',
      source=STRANGER)
wrong('other-dest', 'WIRE-ADDR', 'A destination address that is not the device\'s', 'wrong_address',
      dest=dataclasses.replace(DUT, ip='192.0.2.77'))
wrong('other-source-ipv6', 'WIRE-ADDR', 'A source address that is not the peer\'s, IPv6', 'wrong_address',
      hosts=(DUT6, PEER6), source=dataclasses.replace(PEER6, ip='2001:db8::3'))
case('hdr-rc-opcode-for-ud', 'WIRE-QP', 'An RC packet for a UD queue pair is dropped', ud(), [
    ud_recv(),
    peer.packet(SEND_ONLY, 0, pattern(9, 64), ack_req=True),
    peer.datagram(1),
], counters={'drop_wrong_transport': 1})
case('hdr-init-state', 'QP-STATES WIRE-QP', 'A queue pair in INIT drops what comes', rc(state='INIT'), [
    recv(status=None),
    peer.send(0),
], counters={'drop_qp_state': 1})

# ---- What is not looked at ----

right('mig-req-0', 'MigReq 0', mig_req=False)
right('mig-req-1', 'MigReq 1', mig_req=True)
right('bth-reserved', 'The reserved bits beside FECN and BECN', byte4=0x3F)
right('bth-reserved7', 'The reserved bits beside AckReq, which the ICRC covers', reserved7=0x7F)
right('fecn', 'FECN', byte4=0x80)
right('becn', 'BECN in a request', byte4=0x40)
right('limited-pkey', 'The P_Key of a limited member of the default partition', rule='WIRE-PKEY', pkey=0x7FFF)
right('pad-not-zero', 'Pad bytes that are not 0', size=61, pad_bytes=b'\xAA\xBB\xCC')
right('ecn-ce', 'A CE mark of a switch', tos=0x03)
right('dscp', 'Any DSCP', tos=0xFC)
right('ttl-1', 'TTL 1', ttl=1)
right('ip-id', 'An IPv4 identification', ident=0xBEEF)
right('no-df', 'IPv4 without DF', fragment=0)
right('source-port-0', 'UDP source port 0', source_port=0)
right('source-port-any', 'A UDP source port below 0xc000', source_port=69)
right('udp-checksum-right', 'A right UDP checksum', rule='WIRE-UDP', udp_checksum='right')
right('udp-checksum-right-ipv6', 'A right UDP checksum over IPv6', rule='WIRE-UDP', hosts=(DUT6, PEER6),
      udp_checksum='right')
right('vlan', 'A VLAN tag, outside of the ICRC', rule='WIRE-ETH', options=VLAN, vlan=0x6064)
right('vlan-priority', 'A priority tag, VLAN 0', rule='WIRE-ETH', options=VLAN, vlan=0xE000)
right('trailer', 'Bytes behind the IP packet, as Ethernet pads short frames', rule='WIRE-LEN', size=0,
      trailer=bytes(2))
right('trailer-long', 'Many bytes behind the IP packet', rule='WIRE-LEN', trailer=b'\xFF' * 100)
right('ipv6', 'IPv6', rule='WIRE-IP', hosts=(DUT6, PEER6))
right('ipv6-flow-label', 'An IPv6 flow label and traffic class', hosts=(DUT6, PEER6), flow_label=0xABCDE,
      tos=0xB8, ttl=3)
right('icrc-of-sizes', 'A payload of 1 byte, and its pad', rule='WIRE-ICRC WIRE-LEN', size=1)

# ---- Congestion notification ----

case('hdr-cnp', 'WIRE-CNP', 'A CNP takes no PSN, gets no answer and changes no state', rc(), [
    recv(seed=0), recv(seed=1),
    peer.send(0, seed=0), dut.ack(0, 1),
    peer.packet(CNP, 0, bytes(16), byte4=0x40, mig_req=False, tos=0xC2),
    peer.send(1, seed=1), dut.ack(1, 2),
], counters={'cnp_received': 1})


def stray_cnp(name, rule, title, counter, **fields):
    """A CNP that is not for this connection: dropped for that reason, and not counted as one."""
    case(f'hdr-cnp-{name}', rule, title, rc(), [
        recv(seed=0), recv(seed=1),
        peer.send(0, seed=0), dut.ack(0, 1),
        changed([peer.packet(CNP, 0, bytes(16), byte4=0x40, mig_req=False, tos=0xC2)], fields),
        peer.send(1, seed=1), dut.ack(1, 2),
    ], counters={f'drop_{counter}': 1, 'cnp_received': 0}, options={'play_all': True})


stray_cnp('pkey', 'WIRE-CNP WIRE-PKEY', 'A CNP with another P_Key', 'bad_pkey', pkey=0x8001)
stray_cnp('unknown-qp', 'WIRE-CNP WIRE-QP', 'A CNP for a queue pair that does not exist', 'unknown_qp',
          dest_qpn=0xFFFFF0)
stray_cnp('other-source', 'WIRE-CNP WIRE-ADDR', 'A CNP from somebody who is not the peer', 'wrong_address',
          source=STRANGER)
