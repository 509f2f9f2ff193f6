#!/usr/bin/env python3
"""Checks commit titles: "area[/sub]: Verb object", at most 60 characters, no full stop."""

import re
import subprocess
import sys

import source_tree

_AREAS = (
    "base compress transports collectives runtime capi adaptors bench tests docs build ci".split()
)
_TITLE = re.compile(r"(?P<area>[a-z]+)(?:/[a-z0-9_]+)*: (?P<verb>[A-Z][a-z]+)\b.+")
_MAX_LENGTH = 60
# Not a grammar, only the usual slips.
_NOT_IMPERATIVE = re.compile(r"(?:Add|Fix|Updat|Remov|Chang|Mov|Us|Mak)(?:e?s|e?d|ing)$")


def find_problems(title):
    """What is wrong with one title."""
    problems = []
    match = _TITLE.fullmatch(title)
    if not match:
        problems.append('is not "area[/sub]: Verb object"')
    else:
        if match["area"] not in _AREAS:
            problems.append(f"'{match['area']}' is none of: {' '.join(_AREAS)}")
        if _NOT_IMPERATIVE.match(match["verb"]):
            problems.append(f"'{match['verb']}' is not an imperative")
    if len(title) > _MAX_LENGTH:
        problems.append(f"has {len(title)} characters, more than {_MAX_LENGTH}")
    if title.endswith("."):
        problems.append("ends in a full stop")
    return problems


def main():
    command = ["git", "-C", source_tree.ROOT, "log", "--no-merges", "--format=%h %s"]
    log = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    commits = [line.split(" ", 1) for line in log.splitlines()]
    problems = [f"{h} '{title}': {p}" for h, title in commits for p in find_problems(title)]
    for problem in problems:
        print(problem)
    print(f"titles: {len(commits)} commits, {len(problems)} problems")
    return 1 if problems or not commits else 0


if __name__ == "__main__":
    sys.exit(main())
