"""DistributedDataParallel on Fashion-MNIST, with compressed gradients; any number of ranks:

    torchrun --standalone --nproc-per-node 2 docs/examples/ddp_fashion_mnist.py
"""

import gzip
import sys

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradwire.torch

FOLDER = "/usr/share/datasets/fashion-mnist"  # Debian's package dataset-fashion-mnist
SPEC = sys.argv[1] if len(sys.argv) > 1 else "qsgd(bits=4,feedback=on)"


def load(kind):
    with gzip.open(f"{FOLDER}/{kind}-images-idx3-ubyte.gz") as file:
        images = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8)
    with gzip.open(f"{FOLDER}/{kind}-labels-idx1-ubyte.gz") as file:
        labels = torch.frombuffer(bytearray(file.read()[8:]), dtype=torch.uint8)
    return images.view(-1, 784) / 255.0, labels.long()


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
network = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                        nn.Linear(128, 10))
model = DistributedDataParallel(network)
handle = gradwire.torch.attach(model, SPEC)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

images, labels = (part[rank::ranks] for part in load("train"))
test_images, test_labels = load("t10k")
for epoch in range(2):
    for batch in torch.randperm(len(images)).split(64):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        hits = (network(test_images).argmax(1) == test_labels).float().mean().item()
    if rank == 0:
        stats = handle.stats()
        print(f"epoch {epoch}: accuracy {100 * hits:.2f} %, {stats['steps']} steps, "
              f"{stats['sent_bytes'] / stats['steps'] / 1000:.0f} kB sent in each "
              f"(uncompressed {stats['raw_bytes'] / stats['steps'] / 1000:.0f} kB)")
handle.close()
dist.destroy_process_group()
