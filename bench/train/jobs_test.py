"""What jobs leave behind and how long they may take."""

import os
import pathlib
import signal
import tempfile
import unittest

import jobs
from tools import unittest_main


def _command(pid):
    """Of a running process; nothing where it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


class NeighboursTest(unittest.TestCase):
    def test_they_die_with_who_started_them(self):
        ours, theirs = os.pipe()
        starter = os.fork()
        if starter == 0:
            try:
                with jobs.Neighbours() as neighbours:
                    os.write(theirs, " ".join(map(str, neighbours.pids)).encode())
                    signal.pause()
            finally:
                os._exit(1)  # what it raised is no result of this test's process
        os.close(theirs)
        pids = [int(pid) for pid in os.read(ours, 1000).split()]
        # From when setpriv has become what it starts they are tied to the starter.
        while not all(b"while True" in _command(p) and b"setpriv" not in _command(p) for p in pids):
            os.sched_yield()
        os.kill(starter, signal.SIGKILL)
        os.waitpid(starter, 0)
        self.assertEqual(len(pids), len(os.sched_getaffinity(0)))
        # The test's time limit bounds this.
        while any(_command(pid) for pid in pids):
            os.sched_yield()
        os.close(ours)


class JobsTest(unittest.TestCase):
    def test_a_machine_whose_state_cannot_be_told_in_time_fails_the_job(self):
        with tempfile.TemporaryDirectory() as folder:
            hangs = pathlib.Path(folder, "gradwire")
            hangs.write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do :; done\n", encoding="utf-8")
            hangs.chmod(0o755)
            with self.assertRaisesRegex(jobs.JobFailed, "train --model .*: not done after 0.1 s"):
                jobs.Jobs(hangs, timeout_s=0.1).machine_state()


if __name__ == "__main__":
    unittest_main.main()
