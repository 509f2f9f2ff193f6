"""The tables from made-up times, and one tiny cell with real ranks."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import tempfile
import unittest

import accuracy
import advise
import bench_train
import builds
import cells
import change
import never_slower
import oracle
import quality
import ratios
import runs
import sweep
import tables
from tools import unittest_main

_GRADWIRE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire", "cli", "gradwire")
_CELL = cells.Cell(1, "1gbit", 1, "resnet50", 0.1, 2, {}, ("none", "bf16"))


def _row(spec, block_ms, **more):
    """Of `gradwire train`; the first step of a block is slow."""
    blocks = [{"step_ms": [1000.0, ms, ms, ms]} for ms in block_ms]
    return {"spec": spec, "blocks": blocks, "warm_up": {"begin_s": [], "step_ms": []}, **more}


def _oracle_row(none, bf16, auto, cell=_CELL, compute="device"):
    rows = [_row("none", none), _row("bf16", bf16), _row("auto", auto)]
    measured = {"compute": compute, "compute_ms": 10.0, "train": {"results": rows}}
    return oracle.row(cell, {"all": measured})


class CellsTest(unittest.TestCase):
    def test_are_16_with_every_link_computing_and_number_of_ranks(self):
        every = list(cells.load().values())
        self.assertEqual(len(every), 16)
        for name, values in (
            ("link", {"100mbit", "1gbit", "10gbit", cells.UNLIMITED}),
            ("compute", {0.25, 1, 4}),
            ("model", {"resnet50", "gpt2", "fashion-mlp"}),
            ("ranks", {2, 4}),
        ):
            self.assertEqual({getattr(cell, name) for cell in every}, values)
        for cell in every:
            self.assertEqual(cell.fixed[0], "none")

    def test_say_what_auto_may_do(self):
        self.assertEqual(_CELL.auto, "auto")
        cell = dataclasses.replace(_CELL, limits={"lag": 9, "allow": "topk(0.1),acp"})
        self.assertEqual(cell.auto, 'auto(lag=9,allow="topk(0.1),acp")')

    def test_are_chosen_by_number(self):
        self.assertEqual([c.id for c in cells.select("3,14-16")], [3, 14, 15, 16])
        self.assertEqual([c.id for c in cells.select("5, 3-5")], [5, 3, 4])
        self.assertEqual(len(cells.select("all")), 16)
        for text in ("17", "0", "a", "", "12-9", "1-17", "1-", "-1", "1,,2", "1-9999999999999"):
            with self.assertRaisesRegex(ValueError, "takes numbers from 1 to 16", msg=text):
                cells.select(text)


class RatiosTest(unittest.TestCase):
    def test_the_interval_holds_the_median_and_repeats(self):
        values = [1.0, 1.1, 1.2, 1.3, 5.0]
        ratio = ratios.median_ratio(values)
        self.assertEqual(ratio.value, 1.2)
        self.assertTrue(1.0 <= ratio.low < 1.2 < ratio.high <= 5.0, ratio)
        self.assertEqual(ratio, ratios.median_ratio(values))

    def test_runs_that_differ_are_resampled_as_a_whole(self):
        # 20 blocks do not make up for there being three launches.
        runs_ratios = [[speed] * 20 for speed in (0.9, 1.0, 1.1)]
        ratio = ratios.median_ratio_of_runs(runs_ratios)
        self.assertEqual((ratio.low, ratio.value, ratio.high), (0.9, 1.0, 1.1))
        self.assertEqual(ratio, ratios.median_ratio_of_runs(runs_ratios))

    def test_so_are_the_ratios_of_a_run(self):
        ratio = ratios.median_ratio_of_runs([[1.0, 1.1, 1.2, 1.3, 5.0]])
        self.assertEqual(ratio.value, 1.2)
        self.assertTrue(1.0 <= ratio.low < 1.2 < ratio.high <= 5.0, ratio)

    def test_pieces_are_whole(self):
        self.assertEqual(ratios.in_pieces([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4]])
        self.assertEqual(ratios.in_pieces([1], 2), [])


class OracleTest(unittest.TestCase):
    def test_the_winner_of_even_rounds_is_compared_on_odd_ones(self):
        row = _oracle_row(none=[30, 9.9, 30, 9.9], bf16=[10, 10, 10, 10], auto=[10, 10.2, 10, 10.4])
        self.assertEqual(row["winner"], "bf16")
        self.assertTrue(row["auto/winner"].startswith("1.030 ("), row)
        self.assertTrue(row["holds"])

    def test_what_is_far_from_the_winner_does_not_hold(self):
        self.assertFalse(_oracle_row([20] * 4, [10] * 4, [10.6] * 4)["holds"])
        # The median is near enough, its upper bound is not.
        self.assertFalse(_oracle_row([20] * 6, [10] * 6, [10, 10, 10, 10, 10, 12])["holds"])

    def test_nor_does_what_is_slower_than_none(self):
        self.assertTrue(_oracle_row([20] * 4, [21] * 4, [20.2] * 4)["holds"])
        self.assertFalse(_oracle_row([20] * 4, [21] * 4, [20.6] * 4)["holds"])

    def test_short_steps_have_more_rounds(self):
        size = runs.Size(blocks=12, rotation_s=90)
        for round_s, rounds in ((20, 12), (3, 30), (0.01, 100)):
            self.assertEqual(oracle.rounds_of(round_s, size), rounds)

    def test_a_cell_without_a_processor_to_spare_is_judged_for_safety(self):
        cell = dataclasses.replace(_CELL, link="10gbit", ranks=4)
        self.assertTrue(_oracle_row([20] * 4, [10] * 4, [20] * 4, cell)["holds"])
        self.assertFalse(_oracle_row([20] * 4, [10] * 4, [21] * 4, cell)["holds"])

    def test_four_ranks_that_compute_themselves_have_none_on_any_link(self):
        times = ([20] * 4, [10] * 4, [20] * 4)
        for ranks, compute, judged in (
            (4, "host", "processor bound"), (4, "device", "oracle"), (2, "host", "oracle"),
        ):  # fmt: skip
            row = _oracle_row(*times, dataclasses.replace(_CELL, ranks=ranks), compute)
            self.assertEqual(row["judged"], judged)
            self.assertEqual(row["holds"], judged == "processor bound")


class NeverSlowerTest(unittest.TestCase):
    def _row(self, *auto_ms):
        """Of a run each."""
        measured = [
            {
                "compute_ms": 1.0, "auto_ms": ms,
                "none_before_ms": [9.0] * 50, "none_after_ms": [11.0] * 50,
            }
            for ms in auto_ms
        ]  # fmt: skip
        return never_slower.row(_CELL, {f"run-{i}": m for i, m in enumerate(measured, 1)})

    def test_none_before_and_after_count_alike(self):
        row = self._row([10.0] * 100)
        self.assertEqual((row["blocks"], row["speed"]), (4, "1.000 (1.000..1.000)"))
        self.assertTrue(row["holds"])

    def test_a_slow_quarter_does_not_hold(self):
        row = self._row([10.0] * 75 + [12.0] * 25)
        self.assertAlmostEqual(row["slowest_block"], 10 / 12)
        self.assertFalse(row["holds"])

    def test_blocks_of_one_slow_run_do_not_count_apart(self):
        # Launches differ: of five, two slow ones may well have been three.
        row = self._row(*([ms] * 500 for ms in (10.0, 10.0, 10.0, 10.6, 10.6)))
        self.assertEqual((row["blocks"], row["speed"]), (100, "1.000 (0.943..1.000)"))
        self.assertFalse(row["holds"])

    def test_trials_count(self):
        # One step of a block takes twice the time: a median would not see it.
        self.assertFalse(self._row(([10.0] * 24 + [20.0]) * 4)["holds"])


class SweepTest(unittest.TestCase):
    def _row(self, *bytes_left, auto_ms=12):
        by_part = {}
        for part, left in zip(sweep.parts(_CELL, None), bytes_left):
            rows = [_row("none", [20] * 4, wire_bytes=100), _row("bf16", [10] * 4, wire_bytes=50),
                    _row("auto", [auto_ms] * 4, wire_bytes=100 * left)]
            by_part[part] = {"train": {"results": rows}}
        return sweep.row(_CELL, by_part)

    def test_compresses_less_where_more_is_computed(self):
        self.assertTrue(self._row(0.13, 0.25, 1, 1, 0.5)["holds"])
        self.assertFalse(self._row(0.13, 1, 0.25, 1, 1)["holds"])

    def test_goes_from_compressing_to_none(self):
        self.assertFalse(self._row(0.99, 0.99, 1, 1, 1)["holds"])
        self.assertFalse(self._row(0.13, 0.25, 0.25, 0.25, 0.25)["holds"])

    def test_compresses_no_more_beside_busy_neighbours(self):
        self.assertTrue(self._row(0.13, 0.25, 1, 1, 0.25)["holds"])
        self.assertFalse(self._row(0.13, 0.25, 1, 1, 0.13)["holds"])

    def test_or_is_as_fast_beside_them_as_any_codec(self):
        row = self._row(0.13, 0.25, 1, 1, 0.13, auto_ms=10.4)
        self.assertEqual((row["hog winner"], row["holds"]), ("bf16", True))


class AdviseTest(unittest.TestCase):
    def _row(self, advised_ms, compress, none_ms, auto_ms, bf16_ms=30.0):
        plans = [{"plan": "none", "step_ms": 20.0}, {"plan": "advised", "step_ms": advised_ms}]
        advice = {"compress": compress, "plans": plans}
        times = {"none": none_ms, "bf16": bf16_ms, "auto": auto_ms}
        train = {"results": [_row(spec, [ms] * 4) for spec, ms in times.items()]}
        return advise.row(_CELL, {"all": {"compute_ms": 5.0, "advice": advice, "train": train}})

    def test_the_predicted_step_is_that_of_auto(self):
        self.assertTrue(self._row(11.4, True, 20.0, 10.0)["holds"])
        self.assertFalse(self._row(11.6, True, 20.0, 10.0)["holds"])
        self.assertFalse(self._row(8.4, True, 20.0, 10.0)["holds"])

    def test_a_clear_gain_must_be_advised_and_a_loss_not(self):
        self.assertFalse(self._row(10.0, False, 20.0, 10.0)["right"])
        self.assertFalse(self._row(20.0, True, 20.0, 22.0)["right"])
        self.assertTrue(self._row(20.0, False, 20.0, 19.2)["right"])

    def test_a_gain_that_auto_misses_too_must_be_advised(self):
        row = self._row(20.0, False, 20.0, 20.0, bf16_ms=15.0)
        self.assertEqual((row["fastest"], row["right"], row["holds"]), ("bf16", False, False))


class ChangeTest(unittest.TestCase):
    def _slower(self, ms_after, count=400):
        """Steps of 1 s each by their beginnings; the link changes in step 199, if there is one."""
        steps = {"begin_s": list(range(count)), "step_ms": [10.0] * 240 + [ms_after] * (count - 240)}
        changes = [{"at_s": 199.5, "rate": "100mbit"}] if count > 199 else []
        rows = [{**_row("auto", [49.0]), "warm_up": steps}, _row("bf16", [60.0] * 4),
                _row("qsgd(bits=4)", [50.0] * 4)]  # fmt: skip
        return change.row(_CELL, {"slower": {"results": rows, "rate_changes": changes}})

    def test_has_so_many_steps_to_find_the_new_best(self):
        self.assertTrue(self._slower(54.0)["holds"])
        self.assertFalse(self._slower(56.0)["holds"])
        for count in (250, 150):
            row = self._slower(54.0, count)
            self.assertIn(None, row.values(), "the run ended too early")
            self.assertFalse(row["holds"])

    def _stalled(self, *changes):
        plans = [{"step": step, "change": text} for step, text in changes]
        run = {"results": [{"blocks": [], "plan_changes": plans}]}
        return change.row(_CELL, {"stall": run})["holds"]

    def test_no_plan_may_be_adopted_right_after_a_stall(self):
        self.assertTrue(self._stalled((60, "w none -> bf16"), (270, "w bf16 -> none")))
        self.assertTrue(self._stalled((205, "on trial: w none -> bf16"), (210, "no change")))
        self.assertFalse(self._stalled((205, "w none -> bf16")))
        self.assertFalse(self._stalled((254, "w none -> bf16")))

    def test_a_straggler_may_only_make_it_lighter(self):
        for after, holds in ((50, False), (99, True), (200, True)):
            # A trial does not count.
            sent = [100] * 15 + [70] + [40] * 24 + [after] * 15 + [60]
            run = {"results": [{"blocks": [{"wire_bytes": b} for b in sent], "plan_changes": []}]}
            self.assertEqual(change.row(_CELL, {"straggler": run})["holds"], holds)

    def test_an_unlimited_link_has_no_rate_to_change(self):
        cell = dataclasses.replace(_CELL, link=cells.UNLIMITED)
        self.assertEqual(change.parts(cell, None), ["stall", "late", "straggler"])


class AccuracyTest(unittest.TestCase):
    def _row(self, link, **seconds):
        """Every setting takes 20 s, but for those named, which take so long at their best rate."""
        by_part = {}
        for part in accuracy.parts(None, runs.Size(seeds=2)):
            spec, rate, seed = accuracy.trainings(runs.Size(seeds=2))[part]
            best = seconds.get(spec.split("(")[0], 20.0)
            time = best if rate == 0.15 else None
            by_part[part] = {"spec": spec, "rate": rate, "seed": seed, "to_target_s": time}
        return accuracy.row(accuracy.Link(1, link), by_part)

    def test_auto_is_compared_with_the_first_that_its_bounds_admit(self):
        row = self._row("1gbit", bf16=10.0, efsign=1.0, auto=10.4)
        self.assertEqual(row["auto over the first admitted"], "1.040 (1.040..1.040)")
        self.assertTrue(row["holds"])
        self.assertFalse(self._row("1gbit", bf16=10.0, auto=10.6)["holds"])
        self.assertFalse(self._row("1gbit", auto=None)["holds"])

    def test_without_a_limit_it_is_compared_with_none(self):
        self.assertTrue(self._row(cells.UNLIMITED, bf16=10.0, auto=20.3)["holds"])
        self.assertFalse(self._row(cells.UNLIMITED, bf16=10.0, auto=20.5)["holds"])

    def test_the_interval_is_that_of_other_seeds(self):
        ratio = ratios.ratio_of_means([(10.0, 10.0), (12.0, 10.0), (14.0, 10.0)])
        self.assertAlmostEqual(ratio.value, 1.2)
        self.assertAlmostEqual(ratio.low, 1.0)
        self.assertAlmostEqual(ratio.high, 1.4)

    def test_links_are_chosen_by_number(self):
        for text in ("1,3", "3", "1-3", "all"):
            self.assertEqual(accuracy.select(text)[-1].link, cells.UNLIMITED)
        self.assertEqual([c.id for c in accuracy.select("1-3")], [1, 2, 3])
        with self.assertRaisesRegex(ValueError, "takes numbers from 1 to 3"):
            accuracy.select("4")


class _Trainings:
    """Jobs whose accuracy is that of `none`, but for what a spec costs."""

    def __init__(self, cost):
        self._cost, self.specs = cost, []

    def fashion_mnist(self, cell, options):
        """As Jobs.fashion_mnist."""
        seed = int(options[-1].removeprefix("--seed="))
        self.specs.append(cell.spec)
        cost = 0 if cell.spec == "none" else self._cost
        return {"final_accuracy": 86 + seed - cost, "steps": 10, "stats": {"sent_bytes": 5000}}


class QualityTest(unittest.TestCase):
    def _rows(self, cost, *numbers):
        trainings, size = _Trainings(cost), runs.Size(seeds=2)
        rows = []
        for cell in quality.select(",".join(numbers)):
            by_part = {part: quality.measure(trainings, cell, part, size)
                       for part in quality.parts(cell, size)}
            rows.append(quality.row(cell, by_part))
        return rows, trainings.specs

    def test_a_codec_is_compared_with_none_by_seed(self):
        (row,), _ = self._rows(0.5, "1")
        self.assertEqual((row["spec"], row["none %"], row["accuracy %"]),
                         ("bf16", "87.00 88.00", "86.50 87.50"))
        self.assertEqual((row["against none"], row["kB/step of rank 0"]), ("-0.50", 0.5))
        self.assertTrue(row["holds"])

    def test_so_many_points_are_allowed(self):
        held = {row["spec"]: row["holds"] for row in self._rows(1.25, "1-21")[0]}
        self.assertFalse(held["bf16"])
        self.assertTrue(held["efsign"])
        self.assertTrue(held["randk(0.01)"], "it is reported, not judged")

    def test_none_is_trained_once_with_each_optimizer(self):
        _, specs = self._rows(0.5, "1-31")
        self.assertEqual(specs.count("none"), 3 * 2)


class ArgumentsTest(unittest.TestCase):
    def _refusal(self, *argv):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            with self.assertRaises(SystemExit, msg=argv) as ended:
                bench_train.parse_args(["--gradwire", "none", "--trainer", "none", *argv])
        self.assertEqual(ended.exception.code, 2)
        return err.getvalue()

    def test_what_makes_no_table_is_refused_with_the_range(self):
        for option, value, taken in (
            ("--blocks", "1", "takes whole numbers from 2 on, not '1'"),
            ("--rotation-s", "-1", "takes numbers from 0 on, not '-1'"),
            ("--rotation-s", "nan", "takes numbers from 0 on, not 'nan'"),
            ("--rotation-s", "inf", "takes numbers from 0 on, not 'inf'"),
            ("--block", "1", "takes whole numbers from 2 on"),
            ("--auto-warm-up", "-1", "takes whole numbers from 0 on"),
            ("--none-steps", "24", "takes whole numbers from 25 on"),
            ("--auto-steps", "24", "takes whole numbers from 25 on"),
            ("--repeats", "0", "takes whole numbers from 1 on"),
            ("--seeds", "0", "takes whole numbers from 1 on"),
            ("--seed", "1.5", "takes whole numbers from 0 on, not '1.5'"),
            ("--cells", "12-9", "takes numbers from 1 to 16"),
        ):
            refusal = self._refusal(f"{option}={value}")
            self.assertIn(f"argument {option}: {taken}", refusal)
        self.assertIn("from 1 to 3", self._refusal("--table", "accuracy", "--cells", "4"))

    def test_the_least_of_each_makes_every_table(self):
        least = {f.name: f.metadata["least"] for f in dataclasses.fields(runs.Size) if f.metadata}
        argv = [f"--{name.replace('_', '-')}={value}" for name, value in least.items()]
        args = bench_train.parse_args(["--gradwire", "none", "--trainer", "none", *argv])
        size = runs.Size(**{name: getattr(args, name) for name in least})
        blocks = [10.0] * size.blocks
        self.assertIn("auto/winner", _oracle_row(blocks, blocks, blocks))
        measured = {"compute_ms": 1.0, "auto_ms": [1.0] * size.auto_steps,
                    "none_before_ms": [1.0] * size.none_steps, "none_after_ms": []}
        runs_of_it = dict.fromkeys(never_slower.parts(_CELL, size), measured)
        self.assertEqual(never_slower.row(_CELL, runs_of_it)["blocks"], 1)
        self.assertGreater(len(accuracy.parts(None, size)), 0)


_TINY = ["--blocks", "2", "--rotation-s", "0", "--block", "2", "--auto-warm-up", "3"]


def _store(out, build):
    return tables.Store(pathlib.Path(out, "oracle-device"), runs.Size(), {"gradwire": build})


class _Table:
    """One that counts instead of measuring."""

    NAME = "counted"

    def __init__(self):
        self.count = 0

    def parts(self, _cell, _size):
        return ["all"]

    def measure(self, _jobs, _cell, _part, _size):
        self.count += 1
        return {"count": self.count}


class _Machine:
    def machine_state(self):
        return {"load_1m": 0.0, "ping_pong_us": 1}


class MachineTest(unittest.TestCase):
    def test_a_row_tells_the_machine_s_state_and_that_it_has_changed(self):
        parts = [{"machine": [{"ping_pong_us": us} for us in pair]} for pair in ((0.071, 0.07), (0.07, 0.31))]
        self.assertEqual(tables.cores_apart(parts[:1]), "0.07 to 0.071")
        self.assertEqual(tables.cores_apart(parts), "0.07 to 0.31")
        self.assertEqual(tables.cores_apart([{"machine": [{"ping_pong_us": 0.07}] * 2}]), "0.07")
        self.assertEqual(tables.cores_apart([{"machine": [{"ping_pong_us": None}] * 2}]), "not measured")


class StoreTest(unittest.TestCase):
    def test_what_another_build_has_measured_is_measured_again(self):
        table = _Table()
        with tempfile.TemporaryDirectory() as out:
            for build, count, told in (("1.0", 1, "s, load"), ("1.0", 1, "already measured"),
                                       ("1.1", 2, "is of another build"),
                                       ("1.1", 2, "already measured")):
                measurement = tables.Measurement(table, runs.Size(), _store(out, build), _Machine())
                with contextlib.redirect_stdout(io.StringIO()) as text:
                    measured = measurement.parts(_CELL, again=False)["all"]
                self.assertEqual(measured["count"], count)
                self.assertIn("counted cell-01 all: ", text.getvalue())
                self.assertIn(told, text.getvalue())
            other = tables.Measurement(table, runs.Size(), _store(out, "1.0"), _Machine())
            self.assertIsNone(other.kept_parts(_CELL), "results of two builds make no table")

    def test_builds_are_told_by_their_files(self):
        with tempfile.TemporaryDirectory() as folder:
            one, other = (pathlib.Path(folder, name) for name in ("one", "other"))
            one.write_bytes(b"1")
            absent = builds.digest(one, other)
            other.write_bytes(b"2")
            both = builds.digest(one, other)
            other.write_bytes(b"3")
            self.assertEqual(len({absent, both, builds.digest(one, other)}), 3)
            self.assertEqual(builds.digest(one), builds.digest(one))
        self.assertNotEqual(builds.of_package("json"), builds.of_package("email"))
        self.assertEqual(builds.version_of("no_such_package"), "none")
        self.assertEqual(builds.of_package("no_such_package"), "none")


class DriverTest(unittest.TestCase):
    def _run(self, out, *more):
        """Exit code and output of the cell of four ranks over shared memory."""
        argv = ["--gradwire", _GRADWIRE, "--trainer", "unused", "--cells", "14", "--out", out, *_TINY, *more]
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            code = bench_train.main(argv)
        return code, text.getvalue()

    def test_measures_once_and_writes_the_table(self):
        with tempfile.TemporaryDirectory() as out:
            code, text = self._run(out)
            self.assertEqual(code, 0, text)
            self.assertRegex(text, r"oracle cell-14 all: \d+ s, load ")
            folder = pathlib.Path(out, "oracle-device")
            (row,) = json.loads((folder / "table.json").read_text(encoding="utf-8"))
            self.assertEqual((row["cell"], row["link"], row["ranks"]), (14, "unlimited", 4))
            self.assertGreater(row["auto_ms"], row["compute_ms"])
            self.assertRegex(row["cores_us"], r"^[\d.]+( to [\d.]+)?$")
            table = (folder / "table.md").read_text(encoding="utf-8")
            self.assertIn("    ./run bench-train --cells 14 --out", table)
            self.assertIn("| 14 | unlimited | fashion-mlp |", table)

            _, text = self._run(out)
            self.assertIn("oracle cell-14 all: already measured", text)
            _, text = self._run(out, "--seed", "2")
            self.assertNotIn("already measured", text)

    def test_a_failed_job_leaves_what_was_measured(self):
        with tempfile.TemporaryDirectory() as out:
            store = _store(out, "1.0")
            store.save(_CELL, "all", {"x": 1})
            argv = ["--gradwire", "/bin/false", "--trainer", "unused", "--cells", "14", "--out", out]
            with contextlib.redirect_stderr(io.StringIO()) as err:
                self.assertEqual(bench_train.main(argv), 1)
            self.assertIn("/bin/false", err.getvalue())
            self.assertEqual(store.load(_CELL, "all"), {"x": 1})


if __name__ == "__main__":
    unittest_main.main()
