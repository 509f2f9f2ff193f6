"""What ./run says of verbs that there are not."""

import os
import subprocess
import unittest

from tools import unittest_main

_RUN = os.path.join(os.environ["TEST_SRCDIR"], "gradwire", "run")


def _refusal(verb):
    done = subprocess.run([_RUN, verb], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


class RunVerbsTest(unittest.TestCase):
    def test_a_misspelt_verb_gets_the_nearest(self):
        for verb, nearest in (("dmeo", "demo"), ("bench-trian", "bench-train"), ("wheels", "wheel")):
            hint = f"run: no verb '{verb}'. Did you mean '{nearest}'? ./run help lists them\n"
            self.assertEqual(_refusal(verb), (1, hint))

    def test_one_like_no_other_gets_the_list(self):
        code, text = _refusal("quux")
        self.assertEqual(code, 1)
        self.assertTrue(text.startswith("usage: ./run VERB"), text)
        self.assertTrue(text.endswith("run: no verb 'quux'\n"), text)


if __name__ == "__main__":
    unittest_main.main()
