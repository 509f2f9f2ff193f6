"""A small transformer with FSDP2: sharded in pairs of ranks, compressed between two pairs or more:

    torchrun --standalone --nproc-per-node 4 docs/examples/fsdp2_transformer.py
"""

import sys

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import gradwire.torch

SPEC = sys.argv[1] if len(sys.argv) > 1 else "qsgd(bits=8)"
WIDTH, LENGTH, STEPS = 128, 32, 100


class Transformer(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.letters = nn.Embedding(letters, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(
            WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(WIDTH, letters)

    def forward(self, text):
        x, mask = self.letters(text) + self.places.weight, torch.full((LENGTH, LENGTH), -torch.inf)
        for layer in self.layers:
            x = layer(x, mask.triu(1))
        return self.head(x)


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("replicate", "shard"))
text = torch.tensor([" 0123456789".index(c) for c in " ".join(map(str, range(20000)))])
torch.manual_seed(1)
model = Transformer(11)
for module in (*model.layers, model):
    fully_shard(module, mesh=mesh["shard"])
handle = gradwire.torch.attach(model, SPEC, across=mesh["replicate"])
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

torch.manual_seed(2 + dist.get_rank())
for step in range(STEPS):
    starts = torch.randint(len(text) - LENGTH - 1, (16, 1))
    window = text[starts + torch.arange(LENGTH + 1)]
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(window[:, :-1]).mT, window[:, 1:])
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0 and step % 20 == 19:
        stats = handle.stats()
        sent, raw = (stats[key] / stats["steps"] / 1000 for key in ("sent_bytes", "raw_bytes"))
        print(f"step {step}: loss {loss:.2f}, {sent:.0f} kB sent in each (uncompressed {raw:.0f} kB)")
handle.close()
dist.destroy_process_group()
