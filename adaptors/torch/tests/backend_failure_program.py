"""How groups of the backend gradwire end: backend_failure_program.py SCENARIO, on two ranks."""

import datetime
import faulthandler
import os
import signal
import sys
import time

import torch
from torch import distributed as dist

import gradwire.torch
import models
from launch import LIMIT_S


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _tell(kind, call):
    """The words of the error that `call` ends in."""
    try:
        call()
    except kind as error:
        print(f"told {type(error).__name__}: {error}", flush=True)


def killed():
    model = models.wrap()
    models.train(model, range(3))
    if dist.get_rank() == 1:
        _die()
    work = dist.all_reduce(torch.ones(1000), async_op=True)
    # DistributedDataParallel waits in C++, which knows no exceptions of ours.
    _tell(RuntimeError, lambda: models.train(model, range(3)))
    _tell(gradwire.PeerLost, work.wait)
    dist.destroy_process_group()
    print("destroyed", flush=True)
    os._exit(0)  # torch 2.11's own group may wait for the dead


def exit_without_destroy():
    x = torch.ones(1000)
    dist.all_reduce(x)
    print(f"sum {x[0].item()}", flush=True)


def counters_beside_work_under_way():
    """The other rank comes when they were asked for."""
    first = dist.get_rank() == 0
    work = dist.all_reduce(torch.ones(1000), async_op=True) if first else None
    if first:
        _tell(gradwire.TimedOut, lambda: gradwire.torch.backend_stats(timeout=0.1))
    dist.barrier()
    work = work or dist.all_reduce(torch.ones(1000), async_op=True)
    work.wait()
    print(f"then {gradwire.torch.backend_stats()['operations']} operation", flush=True)
    dist.destroy_process_group()


def late_for_a_group():
    """The group's own timeout bounds its start, whatever init_timeout_ms is."""
    if dist.get_rank() == 1:
        time.sleep(1)
    dist.new_group()
    if dist.get_rank() == 0:
        limit = datetime.timedelta(milliseconds=200)
        _tell(gradwire.TimedOut, lambda: dist.new_group(timeout=limit))
    dist.barrier()
    print("passed", flush=True)
    dist.destroy_process_group()


def destroy_with_work_under_way():
    """Which the other rank has no part in."""
    work = dist.all_reduce(torch.ones(1000), async_op=True) if dist.get_rank() == 0 else None
    dist.destroy_process_group()
    if work:
        _tell(gradwire.GradwireError, work.wait)
    print("destroyed", flush=True)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(LIMIT_S - 10, exit=True)
    dist.init_process_group("gradwire")
    globals()[sys.argv[1]]()
