"""Carriers are plain arrays: a real MPI_Allreduce adds them as well as gradwire does."""

import os
import subprocess
import tempfile
import unittest

from tools import unittest_main

_HERE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire", "tests", "integration", "mpi_sum")
_RANKS = (1, 2, 3, 5)
_LIMIT_S = 120


class MpiSumTest(unittest.TestCase):
    def _check(self, name, options):
        program = os.path.join(_HERE, "mpi_sum_" + name)
        if not os.path.exists(program):
            self.skipTest("built without %s" % name)
        # Open MPI refuses long paths for its sockets.
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            for ranks in _RANKS:
                job = subprocess.run(["mpirun." + name, *options, "-n", str(ranks), program],
                                     capture_output=True, text=True, check=False,
                                     timeout=_LIMIT_S, env=dict(os.environ, TMPDIR=folder))
                self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
                self.assertIn("signsgd", job.stdout.split())

    def test_open_mpi_adds_carriers(self):
        self._check("openmpi", ["--allow-run-as-root", "--oversubscribe"])

    def test_mpich_adds_carriers(self):
        self._check("mpich", [])


if __name__ == "__main__":
    unittest_main.main()
