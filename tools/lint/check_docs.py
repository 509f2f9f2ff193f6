#!/usr/bin/env python3
"""Checks that pages lead somewhere: links between files and headings, and the commits that they name.

A commit stands in backquotes, alone or after `git show`; where its title follows it, as in
`0123456`, "area: Verb object", that must be its title.
"""

import os
import re
import subprocess
import sys

import source_tree

_CODE_BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?P<file>[^)#\s]*)(?:#(?P<heading>[^)\s]+))?[^)]*\)")
_HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)
_COMMIT = re.compile(r'`(?:git show )?(?P<commit>[0-9a-f]{7,40})\b[^`]*`(?:,\s+"(?P<title>[^"]+)")?')


def _without_code(text):
    """The same lines, those of code blocks empty."""
    return _CODE_BLOCK.sub(lambda match: re.sub(r"[^\n]", "", match.group()), text)


def _anchor(heading):
    """As pages are shown: `a` of a link in a heading is its text."""
    text = re.sub(r"\]\([^)]*\)", "", heading.lower())
    return re.sub(r"[^\w -]", "", text).replace(" ", "-")


def _find_dead_links(path, text, read):
    for match in _LINK.finditer(text):
        file, heading = match["file"], match["heading"]
        if "://" in file:
            continue
        target = os.path.join(os.path.dirname(path), file) if file else path
        linked, line = read(target), source_tree.line_of(text, match.start())
        if linked is None:
            yield f"{line}: '{file}' is no file"
        elif heading and heading not in map(_anchor, _HEADING.findall(_without_code(linked))):
            yield f"{line}: '{file}' has no heading '{heading}'"


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


def find_problems(path, text, read, titles):
    """Each problem as "line: what"; `read` gives the text of a path, empty of a folder and None
    where there is nothing, `titles` has those of all commits by their hashes."""
    text = _without_code(text)
    return [*_find_dead_links(path, text, read), *_find_lost_commits(text, titles)]


def _read_titles():
    command = ["git", "-C", source_tree.ROOT, "log", "--format=%H %s"]
    log = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(line.split(" ", 1) for line in log.splitlines())


def main():
    titles = _read_titles()

    def read(path):
        whole = os.path.join(source_tree.ROOT, path)
        if not os.path.exists(whole) or os.path.isdir(whole):
            return "" if os.path.exists(whole) else None
        with open(whole, encoding="utf-8", errors="replace") as file:
            return file.read()

    return source_tree.run_check(
        "docs", (".md",), lambda path, text: find_problems(path, text, read, titles)
    )


if __name__ == "__main__":
    sys.exit(main())
