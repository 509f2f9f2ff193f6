"""What is trained: a network, its data and a figure of merit with a target."""

import gzip
import pathlib

import torch
from torch import distributed as dist
from torch import nn

_FASHION = "/usr/share/datasets/fashion-mnist"  # Debian's package dataset-fashion-mnist
_LICENSES = "/usr/share/common-licenses"  # of base-files, which every Debian has


def _share(count):
    """This rank's part of `count` things."""
    return slice(dist.get_rank(), count, dist.get_world_size())


def _sum_over_ranks(*values):
    total = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(total)
    return total.tolist()


def _fashion(kind):
    with gzip.open(f"{_FASHION}/{kind}-images-idx3-ubyte.gz") as file:
        images = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8)
    with gzip.open(f"{_FASHION}/{kind}-labels-idx1-ubyte.gz") as file:
        labels = torch.frombuffer(bytearray(file.read()[8:]), dtype=torch.uint8)
    return images.view(-1, 1, 28, 28) / 255.0, labels.long()


class Cnn:
    """Fashion-MNIST; 5 million parameters, most of them in one matrix. Merit: accuracy in per cent."""

    MERIT, HIGHER_IS_BETTER, TARGET = "test accuracy, %", True, 82.0
    _BATCH = 32
    _TESTED = 2000  # of 10,000: evaluations are frequent

    def __init__(self):
        self._images, self._labels = (part[_share(len(part))] for part in _fashion("train"))
        share = _share(self._TESTED)
        self._test_images, self._test_labels = (part[share] for part in _fashion("t10k"))

    def network(self):
        """With the weights of torch's seed."""
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(64 * 7 * 7, 1280), nn.ReLU(), nn.Linear(1280, 768), nn.ReLU(),
            nn.Linear(768, 10),
        )  # fmt: skip

    def optimizer(self, parameters):
        """One learning rate for all settings."""
        return torch.optim.SGD(parameters, lr=0.03, momentum=0.9)

    def loss(self, model, generator):
        """Of a random batch."""
        batch = torch.randint(len(self._images), (self._BATCH,), generator=generator)
        return nn.functional.cross_entropy(model(self._images[batch]), self._labels[batch])

    @torch.no_grad()
    def merit(self, network):
        """Over all ranks; collective."""
        hits = (network(self._test_images).argmax(1) == self._test_labels).sum().item()
        hits, count = _sum_over_ranks(hits, len(self._test_labels))
        return 100 * hits / count


class _NextByte(nn.Module):
    """A transformer that knows the bytes before."""

    def __init__(self, context):
        super().__init__()
        width, layers, heads = 256, 2, 4
        self._embed = nn.Embedding(256, width)
        self._place = nn.Parameter(torch.randn(context, width) / width**0.5)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self._layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self._norm, self._head = nn.LayerNorm(width), nn.Linear(width, 256)
        self.register_buffer("_mask", nn.Transformer.generate_square_subsequent_mask(context))

    def forward(self, text):
        """Logits of the byte after each."""
        hidden = self._layers(self._embed(text) + self._place, mask=self._mask, is_causal=True)
        return self._head(self._norm(hidden))


def _licences():
    """(to train on, to test with): the last tenth of each text is for tests."""
    paths = sorted({path.resolve() for path in pathlib.Path(_LICENSES).iterdir()})
    texts = [torch.frombuffer(bytearray(p.read_bytes()), dtype=torch.uint8).long() for p in paths]
    cuts = [len(text) * 9 // 10 for text in texts]
    return (torch.cat([text[:cut] for text, cut in zip(texts, cuts)]),
            torch.cat([text[cut:] for text, cut in zip(texts, cuts)]))


class Transformer:
    """The next byte of free software licences. Merit: cross-entropy in nats per byte."""

    MERIT, HIGHER_IS_BETTER, TARGET = "test loss, nats per byte", False, 2.6
    _BATCH, _CONTEXT, _TESTED = 4, 64, 128

    def __init__(self):
        self._text, test = _licences()
        starts = torch.linspace(0, len(test) - self._CONTEXT - 1, self._TESTED).long()
        self._test = self._windows(test, starts[_share(self._TESTED)])

    def _windows(self, text, starts):
        """(bytes, those that follow)"""
        places = starts[:, None] + torch.arange(self._CONTEXT)
        return text[places], text[places + 1]

    def network(self):
        """With the weights of torch's seed."""
        return _NextByte(self._CONTEXT)

    def optimizer(self, parameters):
        """One learning rate for all settings."""
        return torch.optim.Adam(parameters, lr=1e-3)

    def loss(self, model, generator):
        """Of random places in the text."""
        last = len(self._text) - self._CONTEXT - 1
        starts = torch.randint(last, (self._BATCH,), generator=generator)
        return self._cross_entropy(model, *self._windows(self._text, starts))

    def _cross_entropy(self, model, text, following):
        return nn.functional.cross_entropy(model(text).flatten(0, 1), following.flatten())

    @torch.no_grad()
    def merit(self, network):
        """Over all ranks; collective."""
        count = len(self._test[0])
        loss = count * self._cross_entropy(network, *self._test).item()
        loss, count = _sum_over_ranks(loss, count)
        return loss / count


BY_NAME = {"cnn": Cnn, "transformer": Transformer}
