"""The shared library as a C program sees it: what it exports, needs and is called, and its use."""

import re
import subprocess
import unittest

from tools import unittest_main

_LIBRARY = "libgradwire.so.0"
_HEADER = "include/gradwire/gradwire.h"
_CONSUMER = "tests/integration/c99_consumer/consumer"
_NEEDED = {
    "libc.so.6",
    "libm.so.6",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libcrypto.so.3",
    "ld-linux-x86-64.so.2",
}


def _output(*command):
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def _dynamic_entries(kind):
    return set(re.findall(rf"\({kind}\).*\[(.*)\]", _output("readelf", "-dW", _LIBRARY)))


class LibraryTest(unittest.TestCase):
    def test_exports_the_public_functions_and_nothing_else(self):
        with open(_HEADER, encoding="utf-8") as file:
            declared = set(re.findall(r"GW_API\s[^;()]*?(gw[A-Z]\w*)\(", file.read()))
        self.assertGreater(len(declared), 30)
        rows = [line.split() for line in _output("nm", "-D", "--defined-only", _LIBRARY).splitlines()]
        kinds = {row[-1].split("@")[0]: row[-2] for row in rows}
        self.assertEqual(set(kinds), declared | {"p" + name for name in declared})
        # A tool may define gw* itself and call pgw*.
        self.assertEqual({kinds[name] for name in declared}, {"W"})
        self.assertEqual({kinds["p" + name] for name in declared}, {"T"})

    def test_needs_only_the_base_system(self):
        self.assertLessEqual(_dynamic_entries("NEEDED"), _NEEDED)
        self.assertEqual(_dynamic_entries("SONAME"), {_LIBRARY})

    def test_asks_for_no_executable_stack_nor_text_relocations(self):
        headers = _output("readelf", "-lW", _LIBRARY)
        stack = next(line for line in headers.splitlines() if "GNU_STACK" in line)
        self.assertNotIn("RWE", stack)
        self.assertNotIn("TEXTREL", _output("readelf", "-dW", _LIBRARY))


class ConsumerTest(unittest.TestCase):
    def test_is_linked_to_the_shared_library(self):
        self.assertIn(f"[{_LIBRARY}]", _output("readelf", "-dW", _CONSUMER))

    def test_works_alone(self):
        self.assertIn("rank 0 of 1: 0 failures", _output(_CONSUMER))

    def test_works_on_two_ranks(self):
        out = _output("cli/gradwire", "run", "-n", "2", "--", _CONSUMER)
        for rank in (0, 1):
            self.assertIn(f"rank {rank} of 2: 0 failures", out)


if __name__ == "__main__":
    unittest_main.main()
