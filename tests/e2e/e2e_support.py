"""Support for end-to-end tests: a daemon of their own in a temporary run directory, programs run on
it under a time limit, and the outcome of a list of checks.

The build directory is named by VERBENA_BUILD, which Meson sets, or by --build.
"""

import contextlib
import glob
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SANITIZER_STATUS = 86


def build_dir():
    for i, word in enumerate(sys.argv):
        if word == "--build":
            return os.path.abspath(sys.argv[i + 1])
        if word.startswith("--build="):
            return os.path.abspath(word.split("=", 1)[1])
    here = os.path.dirname(os.path.abspath(__file__))
    return os.environ.get("VERBENA_BUILD", os.path.abspath(os.path.join(here, "../../build")))


def program(path):
    """Absolute path of a program of the build, such as "tests/e2e/verbs_peers"."""
    return os.path.join(build_dir(), path)


def is_sanitised(path):
    with open(path, "rb") as file:
        return b"__asan_init" in file.read()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(port):
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[3] == "0A" and fields[1].endswith(f":{port:04X}"):
                    return True
    return False


def wait_until(condition, seconds, what):
    """Polls until the condition holds and returns how long that took."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.005)
    return time.monotonic() - start


def descendants(pid):
    children = []
    for task in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError), open(task, encoding="ascii") as file:
            children += [int(word) for word in file.read().split()]
    return children + [grandchild for child in children for grandchild in descendants(child)]


def stacks(pid):
    """The stacks of a process and its descendants, for a report about a hang."""
    text = ""
    for victim in [pid, *descendants(pid)]:
        with contextlib.suppress(OSError):
            name = open(f"/proc/{victim}/comm", encoding="ascii").read().strip()
            wchan = open(f"/proc/{victim}/wchan", encoding="ascii").read().strip()
            text += f"--- process {victim} ({name}), in the kernel: {wchan or 'no'}\n"
        if shutil.which("gdb"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                answer = subprocess.run(
                    ["gdb", "-p", str(victim), "-batch", "-nx", "-ex", "thread apply all bt 12"],
                    capture_output=True, text=True, timeout=30, check=False)
                text += "".join(line + "\n" for line in answer.stdout.splitlines()
                                if line.startswith(("#", "Thread")))
    return text


class Process:
    """A program that was started; kill() or wait() ends it, and its output is kept."""

    def __init__(self, command, env, preexec=None):
        self.command = command
        self.output = tempfile.TemporaryFile("w+", errors="replace")
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.popen = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                                      stdout=self.output, stderr=self.errors,
                                      start_new_session=True, preexec_fn=preexec)
        self.hang = ""

    @property
    def pid(self):
        return self.popen.pid

    def stdout(self):
        self.output.seek(0)
        return self.output.read()

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read()

    def wait(self, seconds):
        """Exit status; None, with stacks in `hang`, when the time is over."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.hang = stacks(self.pid)
            self.kill()
            return None

    def wait_line(self, pattern, seconds, by_child=False):
        """Waits for a line of output; returns the match. `by_child`: the program itself may end."""
        def found():
            return re.search(pattern, self.stdout(), re.MULTILINE)
        def ready():
            if found():
                return True
            if not by_child and self.popen.poll() is not None and not found():
                raise AssertionError(f"{self.describe()} ended before it printed '{pattern}'")
            return False
        wait_until(ready, seconds, f"'{pattern}' from {self.describe()}")
        return found()

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait()

    def describe(self):
        return (f"{' '.join(self.command)}\n  status {self.popen.returncode}\n"
                f"  stdout: {self.stdout()[-2000:]}\n  stderr: {self.stderr()[-2000:]}\n{self.hang}")


class Daemon:
    """A verbenad with a name and a run directory of its own, as a context manager. Going down, it
    fails when the daemon had died or a sanitizer had a finding."""

    count = 0

    def __init__(self, *up_arguments, user=None, expect_crash=False):
        Daemon.count += 1
        self.up_arguments = list(up_arguments)
        self.user = pwd.getpwnam(user) if user else None
        self.expect_crash = expect_crash
        self.root = tempfile.mkdtemp(prefix="verbena-e2e-")
        self.name = f"e2e-{os.getpid()}-{Daemon.count}"
        self.dir = os.path.join(self.root, "verbena", self.name)
        self.pid = None
        if self.user:
            os.chown(self.root, self.user.pw_uid, self.user.pw_gid)
        self.env = dict(os.environ, XDG_RUNTIME_DIR=self.root)
        for variable in ("VERBENA_DIR", "LD_PRELOAD", "IBV_DRIVERS", "SYSFS_PATH"):
            self.env.pop(variable, None)
        self.set_sanitizer_options()

    def set_sanitizer_options(self):
        log = f"log_path={self.root}/sanitizer"
        self.env["ASAN_OPTIONS"] = f"{log}:exitcode={SANITIZER_STATUS}:detect_leaks=1"
        self.env["UBSAN_OPTIONS"] = f"{log}:print_stacktrace=1:halt_on_error=1"
        self.env["LSAN_OPTIONS"] = f"exitcode={SANITIZER_STATUS}"

    def become_user(self):
        os.setgroups([])
        os.setgid(self.user.pw_gid)
        os.setuid(self.user.pw_uid)

    def start(self, *command, env=None):
        """Starts a command as the daemon's user; not on the devices."""
        return Process(list(command), dict(self.env, **(env or {})),
                       self.become_user if self.user else None)

    def verbena(self, *arguments, seconds=30, check=True):
        process = self.start(program("tools/verbena"), "--name", self.name, *arguments)
        status = process.wait(seconds)
        if check and status != 0:
            raise AssertionError(process.describe() + self.log_end())
        return process

    def start_on(self, *command, env=None):
        """Starts a command that sees the devices."""
        return self.start(program("tools/verbena"), "--name", self.name, "run", "--", *command,
                          env=env)

    def run_on(self, *command, seconds=60, env=None, check=True):
        process = self.start_on(*command, env=env)
        status = process.wait(seconds)
        if check and status != 0:
            raise AssertionError(process.describe() + self.log_end())
        return process

    def status(self):
        return json.loads(self.verbena("--json", "status").stdout())

    def clients(self):
        return [client for device in self.status()["devices"] for client in device["clients"]]

    def counters(self):
        """Counters summed over the devices."""
        total = {}
        for device in json.loads(self.verbena("--json", "stat").stdout())["devices"]:
            for name, value in flat(device["counters"]):
                total[name] = total.get(name, 0) + value
        return total

    def log_end(self):
        with contextlib.suppress(OSError):
            with open(os.path.join(self.dir, "verbenad.log"), errors="replace") as log:
                return "  verbenad.log: " + log.read()[-3000:]
        return "  no verbenad.log"

    def findings(self):
        text = ""
        for path in glob.glob(f"{self.root}/sanitizer*"):
            with open(path, errors="replace") as report:
                text += report.read()
        return text

    def up(self):
        self.verbena("up", *self.up_arguments)
        with open(os.path.join(self.dir, "verbenad.pid"), encoding="ascii") as file:
            self.pid = int(file.read().split()[0])

    def alive(self):
        try:
            with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind, value, trace):
        problems = []
        if not self.expect_crash and not self.alive():
            problems.append("the daemon died during the test" + self.log_end())
        down = self.verbena("down", check=False)
        if down.popen.returncode != 0:
            problems.append(f"verbena down: {down.describe()}")
        elif not self.expect_crash and "is down" not in down.stdout():
            problems.append(f"the daemon did not end by itself: {down.describe()}")
        if self.findings():
            problems.append("sanitizer: " + self.findings())
        if os.path.exists(os.path.join(self.dir, "control.sock")):
            problems.append("control.sock is left behind")
        self.remove()
        if problems:
            message = "\n".join(problems)
            if kind is None:
                raise AssertionError(message)
            print(message, file=sys.stderr)

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


def flat(tree, prefix=""):
    """(name, value) of every number in nested objects."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        elif isinstance(value, (int, float)):
            yield f"{prefix}{name}", value


class Checks:
    """Named checks, each printed with its outcome. finish() gives the exit status, which is not 0
    when one failed or none was made."""

    def __init__(self):
        self.passed = 0
        self.failed = []

    @contextlib.contextmanager
    def check(self, name):
        start = time.monotonic()
        try:
            yield
        except Exception as error:  # a check may fail in any way
            self.failed.append(name)
            print(f"FAILED {name}: {error}", flush=True)
        else:
            self.passed += 1
            print(f"ok     {name} ({time.monotonic() - start:.2f} s)", flush=True)

    def finish(self):
        print(f"{self.passed} passed, {len(self.failed)} failed")
        return 0 if self.passed and not self.failed else 1


def expect(condition, what):
    if not condition:
        raise AssertionError(what)
