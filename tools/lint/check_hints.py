#!/usr/bin/env python3
"""Checks that the hints of errors, which stand behind a full stop, begin with a capital letter.

Hints that begin with the name of a command (`gradwire`, or with an underscore in it) may not.
"""

import re
import sys

import source_tree

_STARTS = re.compile(r"\b(Status|Wrong|Fail)(?:\s+\w+)?\(|\.hint\s*=|\bWithHint\(")
_PIECES = re.compile(r'"(?:[^"\\\n]|\\.)*"|[()\[\]{}]|,|;')
_SMALL_HINT = re.compile(r'\s*(?:\([^"?]*\?\s*)?(?:fmt::format\(|std::string\()?\s*"(?!gradwire )([a-z][^\s"_]*)[\s",.;]')


def _find_argument(code, at, number):
    """Where argument `number` begins of a call whose parenthesis is before `at`; None: not there."""
    depth, commas = 0, 0
    for piece in _PIECES.finditer(code, at):
        text = piece.group()
        if text in "([{":
            depth += 1
        elif text in ")]}":
            depth -= 1
        elif text == "," and depth == 0:
            commas += 1
            if commas == number:
                return piece.end()
        if depth < 0 or (text == ";" and depth == 0):
            return None
    return None


def find_problems(path, text):
    """Each problem as "line: what"."""
    if path.endswith("_test.cc") or path.startswith(("tests/", "collectives/verify/")):
        return []
    code = source_tree.without_comments(text, keep_strings=True)
    problems = []
    for start in _STARTS.finditer(code):
        of_call = {"Status": 2, "Wrong": 1, "Fail": 2}.get(start.group(1))
        at = _find_argument(code, start.end(), of_call) if of_call else start.end()
        if at is not None and (hint := _SMALL_HINT.match(code, at)):
            line = source_tree.line_of(code, hint.start(1))
            problems.append(f"{line}: a hint begins with '{hint.group(1)}': write a capital letter")
    return problems


if __name__ == "__main__":
    sys.exit(source_tree.run_check("hints", source_tree.CXX_SUFFIXES, find_problems))
