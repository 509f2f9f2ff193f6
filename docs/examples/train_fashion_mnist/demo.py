#!/usr/bin/env python3
"""Trains the same network with and without compression over a slow network, and compares.

Each setting is one run of train_fashion_mnist under `gradwire run`; what it measured comes from
its JSON file. Then all settings take turns on links of other speeds. Ends with two tables and
writes the same to demo.json, demo.html and demo.svg.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import demo_links
import demo_page
import demo_table

_SETTINGS = (
    "none bf16 qsgd(bits=8) qsgd(bits=4,feedback=on) efsign topk(0.01) powersgd(rank=4) auto"
)
_QUICK_SETTINGS = "none qsgd(bits=4,feedback=on) auto"
# The full run, and one that takes seconds: it asserts what the full one does.
_FULL = {"epochs": 2.0, "target": 86.0}
_QUICK = {"epochs": 0.15, "target": 70.0}
_PROGRESS = re.compile(r"step \d+/\d+, .*")
_PLAIN_LINE_SECONDS = 5.0
# A run that says nothing for so long stands still.
_SILENCE_SECONDS = 900


def parse_args(argv):
    """The command line; gradwire and trainer are the two programs."""
    summary = __doc__.split("\n", maxsplit=1)[0]
    parser = argparse.ArgumentParser(prog="./run demo", description=summary)
    parser.add_argument("--gradwire", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--trainer", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, default=4, help="number of ranks (default: 4)")
    parser.add_argument("--rate", default="200mbit", help="of each rank's link (default: 200mbit)")
    parser.add_argument(
        "--settings", default=None,
        help=f"specs, blanks or commas between them (default: {_SETTINGS})",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="(default: 1)")
    parser.add_argument(
        "--seconds", type=float, default=0, help="of training for all settings together, at most"
    )
    parser.add_argument(
        "--out", default=None,
        help="folder of demo.json, demo.html and demo.svg (default: out, with --quick out/quick)",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="half a minute, three settings")
    parser.add_argument("--loopback", action="store_true", help="no test network, also as root")
    args = parser.parse_args(argv)
    args.out = args.out or ("out/quick" if args.quick else "out")
    args.settings = split_settings(
        args.settings or (_QUICK_SETTINGS if args.quick else _SETTINGS)
    )
    return args


def find_netlab_problem(args):
    """Why the ranks get no test network, as one line; None: they do."""
    if args.loopback:
        return "as asked for with --loopback"
    probe = [args.gradwire, "run", "-n", "1", "--netlab", args.rate, "--", "sh", "-c"]
    probe.append("echo netlab=$GRADWIRE_NETLAB")
    done = subprocess.run(
        probe, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        sys.exit(f"demo: {' '.join(probe)}: exit code {done.returncode}\n{done.stderr}")
    if re.search(r"netlab=\S", done.stdout):
        return None
    return " ".join(done.stderr.split())


def split_settings(text):
    """The specs of --settings, at blanks and at commas outside of parentheses and quotes."""
    return re.findall(r"""(?:[^\s,("]|"[^"]*"|\((?:[^()"]|"[^"]*")*\)|[("])+""", text)


def check_settings(args):
    """SystemExit where the library does not know one of the specs."""
    for setting in args.settings:
        done = subprocess.run(
            [args.gradwire, "info", "-c"], env={**os.environ, "GRADWIRE_COMPRESS": setting},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            why = done.stderr.strip().split("(from GRADWIRE_COMPRESS): ")[-1]
            sys.exit(f"demo: --settings: '{setting}': {why}")


def _short(text):
    """The trainer's words without those that 80 columns have no room for."""
    parts = [part for part in text.split(", ") if not part.startswith(("step ", "loss "))]
    return ", ".join(parts).replace("accuracy ", "acc ")


class Progress:
    """One line that is written over on a terminal, a plain line every few seconds elsewhere."""

    def __init__(self, setting):
        self._setting = setting
        self._terminal = sys.stdout.isatty()
        self._last = float("-inf")

    def show(self, text):
        """What the setting is at."""
        now = time.monotonic()
        if self._terminal:
            room = shutil.get_terminal_size().columns - 1
            print("\r\x1b[K" + f"{self._setting}: {_short(text)}"[:room], end="", flush=True)
        elif now - self._last >= _PLAIN_LINE_SECONDS:
            print(f"{self._setting}: {text}", flush=True)
            self._last = now

    def done(self, text):
        """The setting's last line."""
        print("\r\x1b[K" * self._terminal + f"{self._setting}: {text}", flush=True)


def trainer_command(args, setting, json_path, max_seconds):
    """The command line of one setting's run."""
    command = [args.gradwire, "run", "-n", str(args.ranks)]
    if not args.loopback:
        command += ["--netlab", args.rate]
    size = _QUICK if args.quick else _FULL
    command += ["--", args.trainer, f"--spec={setting}", f"--seed={args.seed}"]
    command += [f"--epochs={size['epochs']}", f"--target={size['target']}", f"--json={json_path}"]
    if max_seconds:
        command.append(f"--max-seconds={max_seconds:.1f}")
    return command


def _end_silent(process, heard, is_silent):
    """Ends the process if it is not heard for long, and sets is_silent."""
    while process.poll() is None:
        heard.clear()
        if not heard.wait(_SILENCE_SECONDS):
            is_silent.set()
            process.terminate()
            return


def run_job(command, progress):
    """Runs it to its end and shows how far it is; SystemExit with its last words where it failed."""
    last_lines = []
    heard, is_silent = threading.Event(), threading.Event()
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        threading.Thread(
            target=_end_silent, args=(process, heard, is_silent), daemon=True
        ).start()
        try:
            for line in process.stdout:
                heard.set()
                last_lines = [*last_lines[-30:], line.rstrip()]
                if match := _PROGRESS.search(line):
                    progress.show(match.group())
            process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            progress.done("interrupted")
            raise
        finally:
            heard.set()
    if is_silent.is_set():
        last_lines.append(f"demo: ended, after {_SILENCE_SECONDS} s without a word")
    if process.returncode != 0:
        progress.done("failed")
        sys.exit("\n".join([*last_lines, f"demo: exit code {process.returncode}: {command}"]))


def json_of(make_command, progress):
    """What the job of make_command(path) wrote to its JSON file."""
    with tempfile.TemporaryDirectory(prefix="gradwire-demo-") as folder:
        path = os.path.join(folder, "run.json")
        run_job(make_command(path), progress)
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def run_setting(args, setting, max_seconds):
    """The JSON of one setting's run."""
    progress = Progress(setting)
    run = json_of(lambda path: trainer_command(args, setting, path, max_seconds), progress)
    target = run["to_target_s"]
    reached = f"after {target:.1f} s" if target else "missed"
    progress.done(f"{run['steps']} steps, {run['target']:g} % {reached}, final accuracy {run['final_accuracy']:.2f} %")
    return run


def run_links(args, compute_ms, is_shaped):
    """The second table, as demo_links makes it."""
    results = {}
    for link in demo_links.links(args.quick, is_shaped):
        progress = Progress(demo_links.link_text(link))
        progress.show("all settings in turns")
        results[link] = json_of(
            lambda path, link=link: demo_links.train_command(args, link, compute_ms, path), progress
        )
        progress.done("all settings in turns: done")
    return demo_links.make_table(results, compute_ms)


def check(run):
    """Prints the byte check; SystemExit where it or the digests fail."""
    line, problem = demo_table.check_counters(run)
    print(line, flush=True)
    for text in (problem, demo_table.check_digests(run)):
        if text:
            sys.exit(f"demo: {run['spec']}: {text}")


def write_results(args, runs, rows, by_link):
    """demo.json, and of the page that is in it demo.html and the picture demo.svg."""
    os.makedirs(args.out, exist_ok=True)
    page = demo_page.make_page(runs, rows, by_link)
    results = {**page, "rows": rows, "links": by_link, "runs": runs}
    data = os.path.join(args.out, "demo.json")
    with open(data, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    for name in ("demo.html", "demo.svg"):
        command = [args.gradwire, "report", data, "-o", os.path.join(args.out, name)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, timeout=60, check=False)
        if done.returncode != 0:
            sys.exit(f"demo: exit code {done.returncode}: {' '.join(command)}")


def main(argv):
    """Runs the settings one after the other."""
    # The end of this process by a signal ends its job too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args = parse_args(argv)
    check_settings(args)
    problem = find_netlab_problem(args)
    if problem:
        print(f"plain loopback: nothing slows the network, so compression cannot pay ({problem})")
    runs, spent = [], 0.0
    for i, setting in enumerate(args.settings):
        share = max((args.seconds - spent) / (len(args.settings) - i), 1.0) if args.seconds else 0
        run = run_setting(args, setting, share)
        spent += run["points"][-1]["seconds"]
        check(run)
        runs.append(run)
    rows = demo_table.make_rows(runs)
    by_link = run_links(args, runs[0]["compute_ms"], is_shaped=not problem)
    write_results(args, runs, rows, by_link)
    print("\n# " + demo_table.title(runs[0]))
    print("\n".join(demo_table.format_table(rows)))
    print("# " + demo_table.first_at_target(rows, runs[0]["target"]))
    for note in demo_table.footnotes(runs):
        print("# " + note)
    print("\n# " + demo_links.title(by_link))
    print("\n".join(demo_links.format_table(by_link)))
    print(f"# also in {args.out}: demo.json, demo.html and the plots alone, demo.svg")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
