"""`gradwire info`: what the build has, the settings and where their values come from."""

import json
import os
import subprocess
import unittest

from tools import unittest_main

_GRADWIRE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire", "cli", "gradwire")
_LIMIT_S = 30


def _gradwire(*args, **variables):
    """The finished command, with no settings in its environment but these."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GRADWIRE_")}
    return subprocess.run([_GRADWIRE, *args], capture_output=True, text=True, timeout=_LIMIT_S,
                          check=False, env={**kept, **variables})


def _facts(**variables):
    done = _gradwire("info", "--json", **variables)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class InfoTest(unittest.TestCase):
    def test_says_whether_there_is_cuda(self):
        text = _gradwire("info").stdout
        built_with = _facts()["cuda"]["built_with"]
        line = r"built with \d+\.\d+, .*" if built_with else "not in this build"
        self.assertRegex(text, rf"(?m)^cuda: {line}$")

    def test_lists_what_the_registries_have(self):
        text, facts = _gradwire("info").stdout, _facts()
        self.assertTrue(text.startswith(f"gradwire {facts['version']}\n"), text)
        for kind, some in (("transports", {"shm", "ucx", "tcp", "loopback"}),
                           ("codecs", {"none", "bf16", "fp16", "qsgd", "efsign"}),
                           ("algorithms", {"ring", "tree", "recursive_doubling", "two_shot"})):
            names = {row["name"] for row in facts[kind]}
            self.assertLessEqual(some, names, kind)
            for name in names:
                self.assertRegex(text, rf"(?m)^ .*\b{name} ", kind)

    def test_shows_every_setting_with_its_source(self):
        lines = _gradwire("info", "-c", GRADWIRE_WINDOW="7").stdout.splitlines()
        rows = {line.split()[0]: line for line in lines[1:]}
        settings = {row["name"]: row for row in _facts(GRADWIRE_WINDOW="7")["settings"]}
        self.assertEqual(rows.keys(), settings.keys())
        for name, row in settings.items():
            self.assertTrue(rows[name].endswith(row["doc"]), rows[name])
        self.assertRegex(rows["window"], r"^window +7 +GRADWIRE_WINDOW ")
        self.assertEqual(settings["window"]["source"], "environment")
        self.assertRegex(rows["transport"], r"^transport +auto +default ")
        self.assertEqual(settings["transport"]["source"], "default")

    def test_says_what_is_wrong(self):
        done = _gradwire("info", "-c", GRADWIRE_WINDOW="wide")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"'window' = 'wide' \(from GRADWIRE_WINDOW\): accepted: ")
        done = _gradwire("info", "-c", GRADWIRE_COMPRESS="atuo")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"Did you mean 'auto'\? Known: none, .*, auto")
        self.assertIn("setting 'compress' = 'atuo' (from GRADWIRE_COMPRESS): ", done.stderr)
        done = _gradwire("info", "-c", GRADWIRE_TRANSPROT="shm")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Did you mean 'GRADWIRE_TRANSPORT'?", done.stderr)
        self.assertEqual(_gradwire("info", "--settigns").returncode, 2)

    def test_perf_warns_once_of_a_misspelt_variable(self):
        done = _gradwire("perf", "--ranks", "3", "-b", "1K", GRADWIRE_TRANSPROT="shm")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("GRADWIRE_TRANSPROT"), 1, done.stderr)

    def test_doctor_tries_what_a_job_does(self):
        facts = {row["name"]: row["usable"] for row in _facts()["transports"]}
        self.assertTrue(facts["shm"] and facts["tcp"] and facts["loopback"], facts)
        if not facts.get("ucx"):
            self.skipTest("no UCX here")
        # A worker of UCX's `self` starts, and reaches itself only.
        alone = {"GRADWIRE_TRANSPORT": "ucx", "UCX_TLS": "self"}
        done = _gradwire("doctor", "--ranks", "2", **alone)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^failure +transport ucx: .*reaches no other process")
        usable = {row["name"]: row["usable"] for row in _facts(**alone)["transports"]}
        self.assertEqual([name for name in usable if not usable[name]], ["ucx"])

    def test_a_misspelt_subcommand_gets_the_nearest(self):
        done = _gradwire("ifno")
        self.assertEqual(done.returncode, 2)
        self.assertIn("Did you mean 'info'? gradwire --help lists them", done.stderr)
        self.assertEqual(_gradwire("quux").stderr,
                         "gradwire: no subcommand 'quux'. gradwire --help lists them\n")


if __name__ == "__main__":
    unittest_main.main()
