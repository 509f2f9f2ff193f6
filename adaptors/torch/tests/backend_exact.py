"""Sums that equal Gloo's, and what is left to Gloo. Scenarios of backend_program on three ranks."""

import datetime
import os
import warnings
from unittest import mock

import torch
from torch import distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import gradwire.torch
from backend_sums import GLOO, Operations, expect_sum, gloo_sum, numbers
from gradwire.torch import backend_stats, comm_settings
from models import expect_equal, expect_equal_on_ranks, expect_raises

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
LENGTHS = (1, 7, 1000, 300_001)


def sums_equal_gloos():
    with Operations(2 * len(FLOATS) * len(LENGTHS)):
        for dtype in FLOATS:
            for length in LENGTHS:
                ours = numbers(length, dtype=dtype)
                theirs, average = gloo_sum(ours), ours.clone()
                dist.all_reduce(ours)
                expect_sum(ours, theirs)
                expect_equal_on_ranks(ours)
                dist.all_reduce(average, dist.ReduceOp.AVG)
                expect_sum(average, (theirs.float() / dist.get_world_size()).to(dtype))


def any_layout():
    for view in (torch.t, lambda matrix: matrix[:, ::2], lambda matrix: matrix[3, 4]):
        matrix = numbers(60, 70)
        ours, theirs = view(matrix), gloo_sum(view(matrix))
        dist.all_reduce(ours)
        expect_sum(ours, theirs)
    matrix = numbers(60, 70)
    beside = matrix[:, 1::2].clone()
    dist.all_reduce(matrix[:, ::2])
    expect_equal(matrix[:, 1::2], beside)


def tensors_of_inference_mode():
    """Which can be written in that mode only; parameters can be written in it, too."""
    matrix = numbers(60, 70)
    parameter = torch.nn.Parameter(matrix.clone())
    expected = gloo_sum(matrix)
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
        expect_sum(one, expected)
    expect_sum(part, expected.chunk(dist.get_world_size())[dist.get_rank()])


def several_as_one():
    tensors = [numbers(length, seed=length) for length in LENGTHS]
    expected = [gloo_sum(tensor) for tensor in tensors]
    with Operations(1), dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for ours, theirs in zip(tensors, expected):
        expect_sum(ours, theirs)


def reduce_scatter():
    size, rank = dist.get_world_size(), dist.get_rank()
    for dtype in FLOATS:
        source = numbers(size * 1001, dtype=dtype)
        theirs = gloo_sum(source).chunk(size)[rank]
        mean = (theirs.float() / size).to(dtype)
        for operation, expected in ((dist.ReduceOp.SUM, theirs), (dist.ReduceOp.AVG, mean)):
            with Operations(1):
                ours = torch.empty(1001, dtype=dtype)
                dist.reduce_scatter_tensor(ours, source, operation)
            expect_sum(ours, expected)
    matrix, part = numbers(size * 4, 6), torch.empty(6, 4).t()
    dist.reduce_scatter_tensor(part, matrix)
    expect_sum(part, gloo_sum(matrix).chunk(size)[rank])


def work_under_way():
    tensors = [numbers(1000, seed=seed) for seed in range(8)]
    expected = [gloo_sum(tensor) for tensor in tensors]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    doubled = works[0].get_future().then(lambda future: 2 * future.value()[0])
    for work in reversed(works):
        work.wait()
    for ours, theirs in zip(tensors, expected):
        expect_sum(ours, theirs)
    expect_equal(doubled.wait(), 2 * tensors[0])


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


def _answers(group):
    """What a group makes of everything that is Gloo's."""
    size, rank = dist.get_world_size(), dist.get_rank()
    x, answers = numbers(size * 3), []
    for tensor, operation in ((torch.arange(5) + rank, dist.ReduceOp.SUM),
                              (numbers(5), dist.ReduceOp.MAX),
                              (numbers(5).double(), dist.ReduceOp.SUM)):
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


def lists_to_all():
    """Which Gloo takes since torch 2.15, of equal sizes."""
    answers = []
    for group in (None, GLOO["group"]):
        parts = list(numbers(dist.get_world_size() * 3).chunk(dist.get_world_size()))
        turned = [torch.empty_like(part) for part in parts]
        try:
            dist.all_to_all(turned, parts, group=group)
            answers.append(torch.cat(turned))
        except RuntimeError as error:
            assert "does not support alltoall" in str(error), error
    assert len(answers) in (0, 2), answers
    if answers:
        expect_equal(*answers)


def _point_to_point(group):
    size, rank = dist.get_world_size(), dist.get_rank()
    to, source = (rank + 1) % size, (rank - 1) % size
    x, one, other = numbers(100), torch.empty(100), torch.empty(100)
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
    with Operations(0):
        for ours, theirs in zip(_answers(None), _answers(GLOO["group"]), strict=True):
            expect_equal(ours, theirs)
        for ours, theirs in zip(_point_to_point(None), _point_to_point(GLOO["group"])):
            expect_equal(ours, theirs)
        _objects(dist.group.WORLD)
        dist.barrier()
        sparse = torch.eye(4).to_sparse()
        dist.all_reduce(sparse)
        expect_equal(sparse.to_dense(), dist.get_world_size() * torch.eye(4))


def barriers_come_behind_sums():
    """What was given before is complete, as with Gloo, also where nobody waits for it."""
    with Operations(20):
        for _ in range(20):
            x = torch.ones(1 << 16)
            dist.all_reduce(x, async_op=True)
            dist.barrier()
            expect_equal(x, dist.get_world_size() * torch.ones(1 << 16))
    for step in range(20):
        work = dist.barrier(async_op=True)
        ranks = torch.full((3,), float(dist.get_rank()))
        dist.broadcast(ranks, step % 2)
        work.wait()
        expect_equal(ranks, torch.full((3,), float(step % 2)))


def monitored_barriers():
    """torch before 2.15 lets no group but Gloo's have them."""
    if hasattr(dist.group.WORLD, "describe"):
        expect_raises(ValueError, "GLOO", dist.monitored_barrier)
        return
    for wait_all_ranks in (False, True):
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=60), wait_all_ranks=wait_all_ranks)
    dist.monitored_barrier()


def timeouts_that_are_set():
    """Since torch 2.15 by a call that is no private one."""
    if not hasattr(dist, "set_timeout"):
        return
    group = dist.new_group()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dist.set_timeout(datetime.timedelta(seconds=77), group)
    assert comm_settings.timeout_of(group) == 77_000
    backend = group._get_backend(torch.device("cpu"))
    assert backend._gloo.options._timeout == datetime.timedelta(seconds=77)
    dist.destroy_process_group(group)


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
    x = numbers(4 * size, 6)
    total = gloo_sum(x)
    with Operations(1):
        partial = DTensor.from_local(x, mesh, [Partial()])
        expect_sum(partial.redistribute(placements=[Replicate()]).to_local(), total)
    shard = partial.redistribute(placements=[Shard(0)])
    expect_sum(shard.full_tensor(), total)
    expect_equal(distribute_tensor(total, mesh, [Shard(1)]).full_tensor(), total)
    expect_sum(functional.all_reduce(x, "sum", mesh) + 0, total)


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
