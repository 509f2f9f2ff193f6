"""Time of a step under every setting, in blocks by turns, and what of it is communication."""

import dataclasses
import hashlib
import math
import statistics

import ratios
import settings
from arguments import size as at_least
from cells import UNLIMITED

_SEED = 1
_SAFE_SPEED, _SAFE_SPEED_LOW = 0.98, 0.96


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is run; the defaults are those of published tables, the second numbers the least from
    which one can be made."""

    blocks: int = at_least(10, 2)  # PyTorch's fastest is picked on even ones, compared on odd ones
    block: int = at_least(20, 1)  # steps
    warm_up: int = at_least(12, 0)  # powerSGD_hook has compressed ten times
    auto_warm_up: int = at_least(200, 0)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Ours over theirs: time of a step, or what of it is exposed communication."""

    name: str
    ours: str
    theirs: tuple  # the fastest of them
    allowed: float
    of_exposed: bool


_PLAIN = (settings.PLAIN,)
_COMPARISONS = (
    Comparison("none: exposed over plain DDP's", settings.OURS + "none", _PLAIN, 1.05, True),
    Comparison("bf16: exposed over bf16_compress_hook's", settings.OURS + "bf16",
               (settings.BF16_HOOK,), 1.05, True),
    Comparison("powersgd(rank=4): exposed over powerSGD_hook's", settings.OURS + "powersgd(rank=4)",
               (settings.POWERSGD_HOOK.format(4),), 0.5, True),
    Comparison("auto: step over PyTorch's fastest", settings.AUTO, settings.PYTORCH, 1.03, False),
    Comparison("auto with low rank: step over PyTorch's fastest", settings.AUTO_LOW_RANK,
               settings.PYTORCH, 1.03, False),
)  # fmt: skip


class StepTable:
    """All settings side by side in one job."""

    NAME = "step"
    TITLE = "Time of a step"
    Size = Size

    def __init__(self, chosen, _seeds):
        self._settings = chosen

    def parts(self, _cell, _size):
        """The blocks take turns. Of what was kept only the same settings are of use."""
        digest = hashlib.sha256("\n".join(self._settings).encode()).hexdigest()
        return [f"all-{digest[:8]}"]

    def measure(self, jobs, cell, _part, size):
        """As rank.py steps."""
        every = (settings.NOOP, *self._settings)
        return jobs.rank(cell, "steps", workload=cell.workload, seed=_SEED, setting=every,
                         **dataclasses.asdict(size))

    def result(self, cell, by_part):
        """{"settings": a row each, "comparisons": a row each}"""
        (measured,) = by_part.values()
        times = {row["setting"]: _Times(row["blocks"]) for row in measured["settings"]}
        idle = times[settings.NOOP]
        return {
            **dataclasses.asdict(cell), "parameters": measured["parameters"],
            "torch": measured["torch"], "gradwire": measured["gradwire"],
            "machine": measured["machine"],
            "settings": [{"setting": s, **t.row(idle)} for s, t in times.items()],
            "comparisons": list(_compare(cell, times, idle)),
        }  # fmt: skip

    def sections(self, result):
        """The tables of a cell: rows each."""
        times = [
            {
                "setting": f"`{row['setting']}`", "step ms": _text(row["step_ms"]),
                "exposed ms": _text(row["exposed_ms"]), "processor ms": row["cpu_ms"],
                "sent kB": row["sent_kb"],
            }
            for row in result["settings"]
        ]  # fmt: skip
        compared = [{**row, "ratio": _text(row["ratio"], 3)} for row in result["comparisons"]]
        return [times, compared]


class _Times:
    """Of one setting, by block; a block's first step is left out."""

    def __init__(self, blocks):
        self._blocks = blocks
        self.step_ms = [statistics.median(b["step_ms"][1:] or b["step_ms"]) for b in blocks]

    def exposed_ms(self, idle):
        """By block, against the step without communication of the same round."""
        return [t - without for t, without in zip(self.step_ms, idle.step_ms)]

    def row(self, idle):
        """Medians over the blocks, with intervals."""
        sent = [b["sent_bytes"] for b in self._blocks if "sent_bytes" in b]
        return {
            "step_ms": _interval(self.step_ms), "exposed_ms": _interval(self.exposed_ms(idle)),
            "cpu_ms": statistics.median(b["cpu_ms"] for b in self._blocks),
            "sent_kb": round(statistics.median(sent) / 1000) if sent else None,
        }  # fmt: skip


def _interval(values):
    return dataclasses.asdict(ratios.median_ratio(values))


def _text(interval, digits=1):
    if interval is None:
        return None
    value, low, high = (f"{interval[name]:.{digits}f}" for name in ("value", "low", "high"))
    return f"{value} ({low}..{high})"


def _fastest(times, names):
    """On even rounds: it is compared on odd ones, so that luck does not count twice."""
    return min(names, key=lambda s: statistics.fmean(map(math.log, times[s].step_ms[::2])))


def _compare(cell, times, idle):
    limited = cell.link != UNLIMITED
    for comparison in _COMPARISONS:
        rivals = [s for s in comparison.theirs if s in times]
        if comparison.ours not in times or not rivals:
            continue
        rival = _fastest(times, rivals)
        ratio = _ratio(comparison, times[comparison.ours], times[rival], idle, len(rivals) > 1)
        holds = ratio["value"] <= comparison.allowed if ratio and limited else None
        yield {"comparison": comparison.name, "against": f"`{rival}`", "ratio": ratio,
               "goal": f"<= {comparison.allowed}" if limited else None, "holds": holds}
    if not limited and {settings.AUTO, settings.PLAIN} <= set(times):
        yield _safety(times)


def _ratio(comparison, ours, theirs, idle, was_picked):
    one, other = ((t.exposed_ms(idle) if comparison.of_exposed else t.step_ms) for t in (ours, theirs))
    if was_picked:
        one, other = one[1::2], other[1::2]
    # No ratio of what is lost in noise.
    return _interval([a / b for a, b in zip(one, other)]) if min(other) > 0 else None


def _safety(times):
    plain, auto = times[settings.PLAIN].step_ms, times[settings.AUTO].step_ms
    speed = _interval([a / b for a, b in zip(plain, auto)])
    return {"comparison": "auto: speed over plain DDP's", "against": f"`{settings.PLAIN}`",
            "ratio": speed, "goal": f">= {_SAFE_SPEED}, at least {_SAFE_SPEED_LOW}",
            "holds": speed["value"] >= _SAFE_SPEED and speed["low"] >= _SAFE_SPEED_LOW}
