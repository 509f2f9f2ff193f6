"""The example of docs/pytorch.md, by the command that stands there."""

import os
import re
import subprocess
import sys

import launch

_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
_MAX_LINES = 60


def _read(path):
    with open(os.path.join(_ROOT, path), encoding="utf-8") as file:
        return file.read()


def test_the_example_runs_as_printed():
    command = re.search(r"^torchrun .*$", _read("docs/pytorch.md"), re.MULTILINE)[0].split()
    # torchrun beside this Python.
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    done = subprocess.run(command, cwd=_ROOT, env=launch.environment(PATH=path), check=False,
                          capture_output=True, text=True, timeout=launch.LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    last = re.search(r"epoch 1: accuracy ([\d.]+) %, .* (\d+) kB sent in each \(uncompressed (\d+)",
                     done.stdout)
    assert last, done.stdout
    assert float(last[1]) > 82
    # Of two ranks each sends its part of the gradient and of the sum: 4 bits of 32, and scales.
    assert int(last[2]) < int(last[3]) / 6


def test_the_example_is_short_and_says_the_same_command():
    example = _read("docs/examples/ddp_fashion_mnist.py")
    assert len(example.splitlines()) < _MAX_LINES
    assert "torchrun --standalone --nproc-per-node 2 docs/examples/ddp_fashion_mnist.py" in example
