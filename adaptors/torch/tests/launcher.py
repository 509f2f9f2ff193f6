"""Runs programs on some ranks, each a process with a time-out. It has imported torch, and forks them:
importing would take each rank seconds.

Reads requests, one a line: {"program": path, "args": [...], "afresh": whether Python begins anew,
"environments": [of each rank]}. Answers each by a line: [[exit code, output] of each rank].
"""

import atexit
import gc
import json
import os
import selectors
import signal
import sys
import time
import types

# pylint: disable=unused-import
import numpy
import torch._dynamo  # DistributedDataParallel imports it
import torch.distributed.fsdp
from torch import distributed as dist

from launch import LIMIT_S

_STACKS_S = 20  # to print them, on cores that others use


def _become_rank(request, environment, output):
    """What differs from a process that was started for it."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    command = [request["program"], *request["args"]]
    if request["afresh"]:
        os.execve(sys.executable, [sys.executable, "-X", "faulthandler", *command], environment)
    os.environ.clear()
    os.environ.update(environment)
    dist.set_debug_level_from_env()  # as importing does
    sys.argv = command
    atexit.register(gc.unfreeze)  # Python ends as it would


def _fork(request):
    """({end of the pipe: process}, whether this is a rank)"""
    processes = {}
    for environment in request["environments"]:
        output, written = os.pipe()
        process = os.fork()
        if process == 0:
            for other in (output, *processes):
                os.close(other)
            _become_rank(request, environment, written)
            return {}, True
        os.close(written)
        processes[output] = process
    return processes, False


def _read(pipes, outputs, limit_s):
    """What comes from `pipes` until each is closed, or it is late. Returns those that are open."""
    begin = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and (left_s := begin + limit_s - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                part = os.read(key.fd, 1 << 16)
                outputs[key.fd] += part
                if not part:
                    selector.unregister(key.fd)
        return [key.fd for key in selector.get_map().values()]


def _end(processes, late, outputs):
    """Those that are late print their stacks, where their faulthandler is."""
    for sign in (signal.SIGABRT, signal.SIGKILL):
        for pipe in late:
            os.kill(processes[pipe], sign)
        late = _read(late, outputs, _STACKS_S)


def _wait(processes):
    """[[exit code, output] of each rank]"""
    outputs = dict.fromkeys(processes, b"")
    late = _read(processes, outputs, LIMIT_S)
    _end(processes, late, outputs)
    for pipe in late:
        outputs[pipe] += f"\nended after {LIMIT_S} s".encode()
    ended = []
    for pipe, process in processes.items():
        os.close(pipe)
        _, status = os.waitpid(process, 0)
        ended.append([os.waitstatus_to_exitcode(status), outputs[pipe].decode(errors="replace")])
    return ended


def _serve(answers):
    """Until the requests end; in a rank it returns its program."""
    for line in sys.stdin:
        request = json.loads(line)
        processes, is_rank = _fork(request)
        if is_rank:
            return request["program"]
        print(json.dumps(_wait(processes)), file=answers, flush=True)
    return None


def _run(program):
    """As the main module, which is there until Python ends."""
    main = types.ModuleType("__main__")
    main.__file__ = program
    sys.modules["__main__"] = main
    with open(program, encoding="utf-8") as text:
        code = compile(text.read(), program, "exec")
    exec(code, vars(main))  # pylint: disable=exec-used


def _main():
    # Of one thread a fork has all; and the library reads the environment of a rank.
    assert len(os.listdir("/proc/self/task")) == 1 and "gradwire" not in sys.modules
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # nothing else is an answer
        gc.freeze()  # ranks need not look through what was imported
        program = _serve(answers)
    if program:
        _run(program)


_main()
