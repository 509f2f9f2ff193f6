"""Compute sweep: on one link, the more is computed the less it pays to compress."""

import cells
import jobs as gradwire_jobs
import oracle
import ratios
import runs

NAME = "sweep"
TITLE = "Compute sweep: what auto settles on as computing grows"
select = cells.select
_FACTORS = (0.2, 1, 5, 20)
# Of none's bytes: what no trial tells from it may stay compressed.
_PLAIN = 0.95
_HOGGED_FACTOR = 1
_HOG = "hog"


def parts(_cell, _size):
    """The factors, and one of them beside busy neighbours."""
    return [f"x{factor:g}" for factor in _FACTORS] + [_HOG]


def measure(jobs, cell, part, size):
    """What `auto` settles on, in turns with none; beside the neighbours with every fixed codec."""
    factor = _HOGGED_FACTOR if part == _HOG else float(part.removeprefix("x"))
    compute_ms = runs.compute_ms(jobs, cell, factor)
    if part == _HOG:
        with gradwire_jobs.Neighbours():
            result = jobs.train(cell, runs.rotation([*cell.fixed, cell.auto], compute_ms, size))
    else:
        result = jobs.train(cell, runs.rotation(["none", cell.auto], compute_ms, size))
    return {"compute_ms": compute_ms, "train": runs.compact(result)}


def row(cell, by_part):
    """Bytes that are left of none's, for each factor and beside busy neighbours."""
    columns = {name: value for name, value in cell.columns().items() if name != "compute"}
    left = {}
    for part, measured in by_part.items():
        rows = {r["spec"]: r for r in measured["train"]["results"]}
        auto = rows[cell.auto]
        left[part] = auto["wire_bytes"] / rows["none"]["wire_bytes"]
        columns[f"{part} bytes"] = left[part]
        by_round = zip(runs.block_medians(auto), runs.block_medians(rows["none"]))
        columns[f"{part} time"] = ratios.median_ratio([a / b for a, b in by_round]).text()
    # Between two runs the bytes of votes and frames move by less.
    tolerance = 0.02
    growing = [left[part] for part in parts(cell, None) if part in left and part != _HOG]
    compresses_less = all(b >= a - tolerance for a, b in zip(growing, growing[1:]))
    columns["holds"] = compresses_less and _reaches_none(left)
    if _HOG in by_part:
        rows = by_part[_HOG]["train"]["results"]
        times = {r["spec"]: runs.block_medians(r) for r in rows}
        columns["hog winner"], ratio = oracle.against_winner(cell, times)
        columns["hog auto/winner"] = ratio.text()
        without = left.get(f"x{_HOGGED_FACTOR}", 0)
        # Copies are work of the processor, too: the lighter plan may be the one that sends less.
        is_lighter = left[_HOG] >= without - tolerance
        columns["holds"] = columns["holds"] and (is_lighter or oracle.is_near(ratio))
    return columns


def _reaches_none(left):
    """From a plan that compresses to one that does not; of a part of the factors nothing is known."""
    ends = [left.get(f"x{factor:g}") for factor in (_FACTORS[0], _FACTORS[-1])]
    return None in ends or ends[0] < _PLAIN <= ends[1]
