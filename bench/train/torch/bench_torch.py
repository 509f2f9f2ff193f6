#!/usr/bin/env python3
"""Compares gradwire with PyTorch's own communication hooks in DistributedDataParallel.

Tables as JSON and Markdown, time to accuracy also as a page with plots. What has been measured is
kept in the output folder: a run that was interrupted goes on where it stopped. --fresh measures
again, and so does another build of gradwire or another PyTorch. Settings are "torch:HOOK" or
"gradwire:SPEC". The Python that runs it has PyTorch and gradwire.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

# pylint: disable=wrong-import-position
import accuracy_table
import arguments
import builds
import cells
import hook_table
import job
import jobs
import page
import settings
import step_table
import tables

_TABLES = {
    table.NAME: table
    for table in (step_table.StepTable, accuracy_table.AccuracyTable, hook_table.HookTable)
}
_WORKLOADS = ("cnn", "transformer")
_LINKS = ("200mbit", "1gbit", cells.UNLIMITED)
_SEEDS = 3
# A job: all settings by turns on the slowest link.
_TIMEOUT_S = 4 * 3600
# Of accuracies, where each is a job; that all settings work is shown by the steps.
_QUICK_TRAININGS = (settings.PLAIN, settings.OURS + "none")
_QUICK_SIZES = {
    "step": step_table.Size(blocks=2, block=2, warm_up=1, auto_warm_up=1),
    "accuracy": accuracy_table.Size(steps=2, evaluate_every=1),
    "hook": hook_table.Size(calls=2),
}


def _parser():
    summary = __doc__.split("\n\n", maxsplit=1)[0]
    parser = argparse.ArgumentParser(prog="./run bench-torch", description=summary)
    parser.add_argument("--table", choices=_TABLES, default="step", help="(default: step)")
    parser.add_argument("--workload", action="append", choices=_WORKLOADS, help="(default: cnn)")
    parser.add_argument("--link", action="append", metavar="RATE",
                        help=f"repeat it (default: {', '.join(_LINKS)}; of --table hook, "
                        f"{cells.UNLIMITED})")
    parser.add_argument("--ranks", type=arguments.number(int, 1), action="append",
                        help="repeat it (default: 2)")
    parser.add_argument("--setting", type=settings.given, action="append", metavar="LIBRARY:WHAT",
                        help=f"repeat it (default: {', '.join(settings.ALL)}; of --table hook, "
                        f"{', '.join(hook_table.SETTINGS)})")
    parser.add_argument("--seeds", type=arguments.number(int, 1), default=_SEEDS,
                        help=f"of trainings (default: {_SEEDS})")
    parser.add_argument("--out", default="out/bench-torch", help="(default: out/bench-torch)")
    parser.add_argument("--fresh", action="store_true", help="measure again what is there")
    parser.add_argument("--quick", action="store_true",
                        help="whether it works at all: every workload, every setting (of trainings "
                        "two), two steps, no limit")
    for table in _TABLES.values():
        for field in dataclasses.fields(table.Size):
            taken = arguments.of_field(field)
            taken["help"] = f"of --table {table.NAME}, {taken['help']}"
            parser.add_argument("--" + field.name.replace("_", "-"), **taken)
    return parser


def _check_hook(parser, args):
    """Of --table hook."""
    if args.workload:
        parser.error("argument --workload: --table hook has buckets of its own")
    if not all(setting.startswith(settings.OURS) for setting in args.setting or ()):
        parser.error(f"argument --setting: --table hook takes {settings.OURS}SPEC only")


def _default_settings(table, quick):
    if table == hook_table.HookTable.NAME:
        return hook_table.SETTINGS
    is_training = table == accuracy_table.AccuracyTable.NAME
    return _QUICK_TRAININGS if quick and is_training else settings.ALL


def parse_args(argv):
    """The command line, with what --quick stands for."""
    parser = _parser()
    args = parser.parse_args(argv)
    quick, is_hook = args.quick, args.table == hook_table.HookTable.NAME
    if is_hook:
        _check_hook(parser, args)
    workloads = _WORKLOADS if quick else _WORKLOADS[:1]
    args.workload = args.workload or ([hook_table.WORKLOAD] if is_hook else list(workloads))
    args.link = args.link or ([cells.UNLIMITED] if quick or is_hook else _LINKS)
    args.ranks = args.ranks or [2]
    args.setting = args.setting or _default_settings(args.table, quick)
    args.seeds = 1 if quick else args.seeds
    size = _QUICK_SIZES[args.table] if quick else _TABLES[args.table].Size()
    given = {f.name: getattr(args, f.name) for f in dataclasses.fields(size)}
    args.size = dataclasses.replace(size, **{k: v for k, v in given.items() if v is not None})
    return args


def _markdown(table, results, command):
    lines = [f"# {table.TITLE}", "", f"    {command}"]
    for result in results:
        size = f"{result['parameters']:,} parameters, " if "parameters" in result else ""
        lines += ["", f"## {result['workload']}, {result['link']}, {result['ranks']} ranks", "",
                  f"{size}PyTorch {result['torch']}, gradwire {result['gradwire']}."]
        for rows in table.sections(result):
            lines += ["", *tables.markdown_lines(rows)] if rows else []
    return "\n".join(lines) + "\n"


def _write(gradwire, folder, table, results, command):
    tables.write_whole(folder / "table.json", json.dumps(results, indent=1) + "\n")
    tables.write_whole(folder / "table.md", _markdown(table, results, command))
    if table.NAME == accuracy_table.AccuracyTable.NAME:
        plots = folder / "plots.json"
        tables.write_whole(plots, json.dumps(page.make_page(table, results)) + "\n")
        made = subprocess.run([gradwire, "report", plots, "-o", plots.with_suffix(".html")],
                              stdout=subprocess.DEVNULL, timeout=60, check=False)
        if made.returncode != 0:
            print(f"bench-torch: no page of {plots}: exit code {made.returncode}", file=sys.stderr)


def main(argv):
    """Exit code 1 where a job fails; what was measured before is kept."""
    # The end of this process by a signal ends its jobs too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args = parse_args(argv)
    # The ranks share few cores.
    os.environ["OMP_NUM_THREADS"] = "1"
    table = _TABLES[args.table](args.setting, args.seeds)
    folder = pathlib.Path(args.out, table.NAME)
    gradwire = shutil.which("gradwire")
    runner = job.TorchJobs(jobs.Jobs(gradwire, timeout_s=_TIMEOUT_S), sys.executable)
    build = {"gradwire": builds.of_package("gradwire"), "torch": builds.version_of("torch")}
    store = tables.Store(folder, args.size, build)
    measurement = tables.Measurement(table, args.size, store, runner)
    chosen = [job.Cell(w, link, r) for w in args.workload for link in args.link for r in args.ranks]
    command = "./run bench-torch " + shlex.join(argv)
    results = []
    try:
        for cell in chosen:
            results.append(table.result(cell, measurement.parts(cell, again=args.fresh)))
            _write(gradwire, folder, table, results, command)
    except jobs.JobFailed as error:
        print(f"bench-torch: {error}", file=sys.stderr)
        return 1
    print("\n" + (folder / "table.md").read_text(encoding="utf-8"))
    print(f"also in {folder}: " + ", ".join(p.name for p in sorted(folder.glob("[tp]*.[jmh]*"))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
