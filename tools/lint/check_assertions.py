#!/usr/bin/env python3
"""Checks that every test in a *_test.cc asserts something.

An assertion is EXPECT_*, ASSERT_*, FAIL, ADD_FAILURE, or a helper's call: its name starts with the
word Expect or Check, and the call is a statement of its own. One that gives a value, as
CheckedResult or CheckEntry in a condition or cast to void, asserts nothing.
"""

import re
import sys

import source_tree

_TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_[FP])?[ \t]*\(\s*(\w+)\s*,\s*(\w+)\s*\)\s*\{")
_ASSERTION = re.compile(r"\b(?:(?:EXPECT|ASSERT)_\w+|FAIL|ADD_FAILURE|ADD_FAILURE_AT)\s*[(<]")
# With the object that it is called on, and up to the arguments.
_HELPER = re.compile(
    r"(?<![\w.>:])(?:\w+(?:\[[^]]*\])?(?:\.|->|::))*"
    r"(?:Expect|Check)(?![a-z])\w*\s*(?:<[^;(){}]*>\s*)?(?=\()"
)
_BEGINS_STATEMENT = re.compile(r"(?:[;{}]|\b(?:else|do))\s*$")
_HEAD = re.compile(r"\b(?:if|if\s+constexpr|for|while)\s*$")
_MAIN = re.compile(r"\bint\s+main\s*\(")


def _enclosed(code, start, pair="{}"):
    """The text from the brace at `start`, of this pair, to before the one that closes it."""
    depth = 0
    for offset in range(start, len(code)):
        depth += {pair[0]: 1, pair[1]: -1}.get(code[offset], 0)
        if depth == 0:
            return code[start:offset]
    return code[start:]


def _begins_statement(before):
    """Whether a statement begins after this code: also behind the head of a loop or an if."""
    if not before.rstrip().endswith(")"):
        return _BEGINS_STATEMENT.search(before) is not None
    backwards = before.rstrip()[::-1]
    head = backwards[len(_enclosed(backwards, 0, ")(")) + 1 :][::-1]
    return _HEAD.search(head) is not None


def _asserts(body):
    if _ASSERTION.search(body):
        return True
    for helper in _HELPER.finditer(body):
        end = helper.end() + len(_enclosed(body, helper.end(), "()")) + 1
        if _begins_statement(body[: helper.start()]) and body[end:].lstrip().startswith(";"):
            return True
    return False


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
        if not _asserts(_enclosed(code, m.end() - 1))
    ]


if __name__ == "__main__":
    sys.exit(source_tree.run_check("assertions", ("_test.cc", "_test.cu"), find_problems))
