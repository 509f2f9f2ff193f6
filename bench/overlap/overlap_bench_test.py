"""Runs the benchmark small: its steps commit and it prints what it measured."""

import subprocess
import unittest

from tools import unittest_main

_COMMAND = ["cli/gradwire", "run", "-n", "2", "--", "bench/overlap/overlap_bench"]


class OverlapBenchTest(unittest.TestCase):
    def test_prints_its_figures(self):
        done = subprocess.run(
            [*_COMMAND, "--tensors", "4", "--bytes", "65536", "--steps", "3"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"submitted as computed +[0-9.]+ ms a step, ratio [0-9.]+")
        self.assertRegex(done.stdout, r"gwAllReduceTensor +[0-9.]+ us p50, [0-9.]+ us p99 of 24 calls")


if __name__ == "__main__":
    unittest_main.main()
