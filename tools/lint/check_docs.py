#!/usr/bin/env python3
"""Checks that pages lead somewhere: links between files, and the commits that they name.

A commit stands in backquotes, alone or after `git show`; where its title follows it, as in
`0123456`, "area: Verb object", that must be its title.
"""

import os
import re
import subprocess
import sys

import source_tree

_CODE_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
_COMMIT = re.compile(r'`(?:git show )?(?P<commit>[0-9a-f]{7,40})\b[^`]*`(?:,\s+"(?P<title>[^"]+)")?')


def _without_code(text):
    """The same lines, those of code blocks empty."""
    return _CODE_BLOCK.sub(lambda match: re.sub(r"[^\n]", "", match.group()), text)


def _find_dead_links(path, text, exists):
    for match in _LINK.finditer(text):
        target = match.group(1)
        if "://" not in target and not exists(os.path.join(os.path.dirname(path), target)):
            yield f"{source_tree.line_of(text, match.start())}: '{target}' is no file"


def _find_lost_commits(text, titles):
    for match in _COMMIT.finditer(text):
        commit, quoted = match["commit"], match["title"]
        if commit.isdigit():  # a number
            continue
        line = source_tree.line_of(text, match.start())
        title = next((titles[c] for c in titles if c.startswith(commit)), None)
        if title is None:
            yield f"{line}: {commit} is no commit before this one"
        elif quoted and " ".join(quoted.split()) != title:
            yield f"{line}: {commit} is '{title}'"


def find_problems(path, text, exists, titles):
    """Each problem as "line: what"; `exists` tells whether there is a path, `titles` has those of
    all commits by their hashes."""
    text = _without_code(text)
    return [*_find_dead_links(path, text, exists), *_find_lost_commits(text, titles)]


def _read_titles():
    command = ["git", "-C", source_tree.ROOT, "log", "--format=%H %s"]
    log = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(line.split(" ", 1) for line in log.splitlines())


def main():
    titles = _read_titles()

    def exists(path):
        return os.path.exists(os.path.join(source_tree.ROOT, path))

    return source_tree.run_check(
        "docs", (".md",), lambda path, text: find_problems(path, text, exists, titles)
    )


if __name__ == "__main__":
    sys.exit(main())
