"""Change: links that become slower or faster in mid-run, stalled steps, late ranks."""

import dataclasses
import statistics

import cells
import runs

NAME = "change"
TITLE = "Change: auto after links or ranks have changed in mid-run"
select = cells.select
_TENTH = {"100mbit": "10mbit", "1gbit": "100mbit", "10gbit": "1gbit"}
# About so many steps have been run when something changes.
_BEFORE = 200
_SPREAD = 1.4  # of that number, where a time stands for it
# Steps after which `auto` has to be near the new best, and those that are looked at then.
_GRACE = {"slower": 40, "faster": 150}
_LOOKED_AT = 20
_ALLOWED = 1.10
# In steps of the run: one that stalls, and how late a rank is.
_STALL, _LATE = 10, 1
# What a late rank leads to would be decided by then.
_HEEDED = 20
# Blocks and steps at the end; a trial takes a few of them.
_LAST = 16, 5
# Votes and frames differ between two runs.
_SAME_BYTES = 0.98


def parts(cell, _size):
    """The cases."""
    links = ["slower", "faster"] if cell.link != cells.UNLIMITED else []
    return [*links, "stall", "late", "straggler"]


def measure(jobs, cell, part, size):
    """What the part's row is made from."""
    compute_ms = runs.compute_ms(jobs, cell)
    options = [*runs.options(compute_ms, size), "-x", cell.auto]
    if part in _GRACE:
        slow = dataclasses.replace(cell, link=_TENTH[cell.link])
        before, after = (cell, slow) if part == "slower" else (slow, cell)
        return {
            "best_ms": _best_ms(jobs, after, compute_ms, size),
            "auto": runs.compact(_after_change(jobs, before, after.link, options, part)),
        }
    if part == "straggler":
        return _straggler(jobs, cell, options)
    return _stall(jobs, cell, options, part)


def _best_ms(jobs, cell, compute_ms, size):
    """Of a step with the best of the fixed codecs."""
    options = runs.options(compute_ms, size)
    options += [option for spec in cell.fixed for option in ("-x", spec)]
    rows = jobs.train(cell, [*options, "-w", str(runs.WARM_UPS)])["results"]
    return min(row["step_ms"] for row in rows)


def _after_change(jobs, cell, new_link, options, part):
    """A run whose links change after about _BEFORE steps; a run before tells when that is."""
    rehearsal = jobs.train(cell, [*options, "--steps", str(_BEFORE)])
    begins = rehearsal["results"][0]["blocks"][0]["begin_s"]
    seconds = begins[-1] - rehearsal["launched_s"]
    steps = round(_SPREAD * _BEFORE) + _GRACE[part] + _LOOKED_AT
    return jobs.train(cell, [*options, "--steps", str(steps)], [(f"{seconds:.2f}", new_link)])


def _steady_ms(jobs, cell, options):
    (row,) = jobs.train(cell, [*options, "--steps", str(_BEFORE)])["results"]
    return statistics.median(row["blocks"][0]["step_ms"][_BEFORE // 2 :])


def _stall(jobs, cell, options, part):
    """One rank stalls once, or is late in two steps."""
    longer, steps = (_STALL, 1) if part == "stall" else (_LATE, 2)
    late = f"1:{longer * _steady_ms(jobs, cell, options):.2f}:{_BEFORE}:{steps}"
    run = jobs.train(cell, [*options, "--late", late, "--steps", str(_BEFORE + 2 * _HEEDED)])
    return {"auto": runs.compact(run)}


def _straggler(jobs, cell, options):
    """Bytes of the last blocks, without and with a rank that stays late."""
    late = f"1:{_LATE * _steady_ms(jobs, cell, options):.2f}:{_BEFORE}"
    blocks, steps = (str(n) for n in _LAST)
    options = [*options, "-w", str(2 * _BEFORE), "--blocks", blocks, "--block", steps]
    usual, straggling = (jobs.train(cell, [*options, *more]) for more in ([], ["--late", late]))
    return {"bytes": _block_bytes(usual), "straggler_bytes": _block_bytes(straggling)}


def _block_bytes(result):
    return [block["wire_bytes"] for block in result["results"][0]["blocks"]]


def _near_best(measured, part):
    """Time of a step over the best, after the grace; None: the run ended too early for that, or
    before its links had changed at all."""
    (row,) = measured["auto"]["results"]
    changes = measured["auto"]["rate_changes"]
    if not changes:
        return None
    steps = row["blocks"][0]
    at = sum(begin < changes[0]["at_s"] for begin in steps["begin_s"]) + _GRACE[part]
    later = steps["step_ms"][at : at + _LOOKED_AT]
    return statistics.median(later) / measured["best_ms"] if len(later) == _LOOKED_AT else None


def _changes(measured):
    """Plans that were adopted because of what happened at step _BEFORE, or by chance right then."""
    (row,) = measured["auto"]["results"]
    heeded = range(_BEFORE, _BEFORE + _HEEDED)
    texts = [plan["change"] for plan in row["plan_changes"] if plan["step"] in heeded]
    return sum(not text.startswith("on trial") and text != "no change" for text in texts)


def row(cell, by_part):
    """All cases of a cell."""
    columns = cell.columns()
    holds = []
    for part, measured in by_part.items():
        if part in _GRACE:
            value = _near_best(measured, part)
            columns[f"{part}: {_GRACE[part]} steps later, over the new best"] = value
            holds.append(value is not None and value <= _ALLOWED)
        elif part == "straggler":
            value = statistics.median(measured["straggler_bytes"]) / statistics.median(measured["bytes"])
            columns["straggler: bytes over those before"] = value
            holds.append(value >= _SAME_BYTES)
        else:
            columns[f"{part}: changes of plan"] = _changes(measured)
            holds.append(_changes(measured) == 0)
    columns["holds"] = all(holds)
    return columns
