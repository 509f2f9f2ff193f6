"""The package on two ranks, as processes."""

import os
import subprocess
import sys
import unittest

from adaptors.python import installed
from tools import unittest_main

_GRADWIRE = os.path.join(installed.FOLDER, "gradwire", "_native", "gradwire")
_PROGRAM = os.path.abspath("adaptors/python/rank_program.py")


def _run(scenario):
    # -P: not the sources, which lie beside the program.
    command = [_GRADWIRE, "run", "-n", "2", "--timeout", "50", "--", sys.executable, "-P"]
    return subprocess.run([*command, _PROGRAM, scenario], env=installed.environment(), check=False,
                          capture_output=True, text=True, timeout=100)


class RanksTest(unittest.TestCase):
    def _check_ok(self, scenario):
        done = _run(scenario)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def test_averages(self):
        self.assertEqual(self._check_ok("averages").stderr, "")

    def test_groups_and_messages(self):
        self.assertEqual(self._check_ok("groups").stdout.count("peer 2 is not in [0, 2)"), 2)

    def test_a_negative_color_is_refused_on_all_ranks(self):
        out = self._check_ok("negative_color").stdout
        self.assertRegex(out, "rank 0: gwInvalidArgument: .*is negative; .*None")
        self.assertRegex(out, "rank 1: gwRemoteError: .*rank 0 failed in the split")

    def test_arrays_of_dropped_requests_stay_as_long_as_needed(self):
        self.assertEqual(self._check_ok("dropped_request").stderr, "")

    def test_a_mismatch_names_both_values(self):
        out = self._check_ok("mismatch").stdout
        for rank in (0, 1):
            self.assertRegex(out, rf"rank {rank}: .*count")

    def test_a_killed_rank_is_named(self):
        done = _run("killed_peer")
        self.assertEqual(done.returncode, 128 + 9, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "lost: .*rank 1", done.stderr)

    def test_leaving_without_close_disturbs_nobody(self):
        done = self._check_ok("exits_without_a_word")
        self.assertEqual(done.stdout.count("leaves"), 2)
        self.assertEqual(done.stderr, "")

    def test_dropping_a_communicator_behind_a_step_disturbs_nobody(self):
        self.assertEqual(self._check_ok("dropped_behind_a_step").stderr, "")

    def test_an_exception_in_one_rank_reaches_the_other(self):
        done = _run("exception")
        self.assertEqual(done.returncode, 1)
        self.assertIn("KeyError: 'of rank 1'", done.stderr)
        self.assertIn("rank 0 was told", done.stdout)

    def test_signal_handlers_run_during_waits(self):
        for scenario, name in (("interrupted_request", "SIGUSR1"),
                               ("interrupted_barrier", "SIGUSR1"),
                               ("terminated_barrier", "SIGTERM")):
            with self.subTest(scenario):
                self.assertIn(f"rank 0 was interrupted by the handler of {name}",
                              _run(scenario).stdout)

    def test_a_second_interrupt_keeps_no_communicator(self):
        self.assertIn("rank 0 was interrupted by a second one", _run("interrupted_twice").stdout)

    def test_an_operation_that_timed_out_ends_the_wait(self):
        self.assertRegex(self._check_ok("timeout_of_the_operation").stdout, "rank 0: .*time")

    def test_a_child_of_fork_is_refused_and_harmless(self):
        for scenario in ("fork", "fork_amid_abort"):
            with self.subTest(scenario):
                self.assertEqual(self._check_ok(scenario).stdout.count("still there"), 2)


if __name__ == "__main__":
    unittest_main.main()
