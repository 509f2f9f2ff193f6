"""The backend gradwire of torch.distributed. Importing torch takes seconds: one program, many
scenarios."""

import re
import signal
import subprocess
import sys
from unittest import mock

import pytest

import gradwire_autoload
import launch
import scenarios

_PROGRAM = "backend_program.py"
_FAILURES = "backend_failure_program.py"
# What of the first file two ranks must have bit for bit.
_OF_TWO = ["sums_equal_gloos", *scenarios.of("backend_models.py")]


def _ranks(request, test, **options):
    return launch.ranks(_PROGRAM, *scenarios.chosen(request, test), **options)


@pytest.fixture(scope="module", name="exact")
def _exact(request):
    return _ranks(request, "test_exact", count=3)


@pytest.fixture(scope="module", name="of_two")
def _of_two(request):
    return _ranks(request, "test_of_two_ranks")


@pytest.fixture(scope="module", name="compressed")
def _compressed(request):
    return _ranks(request, "test_compressed", GRADWIRE_COMPRESS="qsgd(bits=8)",
                  GRADWIRE_MIN_BYTES="64K")


@pytest.fixture(scope="module", name="alone")
def _alone(request):
    return _ranks(request, "test_alone", count=1)


@pytest.mark.parametrize("scenario", scenarios.of("backend_exact.py"))
def test_exact(scenario, exact):
    scenarios.expect_passed(scenario, exact)


@pytest.mark.parametrize("scenario", _OF_TWO)
def test_of_two_ranks(scenario, of_two):
    scenarios.expect_passed(scenario, of_two)


@pytest.mark.parametrize("scenario", scenarios.of("backend_compressed.py"))
def test_compressed(scenario, compressed):
    scenarios.expect_passed(scenario, compressed)


@pytest.mark.parametrize("scenario", scenarios.of("backend_alone.py"))
def test_alone(scenario, alone):
    scenarios.expect_passed(scenario, alone)


@pytest.mark.parametrize("program", ["exact", "of_two", "compressed", "alone"])
def test_the_programs_end_in_good_order(program, request):
    ended = request.getfixturevalue(program)
    scenarios.expect_good_order(ended)
    for rank in ended:
        assert "WARN" not in rank.output, rank.output[-3000:]


def test_the_first_rank_says_once_what_is_compressed(exact):
    first, *others = exact
    said = "gradwire: backend: all-reduce and reduce-scatter of floats are exact\n"
    assert first.output.count(said) == 1, first.output
    assert not any("gradwire: backend" in other.output for other in others)


def test_a_killed_rank_is_named():
    survivor, dead = launch.ranks(_FAILURES, "killed")
    assert dead.code == -signal.SIGKILL, dead.output
    assert survivor.code == 0 and "destroyed" in survivor.output, survivor.output
    told = re.findall(r"told (\w+): .*peer lost: rank 1.*with PyTorch: end the job", survivor.output)
    assert told == ["RuntimeError", "PeerLost"], survivor.output


# With DETAIL torch wraps a group in another one of C++.
@pytest.mark.parametrize("debug", ["OFF", "DETAIL"])
def test_programs_end(debug, repeat):
    del repeat
    for ended in launch.ranks(_FAILURES, "exit_without_destroy", afresh=True,
                              TORCH_DISTRIBUTED_DEBUG=debug):
        assert ended.code == 0 and "sum 2.0" in ended.output, ended.output
        assert "WARN" not in ended.output, ended.output


def test_destroying_with_work_under_way_is_bounded():
    failed, other = launch.ranks(_FAILURES, "destroy_with_work_under_way")
    assert failed.code == 0 and "told" in failed.output, failed.output
    assert other.code == 0 and "destroyed" in other.output, other.output


def test_a_group_waits_for_late_ranks_as_long_as_its_timeout():
    first, other = launch.ranks(_FAILURES, "late_for_a_group", GRADWIRE_INIT_TIMEOUT_MS="200")
    for rank in (first, other):
        assert rank.code == 0 and "passed" in rank.output, rank.output
    assert "told TimedOut: of 2 ranks these have not come: 1, within 0:00:00.2" in first.output


def test_counters_do_not_wait_for_an_operation_that_does_not_end():
    first, other = launch.ranks(_FAILURES, "counters_beside_work_under_way")
    assert first.code == 0 and other.code == 0, first.output + other.output
    assert "told TimedOut: operations of the process group have been" in first.output, first.output
    assert "then 1 operation\n" in first.output, first.output


def test_what_fails_in_the_entry_point_does_not_break_torch():
    with mock.patch.object(gradwire_autoload, "register", side_effect=RuntimeError) as failing:
        gradwire_autoload.autoload()
    failing.assert_called_once_with()


def test_a_library_that_is_not_there_does_not_break_torch():
    code = ("import sys, torch\n"
            "from torch import distributed as dist\n"
            "print(dist.is_backend_available('gradwire'), 'gradwire' in sys.modules, flush=True)\n"
            "dist.init_process_group('gradwire', store=dist.HashStore(), rank=0, world_size=1)")
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True,
                          env=launch.environment(GRADWIRE_LIBRARY="/no/such/library"),
                          timeout=launch.LIMIT_S)
    assert done.stdout == "True False\n", done.stderr
    assert "ImportError: gradwire's library cannot be loaded" in done.stderr
