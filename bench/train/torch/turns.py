"""In which order settings take turns; needs no PyTorch."""

import random


def rounds(names, count, seed):
    """Every name once in each of `count` rounds, in orders drawn by `seed`: the same on all ranks.
    No name always follows the same one, so that what that leaves behind counts for all of them."""
    draw = random.Random(seed)
    return [draw.sample(names, len(names)) for _ in range(count)]
