"""The page of time to accuracy, as `gradwire report` reads it: a plot and a table for each cell."""

import math

import settings
import tables

# PyTorch's are dashed, in the colour of what they are to be compared with.
_COLOURS = ("none", "bf16", "qsgd(bits=8", "qsgd(bits=4", "topk", "powersgd(rank=1",
            "powersgd(rank=4", "auto")  # fmt: skip
_COLOUR_OF_HOOK = {
    settings.PLAIN: 0, settings.BF16_HOOK: 1, "torch:quantization_pertensor_hook": 2,
    "torch:quantization_perchannel_hook": 3, settings.POWERSGD_HOOK.format(1): 5,
    settings.POWERSGD_HOOK.format(4): 6,
}  # fmt: skip
# Of the merit's range: the first evaluations lie outside the plot.
_SHOWN = 0.35


def _colour(setting):
    if setting in _COLOUR_OF_HOOK:
        return _COLOUR_OF_HOOK[setting]
    spec = setting.removeprefix(settings.OURS)
    found = (i for i, prefix in enumerate(_COLOURS) if spec.startswith(prefix))
    return next(found, len(_COLOURS) - 1)


def _curve(row):
    """Its points; a training that diverged has some that are no numbers."""
    return [[seconds, merit] for seconds, merit in row["curve"] if math.isfinite(merit)]


def _series(row):
    setting = row["setting"]
    return {
        "name": setting,
        "points": _curve(row),
        "colour": _colour(setting),
        "dashed": not setting.startswith(settings.OURS),
    }


def _merit_axis(result):
    """The part where the settings differ: about the target and beyond it."""
    target = result["target"]
    merits = [target, *(merit for row in result["settings"] for _, merit in _curve(row))]
    low, high = min(merits), max(merits)
    shown = max(_SHOWN * (high - low), 0.01 * abs(target))
    if result["higher_is_better"]:
        low = min(target, high - shown)
    else:
        high = max(target, low + shown)
    return {"label": result["merit"], "low": low, "high": high}


def _section(table, result):
    rows = table.sections(result)[0]
    heading = f"{result['workload']}, {result['link']}, {result['ranks']} ranks"
    plot = {
        "heading": heading,
        "x": {"label": "seconds of training", "low": 0},
        "y": _merit_axis(result),
        "target": {"value": result["target"], "text": f"target {result['target']:g}"},
        "series": [_series(row) for row in result["settings"]],
    }
    cells = [[tables.cell_text(value).strip("`") for value in row.values()] for row in rows]
    return {"heading": heading, "plots": [plot], "tables": [{"columns": list(rows[0]), "rows": cells}]}


def make_page(table, results):
    """The page as data."""
    return {
        "page": 1,
        "title": "DistributedDataParallel: time to accuracy",
        "subtitle": "Means over the seeds. PyTorch's own hooks are dashed.",
        "sections": [_section(table, result) for result in results],
    }
