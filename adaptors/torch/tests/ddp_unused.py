"""Parameters that not all ranks use, or none. Scenarios of ddp_program."""

import itertools

import torch
from torch import distributed as dist

import gradwire.torch
import models
from models import FEEDBACK, attached, expect_equal, expect_equal_on_ranks

WAY = {"find_unused_parameters": True, "bucket_cap_mb": 0.05}


def unused_parameters():
    way = {"find_unused_parameters": True}
    plain, (ours, handle) = models.wrap(models.Branches(), **way), attached("none", models.Branches(), way)
    for model in (plain, ours):
        model.module.chosen = dist.get_rank()  # nobody takes the third branch
        models.train(model, range(4))
    expect_equal(models.weights(plain), models.weights(ours))
    assert ours.module.branches[2].weight.grad is None
    handle.close()


class _Totals:
    """What the optimizer of a models.Sum gets, and what it would get without compression."""

    def __init__(self, model):
        self._parts = model.module.parts
        self._model = model
        self._sent, self._meant = torch.zeros(6, 90, 100), torch.zeros(6, 90, 100)

    def _gradients(self):
        return torch.stack([torch.zeros(90, 100) if part.grad is None else part.grad
                            for part in self._parts])

    def add(self, step, chosen):
        """A backward. chosen(rank): the parts that a rank uses."""
        inputs = models.Sum.inputs(step)
        before = self._gradients()
        self._model(inputs[dist.get_rank()], chosen(dist.get_rank())).backward()
        self._sent += self._gradients() - before
        for rank in range(dist.get_world_size()):
            for part in chosen(rank):
                self._meant[part] += inputs[rank, part] / dist.get_world_size()

    def expect_equal(self):
        difference = (self._sent - self._meant).abs().amax((1, 2))
        assert difference.max() < 1e-4, difference


def _zero(model, gradients):
    """Before a step: "none", "zeros" or "kept"."""
    if gradients != "kept":
        model.zero_grad(set_to_none=gradients == "none")


def _chosen(rank, step):
    """Parts that a rank uses: for three steps nobody uses 2, and each of 3 and 4 only one rank."""
    if step not in (2, 3, 4):
        return range(6)
    return (0, 1, 3 + rank, 5)


def unused_parameters_keep_their_residual():
    """What their optimizer gets is what it would have got without compression."""
    for spec in ("topk(0.05)", FEEDBACK):
        model, handle = attached(spec, models.Sum(), WAY)
        totals = _Totals(model)
        for step in range(8):
            if step == 7:
                handle.detach()
            model.zero_grad()
            totals.add(step, lambda rank, s=step: _chosen(rank, s))
            for part, weight in enumerate(model.module.parts):
                assert (weight.grad is None) == (step in (2, 3, 4) and part == 2), (step, part)
        assert not handle.attached
        totals.expect_equal()


def unused_parameters_with_gradients_in_buckets():
    """There the averages come to lie, with what was kept back of earlier ones."""
    for gradients in ("zeros", "kept"):
        model, handle = attached("topk(0.05)", models.Sum(), {**WAY, "gradient_as_bucket_view": True})
        totals = _Totals(model)
        for step in range(8):
            if step == 7:
                handle.detach()
            _zero(model, gradients)
            totals.add(step, lambda rank, s=step: _chosen(rank, s))
        assert not handle.attached
        totals.expect_equal()


def unused_parameters_in_the_step_of_detach():
    """Their optimizer gets what was kept back, also beside a gradient that is there. A step of
    torch's own group follows."""
    for settings, has_views, gradients in itertools.product(
            ("", "transaction=off"), (False, True), ("none", "zeros", "kept")):
        module = models.Sum()
        module.parts[2] = torch.nn.Parameter(torch.zeros(100, 90).t())
        way = {**WAY, "gradient_as_bucket_view": has_views}
        model, handle = attached("topk(0.05)", module, way, settings=settings)
        totals = _Totals(model)
        for step in range(5):
            if step == 3:
                handle.detach()
            _zero(model, gradients)
            totals.add(step, lambda rank, s=step: range(5) if s < 3 else (0, 1, 3 + rank % 2))
            assert handle.attached == (step < 3)
        totals.expect_equal()
        assert model.module.parts[5].grad is None, "nobody has ever used it"


def residuals_that_are_loaded_under_an_exact_spec():
    """Those of a parameter that nobody uses in the next step wait for one that does."""
    model, handle = attached(FEEDBACK, models.Sum(), WAY)
    totals = _Totals(model)
    for step in range(2):
        model.zero_grad()
        totals.add(step, lambda rank: range(6))
    state = handle.state_dict()
    handle.close()
    handle = gradwire.torch.attach(model, "none")
    handle.load_state_dict(state)
    for step, chosen in ((2, (0, 1, 3, 4, 5)), (3, range(6))):
        model.zero_grad()
        totals.add(step, lambda rank, c=chosen: c)
    totals.expect_equal()
    handle.close()


def frozen_when_detached():
    """What was kept back of it moves nothing."""
    model, handle = attached("topk(0.05)", models.Sum(), WAY)
    for step in range(2):
        model.zero_grad()
        model(models.Sum.inputs(step)[dist.get_rank()]).backward()
        if step == 0:
            model.module.parts[4].requires_grad_(False)
            handle.detach()
    assert not handle.attached
    assert [part.grad is None for part in model.module.parts] == [i == 4 for i in range(6)]


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
