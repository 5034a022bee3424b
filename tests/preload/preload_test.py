#!/usr/bin/env python3
"""The preload library in ordinary programs, over a virtual sysfs made by hand.

Run by Meson, which names the library and the probe programs in the environment.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY = os.environ["PRELOAD_LIB"]
STUB = os.environ["NETLINK_STUB"]
SYS = "/sys/class/infiniband"
DEVICE = SYS + "/verbena0"


def write_file(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def write_device(class_dir, index):
    """One device, with the entries that the daemon makes and that these tests look at."""
    name = f"verbena{index}"
    device = f"{class_dir}/infiniband/{name}"
    write_file(f"{device}/node_type", "1: CA\n")
    write_file(f"{device}/node_guid", f"0200:00ff:fe00:000{index}\n")
    write_file(f"{device}/fw_ver", "1.0.0\n")
    write_file(f"{device}/device/numa_node", "-1\n")
    write_file(f"{device}/ports/1/state", "4: ACTIVE\n")
    write_file(f"{device}/ports/1/counters/port_xmit_data", "17\n")
    uverbs = f"{class_dir}/infiniband_verbs/uverbs{index}"
    write_file(f"{uverbs}/ibdev", name + "\n")
    write_file(f"{uverbs}/dev", "1:3\n")
    write_file(f"{uverbs}/abi_version", "1\n")


class PreloadTest(unittest.TestCase):
    def setUp(self):
        # A name with the characters that patterns and shells treat specially.
        self.dir = tempfile.mkdtemp(prefix="verbena [*] test-")
        self.addCleanup(shutil.rmtree, self.dir)
        class_dir = self.dir + "/sysfs/class"
        for index in range(2):
            write_device(class_dir, index)
        write_file(class_dir + "/infiniband_verbs/abi_version", "6\n")
        self.probe_dirs = [self.dir + "/plain", class_dir + "/infiniband/probe"]
        for probe_dir in self.probe_dirs:
            write_file(probe_dir + "/fw_ver", "1.0.0\n")
            os.symlink("fw_ver", probe_dir + "/link")

    def environment(self, instance=None, libraries=(LIBRARY,), **more):
        env = {key: value for key, value in os.environ.items() if key != "VERBENA_DIR"}
        env.update(LD_PRELOAD=":".join(libraries), LC_ALL="C", **more)
        if instance is not None:
            env["VERBENA_DIR"] = instance
        return env

    def run_in(self, env, *command):
        return subprocess.run(command, env=env, text=True, capture_output=True, timeout=60,
                              check=False)

    def run_with(self, *command):
        """Runs under the library; nothing may be said on stderr."""
        result = self.run_in(self.environment(self.dir), *command)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def assert_probe(self, env, *command):
        result = self.run_in(env, *command)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    # Every entry by itself

    def test_every_entry_finds_virtual_path(self):
        self.assert_probe(self.environment(self.dir), os.environ["PATH_PROBE"], SYS + "/probe",
                          "found")

    def test_every_entry_leaves_plain_path_alone(self):
        for instance in (self.dir, None):
            self.assert_probe(self.environment(instance), os.environ["PATH_PROBE"],
                              self.probe_dirs[0], "found")

    def test_every_entry_reports_missing_path(self):
        for path in (SYS + "/verbena7", self.dir + "/nothing"):
            self.assert_probe(self.environment(self.dir), os.environ["PATH_PROBE"], path,
                              "missing")

    @unittest.skipIf(os.path.exists(SYS), "this kernel has a real " + SYS)
    def test_without_usable_instance_nothing_is_virtual(self):
        relative = os.path.relpath(self.dir)
        for instance in (None, "", "/", relative, "/" + "long/" * 200):
            self.assert_probe(self.environment(instance), os.environ["PATH_PROBE"],
                              SYS + "/probe", "missing")

    def test_trailing_slashes_of_instance_do_not_matter(self):
        self.assert_probe(self.environment(self.dir + "//"), os.environ["PATH_PROBE"],
                          SYS + "/probe", "found")

    # Spellings of a path

    def test_spellings_of_virtual_path(self):
        for path in (DEVICE + "/fw_ver",
                     "//sys///class/./infiniband//verbena0//fw_ver",
                     "/../sys/../sys/class/infiniband/verbena0/fw_ver",
                     "/dev/../sys/class/infiniband/verbena0/fw_ver",
                     "/sys/class/infiniband/../infiniband/verbena0/fw_ver",
                     "/sys/class/infiniband_verbs/../infiniband/verbena0/fw_ver",
                     "/sys/class/infiniband/verbena1/../verbena0/device/../fw_ver",
                     "/sys/class/infiniband/x/../../../class/infiniband/verbena0/fw_ver"):
            self.assertEqual(self.run_with("cat", path), "1.0.0\n", path)

    def test_random_spellings_agree_with_model(self):
        model = os.path.join(os.path.dirname(os.path.abspath(__file__)), "path_model.py")
        self.run_with(sys.executable, model)

    def test_trailing_slash(self):
        self.assertEqual(self.run_with("ls", SYS + "//"), "probe\nverbena0\nverbena1\n")
        result = self.run_in(self.environment(self.dir), "ls", DEVICE + "/fw_ver/")
        self.assertIn("Not a directory", result.stderr)

    def test_neighbours_are_not_virtual(self):
        for path in ("/sys/class/infiniband/../net", "/sys/class/infiniband/verbena0/../../net",
                     "/sys/class", "/sys", "/dev", "/dev/infiniband/..", "/"):
            self.assertEqual(self.run_with("stat", "-c", "%d:%i", path),
                             self.run_in(None, "stat", "-c", "%d:%i",
                                         os.path.normpath(path)).stdout, path)
        for path in ("/sys/class/infinibandx", "/sys/class/infiniban", "/sys/infiniband"):
            self.assertNotEqual(self.run_in(self.environment(self.dir), "ls", path).returncode, 0)

    # Ordinary programs, as started by a person, and their children

    def test_shell_and_its_children(self):
        listing = "probe\nverbena0\nverbena1\n"
        self.assertEqual(self.run_with("sh", "-c", f"ls {SYS}"), listing)
        self.assertEqual(self.run_with("sh", "-c", f"cd {SYS} && ls && cat verbena0/fw_ver"),
                         listing + "1.0.0\n")
        self.assertEqual(self.run_with("sh", "-c", f"echo {SYS}/verbena*"),
                         f"{SYS}/verbena0 {SYS}/verbena1\n")
        self.assertEqual(self.run_with("bash", "-c", f"[[ -d {DEVICE} && -r {DEVICE}/fw_ver ]] && "
                                       f"read -r line < {DEVICE}/fw_ver && echo $line"), "1.0.0\n")

    def test_listing_tools(self):
        self.assertIn("fw_ver", self.run_with("ls", "-l", DEVICE))
        self.assertIn(f"{DEVICE}/ports/1/state\n", self.run_with("find", SYS, "-name", "state"))
        self.assertEqual(self.run_with("grep", "-r", "ACTIVE", DEVICE),
                         f"{DEVICE}/ports/1/state:4: ACTIVE\n")
        self.assertIn(DEVICE, self.run_with("du", "-a", SYS))

    def test_python(self):
        self.assertEqual(self.run_with(sys.executable, "-c", f"""
import glob, os, pathlib
print(sorted(os.listdir("{SYS}")))
print(os.path.exists("{DEVICE}/device/"), os.path.exists("{SYS}/verbena7"))
print(pathlib.Path("{DEVICE}/fw_ver").read_text().strip())
print(glob.glob("{SYS}/*/node_type"))
print(next(os.walk("{DEVICE}/ports"))[1])
print(os.path.realpath("{DEVICE}/device/numa_node"))
""").splitlines()[:3], ["['probe', 'verbena0', 'verbena1']", "True False", "1.0.0"])

    def test_counter_through_realpath(self):
        self.assertEqual(self.run_with("sh", "-c", f"cat $(realpath {DEVICE}/ports/1/counters/"
                                       "port_xmit_data | sed 's/ /?/g')"), "17\n")

    def test_device_node(self):
        self.assertEqual(self.run_with("stat", "-L", "-c", "%F %t:%T", "/dev/infiniband/uverbs1"),
                         "character special file 1:3\n")
        self.assertEqual(self.run_with("realpath", "/dev/infiniband/uverbs1"),
                         "/dev/infiniband/uverbs1\n")
        self.assertIn("uverbs0\nuverbs1\n", self.run_with("ls", "/dev/infiniband"))
        for path in ("uverbs2", "uverbs", "rdma_cm"):
            result = self.run_in(self.environment(self.dir), "stat", "/dev/infiniband/" + path)
            self.assertIn("No such file or directory", result.stderr)
        for path in ("uverbs0/x", "uverbs0/..", "uverbs0/../uverbs1"):
            result = self.run_in(self.environment(self.dir), "stat", "/dev/infiniband/" + path)
            self.assertIn("Not a directory", result.stderr)
        result = self.run_in(self.environment(self.dir), "stat", "/dev/infiniband/uverbs2/..")
        self.assertIn("No such file or directory", result.stderr)

    # Command fds

    def test_command_fds(self):
        self.assert_probe(self.environment(self.dir), os.environ["FD_PROBE"])

    def test_channel_of_system_libibverbs(self):
        self.assert_probe(self.environment(self.dir), os.environ["CHANNEL_PROBE"])

    # Discovery by libibverbs. Without a provider it has no device, but it can be asked to say what it met.

    def assert_libibverbs_meets_devices(self, libraries):
        result = self.run_in(self.environment(self.dir, libraries, IBV_SHOW_WARNINGS="1"),
                             "ibv_devices")
        for index in range(2):
            self.assertIn(f"driver found for verbena{index}\n", result.stderr)
        return result.stderr

    def test_libibverbs_meets_devices(self):
        self.assert_libibverbs_meets_devices((LIBRARY,))

    def test_rdma_netlink_is_not_reached(self):
        self.assertNotIn("reached", self.assert_libibverbs_meets_devices((LIBRARY, STUB)))

    def test_rdma_netlink_is_reached_when_inactive(self):
        result = self.run_in(self.environment(None, (LIBRARY, STUB)), "ibv_devices")
        self.assertIn("RDMA netlink reached", result.stderr)

    # The library itself

    def test_needs_libc_alone(self):
        dynamic = self.run_in(None, "readelf", "-d", LIBRARY).stdout
        needed = [line for line in dynamic.splitlines() if "(NEEDED)" in line]
        self.assertEqual(len(needed), 1, needed)
        self.assertIn("[libc.so.6]", needed[0])

    def test_program_with_address_sanitizer(self):
        self.assert_probe(self.environment(self.dir), os.environ["ASAN_PROBE"], SYS + "/probe")


if __name__ == "__main__":
    unittest.main()
