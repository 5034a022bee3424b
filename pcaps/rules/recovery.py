"""The device's request is lost, refused or not answered: retries, timers, RNR waits."""
from scenario import (ACCESS, INVALID, MTU, OPERATIONAL, PEER_VA, RNR_HUNDREDTHS_OF_MS, S, SEQUENCE, US,
                      ack_timeout, case, dut, flushed_send, peer, rc, rnr_delay, send, wait)

READ = 'RDMA_READ'
WRITE = 'RDMA_WRITE'
ERR = {'end_state': 'ERR'}
EXACT_TIMES = {'timer_tolerance': 1.1}
T8 = ack_timeout(8)

# ---- NAKs ----

case('req-go-back', 'RC-REQ-20 RC-REQ-1', 'A sequence NAK: everything from its PSN on is sent again',
     rc(), [
         send(size=5 * MTU), dut.send(0, 5 * MTU),
         peer.nak(2, SEQUENCE, 0), dut.send(0, 5 * MTU)[2:], peer.ack(4, 1),
     ])
case('req-go-back-over-messages', 'RC-REQ-20', 'Going back over message bounds, READs included',
     rc(), [
         send(WRITE, 3 * MTU), send(READ, 2 * MTU, seed=7), send(seed=3),
         dut.write(0, 3 * MTU), dut.read(3, 2 * MTU), dut.send(5, seed=3),
         peer.nak(1, SEQUENCE, 0), dut.write(0, 3 * MTU)[1:], dut.read(3, 2 * MTU), dut.send(5, seed=3),
         peer.ack(2, 1), peer.responses(3, 2 * MTU, msn=2), peer.ack(5, 3),
     ])
case('req-nak-retries', 'RC-REQ-21',
     'Each sequence NAK takes one of retry_cnt; without one left the work request fails',
     rc(retry_cnt=2, **ERR), [
         send(status='RETRY_EXC_ERR'), flushed_send(seed=2), dut.send(0), dut.send(1, seed=2),
         [[peer.nak(0, SEQUENCE, 0), dut.send(0), dut.send(1, seed=2)]] * 2,
         peer.nak(0, SEQUENCE, 0),
     ])
case('req-seven-retries', 'RC-REQ-21', 'retry_cnt 7 is seven retries, not endless ones',
     rc(retry_cnt=7, **ERR), [
         send(status='RETRY_EXC_ERR'), dut.send(0), [[peer.nak(0, SEQUENCE, 0), dut.send(0)]] * 7,
         peer.nak(0, SEQUENCE, 0),
     ])
case('req-progress-restores-retries', 'RC-REQ-16', 'Progress gives all retries back',
     rc(retry_cnt=1), [
         [send(seed=i) for i in range(4)], [dut.send(i, seed=i) for i in range(4)],
         [[peer.nak(i, SEQUENCE, i), [dut.send(k, seed=k) for k in range(i, 4)]] for i in range(4)],
         peer.ack(3, 4),
     ])
for code, status, word in ((INVALID, 'REM_INV_REQ_ERR', 'invalid request'),
                           (ACCESS, 'REM_ACCESS_ERR', 'remote access'),
                           (OPERATIONAL, 'REM_OP_ERR', 'remote operational')):
    case(f'req-fatal-nak-{code:02x}', 'QP-ERR-1 QP-ERR-2 RC-REQ-60',
         f'NAK {word} error: {status}, the rest is flushed',
         rc(**ERR), [
             send(), send(WRITE, status=status), flushed_send(seed=3), dut.send(0), dut.write(1),
             dut.send(2, seed=3),
             peer.nak(1, code, 1),
         ])
case('req-fatal-nak-of-read', 'QP-ERR-1',
     'A READ that is refused fails, and what was done before it is complete',
     rc(**ERR), [
         send(), send(READ, 2 * MTU, status='REM_ACCESS_ERR'), dut.send(0), dut.read(1, 2 * MTU),
         peer.nak(1, ACCESS, 1),
     ])
case('req-nak-in-read', 'QP-ERR-1', 'A READ may be refused in the middle of its answer',
     rc(**ERR), [
         send(READ, 3 * MTU, status='REM_ACCESS_ERR'), dut.read(0, 3 * MTU),
         peer.responses(0, 3 * MTU)[:1], peer.nak(1, ACCESS, 1),
     ])

# ---- The transport timer ----

for code in (4, 8, 12, 14, 18, 22):
    case(f'req-timeout-{code}', 'RC-REQ-30 RC-REQ-33 RC-REQ-34',
         f'Without an ACK the request is sent again after 4.096 us * 2^{code}', rc(timeout=code), [
             send(), dut.send(0), wait(ack_timeout(code)), dut.send(0), peer.ack(0, 1),
         ], compare=EXACT_TIMES)
case('req-timeout-off', 'RC-REQ-30', 'With timeout 0 nothing is sent again', rc(timeout=0), [
    send(), dut.send(0), wait(30 * S), peer.ack(0, 1),
])
case('req-timeout-oldest', 'RC-REQ-33',
     'After the timeout everything from the oldest PSN without an ACK is sent again',
     rc(timeout=8), [
         send(), send(size=4 * MTU, seed=2), dut.send(0), dut.send(1, 4 * MTU, seed=2), peer.ack(2, 1),
         wait(T8), dut.send(1, 4 * MTU, seed=2)[2:], peer.ack(4, 2),
     ], compare=EXACT_TIMES)
case('req-timer-restarts', 'RC-REQ-32', 'An ACK that makes progress starts the timer anew',
     rc(timeout=8), [
         send(seed=0), send(seed=1), dut.send(0, seed=0), dut.send(1, seed=1),
         wait(T8 * 9 // 10), peer.ack(0, 1),
         wait(T8), dut.send(1, seed=1), peer.ack(1, 2),
     ], compare=EXACT_TIMES)
case('req-timer-stops', 'RC-REQ-32',
     'When nothing is outstanding no timer runs; the next request has a whole one',
     rc(timeout=8), [
         send(seed=0), dut.send(0, seed=0), peer.ack(0, 1),
         wait(T8 * 9 // 10), send(seed=1), dut.send(1, seed=1),
         wait(T8), dut.send(1, seed=1), peer.ack(1, 2),
     ], compare=EXACT_TIMES)
case('req-timeout-exhausted', 'RC-REQ-33 RC-REQ-21',
     'Without any answer: retry_cnt retries, then RETRY_EXC_ERR',
     rc(timeout=8, retry_cnt=3, **ERR), [
         send(status='RETRY_EXC_ERR'), flushed_send(seed=2), dut.send(0), dut.send(1, seed=2),
         [[wait(T8), dut.send(0), dut.send(1, seed=2)]] * 3,
     ], compare=EXACT_TIMES, counters={'local_ack_timeout_err': 4})
case('req-no-retries', 'RC-REQ-33', 'retry_cnt 0: the first timeout is the end',
     rc(timeout=8, retry_cnt=0, **ERR), [
    send(status='RETRY_EXC_ERR'), dut.send(0),
])
case('req-timeouts-and-naks', 'RC-REQ-21', 'Timeouts and sequence NAKs take from the same count',
     rc(timeout=8, retry_cnt=2, **ERR), [
         send(status='RETRY_EXC_ERR'), dut.send(0),
         wait(T8), dut.send(0), peer.nak(0, SEQUENCE, 0), dut.send(0),
     ])
case('req-progress-restores-timeouts', 'RC-REQ-16', 'An ACK for a part of a message gives the retries back',
     rc(timeout=8, retry_cnt=1), [
         send(size=3 * MTU), dut.send(0, 3 * MTU), wait(T8), dut.send(0, 3 * MTU),
         peer.ack(0, 0), wait(T8), dut.send(0, 3 * MTU)[1:], peer.ack(2, 1),
     ], compare=EXACT_TIMES)
case('req-read-progress-restores', 'RC-REQ-16', 'A READ response gives the retries back',
     rc(timeout=8, retry_cnt=1), [
         send(READ, 3 * MTU, seed=7), dut.read(0, 3 * MTU), wait(T8), dut.read(0, 3 * MTU),
         peer.responses(0, 3 * MTU)[:1], wait(T8), dut.read(1, 2 * MTU, va=PEER_VA + MTU),
         peer.responses(1, 2 * MTU, at=MTU),
     ], compare=EXACT_TIMES)

# ---- RNR ----

for timer in (0, 1, 12, 24, 25, 31):
    case(f'req-rnr-wait-{timer}', 'RC-REQ-40',
         f'RNR timer code {timer}: {RNR_HUNDREDTHS_OF_MS[timer] / 100} ms pass '
         'before the request is sent again', rc(), [
             send(), dut.send(0), peer.rnr(0, timer, 0), wait(rnr_delay(timer)), dut.send(0), peer.ack(0, 1),
         ], compare=EXACT_TIMES)
case('req-rnr-from-its-psn', 'RC-REQ-40', 'After an RNR wait everything from its PSN on is sent again',
     rc(), [
         [send(seed=i) for i in range(3)], [dut.send(i, seed=i) for i in range(3)],
         peer.rnr(1, 12, 1), wait(rnr_delay(12)), dut.send(1, seed=1), dut.send(2, seed=2), peer.ack(2, 3),
     ], compare=EXACT_TIMES)
case('req-rnr-retry-0', 'RC-REQ-41', 'rnr_retry 0: the first RNR NAK is the end', rc(rnr_retry=0, **ERR), [
    send(status='RNR_RETRY_EXC_ERR'), dut.send(0), peer.rnr(0, 1, 0),
])
RNR_ROUND = [peer.rnr(0, 1, 0), wait(rnr_delay(1)), dut.send(0)]
case('req-rnr-retry-2', 'RC-REQ-41', 'rnr_retry 2: the third RNR NAK is the end', rc(rnr_retry=2, **ERR), [
    send(status='RNR_RETRY_EXC_ERR'), dut.send(0), RNR_ROUND, RNR_ROUND, peer.rnr(0, 1, 0),
])
case('req-rnr-retry-7', 'RC-REQ-41', 'rnr_retry 7 has no end', rc(rnr_retry=7), [
    send(), dut.send(0), [RNR_ROUND] * 12, peer.ack(0, 1),
])
case('req-rnr-restored', 'RC-REQ-42 RC-REQ-16', 'Progress gives the RNR retries back',
     rc(rnr_retry=1), [
         send(seed=0), send(seed=1), dut.send(0, seed=0), dut.send(1, seed=1),
         peer.rnr(0, 1, 0), wait(rnr_delay(1)), dut.send(0, seed=0), dut.send(1, seed=1),
         peer.rnr(1, 1, 1), wait(rnr_delay(1)), dut.send(1, seed=1), peer.ack(1, 2),
     ])
case('req-rnr-second', 'RC-REQ-42', 'A second RNR NAK during the wait is ignored, and takes no retry',
     rc(rnr_retry=1), [
         send(seed=0), send(seed=1), dut.send(0, seed=0), dut.send(1, seed=1),
         peer.rnr(0, 16, 0), peer.rnr(0, 20, 0), wait(rnr_delay(16) - 10 * US),
         dut.send(0, seed=0), dut.send(1, seed=1), peer.ack(1, 2),
     ], compare=EXACT_TIMES)
case('req-nak-in-rnr-wait', 'RC-RSP-3 RC-REQ-40', 'A sequence NAK during an RNR wait does not cut it short',
     rc(), [
         send(seed=0), send(seed=1), dut.send(0, seed=0), dut.send(1, seed=1),
         peer.rnr(0, 16, 0), peer.nak(0, SEQUENCE, 0), wait(rnr_delay(16) - 10 * US),
         dut.send(0, seed=0), dut.send(1, seed=1), peer.ack(1, 2),
     ], compare=EXACT_TIMES)
case('req-rnr-stops-timer', 'RC-REQ-35', 'The transport timer rests during an RNR wait that is longer',
     rc(timeout=8, retry_cnt=0), [
         send(), dut.send(0), peer.rnr(0, 24, 0), wait(rnr_delay(24)), dut.send(0), peer.ack(0, 1),
     ], compare=EXACT_TIMES, counters={'local_ack_timeout_err': 0})
