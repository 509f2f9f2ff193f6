#!/usr/bin/env python3
"""Breaks chosen lines one at a time and expects the tests to notice each.

Works in copies of the files that git tracks, as they lie in the working tree, each with a Bazel output base of its own. Every mutation of
mutations.json names a file, a text that occurs in it exactly once, what to put in its place, and the tests of which each must fail; some name
the kind of their line. First the tests must pass as they are.
"""

import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS_FAILED = 3  # Bazel's exit code: built, and a test failed
BUILD_FAILED = 1
STOP_AT_FIRST = "--test_env=GTEST_FAIL_FAST=1"
# A sample has one of each. dependency: an edge between the steps of a schedule; residual: what of it is written.
KINDS = ("clamp", "crc", "dependency", "residual", "tail", "vote")


def load(path):
    mutations = json.loads(path.read_text())
    for m in mutations:
        missing = {"name", "file", "find", "replace", "tests"} - m.keys()
        if missing:
            raise SystemExit(f"mutate: {m.get('name', m)} lacks {sorted(missing)}")
    names = [m["name"] for m in mutations]
    if len(set(names)) != len(names):
        raise SystemExit("mutate: two mutations have one name")
    if {m["kind"] for m in mutations if "kind" in m} != set(KINDS):
        raise SystemExit(f"mutate: there must be a mutation of each of these kinds and of no other: {', '.join(KINDS)}")
    return mutations


def drawn(mutations, count, seed):
    """`count` of them at random, among these one of each kind as far as there is room."""
    draw = random.Random(seed)
    of_kinds = [draw.choice([m for m in mutations if m.get("kind") == kind]) for kind in KINDS]
    chosen = draw.sample(of_kinds, min(count, len(of_kinds)))
    others = [m for m in mutations if m not in chosen]
    return chosen + draw.sample(others, min(count - len(chosen), len(others)))


def unmoved(tests, events):
    """Those of the tests that have not failed, by the lines of Bazel's build events."""
    failed = set()
    for line in events:
        event = json.loads(line)
        if event.get("testSummary", {}).get("overallStatus") in ("FAILED", "TIMEOUT"):
            failed.add(event["id"]["testSummary"]["label"].lstrip("@"))  # newer Bazels write "@//" or "@@//"
    return [test for test in tests if test not in failed]


class Ended(Exception):
    """By Workplace.end."""


class Workplace:
    """A copy of the tree in which one line at a time is broken, and a Bazel server for it."""

    def __init__(self, folder, test_timeout):
        self._tree, self._output_base, self._timeout = folder / "tree", folder / "bazel", test_timeout
        self._starting, self._client, self._is_ended = threading.Lock(), None, False
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
        for name in files.decode().split("\0"):
            if name:
                (self._tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self._tree / name)

    def _bazel(self, *arguments):
        return subprocess.Popen(["bazel", f"--output_base={self._output_base}", *arguments], cwd=self._tree, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def _run_tests(self, tests, *options):
        with self._starting:
            if self._is_ended:
                raise Ended
            self._client = self._bazel("test", "--noshow_progress", "--test_output=summary", *options, "--", *tests)
        with self._client as client:
            output, _ = client.communicate()
        if self._is_ended:
            raise Ended
        return subprocess.CompletedProcess(client.args, client.returncode, output)

    def run_unchanged(self, tests):
        """Without options of its own: what `./run test` has just run comes from the cache."""
        return self._run_tests(tests)

    def survives(self, mutation):
        """Says what came of it, and returns whether that was not what a test must do."""
        begin = time.monotonic()
        path = self._tree / mutation["file"]
        original = path.read_text()
        path.write_text(original.replace(mutation["find"], mutation["replace"]))
        events = self._tree.with_name("events.json")
        result = self._run_tests(mutation["tests"], f"--test_timeout={self._timeout}", STOP_AT_FIRST,
                                 f"--build_event_json_file={events}")
        path.write_text(original)
        blind = unmoved(mutation["tests"], events.read_text().splitlines() if events.exists() else [])
        verdict = "DID NOT BUILD" if result.returncode not in (0, TESTS_FAILED) else "SURVIVED" if blind else "noticed"
        report = f"{verdict:13} {mutation['name']} ({time.monotonic() - begin:.0f} s)\n"
        if verdict == "SURVIVED":
            report += f"              {', '.join(blind)}\n"
        if result.returncode == BUILD_FAILED:
            report += result.stdout[-3000:]
        print(report, end="", flush=True)
        return verdict != "noticed"

    def end(self):
        """Tests that run end at once, and none run any more. For any thread."""
        with self._starting:
            self._is_ended = True
            if self._client:
                self._client.terminate()  # Bazel's server then ends what it has begun

    def close(self):
        with self._bazel("shutdown") as client:
            client.communicate()
        # Bazel makes its outputs read-only.
        subprocess.run(["chmod", "-R", "u+w", self._output_base], check=False)


def misplaced(tree, mutations):
    """A sentence for each mutation whose text is not in its file exactly once."""
    for m in mutations:
        path = tree / m["file"]
        times = path.read_text().count(m["find"]) if path.exists() else 0
        if times != 1:
            yield f"{m['name']}: the text occurs {times} times in {m['file']}"


def on_threads(function, values, workplaces):
    """What the function gives for each value, as many at a time as there are workplaces. A signal's exception finds this thread waiting,
    never between the start of a process and its being known."""
    with concurrent.futures.ThreadPoolExecutor(len(workplaces)) as pool:
        try:
            return list(pool.map(function, values))
        except BaseException:
            # The pool waits for all that it was given.
            for workplace in workplaces:
                workplace.end()
            raise


def survivors(chosen, workplaces):
    """The names of the mutations that no test notices; as many at a time as there are workplaces."""
    free = queue.SimpleQueue()
    for workplace in workplaces:
        free.put(workplace)

    def survives(mutation):
        workplace = free.get()
        try:
            return workplace.survives(mutation)
        finally:
            free.put(workplace)

    return [m["name"] for m, survived in zip(chosen, on_threads(survives, chosen, workplaces)) if survived]


def _count(text):
    """A type for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"takes whole numbers from 1 on, not '{text}'")
    return int(text)


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="run the mutation of this name alone")
    parser.add_argument("--sample", type=_count, metavar="N", help="run N mutations, drawn anew for every commit, with one of each kind")
    parser.add_argument("--check", action="store_true", help="only see whether all lines are where they are said to be")
    parser.add_argument("--timeout", type=_count, default=300, help="seconds for one test (default: 300, as of the unchanged run)")
    parser.add_argument("--at-once", type=_count, default=2, metavar="N",
                        help="mutations at a time (default 2: each compiles one file, links and waits)")
    args = parser.parse_args(argv)
    if args.only is not None and args.sample is not None:
        parser.error("--only and --sample exclude each other")
    return args


def end(*_):
    """For a signal: leaves no copy and no server behind, however often it is told to."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    sys.exit(128 + signal.SIGTERM)


def end_on_signal():
    """Also while this thread waits for others: Python hears a signal that comes right before a wait only when the next one ends that."""
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)


def main(argv):
    end_on_signal()
    args = parse_args(argv)
    mutations = load(pathlib.Path(__file__).with_name("mutations.json"))
    problems = list(misplaced(ROOT, mutations))
    for problem in problems:
        print(f"mutate: {problem}; update tools/mutation/mutations.json", file=sys.stderr)
    if problems:
        return 1
    if args.check:
        print(f"mutations: {len(mutations)} lines, all in place")
        return 0
    chosen = [m for m in mutations if args.only in (None, m["name"])]
    if not chosen:
        raise SystemExit(f"mutate: no mutation is called {args.only}")
    if args.sample:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
        print(f"mutate: {args.sample} of {len(chosen)}, drawn for commit {commit}")
        chosen = drawn(chosen, args.sample, commit)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gradwire-mutation-")))
        workplaces = [Workplace(folder / str(i), args.timeout) for i in range(min(args.at_once, len(chosen)))]
        for workplace in workplaces:
            stack.callback(workplace.close)
        tests = sorted({t for m in chosen for t in m["tests"]})
        (clean,) = on_threads(workplaces[0].run_unchanged, [tests], workplaces)
        if clean.returncode != 0:
            print(clean.stdout)
            raise SystemExit("mutate: the tests fail without any mutation")
        survived = survivors(chosen, workplaces)
    print(f"{len(chosen) - len(survived)} of {len(chosen)} mutations noticed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
