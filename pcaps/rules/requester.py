"""The device asks: segmentation, acknowledgements, READs, limits."""
from scenario import (MS, MTU, NO_CREDITS, PEER_VA, RESPONSE_FIRST, RESPONSE_LAST, RESPONSE_MIDDLE,
                      RESPONSE_ONLY, S, SEQUENCE, ack_timeout, case, dut, flushed_send, modify, pattern, peer,
                      rc, rnr_delay, send, wait)

READ = 'RDMA_READ'
WRITE = 'RDMA_WRITE'
ERR = {'end_state': 'ERR'}
EXACT_TIMES = {'timer_tolerance': 1.1}

# ---- Segmentation and the flags of requests ----

for size in (0, 1, MTU - 1, MTU, MTU + 1, 2 * MTU, 4 * MTU + 3):
    packets = max(1, -(-size // MTU))
    case(f'req-send-{size}', 'RC-REQ-1 RC-REQ-3', f'A SEND of {size} bytes is cut at the path MTU',
         rc(), [send(size=size), dut.send(0, size), peer.ack(packets - 1, 1)])
    case(f'req-write-{size}', 'RC-REQ-1 RC-REQ-2', f'A WRITE of {size} bytes: its RETH has the length of all',
         rc(), [send(WRITE, size), dut.write(0, size), peer.ack(packets - 1, 1)])
case('req-psn-wrap', 'RC-PSN-1 RC-PSN-5', 'PSNs of requests go from 0xffffff to 0, and so do their ACKs',
     rc(sq_psn=0xFFFFFD), [
         send(size=4 * MTU), dut.send(0xFFFFFD, 4 * MTU), peer.ack(0, 1),
         send(READ, 2 * MTU, seed=7), dut.read(1, 2 * MTU), peer.responses(1, 2 * MTU, msn=2),
     ])
case('req-read-wraps', 'RC-PSN-1 RC-PSN-3', 'The answer of a READ may go through PSN 0',
     rc(sq_psn=0xFFFFFE), [
         send(READ, 4 * MTU, seed=7), dut.read(0xFFFFFE, 4 * MTU), peer.responses(0xFFFFFE, 4 * MTU),
         send(), dut.send(2), peer.ack(2, 2),
     ])
case('req-read-takes-psns', 'RC-PSN-3 RC-PSN-4', 'What follows a READ has the PSN behind its last response',
     rc(), [
         send(READ, 3 * MTU + 1, seed=7), send(), send(READ, 0), send(seed=2),
         dut.read(0, 3 * MTU + 1), dut.send(4), dut.read(5, 0), dut.send(6, seed=2),
         peer.responses(0, 3 * MTU + 1, msn=1), peer.responses(5, 0, msn=3), peer.ack(6, 4),
     ])
case('req-ack-inside-message', 'RC-REQ-3', 'A long message asks for an ACK at its end, and may within it',
     rc(), [
         send(size=10 * MTU), dut.send(0, 10 * MTU, ack_every=4), peer.ack(3, 0), peer.ack(9, 1),
     ], device={'ack_every_packets': 4})
case('req-solicited', 'RC-REQ-4',
     'SE is on the last packet of what makes a completion at the peer, and nowhere else',
     rc(), [
         [send(opcode, 2 * MTU, flags=('SIGNALED', 'SOLICITED'), **more) for opcode, more in (
             ('SEND', {}), ('SEND_WITH_IMM', {'imm': 5}), ('RDMA_WRITE_WITH_IMM', {'imm': 6}))],
         dut.send(0, 2 * MTU, solicited=True), dut.send(2, 2 * MTU, solicited=True, imm=5),
         dut.write(4, 2 * MTU, solicited=True, imm=6),
         peer.ack(5, 3),
         send(WRITE, 2 * MTU, flags=('SIGNALED', 'SOLICITED')), dut.write(6, 2 * MTU), peer.ack(7, 4),
         send(READ, 64, seed=7, flags=('SIGNALED', 'SOLICITED')), dut.read(8), peer.responses(8, msn=5),
     ])
case('req-immediate', 'RC-REQ-1', 'Immediate data is in the last packet, in the order of the network',
     rc(), [
         send('SEND_WITH_IMM', 0, imm=0x01020304), send('SEND_WITH_IMM', 3 * MTU, imm=0xFFEEDDCC),
         send('RDMA_WRITE_WITH_IMM', 16, imm=7), send('RDMA_WRITE_WITH_IMM', 2 * MTU, imm=8),
         dut.send(0, 0, imm=0x01020304), dut.send(1, 3 * MTU, imm=0xFFEEDDCC),
         dut.write(4, 16, imm=7), dut.write(5, 2 * MTU, imm=8),
         peer.ack(6, 4),
     ])

# ---- What an acknowledgement says ----

case('req-coalesced-ack', 'RC-REQ-10 RC-REQ-62', 'One ACK completes all SENDs and WRITEs up to its PSN',
     rc(), [
         send(), send(WRITE, 2 * MTU), send(seed=3), send(seed=4),
         dut.send(0), dut.write(1, 2 * MTU), dut.send(3, seed=3), dut.send(4, seed=4),
         peer.ack(3, 3), peer.ack(4, 4),
     ])
case('req-ack-inside', 'RC-REQ-10',
     'An ACK for the middle of a message completes what is before that message',
     rc(end_state='RTS'), [
         send(), send(size=4 * MTU, seed=2), dut.send(0), dut.send(1, 4 * MTU, seed=2),
         peer.ack(2, 1), wait(MS), peer.ack(4, 2),
     ])
case('req-nak-acknowledges', 'RC-REQ-10 RC-REQ-20', 'A NAK acknowledges all before its PSN',
     rc(), [
         send(seed=0), send(seed=1), send(seed=2), [dut.send(i, seed=i) for i in range(3)],
         peer.nak(2, SEQUENCE, 2), dut.send(2, seed=2), peer.ack(2, 3),
     ])
case('req-rnr-acknowledges', 'RC-REQ-10 RC-REQ-40', 'An RNR NAK acknowledges all before its PSN',
     rc(), [
         send(seed=0), send(seed=1), [dut.send(i, seed=i) for i in range(2)],
         peer.rnr(1, 1, 1), wait(rnr_delay(1)), dut.send(1, seed=1), peer.ack(1, 2),
     ])
case('req-response-acknowledges', 'RC-RSP-41 RC-REQ-10',
     'The answer of a READ acknowledges what was sent before it',
     rc(), [
         send(), send(WRITE), send(READ, 2 * MTU, seed=7), dut.send(0), dut.write(1), dut.read(2, 2 * MTU),
         peer.responses(2, 2 * MTU, msn=3),
     ])
case('req-ghost-ack', 'RC-REQ-13', 'An ACK that is older than the last one changes nothing',
     rc(), [
         send(seed=0), send(seed=1), dut.send(0, seed=0), dut.send(1, seed=1), peer.ack(1, 2),
         send(seed=2), dut.send(2, seed=2), peer.ack(0, 1), peer.ack(1, 2), wait(MS), peer.ack(2, 3),
     ], counters={'drop_ghost_ack': 2})
case('req-ghost-nak', 'RC-REQ-13', 'A NAK for what was acknowledged long ago changes nothing',
     rc(), [
         send(seed=0), send(seed=1), dut.send(0, seed=0), dut.send(1, seed=1), peer.ack(1, 2),
         send(seed=2), dut.send(2, seed=2), peer.nak(0, SEQUENCE, 0), peer.nak(1, 0x62, 1), peer.ack(2, 3),
     ], counters={'drop_ghost_ack': 2})
case('req-ack-of-unsent', 'RC-REQ-14', 'An ACK for what was never sent is dropped',
     rc(), [
         send(), dut.send(0), peer.ack(1, 2), peer.ack(0xFFFFFF, 0), peer.ack(0, 1),
     ], counters={'drop_ghost_ack': 2})
for syndrome in (0x40, 0x5F, 0x65, 0x7F):
    case(f'req-reserved-syndrome-{syndrome:02x}', 'RC-REQ-15',
         f'The reserved AETH syndrome 0x{syndrome:02x} is ignored',
         rc(), [
             send(), dut.send(0), peer.ack(0, 1, syndrome), wait(MS), peer.ack(0, 1),
         ], counters={'drop_reserved_syndrome': 1})
case('req-msn-is-not-believed', 'RC-MSN-3', 'Work requests complete by PSN, whatever MSN the ACK has',
     rc(), [
         send(seed=0), send(seed=1), dut.send(0, seed=0), dut.send(1, seed=1),
         peer.ack(0, 0x777), wait(MS), peer.ack(1, 0),
     ])
case('req-no-credits', 'RC-REQ-17',
     'Credit count 0 still leaves one SEND to be sent, and WRITE and READ at will',
     rc(), [
         send(seed=0), dut.send(0, seed=0), peer.ack(0, 1, 0x00),
         send(seed=1), dut.send(1, seed=1), peer.ack(1, 2, 0x00),
         send(WRITE), send(READ, 64, seed=7), dut.write(2), dut.read(3), peer.responses(3, msn=4),
     ])
case('req-unsignaled', 'RC-REQ-60', 'Without SIGNALED there is no completion, unless it fails',
     rc(**ERR), [
         send(seed=0, flags=(), status=None), send(seed=1), send(seed=2, flags=(), status='REM_ACCESS_ERR'),
         [dut.send(i, seed=i) for i in range(3)],
         peer.ack(1, 2), peer.nak(2, 0x62, 2),
     ])
case('req-completion-opcodes', 'RC-REQ-62', 'Completions name the operation; that of a READ has its length',
     rc(), [
         send(), send('SEND_WITH_IMM', imm=1), send(WRITE), send('RDMA_WRITE_WITH_IMM', imm=2),
         send(READ, 300, seed=7),
         dut.send(0), dut.send(1, imm=1), dut.write(2), dut.write(3, imm=2), dut.read(4, 300),
         peer.ack(3, 4), peer.responses(4, 300, msn=5),
     ])

# ---- READs ----

case('req-implied-nak', 'RC-REQ-11',
     'An ACK behind a READ that was not answered: the READ is asked for again, and what '
     'came after it', rc(), [
         send(READ, 2 * MTU, seed=7), send(), dut.read(0, 2 * MTU), dut.send(2),
         peer.ack(2, 2), dut.read(0, 2 * MTU), dut.send(2),
         peer.responses(0, 2 * MTU), peer.ack(2, 2),
     ], counters={'implied_nak_seq_err': 1})
case('req-implied-nak-by-response', 'RC-REQ-11',
     'The answer of a later READ is an implied NAK for the earlier one',
     rc(), [
         send(READ, 64, seed=7), send(READ, 64, seed=8), dut.read(0), dut.read(1),
         peer.responses(1, msn=2, seed=8), dut.read(0), dut.read(1),
         peer.responses(0, msn=1), peer.responses(1, msn=2, seed=8),
     ], counters={'implied_nak_seq_err': 1})
case('req-response-gap', 'RC-REQ-12 RC-REQ-2 RC-REQ-22',
     'A response is lost: the rest is asked for once, from there on',
     rc(), [
         send(READ, 5 * MTU, seed=7), dut.read(0, 5 * MTU),
         peer.responses(0, 5 * MTU)[:1], peer.responses(0, 5 * MTU)[2:3],
         dut.read(1, 4 * MTU, va=PEER_VA + MTU), peer.responses(0, 5 * MTU)[3:],
         peer.responses(1, 4 * MTU, at=MTU),
     ])
case('req-response-continued', 'RC-REQ-12', 'The repeated answer of a READ may go on with a Middle',
     rc(), [
         send(READ, 4 * MTU, seed=7), dut.read(0, 4 * MTU),
         peer.responses(0, 4 * MTU)[:1], peer.responses(0, 4 * MTU)[2:3],
         dut.read(1, 3 * MTU, va=PEER_VA + MTU), peer.responses(0, 4 * MTU)[1:],
     ])
case('req-response-continued-last', 'RC-REQ-12', 'The repeated answer of a READ may be a Last alone',
     rc(timeout=8), [
         send(READ, 2 * MTU, seed=7), dut.read(0, 2 * MTU), peer.responses(0, 2 * MTU)[:1],
         wait(ack_timeout(8)), dut.read(1, MTU, va=PEER_VA + MTU), peer.responses(0, 2 * MTU)[1:],
     ])
case('req-response-lost-timeout', 'RC-REQ-12 RC-REQ-33 RC-REQ-2',
     'The last response is lost: after the timeout it is '
     'asked for', rc(timeout=8), [
         send(READ, 3 * MTU, seed=7), dut.read(0, 3 * MTU), peer.responses(0, 3 * MTU)[:2],
         wait(ack_timeout(8)), dut.read(2, MTU, va=PEER_VA + 2 * MTU), peer.responses(2, MTU, at=2 * MTU),
     ])
for word, packet in {
        'middle-first': peer.packet(RESPONSE_MIDDLE, 0, pattern(7, MTU)),
        'last-too-early': peer.packet(RESPONSE_LAST, 0, pattern(7, MTU), syndrome=NO_CREDITS, msn=1),
        'only-for-two': peer.packet(RESPONSE_ONLY, 0, pattern(7, MTU), syndrome=NO_CREDITS, msn=1),
        'first-too-short': peer.packet(RESPONSE_FIRST, 0, pattern(7, MTU - 4), syndrome=NO_CREDITS,
                                       msn=1)}.items():
    case(f'req-response-{word}', 'RC-REQ-12',
         f'A wrong answer of a READ ({word.replace("-", " ")}): BAD_RESP_ERR',
         rc(**ERR), [
             send(READ, 2 * MTU, status='BAD_RESP_ERR'), flushed_send(), dut.read(0, 2 * MTU), dut.send(2),
             packet,
         ])
case('req-response-of-other-size', 'RC-REQ-12',
     'An answer with another length than was asked for: BAD_RESP_ERR',
     rc(**ERR), [
         send(READ, 60, status='BAD_RESP_ERR'), dut.read(0, 60),
         peer.packet(RESPONSE_ONLY, 0, pattern(7, 64), syndrome=NO_CREDITS, msn=1),
     ])
case('req-response-twice', 'RC-REQ-13', 'READ responses that come again are ignored',
     rc(), [
         send(READ, 3 * MTU, seed=7), dut.read(0, 3 * MTU), peer.responses(0, 3 * MTU)[:2],
         peer.responses(0, 3 * MTU, seed=9)[:2], peer.responses(0, 3 * MTU)[2:],
     ], counters={'drop_ghost_ack': 2})

# ---- Limits and fences ----

case('req-read-limit', 'RC-REQ-50', 'Not more READs at a time than max_rd_atomic; what follows waits',
     rc(max_rd_atomic=2), [
         [send(READ, 64, seed=7 + i) for i in range(3)], send(),
         dut.read(0), dut.read(1), wait(MS),
         peer.responses(0), dut.read(2), dut.send(3),
         peer.responses(1, msn=2, seed=8), peer.responses(2, msn=3, seed=9), peer.ack(3, 4),
     ])
case('req-fence', 'RC-REQ-52', 'A fenced SEND waits for the READs before it, another does not',
     rc(), [
         send(READ, 64, seed=7), send(seed=2), send(seed=3, flags=('SIGNALED', 'FENCE')), send(seed=4),
         dut.read(0), dut.send(1, seed=2), wait(MS),
         peer.responses(0), dut.send(2, seed=3), dut.send(3, seed=4),
         peer.ack(3, 4),
     ])
case('req-completions-in-order', 'RC-REQ-54', 'Completions come in the order of the work requests',
     rc(), [
         send(WRITE), send(READ, 64, seed=7), send(), dut.write(0), dut.read(1), dut.send(2),
         peer.ack(0, 1), peer.responses(1, msn=2), peer.ack(2, 3),
     ])
case('req-no-sends-in-rtr', 'QP-STATES', 'A queue pair in RTR sends no requests',
     rc(state='RTR'), [
         send(status=None), wait(S), peer.ack(0, 1),
     ], counters={'sent_pkts': 0})
case('req-sqd-finishes', 'QP-ERR-6 QP-STATES', 'In SQD what is started is finished, and nothing is started',
     rc(end_state='SQD'), [
         send(size=2 * MTU), dut.send(0, 2 * MTU),
         modify('SQD'), send(seed=2, status=None),
         wait(MS), peer.ack(1, 1),
     ])
case('req-error-flushes', 'QP-ERR-2 QP-ERR-3',
     'In ERR work requests are flushed in order, also those posted later',
     rc(**ERR), [
         flushed_send(), flushed_send('RDMA_READ'), dut.send(0), dut.read(1),
         modify('ERR'), flushed_send(), peer.ack(0, 1),
     ])
