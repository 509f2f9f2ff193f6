"""What tools/mutation/mutate.py draws, and what it refuses to draw from."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

from tools import unittest_main
from tools.mutation import mutate


def _load(mutations):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "mutations.json")
        path.write_text(json.dumps(mutations), encoding="utf-8")
        return mutate.load(path)


class MutateTest(unittest.TestCase):
    def setUp(self):
        self.all = mutate.load(pathlib.Path(mutate.__file__).with_name("mutations.json"))

    def test_a_sample_has_one_of_each_kind(self):
        for seed in range(50):
            chosen = mutate.drawn(self.all, 20, seed)
            self.assertEqual(len({m["name"] for m in chosen}), 20)
            self.assertEqual({m["kind"] for m in chosen if "kind" in m}, set(mutate.KINDS))

    def test_a_sample_is_drawn_anew_and_may_be_of_any_size(self):
        names = [[m["name"] for m in mutate.drawn(self.all, 20, seed)] for seed in ("a", "a", "b")]
        self.assertEqual(names[0], names[1])
        self.assertNotEqual(names[1], names[2])
        self.assertEqual(len(mutate.drawn(self.all, 3, "a")), 3)
        self.assertEqual(len(mutate.drawn(self.all, 1000, "a")), len(self.all))

    def test_numbers_begin_at_one(self):
        for option in ("--sample", "--timeout", "--at-once"):
            mutate.parse_args([f"{option}=1"])
            for value in ("0", "-1", "a", ""):
                with contextlib.redirect_stderr(io.StringIO()) as err:
                    with self.assertRaises(SystemExit, msg=(option, value)):
                        mutate.parse_args([f"{option}={value}"])
                self.assertIn(f"argument {option}: takes whole numbers from 1 on, not '{value}'", err.getvalue())

    def test_no_kind_may_be_missing_or_unknown(self):
        self.assertEqual(_load(self.all), self.all)
        without = [m for m in self.all if m.get("kind") != "clamp"]
        unknown = [{**self.all[0], "name": "another", "kind": "clmap"}, *self.all]
        for bad in (without, unknown):
            with self.assertRaisesRegex(SystemExit, "of each of these kinds"):
                _load(bad)

    def test_every_test_named_must_fail(self):
        def summary(label, status):
            return json.dumps({"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}})

        events = [json.dumps({"id": {"started": {}}, "started": {}}), summary("//a:failed", "FAILED"), summary("@@//a:late", "TIMEOUT"),
                  summary("//a:passed", "PASSED")]
        self.assertEqual(mutate.unmoved(["//a:failed", "//a:late"], events), [])
        self.assertEqual(mutate.unmoved(["//a:passed", "//a:failed", "//a:never_ran"], events), ["//a:passed", "//a:never_ran"])


if __name__ == "__main__":
    unittest_main.main()
