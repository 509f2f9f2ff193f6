"""Advise: what `gradwire advise` promises, beside what a training then takes."""

import cells
import ratios
import runs

NAME = "advise"
TITLE = "Advise: promised steps against measured ones"
select, parts = cells.select, runs.one_part
_ALLOWED_ERROR = 0.15
# A smaller gain or loss may be advised or not.
_CLEAR_GAIN = 0.05


def measure(jobs, cell, _part, size):
    """The advice; then `auto`, which is what a user would run next, and every fixed codec: `auto`
    decides by the model that advises, so that it cannot tell whether the answer is right."""
    compute_ms = runs.compute_ms(jobs, cell)
    advice = jobs.advise(cell, ["--compute-ms", f"{compute_ms:.3f}"])
    train = jobs.train(cell, runs.rotation([*cell.fixed, cell.auto], compute_ms, size))
    kept = {key: advice[key] for key in ("summary", "compress", "link", "plans")}
    return {"compute_ms": compute_ms, "advice": kept, "train": runs.compact(train)}


def row(cell, by_part):
    """Whether the step advised takes as long as promised, and the answer is right."""
    measured = by_part["all"]
    advice, results = measured["advice"], measured["train"]["results"]
    by_round = {r["spec"]: runs.block_medians(r) for r in results}
    times = {spec: runs.typical(rounds) for spec, rounds in by_round.items()}
    none_ms, auto_ms = times.pop("none"), times[cell.auto]
    fastest = min(times, key=times.get)
    predicted = {plan["plan"]: plan["step_ms"] for plan in advice["plans"]}
    error = predicted["advised"] / auto_ms - 1
    gain = 1 - times[fastest] / none_ms
    left = ratios.median_ratio([a / b for a, b in zip(by_round[fastest], by_round["none"])])
    over = ratios.median_ratio([predicted["advised"] / auto for auto in by_round[cell.auto]])
    right = advice["compress"] == (gain > 0) or abs(gain) <= _CLEAR_GAIN
    return {
        **cell.columns(),
        "compute_ms": measured["compute_ms"],
        "none_ms": none_ms, "predicted_none_ms": predicted["none"],
        "auto_ms": auto_ms, "advised_ms": predicted["advised"],
        "advised/auto": over.text(), "error": error, "compress": advice["compress"],
        "fastest": fastest, "fastest/none": left.text(), "gain": gain, "right": right,
        "holds": right and abs(error) <= _ALLOWED_ERROR,
    }  # fmt: skip
