"""The backend gradwire of torch.distributed. Importing torch takes seconds: one program, many
scenarios."""

import re
import signal
import subprocess
import sys

import pytest

import launch
import scenarios

_PROGRAM = "backend_program.py"
_FAILURES = "backend_failure_program.py"
_EXACT = ["sums_equal_gloos", "any_layout", "several_as_one", "reduce_scatter", "work_under_way",
          "callbacks_wait_for_sums", "gloo_answers_the_rest", "dropped_tensors", "empty_tensors",
          "subgroups", "a_setting_of_one_rank", "tensors_of_a_mesh", "other_devices_are_refused",
          "beside_a_backend_of_another_device"]
_MODELS = ["sums_equal_gloos", "ddp_trains_as_on_gloo", "uneven_inputs", "attached_on_top",
           "fsdp2_trains_as_on_gloo", "powersgd_hook"]
_COMPRESSED = ["compressed_sums", "several_compressed_as_one", "rounding_differs_from_call_to_call", "small_ones_are_exact",
               "many_lengths", "ddp_trains_compressed"]
_ALONE = ["what_needs_steps_is_refused", "it_says_what_it_compresses"]


def _expect_passed(names, **options):
    """Each on all ranks, which end in good order; [launch.Ended]"""
    ended = launch.ranks(_PROGRAM, *names, **options)
    for name in names:
        scenarios.expect_passed(name, ended)
    scenarios.expect_good_order(ended)
    for rank in ended:
        assert "WARN" not in rank.output, rank.output[-3000:]
    return ended


def test_exact_on_three_ranks():
    first, *others = _expect_passed(_EXACT, count=3)
    said = "gradwire: backend: all-reduce and reduce-scatter of floats are exact\n"
    assert first.output.count(said) == 1, first.output
    assert not any("gradwire: backend" in other.output for other in others)


def test_models_on_two_ranks():
    _expect_passed(_MODELS)


def test_compressed():
    _expect_passed(_COMPRESSED, GRADWIRE_COMPRESS="qsgd(bits=8)", GRADWIRE_MIN_BYTES="64K")


def test_specs():
    alone, = _expect_passed(_ALONE, count=1)
    assert "all-reduce of 2,097,152 bytes and more as bf16" in alone.output, alone.output


def test_a_killed_rank_is_named():
    survivor, dead = launch.ranks(_FAILURES, "killed")
    assert dead.code == -signal.SIGKILL, dead.output
    assert survivor.code == 0 and "destroyed" in survivor.output, survivor.output
    told = re.findall(r"told (\w+): .*peer lost: rank 1", survivor.output)
    assert told == ["RuntimeError", "PeerLost"], survivor.output


# With DETAIL torch wraps a group in another one of C++.
@pytest.mark.parametrize("debug", ["OFF", "DETAIL"])
def test_programs_end(debug, repeat):
    del repeat
    for ended in launch.ranks(_FAILURES, "exit_without_destroy", TORCH_DISTRIBUTED_DEBUG=debug):
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
