"""What the scenarios of backend_program have in common: Gloo's sums, which ours are compared with."""

import torch
from torch import distributed as dist

import models
from gradwire.torch import backend_stats
from models import expect_equal, expect_equal_on_ranks

GLOO = {}  # "group": the reference, of the same ranks


def numbers(*shape, dtype=torch.float32, seed=0):
    """Others on each rank."""
    generator = torch.Generator().manual_seed(100 * seed + dist.get_rank())
    return torch.randn(*shape, generator=generator).to(dtype)


def gloo_sum(tensor):
    total = tensor.clone().contiguous()
    dist.all_reduce(total, group=GLOO["group"])
    return total


def expect_sum(ours, theirs):
    """Two ranks leave no choice of order; others round differently."""
    if dist.get_world_size() == 2:
        expect_equal(ours, theirs)
    else:
        few_roundings = 4 * torch.finfo(ours.dtype).eps
        torch.testing.assert_close(ours, theirs, rtol=few_roundings, atol=few_roundings)


class Operations:
    """Expects that gradwire did so many of the operations in a `with` block."""

    def __init__(self, count):
        self._count = count

    def __enter__(self):
        self._before = backend_stats()["operations"]

    def __exit__(self, kind, error, trace):
        if kind is None:
            done = backend_stats()["operations"] - self._before
            assert done == self._count, f"{done} operations, not {self._count}"


def expect_learns(model):
    losses = models.train(model, range(40))
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5]), losses
    expect_equal_on_ranks(models.weights(model))
