"""`gradwire advise` with ranks as processes, and the examples of its page."""

import json
import os
import subprocess
import tempfile
import unittest

from cli import command_page
from tests.lib import networks
from tools import unittest_main

_GRADWIRE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire", "cli", "gradwire")
_LIMIT_S = 100
_RUN = ["run", "-n", "2", "--timeout", "90"]
_ADVISE = ["--", "gradwire", "advise"]
_LAUNCH = [*_RUN, *_ADVISE]
_SMALL = ["--model", "fashion-mlp"]


def _gradwire(*args):
    return subprocess.run(
        [_GRADWIRE, *args], capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )


def _advise(*args):
    done = _gradwire(*_LAUNCH, *args)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


class AdviseTest(unittest.TestCase):
    def test_what_hides_behind_compute_is_not_compressed(self):
        # A megabyte over shared memory: a second hides it on any machine.
        advice = json.loads(_advise(*_SMALL, "--compute-ms", "1000", "--json", "-"))
        self.assertTrue(advice["summary"].startswith("do not compress: communication hides"))
        self.assertFalse(advice["compress"])
        self.assertEqual(advice["ranks"], 2)
        self.assertNotIn("note", advice)
        self.assertEqual({row["choice"] for row in advice["tensors"]}, {"none"})
        plans = {plan["plan"].split("(")[0]: plan for plan in advice["plans"]}
        self.assertEqual(plans["advised"]["step_ms"], plans["none"]["step_ms"])
        self.assertGreaterEqual(plans["none"]["step_ms"], 1000)
        self.assertGreater(plans["none"]["tried_ms"], 1000)
        self.assertEqual(advice["tried_plans"], 1)
        self.assertIsNone(plans["bf16"]["tried_ms"])
        self.assertGreater(plans["bf16"]["codec_ms"], 0)
        # The rounding to 8 bits of mantissa, of two ranks and of their sum.
        self.assertTrue(0.0005 < plans["bf16"]["distance"] < 0.004, plans["bf16"])

    def test_the_text_begins_with_the_summary(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "advice.json")
            text = _advise(*_SMALL, "--allow", "topk(0.01),powersgd", "--json", path)
            with open(path, encoding="utf-8") as file:
                advice = json.load(file)
        summary, note, *_ = text.splitlines()
        self.assertEqual(summary, advice["summary"])
        self.assertEqual(note, "# " + advice["note"])
        self.assertIn("nothing can hide", note)
        for plan in advice["plans"]:
            self.assertIn("\n  " + plan["plan"], text)
        names = [plan["plan"].split("(")[0] for plan in advice["plans"]]
        self.assertEqual(names, ["none", "bf16", *3 * ["qsgd"], "topk", *4 * ["powersgd"],
                                 "advised"])

    @unittest.skipUnless(networks.can_make(), "this process may not make network namespaces")
    def test_what_a_slow_link_makes_worth_it_is_tried(self):
        # The link takes a third of a second for the shapes, any codec milliseconds.
        done = _gradwire(*_RUN, "--netlab", "20mbit", *_ADVISE, *_SMALL, "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        advice = json.loads(done.stdout)
        self.assertTrue(advice["compress"])
        self.assertEqual(advice["tried_plans"], 5)
        tried = {plan["plan"]: plan["tried_ms"] for plan in advice["plans"]}
        # What bf16 halves, four bits make an eighth of.
        self.assertLess(tried["bf16(feedback=off)"], 0.7 * tried["none"])
        self.assertLess(tried["advised"], 0.4 * tried["none"])

    def test_codecs_beyond_their_bounds_are_not_chosen(self):
        bounds = ["--error", "0.000001", "--lag", "0.000001", "--json", "-"]
        advice = json.loads(_advise(*_SMALL, *bounds))
        self.assertFalse(advice["compress"])
        for plan in advice["plans"][1:-1]:
            self.assertGreater(plan["distance"], plan["bound"])

    def test_one_rank_is_told_what_to_do(self):
        for args in (["advise"], ["run", "-n", "1", "--", "gradwire", "advise"]):
            done = _gradwire(*args, *_SMALL)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("gradwire run -n N -- gradwire advise", done.stderr)

    def test_says_what_is_wrong(self):
        for args, words in (
            (["--model", "resnet-50"], "Did you mean 'resnet50'?"),
            ([*_SMALL, "--allow", "tpok"], "'topk'"),
            ([*_SMALL, "--set", "foo=1"], "unknown setting 'foo'"),
        ):
            done = _gradwire(*_LAUNCH, *args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


    def test_a_record_that_cannot_be_written_is_told_at_once(self):
        done = _gradwire(*_LAUNCH, *_SMALL, "--record", "/no/such/record")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("cannot write '/no/such/record.0'", done.stderr)


class PageTest(unittest.TestCase):
    def test_examples_work(self):
        command_page.expect_examples_work(self, "gradwire advise", _gradwire, "compress: ")


if __name__ == "__main__":
    unittest_main.main()
