"""Trains on two ranks, on a small made-up data set."""

import gzip
import json
import os
import random
import struct
import subprocess
import tempfile
import unittest

from tools import unittest_main

_PIXELS = 6 * 6
_TRAINER = "docs/examples/train_fashion_mnist/train_fashion_mnist"


def write_images(folder, prefix, images, seed):
    """Ten classes, told apart by which of the pixels are bright."""
    rng = random.Random(seed)
    labels = bytes(rng.randrange(10) for _ in range(images))
    pixels = bytes(
        rng.randrange(60) + (180 if i % 10 == label else 0)
        for label in labels
        for i in range(_PIXELS)
    )
    with gzip.open(os.path.join(folder, f"{prefix}-images-idx3-ubyte.gz"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, images, 6, 6) + pixels)
    with gzip.open(os.path.join(folder, f"{prefix}-labels-idx1-ubyte.gz"), "wb") as file:
        file.write(struct.pack(">II", 0x801, images) + labels)


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        write_images(cls.folder.name, "train", 640, 1)
        write_images(cls.folder.name, "t10k", 101, 2)

    def train(self, *flags, ranks=2, threads=False):
        """The JSON of a run, with ranks as processes or as threads of one."""
        path = os.path.join(self.folder.name, "run.json")
        command = ["cli/gradwire", "run", "-n", str(ranks), "--", _TRAINER]
        if threads:
            command = [_TRAINER, f"--threads={ranks}"]
        command += [f"--data={self.folder.name}", f"--json={path}", "--hidden", "32", "16"]
        command += ["--epochs=4", "--batch=16", "--eval-every=20", "--target=90", *flags]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.output = done.stdout
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def test_learns_and_reports(self):
        run = self.train("--spec=qsgd(bits=8)")
        self.assertEqual(run["steps"], 80)
        self.assertEqual([p["step"] for p in run["points"]], [0, 20, 40, 60, 80])
        losses = [p["loss"] for p in run["points"]]
        self.assertIsNone(losses[0])
        self.assertGreater(losses[1], losses[4])
        self.assertRegex(self.output, r"(?m)^step 0/80, epoch 0\.00, accuracy [0-9.]+ %$")
        self.assertRegex(self.output, r"(?m)^step 20/80, epoch 1\.00, loss [0-9.]+, accuracy ")
        self.assertGreater(run["final_accuracy"], 90)
        self.assertGreater(run["to_target_s"], 0)
        self.assertEqual(run["network"], "36-32-16-10")
        self.assertEqual(len(set(run["digests"])), 1)
        self.assertGreater(run["compute_ms"], 0)
        self.assertGreater(run["exposed_comm_ms"], 0)
        tensors = run["ledger"]["tensors"]
        self.assertEqual([t["name"] for t in tensors], ["layer1", "layer2", "layer3"])
        for counter in run["counters"]:
            self.assertGreater(counter["transport_bytes"], 0)
            self.assertIsNone(counter["interface_bytes"])

    def test_same_seed_same_bits(self):
        for spec in ("none", "qsgd(bits=4,feedback=on)"):
            runs = [
                self.train(f"--spec={spec}", *more)
                for more in ((), ("--submit=end",), ("--seed=2",))
            ]
            first, at_end, other_seed = (run["digests"][0] for run in runs)
            self.assertEqual(first, at_end, f"{spec}: when a gradient is submitted must not matter")
            self.assertNotEqual(first, other_seed, spec)

    def test_transports_do_not_change_the_bits(self):
        chosen = ("--slice=1024", "--algorithm=ring")
        for spec in ("none", "qsgd(bits=4,feedback=on)"):
            digests = {}
            for flags in ((), chosen):
                few = (f"--spec={spec}", "--steps=10", *flags)
                threads = self.train(*few, "--transport=loopback", ranks=3, threads=True)
                self.assertEqual(threads["stats"]["transport"], "loopback")
                self.assertEqual(len(set(threads["digests"])), 1)
                for transport in ("shm", "ucx", "tcp"):
                    processes = self.train(*few, f"--transport={transport}", ranks=3)
                    self.assertEqual(processes["stats"]["transport"], transport)
                    self.assertEqual(threads["digests"], processes["digests"], few)
                digests[flags] = threads["digests"][0]
            if spec == "none":
                # The order of addition differs: what was asked for is what was done.
                self.assertNotEqual(digests[()], digests[chosen])

    def test_compression_sends_less(self):
        sent = {}
        for spec in ("none", "qsgd(bits=8)"):
            counters = self.train(f"--spec={spec}", "--hidden", "512")["counters"]
            sent[spec] = sum(c["transport_bytes"] for c in counters)
        self.assertLess(sent["qsgd(bits=8)"], 0.35 * sent["none"])

    def test_wrong_spec_is_an_error_with_a_hint(self):
        for threads in (False, True):
            with self.assertRaisesRegex(AssertionError, "gwTensorRegister: .*qsgd"):
                self.train("--spec=qsdg(bits=8)", threads=threads)

    def test_stops_together_when_time_is_up(self):
        run = self.train("--max-seconds=1e-9", ranks=3)
        self.assertEqual(run["steps"], 20)
        self.assertEqual(len(set(run["digests"])), 1)


if __name__ == "__main__":
    unittest_main.main()
