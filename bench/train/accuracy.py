"""Time to accuracy: training on Fashion-MNIST, every setting with its own best learning rate."""

import dataclasses
import statistics

import cells
import ratios

NAME = "accuracy"
TITLE = "Time to accuracy: seconds to 86 % on Fashion-MNIST, mean over seeds, with the best learning rate"
_LINKS = {1: "200mbit", 2: "1gbit", 3: cells.UNLIMITED}
_RANKS = 4
_AUTO = "auto"
# What the bounds of `auto` admit, and what they do not.
_ADMITTED = ("none", "bf16", "qsgd(bits=8,feedback=off)", "qsgd(bits=6,feedback=off)",
             "qsgd(bits=4,feedback=on)")  # fmt: skip
_OTHERS = ("efsign", "topk(0.01)", "powersgd(rank=4)")
_RATES = (0.1, 0.15, 0.2)
_TRAINING = ["--epochs=2", "--target=86"]
_ALLOWED, _ALLOWED_UNLIMITED = 1.05, 1.02


@dataclasses.dataclass(frozen=True)
class Link:
    """A cell of this table."""

    id: int
    link: str
    ranks: int = _RANKS

    @property
    def name(self):
        """One word, for files and progress."""
        return f"link-{self.link}"


def select(text):
    """As cells.select_from."""
    return cells.select_from({i: Link(i, link) for i, link in _LINKS.items()}, text)


def trainings(size):
    """(spec, learning rate, seed) by part."""
    specs = (*_ADMITTED, _AUTO, *_OTHERS)
    return {
        f"setting{i}-lr{rate}-seed{seed}": (spec, rate, seed)
        for i, spec in enumerate(specs)
        for rate in _RATES
        for seed in range(1, size.seeds + 1)
    }


def parts(_cell, size):
    """A training each."""
    return list(trainings(size))


def measure(jobs, cell, part, size):
    """Seconds to the target, None: not reached."""
    spec, rate, seed = trainings(size)[part]
    options = [*_TRAINING, f"--spec={spec}", f"--lr={rate}", f"--seed={seed}"]
    run = jobs.fashion_mnist(cell, options)
    return {
        "spec": spec, "rate": rate, "seed": seed, "to_target_s": run["to_target_s"],
        "final_accuracy": run["final_accuracy"],
    }  # fmt: skip


def _best_s(by_part, spec):
    """Of each seed, with the learning rate where their mean is least; None: no rate gets there with
    every seed."""
    found = []
    for rate in _RATES:
        times = {m["seed"]: m["to_target_s"] for m in by_part.values()
                 if (m["spec"], m["rate"]) == (spec, rate)}  # fmt: skip
        if None not in times.values():
            found.append([times[seed] for seed in sorted(times)])
    return min(found, key=statistics.fmean, default=None)


def row(cell, by_part):
    """All settings on one link, the ones that `auto` may not choose last."""
    seconds = {spec: _best_s(by_part, spec) for spec in (*_ADMITTED, _AUTO, *_OTHERS)}
    unlimited = cell.link == cells.UNLIMITED
    rivals = [seconds[spec] for spec in (["none"] if unlimited else _ADMITTED) if seconds[spec]]
    first = min(rivals, key=statistics.fmean, default=None)
    over = ratios.ratio_of_means(list(zip(seconds[_AUTO], first))) if seconds[_AUTO] and first else None
    allowed = _ALLOWED_UNLIMITED if unlimited else _ALLOWED
    return {
        "cell": cell.id, "link": cell.link,
        **{spec: times and statistics.fmean(times) for spec, times in seconds.items()},
        "auto over " + ("none" if unlimited else "the first admitted"): over and over.text(),
        "holds": over is not None and over.value <= allowed,
    }  # fmt: skip
