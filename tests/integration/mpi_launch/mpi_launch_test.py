"""Open MPI's mpirun and MPICH's mpiexec.hydra start gradwire's ranks: they find each other by what
the launcher tells them, compute, and say clearly what is wrong with a wrong environment."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from tests.lib import free_port
from tools import unittest_main

_HERE = os.path.join(os.environ["TEST_SRCDIR"], "gradwire")
_GRADWIRE = os.path.join(_HERE, "cli", "gradwire")
_CONSUMER = os.path.join(_HERE, "tests", "integration", "c99_consumer", "consumer")
_LIMIT_S = 100
# The consumer's exit code where it could not start.
_NOT_STARTED = 100


def _listen():
    """A socket that has a port of its own and answers nobody."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


class Launcher:
    """What must hold under each of them."""

    command = []

    def setUp(self):
        if shutil.which(self.command[0]) is None:
            self.skipTest("%s is not installed" % self.command[0])

    def _surroundings(self):
        """Variables that a user of this launcher sets."""
        return {}

    def _start(self, ranks, program, **variables):
        # Open MPI refuses long paths for its sockets.
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            environment = dict(os.environ, TMPDIR=folder, **{**self._surroundings(), **variables})
            return subprocess.run([*self.command, "-n", str(ranks), *program],
                                  capture_output=True, text=True, check=False, timeout=_LIMIT_S,
                                  stdin=subprocess.DEVNULL, env=environment)

    def _expect_refused(self, text, **variables):
        job = self._start(2, [_CONSUMER], **variables)
        self.assertEqual(job.returncode, _NOT_STARTED, job.stdout + job.stderr)
        self.assertRegex(job.stderr, text)

    def test_a_program_that_knows_the_public_header_only(self):
        for ranks in (1, 2, 5):
            job = self._start(ranks, [_CONSUMER])
            self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
            self.assertNotIn("FAILED", job.stdout)
            ended = re.findall(r"^rank (\d+) of (\d+): 0 failures$", job.stdout, re.MULTILINE)
            self.assertEqual(sorted(ended), [(str(r), str(ranks)) for r in range(ranks)])

    def test_perf_finds_no_wrong_value(self):
        specs = ["none", "qsgd(bits=4)", "topk(0.1)"]
        options = [option for spec in specs for option in ("-x", spec)]
        job = self._start(3, [_GRADWIRE, "perf", "-b", "4K", "-e", "1M", "-f", "16", "-n", "2",
                              "-w", "1", "--json", *options])
        self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
        # Of one rank: that of three would be no JSON.
        result = json.loads(job.stdout)
        self.assertEqual(result["ranks"], 3)
        self.assertEqual(result["out_of_bounds"], 0)
        self.assertEqual(len(result["results"]), 3 * len(specs))

    def test_half_of_an_environment_is_refused(self):
        self._expect_refused("GRADWIRE_RANK is set but GRADWIRE_WORLD_SIZE is not",
                             GRADWIRE_RANK="0")

    def test_another_launchers_variables_contradict(self):
        self._expect_refused(
            r"WORLD_SIZE=7 contradicts \w+_SIZE=2|RANK=0 contradicts \w+_RANK=1",
            RANK="0", WORLD_SIZE="7", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")

    def test_a_port_that_another_program_has(self):
        with _listen() as other:
            port = other.getsockname()[1]
            self._expect_refused(
                "port %d of 127.0.0.1:%d is taken by another process.*GRADWIRE_PORT" % (port, port),
                GRADWIRE_PORT=str(port), GRADWIRE_INIT_TIMEOUT_MS="2000")

    def test_a_misspelt_setting(self):
        self._expect_refused("Did you mean 'shm'", GRADWIRE_TRANSPORT="shn")


class OpenMpiTest(Launcher, unittest.TestCase):
    command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]


class MpichTest(Launcher, unittest.TestCase):
    command = ["mpiexec.hydra"]

    def _surroundings(self):
        # It tells no job: two of them on one host need ports of their own.
        return {"GRADWIRE_PORT": str(free_port.find())}


if __name__ == "__main__":
    unittest_main.main()
