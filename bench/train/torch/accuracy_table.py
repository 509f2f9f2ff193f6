"""Time to accuracy: a training for each setting and seed, all with the workload's learning rate."""

import dataclasses
import math
import statistics

import settings
from arguments import size as at_least

# Of the final merits' paired differences: ours are no worse than theirs by more.
_STANDARD_ERRORS = 2
_PAIRS = [(f"{settings.OURS}powersgd(rank={r})", settings.POWERSGD_HOOK.format(r)) for r in (1, 4)]


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is run; the defaults are those of published tables, the second numbers the least from
    which one can be made."""

    steps: int = at_least(600, 1)
    evaluate_every: int = at_least(25, 1)


class AccuracyTable:
    """A part is a training."""

    NAME = "accuracy"
    TITLE = "Time to accuracy"
    Size = Size

    def __init__(self, chosen, seeds):
        self._trainings = {
            f"{settings.plain_name(setting)}-seed{seed}": (setting, seed)
            for setting in chosen
            for seed in range(1, seeds + 1)
        }

    def parts(self, _cell, _size):
        """The trainings."""
        return list(self._trainings)

    def measure(self, jobs, cell, part, size):
        """As rank.py training."""
        setting, seed = self._trainings[part]
        return jobs.rank(cell, "training", workload=cell.workload, seed=seed, setting=setting,
                         **dataclasses.asdict(size))

    def result(self, cell, by_part):
        """{"settings": a row each, "comparisons": a row each}"""
        first = next(iter(by_part.values()))
        runs = {}
        for measured in by_part.values():
            runs.setdefault(measured["setting"], []).append(measured)
        about = ("parameters", "torch", "gradwire", "merit", "target", "higher_is_better")
        return {
            **dataclasses.asdict(cell), **{name: first[name] for name in about},
            "settings": [{"setting": s, **_row(trainings)} for s, trainings in runs.items()],
            "comparisons": list(_compare(runs, first["higher_is_better"])),
        }  # fmt: skip

    def sections(self, result):
        """The tables of a cell: rows each."""
        merit = result["merit"]
        times = [
            {
                "setting": f"`{row['setting']}`",
                f"seconds to {result['target']:g}": row["to_target_s"],
                "seeds that got there": row["reached"],
                f"final {merit}": _spread(row["final"]),
                "seconds in all": row["seconds"],
            }
            for row in result["settings"]
        ]
        return [times, result["comparisons"]]


def _to_target_s(run):
    """None: not reached."""
    sign = 1 if run["higher_is_better"] else -1
    there = (p for p in run["points"] if sign * p["merit"] >= sign * run["target"])
    point = next(there, None)
    return point and point["seconds"]


def _final(run):
    return run["points"][-1]["merit"]


def _row(trainings):
    """Means over the seeds; seconds to the target only where all of them get there."""
    times = [_to_target_s(run) for run in trainings]
    return {
        "to_target_s": None if None in times else statistics.fmean(times),
        "reached": f"{len(times) - times.count(None)} of {len(times)}",
        "final": [_final(run) for run in trainings],
        "seconds": statistics.fmean(run["points"][-1]["seconds"] for run in trainings),
        "curve": _mean_curve(trainings),
    }


def _mean_curve(trainings):
    """[seconds, merit]; all trainings evaluate after the same steps."""
    by_step = zip(*(run["points"] for run in trainings))
    return [
        [statistics.fmean(p[name] for p in points) for name in ("seconds", "merit")]
        for points in by_step
    ]


def _spread(values):
    middle = statistics.fmean(values)
    return f"{middle:.3f} ± {statistics.stdev(values):.3f}" if len(values) > 1 else f"{middle:.3f}"


def _compare(runs, higher_is_better):
    """Low rank against low rank, seed by seed."""
    for ours, theirs in _PAIRS:
        if len(runs.get(ours, [])) < 2 or theirs not in runs:
            continue
        worse = [_final(b) - _final(a) for a, b in zip(runs[ours], runs[theirs])]
        if not higher_is_better:
            worse = [-difference for difference in worse]
        mean = statistics.fmean(worse)
        error = statistics.stdev(worse) / math.sqrt(len(worse))
        yield {"comparison": f"`{ours}`: final merit, by how much worse than `{theirs}`",
               "mean": mean, "standard error": error, "holds": mean <= _STANDARD_ERRORS * error}
