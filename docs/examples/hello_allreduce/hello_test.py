"""Runs the C99 example on two ranks, as its comment says to."""

import re
import subprocess
import unittest

from tools import unittest_main

_COMMAND = ["cli/gradwire", "run", "-n", "2", "--", "docs/examples/hello_allreduce/hello"]


class HelloTest(unittest.TestCase):
    def test_two_ranks_get_the_mean(self):
        done = subprocess.run(
            _COMMAND,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in (0, 1):
            for spec in ("none", "bf16", "qsgd(bits=8)"):
                self.assertRegex(done.stdout, rf"rank {rank} of 2: {re.escape(spec)} +worst error")
        # 0.000000 is what fits into the print: the exact mean in fp32.
        self.assertRegex(done.stdout, r"none +worst error 0\.000000")


if __name__ == "__main__":
    unittest_main.main()
