"""The small model of models.py, sharded by FSDP2 in a mesh of two replicas."""

import functools

import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

import gradwire.torch
import models

REPLICAS = 2


@functools.cache
def mesh():
    """Replicas x shards."""
    shape = (REPLICAS, dist.get_world_size() // REPLICAS)
    return init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))


def across():
    return mesh()["replicate"]


def shard(module, over=None, **options):
    """Its linear layers each, then what is left; `over` another mesh than that of the shards."""
    options["mesh"] = over or mesh()["shard"]
    for part in module:
        if isinstance(part, torch.nn.Linear) and part is not module[-1]:
            fully_shard(part, **options)
    return fully_shard(module, **options)


def network(**options):
    return shard(models.network(), **options)


def hsdp(**options):
    """What torch has of the kind."""
    return network(over=mesh(), **options)


class _Optional(torch.nn.Module):
    """Uses its second layer if it is told to."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
        self.uses_second = True

    def forward(self, x):
        x = self.first(x)
        return (self.second(x) if self.uses_second else x)[:, :8].clone()


def optional():
    module = _Optional()
    for part in (module.first, module.second, module):
        fully_shard(part, mesh=mesh()["shard"])
    return module


class Twice(torch.nn.Module):
    """Runs a layer two times."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.layer = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.layer(self.layer(self.first(x)).relu())


def attached(spec, module=None, **options):
    """(model, handle)"""
    module = network() if module is None else module
    options.setdefault("min_numel", 64)
    return module, gradwire.torch.attach(module, spec, across=across(), **options)


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def weights(model):
    """Those of this rank's shard."""
    return torch.cat([local(p.detach()).flatten().float() for p in model.parameters()])


def gradients(model):
    return torch.cat([local(p.grad).flatten() for p in model.parameters()])


def expect_close_gradients(one, other, tolerance=1e-6):
    ours, theirs = gradients(one), gradients(other)
    error = (ours - theirs).norm() / theirs.norm()
    assert error < tolerance, error


def expect_equal_replicas(model, replicas=None):
    """replicas: their mesh, if it is not across()."""
    mine, group = weights(model), (replicas or across()).get_group()
    first = mine.clone()
    dist.broadcast(first, dist.get_global_rank(group, 0), group)
    models.expect_equal(mine, first)


def backward(model, steps):
    for step in steps:
        models.loss_of(model, step).backward()


def sharded_modules(model):
    return [module for module in model.modules() if isinstance(module, FSDPModule)]
