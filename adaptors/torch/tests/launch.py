"""Runs a program on some ranks, each a process with a time-out of its own."""

import os
import signal
import subprocess
import sys
from typing import NamedTuple

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# That folder alone: others may have a package `tests` too.
sys.path.append(os.path.abspath(os.path.join(_FOLDER, "../../../tests/lib")))

# pylint: disable=wrong-import-position
import free_port

RANKS = 2
LIMIT_S = 300
_STACKS_S = 20  # to print them, on cores that others use


class Ended(NamedTuple):
    """How a rank ended, and what it printed."""

    code: int
    output: str


def environment(**variables):
    """One thread each: the ranks share few cores."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **variables}


def _end_late(process):
    """What it printed, and by its faulthandler where it is."""
    process.send_signal(signal.SIGABRT)
    try:
        output, _ = process.communicate(timeout=_STACKS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    return f"{output}\nended after {LIMIT_S} s"


def ranks(program, *args, count=RANKS, **variables):
    """What torchrun does, but it ends nobody when a rank fails: [Ended] by rank."""
    port = str(free_port.find())
    command = [sys.executable, "-X", "faulthandler", os.path.join(_FOLDER, program), *args]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         env=environment(RANK=str(rank), WORLD_SIZE=str(count),
                                         LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(count),
                                         MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **variables))
        for rank in range(count)
    ]
    ended = []
    for process in processes:
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            output = _end_late(process)
        ended.append(Ended(process.returncode, output))
    return ended
