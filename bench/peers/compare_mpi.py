#!/usr/bin/env python3
"""All-reduce of floats over shared memory: gradwire and the MPI whose mpicc and mpirun are in PATH, in turns.

    apt-get install -y openmpi-bin libopenmpi-dev
    bench/peers/compare_mpi.py --ranks 2 --bytes 64M --iterations 20 --transports shm ucx

Each round runs all once; a line for each transport gives the median over the rounds of each one's median time, and of the rounds' ratios with
the lowest and highest of them.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = {"K": 1 << 10, "M": 1 << 20}


def parse_bytes(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def output_of(command):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"compare_mpi: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def gradwire_us(args, transport):
    output = output_of(["./run", "gradwire", "run", "-n", args.ranks, "--", "gradwire", "perf", "--json", "-", "-b", str(args.bytes),
                        "-e", str(args.bytes), "-n", args.iterations, "-w", args.warm_ups, "-c", "0", "--transport", transport])
    return json.loads(output)["results"][0]["out_of_place"]["time_us"]


def mpi_us(args, program):
    # Open MPI refuses root and more ranks than cores unless told.
    version = output_of(["mpirun", "--version"])
    options = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version else []
    return float(output_of(["mpirun", *options, "-n", args.ranks, program, str(args.bytes), args.iterations, args.warm_ups]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--bytes", type=parse_bytes, default=parse_bytes("64M"))
    parser.add_argument("--iterations", default="20")
    parser.add_argument("--warm-ups", default="5")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transports", nargs="+", default=["auto"], help="of gradwire; default: the one that it chooses")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/mpi_allreduce"
        output_of(["mpicc", "-O2", "-o", program, pathlib.Path(__file__).with_name("mpi_allreduce.c")])
        ours, theirs = {transport: [] for transport in args.transports}, []
        for _ in range(args.rounds):
            for transport, times in ours.items():
                times.append(gradwire_us(args, transport))
            theirs.append(mpi_us(args, program))
            texts = [f"{transport} {times[-1]:12.2f} us" for transport, times in [*ours.items(), ("MPI", theirs)]]
            print("   ".join(texts), flush=True)
    for transport, times in ours.items():
        ratios = [mine / other for mine, other in zip(times, theirs)]
        print(f"{args.ranks} ranks, {args.bytes} bytes: {transport} {statistics.median(times):.2f} us, MPI {statistics.median(theirs):.2f} us, "
              f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
