"""What test_backend runs with the backend gradwire: backend_program.py SCENARIO...

Prints "passed SCENARIO" for each; a rank that fails ends the program.
"""

import os
from unittest import mock

import torch
from torch import distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

import fsdp2_models
import gradwire.torch
import models
import scenarios
from gradwire.torch import backend_stats, sums
from models import expect_equal, expect_equal_on_ranks, expect_raises

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
LENGTHS = (1, 7, 1000, 300_001)
GLOO = {}  # "group": the reference, of the same ranks


def _numbers(*shape, dtype=torch.float32, seed=0):
    """Others on each rank."""
    generator = torch.Generator().manual_seed(100 * seed + dist.get_rank())
    return torch.randn(*shape, generator=generator).to(dtype)


def _gloo_sum(tensor):
    total = tensor.clone().contiguous()
    dist.all_reduce(total, group=GLOO["group"])
    return total


def _expect_sum(ours, theirs):
    """Two ranks leave no choice of order; others round differently."""
    if dist.get_world_size() == 2:
        expect_equal(ours, theirs)
    else:
        few_roundings = 4 * torch.finfo(ours.dtype).eps
        torch.testing.assert_close(ours, theirs, rtol=few_roundings, atol=few_roundings)


class _Operations:
    """Expects that gradwire did so many of the operations in a `with` block."""

    def __init__(self, count):
        self._count = count

    def __enter__(self):
        self._before = backend_stats()["operations"]

    def __exit__(self, kind, error, trace):
        if kind is None:
            done = backend_stats()["operations"] - self._before
            assert done == self._count, f"{done} operations, not {self._count}"


# ---- exact ----

def sums_equal_gloos():
    with _Operations(2 * len(FLOATS) * len(LENGTHS)):
        for dtype in FLOATS:
            for length in LENGTHS:
                ours = _numbers(length, dtype=dtype)
                theirs, average = _gloo_sum(ours), ours.clone()
                dist.all_reduce(ours)
                _expect_sum(ours, theirs)
                expect_equal_on_ranks(ours)
                dist.all_reduce(average, dist.ReduceOp.AVG)
                _expect_sum(average, (theirs.float() / dist.get_world_size()).to(dtype))


def any_layout():
    for view in (torch.t, lambda matrix: matrix[:, ::2], lambda matrix: matrix[3, 4]):
        matrix = _numbers(60, 70)
        ours, theirs = view(matrix), _gloo_sum(view(matrix))
        dist.all_reduce(ours)
        _expect_sum(ours, theirs)
    matrix = _numbers(60, 70)
    beside = matrix[:, 1::2].clone()
    dist.all_reduce(matrix[:, ::2])
    expect_equal(matrix[:, 1::2], beside)


def tensors_of_inference_mode():
    """Which can be written in that mode only; parameters can be written in it, too."""
    matrix = _numbers(60, 70)
    parameter = torch.nn.Parameter(matrix.clone())
    expected = _gloo_sum(matrix)
    with torch.inference_mode():
        ours, parts = matrix.clone(), [matrix[:30].clone(), matrix[30:].clone()]
        dist.all_reduce(ours.t())
        with dist._coalescing_manager():
            for part in parts:
                dist.all_reduce(part)
        part = torch.empty(70, 60 // dist.get_world_size()).t()
        dist.reduce_scatter_tensor(part, matrix)
        dist.all_reduce(parameter.t())
    with torch.no_grad():
        parameter.add_(0)
    for one in (ours, torch.cat(parts), parameter.detach()):
        _expect_sum(one, expected)
    _expect_sum(part, expected.chunk(dist.get_world_size())[dist.get_rank()])


def several_as_one():
    tensors = [_numbers(length, seed=length) for length in LENGTHS]
    expected = [_gloo_sum(tensor) for tensor in tensors]
    with _Operations(1), dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for ours, theirs in zip(tensors, expected):
        _expect_sum(ours, theirs)


def reduce_scatter():
    size, rank = dist.get_world_size(), dist.get_rank()
    for dtype in FLOATS:
        source = _numbers(size * 1001, dtype=dtype)
        theirs = _gloo_sum(source).chunk(size)[rank]
        mean = (theirs.float() / size).to(dtype)
        for operation, expected in ((dist.ReduceOp.SUM, theirs), (dist.ReduceOp.AVG, mean)):
            with _Operations(1):
                ours = torch.empty(1001, dtype=dtype)
                dist.reduce_scatter_tensor(ours, source, operation)
            _expect_sum(ours, expected)
    matrix, part = _numbers(size * 4, 6), torch.empty(6, 4).t()
    dist.reduce_scatter_tensor(part, matrix)
    _expect_sum(part, _gloo_sum(matrix).chunk(size)[rank])


def work_under_way():
    tensors = [_numbers(1000, seed=seed) for seed in range(8)]
    expected = [_gloo_sum(tensor) for tensor in tensors]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    doubled = works[0].get_future().then(lambda future: 2 * future.value()[0])
    for work in reversed(works):
        work.wait()
    for ours, theirs in zip(tensors, expected):
        _expect_sum(ours, theirs)
    expect_equal(doubled.wait(), 2 * tensors[0])


def _answers(group):
    """What a group makes of everything that is Gloo's."""
    size, rank = dist.get_world_size(), dist.get_rank()
    x, answers = _numbers(size * 3), []
    for tensor, operation in ((torch.arange(5) + rank, dist.ReduceOp.SUM),
                              (_numbers(5), dist.ReduceOp.MAX),
                              (_numbers(5).double(), dist.ReduceOp.SUM)):
        dist.all_reduce(tensor, operation, group=group)
        answers.append(tensor)
    root = x.clone()
    dist.broadcast(root, 1, group=group)
    total = x.clone()
    dist.reduce(total, 0, group=group)
    gathered = [torch.empty_like(x) for _ in range(size)]
    dist.all_gather(gathered, x, group=group)
    together = torch.empty(size * x.numel())
    dist.all_gather_into_tensor(together, x, group=group)
    at_root = [torch.empty_like(x) for _ in range(size)]
    dist.gather(x, at_root if rank == 0 else None, 0, group=group)
    part = torch.empty(3)
    dist.scatter(part, list(x.chunk(size)) if rank == 0 else None, 0, group=group)
    turned = torch.empty_like(x)
    dist.all_to_all_single(turned, x, group=group)
    reduced = torch.empty(3)
    dist.reduce_scatter(reduced, [part.clone() for part in x.chunk(size)], group=group)
    answers += [reduced, root, *gathered, together, part, turned]
    return answers + ([total, *at_root] if rank == 0 else [])


def _point_to_point(group):
    size, rank = dist.get_world_size(), dist.get_rank()
    to, source = (rank + 1) % size, (rank - 1) % size
    x, one, other = _numbers(100), torch.empty(100), torch.empty(100)
    sent = dist.isend(x, to, group=group)
    dist.recv(one, source, group=group)
    sent.wait()
    pairs = [dist.P2POp(dist.isend, one, to, group), dist.P2POp(dist.irecv, other, source, group)]
    for work in dist.batch_isend_irecv(pairs):
        work.wait()
    return [one, other]


def _objects(group):
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    everyone = [None] * size
    dist.all_gather_object(everyone, {"rank": rank}, group=group)
    assert everyone == [{"rank": other} for other in range(size)], everyone
    words = [f"of {rank}"]
    dist.broadcast_object_list(words, dist.get_global_rank(group, 0), group=group)
    assert words == ["of 0"], words


def gloo_answers_the_rest():
    with _Operations(0):
        for ours, theirs in zip(_answers(None), _answers(GLOO["group"]), strict=True):
            expect_equal(ours, theirs)
        for ours, theirs in zip(_point_to_point(None), _point_to_point(GLOO["group"])):
            expect_equal(ours, theirs)
        _objects(dist.group.WORLD)
        dist.barrier()
        sparse = torch.eye(4).to_sparse()
        dist.all_reduce(sparse)
        expect_equal(sparse.to_dense(), dist.get_world_size() * torch.eye(4))


def dropped_tensors():
    """Gloo's threads hold them last, and need Python's lock to free them."""
    for _ in range(1000):
        tensor = torch.ones(5)
        work = dist.broadcast(tensor, 0, async_op=True)
        del tensor, work
    dist.barrier()
    ranks = torch.full((3,), float(dist.get_rank()))
    dist.broadcast(ranks, 1)
    expect_equal(ranks, torch.ones(3))


def empty_tensors():
    empty, one = torch.empty(0), torch.ones(1)
    for operation in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        dist.all_reduce(empty, operation)
    with dist._coalescing_manager():
        dist.all_reduce(empty)
        dist.all_reduce(one)
    assert one.item() == dist.get_world_size()
    dist.reduce_scatter_tensor(torch.empty(0), torch.empty(0))


def a_setting_of_one_rank():
    """An error of one rank at the start is told to all."""
    failing = dist.get_world_size() - 1
    if dist.get_rank() == failing:
        with mock.patch.dict(os.environ, GRADWIRE_MIN_BYTES="1MB"):
            expect_raises(ValueError, "takes a number of bytes", dist.new_group)
    else:
        expect_raises(RuntimeError, f"rank {failing} could not take part: GRADWIRE_MIN_BYTES",
                      dist.new_group)
    x, group = torch.ones(1), dist.new_group()
    dist.all_reduce(x, group=group)
    assert x.item() == dist.get_world_size()
    dist.destroy_process_group(group)


def subgroups():
    """Two that overlap; the last rank is in both."""
    last, rank = dist.get_world_size() - 1, dist.get_rank()
    groups = [(dist.new_group([first, last]), first) for first in range(last)]
    for group, first in groups:
        if rank in (first, last):
            x = torch.full((1000,), float(rank + 1))
            dist.all_reduce(x, group=group)
            expect_equal(x, torch.full((1000,), float(first + last + 2)))
            _objects(group)
            dist.barrier(group)
            assert backend_stats(group)["operations"] == 1
    for group, first in groups:
        if rank in (first, last):
            dist.destroy_process_group(group)
            expect_raises(gradwire.InvalidUsage, "the process group was destroyed",
                          lambda: group.allreduce([x]))
    expect_raises(TypeError, "gloo, not gradwire", lambda: backend_stats(GLOO["group"]))


def tensors_of_a_mesh():
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    x = _numbers(4 * size, 6)
    total = _gloo_sum(x)
    with _Operations(1):
        partial = torch.distributed.tensor.DTensor.from_local(x, mesh, [Partial()])
        _expect_sum(partial.redistribute(placements=[Replicate()]).to_local(), total)
    shard = partial.redistribute(placements=[Shard(0)])
    _expect_sum(shard.full_tensor(), total)
    expect_equal(distribute_tensor(total, mesh, [Shard(1)]).full_tensor(), total)
    _expect_sum(functional.all_reduce(x, "sum", mesh) + 0, total)


def other_devices_are_refused():
    group = dist.group.WORLD
    is_whole_group = hasattr(group, "describe")  # before torch 2.15
    made = group if is_whole_group else group._get_backend(torch.device("cpu"))
    advice = "as new_group(backend='nccl')" if is_whole_group else "'cpu:gradwire,cuda:nccl'"
    error = expect_raises(RuntimeError, "is on meta: ",
                          lambda: made.allreduce([torch.empty(3, device="meta")]))
    assert advice in str(error), error


def beside_a_backend_of_another_device():
    """As the page says of each version of torch; Gloo stands for NCCL, which wants a GPU."""
    group, gpu = dist.new_group(backend="cpu:gradwire,cuda:gloo"), torch.device("cuda")
    if hasattr(group, "describe"):
        expect_raises(RuntimeError, "No backend", lambda: group._get_backend(gpu))
    else:
        assert isinstance(group._get_backend(gpu), dist.ProcessGroupGloo)
    x = torch.ones(3)
    dist.all_reduce(x, group=group)
    expect_equal(x, torch.full([3], float(dist.get_world_size())))
    dist.destroy_process_group(group)


# ---- models ----

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


def _expect_learns(model):
    losses = models.train(model, range(40))
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5]), losses
    expect_equal_on_ranks(models.weights(model))


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


def callbacks_wait_for_sums():
    """Of this group and of another one, in callbacks of callbacks."""
    size, other = dist.get_world_size(), dist.new_group()

    def sum_again(future, group):
        return dist.all_reduce(future.value()[0], group=group, async_op=True).get_future().wait()

    def sum_and_wait(future):
        total = future.value()[0]
        dist.all_reduce(total, group=other)
        return [total]

    future = dist.all_reduce(torch.ones(1000), async_op=True).get_future()
    for group in (None, other):
        future = future.then(lambda last, group=group: sum_again(last, group))
    expect_equal(future.then(sum_and_wait).wait()[0], torch.full((1000,), float(size ** 4)))
    dist.destroy_process_group(other)


def attached_on_top():
    model, handle = models.attached("bf16")
    _expect_learns(model)
    handle.close()


def fsdp2_trains_as_on_gloo():
    ours = fsdp2_models.network(over=init_device_mesh("cpu", (dist.get_world_size(),)))
    theirs = fsdp2_models.network(over=DeviceMesh.from_group(GLOO["group"], "cpu"))
    losses = [models.train(model, range(8)) for model in (ours, theirs)]
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=1e-4, atol=1e-5)
    assert backend_stats()["operations"] > 0


# ---- compressed: GRADWIRE_COMPRESS=qsgd(bits=8) from 64 KiB on ----

_COMPRESSED = 1 << 18  # elements


def _error(ours, exact):
    return ((ours.float() - exact).norm() / exact.norm()).item()


def compressed_sums():
    for dtype in (torch.float32, torch.bfloat16):
        x = _numbers(_COMPRESSED, dtype=dtype)
        exact, before = _gloo_sum(x.float()), backend_stats()
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
    tensors = [_numbers(_COMPRESSED // 2, seed=seed) for seed in (1, 2)]
    exact, before = [_gloo_sum(tensor) for tensor in tensors], backend_stats()["sent_bytes"]
    with _Operations(1), dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    sent = backend_stats()["sent_bytes"] - before
    assert 0.9 < sent / _COMPRESSED < 1.2, sent
    for ours, total in zip(tensors, exact):
        assert 1e-4 < _error(ours, total) < 0.03, _error(ours, total)
        expect_equal_on_ranks(ours)


def rounding_differs_from_call_to_call():
    x = _numbers(_COMPRESSED)
    exact, calls = _gloo_sum(x), []
    for _ in range(16):
        calls.append(x.clone())
        dist.all_reduce(calls[-1])
    mean = torch.stack(calls).mean(0)
    assert _error(mean, exact) < 0.4 * _error(calls[0], exact)


def small_ones_are_exact():
    for length in LENGTHS[:3]:
        x = _numbers(length)
        theirs = _gloo_sum(x)
        dist.all_reduce(x)
        expect_equal(x, theirs)
    source, part = _numbers(2 * _COMPRESSED), torch.empty(_COMPRESSED)
    dist.reduce_scatter_tensor(part, source)
    expect_equal(part, _gloo_sum(source).chunk(2)[dist.get_rank()])


def many_lengths():
    for round_ in range(2):
        for length in range(1 << 14, (1 << 14) + sums._MAX_LENGTHS + 3):
            x = _numbers(length, seed=round_)
            exact = _gloo_sum(x)
            dist.all_reduce(x)
            assert 0 < _error(x, exact) < 0.03, length


def ddp_trains_compressed():
    model = models.wrap(bucket_cap_mb=25)
    before = backend_stats()["sent_bytes"]
    _expect_learns(model)
    sent = backend_stats()["sent_bytes"] - before
    exact = 40 * 4 * models.weights(model).numel()
    assert sent < 0.35 * exact, (sent, exact)


# ---- one rank, of a group for each setting ----

def _init_alone(compress, min_bytes="1M"):
    os.environ.update(GRADWIRE_COMPRESS=compress, GRADWIRE_MIN_BYTES=min_bytes)
    try:
        dist.init_process_group("cpu:gradwire", store=dist.HashStore(), rank=0, world_size=1)
        dist.all_reduce(torch.ones(1 << 18))
        dist.destroy_process_group()
    finally:
        del os.environ["GRADWIRE_COMPRESS"], os.environ["GRADWIRE_MIN_BYTES"]


def what_needs_steps_is_refused():
    for spec in ("auto", "topk(0.01)", "powersgd(rank=4)", "qsgd(bits=4,feedback=on)", "intsgd",
                 "signsgd(momentum=0.9)"):
        error = expect_raises(ValueError, "use gradwire.torch.attach", lambda: _init_alone(spec))
        assert spec.partition("(")[0] in str(error), error
    for spec in ("none", "bf16", "fp16", "qsgd(bits=8)", "qsgd(bits=4,sum=carrier)", "terngrad"):
        _init_alone(spec)
    _init_alone("bf16", "64k")
    expect_raises(ValueError, "takes a number of bytes", lambda: _init_alone("bf16", "1MB"))
    expect_raises(ValueError, "bf16", lambda: _init_alone("bf61"))


def it_says_what_it_compresses():
    """On standard error, which the test reads."""
    gradwire.torch.backend._announced = False
    _init_alone("bf16", "2M")


def _join():
    if os.environ["WORLD_SIZE"] != "1":
        dist.init_process_group("cpu:gradwire")
        GLOO["group"] = dist.new_group(backend="gloo")


if __name__ == "__main__":
    scenarios.run(globals(), join=_join)
