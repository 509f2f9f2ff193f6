#!/usr/bin/env python3
"""Measures trainings, with the controller and with fixed codecs, as tables in JSON and Markdown.

What has been measured is kept in the output folder: a run that was interrupted goes on where it
stopped, and a later one with further cells adds to the tables. --fresh measures again, and so does
another build.
"""

import argparse
import dataclasses
import json
import pathlib
import signal
import sys

import accuracy
import advise
import arguments
import builds
import change
import jobs
import never_slower
import oracle
import quality
import runs
import sweep
import tables

_TABLES = {table.NAME: table for table in (oracle, never_slower, change, sweep, accuracy, advise,
                                       quality)}


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
        option = "--" + field.name.replace("_", "-")
        if field.name == "compute":
            taken = {"choices": ("device", "host"), "help": f"(default: {field.default})"}
        else:
            taken = arguments.of_field(field)
        parser.add_argument(option, default=field.default, **taken)
    args = parser.parse_args(argv)
    try:
        args.cells = _TABLES[args.table].select(args.cells)
    except ValueError as error:
        parser.error(f"argument --cells: {error}")
    return args


def markdown(title, rows, command):
    """The table, with the command that was the last to add to it and what does not hold."""
    lines = [f"# {title}", "", f"    {command}", "", *tables.markdown_lines(rows)]
    holding = sum(row["holds"] for row in rows)
    lines += ["", f"Holds in {holding} of {len(rows)} cells."]
    if failed := [str(row["cell"]) for row in rows if not row["holds"]]:
        lines.append(f"Does not hold in: {', '.join(failed)}.")
    return "\n".join(lines) + "\n"


def main(argv):
    """Exit code 1 where a job fails; what was measured before is kept."""
    # The end of this process by a signal ends its jobs too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args = parse_args(argv)
    table = _TABLES[args.table]
    size = runs.Size(**{f.name: getattr(args, f.name) for f in dataclasses.fields(runs.Size)})
    folder = pathlib.Path(args.out, f"{table.NAME}-{size.compute}")
    job_runner = jobs.Jobs(args.gradwire, args.trainer)
    store = tables.Store(folder, size, {"programs": builds.digest(args.gradwire, args.trainer)})
    measurement = tables.Measurement(table, size, store, job_runner)
    command = "./run bench-train " + " ".join(_without_programs(argv))
    try:
        for cell in args.cells:
            measurement.parts(cell, again=args.fresh)
            kept = [(c, measurement.kept_parts(c)) for c in table.select("all")]
            rows = [{**table.row(c, by_part), "cores_us": tables.cores_apart(by_part.values())}
                    for c, by_part in kept if by_part is not None]
            tables.write_whole(folder / "table.json", json.dumps(rows, indent=1) + "\n")
            tables.write_whole(folder / "table.md", markdown(table.TITLE, rows, command))
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
