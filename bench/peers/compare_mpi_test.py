"""Which rounds are compared: those in which the machine kept its state."""

import argparse
import json
import unittest
from unittest import mock

from bench.peers import compare_mpi
from tools import unittest_main


def _round(shm, mpi, *probes):
    """A round of one transport; the probes are before it, behind it and behind MPI."""
    result = compare_mpi.Round()
    result.add("shm", shm, probes[:2])
    result.add("MPI", mpi, probes[1:])
    return result


class CompareMpiTest(unittest.TestCase):
    def test_names_states_as_gradwire_perf_does(self):
        self.assertEqual(compare_mpi.state_of([0.07, 0.199]), "fast")
        self.assertEqual(compare_mpi.state_of([0.2, 0.34]), "slow")
        self.assertEqual(compare_mpi.state_of([0.07, 0.34]), compare_mpi.CHANGED)
        self.assertEqual(compare_mpi.state_of([None, None]), "not measured")
        self.assertEqual(compare_mpi.state_of([0.07, None]), compare_mpi.CHANGED)

    def test_a_round_of_two_states_is_marked(self):
        self.assertEqual(_round(1, 2, 0.1, 0.1, 0.1).text().count("fast"), 2)
        self.assertNotIn("left out", _round(1, 2, 0.1, 0.1, 0.1).text())
        for probes in [(0.3, 0.1, 0.1), (0.1, 0.3, 0.1), (0.1, 0.1, 0.3)]:
            self.assertIn("left out", _round(1, 2, *probes).text(), probes)

    def test_a_change_between_two_runs_is_seen_too(self):
        result = compare_mpi.Round()
        result.add("shm", 1, [0.1, 0.1])
        result.add("ucx", 1, [0.3, 0.3])
        self.assertEqual(list(result.states.values()), ["fast", "slow"])
        self.assertEqual(result.state, compare_mpi.CHANGED)

    def test_each_state_has_medians_of_its_own(self):
        rounds = [_round(10, 40, 0.1, 0.1, 0.1), _round(12, 40, 0.1, 0.1, 0.1), _round(14, 40, 0.1, 0.1, 0.1),
                  _round(30, 60, 0.3, 0.3, 0.3), _round(999, 1, 0.1, 0.1, 0.3)]
        self.assertEqual(compare_mpi.summary(rounds, "2 ranks"), [
            "2 ranks, fast (3 of 5 rounds): shm 12.00 us, MPI 40.00 us, ratio 0.30 (0.25 to 0.35)",
            "2 ranks, slow (1 of 5 rounds): shm 30.00 us, MPI 60.00 us, ratio 0.50 (0.50 to 0.50)",
            "left out, since the state changed: 1 of 5 rounds"])
        self.assertEqual(compare_mpi.summary(rounds[-1:], "2 ranks"),
                         ["left out, since the state changed: 1 of 1 rounds"])

    def test_mpi_is_probed_on_both_sides(self):
        args = argparse.Namespace(ranks="2", bytes=8, iterations="1", warm_ups="0", transports=["shm", "ucx"])
        perfs = [json.dumps({"ping_pong_us": probes, "results": [{"out_of_place": {"time_us": 5}}]})
                 for probes in ([0.1, 0.1], [0.1, 0.1], [0.3, 0.1])]
        outputs = [perfs[0], perfs[1], "mpirun (Open MPI) 4", "7.5", perfs[2]]
        with mock.patch.object(compare_mpi, "output_of", side_effect=outputs):
            result = compare_mpi.run_round(args, "program")
        self.assertEqual(result.times, {"shm": 5, "ucx": 5, "MPI": 7.5})
        self.assertEqual(result.states, {"shm": "fast", "ucx": "fast", "MPI": compare_mpi.CHANGED})


if __name__ == "__main__":
    unittest_main.main()
