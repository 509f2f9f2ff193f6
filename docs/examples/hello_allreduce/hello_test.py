"""The C99 example."""

import unittest

from docs.examples.hello_allreduce import two_ranks
from tools import unittest_main


class HelloTest(unittest.TestCase):
    def test_two_ranks_get_the_mean(self):
        two_ranks.check(self, ["docs/examples/hello_allreduce/hello"])


if __name__ == "__main__":
    unittest_main.main()
