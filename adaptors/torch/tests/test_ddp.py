"""DistributedDataParallel with gradwire on two ranks."""

import ast
import os

import pytest

import launch

_PROGRAM = "ddp_program.py"


def _scenarios():
    """The public functions of the program without parameters, but for main."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), _PROGRAM)
    with open(path, encoding="utf-8") as file:
        functions = [n for n in ast.parse(file.read()).body if isinstance(n, ast.FunctionDef)]
    return [f.name for f in functions
            if not f.args.args and not f.name.startswith("_") and f.name != "main"]


@pytest.fixture(scope="module", name="ended")
def _ended(request):
    """All chosen scenarios one after the other: importing torch takes seconds."""
    chosen = [item.callspec.params["scenario"] for item in request.session.items
              if item.module is request.module and hasattr(item, "callspec")]
    return launch.ranks(_PROGRAM, *chosen)


@pytest.mark.parametrize("scenario", _scenarios())
def test_ddp(scenario, ended):
    for rank in ended:
        if f"failed {scenario}\n" not in rank.output:
            assert f"passed {scenario}\n" in rank.output, "not run: " + rank.output[-3000:]
        else:
            raise AssertionError(rank.output[rank.output.index(f"failed {scenario}\n"):])


def test_the_program_ends_in_good_order(ended):
    for rank in ended:
        assert rank.code == 0, rank.output[-3000:]
