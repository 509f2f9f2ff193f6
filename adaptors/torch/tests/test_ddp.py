"""DistributedDataParallel with gradwire on two ranks."""

import pytest

import launch
import scenarios

_SCENARIOS = scenarios.of("ddp_training.py", "ddp_options.py", "ddp_state.py", "ddp_misuse.py")


@pytest.fixture(scope="module", name="ended")
def _ended(request):
    return launch.ranks("ddp_program.py", *scenarios.chosen(request, "test_ddp"))


@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_ddp(scenario, ended):
    scenarios.expect_passed(scenario, ended)


def test_the_program_ends_in_good_order(ended):
    scenarios.expect_good_order(ended)
