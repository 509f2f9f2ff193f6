"""What the tables have in common: their sizes, and how much a cell computes."""

import dataclasses
import math
import statistics

from arguments import size as at_least

# Of a fixed codec, before anything is counted.
WARM_UPS = 2
# Of `none`: slower than that `auto` may not be.
SAFE_SPEED = 0.98
# Steps by which `none` and `auto` are compared where each runs alone.
BLOCK = 25
_CALIBRATION_STEPS = 12


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is run. The defaults are those of the committed tables, the second numbers the least
    from which a table can be made."""

    # Of each spec in a rotation, at least; the winner is picked on even ones, compared on odd ones.
    blocks: int = at_least(24, 2)
    rotation_s: float = at_least(90.0, 0)  # where steps are short there are more of them for so long
    block: int = at_least(5, 2)  # steps, of which the first does not count
    auto_warm_up: int = at_least(200, 0)  # steps of `auto` alone before
    none_steps: int = at_least(300, BLOCK)  # before and after
    auto_steps: int = at_least(500, BLOCK)
    repeats: int = at_least(5, 1)
    seeds: int = at_least(3, 1)  # of trainings
    seed: int = at_least(1, 0)
    compute: str = "device"


def one_part(_cell, _size):
    """Of a table that measures a cell as a whole."""
    return ["all"]


def options(compute_ms, size):
    """Of every `gradwire train` of a table."""
    return [
        "--compute-ms", f"{compute_ms:.3f}", "--compute", size.compute, "--seed", str(size.seed),
    ]  # fmt: skip


def rotation(specs, compute_ms, size, rounds=None):
    """Of a `gradwire train` where the specs take turns; `auto` has settled before."""
    return [
        *options(compute_ms, size), *(option for spec in specs for option in ("-x", spec)),
        "-w", str(WARM_UPS), "--auto-warmup", str(size.auto_warm_up),
        "--block", str(size.block), "--blocks", str(rounds or size.blocks),
    ]  # fmt: skip


def block_medians(row):
    """Milliseconds by round, without each block's first step."""
    return [statistics.median(block["step_ms"][1:]) for block in row["blocks"]]


def typical(times):
    """Their geometric mean."""
    return math.exp(statistics.fmean(math.log(t) for t in times))


def compute_ms(jobs, cell, factor=None):
    """`factor` (the cell's own) times what `none` takes for the exchange alone, measured now."""
    steps = ["--compute-ms", "0", "-w", str(WARM_UPS), "--steps", str(_CALIBRATION_STEPS)]
    (none,) = jobs.train(cell, steps)["results"]
    return (cell.compute if factor is None else factor) * none["step_ms"]


def compact(result):
    """Without what no table needs, so that committed results stay readable."""
    keep = ("start_time", "hostname", "version", "args", "results", "rate_changes", "launched_s")
    result = {key: result[key] for key in keep if key in result}
    for row in result["results"]:
        for steps in (row["warm_up"], *row["blocks"]):
            steps.pop("compute_ms")
            steps["begin_s"] = [round(s, 4) for s in steps["begin_s"]]
            steps["step_ms"] = [round(ms, 3) for ms in steps["step_ms"]]
    return result
