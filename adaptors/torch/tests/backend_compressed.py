"""Sums that GRADWIRE_COMPRESS=qsgd(bits=8) compresses, from 64 KiB on. Scenarios of backend_program on
two ranks."""

import torch
from torch import distributed as dist

import models
from backend_sums import Operations, expect_learns, gloo_sum, numbers
from gradwire.torch import backend_stats, sums
from models import expect_equal, expect_equal_on_ranks

_LENGTHS = (1, 7, 1000)
_COMPRESSED = 1 << 18  # elements


def _error(ours, exact):
    return ((ours.float() - exact).norm() / exact.norm()).item()


def compressed_sums():
    for dtype in (torch.float32, torch.bfloat16):
        x = numbers(_COMPRESSED, dtype=dtype)
        exact, before = gloo_sum(x.float()), backend_stats()
        ours = x.clone()
        dist.all_reduce(ours)
        sent = backend_stats()["sent_bytes"] - before["sent_bytes"]
        # Of two ranks each sends half of its own numbers and half of the sum: 8 bits, and scales.
        assert 0.9 < sent / _COMPRESSED < 1.2, sent
        assert 1e-4 < _error(ours, exact) < 0.03, _error(ours, exact)
        expect_equal_on_ranks(ours)
        average = x.clone()
        dist.all_reduce(average, dist.ReduceOp.AVG)
        assert _error(2 * average, exact) < 0.03


def several_compressed_as_one():
    tensors = [numbers(_COMPRESSED // 2, seed=seed) for seed in (1, 2)]
    exact, before = [gloo_sum(tensor) for tensor in tensors], backend_stats()["sent_bytes"]
    with Operations(1), dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    sent = backend_stats()["sent_bytes"] - before
    assert 0.9 < sent / _COMPRESSED < 1.2, sent
    for ours, total in zip(tensors, exact):
        assert 1e-4 < _error(ours, total) < 0.03, _error(ours, total)
        expect_equal_on_ranks(ours)


def rounding_differs_from_call_to_call():
    x = numbers(_COMPRESSED)
    exact, calls = gloo_sum(x), []
    for _ in range(16):
        calls.append(x.clone())
        dist.all_reduce(calls[-1])
    mean = torch.stack(calls).mean(0)
    assert _error(mean, exact) < 0.4 * _error(calls[0], exact)


def small_ones_are_exact():
    for length in _LENGTHS:
        x = numbers(length)
        theirs = gloo_sum(x)
        dist.all_reduce(x)
        expect_equal(x, theirs)
    source, part = numbers(2 * _COMPRESSED), torch.empty(_COMPRESSED)
    dist.reduce_scatter_tensor(part, source)
    expect_equal(part, gloo_sum(source).chunk(2)[dist.get_rank()])


def many_lengths():
    for round_ in range(2):
        for length in range(1 << 14, (1 << 14) + sums._MAX_LENGTHS + 3):
            x = numbers(length, seed=round_)
            exact = gloo_sum(x)
            dist.all_reduce(x)
            assert 0 < _error(x, exact) < 0.03, length


def ddp_trains_compressed():
    model = models.wrap(bucket_cap_mb=25)
    before = backend_stats()["sent_bytes"]
    expect_learns(model)
    sent = backend_stats()["sent_bytes"] - before
    exact = 40 * 4 * models.weights(model).numel()
    assert sent < 0.35 * exact, (sent, exact)
