"""Medians of ratios, with what a bootstrap says of them."""

import dataclasses
import random
import statistics

_RESAMPLES = 2000
_OUTSIDE = 0.025  # on either side of a 95 % interval


@dataclasses.dataclass
class Ratio:
    """Of one measurement: the median, and its 95 % interval."""

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
    medians = sorted(
        statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(_RESAMPLES)
    )
    low, high = (medians[round(share * (_RESAMPLES - 1))] for share in (_OUTSIDE, 1 - _OUTSIDE))
    return Ratio(statistics.median(ratios), low, high)


def in_pieces(values, length):
    """Pieces of `length`; what is left at the end is left out."""
    return [values[i : i + length] for i in range(0, len(values) - length + 1, length)]
