"""What of ./run bench-torch needs no PyTorch; the rest is in adaptors/torch/tests/test_bench.py."""

import itertools
import unittest

import turns
from tools import unittest_main


class TurnsTest(unittest.TestCase):
    def test_every_round_has_every_setting_once(self):
        for order in turns.rounds(["a", "b", "c"], 20, 1):
            self.assertEqual(sorted(order), ["a", "b", "c"])

    def test_every_setting_follows_every_other_one_and_is_first(self):
        orders = turns.rounds(["a", "b", "c"], 20, 1)
        pairs = {pair for order in orders for pair in itertools.pairwise(order)}
        self.assertEqual(pairs, set(itertools.permutations("abc", 2)))
        self.assertEqual({order[0] for order in orders}, set("abc"))

    def test_the_seed_fixes_the_order(self):
        names = list("abcdefgh")
        self.assertEqual(turns.rounds(names, 5, 1), turns.rounds(names, 5, 1))
        self.assertNotEqual(turns.rounds(names, 5, 1), turns.rounds(names, 5, 2))


if __name__ == "__main__":
    unittest_main.main()
