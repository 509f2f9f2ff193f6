"""Final accuracy: what a codec costs where every setting trains for as long, whatever the network."""

import dataclasses
import functools
import statistics

import cells

NAME = "quality"
TITLE = "Final accuracy: Fashion-MNIST, 8 ranks with 32 images each, 2 epochs"
_RANKS = 8
_EPOCHS = "--epochs=2"
# Points below `none`. efsign sends a bit for each element; what it keeps back arrives late.
_USUAL, _OF_SIGNS = 1.0, 1.5


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """SGD; the learning rate falls to 0."""

    rate: float = 0.15
    momentum: float = 0.5


@dataclasses.dataclass(frozen=True)
class Setting:
    """A cell of this table. `allowed`: points below `none` with the optimizer `usual`; None: not
    judged."""

    id: int
    spec: str
    allowed: float | None = None
    own: Optimizer = Optimizer()
    usual: Optimizer = Optimizer()
    link: str = cells.UNLIMITED
    ranks: int = _RANKS

    @property
    def name(self):
        """One word, for files and progress."""
        return f"setting-{self.id:02}"


_NO_MOMENTUM = Optimizer(momentum=0)
_SIGNS = Optimizer(rate=0.001, momentum=0)
_MUCH_MOMENTUM, _FAST_AND_MUCH = Optimizer(0.03, 0.9), Optimizer(0.1, 0.9)


def _settings():
    settings = [
        ("bf16", _USUAL), ("qsgd(bits=8)", _USUAL), ("qsgd(bits=4)", _USUAL),
        ("qsgd(bits=8,sum=carrier)", _USUAL), ("qsgd(bits=4,sum=carrier)", _USUAL),
        ("intsgd(bits=8)",), ("intsgd(bits=32)",), ("terngrad", _USUAL),
        ("efsign", _OF_SIGNS), ("topk(0.01)", _USUAL), ("topk(0.01,agreement=owners)",),
        ("topk(0.012,agreement=owners)",),
        ("topk(0.01,agreement=gather,momentum=0.5)", None, _NO_MOMENTUM),
        ("powersgd(rank=4)", _USUAL), ("acp(rank=4)", _USUAL), ("acp(rank=8)",),
        ("acp(rank=4,start_step=47)",), ("signsgd", None, _SIGNS),
        ("signsgd(momentum=0.9)", None, _SIGNS), ("randk(0.01)",),
        ("randk(0.01)", None, Optimizer(0.1, 0)),
    ]  # fmt: skip
    for optimizer in (_MUCH_MOMENTUM, _FAST_AND_MUCH):
        for spec in ("qsgd(bits=4,feedback=on)", "powersgd(rank=4)", "acp(rank=4)", "topk(0.01)",
                     "efsign"):  # fmt: skip
            settings.append((spec, None, optimizer, optimizer))
    return {i: Setting(i, *setting) for i, setting in enumerate(settings, 1)}


def select(text):
    """As cells.select_from."""
    return cells.select_from(_settings(), text)


def parts(_cell, size):
    """A seed each."""
    return [f"seed{seed}" for seed in range(1, size.seeds + 1)]


def measure(jobs, cell, part, _size):
    """Final accuracies in per cent, of the setting and of `none`."""
    seed = int(part.removeprefix("seed"))
    return {**_train(jobs, cell, seed), "none_accuracy": _none(jobs, cell.usual, seed)}


def _train(jobs, setting, seed):
    run = jobs.fashion_mnist(setting, [
        _EPOCHS, f"--spec={setting.spec}", f"--lr={setting.own.rate}",
        f"--momentum={setting.own.momentum}", f"--seed={seed}",
    ])  # fmt: skip
    return {"accuracy": run["final_accuracy"],
            "kb_per_step": run["stats"]["sent_bytes"] / run["steps"] / 1000}


@functools.cache
def _none(jobs, optimizer, seed):
    """Bits repeat, so once is enough for all settings that are compared with it."""
    return _train(jobs, Setting(0, "none", own=optimizer), seed)["accuracy"]


def row(cell, by_part):
    """Means over the seeds, and their difference."""
    accuracies = [measured["accuracy"] for measured in by_part.values()]
    none = [measured["none_accuracy"] for measured in by_part.values()]
    points = statistics.fmean(accuracies) - statistics.fmean(none)
    return {
        "cell": cell.id, "spec": cell.spec, "rate": cell.own.rate, "momentum": cell.own.momentum,
        "none %": " ".join(f"{one:.2f}" for one in none),
        "accuracy %": " ".join(f"{one:.2f}" for one in accuracies),
        "mean": f"{statistics.fmean(accuracies):.2f}",
        "against none": f"{points:+.2f}",
        "allowed": None if cell.allowed is None else -cell.allowed,
        "kB/step of rank 0": statistics.fmean(m["kb_per_step"] for m in by_part.values()),
        "holds": cell.allowed is None or points >= -cell.allowed,
    }  # fmt: skip
