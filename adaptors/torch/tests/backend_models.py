"""Models on the backend, which train as on Gloo. Scenarios of backend_program on two ranks."""

import torch
from torch import distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import fsdp2_models
import models
from backend_sums import GLOO, expect_learns
from gradwire.torch import backend_stats
from models import expect_equal


def ddp_trains_as_on_gloo():
    for module, way in ((None, {}), (None, {"gradient_as_bucket_view": True}),
                        (lambda: models.Branches(dist.get_rank()), {"find_unused_parameters": True})):
        ours, theirs = (models.wrap(module and module(), process_group=group, **way)
                        for group in (None, GLOO["group"]))
        assert models.train(ours, range(5)) == models.train(theirs, range(5)), way
        expect_equal(models.weights(ours), models.weights(theirs))


def uneven_inputs():
    ours, theirs = models.wrap(), models.wrap(process_group=GLOO["group"])
    for model in (ours, theirs):
        with model.join():
            models.train(model, range(3 + 2 * dist.get_rank()))
    expect_equal(models.weights(ours), models.weights(theirs))


def powersgd_hook():
    """Its callbacks wait for further sums."""
    ways = []
    for group in (None, GLOO["group"]):
        model = models.wrap(bucket_cap_mb=25, process_group=group)
        model.register_comm_hook(PowerSGDState(group, start_powerSGD_iter=2), powerSGD_hook)
        ways.append((models.train(model, range(8)), models.weights(model)))
    (losses, weights), (gloos_losses, gloos_weights) = ways
    assert losses == gloos_losses
    expect_equal(weights, gloos_weights)


def attached_on_top():
    model, handle = models.attached("bf16")
    expect_learns(model)
    handle.close()


def fsdp2_trains_as_on_gloo():
    ours = fsdp2_models.network(over=init_device_mesh("cpu", (dist.get_world_size(),)))
    theirs = fsdp2_models.network(over=DeviceMesh.from_group(GLOO["group"], "cpu"))
    losses = [models.train(model, range(8)) for model in (ours, theirs)]
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=1e-4, atol=1e-5)
    assert backend_stats()["operations"] > 0
