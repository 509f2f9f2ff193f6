"""What test_memory runs on two ranks: memory_program.py noop_hook, or SPEC [SETTINGS].

Prints how many elements the model has, how many bytes are resident after some steps, and how many
of them the tensors keep by the ledger.
"""

import ctypes
import os
import sys

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.nn.parallel import DistributedDataParallel

import gradwire.torch

_STEPS = 5
_PARTS, _SHAPE = 8, (1024, 2048)


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.zeros(_SHAPE))
                                      for _ in range(_PARTS))

    def forward(self):
        return sum(part.sum() for part in self.parts)


def _resident_bytes():
    # What was freed counts for nobody, and how much of it the allocator holds is a matter of chance.
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _main(spec, settings=""):
    dist.init_process_group("gloo")
    model = DistributedDataParallel(Parts(), gradient_as_bucket_view=True)
    handle = None
    if spec == "noop_hook":
        model.register_comm_hook(None, noop_hook)
    else:
        handle = gradwire.torch.attach(model, spec, settings=settings)
    for _ in range(_STEPS):
        model.zero_grad()
        model().backward()
    held = sum(row["held_bytes"] for row in handle.ledger()["tensors"]) if handle else 0
    elems = sum(part.numel() for part in model.parameters())
    print(f"elems {elems} resident {_resident_bytes()} held {held}", flush=True)
    if handle:
        handle.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    _main(*sys.argv[1:])
