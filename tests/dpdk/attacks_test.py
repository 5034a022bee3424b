#!/usr/bin/env python3
"""Attacks of a client on the daemon. After each, a pair of honest clients that was connected before it
still transfers the right bytes both ways, and the daemon's descriptors, regions and memory are what
they were."""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import random
import resource
import socket
import struct
import sys
import time

from control import (ABI_VERSION, ALLOC_PD, CREATE_CHANNEL, CREATE_CQ, OPEN_DEVICE, QUERY_PORT, Dropped,
                     Daemon, create_cq_body, run_tests, wait_for)
from hostile_client_test import BODY_BYTES
from rings import PAGE, READ, SEND, WRITE, Endpoint, address_of, connected, transfer

LIBC = ctypes.CDLL(None, use_errno=True)
PUNCH_HOLE = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
ERROR_STATE = 6
MOST_GROWTH_KB = 16 << 10

daemon = None
honest = None
silent = []  # connections that ask for nothing


def resident_kb():
    """Of the daemon; 0 where an address sanitizer, which keeps what is freed, looks for leaks itself."""
    with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as status:
        sizes = dict(line.split(":", 1) for line in status)
    sanitised = int(sizes["VmSize"].split()[0]) > 1 << 30  # its shadow: terabytes
    return 0 if sanitised else int(sizes["VmRSS"].split()[0])


@contextlib.contextmanager
def attack():
    """What is inside leaves no trace, and the honest pair works during and after it."""
    before = daemon.fd_count(), daemon.mappings(), resident_kb()
    yield
    transfer(*honest)
    transfer(*reversed(honest))
    wait_for(lambda: len(daemon.clients()) == 2, 5, "the attackers are gone")
    wait_for(lambda: daemon.fd_count() <= before[0], 5, "descriptors are closed")
    assert daemon.mappings() == before[1], "regions stay mapped"
    assert resident_kb() < before[2] + MOST_GROWTH_KB, "memory is kept"
    assert all(end.state() == 3 for end in honest), "an honest queue pair was touched"


def userfaultfd(buffer):
    """A descriptor; from now on nobody gets a page of `buffer` that is not there."""
    user_mode_only = 1
    for flags in (os.O_CLOEXEC, os.O_CLOEXEC | user_mode_only):
        fd = LIBC.syscall(323, flags)
        if fd >= 0:
            break
    else:
        return None
    fcntl.ioctl(fd, 0xC018AA3F, bytearray(struct.pack("<QQQ", 0xAA, 0, 0)))
    fcntl.ioctl(fd, 0xC020AA00, bytearray(struct.pack("<QQQQ", address_of(buffer), len(buffer), 1, 0)))
    return fd


def test_a_page_held_back_by_userfaultfd_fails_its_own_queue_pair():
    for opcode in (SEND, WRITE, READ):
        with attack():
            a, b = connected(daemon)
            with a, b:
                held = mmap.mmap(-1, 2 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                fd = userfaultfd(held)
                if fd is None:
                    print("        skipped: no userfaultfd for this user")
                    return
                lkey, rkey = a.register(address_of(held), len(held))
                b.post_recv(0, PAGE)
                if opcode == SEND:  # read here
                    a.post_send(SEND, 0, 64, lkey=lkey, va=address_of(held))
                    assert a.wait() == 4  # IBV_WC_LOC_PROT_ERR
                elif opcode == WRITE:  # written by the peer
                    b.post_send(WRITE, 0, 64, rkey, address_of(held))
                    assert b.wait() in (10, 11)  # remote access or operation error
                else:  # read by the peer
                    b.post_send(READ, 0, 64, rkey, address_of(held))
                    assert b.wait() in (10, 11)
                os.close(fd)


def punch(fd, size):
    if LIBC.fallocate(fd, PUNCH_HOLE, ctypes.c_long(0), ctypes.c_long(size)) != 0:
        return ctypes.get_errno()
    return 0


def test_a_hole_in_the_own_rings_breaks_only_them():
    with attack():
        a, b = connected(daemon)
        with a, b:
            worker, doorbells = a.fds[0], a.fds[1]
            # All clients read this page.
            assert punch(worker, PAGE) == errno.EPERM
            transfer(a, b)
            for _ in range(20):
                b.post_recv(0, PAGE)
                a.post_send(WRITE, 0, PAGE, b.rkey, b.va)
                a.post_send(SEND, 0, PAGE)
                for fd in (a.qp_fd, a.fds[4], doorbells):
                    assert punch(fd, 64 * PAGE) == 0
                a.ring()
            # Its tail is behind what was fetched.
            wait_for(lambda: a.state() == ERROR_STATE, 5, "the queue pair fails")


def test_indices_that_jump_break_only_their_queue_pair():
    for tail in (1 << 31, 0xFFFFFFFF, 1000):
        with attack():
            a, b = connected(daemon)
            with a, b:
                struct.pack_into("<I", a.qp_ring, 0, tail)
                a.ring()
                wait_for(lambda a=a: a.state() == ERROR_STATE, 5, "the queue pair fails")
                struct.pack_into("<I", a.cq_ring, 0, tail)
                transfer(*honest)


def test_entries_that_change_while_they_are_read():
    with attack():
        a, b = connected(daemon)
        with a, b:
            child = os.fork()
            if child == 0:
                generator = random.Random(3)
                while True:
                    for ring in (a.qp_ring, b.qp_ring, a.cq_ring, b.cq_ring):
                        at = generator.randrange(len(ring) - 64)
                        ring[at:at + 64] = generator.randbytes(64)
            generator = random.Random(4)
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline:
                for end, peer in ((a, b), (b, a)):
                    end.post_recv(0, PAGE)
                    end.post_send(generator.choice((SEND, WRITE, READ)), 0, generator.randrange(PAGE),
                                  peer.rkey, peer.va)
                transfer(*honest)
            os.kill(child, 9)
            os.waitpid(child, 0)


def test_an_event_socket_left_full():
    with attack():
        a, b = connected(daemon, channel=True)
        with a, b:
            count = 500  # more than its buffer holds
            for _ in range(count):
                a.arm()
                a.post_send(WRITE, 0, 8, b.rkey, b.va)
                assert a.wait() == 0
                wait_for(a.fired, 10, "the event of the entry")
            transfer(*honest)
            events = []

            def read():
                with contextlib.suppress(BlockingIOError):
                    while True:
                        events.append(a.channel.recv(8))
                return len(events) == count

            wait_for(read, 10, "every event comes in the end")


def test_a_queue_pair_aimed_at_anothers():
    victim = honest[1]
    canary = os.urandom(PAGE)
    victim.buffer[-PAGE:] = canary
    before = daemon.admin("stat")["devices"][1]["counters"]["drop_wrong_address"]
    for rkey in (victim.rkey, 0xBAD00):  # to be executed, or to end the victim's connection
        with attack(), Endpoint(daemon) as a:
            a.connect_to(victim, retry_cnt=1, timeout=8, sq_psn=victim.expected_psn())
            a.post_send(WRITE, 0, 64, rkey, victim.va + len(victim.buffer) - PAGE)
            assert a.wait() == 12  # IBV_WC_RETRY_EXC_ERR
            assert victim.buffer[-PAGE:] == canary
    after = daemon.admin("stat")["devices"][1]["counters"]["drop_wrong_address"]
    assert after - before >= 2


def test_a_flood_of_kicks():
    with attack():
        with Endpoint(daemon) as a:
            children = []
            for _ in range(2):
                children.append(os.fork())
                if children[-1] == 0:
                    while True:
                        with contextlib.suppress(BlockingIOError):
                            os.write(a.kick, b"x" * 8)
            for _ in range(5):
                transfer(*honest)
            for child in children:
                os.kill(child, 9)
                os.waitpid(child, 0)


def test_descriptors_by_the_hundred():
    null = os.open("/dev/null", os.O_RDONLY)
    with attack():
        for op, size in BODY_BYTES.items():
            for _ in range(5):
                connection = daemon.connect()
                with connection:
                    if op != OPEN_DEVICE:
                        for fd in connection.open_device()[2]:
                            os.close(fd)
                    with contextlib.suppress(Dropped):
                        connection.call(op, bytes(size), [null] * 253)
                        raise AssertionError(f"operation {op} took 253 descriptors")
    os.close(null)


def slow_to_close(address):
    """A socket whose close() waits a minute for a peer that reads nothing."""
    slow = socket.create_connection(address)
    slow.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            slow.send(bytes(65536))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    return slow


def test_descriptors_that_take_long_to_close():
    def sent(slow, count):
        with daemon.connect() as connection:
            connection.send(QUERY_PORT, b"", [slow.fileno()] * count)
            slow.close()

    def sent_and_not_read(slow, count):
        with daemon.connect() as connection:
            connection.send_raw(b"x")  # is dropped for this
            with contextlib.suppress(Dropped):
                connection.send(QUERY_PORT, b"", [slow.fileno()] * count)
            slow.close()

    def sent_into_event_sockets(slow, count):
        with daemon.connect() as connection:
            ends = [connection.open_device()[2][2], connection.ok(CREATE_CHANNEL)[1][0]]
            for events in [socket.socket(fileno=fd) for fd in ends]:
                socket.send_fds(events, [b"x"], [slow.fileno()] * count)
            slow.close()

    for way in (sent, sent_and_not_read, sent_into_event_sockets):
        for count in (1, 200):
            with attack(), socket.create_server(("127.0.0.1", 0)) as listener:
                # Whoever closes the last one waits: mostly the daemon, sometimes this child.
                child = os.fork()
                if child == 0:
                    way(slow_to_close(listener.getsockname()), count)
                    os._exit(0)
                peer, _ = listener.accept()
                with peer:
                    time.sleep(0.2)
                    start = time.monotonic()
                    daemon.admin("status")
                    assert time.monotonic() - start < 20, "it waits for a descriptor's end"
                    os.kill(child, 9)
                    os.waitpid(child, 0)


def test_rings_keep_no_descriptors():
    with attack(), daemon.connect() as connection:
        for fd in connection.open_device()[2]:
            os.close(fd)
        before = daemon.fd_count()
        for _ in range(100):
            for fd in connection.ok(CREATE_CQ, create_cq_body())[1]:
                os.close(fd)
        wait_for(lambda: daemon.fd_count() <= before, 5, "the last answer's copy is closed")


def test_descriptors_that_are_never_closed():
    with attack():
        kept = []
        for _ in range(20):
            end = Endpoint(daemon)
            kept += [os.dup(fd) for fd in end.fds]
            end.close()
    for fd in kept:
        os.close(fd)


def test_a_disconnect_after_each_byte():
    with attack():
        whole = struct.pack("<IIII", 0x4E425256, ABI_VERSION, OPEN_DEVICE, 64) + b"verbena0".ljust(64, b"\0")
        memory = os.open("/proc/self/mem", os.O_RDWR)
        for length in range(len(whole) + 1):
            with daemon.connect() as connection:
                connection.send_raw(whole[:length], [memory])
            with daemon.connect() as connection:
                connection.open_device()
                connection.send_raw(struct.pack("<IIII", 0x4E425256, ABI_VERSION, ALLOC_PD, 0)[:length])
        os.close(memory)


def test_ten_thousand_connections():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with attack():
        held = []
        for number in range(10_000):
            try:
                held.append(daemon.connect())
            except OSError as error:
                assert error.errno == errno.EMFILE
                for connection in held:
                    connection.close()
                held.clear()
            if number % 2500 == 2499:  # one that opens a device finds its place
                with Endpoint(daemon) as newcomer, Endpoint(daemon, "verbena1") as peer:
                    newcomer.connect_to(peer)
                    peer.connect_to(newcomer)
                    transfer(newcomer, peer)
        for connection in held:
            connection.close()


def test_those_who_ask_for_nothing_are_sent_away():
    def ended(connection):
        try:
            return connection.socket.recv(1, socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True

    with daemon.connect() as asks:
        asks.admin("status")
        wait_for(lambda: all(map(ended, silent)), 20, "silent connections end")
        asks.admin("status")


def main():
    global daemon, honest
    with Daemon() as daemon:
        silent.extend(daemon.connect() for _ in range(10))
        honest = connected(daemon)
        transfer(*honest)
        status = run_tests(globals())
        for end in honest:
            end.close()
        return status


if __name__ == "__main__":
    sys.exit(main())
