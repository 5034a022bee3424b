"""A control client in Python: speaks the messages of stack/abi/control.h byte by byte, so that
tests can also speak them wrongly. Starts and ends a daemon of its own."""

import array
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

MAGIC = 0x4E425256
ABI_VERSION = 2
(OPEN_DEVICE, QUERY_PORT, ALLOC_PD, DEALLOC_PD, REG_MR, DEREG_MR, REREG_MR, CREATE_CHANNEL, CREATE_CQ,
 RESIZE_CQ, DESTROY_CQ, CREATE_QP, MODIFY_QP, QUERY_QP, DESTROY_QP, CREATE_SRQ, MODIFY_SRQ,
 QUERY_SRQ, DESTROY_SRQ, CREATE_AH, DESTROY_AH, ADMIN) = range(1, 23)
RC = 2


class Dropped(Exception):
    """The daemon ended the connection."""


class Connection:
    def __init__(self, directory):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # With a time limit set, a full backlog would be an error instead of a wait.
        self.socket.connect(os.path.join(directory, "control.sock"))
        self.socket.settimeout(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send_raw(self, data, fds=()):
        ancillary = []
        if fds:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        try:
            self.socket.sendmsg([data], ancillary)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Dropped from error

    def send(self, op, body=b"", fds=(), magic=MAGIC, version=ABI_VERSION, length=None):
        length = len(body) if length is None else length
        self.send_raw(struct.pack("<IIII", magic, version, op, length) + body, fds)

    def receive(self):
        """(error, body, fds) of one reply."""
        try:
            data, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(64))
        except ConnectionResetError as error:
            raise Dropped from error
        if not data:
            raise Dropped
        fds = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(content[:len(content) - len(content) % fds.itemsize])
        magic, error, _, length = struct.unpack_from("<IIII", data)
        assert magic == MAGIC and length == len(data) - 16, data
        return error, data[16:], list(fds)

    def call(self, op, body=b"", fds=(), **header):
        self.send(op, body, fds, **header)
        return self.receive()

    def ok(self, op, body=b"", fds=()):
        error, answer, received = self.call(op, body, fds)
        assert error == 0, os.strerror(error)
        return answer, received

    def open_device(self, name="verbena0", path="/proc/self/mem"):
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            return self.call(OPEN_DEVICE, name.encode().ljust(64, b"\0"), [fd])
        finally:
            os.close(fd)

    def admin(self, words):
        error, _, fds = self.call(ADMIN, words.encode())
        assert error == 0 and len(fds) == 1
        text = os.pread(fds[0], 1 << 24, 0)
        os.close(fds[0])
        return json.loads(text)


def handle(number):
    return struct.pack("<II", number, 0)


def create_cq_body(user_handle=1, cqe=64, channel=0):
    return struct.pack("<QII", user_handle, cqe, channel)


def create_qp_body(pd, cq, user_handle=2, send_wr=16, recv_wr=16, srq=0, reserved=0, qp_type=RC):
    return struct.pack("<Q12I", user_handle, pd, cq, cq, srq, qp_type, send_wr, recv_wr, 1, 1, 0, 1,
                       reserved)


class Daemon:
    """verbenad in a directory of its own; `with` ends it and checks that it ended well."""

    def __init__(self, *arguments, program=None, check_end=True):
        self.base = tempfile.mkdtemp(prefix="verbena-daemon-")
        self.dir = os.path.join(self.base, "run")
        self.program = program or os.environ["VERBENAD"]
        self.check_end = check_end
        read_end, write_end = os.pipe()
        start = time.monotonic()
        self.process = subprocess.Popen(
            [self.program, "--dir", self.dir, "--foreground", "--ready-fd", str(write_end), *arguments],
            pass_fds=[write_end], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        os.close(write_end)
        ready, _, _ = select.select([read_end], [], [], 20)
        byte = os.read(read_end, 1) if ready else b""
        os.close(read_end)
        self.start_seconds = time.monotonic() - start
        if byte != b"s":
            self.process.kill()
            raise AssertionError(f"the daemon does not serve: {self.process.communicate()[1]}")

    def connect(self):
        return Connection(self.dir)

    def admin(self, words):
        with self.connect() as connection:
            return connection.admin(words)

    def clients(self):
        return [client for device in self.admin("status")["devices"] for client in device["clients"]]

    def fd_count(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def mappings(self):
        with open(f"/proc/{self.process.pid}/maps", encoding="ascii") as maps:
            return sum("memfd:verbena-" in line for line in maps)

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            errors = self.process.communicate(timeout=20)[1]
        finally:
            self.process.kill()
            shutil.rmtree(self.base, ignore_errors=True)
        if kind is None and self.check_end:
            assert self.process.returncode == 0, f"status {self.process.returncode}: {errors}"


def wait_for(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def run_tests(namespace):
    """Runs each function whose name begins with test_. Returns an exit status."""
    failed = 0
    for name, function in list(namespace.items()):
        if not name.startswith("test_"):
            continue
        try:
            function()
            print(f"ok      {name}")
        except Exception:  # every kind of failure is reported the same way
            failed += 1
            import traceback
            print(f"FAILED  {name}\n{traceback.format_exc()}")
    print(f"{failed} failed")
    return 1 if failed else 0
