"""Runs a program on some ranks, each a process with a time-out of its own."""

import atexit
import functools
import json
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


class Ended(NamedTuple):
    """How a rank ended, and what it printed."""

    code: int
    output: str


def environment(**variables):
    """One thread each: the ranks share few cores."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **variables}


def _end(launcher):
    """And the ranks that it runs, where an interrupt came amid a request."""
    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.communicate()


@functools.cache
def _launcher():
    """It ends where its requests do."""
    command = [sys.executable, "-X", "faulthandler", os.path.join(_FOLDER, "launcher.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=environment(), start_new_session=True)
    atexit.register(_end, process)
    return process


def ranks(program, *args, count=RANKS, afresh=False, **variables):
    """What torchrun does, but it ends nobody when a rank fails: [Ended] by rank.

    With `afresh` a rank's Python begins anew, as a user's; else it is forked behind its imports.
    """
    port = str(free_port.find())
    environments = [
        environment(RANK=str(rank), WORLD_SIZE=str(count), LOCAL_RANK=str(rank),
                    LOCAL_WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                    **variables) for rank in range(count)
    ]
    request = {"program": os.path.join(_FOLDER, program), "args": args, "afresh": afresh,
               "environments": environments}
    launcher = _launcher()
    print(json.dumps(request), file=launcher.stdin, flush=True)
    answer = launcher.stdout.readline()
    if not answer:
        _launcher.cache_clear()
        raise RuntimeError("the launcher of ranks has ended")
    return [Ended(*rank) for rank in json.loads(answer)]
