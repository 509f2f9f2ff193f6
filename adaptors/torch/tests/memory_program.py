"""What test_memory runs on two ranks: memory_program.py KIND [SPEC [SETTINGS]]; without gradwire if
there is no SPEC. KIND: ddp, replicas (FSDP2 with across=), shards (FSDP2 without).

Prints how many elements the model has, how many bytes are resident after some steps, how many of
them the tensors keep by the ledger, and how many they may keep.
"""

import ctypes
import os
import sys

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import gradwire.torch

_STEPS = 5
_STEPS_OF_AUTO = 60  # in which it tries codecs
_PARTS, _SHAPE = 8, (1024, 2048)


class _Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(_SHAPE))

    def forward(self, x):
        return x + self.weight.sum()


class _Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(_Part() for _ in range(_PARTS))

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


def _ddp(spec):
    """(model, what attach() takes besides)"""
    model = DistributedDataParallel(_Parts(), gradient_as_bucket_view=True)
    if spec is None:
        model.register_comm_hook(None, noop_hook)
    return model, {}


def _sharded(mesh):
    model = _Parts()
    for module in (*model.parts, model):
        fully_shard(module, mesh=mesh)
    return model


def _replicas(spec):
    mesh = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("replicate", "shard"))
    model = _sharded(mesh["shard"])
    for part in model.parts if spec is None else ():
        part.set_all_reduce_hook(lambda gradients: None)
    return model, {"across": mesh["replicate"]}


def _shards(spec):
    del spec
    return _sharded(init_device_mesh("cpu", (dist.get_world_size(),))), {}


_KINDS = {"ddp": _ddp, "replicas": _replicas, "shards": _shards}


def _resident_bytes():
    # What was freed counts for nobody, and how much of it the allocator holds is a matter of chance.
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _main(kind, spec=None, settings=""):
    dist.init_process_group("gloo")
    model, options = _KINDS[kind](spec)
    handle = spec and gradwire.torch.attach(model, spec, settings=settings, **options)
    for _ in range(_STEPS_OF_AUTO if handle and "auto" in spec else _STEPS):
        model.zero_grad()
        model(torch.zeros(())).backward()
    rows = handle.ledger()["tensors"] if handle else []
    elems = sum(parameter.numel() for parameter in model.parameters())
    print(f"elems {elems} resident {_resident_bytes()}",
          *(f"{field} {sum(row[field] for row in rows)}"
            for field in ("residual_bytes", "method_bytes", "held_bytes")), flush=True)
    if handle:
        handle.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    _main(*sys.argv[1:])
