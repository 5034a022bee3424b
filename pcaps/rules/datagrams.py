"""Unreliable datagrams."""
from scenario import (DUT, KEY, MS, MTU, PEER, QKEY, STRANGER, VA, Action, case, dut, flushed, leave_open,
                      memory, pattern, peer, recv, send, ud, wait)

GRH = 40
FROM = {'src_qpn': PEER.qpn}
TO = {'to': {'ip': PEER.ip, 'mac': PEER.mac, 'qpn': PEER.qpn}, 'qkey': QKEY}


def ud_recv(size=64, seed=1, got=None, **more):
    """A receive for a datagram of `got` bytes: 40 more are for the GRH."""
    got = size if got is None else got
    action = recv(size, seed, got, **FROM | more)
    action.keys['bytes'] = size + GRH
    if 'byte_len' in action.keys['completion']:
        action.keys['completion']['byte_len'] = got + GRH
    return action


case('ud-receive', 'UD-2 UD-8', 'A datagram is placed behind 40 bytes, and the completion counts them',
     ud(), [
         ud_recv(), ud_recv(0), ud_recv(MTU, got=3),
         peer.datagram(0), peer.datagram(1, 0), peer.datagram(2, 3),
     ])
MARKED = peer.datagram(0, 16, tos=0x68, ttl=17, ident=0x1234)
IPV4_HEADER = MARKED.frame(DUT, PEER).build()[14:34]
case('ud-receive-grh', 'UD-2',
     'Before the payload is the IPv4 header of the datagram, in the last 20 of the 40 bytes',
     ud(), [
         Action('recv', {'sges': [{'va': VA, 'bytes': 1024, 'lkey': KEY}],
                         'completion': {'status': 'SUCCESS', 'byte_len': GRH + 16}}),
         MARKED,
     ], memories=[memory(1024, expect=[
         (0, 'hex ' + bytes(20).hex()), (20, 'hex ' + IPV4_HEADER.hex()),
         (GRH, 'hex ' + pattern(1, 16).hex())])],
     options={'engine_only': 'it looks at addresses of the capture in memory'})
case('ud-immediate', 'UD-8', 'The immediate of a datagram is in its completion',
     ud(), [ud_recv(imm=0xCAFE0001), peer.datagram(5, imm=0xCAFE0001)])
case('ud-qkey', 'UD-4', 'A datagram with another Q_Key is dropped',
     ud(), [
         ud_recv(),
         peer.datagram(0, qkey=QKEY + 1),
         peer.datagram(1),
     ], counters={'drop_bad_qkey': 1})
case('ud-no-receive', 'UD-7', 'A datagram without a receive is dropped without an answer',
     ud(), [
         peer.datagram(0),
         ud_recv(),
         peer.datagram(1),
     ], counters={'drop_no_receive': 1})
case('ud-any-psn', 'UD-7', 'PSNs of datagrams are not checked, and AckReq means nothing',
     ud(), [
         ud_recv(seed=0), ud_recv(seed=1), ud_recv(seed=2), ud_recv(seed=3),
         peer.datagram(5, seed=0), peer.datagram(5, seed=1, ack_req=True), peer.datagram(0xFFFFFF, seed=2),
         peer.datagram(0, seed=3),
     ])
case('ud-too-long', 'UD-6',
     'A datagram longer than its receive: LOC_LEN_ERR, and the queue pair fails without an answer',
     ud(end_state='ERR'), [
         Action('recv', {'bytes': GRH + 63, 'completion': 'LOC_LEN_ERR'}), flushed(),
         peer.datagram(0, 64),
         peer.datagram(1, 16),
     ])
case('ud-more-than-mtu', 'UD-1', 'A datagram longer than the MTU of the port is dropped',
     ud(), [
         ud_recv(2048, got=1024),
         peer.datagram(0, 1028),
         peer.datagram(1, 1024),
     ], device={'active_mtu': '1024'}, counters={'drop_bad_length': 1},
     options={'engine_only': 'the MTU of the port is 1024 in it'})
case('ud-send', 'UD-7 UD-8 RC-REQ-5', 'Datagrams: PSNs count up, AckReq is 0, DETH has Q_Key and own number',
     ud(sq_psn=0xFFFFFF), [
         send(**TO), send('SEND_WITH_IMM', 300, imm=9, **TO), send(size=0, **TO),
         dut.datagram(0xFFFFFF), dut.datagram(0, 300, imm=9), dut.datagram(1, 0),
     ])
case('ud-send-too-long', 'UD-1', 'A SEND longer than the MTU of the port sends nothing and completes',
     ud(), [
         send(size=1024, **TO), send(size=1025, **TO), send(size=4, **TO),
         dut.datagram(0, 1024), leave_open([dut.datagram(2, 4)], 'psn'),
     ], device={'active_mtu': '1024'})
case('ud-controlled-qkey', 'UD-5', 'A Q_Key with its highest bit set stands for that of the queue pair',
     ud(qkey=0x12121212), [
         send(**TO | {'qkey': 0x80000000}), send(**TO | {'qkey': 0x7FFFFFFF}),
         dut.datagram(0, qkey=0x12121212), dut.datagram(1, qkey=0x7FFFFFFF),
     ])
case('ud-from-anybody', 'UD-8', 'Datagrams come from any address; the completion names the sender',
     ud(), [
         ud_recv(seed=0), ud_recv(seed=1, src_qpn=STRANGER.qpn),
         peer.datagram(0, seed=0), peer.datagram(0, seed=1, source=STRANGER, source_qpn=STRANGER.qpn),
     ], options={'play_all': True})
case('ud-solicited', 'UD-8', 'The SE bit of a datagram is as the work request says',
     ud(), [
         send(flags=('SIGNALED', 'SOLICITED'), **TO), dut.datagram(0, solicited=True),
         wait(MS), send(**TO), dut.datagram(1),
     ])
