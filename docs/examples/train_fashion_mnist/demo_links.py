"""The demo's second table: how long a step takes with each setting on links of several speeds.

Steps of `gradwire train`: synthetic gradients with the network's shapes, and as much computing as
the demo's own steps have. All settings take turns in one run for each link.
"""

import statistics

import demo_table

UNLIMITED = "unlimited"
_LINKS = ("100mbit", "1gbit", "10gbit", UNLIMITED)
_QUICK_LINKS = ("1gbit", UNLIMITED)
_MODEL = "fashion-mlp"
# Steps of each setting, and of `auto` alone before.
_FULL = ["-w", "2", "--block", "5", "--blocks", "4", "--auto-warmup", "90"]
_QUICK = ["--block", "3", "--blocks", "2", "--auto-warmup", "10"]


def links(quick, is_shaped):
    """Which there are; one alone where there is no test network."""
    if not is_shaped:
        return (UNLIMITED,)
    return _QUICK_LINKS if quick else _LINKS


def in_order(settings):
    """`auto` last: it is compared with the others."""
    return sorted(settings, key=lambda setting: setting.startswith("auto"))


def train_command(args, link, compute_ms, json_path):
    """The command line of one link's run."""
    command = [args.gradwire, "run", "-n", str(args.ranks)]
    if link != UNLIMITED:
        command += ["--netlab", link]
    command += ["--", args.gradwire, "train", "--model", _MODEL, f"--seed={args.seed}"]
    command += ["--compute", "host", f"--compute-ms={compute_ms:.2f}"]
    command += [option for spec in in_order(args.settings) for option in ("-x", spec)]
    return [*command, *(_QUICK if args.quick else _FULL), f"--json={json_path}"]


def make_table(results, compute_ms):
    """The table as data, from the JSON of each link's run, by link."""
    rows = {}
    for link, result in results.items():
        for row in result["results"]:
            rows.setdefault(row["spec"], {})[link] = row["step_ms"]
    winners = {link: _winners(result["results"]) for link, result in results.items()}
    return {"compute_ms": compute_ms, "links": list(results), "rows": rows, "winners": winners}


def _winners(rows):
    """The fastest setting, and those it did not beat in every round of turns."""
    rounds = {
        # As in step_ms, a block's first step is not counted: it brings caches back.
        row["spec"]: [statistics.median(block["step_ms"][1:]) for block in row["blocks"]]
        for row in rows
    }
    best = rounds[min(rows, key=lambda row: row["step_ms"])["spec"]]
    return [spec for spec, ms in rounds.items() if any(a <= b for a, b in zip(ms, best))]


def link_text(link):
    """ "100mbit" as "100 Mbit/s"."""
    return link if link == UNLIMITED else demo_table.rate_text(link)


def cell(table, setting, link):
    """Milliseconds; the link's winners are marked."""
    text = f"{table['rows'][setting][link]:.2f}"
    return text + (" *" if setting in table["winners"][link] else "  ")


def format_table(table):
    """Lines: the header, then one per setting, aligned."""
    cells = [[s, *(cell(table, s, link) for link in table["links"])] for s in table["rows"]]
    head = ["step_ms", *(link_text(link) + "  " for link in table["links"])]
    widths = [max(len(line[i]) for line in [head, *cells]) for i in range(len(head))]

    def line(texts):
        row = texts[0].ljust(widths[0] + 2)
        return (row + "  ".join(t.rjust(w) for t, w in zip(texts[1:], widths[1:]))).rstrip()

    return ["# " + line(head), *("  " + line(texts) for texts in cells)]


def title(table):
    """What all of it has in common, as one line."""
    return (
        f"milliseconds a step takes, by link; synthetic gradients of {_MODEL}, "
        f"{table['compute_ms']:.1f} ms "
        "of computing on the processor; unlimited: shared memory; "
        "* the fastest, and those it did not beat in every round"
    )
