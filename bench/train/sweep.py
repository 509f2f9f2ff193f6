"""Compute sweep: on one link, the more is computed the less it pays to compress."""

import cells
import jobs as gradwire_jobs
import runs

NAME = "sweep"
TITLE = "Compute sweep: what auto settles on as computing grows"
select = cells.select
_FACTORS = (0.2, 1, 5, 20)
_HOGGED_FACTOR = 1
_HOG = "hog"


def parts(_cell, _size):
    """The factors, and one of them beside busy neighbours."""
    return [f"x{factor:g}" for factor in _FACTORS] + [_HOG]


def measure(jobs, cell, part, size):
    """What `auto` settles on, and none beside it."""
    factor = _HOGGED_FACTOR if part == _HOG else float(part.removeprefix("x"))
    compute_ms = runs.compute_ms(jobs, cell, factor)
    options = runs.rotation(["none", cell.auto], compute_ms, size)
    if part == _HOG:
        with gradwire_jobs.Neighbours():
            result = jobs.train(cell, options)
    else:
        result = jobs.train(cell, options)
    return {"compute_ms": compute_ms, "train": runs.compact(result)}


def row(cell, by_part):
    """Bytes that are left of none's, for each factor and beside busy neighbours."""
    columns = {name: value for name, value in cell.columns().items() if name != "compute"}
    left = {}
    for part, measured in by_part.items():
        none, auto = measured["train"]["results"]
        left[part] = auto["wire_bytes"] / none["wire_bytes"]
        columns[f"{part} bytes"] = left[part]
        columns[f"{part} time"] = auto["ratio"]
    # Between two runs the bytes of votes and frames move by less.
    tolerance = 0.02
    growing = [left[part] for part in parts(cell, None) if part in left and part != _HOG]
    compresses_less = all(b >= a - tolerance for a, b in zip(growing, growing[1:]))
    columns["holds"] = compresses_less and _hog_makes_lighter(left, tolerance)
    return columns


def _hog_makes_lighter(left, tolerance):
    """Beside busy neighbours no more is compressed than without."""
    without = f"x{_HOGGED_FACTOR}"
    return _HOG not in left or without not in left or left[_HOG] >= left[without] - tolerance
