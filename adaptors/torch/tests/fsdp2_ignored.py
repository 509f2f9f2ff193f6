"""Parameters that fully_shard() was told to ignore. Scenarios of fsdp2_program."""

import warnings

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import fsdp2_models
import gradwire.torch
import models
from fsdp2_models import across, attached, mesh
from models import expect_equal


def ignored_parameters_are_told():
    for trains in (True, False):
        module = models.network()
        module[0].bias.requires_grad_(trains)
        model = fsdp2_models.shard(module, ignored_params={module[0].bias})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            _, handle = attached("none", model)
        of_it = [str(one.message) for one in told if "0.bias: parameters" in str(one.message)]
        assert len(of_it) == trains, told
        handle.close()


class _Beside(nn.Module):
    """A layer, and first among the parameters one that somebody else has distributed."""

    def __init__(self, other):
        super().__init__()
        self.other, self.layer = nn.Parameter(other, requires_grad=False), nn.Linear(64, 8)

    def forward(self, x):
        return self.layer(x)


def _beside(other, over):
    module = _Beside(other)
    return fully_shard(module, mesh=over, ignored_params={module.other})


def the_mesh_of_an_ignored_parameter_counts_for_nothing():
    """With replicas and without."""
    everybody, shards = init_device_mesh("cpu", (dist.get_world_size(),)), mesh()["shard"]
    for over, other, replicas in ((shards, everybody, across()), (everybody, shards, None)):
        model = _beside(distribute_tensor(torch.ones(8), other, [Replicate()]), over)
        handle = gradwire.torch.attach(model, "none", across=replicas)
        models.train(model, range(1))
        assert handle.stats()["commits"] == 1
        assert replicas is None or handle._shards._comm.world_size == shards.size()
        handle.close()


def what_others_distribute_over_replicas_stays_theirs():
    """attach() makes equal what replicas have alike. These have other rows, and not as many each."""
    for count in (4, 5):
        rows = torch.arange(float(count))
        model = _beside(distribute_tensor(rows, across(), [Shard(0)]), mesh()["shard"])
        handle = gradwire.torch.attach(model, "none", across=across())
        expect_equal(model.other.full_tensor(), rows)
        handle.close()
