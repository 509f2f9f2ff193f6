"""What tools/mutation/mutate.py draws, and what it refuses to draw from."""

import contextlib
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
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


# Writes its command into $RAN, then "test" goes on until it is ended, but for the first where $FIRST_PASSES.
_BAZEL = """#!/bin/sh
echo "$*" >"$RAN"
case $*-$FIRST_PASSES in
  *build_event* | *' test '*-) exec sleep 1000 ;;
esac
"""
_GIT = "#!/bin/sh\nprintf 'a.cc\\0'\n"


class EndTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "tools/mutation/mutate.py"
        self.program.parent.mkdir(parents=True)
        shutil.copy(mutate.__file__, self.program)
        mutations = [{"name": kind, "kind": kind, "file": "a.cc", "find": "x", "replace": "y", "tests": ["//:a"]} for kind in mutate.KINDS]
        self.program.with_name("mutations.json").write_text(json.dumps(mutations), encoding="utf-8")
        (self.folder / "a.cc").write_text("x", encoding="utf-8")
        for name, text in (("bazel", _BAZEL), ("git", _GIT)):
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o755)
        (self.folder / "tmp").mkdir()
        os.mkfifo(self.folder / "ran")

    def _ends_when_told(self, first_passes, tests, told):
        """Tells it once Bazel has run so many tests, two at a time; then only the servers are ended, and nothing is left."""
        surroundings = {"PATH": f"{self.folder}:{os.environ['PATH']}", "TMPDIR": str(self.folder / "tmp"),
                        "RAN": str(self.folder / "ran"), "FIRST_PASSES": first_passes}
        # Open for writing too: it has no end while nobody else does.
        with os.fdopen(os.open(self.folder / "ran", os.O_RDWR), encoding="utf-8") as ran:
            process = subprocess.Popen([sys.executable, str(self.program)], env={**os.environ, **surroundings}, start_new_session=True,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(lambda: os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None)
            for _ in range(tests):
                self.assertIn(" test ", ran.readline())
            for _ in range(told):
                process.send_signal(signal.SIGTERM)
            for _ in range(2):
                self.assertRegex(ran.readline(), r"^--output_base=\S+ shutdown$")
            self.assertEqual(process.wait(), 128 + signal.SIGTERM)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        with self.assertRaises(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def test_the_unchanged_run_ends(self):
        self._ends_when_told("", 1, 1)

    def test_mutations_that_run_end_and_no_other_begins(self):
        self._ends_when_told("yes", 3, 1)

    def test_once_more_changes_nothing(self):
        self._ends_when_told("yes", 3, 5)


if __name__ == "__main__":
    unittest_main.main()
