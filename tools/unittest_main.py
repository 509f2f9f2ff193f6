"""Runs a module's unittest cases and writes a test.xml with one entry per case.

Bazel's own test.xml for a Python test says only that the program passed, so that skipped cases
would count as passed. At the end of a test file:

    if __name__ == "__main__":
        unittest_main.main()
"""

import os
import re
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree


# What XML 1.0 does not have, not even as a reference; a failure's text may.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Result(unittest.TextTestResult):
    """Keeps the outcome of each case: (id, kind or None, text)."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.outcomes = []

    def _add(self, test, kind, text):
        self.outcomes.append((test.id(), kind, text))

    def addSuccess(self, test):
        super().addSuccess(test)
        self._add(test, None, "")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._add(test, "failure", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._add(test, "error", self.errors[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._add(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self._add(test, None, "")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._add(test, "failure", "passed, but was expected to fail")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._add(subtest, "failure", self._exc_info_to_string(err, test))


def _for_xml(text):
    """The text with escapes, as "\\x1b", for characters that XML does not allow."""
    return _NO_XML.sub(lambda match: ascii(match.group())[1:-1], text)


def to_xml(outcomes, seconds):
    """The test.xml text for outcomes of (id, kind or None, text)."""
    counts = {kind: 0 for kind in ("failure", "error", "skipped")}
    suite = ElementTree.Element("testsuite", name=os.path.basename(sys.argv[0]))
    for name, kind, text in outcomes:
        classname, _, method = _for_xml(name).rpartition(".")
        case = ElementTree.SubElement(suite, "testcase", classname=classname, name=method)
        if kind:
            counts[kind] += 1
            ElementTree.SubElement(case, kind, message=_for_xml(text))
    suite.attrib.update(
        tests=str(len(outcomes)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
        time=f"{seconds:.3f}",
    )
    root = ElementTree.Element("testsuites")
    root.append(suite)
    return ElementTree.tostring(root, encoding="unicode")


def main():
    """Runs the cases of __main__; exits with 1 on a failure or where there was no case."""
    start = time.monotonic()
    runner = unittest.TextTestRunner(resultclass=_Result, verbosity=2)
    program = unittest.main(module="__main__", testRunner=runner, exit=False)
    outcomes = program.result.outcomes
    if os.environ.get("XML_OUTPUT_FILE"):
        with open(os.environ["XML_OUTPUT_FILE"], "w", encoding="utf-8") as file:
            file.write(to_xml(outcomes, time.monotonic() - start))
    if not outcomes:
        print("no test was run", file=sys.stderr)
    sys.exit(0 if outcomes and program.result.wasSuccessful() else 1)
