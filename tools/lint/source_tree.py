#!/usr/bin/env python3
"""The sources that the checks read, and the frame that each check runs in.

As a program: prints the tracked and new files that end in one of the arguments.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

CXX_SUFFIXES = (".c", ".cc", ".cu", ".cuh", ".h")

_COMMENT_OR_STRING = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)"
    | "(?:\\.|[^"\\\n])*" | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL | re.VERBOSE,
)


def files(suffixes, root=ROOT):
    """Paths below root, tracked or new but not ignored, that end in one of the suffixes."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    paths = sorted(set(listing.split("\0")))
    return [p for p in paths if p.endswith(tuple(suffixes)) and os.path.isfile(os.path.join(root, p))]


def read(path, root=ROOT):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def without_comments(text, keep_strings=False):
    """C++ text with comments and strings blanked, at the same line numbers."""

    def blank(match):
        found = match.group(0)
        if keep_strings and not found.startswith("/"):
            return found
        return " " + re.sub(r"[^\n]", "", found)

    return _COMMENT_OR_STRING.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def run_check(name, suffixes, find_problems):
    """Calls find_problems(path, text) -> ["line: what", ...] for each file; the exit code.

    A check that found no file to read fails: it would otherwise pass for ever in silence.
    """
    paths = files(suffixes)
    problems = [f"{path}:{p}" for path in paths for p in find_problems(path, read(path))]
    for problem in problems:
        print(problem)
    print(f"{name}: {len(paths)} files, {len(problems)} problems")
    if not paths:
        print(f"{name}: nothing to check", file=sys.stderr)
    return 1 if problems or not paths else 0


if __name__ == "__main__":
    print("\n".join(files(tuple(sys.argv[1:]))))
