"""The demo's page: two plots and two tables, in one file that needs nothing else."""

import html

import demo_links
import demo_table
import page_style
import svg_plot


def _plot_range(runs, target):
    """The part of the accuracy axis where the settings differ: the first evaluations lie below."""
    accuracies = [p["accuracy"] for run in runs for p in run["points"]]
    top = max([*accuracies, target])
    return max(0.0, min(target, top) - 12.0), min(100.0, top + 0.5)


def _plots(runs):
    target = runs[0]["target"]
    low, high = _plot_range(runs, target)
    accuracy = svg_plot.Axis("test accuracy, %", low, high)

    def series(x_of):
        return [
            svg_plot.Series(
                run["spec"], slot, [(x_of(p), p["accuracy"]) for p in run["points"] if p["step"]]
            )
            for slot, run in enumerate(runs)
        ]

    def card(heading, lines, x_axis):
        svg = svg_plot.Plot(x_axis, accuracy, target).svg(lines, heading)
        return f'<section class="card"><h2>{html.escape(heading)}</h2>\n{svg}</section>'

    by_time = series(lambda p: p["seconds"])
    by_bytes = series(lambda p: p["sent_bytes"] / 1e6)
    seconds = [x for one in by_time for x, _ in one.points]
    megabytes = [x for one in by_bytes for x, _ in one.points if x > 0]
    time_axis = svg_plot.Axis("seconds of training", 0.0, max(seconds, default=1.0))
    yield card("Test accuracy against time", by_time, time_axis)
    if megabytes:
        bytes_axis = svg_plot.Axis(
            "megabytes sent by a rank (logarithmic)",
            min(megabytes),
            max(max(megabytes), 2 * min(megabytes)),
            True,
        )
        yield card("Test accuracy against traffic", by_bytes, bytes_axis)


def _legend(runs):
    items = (
        f'<li><span class="key" style="--c:var(--line-{slot})"></span>'
        f"{html.escape(run['spec'])}</li>"
        for slot, run in enumerate(runs)
    )
    return '<ul class="legend">' + "".join(items) + "</ul>"


def _table(rows):
    head = "".join(f"<th>{html.escape(c)}</th>" for c in demo_table.COLUMNS)
    body = []
    for slot, row in enumerate(rows):
        texts = [html.escape(demo_table.cell(c, row[c])) for c in demo_table.COLUMNS]
        key = f'<span class="key" style="--c:var(--line-{slot})"></span>'
        body.append(f"<tr><td>{key}{texts[0]}</td>" + "".join(f"<td>{t}</td>" for t in texts[1:]))
    return f'<table class="runs"><tr>{head}</tr>\n' + "\n".join(body) + "</table>"


def _links_table(table):
    links = table["links"]
    head = "<th>step_ms</th>" + "".join(f"<th>{demo_links.link_text(link)}</th>" for link in links)
    body = []
    for setting in table["rows"]:
        texts = [demo_links.cell(table, setting, link).strip() for link in links]
        cells = (f"<td><b>{t}</b>" if t.endswith("*") else f"<td>{t}" for t in texts)
        body.append(f"<tr><td>{html.escape(setting)}</td>" + "</td>".join(cells) + "</td>")
    return f"<table><tr>{head}</tr>\n" + "\n".join(body) + "</table>"


def make_page(runs, rows, by_link):
    """The page's text. runs: JSON of each setting; rows: demo_table.make_rows; by_link:
    demo_links.make_table."""
    subtitle = html.escape(demo_table.title(runs[0]))
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>gradwire demo</title>
<style>{page_style.STYLE}</style>
<main>
<h1>gradwire: training over a slow network</h1>
<p>{subtitle}</p>
{_legend(runs)}
<div class="plots">
{"".join(_plots(runs))}
</div>
<section class="card scroll">
{_table(rows)}
</section>
<div class="notes">
{"".join(f"<p>{html.escape(n)}</p>" for n in demo_table.footnotes(runs))}
</div>
<h2 class="second">Other links</h2>
<section class="card scroll">
{_links_table(by_link)}
</section>
<div class="notes"><p>{html.escape(demo_links.title(by_link))}</p></div>
</main>
</html>
"""
