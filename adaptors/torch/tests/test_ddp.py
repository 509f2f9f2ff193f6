"""DistributedDataParallel with gradwire on two ranks, and on three what they might not show."""

import pytest

import launch
import scenarios

# Of one rank there would be nothing to keep.
_OF_TWO_AND_OF_THREE = ["replicated_state_is_kept_by_fewer_ranks_and_more",
                        "distributed_checkpoints_of_fewer_ranks"]
_SCENARIOS = [name for name in scenarios.of(
    "ddp_training.py", "ddp_unused.py", "ddp_options.py", "ddp_checkpoints.py", "ddp_handles.py",
    "ddp_refusals.py", "ddp_failures.py") if name not in _OF_TWO_AND_OF_THREE]
# Where a rank stands against several, or the number of ranks is no power of two.
_OF_THREE = ["buckets_are_rebuilt", "distributed_checkpoints", "nothing_is_lost_by_a_resume",
             "joins_that_divide_by_fewer_ranks", "a_check_that_fails_on_one_rank",
             "a_rank_that_closes_late", "dropping_the_model_ends_it", *_OF_TWO_AND_OF_THREE]


@pytest.fixture(scope="module", name="ended")
def _ended(request):
    return launch.ranks("ddp_program.py", *scenarios.chosen(request, "test_ddp"))


@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_ddp(scenario, ended):
    scenarios.expect_passed(scenario, ended)


@pytest.fixture(scope="module", name="ended_of_three")
def _ended_of_three(request):
    names = scenarios.chosen(request, "test_ddp_of_three_ranks")
    return launch.ranks("ddp_program.py", *names, count=3)


@pytest.mark.parametrize("scenario", _OF_THREE)
def test_ddp_of_three_ranks(scenario, ended_of_three):
    scenarios.expect_passed(scenario, ended_of_three)


def test_the_program_ends_in_good_order(ended):
    scenarios.expect_good_order(ended)
