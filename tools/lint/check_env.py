#!/usr/bin/env python3
"""Checks that environment, clock and random seeds are read at the edges only.

Everything else gets them as arguments, so that a test can set them and a run can be repeated.
"""

import re
import sys

import source_tree

_ALLOWED = ("runtime/", "cli/", "bench/", "tests/", "docs/examples/", "base/clock.cc",
            "transports/ucx/ucx_folder.cc")  # a setting of UCX's
_READS = re.compile(
    r"\b(?:(?:secure_)?getenv|(?:steady|system|high_resolution)_clock\s*::\s*now|random_device"
    r"|clock_gettime|gettimeofday)\b"
)


def find_problems(path, text):
    """Each problem as "line: what"."""
    if path.startswith(_ALLOWED):
        return []
    code = source_tree.without_comments(text)
    return [
        f"{source_tree.line_of(code, m.start())}: {m.group(0)}: take it as an argument"
        for m in _READS.finditer(code)
    ]


if __name__ == "__main__":
    sys.exit(source_tree.run_check("environment", source_tree.CXX_SUFFIXES, find_problems))
