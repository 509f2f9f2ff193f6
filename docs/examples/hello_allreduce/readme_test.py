"""README.md shows a part of hello.c: it must be that part, letter by letter."""

import re
import unittest

from tools import unittest_main


def read(path):
    """A source file's text; tests run in the repository's root."""
    with open(path, encoding="utf-8") as file:
        return file.read()


class ReadmeTest(unittest.TestCase):
    def test_example_is_in_the_program(self):
        program = read("docs/examples/hello_allreduce/hello.c")
        part = re.search(r"\[step\] \*/\n(.*\n) +/\* \[/step\]", program, re.DOTALL).group(1)
        self.assertIn(f"```c\n{part}```", read("README.md"))

    def test_readme_is_short(self):
        self.assertLessEqual(len(read("README.md").splitlines()), 150)


if __name__ == "__main__":
    unittest_main.main()
