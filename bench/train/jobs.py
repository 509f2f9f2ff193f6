"""Runs `gradwire` in jobs of several ranks, of which nothing survives this process."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from cells import UNLIMITED

_TIMEOUT_S = 1800
# Of what takes a second: the machine may be busy.
_PROBE_TIMEOUT_S = 120


class JobFailed(Exception):
    """What it said last."""


def _tied_to_us(command):
    """The command dies with this process, however that ends; `gradwire run` takes its ranks and
    networks with it."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *command]


def _checked(cell, result):
    """The result, if its links were those of the cell."""
    if cell.link != UNLIMITED and result["netlab"] is None:
        raise JobFailed("there is no test network here: run as root")
    return result


class Jobs:
    """Runs one job at a time with the programs `gradwire` and `train_fashion_mnist`."""

    def __init__(self, gradwire, trainer=None, timeout_s=_TIMEOUT_S):
        self._gradwire, self._trainer = str(gradwire), str(trainer)
        self._timeout_s = timeout_s

    def _run_command(self, cell):
        """`gradwire run` on the cell's ranks and link."""
        command = [self._gradwire, "run", "-n", str(cell.ranks), "--timeout", str(self._timeout_s)]
        return command if cell.link == UNLIMITED else [*command, "--netlab", cell.link]

    def fashion_mnist(self, cell, options):
        """The JSON of `train_fashion_mnist OPTIONS` on the cell's ranks and link."""
        return self.program(cell, [self._trainer, *options])

    def program(self, cell, program):
        """The JSON that `PROGRAM --json=PATH` writes on the cell's ranks and link."""
        with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as folder:
            path = pathlib.Path(folder, "result")
            command = [*self._run_command(cell), "--", *program, f"--json={path}"]
            self._run(command)
            return _checked(cell, json.loads(path.read_text(encoding="utf-8")))

    def advise(self, cell, options):
        """The JSON of `gradwire advise OPTIONS` on the cell's ranks and link, within its limits."""
        program = [self._gradwire, "advise", "--model", cell.model, "--scale", str(cell.scale)]
        for key, value in cell.limits.items():
            program += [f"--{key}", str(value)]
        return self.program(cell, [*program, *options])

    def train(self, cell, options, netlab_then=()):
        """The JSON of `gradwire train OPTIONS` on the cell's ranks and link, and when it was
        launched (by the clock of "begin_s"). `netlab_then`: later rates of the link, as
        ("20", "100mbit"); with those the result has "rate_changes" too."""
        with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as folder:
            result_path, counters_path = (pathlib.Path(folder, n) for n in ("result", "counters"))
            command = self._run_command(cell)
            if netlab_then:
                command += ["--counters", str(counters_path)]
            for seconds, rate in netlab_then:
                command += ["--netlab-then", f"{seconds}={rate}"]
            command += ["--", self._gradwire, "train", "--model", cell.model]
            command += ["--scale", str(cell.scale), *options, "--json", str(result_path)]
            launched_s = time.monotonic()
            self._run(command)
            result = json.loads(result_path.read_text(encoding="utf-8"))
            result["launched_s"] = launched_s
            if netlab_then:
                counters = json.loads(counters_path.read_text(encoding="utf-8"))
                result["rate_changes"] = counters["rate_changes"]
        return _checked(cell, result)

    def machine_state(self):
        """How fast two cores exchange a cache line, and what else runs: times compare only where
        these are alike."""
        command = [self._gradwire, "train", "--model", "fashion-mlp", "--scale", "0.01"]
        command += ["--compute-ms", "0", "--ranks", "2", "--steps", "2", "--json", "-"]
        # No launcher limits it, as those of the jobs do.
        output = self._run(command, min(_PROBE_TIMEOUT_S, self._timeout_s))
        us, _ = json.loads(output)["ping_pong_us"]
        return {"ping_pong_us": us, "load_1m": os.getloadavg()[0]}

    def _run(self, command, limit_s=None):
        with subprocess.Popen(
            _tied_to_us(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            try:
                out, err = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired as late:
                process.kill()
                process.communicate()
                raise JobFailed(f"{' '.join(command)}: not done after {limit_s} s") from late
            except BaseException:
                process.send_signal(signal.SIGTERM)
                process.communicate()
                raise
        if process.returncode != 0:
            raise JobFailed(f"{' '.join(command)}: exit code {process.returncode}\n{err[-2000:]}")
        return out


class Neighbours:
    """Processes that keep every core of this machine busy while the context lasts."""

    def __init__(self):
        self._processes = []

    def __enter__(self):
        for core in sorted(os.sched_getaffinity(0)):
            spin = ["taskset", "-c", str(core), sys.executable, "-c", "while True: pass"]
            self._processes.append(subprocess.Popen(_tied_to_us(spin)))
        return self

    @property
    def pids(self):
        """Of the processes that run."""
        return [process.pid for process in self._processes]

    def __exit__(self, *_):
        for process in self._processes:
            process.kill()
            process.wait()
