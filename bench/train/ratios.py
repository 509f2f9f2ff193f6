"""Medians of ratios, and ratios of means, with what a bootstrap says of them."""

import dataclasses
import random
import statistics

_RESAMPLES = 2000
_OUTSIDE = 0.025  # on either side of a 95 % interval


@dataclasses.dataclass
class Ratio:
    """Of one measurement, and its 95 % interval."""

    value: float
    low: float
    high: float

    def text(self):
        """ "1.012 (0.987..1.034)" """
        return f"{self.value:.3f} ({self.low:.3f}..{self.high:.3f})"


def median_ratio(ratios, seed=1):
    """The median of `ratios`, at least one, which were measured apart from each other; resampled
    to see how much it depends on which of them it has."""
    draw = random.Random(seed)
    return _judged(statistics.median, ratios, lambda: draw.choices(ratios, k=len(ratios)))


def median_ratio_of_runs(runs, seed=1):
    """The median of all ratios in `runs`, a list for each. What a run's ratios have in common, as
    what they are divided by, makes them no more than one measurement: runs are resampled, and the
    ratios of each that is drawn. One run alone tells nothing of how much runs differ."""
    draw = random.Random(seed)

    def resampled():
        drawn = draw.choices(runs, k=len(runs))
        return [ratio for run in drawn for ratio in draw.choices(run, k=len(run))]

    return _judged(statistics.median, [ratio for run in runs for ratio in run], resampled)


def ratio_of_means(pairs, seed=1):
    """What the first of all pairs, at least one, come to over the second: pairs were measured alike,
    as with one seed, and are resampled."""
    draw = random.Random(seed)
    return _judged(_over, pairs, lambda: draw.choices(pairs, k=len(pairs)))


def _over(pairs):
    first, second = zip(*pairs)
    return sum(first) / sum(second)


def _judged(value_of, measured, resampled):
    """Its value; the interval is that of what `resampled` gives."""
    values = sorted(value_of(resampled()) for _ in range(_RESAMPLES))
    low, high = (values[round(share * (_RESAMPLES - 1))] for share in (_OUTSIDE, 1 - _OUTSIDE))
    return Ratio(value_of(measured), low, high)


def in_pieces(values, length):
    """Pieces of `length`; what is left at the end is left out."""
    return [values[i : i + length] for i in range(0, len(values) - length + 1, length)]
