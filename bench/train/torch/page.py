"""The page of time to accuracy: a plot for each cell, in one file that needs nothing else."""

import html

import page_style
import settings
import svg_plot
import tables

# PyTorch's are dashed, in the colour of what they are to be compared with.
_STYLE = page_style.STYLE + ".theirs path{stroke-dasharray:6 4}.theirs{opacity:.85}\n"
_OURS, _THEIRS = "series", "series theirs"
_SLOTS = ("none", "bf16", "qsgd(bits=8", "qsgd(bits=4", "topk", "powersgd(rank=1", "powersgd(rank=4",
          "auto")  # fmt: skip
_SLOT_OF_HOOK = {
    settings.PLAIN: 0, settings.BF16_HOOK: 1, "torch:quantization_pertensor_hook": 2,
    "torch:quantization_perchannel_hook": 3, settings.POWERSGD_HOOK.format(1): 5,
    settings.POWERSGD_HOOK.format(4): 6,
}  # fmt: skip
# Of the merit's range: the first evaluations lie outside the plot.
_SHOWN = 0.35


def _slot(setting):
    if setting in _SLOT_OF_HOOK:
        return _SLOT_OF_HOOK[setting]
    spec = setting.removeprefix(settings.OURS)
    return next((i for i, prefix in enumerate(_SLOTS) if spec.startswith(prefix)), len(_SLOTS) - 1)


def _series(row):
    css = _OURS if row["setting"].startswith(settings.OURS) else _THEIRS
    return svg_plot.Series(row["setting"], _slot(row["setting"]), row["curve"], css)


def _merit_axis(result, merits):
    """The part where the settings differ: about the target and beyond it."""
    low, high = min([*merits, result["target"]]), max([*merits, result["target"]])
    shown = max(_SHOWN * (high - low), 0.01 * abs(result["target"]))
    if result["higher_is_better"]:
        return svg_plot.Axis(result["merit"], min(result["target"], high - shown), high)
    return svg_plot.Axis(result["merit"], low, max(result["target"], low + shown))


def _plot(result):
    series = [_series(row) for row in result["settings"]]
    points = [point for one in series for point in one.points]
    seconds = svg_plot.Axis("seconds of training", 0.0, max(x for x, _ in points))
    merit = _merit_axis(result, [y for _, y in points])
    return svg_plot.Plot(seconds, merit, result["target"], unit="").svg(series, _heading(result))


def _heading(result):
    return f"{result['workload']}, {result['link']}, {result['ranks']} ranks"


def _legend(results):
    names = dict.fromkeys(row["setting"] for result in results for row in result["settings"])
    items = (
        f'<li><span class="key" style="--c:var(--line-{_slot(name)})"></span>{html.escape(name)}</li>'
        for name in names
    )
    return '<ul class="legend">' + "".join(items) + "</ul>"


def _table(rows):
    names = list(rows[0])
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(tables.cell_text(row[n]))}</td>" for n in names)
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _card(table, result):
    rows = table.sections(result)[0]
    rows = [{**row, "setting": row["setting"].strip("`")} for row in rows]
    return (f'<section class="card scroll"><h2>{html.escape(_heading(result))}</h2>'
            f"{_plot(result)}{_table(rows)}</section>")


def make_page(table, results):
    """The page's text."""
    cards = "\n".join(_card(table, result) for result in results)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>gradwire and PyTorch's hooks: time to accuracy</title>
<style>{_STYLE}</style>
<main>
<h1>DistributedDataParallel: time to accuracy</h1>
<p>Means over the seeds. PyTorch's own hooks are dashed.</p>
{_legend(results)}
<div class="plots">
{cards}
</div>
</main>
</html>
"""
