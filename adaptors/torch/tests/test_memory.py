"""What gradwire keeps resident, against the same run with noop_hook."""

import re
from typing import NamedTuple

import pytest

import launch

_MOST_BESIDES = 64 << 20


class _Memory(NamedTuple):
    """Bytes of rank 0."""

    elems: int
    resident: int
    held: int
    told: str  # at attach


def _memory(*args):
    ended = launch.ranks("memory_program.py", *args)
    for rank in ended:
        assert rank.code == 0, rank.output
    figures = re.search(r"^elems (\d+) resident (\d+) held (\d+)$", ended[0].output, re.MULTILINE)
    return _Memory(*map(int, figures.groups()), ended[0].output)


@pytest.fixture(scope="module", name="plain")
def _plain():
    return _memory("noop_hook")


# For each element: bytes of residuals, and of what a codec keeps besides, the average of signs here.
@pytest.mark.parametrize("spec,settings,residual,besides", [
    ("none", "", 0, 0), ("qsgd(bits=8)", "", 0, 0), ("qsgd(bits=4,feedback=on)", "", 8, 0),
    ("qsgd(bits=4,feedback=on)", "transaction=off", 4, 0), ("signsgd(momentum=0.9)", "", 0, 8)])
def test_what_codecs_keep_and_little_else(plain, spec, settings, residual, besides):
    ours = _memory(spec, settings)
    assert ours.held == (residual + besides) * ours.elems
    told = (f"residuals take {residual * ours.elems / 1e6:.1f} MB, codecs keep "
            f"{besides * ours.elems / 1e6:.1f} MB besides, buffers take at most 64 MiB")
    assert told in ours.told, ours.told
    more = ours.resident - plain.resident - ours.held
    assert more <= _MOST_BESIDES, more
