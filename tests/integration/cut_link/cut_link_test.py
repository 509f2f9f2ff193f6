"""A cut link: every survivor is told who is gone within the heartbeat bound."""

import os
import re
import subprocess
import unittest

from tests.lib import networks
from tools import unittest_main

_HERE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire")
_GRADWIRE = os.path.join(_HERE, "cli", "gradwire")
_RANK = os.path.join(_HERE, "tests", "integration", "cut_link", "cut_link_rank")
_RANKS = 3
_LIMIT_S = 60
# heartbeat_timeout_ms of the ranks; at most a second more until the transport has let go of the
# operation's memory; and what a busy machine adds.
_BOUND_S = 1.0 + 1.0 + 1.0
_LEAVE_BOUND_S = 5.0


@unittest.skipUnless(networks.can_make(), "this process may not make network namespaces")
class CutLinkTest(unittest.TestCase):
    def _events(self, transport, victim):
        """What each rank said: {event: (seconds, text)} by rank."""
        command = [_GRADWIRE, "run", "-n", str(_RANKS), "--netlab", "1gbit", "--", _RANK,
                   transport, str(victim)]
        job = subprocess.run(command, capture_output=True, text=True, check=False,
                             timeout=_LIMIT_S)
        self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
        events = [{} for _ in range(_RANKS)]
        for line in job.stdout.splitlines():
            rank, event, time_ns, text = re.fullmatch(
                r"(?:\[(\d+)\] )?(\w+) (\d+) ?(.*)", line).groups()
            events[int(rank or 0)][event] = (int(time_ns) / 1e9, text)
        return events

    def _expect_told(self, victim):
        for transport in ("ucx", "tcp"):
            with self.subTest(transport=transport):
                self._expect_told_over(transport, victim)

    def _expect_told_over(self, transport, victim):
        events = self._events(transport, victim)
        cut_s = events[victim]["cut"][0]
        for rank, mine in enumerate(events):
            with self.subTest(victim=victim, rank=rank):
                self.assertNotIn("broken", mine)
                self.assertIn("failed", mine, "the operation was through before the cut")
                failed_s, text = mine["failed"]
                print(f"{transport}: victim {victim}, rank {rank}: after {failed_s - cut_s:.3f} s: {text}")
                self.assertLess(failed_s - cut_s, _BOUND_S)
                self.assertLess(mine["left"][0] - failed_s, _LEAVE_BOUND_S)
                if rank != victim:
                    self.assertRegex(text, rf"^peer lost: .*; peer {victim}; operation all-reduce")

    def test_of_rank_0_is_told_to_all(self):
        self._expect_told(0)

    def test_of_another_rank_is_told_to_all(self):
        self._expect_told(2)


if __name__ == "__main__":
    unittest_main.main()
