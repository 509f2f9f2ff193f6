"""Parameters that not all ranks use, or none. Scenarios of ddp_program."""

import torch
from torch import distributed as dist

import gradwire.torch
import models
from models import FEEDBACK, attached, expect_equal, expect_equal_on_ranks


def unused_parameters():
    way = {"find_unused_parameters": True}
    plain, (ours, handle) = models.wrap(models.Branches(), **way), attached("none", models.Branches(), way)
    for model in (plain, ours):
        model.module.chosen = dist.get_rank()  # nobody takes the third branch
        models.train(model, range(4))
    expect_equal(models.weights(plain), models.weights(ours))
    assert ours.module.branches[2].weight.grad is None
    handle.close()


def _chosen(rank, step):
    """Parts that a rank uses: for three steps nobody uses 2, and each of 3 and 4 only one rank."""
    if step not in (2, 3, 4):
        return range(6)
    return (0, 1, 3 + rank, 5)


def unused_parameters_keep_their_residual():
    """What their optimizer gets is what it would have got without compression."""
    way = {"find_unused_parameters": True, "bucket_cap_mb": 0.05}
    for spec in ("topk(0.05)", FEEDBACK):
        model, handle = attached(spec, models.Sum(), way)
        steps, sent, meant = 8, torch.zeros(6, 90, 100), torch.zeros(6, 90, 100)
        for step in range(steps):
            inputs = models.Sum.inputs(step)
            if step == steps - 1:
                handle.detach()
            model.zero_grad()
            model(inputs[dist.get_rank()], _chosen(dist.get_rank(), step)).backward()
            for part, weight in enumerate(model.module.parts):
                assert (weight.grad is None) == (step in (2, 3, 4) and part == 2), (step, part)
                sent[part] += 0 if weight.grad is None else weight.grad
            for rank in range(dist.get_world_size()):
                for part in _chosen(rank, step):
                    meant[part] += inputs[rank, part] / dist.get_world_size()
        assert not handle.attached
        difference = (sent - meant).abs().max().item()
        assert difference < 1e-4, (spec, difference)


def unused_parameters_and_uneven_inputs():
    """Ranks without inputs use nothing, and their answer counts as such."""
    way = {"find_unused_parameters": True}
    model, handle = attached(FEEDBACK, models.Branches(), way)
    model.module.chosen = dist.get_rank()
    with model.join():
        models.train(model, range(3 + 2 * dist.get_rank()))
    expect_equal_on_ranks(models.weights(model))
    assert handle.stats()["commits"] == 5
    handle.close()


def frozen_after_wrapping():
    way = {"find_unused_parameters": True}
    plain, ours = models.wrap(**way), models.wrap(**way)
    for model in (plain, ours):
        model.module[0].weight.requires_grad_(False)
    handle = gradwire.torch.attach(ours, "none")
    for model in (plain, ours):
        models.train(model, range(3))
    expect_equal(models.weights(plain), models.weights(ours))
    handle.close()
