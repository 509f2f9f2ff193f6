"""A small model, its data and its training, the same in all tests."""

import contextlib
import io
import re
import shutil
import tempfile
import warnings

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.nn.parallel import DistributedDataParallel

import gradwire.torch
from gradwire.torch.saved import without_own_parts

# Four buckets for the model below, once torch has seen the order of gradients.
SMALL_BUCKETS_MB = 0.1
LEARNING_RATE = 0.2
BATCHES = 4
FEEDBACK = "qsgd(bits=4,feedback=on)"


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
                         nn.Linear(128, 128), nn.Linear(128, 8))


class Sum(nn.Module):
    """The gradient of each weight is its input."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ParameterList(nn.Parameter(torch.zeros(90, 100)) for _ in range(6))

    def forward(self, inputs, chosen=range(6)):
        return sum((self.parts[i] * inputs[i]).sum() for i in chosen)

    @staticmethod
    def inputs(step):
        """Of all ranks."""
        generator = torch.Generator().manual_seed(step)
        return torch.randn(dist.get_world_size(), 6, 90, 100, generator=generator)


class Branches(nn.Module):
    """A rank uses branch `chosen` only."""

    def __init__(self, chosen=0):
        super().__init__()
        torch.manual_seed(0)
        self.trunk = nn.Linear(64, 64)
        self.branches = nn.ModuleList(nn.Linear(64, 8) for _ in range(3))
        self.chosen = chosen

    def forward(self, x):
        return self.branches[self.chosen](self.trunk(x))


def batch(step):
    """One of a few, others for each rank; targets that the network can learn."""
    generator = torch.Generator().manual_seed(1000 * (step % BATCHES) + dist.get_rank())
    x = torch.randn(16, 64, generator=generator)
    return x, x[:, :8] - x[:, 8:16]


def wrap(module=None, **options):
    options.setdefault("bucket_cap_mb", SMALL_BUCKETS_MB)
    return DistributedDataParallel(network() if module is None else module, **options)


def loss_of(model, step):
    x, y = batch(step)
    return nn.functional.mse_loss(model(x).float(), y)


def train(model, steps, optimizer=None):
    """The losses of the steps."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for step in steps:
        optimizer.zero_grad()
        loss = loss_of(model, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def attached(spec, module=None, wrap_options=None, **options):
    """(model, handle)"""
    model = wrap(module, **(wrap_options or {}))
    return model, gradwire.torch.attach(model, spec, **options)


def fail(grad):
    """A hook."""
    raise ZeroDivisionError("in the model")


def weights(model):
    return torch.cat([p.detach().flatten().float() for p in model.parameters()])


def expect_equal(one, other):
    difference = (one - other).abs().max().item()
    assert torch.equal(one, other), f"differ by up to {difference}"


def expect_equal_on_ranks(tensor):
    """Bit for bit."""
    all_of_them = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, tensor)
    for other in all_of_them:
        expect_equal(tensor, other)


def through_a_file(value, weights_only=True):
    """As who loads it has it."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


@contextlib.contextmanager
def distributed_checkpoint(state, group=None):
    """Saved by the ranks of the group, or by all: (its folder, {key: what it says of the value})."""
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    if dist.get_rank(group) >= 0:
        checkpoint.save(state, checkpoint_id=folder[0], process_group=group)
    dist.barrier()
    yield folder[0], checkpoint.FileSystemReader(folder[0]).read_metadata().state_dict_metadata
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder[0])


def kept_alike(state):
    """What all ranks have alike of state_dict() of one rank, {parameter: bytes}."""
    found = {key: re.search(r"/rank\d+of\d+(@[^/]*)?/(.*)", key) for key in state}
    return {match[2]: without_own_parts(state[key].numpy().tobytes())
            for key, match in found.items() if match}


def load_of_another_size(handle, state):
    """What all ranks have alike is there then, and was not before; of the rest they are told."""
    alike = kept_alike(state)
    assert kept_alike(handle.state_dict()) != alike
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        handle.load_state_dict(state)
    assert ["residuals begin at zero" in str(one.message) for one in caught] == [True], caught
    assert kept_alike(handle.state_dict()) == alike


def expect_state(handle, expected):
    """Bit for bit, of this rank."""
    state = handle.state_dict()
    assert state.keys() == expected.keys(), state.keys() ^ expected.keys()
    for key, value in state.items():
        expect_equal(value, expected[key])


def expect_raises(kind, words, call):
    """kind: an exception's type, or several."""
    try:
        call()
    except kind as error:
        assert words in str(error), f"'{words}' is not in: {error}"
        return error
    raise AssertionError(f"no {kind} with '{words}'")
