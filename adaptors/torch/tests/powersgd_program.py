"""What test_powersgd runs on two ranks: PowerSGD beside torch's, from one matrix and one basis.

Ours takes no basis Q from outside, but a step depends only on the space that Q spans: P
is orthonormalised, and P P^T M is what comes out. Ours leaves that space as the row space of its
approximation, which becomes torch's Q; torch's error becomes what that approximation missed.
"""

import gc

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import gradwire.torch

ROWS, COLUMNS = 96, 160
RANKS = (1, 2, 4)
STEPS = 4
ALLOWED = 1e-4  # relative to the approximation
_FIRST_STEP = 2  # that torch's hook admits


class Matrix(nn.Module):
    """Its gradient is what it is called with."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(ROWS, COLUMNS))

    def forward(self, gradient):
        return (self.weight * gradient).sum()


def _gradient(step):
    """Another one for each rank; singular values that fall, as gradients' do."""
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    left = torch.linalg.qr(torch.randn(ROWS, ROWS, generator=generator))[0]
    right = torch.linalg.qr(torch.randn(COLUMNS, ROWS, generator=generator))[0]
    return left * 0.7 ** torch.arange(ROWS) @ right.T


def _approximation(model, step):
    model.zero_grad()
    model(_gradient(step)).backward()
    return model.module.weight.grad.clone()


def _state_after(approximation, rank):
    """Of torch's hook, as if it had made that of step 0."""
    state = powerSGD_hook.PowerSGDState(None, rank, start_powerSGD_iter=_FIRST_STEP)
    state.iter = _FIRST_STEP
    basis = torch.linalg.svd(approximation)[2][:rank].T.contiguous()
    state.p_memory_dict[0] = torch.zeros(ROWS * rank)
    state.q_memory_dict[0] = basis.flatten()
    state.error_dict[0] = (_gradient(0) - approximation).flatten()
    return state


def _relative(one, other):
    return ((one - other).norm() / other.norm()).item()


def check_parity(rank):
    """The largest difference of any step; the first has the same M and the same Q."""
    ours = DistributedDataParallel(Matrix())
    handle = gradwire.torch.attach(ours, f"powersgd(rank={rank})", name=f"rank {rank}")
    first = _approximation(ours, 0)
    mean = sum(_gradients_of_all(0)) / dist.get_world_size()
    # It is a projection of the mean: what is missed is orthogonal to what is there.
    assert abs(((mean - first) * first).sum()) < ALLOWED * first.square().sum()
    assert torch.linalg.matrix_rank(first, rtol=ALLOWED) == rank

    theirs = DistributedDataParallel(Matrix())
    theirs.register_comm_hook(_state_after(first, rank), powerSGD_hook.powerSGD_hook)
    differences = [_relative(_approximation(ours, step), _approximation(theirs, step))
                   for step in range(1, STEPS)]
    assert max(differences) < ALLOWED, (rank, differences)
    handle.close()
    return max(differences)


def _gradients_of_all(step):
    mine = _gradient(step)
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    return every


def main():
    """Prints the largest difference for each rank of the approximation."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for rank in RANKS:
        print(f"rank {rank}: {check_parity(rank):.1e}")
    # The models' cycles keep the group. A thread of Gloo that is left when Python ends and frees a
    # tensor ends the process (pytorch/pytorch#190489).
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
