"""The commands of docs/using_it.md, as printed there."""

import os
import re
import subprocess
import tempfile
import unittest

from tests.lib import free_port
from tools import unittest_main

_TIMEOUT_S = 250


def page_line(start):
    """The line of a command of the page, without its comment."""
    with open("docs/using_it.md", encoding="utf-8") as file:
        (line,) = (line for line in file if line.startswith(start))
    return re.sub(r" +#.*", "", line.rstrip())


def shell(command, **environment):
    """Runs it in the repository's root, with the library's folder as the page names it."""
    environment = {**os.environ, "lib": os.getcwd(), **environment}
    return subprocess.Popen(["sh", "-c", command], env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip


class UsingItTest(unittest.TestCase):
    def ended(self, process):
        """Its output."""
        text, _ = process.communicate(timeout=_TIMEOUT_S)
        self.assertEqual(process.returncode, 0, text)
        return text

    def test_a_program_of_ones_own_is_compiled_and_runs_on_one_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            compiler = page_line("cc -std=c99").replace("-o build/hello", f"-o {folder}/hello")
            self.ended(shell(compiler))
            text = self.ended(shell(f"cli/gradwire run -n 2 -- {folder}/hello"))
        self.assertRegex(text, r"rank 1 of 2: bf16 +worst error")

    def test_ranks_started_by_hand_find_each_other(self):
        port = free_port.find()
        common = page_line("export GRADWIRE_WORLD_SIZE").replace("10.0.0.1:29400", f"127.0.0.1:{port}")
        ranks = []
        for rank in (0, 1):
            command = page_line(f"GRADWIRE_RANK={rank} gradwire perf").replace("gradwire perf", "cli/gradwire perf")
            command = command.replace("16M", "16K")
            ranks.append(shell(f"{common}; {command}", GRADWIRE_SECRET="of this test"))
        texts = [self.ended(process) for process in ranks]
        self.assertIn("2 ranks", texts[0])
        self.assertIn("# Out of bounds values : 0 OK", texts[0])


if __name__ == "__main__":
    unittest_main.main()
