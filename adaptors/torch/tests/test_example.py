"""The examples of docs/pytorch.md, by the commands that stand there."""

import os
import re
import subprocess
import sys

import pytest

import launch

_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
_EXAMPLES = ["docs/examples/ddp_fashion_mnist.py", "docs/examples/fsdp2_transformer.py"]
_MAX_LINES = 60


def _read(path):
    with open(os.path.join(_ROOT, path), encoding="utf-8") as file:
        return file.read()


def _command(example):
    return re.search(rf"^torchrun .*{re.escape(example)}$", _read("docs/pytorch.md"), re.MULTILINE)[0]


def _output(example):
    # torchrun beside this Python.
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    done = subprocess.run(_command(example).split(), cwd=_ROOT, check=False, capture_output=True,
                          env=launch.environment(PATH=path), text=True, timeout=launch.LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ddp_fashion_mnist():
    output = _output("docs/examples/ddp_fashion_mnist.py")
    last = re.search(r"epoch 1: accuracy ([\d.]+) %, .* (\d+) kB sent in each \(uncompressed (\d+)",
                     output)
    assert last, output
    assert float(last[1]) > 82
    # Of two ranks each sends its part of the gradient and of the sum: 4 bits of 32, and scales.
    assert int(last[2]) < int(last[3]) / 6


def test_fsdp2_transformer():
    output = _output("docs/examples/fsdp2_transformer.py")
    lines = re.findall(r"loss ([\d.]+), (\d+) kB sent in each \(uncompressed (\d+)", output)
    assert len(lines) == 5, output
    # Eleven letters: 2.4 without an idea.
    assert float(lines[-1][0]) < 1.2 < float(lines[0][0]), output
    assert int(lines[-1][1]) < int(lines[-1][2]) / 3, output


@pytest.mark.parametrize("example", _EXAMPLES)
def test_examples_are_short_and_say_the_same_command(example):
    text = _read(example)
    assert len(text.splitlines()) < _MAX_LINES
    assert _command(example) in text
