"""Several roots of FSDP's in one backward. Scenarios of fsdp2_program."""

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import fsdp2_models
import gradwire.torch
import models
from fsdp2_models import across, mesh
from models import FEEDBACK, expect_raises


def _ways():
    """(mesh of the shards, that of torch's own, across=): with replicas and without"""
    everybody = init_device_mesh("cpu", (dist.get_world_size(),))
    return (mesh()["shard"], mesh(), across()), (everybody, everybody, None)


def two_models_of_which_one_fails():
    """The other one, whose step is given up, goes on as well: FSDP has come to its own end of both."""
    for over, native_mesh, replicas in _ways():
        one, two = (fsdp2_models.network(over=over) for _ in range(2))
        is_first = dist.get_rank(replicas.get_group() if replicas else None) == 0
        handles = [gradwire.torch.attach(model, spec, across=replicas, min_numel=64, name=name)
                   for model, spec, name in ((one, FEEDBACK, "one"),
                                             (two, "bf16" if is_first else "qsgd(bits=8)", "two"))]

        def losses(step, one=one, two=two):
            return models.loss_of(one, step) + models.loss_of(two, step)  # the last comes first

        expect_raises((gradwire.Aborted, gradwire.Mismatch), "", losses(0).backward)
        assert (handles[0].stats()["commits"], handles[0].stats()["aborts"]) == (0, 1)
        native = fsdp2_models.network(over=native_mesh)
        models.loss_of(native, 1).backward()
        for model, handle in zip((one, two), handles):
            assert fsdp2_models.gradients(model).isnan().all()
            model.zero_grad()
            handle.set_spec("none")
        losses(1).backward()
        for model, handle in zip((one, two), handles):
            fsdp2_models.expect_close_gradients(model, native)
            handle.close()


class _Coder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder, self.decoder = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        return self.decoder(self.encoder(x).relu())


def _coder(over):
    module = _Coder()
    for part in (module.encoder, module.decoder, module):
        fully_shard(part, mesh=over)
    return module


def parts_that_are_called_by_themselves():
    """Each is a root of its own: a backward is one step all the same, and after detach() the last."""
    for over, native_mesh, replicas in _ways():
        for spec in ("none", FEEDBACK):
            native, ours = _coder(native_mesh), _coder(over)
            handle = gradwire.torch.attach(ours, spec, across=replicas, min_numel=0)
            for step in range(2):
                if step == 1:
                    assert handle.stats()["steps"] == handle.stats()["commits"] == 1
                    handle.detach()
                inputs, _ = models.batch(step)
                for model in (native, ours):
                    model.zero_grad()
                    model.decoder(model.encoder(inputs).relu()).square().sum().backward()
                if spec == "none":
                    fsdp2_models.expect_close_gradients(ours, native)
            assert not handle.attached
