"""The demo's table, byte check and page, from made-up runs."""

import contextlib
import io
import json
import os
import re
import signal
import stat
import statistics
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import demo
import demo_links
import demo_page
import demo_table
from tools import unittest_main


def make_run(spec="none", speed=1.0, **changes):
    """What train_fashion_mnist writes, `speed` times as fast as uncompressed."""
    points = [
        {
            "step": step,
            "epoch": step / 468,
            "seconds": step * 0.06 / speed,
            "sent_bytes": step * 1.4e6 / speed,
            "loss": 2.0 / (1 + step),
            "accuracy": 88.0 - 60.0 / (1 + step / 10),
        }
        for step in range(0, 937, 39)
    ]
    run = {
        "spec": spec, "batch": 32, "lr": 0.05, "momentum": 0.9, "seed": 1, "target": 86.0,
        "ranks": 2, "netlab": "200mbit", "network": "784-256-128-10", "points": points,
        "steps": 936, "step_ms": 60.0 / speed, "compute_ms": 4.0, "exposed_comm_ms": 56.0 / speed,
        "to_target_s": next(p["seconds"] for p in points if p["accuracy"] >= 86.0),
        "final_accuracy": points[-1]["accuracy"],
        "counters": [
            {"rank": r, "transport_bytes": 1.3e9, "interface_bytes": 1.3e9 * 1.001} for r in (0, 1)
        ],
        "digests": ["0123456789abcdef"] * 2,
        "stats": {"transport": "ucx", "relerr": 0.0123},
    }  # fmt: skip
    return {**run, **changes}


def make_links(settings=("none", "auto")):
    """What `gradwire train` says of two links: the later a setting the faster on the first."""

    def row(spec, step_ms):
        return {"spec": spec, "step_ms": step_ms, "blocks": [{"step_ms": [step_ms] * 3}] * 2}

    rows = [
        {"1gbit": row(spec, 9.0 - i), "unlimited": row(spec, 1.0 + i)}
        for i, spec in enumerate(settings)
    ]
    results = {link: {"results": [row[link] for row in rows]} for link in ("1gbit", "unlimited")}
    return demo_links.make_table(results, 1.94)


class LinksTest(unittest.TestCase):
    def test_the_fastest_of_each_link_is_marked(self):
        lines = demo_links.format_table(make_links())
        self.assertEqual([line.split() for line in lines], [
            ["#", "step_ms", "1", "Gbit/s", "unlimited"],
            ["none", "9.00", "1.00", "*"],
            ["auto", "8.00", "*", "2.00"],
        ])  # fmt: skip

    def test_so_are_those_that_the_fastest_did_not_beat_in_every_round(self):
        def row(spec, *rounds):
            blocks = [{"step_ms": [0.1, ms, ms + 0.05]} for ms in rounds]
            return {"spec": spec, "step_ms": statistics.median(rounds), "blocks": blocks}

        rows = [row("none", 2.0, 2.0, 2.0), row("bf16", 1.2, 1.3, 1.1), row("auto", 1.0, 1.0, 1.2)]
        table = demo_links.make_table({"1gbit": {"results": rows}}, 1.94)
        self.assertEqual(table["winners"], {"1gbit": ["bf16", "auto"]})

    def test_auto_is_the_last(self):
        settings = ["auto(error=0.2)", "none", "auto", "bf16"]
        self.assertEqual(
            demo_links.in_order(settings), ["none", "bf16", "auto(error=0.2)", "auto"]
        )

    def test_without_a_test_network_there_is_one_link(self):
        self.assertEqual(demo_links.links(quick=False, is_shaped=False), ("unlimited",))
        self.assertEqual(len(demo_links.links(quick=False, is_shaped=True)), 4)

    def test_the_title_tells_how_much_is_computed(self):
        self.assertIn("1.9 ms of computing", demo_links.title(make_links()))


class TableTest(unittest.TestCase):
    def test_time_is_relative_to_none_wherever_it_stands(self):
        rows = demo_table.make_rows([make_run("bf16", 2.0), make_run("none")])
        self.assertAlmostEqual(rows[0]["time_vs_none"], 0.5)
        self.assertAlmostEqual(rows[1]["time_vs_none"], 1.0)

    def test_target_not_reached_and_no_none(self):
        rows = demo_table.make_rows([make_run("bf16", to_target_s=None)])
        lines = demo_table.format_table(rows)
        self.assertEqual(lines[0].split()[1:], list(demo_table.COLUMNS))
        self.assertEqual(
            lines[1].split(),
            "bf16 60.00 4.00 56.00 1.389 0.0123 missed 87.37 - 0123456789abcdef".split(),
        )

    def test_tells_who_was_first(self):
        def first(*times, target=86.0):
            rows = [{"setting": setting, "to_target_s": time_s, "final_acc": 85.2}
                    for setting, time_s in times]
            return demo_table.first_at_target(rows, target)

        none, lost = ("none", 37.62), ("none", None)
        self.assertEqual(first(none, ("bf16", 19.6), ("efsign", 2.58)),
                         "first at 86 %: efsign after 2.6 s (none: 37.6 s)")
        self.assertEqual(first(none, ("bf16", 40.0)), "first at 86 %: none after 37.6 s")
        self.assertEqual(first(lost, ("bf16", 19.6)),
                         "first at 86 %: bf16 after 19.6 s; missed by none (in the end 85.20 %)")
        self.assertEqual(first(("bf16", 19.6), target=70.5), "first at 70.5 %: bf16 after 19.6 s")
        self.assertEqual(first(lost, ("bf16", None)),
                         "first at 86 %: no setting; missed by none (in the end 85.20 %), "
                         "bf16 (in the end 85.20 %)")

    def test_columns_are_aligned(self):
        runs = [make_run("none"), make_run("a-very-long(" + "x" * 40 + ")")]
        rows = demo_table.make_rows(runs)
        self.assertEqual(len({len(line) for line in demo_table.format_table(rows)}), 1)

    def test_title_names_what_ran(self):
        self.assertEqual(
            demo_table.title(make_run()),
            "2 ranks, ucx/tcp, 200 Mbit/s, Fashion-MNIST, MLP 784-256-128-10, "
            "target 86 % test accuracy, seed 1",
        )
        self.assertIn("2 ranks, ucx, unshaped loopback", demo_table.title(make_run(netlab=None)))
        self.assertEqual(demo_table.rate_text("1.5gbit"), "1.5 Gbit/s")


class CheckTest(unittest.TestCase):
    def counters(self, ratio):
        """Of two ranks, the second with another ratio."""
        return [
            {"rank": 0, "transport_bytes": 1e6, "interface_bytes": 1e6},
            {"rank": 1, "transport_bytes": 1e6, "interface_bytes": 1e6 * ratio},
        ]

    def test_every_rank_is_held_to_two_per_cent(self):
        fine, bad = (1.0, 1.019, 0.981), (1.021, 0.979, 0)
        for ratio, is_fine in [(r, True) for r in fine] + [(r, False) for r in bad]:
            _, problem = demo_table.check_counters(make_run(counters=self.counters(ratio)))
            self.assertEqual(problem is None, is_fine, ratio)
        self.assertIn("rank 1", problem)

    def test_line_has_the_figures(self):
        line, _ = demo_table.check_counters(make_run(counters=self.counters(1.01)))
        self.assertEqual(line, "counters: transport 2.00 MB, interface 2.01 MB, ratio 1.0050")

    def test_failure_ends_the_demo(self):
        for run in (
            make_run(counters=self.counters(1.1)),
            make_run(digests=["0123456789abcdef", "0123456789abcdee"]),
        ):
            with contextlib.redirect_stdout(io.StringIO()), self.assertRaises(SystemExit) as end:
                demo.check(run)
            self.assertIn("none", str(end.exception))

    def test_loopback_and_one_rank_have_no_interface_to_compare(self):
        for counters in (
            [{"rank": r, "transport_bytes": 1.0, "interface_bytes": None} for r in (0, 1)],
            [{"rank": 0, "transport_bytes": 0.0, "interface_bytes": 90.0}],
        ):
            line, problem = demo_table.check_counters(make_run(counters=counters))
            self.assertIn("not compared", line)
            self.assertIsNone(problem)


class PageTest(unittest.TestCase):
    def setUp(self):
        self.runs = [make_run("none"), make_run("qsgd(bits=4,feedback=on)", 5.0)]
        rows = demo_table.make_rows(self.runs)
        self.page = demo_page.make_page(self.runs, rows, make_links(["none", "auto"]))

    def test_has_two_plots_with_a_line_per_setting_and_the_target(self):
        plots = self.page["sections"][0]["plots"]
        self.assertEqual(len(plots), 2)
        for plot in plots:
            self.assertEqual([one["name"] for one in plot["series"]],
                             ["none", "qsgd(bits=4,feedback=on)"])
            # Not the point before the first step.
            self.assertEqual([len(one["points"]) for one in plot["series"]], [24, 24])
            self.assertEqual(plot["target"], {"value": 86.0, "text": "target 86 %"})
        point = self.runs[1]["points"][1]
        self.assertEqual(plots[0]["series"][1]["points"][0][0], point["seconds"])
        self.assertEqual(plots[1]["series"][1]["points"][0][0], point["sent_bytes"] / 1e6)
        self.assertEqual(plots[1]["x"], {"label": "MB sent by a rank", "logarithmic": True})

    def test_has_both_tables(self):
        (first,), (second,) = (section["tables"] for section in self.page["sections"])
        self.assertEqual(first["rows"][1][0], "qsgd(bits=4,feedback=on)")
        self.assertEqual(first["rows"][1][first["columns"].index("time_vs_none")], "0.20")
        self.assertEqual(second["columns"], ["step_ms", "1 Gbit/s", "unlimited"])
        self.assertEqual(second["rows"][1], ["auto", "8.00 *", "2.00"])

    def test_without_traffic_there_is_one_plot(self):
        points = [{**p, "sent_bytes": 0} for p in make_run()["points"]]
        run = make_run(points=points)
        page = demo_page.make_page([run], demo_table.make_rows([run]), make_links())
        self.assertEqual(len(page["sections"][0]["plots"]), 1)


class ProgressTest(unittest.TestCase):
    def shown(self, is_terminal, setting="none"):
        """What a setting prints that shows three states at once and is done."""
        text = io.StringIO()
        text.isatty = lambda: is_terminal
        with contextlib.redirect_stdout(text), mock.patch.dict(os.environ, COLUMNS="80"):
            progress = demo.Progress(setting)
            for step in range(3):
                progress.show(f"step {step}/936, epoch 1.0{step}, loss 0.312, accuracy 85.12 %, "
                              "123456 images/s, 1234 s left")
            progress.done("3 steps")
        return text.getvalue()

    def test_a_terminal_has_one_line_that_is_written_over(self):
        text = self.shown(is_terminal=True)
        self.assertEqual(text.count("\n"), 1)
        *earlier, last = text.split("\r\x1b[K")
        self.assertEqual(last, "none: 3 steps\n")
        self.assertEqual([line[:16] for line in earlier],
                         ["", "none: epoch 1.00", "none: epoch 1.01", "none: epoch 1.02"])

    def test_80_columns_have_all_that_matters(self):
        setting = "qsgd(bits=4,feedback=on)"
        line = self.shown(is_terminal=True, setting=setting).split("\r\x1b[K")[1]
        self.assertEqual(
            line, setting + ": epoch 1.00, acc 85.12 %, 123456 images/s, 1234 s left"
        )
        self.assertLess(len(line), 80)

    def test_elsewhere_there_are_few_plain_lines(self):
        lines = self.shown(is_terminal=False).splitlines()
        self.assertEqual(lines, ["none: step 0/936, epoch 1.00, loss 0.312, accuracy 85.12 %, "
                                 "123456 images/s, 1234 s left", "none: 3 steps"])


_FAKE_GRADWIRE = """#!/usr/bin/env python3
import json, os, signal, sys
if "sh" in sys.argv:
    print("[0] netlab=")
    print("because it is a fake", file=sys.stderr)
    sys.exit()
if sys.argv[1] == "info":
    spec = os.environ["GRADWIRE_COMPRESS"]
    wrong = f"gradwire info: setting 'compress' = '{spec}' (from GRADWIRE_COMPRESS): unknown codec"
    sys.exit(wrong if spec == "nnoe" else 0)
if sys.argv[1] == "report":
    json.dump(json.load(open(sys.argv[2]))["sections"], open(sys.argv[-1], "w"))
    sys.exit()
print("gradwire run: noise")
print("step 1/2, epoch 0.00, loss 1.000, accuracy 50.00 %, 1 images/s, 1 s left")
path = next(a for a in sys.argv if a.startswith("--json=")).removeprefix("--json=")
if "train" in sys.argv:
    specs = [b for a, b in zip(sys.argv, sys.argv[1:]) if a == "-x"]
    rows = [{"spec": s, "step_ms": 2.0 + i, "blocks": [{"step_ms": [2.0 + i] * 3}]}
            for i, s in enumerate(specs)]
    json.dump({"results": rows}, open(path, "w"))
    sys.exit()
spec = next(a for a in sys.argv if a.startswith("--spec=")).removeprefix("--spec=")
if spec == "broken":
    sys.exit("rank 1 says why")
if spec == "endless":
    sys.stdout.flush()
    signal.pause()
run = json.load(open(sys.argv[0] + ".json"))
json.dump({**run, "spec": spec}, open(path, "w"))
"""


def make_fake(folder):
    """The path of a stand-in for gradwire."""
    fake = os.path.join(folder, "gradwire")
    with open(fake, "w", encoding="utf-8") as file:
        file.write(_FAKE_GRADWIRE)
    os.chmod(fake, stat.S_IRWXU)
    with open(fake + ".json", "w", encoding="utf-8") as file:
        json.dump(make_run(), file)
    return fake


class DriverTest(unittest.TestCase):
    def run_demo(self, settings, *more):
        """Output of the demo with a stand-in for gradwire, and its results."""
        with tempfile.TemporaryDirectory() as folder:
            fake = make_fake(folder)
            out = os.path.join(folder, "out")
            argv = ["--gradwire", fake, "--trainer", "t", "--out", out, "--settings", settings]
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                demo.main([*argv, *more])
            with open(os.path.join(out, "demo.json"), encoding="utf-8") as file:
                return text.getvalue(), json.load(file), os.listdir(out)

    def test_runs_settings_and_writes_the_tables_thrice(self):
        text, results, files = self.run_demo("none qsgd(bits=8)", "--loopback")
        self.assertTrue(text.startswith("plain loopback: "), text)
        self.assertIn("none: step 1/2, epoch 0.00", text)
        self.assertEqual([r["setting"] for r in results["rows"]], ["none", "qsgd(bits=8)"])
        self.assertEqual(tuple(results["rows"][0]), demo_table.COLUMNS)
        table = demo_table.format_table(results["rows"])
        self.assertIn("\n".join([*table, "# first at 86 %: none after "]), text)
        self.assertEqual(results["links"]["rows"]["qsgd(bits=8)"], {"unlimited": 3.0})
        self.assertIn("\n".join(demo_links.format_table(results["links"])), text)
        self.assertEqual(sorted(files), ["demo.html", "demo.json", "demo.svg"])

    def test_says_first_why_there_is_no_test_network(self):
        text, _, _ = self.run_demo("none")
        self.assertRegex(text.splitlines()[0], r"^plain loopback: .*\(because it is a fake\)$")

    def test_an_interrupt_ends_the_run_and_the_demo_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            argv = ["--gradwire", make_fake(folder), "--trainer", "t", "--out", folder]
            argv += ["--settings", "endless", "--loopback"]
            with subprocess.Popen(
                [sys.executable, demo.__file__, *argv],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process:
                for line in process.stdout:
                    if line.startswith("endless: step 1/2"):
                        break
                process.send_signal(signal.SIGINT)
                rest = process.stdout.read()
            self.assertEqual(rest, "endless: interrupted\n")
            self.assertEqual(process.returncode, 128 + signal.SIGINT)

    def test_a_wrong_spec_ends_it_before_anything_is_trained(self):
        text = io.StringIO()
        with contextlib.redirect_stdout(text), self.assertRaises(SystemExit) as end:
            self.run_demo("none,nnoe", "--loopback")
        self.assertEqual(str(end.exception), "demo: --settings: 'nnoe': unknown codec")
        self.assertEqual(text.getvalue(), "")

    def test_settings_stand_between_blanks_or_commas(self):
        specs = ["none", "qsgd(bits=4,feedback=on)", 'auto(allow="topk(0.01), bf16")', "a(", "b"]
        for separator in (" ", ",", ", "):
            self.assertEqual(demo.split_settings(separator.join(specs[:3])), specs[:3])
        self.assertEqual(demo.split_settings("a( b"), ["a(", "b"])

    def test_failed_run_shows_its_last_words(self):
        with self.assertRaises(SystemExit) as end:
            self.run_demo("broken", "--loopback")
        self.assertIn("rank 1 says why", str(end.exception))
        self.assertIn("exit code 1", str(end.exception))


if __name__ == "__main__":
    unittest_main.main()
