"""A small transformer, as docs/examples/fsdp2_transformer.py has it. Scenarios of fsdp2_program."""

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import fsdp2_models
import gradwire.torch

_WIDTH, _LENGTH, _LETTERS, _STEPS = 32, 16, 11, 20


class _Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.letters = nn.Embedding(_LETTERS, _WIDTH)
        self.places = nn.Embedding(_LENGTH, _WIDTH)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(
            _WIDTH, 4, 2 * _WIDTH, dropout=0.0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(_WIDTH, _LETTERS)

    def forward(self, text):
        x = self.letters(text) + self.places.weight
        mask = torch.full((_LENGTH, _LENGTH), -torch.inf).triu(1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


def _sharded(over):
    model = _Transformer()
    for module in (*model.layers, model):
        fully_shard(module, mesh=over)
    return model


def _losses(model):
    """Of each step, the mean over the ranks."""
    text = torch.tensor([" 0123456789".index(c) for c in " ".join(map(str, range(500)))])
    generator = torch.Generator().manual_seed(2 + dist.get_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    losses = []
    for _ in range(_STEPS):
        starts = torch.randint(len(text) - _LENGTH - 1, (8, 1), generator=generator)
        window = text[starts + torch.arange(_LENGTH + 1)]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(window[:, :-1]).mT, window[:, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses)
    dist.all_reduce(losses)
    return losses / dist.get_world_size()


def none_trains_as_native_hsdp():
    """Sums are added in other orders; what that makes of a loss grows over the steps."""
    native = _losses(_sharded(fsdp2_models.mesh()))
    model = _sharded(fsdp2_models.mesh()["shard"])
    handle = gradwire.torch.attach(model, "none", across=fsdp2_models.across())
    ours = _losses(model)
    assert handle.stats()["commits"] == _STEPS
    handle.close()
    assert native[-1] < 0.95 * native[0], native  # or equal losses would say nothing
    torch.testing.assert_close(ours, native, rtol=1e-5, atol=0)


def scattered_none_trains_as_native_fsdp():
    """The same without replicas."""
    native = _losses(_sharded(None))
    model = _sharded(None)
    handle = gradwire.torch.attach(model, "none")
    ours = _losses(model)
    assert handle.stats()["commits"] == _STEPS
    handle.close()
    torch.testing.assert_close(ours, native, rtol=1e-5, atol=0)
