"""The wheel as a file, and what it installs."""

import base64
import csv
import hashlib
import io
import platform
import subprocess
import sys
import unittest
import zipfile

from adaptors.python import installed
from tools import unittest_main


def _python(*args, **variables):
    return subprocess.run([sys.executable, *args], env=installed.environment(**variables),
                          check=False, capture_output=True, text=True, timeout=60, cwd="/")


class WheelTest(unittest.TestCase):
    def test_its_name(self):
        with open("adaptors/python/wheel_name.txt", encoding="utf-8") as file:
            libc = platform.libc_ver()[1].replace(".", "_")
            self.assertEqual(file.read(), "gradwire-0.1.0-py3-none-manylinux_"
                             f"{libc}_{platform.machine()}.whl\n")

    def test_the_record_has_every_file_and_its_hash(self):
        with zipfile.ZipFile(installed.WHEEL) as archive:
            names = archive.namelist()
            record = next(name for name in names if name.endswith("/RECORD"))
            rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
            self.assertEqual([row[0] for row in rows], names)
            for name, digest, size in rows:
                if name != record:
                    content = archive.read(name)
                    made = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
                    self.assertEqual(digest, "sha256=" + made.rstrip(b"=").decode())
                    self.assertEqual(int(size), len(content))

    def test_holds_only_what_is_shipped(self):
        with zipfile.ZipFile(installed.WHEEL) as archive:
            names = set(archive.namelist())
        self.assertLessEqual({"gradwire_autoload.py", "gradwire/__init__.py",
                              "gradwire/torch/backend.py", "gradwire/_native/gradwire",
                              "gradwire/_native/libgradwire.so.0"}, names)
        self.assertFalse([name for name in names if "test" in name])

    def test_holds_the_licenses(self):
        """Its own, and whose code is compiled into the library and the command."""
        owners = {"LICENSE": "Apache License", "cli11.txt": "Henry Schreiner",
                  "fmt.txt": "Victor Zverovich", "highway.txt": "Google",
                  "nlohmann_json.txt": "Niels Lohmann", "random123.txt": "D. E. Shaw Research",
                  "tomlplusplus.txt": "Mark Gillard", "xxhash.txt": "Yann Collet"}
        with zipfile.ZipFile(installed.WHEEL) as archive:
            found = {name.rpartition("/")[2]: archive.read(name).decode()
                     for name in archive.namelist() if ".dist-info/licenses/" in name}
        self.assertEqual(set(found), set(owners))
        for name, owner in owners.items():
            self.assertIn(owner, found[name])


class PackageTest(unittest.TestCase):
    def test_imports_in_an_empty_environment(self):
        done = subprocess.run(
            [sys.executable, "-c", "import gradwire, sys; print(gradwire.__version__, "
             "sorted({'torch', 'numpy'} & set(sys.modules)))"],
            env={"PYTHONPATH": installed.FOLDER}, check=False, capture_output=True, text=True,
            timeout=60)
        self.assertEqual(done.stdout, "0.1.0 []\n", done.stderr)

    def test_the_library_exports_nothing_into_the_process(self):
        code = ("import ctypes, gradwire\n"
                "assert not hasattr(ctypes.CDLL(None), 'gwGetVersion')")
        done = _python("-c", code)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_is_the_command(self):
        done = _python("-m", "gradwire", "run", "-n", "2", "--", sys.executable, "-c",
                       "import gradwire; c = gradwire.Comm.from_environment(); print(c.world_size);"
                       " c.close()")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("2"), 2, done.stdout)
        self.assertEqual(_python("-m", "gradwire", "no-such-command").returncode, 2)

    def test_a_library_that_is_not_there_is_an_import_error(self):
        done = _python("-c", "import gradwire", GRADWIRE_LIBRARY="/no/such/library")
        self.assertIn("ImportError: gradwire's library cannot be loaded", done.stderr)

    def test_a_library_that_lacks_functions_is_an_import_error(self):
        done = _python("-c", "import gradwire", GRADWIRE_LIBRARY="libc.so.6")
        self.assertIn("ImportError: libc.so.6 has version code 0", done.stderr)


if __name__ == "__main__":
    unittest_main.main()
