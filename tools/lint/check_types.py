#!/usr/bin/env python3
"""Checks that no two files define a type of the same name in the same namespace.

Where both end up in one program, each is compiled against its own definition and the linker keeps
one of every inline function: members are read where they are not, and nothing says so.
"""

import re
import sys

import source_tree

_NAMESPACE = re.compile(r"^(?:inline )?namespace(?: ([\w:]+))? \{$", re.MULTILINE)
# A specialisation of a template is no definition of its name.
_TYPE = re.compile(
    r"^(?:struct|class|union|enum(?: (?:class|struct))?)\s+"
    r"(?:alignas\([^)]*\)\s+|\[\[[^\]]*\]\]\s+)*(\w+)(?!\w|<|::)[^;{}()]*\{",
    re.MULTILINE,
)


def _types(code):
    """(qualified name, line) of each type that begins a line in a namespace that has a name.

    Code is formatted: what begins a line belongs to a namespace, or ends one or a function.
    """
    marks = sorted(
        [(m.start(), "open", m.group(1)) for m in _NAMESPACE.finditer(code)]
        + [(m.start(), "type", m.group(1)) for m in _TYPE.finditer(code)]
    )
    spaces = []
    for start, kind, name in marks:
        if kind == "open":
            spaces.append((start, name, _end_of(code, start)))
            continue
        around = [(n, e) for _, n, e in spaces if start < e]
        if around and all(n for n, _ in around):
            yield "::".join([n for n, _ in around] + [name]), source_tree.line_of(code, start)


def _end_of(code, start):
    """Where the first brace from `start` closes."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if match.group(0) == "{" else -1
        if depth == 0:
            return match.start()
    return len(code)


class Definitions:
    """Of all files that `find_problems` was called for."""

    def __init__(self):
        self._first = {}

    def find_problems(self, path, text):
        """Each problem as "line: what"."""
        problems = []
        for name, line in _types(source_tree.without_comments(text)):
            first = self._first.setdefault(name, path)
            if first != path:
                problems.append(f"{line}: {name} is another type in {first}")
        return problems


if __name__ == "__main__":
    sys.exit(source_tree.run_check("types", source_tree.CXX_SUFFIXES, Definitions().find_problems))
