#!/usr/bin/env python3
"""The command `verbena`, from outside: what it prints, what it exits with, what it leaves behind.

Every case has a runtime directory of its own, so that no daemon of the user's is met or ended.
"""
import errno
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

VERBENA = os.environ['VERBENA']
PCAPS = pathlib.Path(__file__).resolve().parents[2] / 'pcaps'
LIMIT_S = 60  # a sanitised daemon on a busy machine takes its time


class CliCase(unittest.TestCase):
    def setUp(self):
        # Short: the path of a Unix socket has 107 characters.
        self.runtime = tempfile.mkdtemp(prefix='vcli', dir='/tmp')
        self.environment = {k: v for k, v in os.environ.items()
                            if k not in ('LD_PRELOAD', 'IBV_DRIVERS', 'VERBENA_DIR')}
        self.environment['XDG_RUNTIME_DIR'] = self.runtime

    def tearDown(self):
        base = pathlib.Path(self.runtime, 'verbena')
        if base.is_dir() and not base.is_symlink():
            for instance in base.iterdir():
                self.verbena('--name', instance.name, 'down')
        shutil.rmtree(self.runtime)

    def verbena(self, *words, **more):
        return subprocess.run([VERBENA, *words], env={**self.environment, **more}, text=True,
                              capture_output=True, timeout=LIMIT_S, check=False)

    def good(self, *words, **more):
        result = self.verbena(*words, **more)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def refused(self, *words, says, status=1, **more):
        result = self.verbena(*words, **more)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertIn(says, result.stderr)
        return result

    def instance(self, name='default'):
        return pathlib.Path(self.runtime, 'verbena', name)

    def daemon_pid(self, *words):
        return json.loads(self.good('status', '--json', *words).stdout)['daemon']['pid']


class CommandLineTest(CliCase):
    def test_help_and_version(self):
        self.assertIn('Subcommands', self.good('--help').stdout)
        self.assertRegex(self.good('--version').stdout, r'^verbena \d+\.\d+\.\d+\n$')
        for command in ('up', 'down', 'run', 'env', 'status', 'stat', 'fault', 'capture', 'doctor',
                        'conformance', 'explain'):
            self.assertIn('Usage', self.good(command, '--help').stdout)

    def test_output_that_cannot_be_written_is_an_error(self):
        with open('/dev/full', 'w', encoding='ascii') as full:
            for words in (['--version'], ['--help'], ['run', '--help']):
                result = subprocess.run([VERBENA, *words], env=self.environment, stdout=full, text=True,
                                        stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
                self.assertEqual(result.returncode, 1, words)
                self.assertEqual(result.stderr, 'verbena: the output cannot be written: '
                                 'No space left on device\n')

    def test_daemon_of_another_version_is_named_as_such(self):
        folder = self.instance()
        folder.parent.mkdir(mode=0o700)
        folder.mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(folder / 'control.sock'))
            listener.listen(1)
            threading.Thread(target=self.answer_once, args=(listener,), daemon=True).start()
            result = self.refused('status', says='of another version than this command')
            self.assertIn('try: `verbena down` and `verbena up`', result.stderr)

    @staticmethod
    def answer_once(listener):
        connection, _ = listener.accept()
        with connection:
            magic, _, operation, _ = struct.unpack_from('<4I', connection.recv(4096))
            connection.send(struct.pack('<4I', magic, errno.EPROTO, operation, 0))

    def test_wrong_subcommand_gets_a_suggestion(self):
        self.refused('statsu', says='try: verbena status', status=2)
        self.refused('frobnicate', says='use one of up, down', status=2)

    def test_wrong_options_are_refused(self):
        self.refused(says='needs a word more: up, down', status=2)
        self.refused('fault', says='verbena fault wire drop=5%', status=2)
        self.refused('capture', '--json', says='needs a word more: start, stop', status=2)
        self.refused('conformance', says='verbena conformance run ', status=2)
        self.refused('conformance', 'import', 'x.pcap', says='-o cases', status=2)
        self.refused('capture', 'begin', says='use one of start, stop', status=2)
        self.refused('capture', 'sttop', says='verbena capture stop', status=2)
        for seconds in ('-1', '0', 'nan', 'inf', 'x'):
            self.refused('stat', '--watch', seconds, says='--watch: write seconds from 0.1 to 86400',
                         status=2)
        self.refused('conformance', 'run', 'x', '--target', '127.0.0.1', '--port', '99999',
                     says='--port: write a number from 1 to 65535', status=2)
        self.refused('up', '--device', 'mlx5_0', says='a wire has two ends')
        self.refused('capture', 'start', says='FILE is required', status=2)
        self.refused('run', says='which program', status=2)

    def test_unexpected_words_are_said_as_written_with_what_was_meant(self):
        result = self.refused('up', '--falt', 'drop=7', says="up does not take '--falt drop=7'",
                              status=2)
        self.assertIn('try: verbena up --fault;', result.stderr)
        # The 3 was taken for the capture.
        self.refused('explain', '--cont', '3', 'x.pcap', says="explain does not take '--cont'\n",
                     status=2)
        self.assertIn('--device', self.refused('up', '--devcie', 'x', says='x', status=2).stderr)
        self.assertIn('--json', self.refused('fault', 'show', '--jsno', says='fault show',
                                             status=2).stderr)
        self.refused('down', 'now', says='try: verbena down --help', status=2)

    def test_empty_name_is_not_the_default(self):
        self.refused('--name', '', 'status', says='--name: it is empty', status=2)

    def test_wrong_names_are_refused(self):
        for name in ('../x', '.hidden', 'a b', 'x' * 40):
            self.refused('status', '--name', name, says='cannot be the name')

    def test_nothing_is_up(self):
        self.assertIn('no daemon is up', self.verbena('status').stdout)
        self.assertEqual(self.verbena('status').returncode, 1)
        self.assertFalse(json.loads(self.verbena('status', '--json').stdout)['up'])
        self.assertIn('no daemon is up', self.good('down').stdout)
        self.refused('stat', says='try: verbena up')
        self.refused('capture', 'stop', '--name', 'x', says='try: verbena up --name x')
        self.assertFalse(self.instance().exists())


class ConformanceTest(CliCase):
    def test_a_case_that_cannot_be_read_fails_and_the_others_go_on(self):
        good = PCAPS / 'cases' / 'rc_write.requester.toml'
        broken = pathlib.Path(self.runtime, 'broken.toml')
        broken.write_text('title = "no role"\ncapture = "x.pcap"\n')
        result = self.verbena('conformance', 'run', str(broken), str(good))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(f'FAIL {broken}', result.stdout)
        self.assertIn('role', result.stdout)
        self.assertEqual(result.stdout.splitlines()[-1], '1 passed, 1 failed')

    def test_what_is_no_file_is_not_read(self):
        fifo = os.path.join(self.runtime, 'fifo')
        os.mkfifo(fifo)
        link = os.path.join(self.runtime, 'link.toml')
        os.symlink('/dev/zero', link)
        for path in (fifo, link, '/dev/zero'):
            self.refused('conformance', 'run', path, says='is no regular file')
            self.refused('conformance', 'import', path, '-o', self.runtime,
                         says='is no regular file')
        self.refused('conformance', 'import', self.runtime, '-o', self.runtime, says='is a folder')

    def test_capture_in_place_of_a_case_is_told_what_to_do(self):
        capture = str(PCAPS / 'rc_send.pcap')
        self.refused('conformance', 'run', capture,
                     says=f'verbena conformance import {capture} -o FOLDER')

    def test_import_of_what_is_no_capture_leaves_nothing(self):
        folder = pathlib.Path(self.runtime, 'cases')
        for capture in ('/nowhere', __file__):
            self.refused('conformance', 'import', capture, '-o', str(folder), says=capture)
            self.assertFalse(folder.exists())

    def test_import_says_that_the_capture_s_end_is_missing(self):
        cut = pathlib.Path(self.runtime, 'cut.pcap')
        cut.write_bytes((PCAPS / 'rc_write.pcap').read_bytes()[:-5])
        result = self.verbena('conformance', 'import', str(cut), '-o', self.runtime)
        self.assertIn(f'{cut}: truncated', result.stderr)
        self.assertIn('imported is what comes before that', result.stderr)
        self.assertIn('cases, ', result.stdout)

    def test_what_is_no_case_is_refused(self):
        self.refused('conformance', 'run', '/nowhere', says='/nowhere')
        self.refused('conformance', 'run', self.runtime, says=self.runtime)
        self.refused('conformance', 'import', '/nowhere', '-o', self.runtime, says='/nowhere')


class RunDirectoryTest(CliCase):
    def base(self):
        base = pathlib.Path(self.runtime, 'verbena')
        base.mkdir(mode=0o700)
        return base

    # These leave nothing up, and what they make is not for `down` to look at.
    def tearDown(self):
        shutil.rmtree(self.runtime)

    def test_symbolic_link_is_refused(self):
        target = pathlib.Path(self.runtime, 'elsewhere')
        target.mkdir(mode=0o700)
        pathlib.Path(self.runtime, 'verbena').symlink_to(target)
        self.refused('up', says='symbolic link')
        self.assertEqual(list(target.iterdir()), [])

    def test_directory_open_to_others_is_refused(self):
        self.base().chmod(0o755)
        self.refused('up', says='chmod 700')

    def test_file_in_its_place_is_refused(self):
        (self.base() / 'default').write_text('')
        self.refused('up', says='not a directory')

    @unittest.skipIf(os.geteuid() != 0, 'takes root to give a directory away')
    def test_directory_of_another_user_is_refused(self):
        base = self.base()
        os.chown(base, 65534, 65534)
        self.refused('up', says='belongs to user 65534')

    def test_unusable_runtime_directory_is_passed_over(self):
        path = self.verbena('status', XDG_RUNTIME_DIR='/nonexistent').stdout
        self.assertIn(f'/tmp/verbena-{os.geteuid()}/default', path)

    def test_path_too_long_for_a_socket_is_refused(self):
        self.refused('up', says='too long', VERBENA_DIR='/tmp/' + 'x' * 120)


class DaemonTest(CliCase):
    def test_up_twice_and_down_twice(self):
        first = self.good('up').stdout
        self.assertRegex(first, r'verbena0 +10\.99\.0\.1')
        self.assertRegex(first, r'verbena1 +10\.99\.0\.2')
        pid = self.daemon_pid()
        self.assertIn('up already', self.good('up').stdout)
        self.assertEqual(self.daemon_pid(), pid)
        self.refused('up', '--poll', says='verbena down')
        self.assertIn('down', self.good('down').stdout)
        self.assertTrue(has_ended(pid))  # or gone
        self.assertFalse((self.instance() / 'control.sock').exists())
        self.assertIn('no daemon is up', self.good('down').stdout)

    def test_devices_are_renamed(self):
        self.good('up', '--device', 'mlx5_0,ip=192.0.2.1,vendor=mlx5', '--device',
                  'mlx5_1,ip=192.0.2.2,vendor=mlx5')
        devices = json.loads(self.good('status', '--json').stdout)['devices']
        self.assertEqual([(d['name'], d['ip']) for d in devices],
                         [('mlx5_0', '192.0.2.1'), ('mlx5_1', '192.0.2.2')])

    def test_faults_are_shown(self):
        self.good('up', '--fault', 'drop=0.5,seed=3', '--fault', 'opcode=ack nth=2 drop=1')
        text = self.good('status').stdout
        self.assertIn('fault of the wire: drop=50% seed=3\n', text)
        self.assertIn('fault of the wire: opcode=ACK nth=2 drop=100%\n', text)

    def test_refused_options_are_answered_with_what_to_write(self):
        result = self.refused('up', '--fault', 'drop=7', says="'drop=7' is more than all packets")
        self.assertIn('try: drop=7% or drop=0.07 for 7 in a hundred', result.stderr)
        result = self.refused('up', '--fault', 'explode=1', says="'explode=1' is unknown")
        self.assertIn('drop=P', result.stderr)
        self.assertEqual(self.verbena('status').returncode, 1)

    def test_daemon_that_does_not_start_says_why(self):
        self.good('up')
        self.good('down')
        (self.instance() / 'verbenad.log').unlink(missing_ok=True)
        (self.instance() / 'control.sock').mkdir()
        result = self.refused('up', says='verbenad.log')
        self.assertIn('try: verbena doctor', result.stderr)
        (self.instance() / 'control.sock').rmdir()

    def test_two_daemons_by_name(self):
        self.good('up', '--name', 'a')
        self.good('--name', 'b', 'up', '--device', 'x0', '--device', 'x1,ip=10.99.0.9')
        self.assertNotEqual(self.daemon_pid('--name', 'a'), self.daemon_pid('--name', 'b'))
        self.good('down', '--name', 'a')
        self.assertEqual(self.verbena('status', '--name', 'a').returncode, 1)
        self.assertIn('x0', self.good('status', '--name', 'b').stdout)

    def test_up_after_kill(self):
        self.good('up')
        pid = self.daemon_pid()
        os.kill(pid, signal.SIGKILL)
        while not has_ended(pid):
            time.sleep(0.01)
        self.assertTrue((self.instance() / 'control.sock').exists())
        self.assertEqual(self.verbena('status').returncode, 1)
        self.assertIn('no daemon is up', self.good('down').stdout)
        self.good('up')
        self.assertNotEqual(self.daemon_pid(), pid)

    def test_many_start_one(self):
        started = [subprocess.Popen([VERBENA, 'up'], env=self.environment, stdout=subprocess.PIPE,
                                    text=True) for _ in range(5)]
        texts = [process.communicate(timeout=LIMIT_S)[0] for process in started]
        self.assertEqual([process.returncode for process in started], [0] * 5)
        self.assertEqual(sum('up already' in text for text in texts), 4)


def has_ended(pid):
    """Ended: gone, or left for a parent that does not ask."""
    try:
        return ') Z ' in pathlib.Path('/proc', str(pid), 'stat').read_text()
    except OSError:
        return True


class RunningDaemonTest(CliCase):
    def setUp(self):
        super().setUp()
        self.good('up')

    def test_stat(self):
        self.assertIn('DEVICE', self.good('status').stdout)
        text = self.good('stat', '--all').stdout
        self.assertRegex(text, r'COUNTER +verbena0 +verbena1')
        answer = json.loads(self.good('stat', '--json', 'verbena1').stdout)
        self.assertEqual([d['name'] for d in answer['devices']], ['verbena1'])
        self.assertTrue(answer['devices'][0]['counters'])
        self.refused('stat', 'verbena9', says='use one of: verbena0, verbena1')

    def test_stat_watch_goes_on(self):
        with subprocess.Popen([VERBENA, 'stat', '--all', '-w', '0.1'], env=self.environment,
                              stdout=subprocess.PIPE, text=True) as watch:
            headers = 0
            for line in watch.stdout:
                headers += line.startswith('COUNTER')
                if headers == 2:
                    self.assertIn('PER SECOND', line)
                    break
            watch.kill()

    def test_faults(self):
        self.assertIn('no faults', self.good('fault', 'show').stdout)
        self.good('fault', 'wire', 'from=verbena0', 'opcode=ACK', 'nth=2', 'drop=1')
        text = self.good('fault', 'wire', 'delay=10us,dup=5%').stdout
        self.assertRegex(text, r'RULE +MATCHED +DROPPED')
        self.assertRegex(text, r'from=verbena0 opcode=ACK nth=2 drop=100% +0')
        rules = json.loads(self.good('fault', 'show', '--json').stdout)['rules']
        self.assertEqual([rule['delay_ns'] for rule in rules], [0, 10000])
        self.refused('fault', 'wire', 'drop=7', says='try: drop=7% or drop=0.07')
        self.refused('fault', 'wire', says='RULE is required', status=2)
        self.refused('fault', 'clear', 'opcode=SEND', says='try: verbena fault show')
        self.assertNotIn('ACK', self.good('fault', 'clear', 'opcode=ACK').stdout)
        self.assertIn('no faults', self.good('fault', 'clear').stdout)

    def test_capture(self):
        file = pathlib.Path(self.runtime, 'a b.pcapng')
        started = subprocess.run([VERBENA, 'capture', 'start', file.name], cwd=self.runtime,
                                 env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual(started.returncode, 0, started.stderr)
        self.assertIn(str(file), started.stdout)
        self.assertIn(f'in {file}', self.good('status').stdout)
        self.refused('capture', 'start', str(file), says='already')
        self.assertIn(str(file), self.good('capture', 'stop').stdout)
        self.assertEqual(file.read_bytes()[:4], b'\x0a\x0d\x0d\x0a')
        self.refused('capture', 'stop', says='no capture')
        self.refused('capture', 'start', '/nonexistent/x', says='mkdir -p')
        self.refused('capture', 'start', self.runtime, says=f'try: verbena capture start '
                     f'{self.runtime}/wire.pcapng')

    def test_env_is_read_by_a_shell(self):
        text = self.good('env', '--device', 'verbena1').stdout
        shell = subprocess.run(
            ['sh', '-c', f'{text}\nprintf "%s\\n" "$LD_PRELOAD" "$IBV_DRIVERS" "$VERBENA_DIR" '
             '"$VERBENA_DEVICE"; ls /sys/class/infiniband'],
            env=self.environment, capture_output=True, text=True, check=False)
        lines = shell.stdout.splitlines()
        self.assertEqual(shell.stderr, '')
        self.assertTrue(lines[0].endswith('/libverbena-preload.so'))
        self.assertTrue(lines[1].endswith('/libverbena'))
        self.assertEqual(lines[2:], [str(self.instance()), 'verbena1', 'verbena0', 'verbena1'])
        settings = json.loads(self.good('env', '--json').stdout)
        self.assertEqual(settings['VERBENA_DIR'], str(self.instance()))

    def test_env_quotes_and_keeps_what_was_set(self):
        library = '/nowhere/it\'s$HOME.so'
        preload = json.loads(self.good('env', '--json').stdout)['LD_PRELOAD']
        text = self.good('env', IBV_DRIVERS=library).stdout
        wanted = [line for line in text.splitlines() if 'IBV_DRIVERS' in line][0]
        name, value = shlex.split(wanted)[1].split('=', 1)
        self.assertEqual(name, 'IBV_DRIVERS')
        self.assertTrue(value.endswith(':' + library))
        # Twice changes nothing.
        again = json.loads(self.good('env', '--json', LD_PRELOAD=preload).stdout)
        self.assertEqual(again['LD_PRELOAD'], preload)

    def test_unknown_device(self):
        self.refused('run', '--device', 'nope', '--', 'true', says='use one of: verbena0, verbena1')
        self.refused('env', '--device', 'nope', says='use one of: verbena0, verbena1')

    def test_programs_see_the_devices(self):
        both = self.good('run', 'ibv_devices').stdout
        self.assertIn('verbena0', both)
        self.assertIn('verbena1', both)
        one = self.good('run', '--device', 'verbena1', '--', 'ibv_devices').stdout
        self.assertNotIn('verbena0', one)
        self.assertIn('verbena1', one)

    def test_doctor_finds_nothing_failed(self):
        text = self.good('doctor').stdout
        self.assertIn('running: yes', text)
        checks = json.loads(self.good('doctor', '--json').stdout)['checks']
        self.assertGreater(len(checks), 15)
        self.assertLessEqual({check['level'] for check in checks}, {'ok', 'warn'})


class RunTest(CliCase):
    def test_starts_the_daemon_and_says_so(self):
        result = self.good('run', '--', 'echo', 'x', '--name')
        self.assertEqual(result.stdout, 'x --name\n')
        self.assertIn('started verbenad', result.stderr)
        again = self.good('run', 'echo', 'y')
        self.assertEqual((again.stdout, again.stderr), ('y\n', ''))

    def test_exit_statuses_are_the_program_s(self):
        self.good('up')
        self.assertEqual(self.verbena('run', '--', 'sh', '-c', 'exit 7').returncode, 7)
        self.assertEqual(self.verbena('run', '--', 'sh', '-c', 'kill -TERM $$').returncode,
                         -signal.SIGTERM)
        self.refused('run', '--', 'no-such-program', says='not found', status=127)
        self.refused('run', '--', '/etc/passwd', says='cannot be executed', status=126)
        self.refused('run', '--', '/tmp', says='is a directory', status=126)

    def test_missing_program_starts_no_daemon(self):
        self.refused('run', '--', 'no-such-program', says='not found', status=127)
        self.assertEqual(self.verbena('status').returncode, 1)

    def test_daemon_is_no_child_of_the_program(self):
        result = self.good('run', '--', 'sh', '-c', 'cat /proc/$$/task/$$/children; exec true')
        self.assertNotIn(str(self.daemon_pid()), result.stdout.split())

    def test_program_without_a_dynamic_loader_is_noted(self):
        # An ELF file of a header alone has no interpreter segment, as a static program.
        file = pathlib.Path(self.runtime, 'static')
        head = bytearray(64)
        head[:7] = b'\x7fELF\x02\x01\x01'
        head[16:20] = (2).to_bytes(2, 'little') + (62).to_bytes(2, 'little')
        head[54:56] = (56).to_bytes(2, 'little')
        file.write_bytes(bytes(head))
        file.chmod(0o755)
        # It cannot be executed either, and must not be taken for a script.
        self.refused('run', '--', str(file), says='statically linked', status=126)

    def test_script_without_an_interpreter_line(self):
        file = pathlib.Path(self.runtime, 'script')
        file.write_text('exit 5\n')
        file.chmod(0o755)
        self.assertEqual(self.verbena('run', '--', str(file)).returncode, 5)

    @unittest.skipIf(os.geteuid() == 0, 'root gains nothing from programs of root')
    def test_setuid_program_is_refused(self):
        self.refused('run', '--', 'su', '--version', says='gains rights', status=126)

    @unittest.skipIf(os.geteuid() != 0, 'takes root to become another user')
    def test_ordinary_user_without_home_or_runtime_directory(self):
        name = f'cli-{os.getpid()}'
        self.addCleanup(shutil.rmtree, f'/tmp/verbena-65534/{name}', ignore_errors=True)
        script = ' && '.join((f'{VERBENA} up --name {name}',
                              f'{VERBENA} run --name {name} ibv_devices',
                              f'{VERBENA} down --name {name}'))
        result = subprocess.run(
            ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', 'sh', '-c', script],
            env={'PATH': os.environ['PATH'], 'HOME': '/proc'}, cwd='/', capture_output=True,
            text=True, timeout=LIMIT_S, check=False)
        if 'Permission denied' in result.stderr and not world_can_reach(VERBENA):
            self.skipTest('the build directory is closed to other users')
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn('verbena1', result.stdout)
        setuid = subprocess.run(
            ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', VERBENA, 'run', 'su'],
            env={'PATH': os.environ['PATH']}, capture_output=True, text=True, check=False)
        self.assertEqual(setuid.returncode, 126)
        self.assertIn('gains rights', setuid.stderr)


def world_can_reach(path):
    return all(parent.stat().st_mode & 0o001 for parent in pathlib.Path(path).resolve().parents)


if __name__ == '__main__':
    unittest.main()
