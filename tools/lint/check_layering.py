#!/usr/bin/env python3
"""Checks that each source includes only what its layer may see.

Lowest first: base < compress, transports < collectives < runtime < cli, docs; compress and
transports never see each other. Adaptors and docs/examples, which stand for programs of users, see
the public header only, which may be included anywhere. Only tests/ and bench/ include tests/ or bench/, except that a *_test.cc
beside the code may include tests/lib/. Within runtime/ a folder includes those before it in a list, but for tests. Conditionals on optional dependencies stand in a
registry.cc only.
"""

import re
import sys

import source_tree

_LIBRARY = ("base", "compress", "transports", "collectives", "runtime")
_MAY_INCLUDE = {
    "base": ("base",),
    "compress": ("base", "compress"),
    "transports": ("base", "transports"),
    "collectives": ("base", "compress", "transports", "collectives"),
    "runtime": _LIBRARY,
    "include": (),
    "adaptors": ("adaptors",),
    "cli": _LIBRARY + ("adaptors", "cli", "docs"),
    "docs": _LIBRARY + ("docs",),
    "docs/examples": ("docs",),
    "bench": _LIBRARY + ("adaptors", "cli", "docs", "bench", "tests"),
    "tests": _LIBRARY + ("adaptors", "cli", "docs", "bench", "tests"),
    "third_party": (),
}

_RUNTIME_FOLDERS = ("recorder", "spec", "engine", "state", "operations", "controller", "rank", "sim",
                    "communicator", "start", "capi")  # fmt: skip

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
_CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b((?:.*\\\n)*.*)", re.MULTILINE)
_OPTIONAL = re.compile(r"(?:^|_)(?:HAVE|HAS|WITH|USE|ENABLE)_|UC[XP]|NCCL|CUDA|MPI|HIP|TORCH|JAX")


def _layer_of(path):
    """The longest name that the path begins with; empty: none."""
    return max((name for name in _MAY_INCLUDE if path.startswith(name + "/")), key=len, default="")


def _may_include(path, layer, target):
    first = target.split("/")[0]
    if first == "gradwire" or first in _MAY_INCLUDE[layer]:
        return True
    return path.endswith("_test.cc") and target.startswith("tests/lib/")


def _runtime_level(path):
    """Of a file of runtime/; -1: it lies in no folder of it, or in one that is not in the list."""
    folder = (path.split("/")[1:-1] or [""])[0]
    return _RUNTIME_FOLDERS.index(folder) if folder in _RUNTIME_FOLDERS else -1


def _looks_up(path, target):
    """Within the runtime."""
    if not (path.startswith("runtime/") and target.startswith("runtime/")) or path.endswith("_test.cc"):
        return False
    return _runtime_level(target) > _runtime_level(path)


def _optional_macros(condition):
    """Names in a preprocessor condition that speak of an optional dependency."""
    for name in re.findall(r"\b[A-Za-z_]\w*", condition):
        if name == "__has_include":
            yield name
        elif not name.startswith("__") and not name.endswith("_H_") and _OPTIONAL.search(name):
            yield name


def find_problems(path, text):
    """Each problem as "line: what"."""
    layer = _layer_of(path)
    if not layer:
        return [f"1: '{path.split('/')[0]}' is no layer: add it to tools/lint/check_layering.py"]
    problems = []
    code = source_tree.without_comments(text, keep_strings=True)
    for match in _INCLUDE.finditer(code):
        quoted, angled = match.groups()
        line = source_tree.line_of(code, match.start())
        if quoted and quoted.split("/")[0] not in (*_MAY_INCLUDE, "gradwire"):
            problems.append(f'{line}: "{quoted}" is not written from the repository\'s root')
        elif quoted and not _may_include(path, layer, quoted):
            problems.append(f"{line}: {layer} may not include {quoted}")
        elif quoted and _looks_up(path, quoted):
            folder = path.rpartition("/")[0]
            problems.append(f"{line}: {folder} may not include {quoted}: see the list in check_layering.py")
        elif angled and angled.split("/")[0] in _MAY_INCLUDE:
            problems.append(f"{line}: <{angled}> is ours: write it in quotes")
    if not path.endswith("/registry.cc"):
        for match in _CONDITIONAL.finditer(code):
            line = source_tree.line_of(code, match.start())
            for name in _optional_macros(match.group(1)):
                problems.append(f"{line}: conditional on {name} outside a registry.cc")
    return problems


if __name__ == "__main__":
    sys.exit(source_tree.run_check("layering", source_tree.CXX_SUFFIXES, find_problems))
