"""What the demo's page shows, as `gradwire report` reads it: two plots and two tables."""

import demo_links
import demo_table


def _plot_range(runs, target):
    """The part of the accuracy axis where the settings differ: the first evaluations lie below."""
    accuracies = [p["accuracy"] for run in runs for p in run["points"]]
    top = max([*accuracies, target])
    return max(0.0, min(target, top) - 12.0), min(100.0, top + 0.5)


def _plot(heading, runs, x_axis, x_of):
    target = runs[0]["target"]
    low, high = _plot_range(runs, target)
    return {
        "heading": heading,
        "x": x_axis,
        "y": {"label": "test accuracy, %", "low": low, "high": high},
        "target": {"value": target, "text": f"target {target:g} %"},
        "series": [
            {
                "name": run["spec"],
                "points": [[x_of(p), p["accuracy"]] for p in run["points"] if p["step"]],
            }
            for run in runs
        ],
    }


def _plots(runs):
    seconds = {"label": "seconds of training"}
    yield _plot("Test accuracy against time", runs, seconds, lambda p: p["seconds"])
    if any(p["sent_bytes"] for run in runs for p in run["points"]):
        sent = {"label": "MB sent by a rank", "logarithmic": True}
        yield _plot("Test accuracy against traffic", runs, sent, lambda p: p["sent_bytes"] / 1e6)


def _table(rows):
    columns = demo_table.COLUMNS
    return {
        "columns": columns,
        "rows": [[demo_table.cell(c, row[c]) for c in columns] for row in rows],
    }


def _links_table(table):
    links = table["links"]
    return {
        "columns": ["step_ms", *map(demo_links.link_text, links)],
        "rows": [
            [setting, *(demo_links.cell(table, setting, link).strip() for link in links)]
            for setting in table["rows"]
        ],
    }


def make_page(runs, rows, by_link):
    """The page as data. runs: JSON of each setting; rows: demo_table.make_rows; by_link:
    demo_links.make_table."""
    settings = {
        "plots": list(_plots(runs)),
        "tables": [_table(rows)],
        "notes": demo_table.footnotes(runs),
    }
    links = {
        "heading": "Other links",
        "tables": [_links_table(by_link)],
        "notes": [demo_links.title(by_link)],
    }
    return {
        "page": 1,
        "title": "gradwire: training over a slow network",
        "subtitle": demo_table.title(runs[0]),
        "sections": [settings, links],
    }
