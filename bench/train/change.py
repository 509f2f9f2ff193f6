"""Change: links that become slower or faster in mid-run, stalled steps, late ranks."""

import dataclasses
import math
import statistics

import cells
import ratios
import runs

NAME = "change"
TITLE = "Change: auto after links or ranks have changed in mid-run"
select = cells.select
_TENTH = {"100mbit": "10mbit", "1gbit": "100mbit", "10gbit": "1gbit"}
# Steps before something changes. Where a time stands for it, later runs begin that much earlier or
# later than the one that told the time: a share of the steps, and seconds where steps are short.
_BEFORE = 200
_SPREAD, _SPREAD_S = 0.4, 0.5
# Steps after which `auto` has to be near the new best, and those that are looked at then.
_GRACE = {"slower": 40, "faster": 150}
_LOOKED_AT = 20
_ALLOWED = 1.10
# In steps of the run: one that stalls, and how late a rank is.
_STALL, _LATE = 10, 1
# What a stall or a late rank leads to is decided by then: after a window, two steps until a trial
# begins, and twelve of its blocks of four steps.
_HEEDED = 5 + 2 + 12 * 4
# Of the fixed codecs on the new link, in turns.
_BEST_BLOCKS = 6
# Beside a straggler: blocks of so many steps, those compared before and at the end, and all. A trial
# takes a few of them. Before, `auto` has so many seconds to settle, where steps are short.
_BLOCK, _COMPARED, _BLOCKS = 5, 16, 56
_SETTLED_S = 2
# Votes and frames differ between blocks.
_SAME_BYTES = 0.98


def parts(cell, _size):
    """The cases."""
    links = ["slower", "faster"] if cell.link != cells.UNLIMITED else []
    return [*links, "stall", "late", "straggler"]


def measure(jobs, cell, part, size):
    """The run that the part's row is made from."""
    options = [*runs.options(runs.compute_ms(jobs, cell), size), "-x", cell.auto]
    if part in _GRACE:
        slow = dataclasses.replace(cell, link=_TENTH[cell.link])
        before, after = (cell, slow) if part == "slower" else (slow, cell)
        run = _across_change(jobs, before, after.link, options, part)
    elif part == "straggler":
        run = _straggler(jobs, cell, options)
    else:
        run = _stall(jobs, cell, options, part)
    return runs.compact(run)


def _across_change(jobs, cell, new_link, options, part):
    """`auto` warms up while its links change, then takes turns with the fixed codecs on the new
    ones. A run before tells at what time it will have done its first steps."""
    rehearsal = jobs.train(cell, [*options, "--steps", str(_BEFORE)])
    (row,) = rehearsal["results"]
    launch_s = row["blocks"][0]["begin_s"][0] - rehearsal["launched_s"]
    step_ms = _steady_ms(row)
    spread = max(round(_SPREAD * _BEFORE), math.ceil(1e3 * _SPREAD_S / step_ms))
    before = max(_BEFORE, spread)
    seconds = launch_s + 1e-3 * before * step_ms
    steps = before + spread + _GRACE[part] + _LOOKED_AT
    options += [option for spec in cell.fixed for option in ("-x", spec)]
    options += ["-w", str(runs.WARM_UPS), "--auto-warmup", str(steps)]
    options += ["--blocks", str(_BEST_BLOCKS)]
    return jobs.train(cell, options, [(f"{seconds:.2f}", new_link)])


def _steady_ms(row):
    """Of a step in the second half of a rehearsal."""
    return statistics.median(row["blocks"][0]["step_ms"][_BEFORE // 2 :])


def _rehearsed_ms(jobs, cell, options):
    """Of a step."""
    (row,) = jobs.train(cell, [*options, "--steps", str(_BEFORE)])["results"]
    return _steady_ms(row)


def _stall(jobs, cell, options, part):
    """One rank stalls once, or is late in two steps."""
    longer, steps = (_STALL, 1) if part == "stall" else (_LATE, 2)
    late_ms = longer * _rehearsed_ms(jobs, cell, options)
    late = f"1:{late_ms:.2f}:{_BEFORE}:{steps}"
    return jobs.train(cell, [*options, "--late", late, "--steps", str(_BEFORE + _HEEDED + 1)])


def _straggler(jobs, cell, options):
    """A rank stays late as soon as the first blocks have been run."""
    step_ms = _rehearsed_ms(jobs, cell, options)
    before = max(_BEFORE, math.ceil(1e3 * _SETTLED_S / step_ms))
    late = f"1:{_LATE * step_ms:.2f}:{before + _BLOCK * _COMPARED}"
    sizes = ["-w", str(before), "--blocks", str(_BLOCKS), "--block", str(_BLOCK)]
    return jobs.train(cell, [*options, "--late", late, *sizes])


def _bytes_left(run):
    """Bytes of the last blocks, over those before the rank was late."""
    sent = [block["wire_bytes"] for block in run["results"][0]["blocks"]]
    return statistics.median(sent[-_COMPARED:]) / statistics.median(sent[:_COMPARED])


def _near_best(run, part):
    """Time of a step over the best, after the grace; None: the run ended too early for that, or
    before its links had changed at all."""
    auto, *fixed = run["results"]
    changes = run["rate_changes"]
    if not changes:
        return None
    steps = auto["warm_up"]
    at = sum(begin < changes[0]["at_s"] for begin in steps["begin_s"]) + _GRACE[part]
    later = steps["step_ms"][at : at + _LOOKED_AT]
    best_ms = min(runs.typical(runs.block_medians(row)) for row in fixed)
    if len(later) < _LOOKED_AT:
        return None
    return ratios.median_ratio([ms / best_ms for ms in later])


def _changes(run):
    """Plans that were adopted because of what happened at step _BEFORE, or by chance right then."""
    (row,) = run["results"]
    heeded = range(_BEFORE, _BEFORE + _HEEDED)
    texts = [plan["change"] for plan in row["plan_changes"] if plan["step"] in heeded]
    return sum(not text.startswith("on trial") and text != "no change" for text in texts)


def row(cell, by_part):
    """All cases of a cell."""
    columns = cell.columns()
    holds = []
    for part, run in by_part.items():
        if part in _GRACE:
            value = _near_best(run, part)
            columns[f"{part}: {_GRACE[part]} steps later, over the new best"] = value and value.text()
            holds.append(value is not None and value.value <= _ALLOWED)
        elif part == "straggler":
            columns["straggler: bytes over those before"] = _bytes_left(run)
            holds.append(_bytes_left(run) >= _SAME_BYTES)
        else:
            columns[f"{part}: changes of plan"] = _changes(run)
            holds.append(_changes(run) == 0)
    columns["holds"] = all(holds)
    return columns
