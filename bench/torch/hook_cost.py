"""Processor time of the communication hook: hook_cost.py, by torchrun on any number of ranks.

One bucket with 32 parameters, then one with 232: the difference is what a further parameter costs.
Counted is the thread that runs backward: submitting a bucket, and waiting at the end of the step.
"""

import statistics
import time

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire.torch

STEPS, WARM_UP = 200, 20
ELEMS = 64
FEW, MANY = 32, 232


class Weights(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.zeros(ELEMS)) for _ in range(count))

    def forward(self):
        return sum(w.sum() for w in self.parts)


class Timed:
    """Collects the thread's processor time in calls of a function."""

    def __init__(self, function):
        self._function = function
        self.us = []

    def __call__(self, *args):
        start = time.thread_time()
        result = self._function(*args)
        self.us.append((time.thread_time() - start) * 1e6)
        return result

    def median(self):
        return statistics.median(self.us[WARM_UP:])


def cost(count):
    """Median us of (the hook, the end of the step)."""
    model = DistributedDataParallel(Weights(count))
    handle = gradwire.torch.attach(model, "none")
    handle.on_bucket, handle._end = Timed(handle.on_bucket), Timed(handle._end)
    for _ in range(STEPS):
        model.zero_grad()
        model().backward()
    medians = handle.on_bucket.median(), handle._end.median()
    handle.close()
    return medians


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    few, many = cost(FEW), cost(MANY)
    if dist.get_rank() == 0:
        further = (many[0] - few[0]) / (MANY - FEW)
        print(f"hook: {few[0]:.0f} us for {FEW} parameters, {further:.2f} us for each further one; "
              f"end of the step: {few[1]:.0f} us")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
