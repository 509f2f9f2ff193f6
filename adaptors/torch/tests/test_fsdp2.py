"""Models with fully_shard() on two replicas, of one rank and of two."""

import pytest

import launch
import scenarios

_PROGRAM = "fsdp2_program.py"
_REPLICAS = 2
# What sharding does not touch is tried without.
_WITHOUT_SHARDS = ["none_is_native_hsdp", "each_unit_is_a_tensor"]
_FILES = ["fsdp2_gradients.py", "fsdp2_state.py", "fsdp2_failures.py", "fsdp2_steps.py",
          "fsdp2_roots.py", "fsdp2_ignored.py", "fsdp2_scatter.py", "fsdp2_training.py"]


@pytest.fixture(scope="module", name="ended")
def _ended(request):
    return launch.ranks(_PROGRAM, *scenarios.chosen(request, "test_sharded"), count=2 * _REPLICAS)


@pytest.mark.parametrize("scenario", scenarios.of(*_FILES))
def test_sharded(scenario, ended):
    scenarios.expect_passed(scenario, ended)


def test_the_program_ends_in_good_order(ended):
    scenarios.expect_good_order(ended)


@pytest.fixture(scope="module", name="ended_without_shards")
def _ended_without_shards(request):
    return launch.ranks(_PROGRAM, *scenarios.chosen(request, "test_one_shard"), count=_REPLICAS)


@pytest.mark.parametrize("scenario", _WITHOUT_SHARDS)
def test_one_shard(scenario, ended_without_shards):
    scenarios.expect_passed(scenario, ended_without_shards)
