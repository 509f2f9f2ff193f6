"""What gradwire keeps resident, against the same run without it, and what attach() tells of it."""

import functools
import math
import re
from typing import NamedTuple

import pytest

import launch

_MOST_BESIDES = 64 << 20
# Of memory_program's model.
_TENSORS, _SHAPE = 8, (1024, 2048)
_AVERAGE = 8 * math.prod(_SHAPE)
_BASIS = 2 * 4 * 4 * max(_SHAPE)  # of rank 4


class _Memory(NamedTuple):
    """Bytes of rank 0."""

    elems: int
    resident: int
    residual: int
    method: int
    held: int
    told: str  # at attach


def _memory(*args):
    ended = launch.ranks("memory_program.py", *args)
    for rank in ended:
        assert rank.code == 0, rank.output
    line = re.search(r"^elems .*$", ended[0].output, re.MULTILINE)[0]
    return _Memory(*map(int, re.findall(r"\d+", line)), ended[0].output)


_plain = functools.cache(_memory)


def _expect(ours, plain, may=""):
    """That attach() told what is kept, and that there is little else."""
    told = (f"residuals {may}take {ours.residual / 1e6:.1f} MB, codecs {may}keep "
            f"{ours.method / 1e6:.1f} MB besides, buffers take at most 64 MiB")
    assert told in ours.told, ours.told
    more = ours.resident - plain.resident - ours.held
    assert more <= _MOST_BESIDES, more


# With bytes of residuals for each element, and those of what a codec keeps besides for each tensor:
# an average of signs, top-k's quota and speaker, the basis of a matrix.
@pytest.mark.parametrize("kind,spec,settings,residual,besides", [
    ("ddp", "none", "", 0, 0), ("ddp", "qsgd(bits=8)", "", 0, 0),
    ("ddp", "qsgd(bits=4,feedback=on)", "", 8, 0),
    ("ddp", "qsgd(bits=4,feedback=on)", "transaction=off", 4, 0),
    ("ddp", "signsgd(momentum=0.9)", "", 0, _AVERAGE),
    ("ddp", "topk(0.01)", "", 8, 2 * 8),
    ("ddp", "powersgd(rank=4)", "", 8, _BASIS),
    ("replicas", "qsgd(bits=8)", "", 0, 0), ("replicas", "topk(0.01)", "", 8, 2 * 8),
    # Of the gradients of all shards.
    ("shards", "qsgd(bits=8)", "", 0, 0), ("shards", "qsgd(bits=4,feedback=on)", "", 8, 0)])
def test_what_codecs_keep_and_little_else(kind, spec, settings, residual, besides):
    ours = _memory(kind, spec, settings)
    assert (ours.residual, ours.method) == (residual * ours.elems, besides * _TENSORS)
    assert ours.held == ours.residual + ours.method
    _expect(ours, _plain(kind))


@pytest.mark.parametrize("spec,besides", [("auto", 0), ('auto(allow="powersgd(rank=4)")', _BASIS)])
def test_the_most_that_auto_may_keep(spec, besides):
    ours = _memory("ddp", spec)
    assert (ours.residual, ours.method) == (8 * ours.elems, besides * _TENSORS)
    assert ours.held <= ours.residual + ours.method
    _expect(ours, _plain("ddp"), "may ")
