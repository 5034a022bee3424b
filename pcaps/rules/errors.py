"""The device refuses: what is not permitted, too long, out of sequence, or has no receive."""
from scenario import (ACCESS, INVALID, KEY, MS, MTU, OPERATIONAL, SEND_FIRST, SEND_LAST, SEND_MIDDLE,
                      SEND_ONLY, SEQUENCE, VA, WRITE_FIRST, WRITE_LAST, WRITE_MIDDLE, Action, case, dut,
                      flushed, idle, leave_open, memory, optional, pattern, peer, rc, recv, wait, written)

READ_ONLY = ('LOCAL_WRITE', 'REMOTE_READ')
WRITE_ONLY = ('LOCAL_WRITE', 'REMOTE_WRITE')
ERR = {'end_state': 'ERR'}
PROTECTION = {'status': 'LOC_PROT_ERR', 'or': ['LOC_QP_OP_ERR']}


def refused(name, rules, title, before, packet, code, qp=None, event='QP_REQ_ERR', msn=0,
            receives=(flushed(4 * MTU),), open_fields=(), **more):
    """`packet`, after `before`, is answered by a NAK that ends the connection. Nothing is answered then."""
    psn = packet.fields['psn']
    case(name, rules, title, rc(**ERR | (qp or {})), [
        receives, before,
        packet, leave_open([dut.nak(psn, code, msn)], *open_fields),
        peer.send(psn + 1), peer.send(psn),
    ], events=[event], **more)


# ---- Opcode sequence (RC-RSP-10): the messages begun, and what may not come then ----

BEGUN = {'send': peer.send(0, 4 * MTU)[:1], 'write': peer.write(0, 4 * MTU)[:1], 'nothing': []}
FORBIDDEN = {
    'nothing': {'send-middle': SEND_MIDDLE, 'send-last': SEND_LAST, 'write-middle': WRITE_MIDDLE,
                'write-last': WRITE_LAST},
    'send': {'send-first': SEND_FIRST, 'send-only': SEND_ONLY, 'write-middle': WRITE_MIDDLE},
    'write': {'write-first': WRITE_FIRST, 'send-last': SEND_LAST, 'send-first': SEND_FIRST},
}
INSIDE = {'send': 'a SEND', 'write': 'a WRITE', 'nothing': 'no message'}
# A receive in use ends with an error of its own, or is flushed (QP-ERR-2).
IN_USE = (recv(4 * MTU, status='WR_FLUSH_ERR or REM_INV_REQ_ERR'),)


def words(name):
    operation, position = name.split('-')
    return f'{operation.upper()} {position.capitalize()}'


for begun, opcodes in FORBIDDEN.items():
    for word, opcode in opcodes.items():
        psn = len(BEGUN[begun])
        refused(f'rsp-sequence-{word}-in-{begun}', 'RC-RSP-10 RC-RSP-28',
                f'{words(word)} inside of {INSIDE[begun]}: NAK invalid request',
                BEGUN[begun], peer.packet(opcode, psn, pattern(1, MTU), va=VA, rkey=KEY, length=4 * MTU),
                INVALID, receives=IN_USE if begun == 'send' else (flushed(4 * MTU),),
                memories=[memory(expect=[written(MTU)] if begun == 'write' else [])])
refused('rsp-sequence-read-in-write', 'RC-RSP-10', 'A READ inside of a WRITE: NAK invalid request',
        BEGUN['write'], peer.read(1), INVALID, memories=[memory(expect=[written(MTU)])])
case('rsp-gap-is-seen-first', 'RC-3.1 RC-RSP-1',
     'A packet that is ahead and out of sequence is reported as a gap',
     rc(), [
         recv(),
         peer.packet(SEND_LAST, 1, pattern(1, MTU), ack_req=True), dut.nak(0, SEQUENCE, 0),
         peer.send(0), dut.ack(0, 1),
     ])

# ---- Permissions and keys (RC-RSP-12, RC-RSP-13, RC-RSP-23) ----

refused('rsp-write-not-allowed', 'RC-RSP-12 QP-ERR-8',
        'A WRITE to a queue pair without REMOTE_WRITE: NAK invalid request',
        [], peer.write(0)[0], INVALID, qp={'access': ['REMOTE_READ']}, memories=[memory()])
refused('rsp-read-not-allowed', 'RC-RSP-12',
        'A READ from a queue pair without REMOTE_READ: NAK invalid request',
        [], peer.read(0), INVALID, qp={'access': ['REMOTE_WRITE']}, memories=[memory()])
refused('rsp-read-no-resources', 'RC-RSP-13', 'A READ when max_dest_rd_atomic is 0: NAK invalid request',
        [], peer.read(0), INVALID, qp={'max_dest_rd_atomic': 0}, memories=[memory()])
refused('rsp-permission-before-key', 'RC-3.1 RC-RSP-12',
        'No permission and a bad R_Key: the permission is seen first',
        [], peer.write(0, key=0xBAD00)[0], INVALID, qp={'access': []}, memories=[memory()])
refused('rsp-permission-before-receive', 'RC-3.1 RC-RSP-12',
        'A WRITE with immediate without permission and without receive: no RNR NAK',
        [], peer.write(0, imm=1)[0], INVALID, qp={'access': []}, receives=(), memories=[memory()])

KEY_ERRORS = {
    'unknown-key': ('an unknown R_Key', {'key': 0xBAD00}),
    'other-variant': ('an R_Key whose variant, its low 8 bits, is another', {'key': KEY + 1}),
    'beyond-end': ('bytes beyond the end of the region', {'va': VA + 4096 - 63}),
    'before-start': ('bytes before the region', {'va': VA - 1}),
    'wrapping': ('an address that wraps at 2^64', {'va': 2**64 - 32}),
}
for name, (text, where) in KEY_ERRORS.items():
    refused(f'rsp-write-{name}', 'RC-RSP-23 RC-RSP-28', f'A WRITE with {text}: NAK remote access error', [],
            peer.write(0, **where)[0], ACCESS, event='QP_ACCESS_ERR', memories=[memory()])
    refused(f'rsp-read-{name}', 'RC-RSP-23 RC-RSP-28', f'A READ with {text}: NAK remote access error', [],
            peer.read(0, **where), ACCESS, event='QP_ACCESS_ERR', memories=[memory()])
refused('rsp-write-read-only-region', 'RC-RSP-23',
        'A WRITE to a region that may only be read: NAK remote access error',
        [], peer.write(0)[0], ACCESS, event='QP_ACCESS_ERR', memories=[memory(access=READ_ONLY)])
refused('rsp-read-write-only-region', 'RC-RSP-23', 'A READ from a region that may only be written: '
        'NAK remote access error', [], peer.read(0), ACCESS, event='QP_ACCESS_ERR',
        memories=[memory(access=WRITE_ONLY)])
refused('rsp-local-region', 'RC-RSP-23 QP-ERR-8',
        'A READ from a region without remote rights: NAK remote access error',
        [], peer.read(0), ACCESS, event='QP_ACCESS_ERR', memories=[memory(access=('LOCAL_WRITE',))])
case('rsp-zero-length-needs-no-key', 'RC-RSP-23', 'WRITE and READ of no bytes need no valid R_Key or address',
     rc(), [
         peer.write(0, 0, va=0, key=0xBAD00), dut.ack(0, 1),
         peer.read(1, 0, va=2**64 - 1, key=0xBAD00), dut.responses(1, 0, msn=2),
     ])
case('rsp-whole-region', 'RC-RSP-23', 'The first and the last byte of a region can be written and read',
     rc(), [
         peer.write(0, 1, seed=3), dut.ack(0, 1),
         peer.write(1, 1, seed=4, va=VA + 4095), dut.ack(1, 2),
         peer.read(2, 1), dut.responses(2, 1, msn=3, seed=3),
         peer.read(3, 1, va=VA + 4095), dut.responses(3, 1, msn=4, seed=4),
     ], memories=[memory(expect=[written(1, seed=3), written(1, seed=4, offset=4095)])])
refused('rsp-nak-after-messages', 'RC-RSP-28', 'A fatal NAK has the PSN of its request and the MSN of before',
        [peer.send(0), dut.ack(0, 1), peer.read(1), dut.responses(1, msn=2)],
        peer.write(2, key=0xBAD00)[0], ACCESS, event='QP_ACCESS_ERR', msn=2,
        receives=(recv(), flushed()), memories=[memory()])

# ---- Lengths (RC-RSP-20, RC-RSP-21, RC-RSP-22) ----

refused('rsp-first-too-short', 'RC-RSP-20',
        'A SEND First that is shorter than the path MTU: NAK invalid request',
        [], peer.packet(SEND_FIRST, 0, pattern(1, MTU - 4)), INVALID)
refused('rsp-first-too-long', 'RC-RSP-20',
        'A SEND First that is longer than the path MTU: NAK invalid request',
        [], peer.packet(SEND_FIRST, 0, pattern(1, MTU + 4)), INVALID)
refused('rsp-middle-too-short', 'RC-RSP-20',
        'A SEND Middle that is shorter than the path MTU: NAK invalid request',
        peer.send(0, 4 * MTU)[:1], peer.packet(SEND_MIDDLE, 1, pattern(1, MTU - 4)), INVALID, receives=IN_USE)
refused('rsp-last-empty', 'RC-RSP-20', 'A SEND Last without a byte: NAK invalid request',
        peer.send(0, 4 * MTU)[:1], peer.packet(SEND_LAST, 1, ack_req=True), INVALID, receives=IN_USE)
refused('rsp-last-too-long', 'RC-RSP-20', 'A SEND Last that is longer than the path MTU: NAK invalid request',
        peer.send(0, 4 * MTU)[:1], peer.packet(SEND_LAST, 1, pattern(1, MTU + 4),
                                               ack_req=True), INVALID, receives=IN_USE)
refused('rsp-only-too-long', 'RC-RSP-20', 'A SEND Only that is longer than the path MTU: NAK invalid request',
        [], peer.packet(SEND_ONLY, 0, pattern(1, MTU + 4), ack_req=True), INVALID)
refused('rsp-write-first-too-short', 'RC-RSP-20',
        'A WRITE First shorter than the path MTU: NAK invalid request',
        [], peer.packet(WRITE_FIRST, 0, pattern(1, MTU - 4), va=VA, rkey=KEY, length=4 * MTU), INVALID,
        memories=[memory()])
WRITE_3 = peer.write(0, 3 * MTU)
refused('rsp-write-fewer-bytes', 'RC-RSP-21', 'A WRITE that ends before its RETH length: NAK invalid request',
        WRITE_3[:1], peer.packet(WRITE_LAST, 1, pattern(1, MTU, MTU), ack_req=True), INVALID,
        memories=[memory(expect=[written(MTU)])])
refused('rsp-write-last-too-short', 'RC-RSP-21',
        'A WRITE Last with fewer bytes than are missing: NAK invalid request',
        WRITE_3[:2], peer.packet(WRITE_LAST, 2, pattern(1, 64, 2 * MTU), ack_req=True), INVALID,
        memories=[memory(expect=[written(2 * MTU)])])
refused('rsp-write-more-bytes', 'RC-RSP-21',
        'A WRITE with more bytes than its RETH length: NAK invalid request',
        peer.write(0, 3 * MTU - 64)[:2],
        peer.packet(WRITE_LAST, 2, pattern(1, MTU, 2 * MTU), ack_req=True), INVALID,
        memories=[memory(expect=[written(2 * MTU)])])
refused('rsp-write-only-other-length', 'RC-RSP-21',
        'A WRITE Only whose RETH length is another: NAK invalid request',
        [], peer.packet(10, 0, pattern(1, 64), ack_req=True, va=VA, rkey=KEY, length=60), INVALID,
        memories=[memory()])
refused('rsp-message-too-long', 'RC-REQ-65',
        'A READ of more than 2^31 bytes is refused: NAK invalid request, or '
        'remote access error where the region is looked for first', [], peer.read(0, 2**31 + 1), INVALID,
        open_fields=('syndrome',), memories=[memory()])
case('rsp-send-too-long', 'RC-RSP-22 RC-RSP-28 QP-ERR-1',
     'A SEND longer than the receive: NAK invalid request on the '
     'packet that does not fit, LOC_LEN_ERR here', rc(**ERR), [
         recv(MTU + 64, status='LOC_LEN_ERR or LOC_QP_OP_ERR'), flushed(),
         peer.send(0, 3 * MTU)[:1],
         peer.send(0, 3 * MTU)[1:2], dut.nak(1, INVALID, 0),
         peer.send(0, 3 * MTU)[2:],
     ])
case('rsp-send-only-too-long', 'RC-RSP-22',
     'A SEND Only longer than the receive by a byte: NAK invalid request',
     rc(**ERR), [
         recv(64, seed=0), recv(63, status='LOC_LEN_ERR or LOC_QP_OP_ERR'),
         peer.send(0, 64, seed=0), dut.ack(0, 1),
         peer.send(1, 64), dut.nak(1, INVALID, 1),
     ])
case('rsp-send-shorter', 'RC-RSP-22',
     'A SEND that is shorter than the receive leaves the rest of it as it was',
     rc(), [
         recv(2 * MTU, got=MTU + 1), recv(64, got=0),
         peer.send(0, MTU + 1), dut.ack(1, 1),
         peer.send(2, 0), dut.ack(2, 2),
     ])

# ---- Receives (RC-RSP-3, RC-RSP-24, RC-RSP-25, RC-RSP-26) ----

case('rsp-rnr-send', 'RC-RSP-24', 'A SEND without a receive: RNR NAK with the timer of the queue pair',
     rc(min_rnr_timer=24), [
         peer.send(0), dut.rnr(0, 24, 0),
         wait(MS), recv(), wait(40 * MS),
         peer.send(0), dut.ack(0, 1),
     ])
case('rsp-rnr-first', 'RC-RSP-24',
     'The First of a SEND without a receive is refused; the message comes again later',
     rc(min_rnr_timer=1), [
         peer.send(0, 3 * MTU)[:1], dut.rnr(0, 1, 0),
         recv(3 * MTU),
         peer.send(0, 3 * MTU), dut.ack(2, 1),
     ])
case('rsp-rnr-write-imm', 'RC-RSP-24',
     'A WRITE with immediate without a receive: RNR NAK, and nothing is written',
     rc(), [
         peer.write(0, 64, imm=0x01020304), dut.rnr(0, 12, 0),
     ], memories=[memory()])
case('rsp-rnr-write-last-imm', 'RC-RSP-24',
     'The receive of a WRITE with immediate is needed at its last packet',
     rc(), [
         peer.write(0, 2 * MTU, imm=0x01020304)[:1],
         peer.write(0, 2 * MTU, imm=0x01020304)[1:], dut.rnr(1, 12, 0),
         recv(16, got=2 * MTU, opcode='RECV_RDMA_WITH_IMM', imm=0x01020304),
         peer.write(0, 2 * MTU, imm=0x01020304)[1:], dut.ack(1, 1),
     ], memories=[memory(expect=[written(2 * MTU)])])
case('rsp-rnr-before-key', 'RC-3.1 RC-RSP-24', 'No receive and a bad R_Key: the receive is looked for first',
     rc(), [
         peer.write(0, 64, imm=1, key=0xBAD00), dut.rnr(0, 12, 0),
     ], memories=[memory()])
case('rsp-write-needs-no-receive', 'RC-RSP-24', 'A plain WRITE needs no receive, and takes none',
     rc(), [
         peer.write(0, 64), dut.ack(0, 1),
         idle(),
         peer.write(1, 64, va=VA + 64), dut.ack(1, 2),
     ], memories=[memory(expect=[written(64), written(64, offset=64)])])
case('rsp-rnr-does-not-advance', 'RC-RSP-3',
     'After an RNR NAK the same PSN is expected: the burst comes again',
     rc(), [
         recv(seed=0),
         peer.send(0, seed=0), dut.ack(0, 1),
         peer.send(1, seed=1), dut.rnr(1, 12, 1),
         recv(seed=1), recv(seed=2),
         peer.send(1, seed=1), dut.ack(1, 2),
         peer.send(2, seed=2), dut.ack(2, 3),
     ])
case('rsp-rnr-then-silence', 'RC-RSP-3',
     'What follows an RNR NAK in the same burst is reported as a gap once, or not at all',
     rc(), [
         peer.send(0, seed=0), dut.rnr(0, 12, 0),
         peer.send(1, seed=1), optional(dut.nak(0, SEQUENCE, 0)),
         peer.send(2, seed=2),
         recv(seed=0), recv(seed=1), recv(seed=2),
         peer.send(0, seed=0), dut.ack(0, 1),
         peer.send(1, seed=1), dut.ack(1, 2),
         peer.send(2, seed=2), dut.ack(2, 3),
     ])
case('rsp-rnr-again', 'RC-RSP-24', 'A SEND that comes again too early gets another RNR NAK',
     rc(), [
         peer.send(0), dut.rnr(0, 12, 0),
         peer.send(0), dut.rnr(0, 12, 0),
         recv(),
         peer.send(0), dut.ack(0, 1),
     ])
case('rsp-write-imm', 'RC-RSP-25',
     'WRITE with immediate: the length is that of the WRITE, the receive is not touched',
     rc(), [
         recv(16, got=64, opcode='RECV_RDMA_WITH_IMM', imm=0xAABBCCDD),
         recv(16, got=3 * MTU, opcode='RECV_RDMA_WITH_IMM', imm=0x11223344),
         recv(0, got=0, opcode='RECV_RDMA_WITH_IMM', imm=0),
         peer.write(0, 64, imm=0xAABBCCDD), dut.ack(0, 1),
         peer.write(1, 3 * MTU, imm=0x11223344, va=VA + 512), dut.ack(3, 2),
         peer.write(4, 0, imm=0, key=0xBAD00), dut.ack(4, 3),
     ], memories=[memory(expect=[written(64), written(3 * MTU, offset=512)])])
case('rsp-send-imm', 'RC-RSP-24', 'SEND with immediate: the completion has it',
     rc(), [
         recv(got=64, imm=0xAABBCCDD), recv(2 * MTU, imm=0x11223344),
         peer.send(0, 64, imm=0xAABBCCDD), dut.ack(0, 1),
         peer.send(1, 2 * MTU, imm=0x11223344), dut.ack(2, 2),
     ])
case('rsp-receive-not-writable', 'RC-RSP-26',
     'A receive into memory that may not be written: NAK remote operational '
     'error, LOC_PROT_ERR here', rc(**ERR), [
         Action('recv',
                {'sges': [{'va': VA, 'bytes': 64, 'lkey': KEY}], 'completion': PROTECTION}), flushed(),
         peer.send(0), dut.nak(0, OPERATIONAL, 0),
     ], memories=[memory(access=('REMOTE_READ',))])
case('rsp-receive-beyond-region', 'RC-RSP-26',
     'A receive that reaches beyond its region: NAK remote operational error',
     rc(**ERR), [
         Action('recv',
                {'sges': [{'va': VA + 4096 - 32, 'bytes': 64, 'lkey': KEY}], 'completion': PROTECTION}),
         peer.send(0), dut.nak(0, OPERATIONAL, 0),
     ], memories=[memory()])
case('rsp-receive-in-pieces', 'RC-RSP-26', 'A SEND is spread over the pieces of a receive',
     rc(), [
         Action('recv',
                {'sges': [{'va': VA + 100, 'bytes': 10, 'lkey': KEY}, {'va': VA, 'bytes': 54, 'lkey': KEY}],
                         'completion': {'status': 'SUCCESS', 'opcode': 'RECV', 'byte_len': 64}}),
         peer.send(0), dut.ack(0, 1),
     ], memories=[memory(expect=[written(10, offset=100), written(54, start=10)])])
case('rsp-flush-order', 'QP-ERR-2 QP-ERR-1', 'After a fatal NAK the receives are flushed in order',
     rc(**ERR), [
         [flushed()] * 4,
         peer.packet(SEND_MIDDLE, 0, pattern(1, MTU)), dut.nak(0, INVALID, 0),
     ], events=['QP_REQ_ERR'])
case('rsp-posted-in-error', 'QP-ERR-3', 'Receives that are posted in ERR are flushed',
     rc(**ERR), [
         peer.packet(SEND_MIDDLE, 0, pattern(1, MTU)), dut.nak(0, INVALID, 0),
         [flushed()] * 2,
     ], events=['QP_REQ_ERR'])
