"""An endpoint in Python: a device opened, one RC queue pair and a buffer, and the rings of both written
byte by byte as stack/abi says, so that tests can also write them wrongly."""

import ctypes
import mmap
import os
import socket
import struct
import time

from control import (ALLOC_PD, CREATE_CHANNEL, CREATE_CQ, CREATE_QP, MODIFY_QP, QUERY_QP, REG_MR,
                     create_cq_body, create_qp_body, handle)

PAGE = 4096
WRITE, SEND, READ = 0, 2, 4
SIGNALED = 2
ALL_ACCESS = 7  # local write, remote write, remote read
INIT, RTR, RTS = 1, 2, 3
KICK = struct.pack("<Q", 1)
# Masks of enum ibv_qp_attr_mask: what each step to RTS must give.
INIT_MASK, RTR_MASK, RTS_MASK = 0x39, 0x129181, 0x12E01
ADDRESSES = {"verbena0": "10.99.0.1", "verbena1": "10.99.0.2"}


def address_of(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def store_u32(ring, offset, value):
    """One store: struct.pack_into() writes zeros first, which the daemon may see."""
    ctypes.c_uint32.from_buffer(ring, offset).value = value


def store_u64(ring, offset, value):
    ctypes.c_uint64.from_buffer(ring, offset).value = value


class Endpoint:
    DEPTH = 16

    def __init__(self, daemon, device="verbena0", channel=False, pages=4):
        self.device = device
        self.connection = daemon.connect()
        error, _, self.fds = self.connection.open_device(device)
        assert error == 0, os.strerror(error)
        self.doorbells = mmap.mmap(self.fds[1], PAGE)
        self.kick = self.fds[3]
        self.pd = self._handle(ALLOC_PD)
        channel_handle, self.channel = 0, None
        if channel:
            answer, received = self.connection.ok(CREATE_CHANNEL)
            (channel_handle,) = struct.unpack_from("<I", answer)
            self.channel = socket.socket(fileno=received[0])
            self.channel.setblocking(False)
        answer, received = self.connection.ok(CREATE_CQ, create_cq_body(1, 64, channel_handle))
        self.cq, self.cq_depth, size = struct.unpack("<IIQ", answer)
        self.fds += received
        self.cq_ring = mmap.mmap(received[0], size)
        answer, received = self.connection.ok(CREATE_QP, create_qp_body(
            self.pd, self.cq, send_wr=self.DEPTH, recv_wr=self.DEPTH))
        (self.qp, self.qpn, self.slot, self.sq_depth, self.sq_stride, self.rq_depth, self.rq_stride, *_,
         self.sq_offset, self.rq_offset, size) = struct.unpack("<12I3Q", answer)
        self.fds += received
        self.qp_fd = received[0]
        self.qp_ring = mmap.mmap(received[0], size)
        self.buffer = mmap.mmap(-1, pages * PAGE)
        self.lkey, self.rkey = self.register(address_of(self.buffer), len(self.buffer))
        self.sent = self.posted = self.consumed = self.armed = 0

    def _handle(self, op, body=b""):
        return struct.unpack_from("<I", self.connection.ok(op, body)[0])[0]

    def register(self, address, length):
        answer, _ = self.connection.ok(
            REG_MR, struct.pack("<IIQQQ", self.pd, ALL_ACCESS, address, length, address))
        return struct.unpack_from("<II", answer, 4)

    @property
    def va(self):
        return address_of(self.buffer)

    def modify(self, mask, **fields):
        names = ("qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num "
                 "qp_access_flags pkey_index port_num max_rd_atomic max_dest_rd_atomic min_rnr_timer "
                 "timeout retry_cnt rnr_retry sq_draining en_sqd_async_notify ah_is_global sgid_index "
                 "hop_limit traffic_class flow_label sl ah_port_num dlid static_rate").split()
        gid = fields.pop("gid", bytes(16))
        values = [fields.get(name, 0) for name in names]
        self.connection.ok(MODIFY_QP, struct.pack("<II28I", self.qp, mask, *values) + gid)

    def connect_to(self, peer, retry_cnt=7, timeout=17, sq_psn=0):
        """A timeout of half a second: a busy machine is no attack."""
        gid = bytes(10) + b"\xff\xff" + socket.inet_aton(ADDRESSES[peer.device])
        self.modify(INIT_MASK, qp_state=INIT, port_num=1, qp_access_flags=ALL_ACCESS)
        self.modify(RTR_MASK, qp_state=RTR, path_mtu=3, dest_qp_num=peer.qpn, max_dest_rd_atomic=4,
                    min_rnr_timer=1, ah_is_global=1, ah_port_num=1, gid=gid)
        self.modify(RTS_MASK, qp_state=RTS, timeout=timeout, retry_cnt=retry_cnt, rnr_retry=7,
                    max_rd_atomic=4, sq_psn=sq_psn)

    def state(self):
        return struct.unpack_from("<I", self.connection.ok(QUERY_QP, handle(self.qp))[0])[0]

    def expected_psn(self):
        return struct.unpack_from("<6I", self.connection.ok(QUERY_QP, handle(self.qp))[0])[5]

    def ring(self):
        # No other queue pair of this client has a doorbell: a plain store is enough.
        store_u64(self.doorbells, 64 + self.slot // 64 * 8, 1 << self.slot % 64)
        store_u64(self.doorbells, 0, 1)
        try:
            os.write(self.kick, KICK)
        except BlockingIOError:
            pass  # it is awake, or will be

    def post_send(self, opcode, offset, length, rkey=0, remote=0, lkey=None, va=None):
        slot = self.sq_offset + self.sent % self.sq_depth * self.sq_stride
        struct.pack_into("<BBHIIIQ", self.qp_ring, slot, opcode, SIGNALED, 1, 0, 0, rkey, remote)
        struct.pack_into("<QII", self.qp_ring, slot + 64, self.va + offset if va is None else va, length,
                         self.lkey if lkey is None else lkey)
        self.sent += 1
        store_u32(self.qp_ring, 0, self.sent)
        self.ring()

    def post_recv(self, offset, length):
        slot = self.rq_offset + self.posted % self.rq_depth * self.rq_stride
        struct.pack_into("<I", self.qp_ring, slot, 1)
        struct.pack_into("<QII", self.qp_ring, slot + 16, self.va + offset, length, self.lkey)
        self.posted += 1
        store_u32(self.qp_ring, 64, self.posted)

    def arm(self):
        self.armed += 1
        store_u32(self.cq_ring, 64, self.armed << 2 | 1)

    def fired(self):
        """Whether the last arm() has had its event. The entry is seen before that: arming again in
        between would make one event of two."""
        return struct.unpack_from("<I", self.cq_ring, 128)[0] == self.armed << 2 | 1

    def poll(self):
        """The status of the next completion, or None."""
        entry = 256 + self.consumed % self.cq_depth * 64
        if struct.unpack_from("<I", self.cq_ring, entry + 60)[0] != self.consumed + 1:
            return None
        self.consumed += 1
        store_u32(self.cq_ring, 0, self.consumed)
        return self.cq_ring[entry + 49]

    def wait(self, seconds=20):
        """The status of the next completion."""
        deadline = time.monotonic() + seconds
        while (status := self.poll()) is None:
            assert time.monotonic() < deadline, f"no completion of {self.device} within {seconds} s"
            os.sched_yield()  # pauses would be longer than the work
        return status

    def close(self):
        self.connection.close()
        for ring in (self.doorbells, self.cq_ring, self.qp_ring):
            ring.close()
        if self.channel is not None:
            self.channel.close()
        for fd in self.fds:
            os.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def connected(daemon, **options):
    """Two endpoints, one on each device."""
    pair = Endpoint(daemon, "verbena0", **options), Endpoint(daemon, "verbena1", **options)
    pair[0].connect_to(pair[1])
    pair[1].connect_to(pair[0])
    return pair


def transfer(a, b):
    """WRITE, READ and SEND from `a` to `b`; all must succeed and bring the right bytes."""
    data = os.urandom(PAGE)
    a.buffer[:PAGE] = data
    b.post_recv(2 * PAGE, PAGE)
    a.post_send(WRITE, 0, PAGE, b.rkey, b.va + PAGE)
    a.post_send(READ, PAGE, PAGE, b.rkey, b.va + PAGE)
    a.post_send(SEND, 0, PAGE)
    assert [a.wait() for _ in range(3)] == [0, 0, 0]
    assert b.wait() == 0
    assert b.buffer[PAGE:2 * PAGE] == data and b.buffer[2 * PAGE:3 * PAGE] == data
    assert a.buffer[PAGE:2 * PAGE] == data
