"""`gradwire report` on what `gradwire perf` and `gradwire train` really write, and its page."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from xml.etree import ElementTree

from cli import command_page
from tools import unittest_main

_GRADWIRE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire", "cli", "gradwire")
_LIMIT_S = 100


def _gradwire(*args, cwd=None):
    return subprocess.run([_GRADWIRE, *args], capture_output=True, text=True, timeout=_LIMIT_S,
                          check=False, cwd=cwd)


def _page(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return text, ElementTree.fromstring(text)


class ReportTest(unittest.TestCase):
    def test_the_examples_of_its_page_make_one(self):
        with tempfile.TemporaryDirectory() as folder:
            for example in command_page.examples("gradwire report"):
                done = _gradwire(*example, cwd=folder)
                self.assertEqual(done.returncode, 0, " ".join(example) + done.stdout + done.stderr)
            self.assertEqual(done.stdout, "report.html: plots: 3, tables: 2\n")
            text, page = _page(os.path.join(folder, "report.html"))
        self.assertNotRegex(text, r"(?i)https?:|//|url\(|<script|<link|@import|src=|nan\b|inf\b")
        bandwidth, time, steps = page.findall(".//div[@class='plots']/div/svg")
        for plot in (bandwidth, time):
            lines = plot.findall(".//g[@class='series']")
            # 4 KiB to 1 MiB by factors of 4.
            self.assertEqual([len(line.findall("circle")) for line in lines], [5, 5])
        self.assertEqual(len(steps.findall(".//g[@class='series']")), 2)
        headings = [heading.text for heading in page.findall(".//h2")]
        self.assertEqual(headings, ["all-reduce, float, 2 ranks, one host, shm", "fashion-mlp, 2 ranks, one host"])
        names = [item.find("span").tail.split("(")[0] for item in page.findall(".//li")]
        self.assertEqual(names, ["none", "qsgd", "none", "bf16"])

    def test_ranks_on_several_hosts_are_called_so(self):
        """Told apart by the setting host_id."""
        own_host = 'GRADWIRE_HOST_ID="$GRADWIRE_RANK" exec "$@"'
        measured = {"perf": ("-b", "4K", "-n", "2", "-w", "1"),
                    "train": ("--model", "fashion-mlp", "--compute-ms", "0", "-n", "4")}
        with tempfile.TemporaryDirectory() as folder:
            for command, options in measured.items():
                done = _gradwire("run", "-n", "2", "--", "sh", "-c", own_host, "sh", _GRADWIRE,
                                 command, *options, "--transport", "tcp", "--json",
                                 command + ".json", cwd=folder)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            done = _gradwire("report", "perf.json", "train.json", "-o", "page.html", cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            _, page = _page(os.path.join(folder, "page.html"))
        self.assertEqual([heading.text for heading in page.findall(".//h2")],
                         ["all-reduce, float, 2 ranks, several hosts, tcp",
                          "fashion-mlp, 2 ranks, several hosts"])

    def test_the_page_as_data_on_its_page_is_one(self):
        with open("docs/commands.md", encoding="utf-8") as file:
            (section,) = re.findall(r"```json\n(.*?)```", file.read(), re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "data.json")
            with open(data, "w", encoding="utf-8") as file:
                json.dump({"page": 1, "title": "a", "sections": [json.loads(section)]}, file)
            done = _gradwire("report", data, "-o", "-", "--title", "mine & <yours>")
            drawn = _gradwire("report", data, "-o", "plots.svg", cwd=folder)
            _, picture = _page(os.path.join(folder, "plots.svg"))
        self.assertEqual(drawn.stdout, "plots.svg: plots: 1, tables: 0\n", drawn.stderr)
        texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts[:4], ["Fashion-MNIST at 200 Mbit/s", "none", "theirs", "Accuracy against time"])
        self.assertEqual(done.returncode, 0, done.stderr)
        page = ElementTree.fromstring(done.stdout)
        self.assertEqual(page.find(".//h1").text, "mine & <yours>")
        self.assertEqual(len(page.findall(".//g[@class='series dashed']")), 1)
        self.assertEqual(page.find(".//p").text, "means of three seeds")

    def test_help_has_the_defaults(self):
        done = _gradwire("report", "--help")
        self.assertIn("default report.html", done.stdout)
        self.assertIn('"gradwire: measured"', done.stdout)

    def test_what_is_wrong_is_said_and_no_page_is_made(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "report.html")
            other = os.path.join(folder, "other.json")
            with open(other, "w", encoding="utf-8") as file:
                file.write("{}")
            table = os.path.join(folder, "table.csv")
            with open(table, "w", encoding="utf-8") as file:
                file.write("size,count\n")
            for path, code, words in ((other, 2, "perf --json"), (page + "x", 2, "cannot read"),
                                      (folder, 2, "Is a directory"), (table, 2, "perf --json")):
                done = _gradwire("report", path, "-o", page)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertFalse(os.path.exists(page))
            with open(page + ".json", "w", encoding="utf-8") as file:
                json.dump({"page": 1, "title": "a", "sections": [{"notes": ["b"]}]}, file)
            done = _gradwire("report", page + ".json", "-o", page + ".svg")
            self.assertEqual(done.returncode, 2)
            self.assertIn("these results have no plots", done.stderr)
            done = _gradwire("report", page + ".json", "-o", page + ".png")
            self.assertEqual(done.returncode, 2)
            self.assertIn("A page is .html, a picture of its plots .svg", done.stderr)
            done = _gradwire("report", other, "-o", other)
            self.assertEqual(done.returncode, 2)
            self.assertIn("replace its own input", done.stderr)


if __name__ == "__main__":
    unittest_main.main()
