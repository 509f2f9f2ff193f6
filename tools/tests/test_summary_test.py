import json
import unittest

from tools import test_summary
from tools import unittest_main

_GOOD = """<testsuites><testsuite tests="3" failures="0" errors="0" skipped="1">
  <testcase name="A" classname="Good" status="run"/>
  <testcase name="B" classname="Good"><skipped message="a_test.cc:7&#x0A;no device"/></testcase>
  <testcase name="C" classname="Good" status="notrun"/></testsuite></testsuites>"""
_BAD = """<testsuites><testsuite tests="2" failures="1">
  <testcase name="A" classname="Bad"><failure message="1 is not 2"/></testcase>
  <testcase name="B" classname="Bad"/></testsuite></testsuites>"""
_EMPTY = "<testsuites/>"


def _built(label, success=True):
    return {"id": {"targetCompleted": {"label": label}}, "completed": {"success": success}}


def _tested(label, status, uri=None, attempt=1, shard=1):
    output = [{"name": "test.log", "uri": "log"}]
    if uri is not None:
        output.append({"name": "test.xml", "uri": uri})
    key = {"label": label, "run": 1, "shard": shard, "attempt": attempt}
    return [
        {"id": {"testResult": key}, "testResult": {"testActionOutput": output}},
        {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}},
    ]


class SummaryTest(unittest.TestCase):
    def summarise(self, events, bazel_exit_code=0):
        texts = {"good": _GOOD, "bad": _BAD, "empty": _EMPTY, "broken": "<testsuite"}

        def read(uri):
            if uri not in texts:
                raise OSError("no such file")
            return texts[uri]

        lines = [json.dumps(event) for event in events]
        return test_summary.summarise(lines, bazel_exit_code, read)

    def test_cases_are_counted(self):
        events = [_built("//a"), *_tested("//a", "PASSED", "good"), *_tested("//b", "FAILED", "bad")]
        summary = self.summarise(events, 3)
        self.assertEqual(summary.line(), "2 passed, 1 failed, 2 skipped")
        self.assertEqual(summary.skipped[0], ("//a Good.B", "no device"))
        self.assertEqual(summary.skipped[1], ("//a Good.C", "disabled"))
        self.assertEqual(summary.failed, [("//b Bad.A", "1 is not 2")])

    def test_what_did_not_build_failed(self):
        summary = self.summarise([_built("//a", False), *_tested("//b", "PASSED", "good")], 1)
        self.assertEqual(summary.failed, [("//a", "failed to build")])

    def test_missing_and_unreadable_xml_failed(self):
        for uri in (None, "nowhere", "broken", "empty"):
            summary = self.summarise(_tested("//a", "PASSED", uri))
            self.assertEqual(summary.line(), "0 passed, 1 failed, 0 skipped", uri)

    def test_failing_outside_the_cases_is_a_failure(self):
        summary = self.summarise(_tested("//a", "TIMEOUT", "good"), 3)
        self.assertEqual(summary.line(), "1 passed, 1 failed, 2 skipped")

    def test_only_the_last_attempt_counts(self):
        events = _tested("//a", "FLAKY", "bad", attempt=1)[:1] + _tested("//a", "FLAKY", "good", 2)
        self.assertEqual(self.summarise(events).line(), "1 passed, 0 failed, 2 skipped")

    def test_shards_add_up(self):
        events = _tested("//a", "PASSED", "good", shard=1)[:1]
        events += _tested("//a", "PASSED", "good", shard=2)
        events += _tested("//a", "PASSED", "empty", shard=3)
        self.assertEqual(self.summarise(events).line(), "2 passed, 0 failed, 4 skipped")

    def test_nothing_run_is_a_failure(self):
        self.assertEqual(self.summarise([]).line(), "0 passed, 1 failed, 0 skipped")
        self.assertEqual(self.summarise([_built("//a")]).line(), "0 passed, 1 failed, 0 skipped")

    def test_a_failing_bazel_is_a_failure(self):
        summary = self.summarise(_tested("//a", "PASSED", "good"), 1)
        self.assertEqual(summary.line(), "1 passed, 1 failed, 2 skipped")
        aborted = {
            "id": {"pattern": {"pattern": ["//..."]}},
            "aborted": {"reason": "LOADING_FAILURE", "description": "bad BUILD file"},
        }
        summary = self.summarise([aborted, *_tested("//a", "PASSED", "good")], 1)
        self.assertEqual(summary.failed, [("pattern", "bad BUILD file")])


if __name__ == "__main__":
    unittest_main.main()
