#!/usr/bin/env python3
"""Breaks chosen lines one at a time and expects the tests to notice each.

Works in a copy of the committed tree with a Bazel output base of its own. Every mutation of mutations.json names a file, a text
that occurs in it exactly once, what to put in its place, and the tests that must fail. First the tests must pass as they are.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS_FAILED = 3  # Bazel's exit code: built, and a test failed
BUILD_FAILED = 1
STOP_AT_FIRST = "--test_env=GTEST_FAIL_FAST=1"


def load(path):
    mutations = json.loads(path.read_text())
    for m in mutations:
        missing = {"name", "file", "find", "replace", "tests"} - m.keys()
        if missing:
            raise SystemExit(f"mutate: {m.get('name', m)} lacks {sorted(missing)}")
    names = [m["name"] for m in mutations]
    if len(set(names)) != len(names):
        raise SystemExit("mutate: two mutations have one name")
    return mutations


def copy_tree(target):
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in files.decode().split("\0"):
        if name:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def run_tests(tree, output_base, tests, timeout, *options):
    command = ["bazel", f"--output_base={output_base}", "test", "--noshow_progress", "--test_output=summary",
               f"--test_timeout={timeout}", *options, "--", *tests]
    return subprocess.run(command, cwd=tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def misplaced(tree, mutations):
    """A sentence for each mutation whose text is not in its file exactly once."""
    for m in mutations:
        path = tree / m["file"]
        times = path.read_text().count(m["find"]) if path.exists() else 0
        if times != 1:
            yield f"{m['name']}: the text occurs {times} times in {m['file']}"


def mutate(tree, mutation):
    """Returns the file's own text, to be put back."""
    path = tree / mutation["file"]
    text = path.read_text()
    path.write_text(text.replace(mutation["find"], mutation["replace"]))
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="run the mutation of this name alone")
    parser.add_argument("--sample", type=int, metavar="N", help="run N mutations, drawn anew for every commit")
    parser.add_argument("--check", action="store_true", help="only see whether all lines are where they are said to be")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one test")
    args = parser.parse_args()
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
        chosen = random.Random(commit).sample(chosen, min(args.sample, len(chosen)))
    survivors = []
    with tempfile.TemporaryDirectory(prefix="gradwire-mutation-") as folder:
        tree, output_base = pathlib.Path(folder, "tree"), pathlib.Path(folder, "bazel")
        copy_tree(tree)
        try:
            tests = sorted({t for m in chosen for t in m["tests"]})
            clean = run_tests(tree, output_base, tests, args.timeout)
            if clean.returncode != 0:
                print(clean.stdout)
                raise SystemExit("mutate: the tests fail without any mutation")
            for m in chosen:
                begin = time.monotonic()
                original = mutate(tree, m)
                result = run_tests(tree, output_base, m["tests"], args.timeout, STOP_AT_FIRST)
                (tree / m["file"]).write_text(original)
                verdict = {TESTS_FAILED: "noticed", 0: "SURVIVED"}.get(result.returncode, "DID NOT BUILD")
                print(f"{verdict:13} {m['name']} ({time.monotonic() - begin:.0f} s)", flush=True)
                if verdict != "noticed":
                    survivors.append(m["name"])
                    if result.returncode == BUILD_FAILED:
                        print(result.stdout[-3000:])
        finally:
            subprocess.run(["bazel", f"--output_base={output_base}", "shutdown"], cwd=tree,
                           stdin=subprocess.DEVNULL, capture_output=True, check=False)
            # Bazel makes its outputs read-only.
            subprocess.run(["chmod", "-R", "u+w", folder], check=False)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutations noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
