#!/usr/bin/env python3
"""Measures the tables of the controller, cell by cell, and writes them as JSON and Markdown.

What has been measured is kept in the output folder: a run that was interrupted goes on where it
stopped, and a later one with further cells adds to the tables. --fresh measures again.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import signal
import sys
import time

import accuracy
import change
import jobs
import never_slower
import oracle
import runs
import sweep

_TABLES = {table.NAME: table for table in (oracle, never_slower, change, sweep, accuracy)}


def parse_args(argv):
    """The command line; the sizes' names and defaults are those of runs.Size."""
    summary = __doc__.split("\n", maxsplit=1)[0]
    parser = argparse.ArgumentParser(prog="./run bench-train", description=summary)
    parser.add_argument("--gradwire", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--trainer", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--table", choices=_TABLES, default=oracle.NAME, help="(default: oracle)")
    parser.add_argument("--cells", default="all", help="as 1,5,9-12 (default: all)")
    parser.add_argument("--out", default="out/bench-train", help="(default: out/bench-train)")
    parser.add_argument("--fresh", action="store_true", help="measure again what is there")
    for field in dataclasses.fields(runs.Size):
        choices = ("device", "host") if field.name == "compute" else None
        option = "--" + field.name.replace("_", "-")
        parser.add_argument(option, type=field.type, default=field.default, choices=choices,
                            help=f"(default: {field.default})")
    args = parser.parse_args(argv)
    try:
        args.cells = _TABLES[args.table].select(args.cells)
    except ValueError as error:
        parser.error(str(error))
    return args


class Store:
    """Results of one table: a file for each part of a cell, written whole or not at all."""

    def __init__(self, folder, size):
        self._folder = pathlib.Path(folder)
        self._size = dataclasses.asdict(size)
        self._folder.mkdir(parents=True, exist_ok=True)

    def _path(self, cell, part):
        return self._folder / f"{cell.name}-{part}.json"

    def load(self, cell, part):
        """None where it has not been measured, or in another size."""
        path = self._path(cell, part)
        if not path.exists():
            return None
        stored = json.loads(path.read_text(encoding="utf-8"))
        same = stored["size"] == self._size and stored["cell"] == _json(dataclasses.asdict(cell))
        return stored["measured"] if same else None

    def save(self, cell, part, measured):
        """Replaces what was there."""
        stored = {"cell": dataclasses.asdict(cell), "size": self._size, "measured": measured}
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


def markdown(title, rows, command):
    """The table, with the command that makes it and what does not hold."""
    lines = [f"# {title}", "", f"    {command}", ""]
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines += ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for row in rows:
        lines.append("| " + " | ".join(cell_text(row.get(name)) for name in names) + " |")
    holding = sum(row["holds"] for row in rows)
    lines += ["", f"Holds in {holding} of {len(rows)} cells."]
    if failed := [str(row["cell"]) for row in rows if not row["holds"]]:
        lines.append(f"Does not hold in: {', '.join(failed)}.")
    return "\n".join(lines) + "\n"


def measure_cells(args, table, size, store):
    """A row for each cell whose parts are all there."""
    job_runner = jobs.Jobs(args.gradwire, args.trainer)
    for cell in args.cells:
        by_part = {}
        for part in table.parts(cell, size):
            by_part[part] = None if args.fresh else store.load(cell, part)
            if by_part[part] is not None:
                print(f"{table.NAME} {cell.name} {part}: already measured", flush=True)
                continue
            began = time.monotonic()
            machine = job_runner.machine_state()
            measured = table.measure(job_runner, cell, part, size)
            by_part[part] = _json({"machine": machine, **measured})
            store.save(cell, part, by_part[part])
            seconds = time.monotonic() - began
            print(f"{table.NAME} {cell.name} {part}: {seconds:.0f} s, load {machine['load_1m']:.1f}, "
                  f"cores {machine['ping_pong_us']} us apart", flush=True)
        yield table.row(cell, by_part)


def main(argv):
    """Exit code 1 where a job fails; what was measured before is kept."""
    # The end of this process by a signal ends its jobs too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args = parse_args(argv)
    table = _TABLES[args.table]
    size = runs.Size(**{f.name: getattr(args, f.name) for f in dataclasses.fields(runs.Size)})
    folder = pathlib.Path(args.out, f"{table.NAME}-{size.compute}")
    rows = []
    try:
        for row in measure_cells(args, table, size, Store(folder, size)):
            rows.append(row)
            command = "./run bench-train " + " ".join(_without_programs(argv))
            write_whole(folder / "table.json", json.dumps(rows, indent=1) + "\n")
            write_whole(folder / "table.md", markdown(table.TITLE, rows, command))
    except jobs.JobFailed as error:
        print(f"bench-train: {error}", file=sys.stderr)
        return 1
    print("\n" + (folder / "table.md").read_text(encoding="utf-8"))
    print(f"also in {folder}/table.md and {folder}/table.json")
    return 0


def _without_programs(argv):
    """The arguments that a user has given."""
    programs = ("--gradwire", "--trainer")
    return [a for before, a in zip(["", *argv], argv) if not {before, a} & set(programs)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
