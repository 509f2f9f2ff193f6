#!/usr/bin/env python3
"""All-reduce of floats over shared memory: gradwire and the MPI whose mpicc and mpirun are in PATH, in turns.

    apt-get install -y openmpi-bin libopenmpi-dev
    bench/peers/compare_mpi.py --ranks 2 --bytes 64M --iterations 20 --transports shm ucx

Each round runs all once and prints the times and the state of the machine that each run was in, as gradwire perf probes it: two cores share a
cache ("fast") or not ("slow"). Times compare only within one state: rounds in which it changed are left out. For each state a line for each
transport gives the median over the rounds of each one's median time, and of the rounds' ratios with the lowest and highest of them.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = {"K": 1 << 10, "M": 1 << 20}
SLOW_US = 0.2  # kSlowUs of cli/measure/machine_state.cc
CHANGED = "changed"


def parse_bytes(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def output_of(command):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"compare_mpi: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def perf(args, size, iterations, *options):
    """What `gradwire perf` tells of one all-reduce without checks."""
    output = output_of(["./run", "gradwire", "run", "-n", args.ranks, "--", "gradwire", "perf", "--json", "-", "-b", str(size),
                        "-e", str(size), "-n", iterations, "-c", "0", *options])
    return json.loads(output)


def gradwire_run(args, transport):
    """The time and what was probed before and after."""
    result = perf(args, args.bytes, args.iterations, "-w", args.warm_ups, "--transport", transport)
    return result["results"][0]["out_of_place"]["time_us"], result["ping_pong_us"]


def probe(args):
    """The machine now: an operation that takes no time, for the sake of its probe."""
    return perf(args, 8, "1", "-w", "0")["ping_pong_us"][0]


def mpi_us(args, program):
    # Open MPI refuses root and more ranks than cores unless told.
    version = output_of(["mpirun", "--version"])
    options = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version else []
    return float(output_of(["mpirun", *options, "-n", args.ranks, program, str(args.bytes), args.iterations, args.warm_ups]))


def state_of(probes):
    """The word for the state that all probes (microseconds; None: not measured) found, or that it changed."""
    words = {"not measured" if us is None else "fast" if us < SLOW_US else "slow" for us in probes}
    return words.pop() if len(words) == 1 else CHANGED


class Round:
    """The times of all runs and the state that each was in."""

    def __init__(self):
        self.times, self.states, self._probes = {}, {}, []

    def add(self, name, us, probes):
        self.times[name], self.states[name] = us, state_of(probes)
        self._probes += probes

    @property
    def state(self):
        return state_of(self._probes)

    def text(self):
        runs = [f"{name} {us:12.2f} us ({self.states[name]})" for name, us in self.times.items()]
        return "   ".join(runs + (["left out: the state changed"] if self.state == CHANGED else []))


def run_round(args, program):
    result, after = Round(), None
    for transport in args.transports:
        us, (before, after) = gradwire_run(args, transport)
        result.add(transport, us, [before, after])
    us = mpi_us(args, program)
    result.add("MPI", us, [after, probe(args)])
    return result


def summary(rounds, title):
    """Lines on the rounds of each state, and how many were left out."""
    lines = []
    for state in sorted({each.state for each in rounds} - {CHANGED}):
        chosen = [each.times for each in rounds if each.state == state]
        theirs = [times["MPI"] for times in chosen]
        for transport in chosen[0]:
            if transport == "MPI":
                continue
            ours = [times[transport] for times in chosen]
            ratios = [mine / other for mine, other in zip(ours, theirs)]
            lines.append(f"{title}, {state} ({len(chosen)} of {len(rounds)} rounds): {transport} {statistics.median(ours):.2f} us, "
                         f"MPI {statistics.median(theirs):.2f} us, ratio {statistics.median(ratios):.2f} "
                         f"({min(ratios):.2f} to {max(ratios):.2f})")
    left_out = sum(each.state == CHANGED for each in rounds)
    return [*lines, f"left out, since the state changed: {left_out} of {len(rounds)} rounds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--bytes", type=parse_bytes, default=parse_bytes("64M"))
    parser.add_argument("--iterations", default="20")
    parser.add_argument("--warm-ups", default="5")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transports", nargs="+", default=["auto"], help="of gradwire; default: the one that it chooses")
    args = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/mpi_allreduce"
        output_of(["mpicc", "-O2", "-o", program, pathlib.Path(__file__).with_name("mpi_allreduce.c")])
        for _ in range(args.rounds):
            rounds.append(run_round(args, program))
            print(rounds[-1].text(), flush=True)
    print("\n".join(summary(rounds, f"{args.ranks} ranks, {args.bytes} bytes")))


if __name__ == "__main__":
    main()
