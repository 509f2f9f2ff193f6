"""The demo's page: two plots and two tables, in one file that needs nothing else."""

import html

import demo_links
import demo_table
import svg_plot

_STYLE = """
:root{color-scheme:light dark;
--page:#fbfbfa;--card:#ffffff;--ink:#1d1d1b;--muted:#63625d;--grid:#e7e6e2;--edge:#dddcd7;
--line-0:#77756e;--line-1:#2a78d6;--line-2:#0f9b6c;--line-3:#d97706;--line-4:#b83280;
--line-5:#6d4fc4;--line-6:#0e8a9b;--line-7:#a3541a}
@media(prefers-color-scheme:dark){:root{
--page:#161615;--card:#1f1f1d;--ink:#f1f0ec;--muted:#a9a79f;--grid:#32312e;--edge:#3a3936;
--line-0:#a5a39b;--line-1:#5b9df0;--line-2:#2fbf8f;--line-3:#f0a03c;--line-4:#e76bb0;
--line-5:#a58bf0;--line-6:#40bccd;--line-7:#d98a50}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1360px;margin:0 auto;padding:28px 20px 40px}
h1{font-size:23px;margin:0 0 4px;letter-spacing:-.01em}
h2{font-size:15px;margin:0 0 6px;font-weight:600}
p{margin:0;color:var(--muted)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:16px;
margin:14px 0 16px}
.card{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:14px 16px}
svg{display:block;width:100%;height:auto}
.legend{display:flex;flex-wrap:wrap;gap:6px 20px;margin:16px 0 0;padding:0;list-style:none}
.legend li,td:first-child{white-space:nowrap}
.key{display:inline-block;width:22px;height:3px;border-radius:2px;vertical-align:middle;
margin-right:8px;background:var(--c)}
.grid{stroke:var(--grid)}.axis{stroke:var(--muted);fill:none}
.tick{fill:var(--muted);font-size:12px;font-variant-numeric:tabular-nums}
.label{fill:var(--ink);font-size:13px}.note{fill:var(--ink);font-size:12px;
paint-order:stroke;stroke:var(--card);stroke-width:4px}
.target{stroke:var(--ink);stroke-dasharray:5 4;stroke-width:1.2}
.series path{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}
.series circle{fill:var(--c);stroke:var(--card);stroke-width:1}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th{font-weight:600;color:var(--muted);font-size:13px}
th,td{padding:6px 10px;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}
th:first-child,td:first-child{text-align:left}
tr:last-child td{border-bottom:0}
.runs td:last-child{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:13px}
.notes{margin-top:14px;font-size:13px;color:var(--muted)}
.notes p+p{margin-top:2px}
.second{margin-top:24px}
"""


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
<style>{_STYLE}</style>
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
