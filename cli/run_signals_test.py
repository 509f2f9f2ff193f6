"""`gradwire run` and the signals that it gets."""

import functools
import os
import signal
import subprocess
import time
import unittest

from tools import unittest_main

_GRADWIRE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire", "cli", "gradwire")
_LIMIT_S = 60


class RunSignalsTest(unittest.TestCase):
    def test_forwards_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            script = f"trap 'echo caught; exit 5' {number}; echo ready; while :; do sleep 0.01; done"
            command = [_GRADWIRE, "run", "-n", "2", "--", "/bin/bash", "-c", script]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
                ready = sorted(job.stdout.readline() for _ in range(2))
                self.assertEqual(ready, ["[1] ready\n", "ready\n"])
                job.send_signal(number)
                rest = sorted(job.stdout.read().splitlines())
                self.assertEqual(job.wait(_LIMIT_S), 5)
            self.assertEqual(rest, ["[1] caught", "caught"])

    def test_goes_on_after_a_hang_up_that_is_ignored(self):
        """As under nohup; what is ignored is not forwarded either."""
        script = "for word in one two three; do echo $word; read -r; done"
        command = [_GRADWIRE, "run", "-n", "1", "--grace", "0", "--", "/bin/bash", "-c", script]
        ignore = functools.partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              preexec_fn=ignore) as job:
            for word in ("one", "two", "three"):
                self.assertEqual(job.stdout.readline(), word + "\n")
                job.send_signal(signal.SIGHUP)
                job.stdin.write("\n")
                job.stdin.flush()
            self.assertEqual(job.wait(_LIMIT_S), 0)

    def test_passes_on_what_the_ranks_may_take_as_they_like(self):
        """As a scheduler's word that their time is up."""
        script = ("trap 'echo saved; exit 0' USR1; trap 'echo heard' USR2; echo ready; "
                  "while :; do sleep 0.01; done")
        command = [_GRADWIRE, "run", "-n", "1", "--grace", "0", "--", "/bin/bash", "-c", script]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
            for number, word in ((signal.SIGUSR2, "ready"), (signal.SIGUSR1, "heard")):
                self.assertEqual(job.stdout.readline(), word + "\n")
                job.send_signal(number)
            self.assertEqual(job.stdout.read(), "saved\n")
            self.assertEqual(job.wait(_LIMIT_S), 0)

    def test_a_terminal_that_closes_leaves_the_ranks_their_time(self):
        """It sends two hang-ups."""
        script = ("trap 'echo caught; read -r; echo saved; exit 4' HUP; echo ready; "
                  "while :; do sleep 0.01; done")
        command = [_GRADWIRE, "run", "-n", "1", "--", "/bin/bash", "-c", script]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as job:
            for word in ("ready", "caught"):
                self.assertEqual(job.stdout.readline(), word + "\n")
                job.send_signal(signal.SIGHUP)
            job.stdin.write("\n")
            job.stdin.flush()
            self.assertEqual(job.stdout.read(), "saved\n")
            self.assertEqual(job.wait(_LIMIT_S), 4)

    def test_stops_and_goes_on_with_its_ranks(self):
        command = [_GRADWIRE, "run", "-n", "1", "--", "/bin/bash", "-c",
                   "echo $$; read -r; echo on"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              process_group=0) as job:
            rank = int(job.stdout.readline())
            job.send_signal(signal.SIGTSTP)
            os.waitid(os.P_PID, job.pid, os.WSTOPPED)
            self._expect_state(rank, "T")
            job.send_signal(signal.SIGCONT)
            job.stdin.write("\n")
            job.stdin.flush()
            self.assertEqual(job.stdout.read(), "on\n")
            self.assertEqual(job.wait(_LIMIT_S), 0)

    def _expect_state(self, pid, state):
        end = time.monotonic() + _LIMIT_S
        while True:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
                if stat.read().rpartition(")")[2].split()[0] == state:
                    return
            self.assertLess(time.monotonic(), end, f"process {pid} is not in state {state}")
            os.sched_yield()

    def test_stops_only_where_somebody_can_let_it_go_on(self):
        command = [_GRADWIRE, "run", "-n", "1", "--", "/bin/bash", "-c",
                   "echo ready; read -r; echo on"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              start_new_session=True) as job:
            self.assertEqual(job.stdout.readline(), "ready\n")
            job.send_signal(signal.SIGTSTP)
            job.stdin.write("\n")
            job.stdin.flush()
            self.assertEqual(job.stdout.read(), "on\n")
            self.assertEqual(job.wait(_LIMIT_S), 0)


if __name__ == "__main__":
    unittest_main.main()
