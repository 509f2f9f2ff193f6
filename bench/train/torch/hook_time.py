"""What the hook takes of the thread that runs backward: all of it for a bucket, and waiting at the end
of the step. That of one parameter is the difference between two buckets."""

import statistics
import time

import torch
from torch import nn

import hooks

_PARAMETERS = (32, 232)  # of the buckets
_SHAPE = (8, 8)  # of two dimensions, which codecs are for
_WARM_UP = 20


class _Parameters(nn.Module):
    """So few elements that DistributedDataParallel puts all in one bucket."""

    def __init__(self, count):
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.zeros(_SHAPE)) for _ in range(count))

    def forward(self):
        """Uses each of them."""
        return sum(part.sum() for part in self.parts)


class _Timed:
    """Collects the thread's processor time in calls of a function."""

    def __init__(self, function):
        self._function = function
        self._us = []

    def __call__(self, *args):
        start = time.thread_time()
        result = self._function(*args)
        self._us.append((time.thread_time() - start) * 1e6)
        return result

    def median(self):
        """Microseconds, behind the warm-up."""
        return statistics.median(self._us[_WARM_UP:])


def _compressed(handle):
    """How many tensors: of an exact bucket, times would be of no codec."""
    return sum(row["spec"] != "none" for row in handle.ledger()["tensors"])


def _bucket(setting, count, calls):
    model = hooks.wrap(_Parameters(count), setting)
    handle = hooks.attach(model, setting, min_numel=0)
    ((_, router),) = model._comm_hooks
    router.route, handle._end = hook, end = _Timed(router.route), _Timed(handle._end)
    for _ in range(_WARM_UP + calls):
        model.zero_grad()
        model().backward()
    compressed = _compressed(handle)
    handle.close()
    return {"parameters": count, "compressed": compressed, "hook_us": hook.median(),
            "end_us": end.median()}


def measure(setting, calls):
    """Medians of this rank; all ranks call it."""
    return {"setting": setting, "buckets": [_bucket(setting, n, calls) for n in _PARAMETERS]}
