#!/usr/bin/env python3
"""Counts test cases, from the build event file that `bazel test` wrote.

Each test target counts the cases of its test.xml. A target that failed to build, wrote no
test.xml, or failed without a failing case counts as one failed test. Prints the failed and
skipped ones with their reasons and, as the last line, "N passed, N failed, N skipped"; exits
with 1 if anything failed or nothing ran.
"""

import argparse
import dataclasses
import json
import re
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree

_PASSING = ("PASSED", "FLAKY")


@dataclasses.dataclass
class Summary:
    passed: int = 0
    failed: list = dataclasses.field(default_factory=list)  # (name, reason)
    skipped: list = dataclasses.field(default_factory=list)  # (name, reason)

    def line(self):
        return f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"


@dataclasses.dataclass
class Target:
    """What the events say about one label."""

    built: bool = True
    status: str = ""  # overall status; empty when the test was never started
    xml: dict = dataclasses.field(default_factory=dict)  # (run, shard) -> (attempt, uri)


def read_events(lines):
    """The targets by label, and what stopped bazel before it had any."""
    targets, errors = {}, []
    for line in lines:
        if not line.strip():
            continue
        event = json.loads(line)
        kind, key = next(iter(event["id"].items()))
        if "aborted" in event:
            name = key.get("label") or kind
            errors.append((name, event["aborted"].get("description", "aborted")))
            if kind in ("targetCompleted", "configuredLabel"):
                targets.setdefault(key["label"], Target()).built = False
        elif kind == "targetCompleted" and "completed" in event:
            if not event["completed"].get("success", False):
                targets.setdefault(key["label"], Target()).built = False
        elif kind == "testResult":
            target = targets.setdefault(key["label"], Target())
            place = (key.get("run", 1), key.get("shard", 1))
            attempt = key.get("attempt", 1)
            outputs = event["testResult"].get("testActionOutput", [])
            uris = {output["name"]: output.get("uri", "") for output in outputs}
            if attempt >= target.xml.get(place, (0, ""))[0]:
                target.xml[place] = (attempt, uris.get("test.xml", ""))
        elif kind == "testSummary":
            target = targets.setdefault(key["label"], Target())
            target.status = event["testSummary"].get("overallStatus", "NO_STATUS")
    return targets, errors


def _in_one_line(text):
    return " ".join((text or "").split())[:200]


def add_cases(label, xml_text, summary):
    """Counts the cases of one test.xml and returns how many there were."""
    count = 0
    for case in ElementTree.fromstring(xml_text).iter("testcase"):
        count += 1
        name = f"{label} {case.get('classname', '')}.{case.get('name', '')}"
        problem = case.find("failure")
        if problem is None:
            problem = case.find("error")
        skip = case.find("skipped")
        if problem is not None:
            summary.failed.append((name, _in_one_line(problem.get("message") or problem.text)))
        elif skip is not None:
            reason = _in_one_line(skip.get("message") or skip.text)
            # GoogleTest puts "file:line" before the reason.
            summary.skipped.append((name, re.sub(r"^\S+:\d+ ", "", reason)))
        elif case.get("status") == "notrun":
            summary.skipped.append((name, "disabled"))
        else:
            summary.passed += 1
    return count


def read_uri(uri):
    """The text of a file: URI."""
    path = urllib.request.url2pathname(urllib.parse.urlparse(uri).path)
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _add_target(label, target, read, summary):
    failed_before = len(summary.failed)
    for place, (_, uri) in sorted(target.xml.items()):
        sharded = len(target.xml) > 1
        try:
            count = add_cases(label, read(uri), summary)
        except (OSError, ElementTree.ParseError) as error:
            summary.failed.append((label, f"no readable test.xml: {error}"))
            continue
        if count == 0 and not sharded:
            summary.failed.append((label, "its test.xml has no test cases"))
    if not target.xml:
        summary.failed.append((label, f"no test.xml ({target.status})"))
    elif target.status not in _PASSING and len(summary.failed) == failed_before:
        summary.failed.append((label, f"{target.status} outside its test cases"))


def summarise(lines, bazel_exit_code, read=read_uri):
    """The Summary of the build events in `lines`; read(uri) returns the text of a test.xml."""
    targets, errors = read_events(lines)
    summary = Summary()
    for label, target in sorted(targets.items()):
        if not target.built:
            summary.failed.append((label, "failed to build"))
        elif target.status:
            _add_target(label, target, read, summary)
    if bazel_exit_code != 0 and not summary.failed:
        what = "no test targets" if bazel_exit_code == 4 else f"exit code {bazel_exit_code}"
        summary.failed += errors[:20] or [("bazel", what)]
    if summary.passed + len(summary.failed) + len(summary.skipped) == 0:
        summary.failed.append(("bazel", "no test was run"))
    return summary


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bazel-exit-code", type=int, required=True)
    parser.add_argument("events", help="the file that --build_event_json_file named")
    args = parser.parse_args()
    with open(args.events, encoding="utf-8") as file:
        summary = summarise(file, args.bazel_exit_code)
    for kind, cases in (("skipped", summary.skipped), ("failed", summary.failed)):
        for name, reason in cases:
            print(f"{kind}: {name}: {reason}")
    print(summary.line())
    return 1 if summary.failed or args.bazel_exit_code != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
