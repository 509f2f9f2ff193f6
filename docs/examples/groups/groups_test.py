"""Runs the example of docs/groups.md, and compares what the page shows with it."""

import re
import subprocess
import unittest

from tools import unittest_main

_COMMAND = ["cli/gradwire", "run", "-n", "4", "--", "docs/examples/groups/groups"]


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class GroupsTest(unittest.TestCase):
    def test_halves_sum_apart_and_the_ring_turns(self):
        done = subprocess.run(_COMMAND, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=250, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank, (total, got) in enumerate([(2, 4), (4, 2), (2, 4), (4, 2)]):
            self.assertIn(f"rank {rank}: sum {total}, got {got}\n", done.stdout)

    def test_the_page_shows_parts_of_the_program(self):
        program, page = _read("docs/examples/groups/groups.c"), _read("docs/groups.md")
        for mark in ("split", "ring"):
            part = re.search(rf"\[{mark}\] \*/\n(.*\n) +/\* \[/{mark}\]", program, re.DOTALL)
            self.assertIn(f"```c\n{part.group(1)}```", page)


if __name__ == "__main__":
    unittest_main.main()
