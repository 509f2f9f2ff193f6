"""`gradwire codecs`: the text, the JSON, and the examples of its page."""

import json
import os
import subprocess
import unittest

from cli import command_page
from tools import unittest_main

_GRADWIRE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire", "cli", "gradwire")
_LIMIT_S = 30


def _gradwire(*args):
    return subprocess.run(
        [_GRADWIRE, *args], capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )


def _facts(*args):
    """The JSON's rows by spec."""
    done = _gradwire("codecs", "--json", "-", *args)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    rows = json.loads(done.stdout)["codecs"]
    facts = {row["spec"]: row for row in rows}
    if len(facts) != len(rows):
        raise AssertionError("a spec is there twice")
    return facts


class CodecsTest(unittest.TestCase):
    def test_shows_the_specs_that_people_use(self):
        facts = _facts()
        for spec in ("none", "bf16", "qsgd(bits=4,feedback=on)", "powersgd(rank=4)", "topk(0.01)"):
            self.assertIn(spec, facts)
        # What is sent of 1 %: a value and an index each, at 4 ranks.
        self.assertTrue(0.32 < facts["topk(0.01)"]["bits_per_elem"] < 0.64)
        self.assertEqual(facts["powersgd(rank=4)"]["bits_per_elem"], 0.25)

    def test_says_of_each_how_it_is_reduced_and_what_it_is_safe_with(self):
        facts = _facts()
        classes = {spec: facts[spec]["reduce_class"] for spec in facts}
        self.assertEqual(
            [classes[spec] for spec in ("none", "topk(0.01)", "intsgd", "efsign")],
            ["R0", "R1", "R2", "R4"],
        )
        self.assertEqual(facts["topk(0.01,agreement=gather)"]["reduce_class"], "R5")
        self.assertFalse(facts["efsign"]["momentum"])
        self.assertIn("diverges at 0.9", facts["efsign"]["note"])
        self.assertTrue(facts["qsgd(bits=8)"]["momentum"])

    def test_the_text_has_a_line_for_each(self):
        text = _gradwire("codecs", "--ranks", "16").stdout.splitlines()
        self.assertEqual(text[0], "# 16 ranks")
        self.assertIn("class", text[1].split())
        rows = [line for line in text[2:] if not line.startswith("#")]
        specs = [line.split()[0] for line in rows]
        self.assertEqual(specs, list(_facts("--ranks", "16")))
        # What is no codec and yet a spec stands below.
        about = text[2 + len(rows):]
        self.assertTrue(about[0].startswith("# auto is a spec too"), about)
        self.assertIn("`gradwire train --model resnet50 --compute-ms 80 -x auto`", about[2])

    def test_a_codec_that_cannot_take_so_many_ranks_says_so(self):
        self.assertEqual(_facts("--ranks", "127")["intsgd"]["refused"], "")
        intsgd = _facts("--ranks", "128")["intsgd"]
        refused = intsgd["refused"]
        self.assertIn("127", refused)
        self.assertIsNone(intsgd["bits_per_elem"])
        text = _gradwire("codecs", "--ranks", "128").stdout
        self.assertIn("refused: " + refused, text)

    def test_wrong_arguments_are_refused(self):
        self.assertEqual(_gradwire("codecs", "--ranks", "1").returncode, 2)

    def test_the_examples_of_the_page_work(self):
        command_page.expect_examples_work(self, "gradwire codecs", _gradwire, "topk(0.01)")


if __name__ == "__main__":
    unittest_main.main()
