"""From the JSON that train_fashion_mnist writes to rows, the table and the byte check."""

COLUMNS = (
    "setting",
    "step_ms",
    "compute_ms",
    "exposed_comm_ms",
    "wire_MB/step",
    "relerr",
    "to_target_s",
    "final_acc",
    "time_vs_none",
    "digest",
)
_DIGITS = {
    "step_ms": 2,
    "compute_ms": 2,
    "exposed_comm_ms": 2,
    "wire_MB/step": 3,
    "relerr": 4,
    "to_target_s": 1,
    "final_acc": 2,
    "time_vs_none": 2,
}
# Of the transport's bytes: acknowledgements with options and other ranks' address queries.
COUNTER_TOLERANCE = 0.02


def make_row(run):
    """One row, by column, from one run's JSON; time_vs_none comes later."""
    sent = sum(c["transport_bytes"] for c in run["counters"])
    return {
        "setting": run["spec"],
        "step_ms": run["step_ms"],
        "compute_ms": run["compute_ms"],
        "exposed_comm_ms": run["exposed_comm_ms"],
        "wire_MB/step": sent / len(run["counters"]) / run["steps"] / 1e6,
        "relerr": run["stats"]["relerr"],
        "to_target_s": run["to_target_s"],
        "final_acc": run["final_accuracy"],
        "time_vs_none": None,
        "digest": run["digests"][0],
    }


def make_rows(runs):
    """All rows; time_vs_none is to_target_s relative to the setting `none`."""
    rows = [make_row(run) for run in runs]
    none = next((r["to_target_s"] for r in rows if r["setting"] == "none"), None)
    for row in rows:
        if none and row["to_target_s"] is not None:
            row["time_vs_none"] = row["to_target_s"] / none
    return rows


def cell(column, value):
    """The value as the table shows it; "-" where there is none, "missed" for no time to the target."""
    if value is None:
        return "missed" if column == "to_target_s" else "-"
    return f"{value:.{_DIGITS[column]}f}" if column in _DIGITS else str(value)


def format_table(rows):
    """Lines: the header, then one per row, aligned."""
    cells = [[cell(c, row[c]) for c in COLUMNS] for row in rows]
    widths = [max(len(c), *(len(line[i]) for line in cells)) for i, c in enumerate(COLUMNS)]
    widths[0] = max(widths[0], 28)

    def line(texts):
        left = texts[0].ljust(widths[0])
        return left + "  ".join(t.rjust(w) for t, w in zip(texts[1:], widths[1:]))

    return ["# " + line(COLUMNS), *("  " + line(texts) for texts in cells)]


def first_at_target(rows, target):
    """Who reached it first and who never did, as one line."""
    text = f"first at {target:g} %: "
    missed = [row for row in rows if row["to_target_s"] is None]
    reached = {row["setting"]: row["to_target_s"] for row in rows if row not in missed}
    if reached:
        first = min(reached, key=reached.get)
        text += f"{first} after {reached[first]:.1f} s"
        if first != "none" and "none" in reached:
            text += f" (none: {reached['none']:.1f} s)"
    else:
        text += "no setting"
    names = [f"{row['setting']} (in the end {row['final_acc']:.2f} %)" for row in missed]
    return text + ("; missed by " + ", ".join(names) if names else "")


def title(run):
    """What all settings have in common, as one line."""
    network = rate_text(run["netlab"]) if run["netlab"] else "unshaped loopback"
    return (
        f"{run['ranks']} ranks, {carrier(run)}, {network}, Fashion-MNIST, MLP {run['network']}, "
        f"target {run['target']:g} % test accuracy, seed {run['seed']}"
    )


def carrier(run):
    """"ucx/tcp" on the test network; the transport's own choice on loopback."""
    transport = run["stats"]["transport"]
    return f"{transport}/tcp" if transport == "ucx" and run["netlab"] else transport


def rate_text(rate):
    """"200mbit" as "200 Mbit/s"."""
    digits = rate.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/")
    unit = rate[len(digits) :].strip().lower().removesuffix("/s")
    names = {"kbit": "kbit/s", "mbit": "Mbit/s", "gbit": "Gbit/s"}
    return f"{digits.strip()} {names[unit]}" if unit in names else rate


def check_counters(run):
    """(line for people, problem or None): transport's bytes against the interfaces'."""
    pairs = [(c["transport_bytes"], c["interface_bytes"]) for c in run["counters"]]
    if any(interface is None for _, interface in pairs):
        return "counters: not compared, there is no test network", None
    if len(pairs) == 1:
        return "counters: not compared, one rank has nobody to send to", None
    ratios = [interface / transport if transport else 0.0 for transport, interface in pairs]
    transport, interface = (sum(column) / 1e6 for column in zip(*pairs))
    line = (
        f"counters: transport {transport:.2f} MB, interface {interface:.2f} MB, "
        f"ratio {interface / transport if transport else 0.0:.4f}"
    )
    worst = max(range(len(ratios)), key=lambda rank: abs(ratios[rank] - 1))
    if abs(ratios[worst] - 1) <= COUNTER_TOLERANCE:
        return line, None
    return line, (
        f"rank {worst}'s interface sent {ratios[worst]:.4f} times what its transport counted; "
        f"allowed is 1 +- {COUNTER_TOLERANCE}"
    )


def check_digests(run):
    """A problem or None."""
    if len(set(run["digests"])) == 1:
        return None
    return "the ranks' weights differ: " + ", ".join(run["digests"])


def footnotes(runs):
    """How the columns came about, in lines."""
    first = runs[0]
    return [
        f"batch {first['batch']} a rank, learning rate {first['lr']:g} falling to 0, momentum "
        f"{first['momentum']:g}, {first['steps']} steps: the same for all settings",
        "step, compute, exposed_comm: medians over rank 0's steps, from gwCommGetLedger; "
        "exposed_comm is the time that the trainer waits in the library, compute the rest",
        "wire_MB/step: sent by a rank, frame headers and votes included, mean over ranks",
        "relerr: error of what rank 0 encoded, relative, over the whole run, from gwCommGetStats",
        "to_target_s: training time, without evaluation, to the first evaluation at the target; "
        "time_vs_none: the same relative to none",
        "digest: of the final weights; equal on all ranks, or the demo fails",
    ]
