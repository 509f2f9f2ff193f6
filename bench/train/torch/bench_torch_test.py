"""What of ./run bench-torch needs no PyTorch; the rest is in adaptors/torch/tests/test_bench.py."""

import contextlib
import io
import itertools
import unittest

import accuracy_table
import bench_torch
import cells
import job
import settings
import step_table
import turns
from tools import unittest_main


class ArgumentsTest(unittest.TestCase):
    def test_what_makes_no_table_is_refused_with_the_range(self):
        for option, least in (
            ("--blocks", 2), ("--block", 1), ("--warm-up", 0), ("--auto-warm-up", 0),
            ("--steps", 1), ("--evaluate-every", 1), ("--calls", 1), ("--seeds", 1), ("--ranks", 1),
        ):  # fmt: skip
            bench_torch.parse_args([f"{option}={least}"])
            with contextlib.redirect_stderr(io.StringIO()) as err:
                with self.assertRaises(SystemExit, msg=option) as ended:
                    bench_torch.parse_args([f"{option}={least - 1}"])
            self.assertEqual(ended.exception.code, 2)
            taken = f"argument {option}: takes whole numbers from {least} on, not '{least - 1}'"
            self.assertIn(taken, err.getvalue())

    def test_what_is_no_setting_is_refused_with_those_there_are(self):
        for good in (*settings.ALL, "torch:powerSGD_hook(rank=2)", "gradwire:terngrad"):
            self.assertEqual(bench_torch.parse_args(["--setting", good]).setting, [good])
        for bad in ("torch:powerSGD_hook(4)", "torch:nothing", "bf16", ""):
            with contextlib.redirect_stderr(io.StringIO()) as err:
                with self.assertRaises(SystemExit, msg=bad):
                    bench_torch.parse_args(["--setting", bad])
            self.assertIn(f"no setting '{bad}'; there are torch:none", err.getvalue())

    def test_the_hook_is_measured_without_a_model_or_hooks_of_pytorch(self):
        hook = ["--table", "hook"]
        args = bench_torch.parse_args([*hook, "--setting", "gradwire:bf16"])
        self.assertEqual((args.workload, args.link), (["buckets"], [cells.UNLIMITED]))
        for given, words in ((["--workload", "cnn"], "has buckets of its own"),
                             (["--setting", settings.PLAIN], "takes gradwire:SPEC only")):
            with contextlib.redirect_stderr(io.StringIO()) as err:
                with self.assertRaises(SystemExit, msg=given):
                    bench_torch.parse_args([*hook, *given])
            self.assertIn(f"argument {given[0]}: --table hook {words}", err.getvalue())

    def test_quick_leaves_out_no_setting_and_no_workload(self):
        args = bench_torch.parse_args(["--quick"])
        self.assertEqual(tuple(args.setting), settings.ALL)
        self.assertEqual(args.workload, ["cnn", "transformer"])
        self.assertEqual(bench_torch.parse_args([]).workload, ["cnn"])
        chosen = bench_torch.parse_args(["--quick", "--workload", "transformer"])
        self.assertEqual(chosen.workload, ["transformer"])
        self.assertEqual(len(bench_torch.parse_args(["--quick", "--table", "accuracy"]).setting), 2)

    def test_the_least_of_each_makes_a_table(self):
        cell = job.Cell("cnn", cells.UNLIMITED, 2)
        blocks = [{"step_ms": [10.0], "cpu_ms": 1.0}] * 2
        chosen = (settings.NOOP, *settings.PYTORCH, settings.AUTO)
        measured = {"settings": [{"setting": s, "blocks": blocks} for s in chosen],
                    "parameters": 1, "torch": "2", "gradwire": "0", "machine": {}}
        result = step_table.StepTable(chosen, 1).result(cell, {"all": measured})
        self.assertEqual(len(result["comparisons"]), 2)
        self.assertEqual(len(accuracy_table.AccuracyTable(chosen, 1).parts(cell, None)), len(chosen))


class TurnsTest(unittest.TestCase):
    def test_every_round_has_every_setting_once(self):
        for order in turns.rounds(["a", "b", "c"], 20, 1):
            self.assertEqual(sorted(order), ["a", "b", "c"])

    def test_every_setting_follows_every_other_one_and_is_first(self):
        orders = turns.rounds(["a", "b", "c"], 20, 1)
        pairs = {pair for order in orders for pair in itertools.pairwise(order)}
        self.assertEqual(pairs, set(itertools.permutations("abc", 2)))
        self.assertEqual({order[0] for order in orders}, set("abc"))

    def test_the_seed_fixes_the_order(self):
        names = list("abcdefgh")
        self.assertEqual(turns.rounds(names, 5, 1), turns.rounds(names, 5, 1))
        self.assertNotEqual(turns.rounds(names, 5, 1), turns.rounds(names, 5, 2))


if __name__ == "__main__":
    unittest_main.main()
