#!/usr/bin/env python3
"""Clients that break the rules of the control socket: each is refused or dropped, the daemon goes on
serving others, and nothing of them stays behind."""

import errno
import os
import random
import socket
import struct
import sys
import time

from control import (ADMIN, ALLOC_PD, CREATE_AH, CREATE_CHANNEL, CREATE_CQ, CREATE_QP, CREATE_SRQ,
                     DEALLOC_PD, DEREG_MR, DESTROY_AH, DESTROY_CQ, DESTROY_QP, DESTROY_SRQ, MODIFY_QP,
                     MODIFY_SRQ, OPEN_DEVICE, QUERY_PORT, QUERY_QP, QUERY_SRQ, REG_MR, REREG_MR,
                     RESIZE_CQ, Daemon, Dropped, create_cq_body, create_qp_body, handle, run_tests,
                     wait_for)

NAME = b"verbena0".ljust(64, b"\0")
BODY_BYTES = {OPEN_DEVICE: 64, QUERY_PORT: 0, ALLOC_PD: 0, DEALLOC_PD: 8, REG_MR: 32, DEREG_MR: 8,
              REREG_MR: 40, CREATE_CHANNEL: 0, CREATE_CQ: 16, RESIZE_CQ: 8, DESTROY_CQ: 8,
              CREATE_QP: 56, MODIFY_QP: 136, QUERY_QP: 8, DESTROY_QP: 8,
              CREATE_SRQ: 24, MODIFY_SRQ: 24, QUERY_SRQ: 8, DESTROY_SRQ: 8, CREATE_AH: 48,
              DESTROY_AH: 8}
WITH_ASYNC_END = (DESTROY_CQ, DESTROY_QP, DESTROY_SRQ)
WITH_HANDLE = (DEALLOC_PD, DEREG_MR, QUERY_QP, QUERY_SRQ, DESTROY_AH, *WITH_ASYNC_END)

daemon = None


def opened():
    connection = daemon.connect()
    error, _, fds = connection.open_device()
    assert error == 0, os.strerror(error)
    return connection, fds


def close_all(fds):
    for fd in fds:
        os.close(fd)


def expect_dropped(action):
    try:
        answer = action()
    except Dropped:
        return
    raise AssertionError(f"not dropped, but answered {answer}")


def test_wrong_headers_are_dropped():
    for data in (b"x", b"\0" * 15, b"\xff" * 16, b"\0" * 4096, os.urandom(5000)):
        with daemon.connect() as c:
            expect_dropped(lambda c=c, data=data: (c.send_raw(data), c.receive()))
    for header in ({"magic": 1}, {"length": 1}, {"length": 0xFFFFFFFF}):
        with daemon.connect() as c:
            expect_dropped(lambda c=c, header=header: c.call(QUERY_PORT, **header))


def test_other_version_is_told_so():
    with daemon.connect() as c:
        error, _, _ = c.call(OPEN_DEVICE, NAME, [0], version=99)
        assert error == errno.EPROTO, error


def test_every_operation_before_open_is_dropped():
    for op, size in BODY_BYTES.items():
        if op != OPEN_DEVICE:
            with daemon.connect() as c:
                expect_dropped(lambda c=c, op=op, size=size: c.call(op, bytes(size)))


def test_wrong_sizes_are_dropped():
    for op, size in BODY_BYTES.items():
        for wrong in {size - 1, size + 1, 0, 4000} - {size, -1}:
            connection, fds = opened()
            with connection:
                expect_dropped(lambda c=connection, op=op, n=wrong: c.call(op, bytes(n)))
            close_all(fds)


def test_unknown_operations_are_dropped():
    for op in (0, 1000, 0xFFFFFFFF):
        connection, fds = opened()
        with connection:
            expect_dropped(lambda c=connection, op=op: c.call(op))
        close_all(fds)


def test_reserved_fields_must_be_zero():
    bodies = [(op, struct.pack("<II", 1, 1)) for op in (DEALLOC_PD, DEREG_MR, QUERY_QP)]
    bodies.append((CREATE_QP, create_qp_body(1, 1, reserved=7)))
    for op, body in bodies:
        connection, fds = opened()
        with connection:
            expect_dropped(lambda c=connection, op=op, body=body: c.call(op, body))
        close_all(fds)


def test_wrong_numbers_of_descriptors_are_dropped_and_closed():
    null = os.open("/dev/null", os.O_RDONLY)
    before = daemon.fd_count()
    for count in (0, 2, 4, 5, 100, 253):
        with daemon.connect() as c:
            expect_dropped(lambda c=c, n=count: c.call(OPEN_DEVICE, NAME, [null] * n))
    for op in (QUERY_PORT, ALLOC_PD, CREATE_CHANNEL):
        connection, fds = opened()
        with connection:
            expect_dropped(lambda c=connection, op=op: c.call(op, fds=[null]))
        close_all(fds)
    with daemon.connect() as c:
        expect_dropped(lambda: c.call(ADMIN, b"status", [null]))
    os.close(null)
    wait_for(lambda: daemon.fd_count() <= before, 5, "descriptors are closed")


def test_only_the_own_memory_file_is_taken():
    parent = f"/proc/{os.getppid()}/mem"
    for path in ("/dev/null", parent):
        with daemon.connect() as c:
            error, _, fds = c.open_device(path=path)
            assert error == errno.EINVAL and not fds, (path, error)
            # A refusal is no end: the next try succeeds.
            error, _, fds = c.open_device()
            assert error == 0, os.strerror(error)
            close_all(fds)


def test_wrong_device_names():
    with daemon.connect() as c:
        for name in ("verbena2", "", "../verbena0", "x" * 63):
            assert c.open_device(name)[0] == errno.ENODEV
        assert c.open_device("x" * 64)[0] == errno.EINVAL
    connection, fds = opened()
    with connection:
        expect_dropped(connection.open_device)  # one connection, one device
    close_all(fds)


def test_foreign_handles_are_refused():
    (victim, victim_fds), (thief, thief_fds) = opened(), opened()
    async_fd = thief_fds[2]
    with victim, thief:
        pd = struct.unpack_from("<I", victim.ok(ALLOC_PD)[0])[0]
        answer, fds = victim.ok(CREATE_CQ, create_cq_body())
        cq = struct.unpack_from("<I", answer)[0]
        close_all(fds)
        answer, fds = victim.ok(CREATE_QP, create_qp_body(pd, cq))
        qp = struct.unpack_from("<I", answer)[0]
        close_all(fds)
        assert thief.call(DEALLOC_PD, handle(pd))[0] == errno.EINVAL
        assert thief.call(DESTROY_CQ, handle(cq), [async_fd])[0] == errno.EINVAL
        assert thief.call(DESTROY_QP, handle(qp), [async_fd])[0] == errno.EINVAL
        assert thief.call(QUERY_QP, handle(qp))[0] == errno.EINVAL
        assert thief.call(RESIZE_CQ, struct.pack("<II", cq, 10))[0] == errno.EINVAL
        assert thief.call(CREATE_QP, create_qp_body(pd, cq))[0] == errno.EINVAL
        assert thief.call(CREATE_CQ, create_cq_body(channel=12345))[0] == errno.EINVAL
        # The victim's own socket ends are needed too.
        assert victim.call(DESTROY_QP, handle(qp), [async_fd])[0] == errno.EINVAL
        assert victim.call(DESTROY_CQ, handle(cq), [victim_fds[2]])[0] == errno.EBUSY
        victim.ok(DESTROY_QP, handle(qp), [victim_fds[2]])
        victim.ok(DESTROY_CQ, handle(cq), [victim_fds[2]])
        victim.ok(DEALLOC_PD, handle(pd))
    close_all(victim_fds + thief_fds)


def test_a_client_that_reads_no_replies_is_dropped():
    connection, fds = opened()
    with connection:
        connection.socket.settimeout(5)
        try:
            for _ in range(100000):
                connection.send(QUERY_PORT)
        except Dropped:
            pass
        else:
            raise AssertionError("still connected")
    close_all(fds)


def test_descriptors_returned_are_sealed():
    connection, (worker, doorbells, async_fd, kick) = opened()
    with connection:
        for fd in (worker, doorbells):
            try:
                os.ftruncate(fd, 0)
                raise AssertionError("a shared page could be truncated")
            except PermissionError:
                pass
        try:
            os.write(worker, b"x")
            raise AssertionError("the worker's page could be written")
        except PermissionError:
            pass
    close_all([worker, doorbells, async_fd, kick])


def test_garbage_in_rings_hurts_nobody():
    import mmap
    connection, fds = opened()
    with connection:
        page = mmap.mmap(fds[1], 4096)
        pd = struct.unpack_from("<I", connection.ok(ALLOC_PD)[0])[0]
        answer, cq_fds = connection.ok(CREATE_CQ, create_cq_body())
        cq, _, cq_bytes = struct.unpack("<IIQ", answer)
        answer, qp_fds = connection.ok(CREATE_QP, create_qp_body(pd, cq))
        layout = struct.unpack("<12I3Q", answer)
        regions = [mmap.mmap(cq_fds[0], cq_bytes), mmap.mmap(qp_fds[0], layout[-1])]
        generator = random.Random(1)
        for _ in range(200):
            for region in regions:
                region[:] = generator.randbytes(len(region))
            page[:2560] = b"\xff" * 2560  # every doorbell there is
            for _ in range(8):
                os.write(fds[3], struct.pack("<Q", 1))
        assert len(daemon.clients()) == 1
        for region in [page, *regions]:
            region.close()
    close_all(fds + cq_fds + qp_fds)
    wait_for(lambda: not daemon.clients(), 2, "the client is gone")


def test_closed_kick_and_event_sockets_do_not_keep_the_daemon_busy():
    connection, fds = opened()
    with connection:
        answer, channel_fds = connection.ok(CREATE_CHANNEL)
        close_all(fds + channel_fds)
        time.sleep(0.3)
        before = daemon.cpu_seconds()
        time.sleep(1)
        assert daemon.cpu_seconds() - before < 0.1


def test_disconnecting_at_each_step_leaves_nothing():
    wait_for(lambda: not daemon.clients(), 2, "earlier clients are gone")
    before_fds, before_maps = daemon.fd_count(), daemon.mappings()
    steps = [lambda c, s: s.update(pd=struct.unpack_from("<I", c.ok(ALLOC_PD)[0])[0]),
             lambda c, s: s.update(channel=c.ok(CREATE_CHANNEL)),
             lambda c, s: s.update(cq=c.ok(CREATE_CQ, create_cq_body(
                 channel=struct.unpack_from("<I", s["channel"][0])[0]))),
             lambda c, s: s.update(qp=c.ok(CREATE_QP, create_qp_body(
                 s["pd"], struct.unpack_from("<I", s["cq"][0])[0]))),
             lambda c, s: c.ok(REG_MR, struct.pack("<IIQQQ", s["pd"], 1, 4096, 4096, 4096))]
    for count in range(len(steps) + 1):
        for reads_reply in (True, False):
            connection, fds = opened()
            state = {}
            for step in steps[:count]:
                step(connection, state)
            if not reads_reply:
                connection.send(ALLOC_PD)
            connection.close()
            close_all(fds)
            for value in state.values():
                if isinstance(value, tuple):
                    close_all(value[1])
    wait_for(lambda: not daemon.clients(), 2, "the clients are gone")
    wait_for(lambda: daemon.fd_count() <= before_fds, 2, "descriptors are closed")
    assert daemon.mappings() == before_maps, "regions stay mapped"


def test_thousands_of_connections():
    before = daemon.fd_count()
    for _ in range(3000):
        daemon.connect().close()
    held = [daemon.connect() for _ in range(700)]
    with daemon.connect() as c:
        assert c.open_device()[0] == 0
    for connection in held:
        connection.close()
    wait_for(lambda: daemon.fd_count() <= before, 5, "descriptors are closed")


def test_shared_receive_queues_and_addresses_of_others_are_out_of_reach():
    victim, victim_fds = opened()
    thief, thief_fds = opened()
    pds = [struct.unpack_from("<I", c.ok(ALLOC_PD)[0])[0] for c in (victim, thief)]
    body = struct.pack("<QIIII", 5, pds[0], 8, 1, 0)
    answer, received = victim.ok(CREATE_SRQ, body)
    close_all(received)
    (srq,) = struct.unpack_from("<I", answer)
    (cq,) = struct.unpack_from("<I", thief.ok(CREATE_CQ, create_cq_body())[0])
    for op, request, sent in ((QUERY_SRQ, handle(srq), []),
                              (MODIFY_SRQ, struct.pack("<6I", srq, 2, 0, 0, 1, 0), []),
                              (DESTROY_SRQ, handle(srq), [thief_fds[2]]),
                              (CREATE_SRQ, body, []),
                              (CREATE_QP, create_qp_body(pds[1], cq, srq=srq), [])):
        assert thief.call(op, request, sent)[0] == errno.EINVAL, op
    assert victim.call(DESTROY_SRQ, handle(srq), [thief_fds[2]])[0] == errno.EINVAL
    assert victim.call(CREATE_SRQ, struct.pack("<QIIII", 5, pds[0], 0, 1, 0))[0] == errno.EINVAL
    assert victim.call(CREATE_SRQ, struct.pack("<QIIII", 5, pds[0], 2**31, 1, 0))[0] == errno.EINVAL
    gid = bytes(10) + b"\xff\xff" + socket.inet_aton("10.99.0.2")
    address = struct.pack("<8I", pds[0], 1, 0, 64, 0, 0, 0, 1) + gid
    (ah,) = struct.unpack_from("<I", victim.ok(CREATE_AH, address)[0])
    assert thief.call(CREATE_AH, address)[0] == errno.EINVAL
    assert thief.call(DESTROY_AH, handle(ah))[0] == errno.EINVAL
    entry = next(c for c in daemon.clients() if c["srqs"])
    assert (entry["srqs"], entry["ahs"]) == (1, 1)
    victim.ok(DESTROY_AH, handle(ah))
    victim.ok(DESTROY_SRQ, handle(srq), [victim_fds[2]])
    assert all((c["srqs"], c["ahs"]) == (0, 0) for c in daemon.clients())
    for connection in (victim, thief):
        connection.close()
    close_all(victim_fds + thief_fds)


def test_random_messages():
    generator = random.Random(2)
    connection, fds = opened()
    for _ in range(3000):
        op = generator.choice(list(BODY_BYTES))
        body = bytearray(generator.randbytes(BODY_BYTES[op]))
        for i in range(len(body)):  # small numbers hit existing handles
            if generator.random() < 0.7:
                body[i] = generator.choice([0, 0, 0, 1, 2])
        if op in WITH_HANDLE:
            body[4:] = bytes(4)
        if op == CREATE_QP:
            body[52:] = bytes(4)
        if op == MODIFY_SRQ:
            body[20:] = bytes(4)
        sent = [fds[2]] if op in WITH_ASYNC_END else []
        try:
            _, _, received = connection.call(op, bytes(body), sent)
            close_all(received)
        except Dropped:
            connection.close()
            close_all(fds)
            connection, fds = opened()
    connection.close()
    close_all(fds)
    wait_for(lambda: not daemon.clients(), 2, "the clients are gone")


def test_a_child_that_keeps_the_socket_does_not_keep_the_client():
    read_end, write_end = os.pipe()
    parent = os.fork()
    if parent == 0:
        connection, _ = opened()
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
        os.write(write_end, struct.pack("<I", child))
        signal_wait = socket.socket()  # keeps this process simple: it just waits to be killed
        time.sleep(30)
        signal_wait.close()
        connection.close()
        os._exit(0)
    child = struct.unpack("<I", os.read(read_end, 4))[0]
    assert [c["pid"] for c in daemon.clients()] == [parent]
    start = time.monotonic()
    os.kill(parent, 9)
    os.waitpid(parent, 0)
    wait_for(lambda: not daemon.clients(), 1, "the dead parent's client is gone")
    print(f"        gone after {(time.monotonic() - start) * 1000:.0f} ms")
    os.kill(child, 9)
    os.close(read_end)
    os.close(write_end)


def main():
    global daemon
    with Daemon() as daemon:
        return run_tests(globals())


if __name__ == "__main__":
    sys.exit(main())
