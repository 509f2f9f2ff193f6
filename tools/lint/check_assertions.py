#!/usr/bin/env python3
"""Checks that every test in a *_test.cc asserts something.

An assertion is EXPECT_*, ASSERT_*, FAIL, ADD_FAILURE, or a call of a helper whose name starts
with Expect or Check.
"""

import re
import sys

import source_tree

_TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_[FP])?[ \t]*\(\s*(\w+)\s*,\s*(\w+)\s*\)\s*\{")
_ASSERTION = re.compile(
    r"\b(?:(?:EXPECT|ASSERT)_\w+|FAIL|ADD_FAILURE|ADD_FAILURE_AT|(?:Expect|Check)\w*)\s*[(<]"
)
_MAIN = re.compile(r"\bint\s+main\s*\(")


def _body(code, start):
    """The text from the brace at `start` to the one that closes it."""
    depth = 0
    for offset in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[offset], 0)
        if depth == 0:
            return code[start:offset]
    return code[start:]


def find_problems(path, text):
    """Each problem as "line: what". `path` does not matter."""
    del path
    code = source_tree.without_comments(text)
    tests = list(_TEST.finditer(code))
    if not tests and not _MAIN.search(code):
        return ["1: no test in a test file"]
    return [
        f"{source_tree.line_of(code, m.start())}: {m.group(1)}.{m.group(2)} asserts nothing"
        for m in tests
        if not _ASSERTION.search(_body(code, m.end() - 1))
    ]


if __name__ == "__main__":
    sys.exit(source_tree.run_check("assertions", ("_test.cc", "_test.cu"), find_problems))
