"""./run bench-torch: its tables from made-up times, and a measurement too short to mean anything."""

import json
import os
import subprocess
import sys

import launch

_TRAIN = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../bench/train"))
_PROGRAM = os.path.join(_TRAIN, "torch", "bench_torch.py")
# Behind everything else: a folder there is called torch.
sys.path += [_TRAIN, os.path.join(_TRAIN, "torch")]

# pylint: disable=wrong-import-position
import accuracy_table
import hook_table
import job
import settings
import step_table
import workloads

_NONE, _POWERSGD = settings.OURS + "none", settings.OURS + "powersgd(rank=4)"
_POWERSGD_HOOK = settings.POWERSGD_HOOK.format(4)
_ROUNDS = 6


def _comparisons(link, by_setting):
    """By name; by setting: milliseconds of a step, in each round or in all."""
    def blocks(ms):
        # The first step of a block is slow.
        by_round = ms if isinstance(ms, list) else [ms] * _ROUNDS
        return [{"step_ms": [1000.0, t, t], "cpu_ms": 1.0} for t in by_round]

    measured = {"settings": [{"setting": s, "blocks": blocks(ms)} for s, ms in by_setting.items()],
                "parameters": 1, "torch": "2", "gradwire": "0", "machine": {}}
    table = step_table.StepTable(tuple(by_setting), 1)
    result = table.result(job.Cell("cnn", link, 2), {"all": measured})
    assert all(table.sections(result))
    return {row["comparison"]: row for row in result["comparisons"]}


def test_exposed_communication_is_compared_without_what_the_step_computes():
    compared = _comparisons("1gbit", {settings.NOOP: 10.0, settings.PLAIN: 110.0, _NONE: 114.0,
                                      _POWERSGD_HOOK: 30.0, _POWERSGD: 21.0})
    none = compared["none: exposed over plain DDP's"]
    assert abs(none["ratio"]["value"] - 1.04) < 1e-9 and none["holds"]
    low_rank = compared["powersgd(rank=4): exposed over powerSGD_hook's"]
    assert abs(low_rank["ratio"]["value"] - 0.55) < 1e-9 and not low_rank["holds"]


def test_no_ratio_of_communication_that_noise_hides():
    (none,) = _comparisons("1gbit", {settings.NOOP: [10.0] * 5 + [12.0], settings.PLAIN: 11.0,
                                     _NONE: 11.0}).values()
    assert none["ratio"] is None and none["holds"] is None


def test_auto_is_compared_with_the_fastest_of_even_rounds_on_odd_ones():
    compared = _comparisons("1gbit", {settings.NOOP: 10.0, settings.PLAIN: 100.0,
                                      settings.BF16_HOOK: [50.0, 60.0] * 3, settings.AUTO: 61.0})
    auto = compared["auto: step over PyTorch's fastest"]
    assert auto["against"] == f"`{settings.BF16_HOOK}`"
    assert abs(auto["ratio"]["value"] - 61 / 60) < 1e-9 and auto["holds"]
    assert "auto: speed over plain DDP's" not in compared


def test_without_a_limit_auto_must_be_safe():
    def safety(auto):
        compared = _comparisons("unlimited", {settings.NOOP: 10.0, settings.PLAIN: 98.0,
                                              settings.AUTO: auto})
        assert compared["auto: step over PyTorch's fastest"]["holds"] is None
        return compared["auto: speed over plain DDP's"]["holds"]

    assert safety(99.0)
    assert not safety(102.0)
    # The median is fast enough, the lower bound is not.
    assert not safety([99.0] * 4 + [110.0] * 2)


def _training(setting, merits, target=2.0):
    points = [{"step": i, "seconds": 10.0 * i, "merit": m} for i, m in enumerate(merits, 1)]
    return {"setting": setting, "points": points, "merit": "loss", "target": target,
            "higher_is_better": False, "parameters": 1, "torch": "2", "gradwire": "0"}


def _accuracy(trainings):
    table = accuracy_table.AccuracyTable([], 1)
    result = table.result(job.Cell("transformer", "1gbit", 2), dict(enumerate(trainings)))
    return result["settings"], result["comparisons"]


def test_time_to_the_target_is_that_of_the_first_evaluation_beyond_it():
    (row,), _ = _accuracy([_training(_NONE, [3, 2, 2.5]), _training(_NONE, [3, 2.1, 1.9])])
    assert row["to_target_s"] == 25.0 and row["reached"] == "2 of 2"
    (row,), _ = _accuracy([_training(_NONE, [3, 2]), _training(_NONE, [3, 2.1])])
    assert row["to_target_s"] is None and row["reached"] == "1 of 2"


def test_low_rank_ends_as_well_as_the_hook():
    def holds(ours):
        theirs = [2.0, 2.1, 2.2]
        trainings = [_training(_POWERSGD, [m]) for m in ours]
        (comparison,) = _accuracy(trainings + [_training(_POWERSGD_HOOK, [m]) for m in theirs])[1]
        return comparison["holds"]

    assert holds([1.9, 2.0, 2.15])
    assert holds([2.05, 2.05, 2.3])
    assert not holds([2.1, 2.21, 2.31])


def test_a_further_parameter_costs_what_buckets_differ_by():
    def row(few_us, many_us):
        buckets = [{"parameters": count, "compressed": 0, "hook_us": us, "end_us": 60.0}
                   for count, us in ((32, few_us), (232, many_us))]
        measured = {"setting": _NONE, "buckets": buckets, "torch": "2", "gradwire": "0"}
        table = hook_table.HookTable((_NONE,), 1)
        result = table.result(job.Cell(hook_table.WORKLOAD, "unlimited", 2), {"all": measured})
        assert table.sections(result)[0][0]["parameters"] == 32
        return result["settings"][0]

    assert row(50.0, 150.0)["parameter_us"] == 0.5 and row(50.0, 150.0)["holds"]
    assert not row(101.0, 150.0)["holds"]
    assert not row(50.0, 451.0)["holds"]


def _quick(table, folder):
    command = [sys.executable, _PROGRAM, "--quick", "--table", table, "--out", str(folder)]
    done = subprocess.run(command, env=launch.environment(), check=False, capture_output=True,
                          text=True, timeout=launch.LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((folder / table / "table.json").read_text(encoding="utf-8"))
    markdown = (folder / table / "table.md").read_text(encoding="utf-8")
    assert all(f"| `{row['setting']}` |" in markdown for row in results[0]["settings"])
    return done.stdout, results


def _expect_steps(result):
    rows = {row["setting"]: row for row in result["settings"]}
    assert list(rows) == [settings.NOOP, *settings.ALL]
    for row in rows.values():
        interval = row["step_ms"]
        assert 0 < interval["low"] <= interval["value"] <= interval["high"]
        assert row["cpu_ms"] > 0
    assert rows[settings.NOOP]["exposed_ms"]["value"] == 0
    assert rows[settings.PLAIN]["sent_kb"] is None
    # Of two ranks each sends half of the gradient and half of the sum.
    assert abs(1000 * rows[_NONE]["sent_kb"] / (4 * result["parameters"]) - 1) < 0.01


def test_steps_are_measured_once(tmp_path):
    """Of every workload, under every setting."""
    _, results = _quick("step", tmp_path)
    assert [result["workload"] for result in results] == list(workloads.BY_NAME)
    assert results[0]["parameters"] >= 5_000_000
    for result in results:
        _expect_steps(result)
    output, again = _quick("step", tmp_path)
    assert output.count("already measured") == len(results) and again == results


def test_trainings_give_curves_and_a_page(tmp_path):
    _, results = _quick("accuracy", tmp_path)
    assert [result["workload"] for result in results] == list(workloads.BY_NAME)
    for result in results:
        assert [row["setting"] for row in result["settings"]] == [settings.PLAIN, _NONE]
        for row in result["settings"]:
            (first_s, _), (last_s, merit) = row["curve"]
            assert 0 < first_s < last_s == row["seconds"]
            assert row["final"] == [merit] and 0 <= merit <= 100
    page = (tmp_path / "accuracy" / "plots.html").read_text(encoding="utf-8")
    assert page.count('<g class="series') == 2 * len(results) and "http" not in page


def test_the_hook_takes_time(tmp_path):
    """Under a codec too, which every parameter goes through."""
    _, (result,) = _quick("hook", tmp_path)
    none, codec = result["settings"]
    assert none["setting"] == _NONE and (none["parameters"], none["compressed"]) == (32, 0)
    assert "feedback=on" in codec["setting"] and codec["compressed"] == codec["parameters"] == 32
    for row in (none, codec):
        assert row["hook_us"] > 0 and row["end_us"] > 0
