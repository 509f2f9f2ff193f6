"""The Python example."""

import unittest

from adaptors.python import installed
from docs.examples.hello_allreduce import two_ranks
from tools import unittest_main


class HelloPythonTest(unittest.TestCase):
    def test_two_ranks_get_the_mean(self):
        two_ranks.check(self, ["python3", "docs/examples/hello_allreduce/hello.py"],
                        env=installed.environment())


if __name__ == "__main__":
    unittest_main.main()
