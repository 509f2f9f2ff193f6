"""Never slower: `auto`, exploration included, between runs of `none` right before and after."""

import statistics

import cells
import ratios
import runs

NAME = "never-slower"
TITLE = "Never slower: speed of auto over speed of none, by blocks of 25 steps"
select = cells.select
_ALLOWED_LOWER = 0.96
# Bf16 is measured first, and mostly none; what comes later is the controller's choice.
_CONTROLLER_WARM_UP = 60


def parts(_cell, size):
    """The repetitions."""
    return [f"run-{i + 1}" for i in range(size.repeats)]


def measure(jobs, cell, _part, size):
    """None, auto, none."""
    compute_ms = runs.compute_ms(jobs, cell)

    def steps_of(spec, steps, warm_up):
        options = [*runs.options(compute_ms, size), "-x", spec, "-w", str(warm_up)]
        result = jobs.train(cell, [*options, "--steps", str(steps)])
        return runs.compact(result)["results"][0]["blocks"][0]["step_ms"]

    return {
        "compute_ms": compute_ms,
        "none_before_ms": steps_of("none", size.none_steps, runs.WARM_UPS),
        "auto_ms": steps_of(cell.auto, size.auto_steps, _CONTROLLER_WARM_UP),
        "none_after_ms": steps_of("none", size.none_steps, runs.WARM_UPS),
    }


def _speeds(measured):
    """Of auto's blocks, relative to none's. Means: what trials cost is part of them."""
    none = measured["none_before_ms"] + measured["none_after_ms"]
    none_ms = statistics.median(map(statistics.fmean, ratios.in_pieces(none, runs.BLOCK)))
    return [none_ms / statistics.fmean(b) for b in ratios.in_pieces(measured["auto_ms"], runs.BLOCK)]


def row(cell, by_part):
    """Over all repetitions."""
    by_run = [_speeds(measured) for measured in by_part.values()]
    speeds = [speed for run in by_run for speed in run]
    ratio = ratios.median_ratio_of_runs(by_run)
    return {
        **cell.columns(),
        "compute_ms": statistics.median(m["compute_ms"] for m in by_part.values()),
        "none_ms": statistics.median(t for m in by_part.values() for t in m["none_before_ms"]),
        "blocks": len(speeds),
        "speed": ratio.text(),
        "slowest_block": min(speeds),
        "holds": ratio.value >= runs.SAFE_SPEED and ratio.low >= _ALLOWED_LOWER,
    }
