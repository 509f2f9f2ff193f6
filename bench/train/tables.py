"""Tables of measurements that take hours: each part is kept, and printed as Markdown."""

import dataclasses
import json
import os
import pathlib
import time


class Store:
    """Results of one table: a file for each part of a cell, written whole or not at all.

    They count for the size and the build that they were measured with.
    """

    def __init__(self, folder, size, build):
        """build: what tells one build from another, as {"gradwire": its digest}."""
        self._folder = pathlib.Path(folder)
        self._size = dataclasses.asdict(size)
        self._build = build
        self._folder.mkdir(parents=True, exist_ok=True)

    def _path(self, cell, part):
        return self._folder / f"{cell.name}-{part}.json"

    def load(self, cell, part):
        """None where it has not been measured, or in another size, or with another build."""
        stored = self._stored(cell, part)
        return stored["measured"] if stored and self._is_ours(stored) else None

    def has_of_another_build(self, cell, part):
        """What would count if it had been measured with this one."""
        stored = self._stored(cell, part)
        return stored is not None and not self._is_ours(stored)

    def _stored(self, cell, part):
        """Of this size, by any build; None: there is nothing."""
        path = self._path(cell, part)
        if not path.exists():
            return None
        stored = json.loads(path.read_text(encoding="utf-8"))
        same = stored["size"] == _json(self._size) and stored["cell"] == _json(dataclasses.asdict(cell))
        return stored if same else None

    def _is_ours(self, stored):
        return stored.get("build") == self._build

    def save(self, cell, part, measured):
        """Replaces what was there."""
        stored = {"cell": dataclasses.asdict(cell), "size": self._size, "build": self._build,
                  "measured": measured}
        write_whole(self._path(cell, part), json.dumps(stored) + "\n")


def _json(value):
    return json.loads(json.dumps(value))


def write_whole(path, text):
    """A reader finds the old text or the new one."""
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def cell_text(value):
    """Of a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def cores_apart(parts):
    """What a cache line took there and back, in us, before and after what was measured: the machine's
    state, or that it has changed."""
    us = [machine["ping_pong_us"] for measured in parts for machine in measured["machine"]]
    if None in us:  # there is one core only
        return "not measured"
    return " to ".join(dict.fromkeys(f"{end:.2g}" for end in (min(us), max(us))))


def markdown_lines(rows):
    """A table with a column for every name in the rows."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for row in rows:
        lines.append("| " + " | ".join(cell_text(row.get(name)) for name in names) + " |")
    return lines


class Measurement:
    """Measures the parts of a table's cells that are not in the store."""

    def __init__(self, table, size, store, job_runner):
        self._table, self._size = table, size
        self._store, self._job_runner = store, job_runner

    def parts(self, cell, again):
        """What was measured by part; `again`: also what is there."""
        by_part = {}
        for part in self._table.parts(cell, self._size):
            by_part[part] = None if again else self._store.load(cell, part)
            if by_part[part] is None:
                self._tell_of_another_build(cell, part)
                by_part[part] = self._measure(cell, part)
            else:
                print(f"{self._table.NAME} {cell.name} {part}: already measured", flush=True)
        return by_part

    def _tell_of_another_build(self, cell, part):
        if self._store.has_of_another_build(cell, part):
            print(f"{self._table.NAME} {cell.name} {part}: what is there is of another build, and is "
                  "measured again", flush=True)

    def kept_parts(self, cell):
        """What the store has of a cell, by part; None: not all of it."""
        by_part = {p: self._store.load(cell, p) for p in self._table.parts(cell, self._size)}
        return None if None in by_part.values() else by_part

    def _measure(self, cell, part):
        print(f"{self._table.NAME} {cell.name} {part}: begins", flush=True)
        began = time.monotonic()
        before = self._job_runner.machine_state()
        measured = self._table.measure(self._job_runner, cell, part, self._size)
        machine = [before, self._job_runner.machine_state()]
        measured = _json({"machine": machine, **measured})
        self._store.save(cell, part, measured)
        seconds = time.monotonic() - began
        print(f"{self._table.NAME} {cell.name} {part}: {seconds:.0f} s, load {before['load_1m']:.1f}, "
              f"cores {cores_apart([measured])} us apart", flush=True)
        return measured
