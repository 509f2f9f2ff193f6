"""`gradwire train` with ranks as threads and as processes, and the examples of its page."""

import csv
import io
import json
import os
import re
import subprocess
import tempfile
import time
import unittest

from cli import command_page
from tools import unittest_main

_GRADWIRE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire", "cli", "gradwire")
_LIMIT_S = 100
_FASHION_MLP_ELEMS = 235_146
_SMALL = ["--model", "fashion-mlp", "--compute-ms", "2"]


def _gradwire(*args):
    done = subprocess.run(
        [_GRADWIRE, *args], capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    # Progress and colours are for terminals.
    if re.search("[\r\x1b]", done.stdout + done.stderr):
        raise AssertionError(repr(done.stdout + done.stderr))
    return done


def _json(*args):
    done = _gradwire(*args, "--json", "-")
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return json.loads(done.stdout)


class TrainTest(unittest.TestCase):
    def test_two_launched_ranks_compare_two_specs(self):
        result = _json("run", "-n", "2", "--timeout", "60", "--", "gradwire", "train", *_SMALL,
                       "--steps", "6", "-x", "none", "-x", "bf16")
        self.assertEqual(result["ranks"], 2)
        self.assertEqual(result["model"]["elems"], _FASHION_MLP_ELEMS)
        none, bf16 = result["results"]
        self.assertEqual((none["spec"], bf16["spec"]), ("none", "bf16"))
        self.assertEqual((none["ratio"], none["relerr"]), (1, 0))
        self.assertLess(bf16["wire_bytes"], 0.6 * none["wire_bytes"])
        # The rounding to 8 bits of mantissa.
        self.assertTrue(0.0005 < bf16["relerr"] < 0.004, bf16["relerr"])

    def test_json_has_every_step(self):
        result = _json("train", *_SMALL, "-x", "none", "-x", "bf16", "--blocks", "3", "--block",
                       "4", "-w", "10")
        first_steps = []
        self.assertIsNone(result["results"][0]["ratio_low"])
        compared = result["results"][1]
        self.assertLessEqual(compared["ratio_low"], compared["ratio"])
        self.assertGreaterEqual(compared["ratio_high"], compared["ratio"])
        for row in result["results"]:
            self.assertEqual([len(block["step_ms"]) for block in row["blocks"]], [4, 4, 4])
            self.assertEqual([block["round"] for block in row["blocks"]], [0, 1, 2])
            first_steps += [block["first_step"] for block in row["blocks"]]
            for block in row["blocks"]:
                for step_ms, compute_ms in zip(block["step_ms"], block["compute_ms"]):
                    self.assertGreaterEqual(compute_ms, 2)
                    self.assertGreaterEqual(step_ms, compute_ms)
        self.assertEqual(sorted(first_steps), [20, 24, 28, 32, 36, 40])

    def test_auto_takes_turns_and_counts_its_own_steps_only(self):
        result = _json("run", "-n", "2", "--timeout", "60", "--", "gradwire", "train", *_SMALL, "-x",
                       "auto", "-x", "none", "-w", "2", "--auto-warmup", "7", "--blocks", "2",
                       "--block", "3")
        auto, none = result["results"]
        self.assertEqual([len(row["warm_up"]["step_ms"]) for row in (auto, none)], [9, 2])
        self.assertEqual([block["first_step"] for block in auto["blocks"]], [9, 12])
        self.assertEqual([block["first_step"] for block in none["blocks"]], [2, 5])
        begins = sorted(begin for row in (auto, none) for b in row["blocks"] for begin in b["begin_s"])
        self.assertEqual(len(set(begins)), 12)
        self.assertLess(begins[-1], time.monotonic())

    def test_the_plans_of_a_run_follow_from_its_log(self):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "plan.log")
            done = _gradwire("run", "-n", "2", "--timeout", "60", "--", "env", f"GRADWIRE_PLAN_LOG={log}",
                             "gradwire", "train", *_SMALL, "-x", "auto", "--steps", "30")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(log, encoding="utf-8") as file:
                lines = file.readlines()
            made = [line for line in lines if line.startswith('{"decision"')]
            done = _gradwire("plan", "--replay", log, "--json", "-")
            self.assertEqual((done.returncode, done.stdout), (0, "".join(made)), done.stderr)
            # The warm-up: bf16, and what follows from it.
            self.assertGreaterEqual(len(made), 2)
            with open(log, "w", encoding="utf-8") as file:
                file.writelines(lines[:-1])
            done = _gradwire("plan", "--replay", log, "--json", "-")
            self.assertEqual((done.returncode, done.stdout), (1, "".join(made)))
            self.assertIn(f"line {len(lines) - 1} of the plan log", done.stderr)

    def test_a_late_rank_makes_its_steps_longer(self):
        (row,) = _json("train", *_SMALL, "--late", "1:30:2:2", "--steps", "6")["results"]
        slow = [ms >= 32 for ms in row["blocks"][0]["compute_ms"]]
        self.assertEqual(slow[2:4], [True, True], row)

    def test_a_timeline_becomes_a_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            run, trace = (os.path.join(folder, name) for name in ("run.json", "trace.json"))
            done = _gradwire("run", "-n", "2", "--timeout", "60", "--", "gradwire", "train", *_SMALL,
                             "-x", "auto", "--steps", "30", "--timeline", "--json", run)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = _gradwire("trace", run, "-o", trace)
            self.assertEqual(done.returncode, 0, done.stderr)
            for file in (run, run + ".timeline.1"):
                done = _gradwire("trace", run, "-o", file)
                self.assertEqual(done.returncode, 2, file)
                self.assertIn("replace its own input", done.stderr)
            with open(run, encoding="utf-8") as file:
                (row,) = json.load(file)["results"]
            with open(trace, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
        for rank in (0, 1):
            self._check_rank([e for e in events if e["ph"] == "X" and e["pid"] == rank])
        plans = [e["args"]["step"] for e in events if e["ph"] == "i"]
        self.assertEqual(plans, [plan["step"] for plan in row["plan_changes"]])
        # The first one is measured by now.
        self.assertGreater(row["plan_changes"][0]["measured_ms"], 0)
        # The warm-up's.
        self.assertGreaterEqual(len(plans), 1)

    def _check_rank(self, spans):
        """30 steps, each with computing; what lies in a row is nested or apart."""
        names = [span["name"] for span in spans]
        self.assertEqual([n for n in names if n.startswith("step")], [f"step {i}" for i in range(30)])
        self.assertLessEqual({"compute", "blocked", "encode", "decode", "wire"}, set(names))
        for row in (0, 1, 2):
            ends = [float("inf")]
            for span in (s for s in spans if s["tid"] == row):
                while ends[-1] <= span["ts"] + 1e-6:
                    ends.pop()
                self.assertLessEqual(span["ts"] + span["dur"], ends[-1] + 1e-6, span)
                ends.append(span["ts"] + span["dur"])
        computed_us = sum(span["dur"] for span in spans if span["name"] == "compute")
        self.assertGreaterEqual(computed_us, 30 * 2000)

    def test_wire_bytes_are_those_of_an_all_reduce(self):
        for ranks in (2, 3):
            (row,) = _json("train", *_SMALL, "--ranks", str(ranks), "--steps", "5")["results"]
            optimal = 2 * (ranks - 1) / ranks * 4 * _FASHION_MLP_ELEMS
            self.assertGreater(row["wire_bytes"], optimal)
            # Frames and votes of 6 tensors.
            self.assertLess(row["wire_bytes"], 1.05 * optimal)

    def test_host_computing_and_all_kinds_of_codecs(self):
        specs = ["none", "qsgd(bits=4)", "topk(0.01)", "powersgd(rank=2)", "efsign"]
        options = [option for spec in specs for option in ("-x", spec)]
        result = _json("train", *_SMALL, "--compute", "host", "--steps", "4", *options)
        self.assertEqual([row["spec"] for row in result["results"]], specs)
        self.assertEqual(result["compute"], "host")
        for row in result["results"][1:]:
            self.assertGreater(row["relerr"], 0, row["spec"])

    def test_ranks_that_are_alone_exchange_nothing(self):
        (row,) = _json("train", *_SMALL, "--ranks", "1", "--steps", "3")["results"]
        self.assertEqual(row["wire_bytes"], 0)

    def test_scale_makes_a_large_model_small(self):
        done = _gradwire("train", "--model", "resnet50", "--scale", "0.01", "--compute-ms", "0",
                         "--steps", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# model resnet50 scaled by 0.01: 161 tensors", done.stdout)

    def test_relerr_weighs_each_tensor_with_its_own_energy(self):
        # Not in the ledger's order, which is by name; the small one travels as it is.
        shapes = {"name": "two", "tensors": [{"name": "z", "shape": [100_000]},
                                             {"name": "a", "shape": [10]}]}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "shapes.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(shapes, file)
            (row,) = _json("train", "--shapes", path, "--compute-ms", "1", "--steps", "4",
                           "-x", "topk(0.01)")["results"]
        self.assertGreater(row["relerr"], 0.5)

    def test_shapes_of_a_file_and_csv(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "shapes.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"name": "mine", "tensors": [{"name": "a", "shape": [64, 32]}]}, file)
            done = _gradwire("train", "--shapes", path, "--compute-ms", "1", "--csv", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        (row,) = csv.DictReader(io.StringIO(done.stdout))
        self.assertEqual((row["spec"], row["steps"], row["ratio"]), ("none", "29", "1.000000"))

    def test_says_what_is_wrong(self):
        for args, words in (
            (["--model", "resnet-50", "--compute-ms", "1"], "Did you mean 'resnet50'?"),
            ([*_SMALL, "-x", "none", "-x", "qsdg"], "'qsgd'"),
            ([*_SMALL, "--set", "foo=1"], "unknown setting 'foo'"),
            ([*_SMALL, "--late", "1"], "RANK:MS"),
            ([*_SMALL, "--late", "5:40"], "no rank 5 among 2"),
            ([*_SMALL, "--seed", "-1"], "no whole number"),
            ([*_SMALL, "--json", "-", "--csv", "-"], "two results"),
            ([*_SMALL, "--timeline"], "--json FILE"),
            ([*_SMALL, "--timeline", "--json", "/tmp/x", "-x", "none", "-x", "auto"], "one -x"),
            ([*_SMALL, "--json", "/nowhere/at/all"], "/nowhere/at/all"),
        ):
            done = _gradwire("train", "--steps", "2", *args)
            self.assertNotEqual(done.returncode, 0, args)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "", "measured first")

    def test_a_refused_spec_is_a_usage_error_also_of_launched_ranks(self):
        done = _gradwire("run", "-n", "2", "--timeout", "60", "--", "gradwire", "train", *_SMALL,
                         "-x", "qsdg")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("'qsgd'", done.stderr)


class PageTest(unittest.TestCase):
    def test_examples_work(self):
        command_page.expect_examples_work(self, "gradwire train", _gradwire, "95% interval")


if __name__ == "__main__":
    unittest_main.main()
