"""The device answers: PSNs, message numbers, duplicates, acknowledgements."""
from scenario import (ACKNOWLEDGE, INVALID, KEY, MS, MTU, NO_CREDITS, RESPONSE_FIRST, SEQUENCE, VA, case, dut,
                      flushed, idle, leave_open, memory, modify, pattern, peer, rc, recv, store, wait,
                      written)

HALF = 2**23

# ---- PSNs ----

case('rsp-psn-wrap', 'RC-PSN-1 RC-PSN-5',
     'PSNs go from 0xffffff to 0, and what is behind the wrap is a duplicate',
     rc(rq_psn=0xFFFFFE), [
         [recv(seed=i) for i in range(4)],
         peer.send(0xFFFFFE, seed=0), dut.ack(0xFFFFFE, 1),
         peer.send(0xFFFFFF, seed=1), dut.ack(0xFFFFFF, 2),
         peer.send(0, seed=2), dut.ack(0, 3),
         peer.send(0xFFFFFF, seed=1), dut.ack(0, 3),
         peer.send(1, seed=3), dut.ack(1, 4),
     ])
case('rsp-psn-window-ahead', 'RC-PSN-2', 'A PSN ahead by all but half of the space is a gap',
     rc(rq_psn=0x100), [
         recv(),
         peer.send(0x100 + HALF - 1), dut.nak(0x100, SEQUENCE, 0),
         peer.send(0x100), dut.ack(0x100, 1),
     ])
case('rsp-psn-window-behind', 'RC-PSN-2', 'A PSN behind by half of the space is a duplicate',
     rc(rq_psn=0x100), [
         recv(), idle(),
         peer.send(0x100), dut.ack(0x100, 1),
         peer.send(0x101 - HALF), dut.ack(0x100, 1),
     ])
case('rsp-read-takes-psns', 'RC-PSN-3 RC-MSN-1', 'A READ takes as many PSNs as its answer has packets',
     rc(rq_psn=0xFFFFFE), [
         recv(),
         peer.read(0xFFFFFE, 4 * MTU), dut.responses(0xFFFFFE, 4 * MTU, msn=1),
         peer.read(2, 3 * MTU + 1), dut.responses(2, 3 * MTU + 1, msn=2),
         peer.read(6, MTU), dut.responses(6, MTU, msn=3),
         peer.send(7), dut.ack(7, 4),
     ], memories=[memory()])
case('rsp-zero-length', 'RC-PSN-4',
     'SEND, WRITE and READ of no bytes take one PSN; the READ is answered by an Only',
     rc(), [
         recv(got=0),
         peer.send(0, 0), dut.ack(0, 1),
         peer.write(1, 0), dut.ack(1, 2),
         peer.read(2, 0), dut.responses(2, 0, msn=3),
     ], memories=[memory()])
case('rsp-first-psn', 'RC-PSN-5', 'The first expected PSN is the one that the queue pair was given',
     rc(rq_psn=0xABCDEF, sq_psn=0x123456), [
         recv(),
         peer.send(0xABCDEF), dut.ack(0xABCDEF, 1),
     ])

# ---- Message numbers ----

case('rsp-msn', 'RC-MSN-1 RC-MSN-2', 'The MSN counts completed messages, READs when they are accepted',
     rc(), [
         recv(3 * MTU), recv(),
         peer.send(0, 3 * MTU, ack_every=2)[:2], dut.ack(1, 0),
         peer.send(0, 3 * MTU)[2:], dut.ack(2, 1),
         peer.write(3, 2 * MTU), dut.ack(4, 2),
         peer.read(5, 2 * MTU), dut.responses(5, 2 * MTU, msn=3, seed=1),
         peer.send(7), dut.ack(7, 4),
     ], memories=[memory(expect=[written(2 * MTU)])])
case('rsp-msn-not-on-replay', 'RC-MSN-2', 'A READ that is answered again counts once',
     rc(), [
         recv(),
         peer.read(0), dut.responses(0, msn=1),
         peer.read(0), dut.responses(0, msn=1),
         peer.send(1), dut.ack(1, 2),
     ], memories=[memory()])

# ---- Gaps and duplicates ----

case('rsp-gap-nak-once', 'RC-RSP-1', 'A gap is reported once; the next gap is reported again',
     rc(), [
         [recv(seed=i) for i in range(5)],
         peer.send(0, seed=0), dut.ack(0, 1),
         peer.send(2, seed=2), dut.nak(1, SEQUENCE, 1),
         peer.send(3, seed=3),
         peer.send(4, seed=4),
         peer.send(1, seed=1), dut.ack(1, 2),
         peer.send(3, seed=3), dut.nak(2, SEQUENCE, 2),
         peer.send(2, seed=2), dut.ack(2, 3),
         peer.send(3, seed=3), dut.ack(3, 4),
         peer.send(4, seed=4), dut.ack(4, 5),
     ])
case('rsp-gap-in-message', 'RC-RSP-1',
     'A packet lost inside a message: the NAK names it, and the message goes on',
     rc(), [
         recv(5 * MTU),
         peer.send(0, 5 * MTU)[:2],
         peer.send(0, 5 * MTU)[3:4], dut.nak(2, SEQUENCE, 0),
         peer.send(0, 5 * MTU)[4:],
         peer.send(0, 5 * MTU)[2:], dut.ack(4, 1),
     ])
case('rsp-gap-before-read', 'RC-RSP-1', 'A READ behind a gap is not answered before the gap is closed',
     rc(), [
         recv(),
         peer.read(1), dut.nak(0, SEQUENCE, 0),
         peer.send(0), dut.ack(0, 1),
         peer.read(1), dut.responses(1, msn=2),
     ], memories=[memory()])
case('rsp-duplicate-send', 'RC-RSP-2 RC-RSP-30',
     'A SEND that comes again takes no second receive and is acknowledged',
     rc(), [
         recv(seed=0), recv(seed=1), idle(),
         peer.send(0, seed=0), dut.ack(0, 1),
         peer.send(1, seed=1), dut.ack(1, 2),
         peer.send(0, seed=0), dut.ack(1, 2),
         peer.send(1, seed=1), dut.ack(1, 2),
     ])
case('rsp-duplicate-write', 'RC-RSP-2 RC-RSP-30', 'A WRITE that comes again does not change the memory again',
     rc(), [
         peer.write(0, 8), dut.ack(0, 1),
         store('hex 5a5a5a5a5a5a5a5a'),
         peer.write(0, 8), dut.ack(0, 1),
     ], memories=[memory(expect=[(0, 'hex 5a5a5a5a5a5a5a5a')])])
case('rsp-duplicate-middle', 'RC-RSP-2 RC-RSP-30',
     'A packet that comes twice inside of a message is placed once; the ACK names what is complete',
     rc(), [
         recv(4 * MTU),
         peer.send(0, 4 * MTU)[:2],
         peer.send(0, 4 * MTU, ack_every=2)[1:2], dut.ack(1, 0),
         peer.send(0, 4 * MTU)[2:], dut.ack(3, 1),
     ])
case('rsp-duplicate-read', 'RC-RSP-31 RC-PSN-3',
     'A READ that comes again is answered again, from the memory of now',
     rc(), [
         peer.read(0, 8), dut.responses(0, 8, msn=1),
         store('pattern 9'),
         peer.read(0, 8), dut.responses(0, 8, msn=1, seed=9),
     ], memories=[memory(8, expect=[(0, 'pattern 9')])])
case('rsp-duplicate-read-rest', 'RC-RSP-31',
     'The rest of a READ is answered from its PSN on, beginning with a First',
     rc(), [
         peer.read(0, 4 * MTU), dut.responses(0, 4 * MTU, msn=1),
         peer.read(1, 3 * MTU, va=VA + MTU), dut.responses(1, 3 * MTU, msn=1, at=MTU),
         peer.read(3, MTU, va=VA + 3 * MTU), dut.responses(3, MTU, msn=1, at=3 * MTU),
     ], memories=[memory()])
case('rsp-duplicate-read-other-key', 'RC-RSP-31', 'A repeated READ with another R_Key is dropped',
     rc(), [
         recv(),
         peer.read(0), dut.responses(0, msn=1),
         peer.read(0, key=KEY + 0x100),
         peer.send(1), dut.ack(1, 2),
     ], memories=[memory(), memory(va=2 * VA, key=KEY + 0x100)], counters={'drop_duplicate_not_found': 1})
case('rsp-duplicate-read-longer', 'RC-RSP-31', 'A repeated READ that reaches beyond the first one is dropped',
     rc(), [
         recv(),
         peer.read(0, 2 * MTU), dut.responses(0, 2 * MTU, msn=1),
         peer.read(0, 2 * MTU + 1),
         peer.read(1, 2 * MTU, va=VA + MTU),
         peer.send(2), dut.ack(2, 2),
     ], memories=[memory()], counters={'drop_duplicate_not_found': 2})
case('rsp-duplicate-read-elsewhere', 'RC-RSP-31',
     'A repeated READ from an address outside of the first is dropped',
     rc(), [
         recv(),
         peer.read(0, 64, va=VA + 1024), dut.responses(0, 64, msn=1, at=1024),
         peer.read(0, 64, va=VA),
         peer.send(1), dut.ack(1, 2),
     ], memories=[memory()], counters={'drop_duplicate_not_found': 1})
case('rsp-duplicate-read-of-send', 'RC-RSP-31', 'A READ with the PSN of a SEND that is done is dropped',
     rc(), [
         recv(seed=0), recv(seed=1),
         peer.send(0, seed=0), dut.ack(0, 1),
         peer.read(0),
         peer.send(1, seed=1), dut.ack(1, 2),
     ], memories=[memory()], counters={'drop_duplicate_not_found': 1})
case('rsp-reads-remembered', 'RC-RSP-33', 'As many READs as max_dest_rd_atomic says can be answered again',
     rc(max_dest_rd_atomic=4), [
         [[peer.read(i, va=VA + 64 * i), dut.responses(i, msn=i + 1, at=64 * i)] for i in range(5)],
         peer.read(0),
         [[peer.read(i, va=VA + 64 * i), leave_open(dut.responses(i, at=64 * i), 'msn')] for i in range(1,
                                                                                                        5)],
     ], memories=[memory()], counters={'drop_duplicate_not_found': 1})
case('rsp-duplicates-in-order', 'RC-RSP-34',
     'READs and SENDs that come again are answered in the order of their PSNs',
     rc(), [
         recv(),
         peer.read(0), dut.responses(0, msn=1),
         peer.read(1, va=VA + 64), dut.responses(1, msn=2, at=64),
         peer.send(2), dut.ack(2, 3),
         peer.read(0), leave_open(dut.responses(0), 'msn'),
         peer.read(1, va=VA + 64), leave_open(dut.responses(1, at=64), 'msn'),
         peer.send(2), dut.ack(2, 3),
     ], memories=[memory()])
case('rsp-stale-ack-of-duplicates', 'RC-RSP-30',
     'An ACK of a duplicate has the present MSN and the last completed PSN',
     rc(), [
         [[recv(seed=i), peer.send(i, seed=i), dut.ack(i, i + 1)] for i in range(3)],
         peer.write(3, 0), dut.ack(3, 4),
         peer.send(0, seed=0), dut.ack(3, 4),
     ])

# ---- Acknowledgements ----

case('rsp-ack-when-asked', 'RC-RSP-40',
     'A request that asks for an ACK gets one, which covers those that did not ask',
     rc(), [
         [recv(seed=i) for i in range(4)],
         peer.send(0, seed=0, ack=False), peer.send(1, seed=1, ack=False), peer.send(2, seed=2, ack=False),
         peer.send(3, seed=3), dut.ack(3, 4),
     ], merged_acks=True)
case('rsp-ack-each', 'RC-RSP-40', 'Requests that come apart from each other are acknowledged one by one',
     rc(), [
         [[recv(seed=i), wait(MS), peer.send(i, seed=i), dut.ack(i, i + 1)] for i in range(4)],
     ])
case('rsp-ack-fields', 'RC-RSP-42 RC-RSP-43',
     'AckReq and SE are not set in an ACK, its P_Key is the default one',
     rc(), [
         recv(seed=0), recv(seed=1),
         peer.send(0, seed=0, solicited=True, mig_req=True), dut.ack(0, 1),
         peer.send(1, seed=1, solicited=True, mig_req=False), dut.ack(1, 2),
     ])
case('rsp-ack-for-middle', 'RC-RSP-40', 'An ACK asked for in the middle of a message is sent before its end',
     rc(), [
         recv(4 * MTU),
         peer.send(0, 4 * MTU, ack_every=2)[:2], dut.ack(1, 0),
         wait(MS),
         peer.send(0, 4 * MTU, ack_every=2)[2:], dut.ack(3, 1),
     ])
case('rsp-read-after-write', 'RC-REQ-54', 'A READ behind a WRITE brings what was written',
     rc(), [
         peer.write(0, 64, seed=3, ack=False),
         peer.read(1, 64), dut.responses(1, 64, msn=2, seed=3),
     ], memories=[memory(expect=[written(64, seed=3)])], merged_acks=True)
case('rsp-read-before-write', 'RC-REQ-54', 'A WRITE behind a READ does not change what the READ brings',
     rc(), [
         peer.read(0, 2 * MTU), dut.responses(0, 2 * MTU, msn=1),
         peer.write(2, 2 * MTU, seed=3), dut.ack(3, 2),
     ], memories=[memory(expect=[written(2 * MTU, seed=3)])])
case('rsp-established', 'RC-RSP-44',
     'The first request in RTR raises COMM_EST, later ones do not; it is answered',
     rc(state='RTR'), [
         recv(seed=0), recv(seed=1),
         peer.send(0, seed=0), dut.ack(0, 1),
         peer.send(1, seed=1), dut.ack(1, 2),
     ], events=['COMM_EST'])
case('rsp-solicited', 'RC-RSP-45', 'The SE bit of a request changes nothing of its answer',
     rc(), [
         recv(2 * MTU),
         peer.send(0, 2 * MTU, solicited=True), dut.ack(1, 1),
         peer.write(2, 64, solicited=True), dut.ack(2, 2),
     ], memories=[memory(expect=[written(64)])])
case('rsp-error-state-is-silent', 'QP-STATES',
     'A queue pair in ERR answers nothing, and its receives are flushed',
     rc(end_state='ERR'), [
         recv(), flushed(),
         peer.send(0), dut.ack(0, 1),
         modify('ERR'),
         peer.send(1),
         peer.send(0),
     ], counters={'drop_qp_state': 2})
case('rsp-sqd-answers', 'QP-STATES', 'A queue pair in SQD still answers',
     rc(end_state='SQD'), [
         recv(),
         modify('SQD'),
         peer.send(0), dut.ack(0, 1),
     ])

# ---- What is no request ----

case('rsp-stray-response', 'RC-REQ-14', 'ACKs and READ responses for which there was no request are dropped',
     rc(), [
         recv(),
         peer.packet(ACKNOWLEDGE, 0, syndrome=NO_CREDITS, msn=1),
         peer.packet(RESPONSE_FIRST, 0, pattern(1, MTU), syndrome=NO_CREDITS, msn=1),
         peer.nak(0, INVALID, 0),
         peer.send(0), dut.ack(0, 1),
     ], counters={'drop_ghost_ack': 3})
