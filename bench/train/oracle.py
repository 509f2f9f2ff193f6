"""Measured oracle: how far `auto` is from the best fixed codec, found by trying them all."""

import math
import statistics

import cells
import ratios
import runs

NAME = "oracle"
TITLE = "Measured oracle: auto against the best of the fixed codecs"
select, parts = cells.select, runs.one_part
_ALLOWED_MEDIAN, _ALLOWED_UPPER = 1.05, 1.08
# What a controller does before it settles, in steps.
_CONTROLLER_WARM_UP = 60
# With so many a median of ratios is known well enough, however short the steps are.
_MOST_ROUNDS = 100


def measure(jobs, cell, _part, size):
    """Every codec takes turns with `auto`, which has settled before."""
    compute_ms = runs.compute_ms(jobs, cell)
    specs = [*cell.fixed, cell.auto]
    none_ms = compute_ms * (1 + 1 / cell.compute)  # at most
    rounds = rounds_of(len(specs) * size.block * none_ms / 1000, size)
    train = runs.compact(jobs.train(cell, runs.rotation(specs, compute_ms, size, rounds)))
    return {"compute": size.compute, "compute_ms": compute_ms, "train": train}


def rounds_of(round_s, size):
    """Rounds of so many seconds each: short steps vary more, and cost less."""
    return max(size.blocks, min(math.ceil(size.rotation_s / round_s), _MOST_ROUNDS))


def against_winner(cell, times):
    """The fixed codec that is fastest on even rounds, and `auto` over it on odd ones.

    times: by spec, of each round."""
    winner = min(cell.fixed, key=lambda spec: runs.typical(times[spec][::2]))
    odd_rounds = zip(times[cell.auto][1::2], times[winner][1::2])
    return winner, ratios.median_ratio([auto / best for auto, best in odd_rounds])


def row(cell, by_part):
    """The winner is picked on even rounds and compared on odd ones."""
    measured = by_part["all"]
    rows = {r["spec"]: r for r in measured["train"]["results"]}
    times = {spec: runs.block_medians(r) for spec, r in rows.items()}
    winner, ratio = against_winner(cell, times)
    none = ratios.median_ratio([a / b for a, b in zip(times[cell.auto], times["none"])])
    cold = rows[cell.auto]["warm_up"]["step_ms"]
    # Older results do not tell; the oracle judges more strictly.
    processor_bound = cell.processor_bound(measured.get("compute", "device"))
    return {
        **cell.columns(),
        "rounds": len(times["none"]),
        "compute_ms": measured["compute_ms"],
        "none_ms": runs.typical(times["none"]),
        "winner": winner,
        "winner_ms": runs.typical(times[winner][1::2]),
        "auto_ms": runs.typical(times[cell.auto][1::2]),
        "auto/winner": ratio.text(),
        "auto/none": none.text(),
        "cold_ms": statistics.median(cold[:_CONTROLLER_WARM_UP]) if cold else None,
        "exploring_ms": statistics.median(cold[_CONTROLLER_WARM_UP:] or cold) if cold else None,
        "judged": "processor bound" if processor_bound else "oracle",
        "holds": _is_safe(none) and (processor_bound or is_near(ratio)),
    }


def _is_safe(none):
    return none.value <= 1 / runs.SAFE_SPEED


def is_near(ratio):
    """To the winner."""
    return ratio.value <= _ALLOWED_MEDIAN and ratio.high <= _ALLOWED_UPPER
