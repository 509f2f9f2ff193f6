"""What gradwire keeps resident, against the same run with noop_hook."""

import re
from typing import NamedTuple

import pytest

import launch

_MOST_BESIDE_RESIDUALS = 64 << 20


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


@pytest.mark.parametrize("spec,settings,bytes_per_elem", [
    ("none", "", 0), ("qsgd(bits=8)", "", 0), ("qsgd(bits=4,feedback=on)", "", 8),
    ("qsgd(bits=4,feedback=on)", "transaction=off", 4)])
def test_residuals_and_little_else(plain, spec, settings, bytes_per_elem):
    ours = _memory(spec, settings)
    residuals = bytes_per_elem * ours.elems
    assert ours.held == residuals
    told = f"residuals take {residuals / 1e6:.1f} MB, buffers at most 64 MiB"
    assert told in ours.told, ours.told
    beside = ours.resident - plain.resident - residuals
    assert beside <= _MOST_BESIDE_RESIDUALS, beside
