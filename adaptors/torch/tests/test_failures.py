"""What a rank is told when another one fails, and how programs end."""

import re
import signal

import pytest

import launch

_PROGRAM = "failure_program.py"
_KINDS = ["ddp", "fsdp2"]
_HEARTBEAT_TIMEOUT_S = 10  # the default
_NAMED_WITHIN_S = 3  # the end of another rank's process
_TRIES = 3


def _time_of(event, rank):
    return float(re.search(rf"^{event} at ([\d.]+)$", rank.output, re.MULTILINE)[1])


def _told_after_s(survivor, ended):
    """From the end of one rank until the other one's backward named it."""
    assert ended.code == -signal.SIGKILL, ended.output
    assert survivor.code == 0, survivor.output
    assert "told: peer lost: rank 1" in survivor.output
    assert "finally" in survivor.output
    return _time_of("told", survivor) - _time_of("ended", ended)


def _expect_told_at_once(told_after_s, within_s=_NAMED_WITHIN_S):
    """Milliseconds, where there are cores to run on: where others have them, one of three tries."""
    times = []
    while len(times) < _TRIES and min(times, default=within_s) >= within_s:
        times.append(told_after_s())
    assert min(times) < within_s, times


@pytest.mark.parametrize("kind", _KINDS)
def test_a_killed_rank_is_named_at_once(kind):
    """Its silence would be noticed much later."""
    _expect_told_at_once(lambda: _told_after_s(*launch.ranks(
        _PROGRAM, "killed", kind, GRADWIRE_HEARTBEAT_TIMEOUT_MS="120000")))


# As groups of two number it.
_IS_RANK_3 = ".*rank 1 .*they are (1|2), 3 of the job"
# By kind, what each is told.
_WHO_IS_LOST = {"replicas": dict.fromkeys(range(3), _IS_RANK_3),
                "everybody": dict.fromkeys(range(3), "peer lost: rank 3 is lost")}


@pytest.mark.parametrize("kind", _WHO_IS_LOST)
def test_a_killed_shard_ends_all_at_once(kind):
    """Its silence would be noticed much later."""
    def told_after_s():
        *told, dead = launch.ranks(_PROGRAM, "killed_shard", kind, count=4,
                                   GRADWIRE_HEARTBEAT_TIMEOUT_MS="3600000")
        assert dead.code == -signal.SIGKILL, dead.output
        for survivor in told:
            assert survivor.code == 0 and "told: " in survivor.output, survivor.output
        for rank, words in _WHO_IS_LOST[kind].items():
            said = told[rank].output
            assert re.search(f"told: PeerLost: {words}", said), said
        return max(_time_of("told", survivor) for survivor in told) - _time_of("ended", dead)

    _expect_told_at_once(told_after_s)


@pytest.mark.parametrize("sign, silence_ms, within_s", [
    ("SIGKILL", 120_000, _NAMED_WITHIN_S), ("SIGSTOP", 3_000, 3 + _NAMED_WITHIN_S)])
@pytest.mark.parametrize("place", ["reduce-scatter", "all-gather"])
def test_a_lost_shard_is_named_on_all_ranks(place, sign, silence_ms, within_s):
    """Torch's group would wait for it until its time-out, or not know who has closed a connection."""
    def told_after_s():
        *told, lost = launch.ranks(_PROGRAM, "lost_shard", sign, place, count=4,
                                   GRADWIRE_HEARTBEAT_MS="500",
                                   GRADWIRE_HEARTBEAT_TIMEOUT_MS=str(silence_ms))
        assert lost.code == -signal.SIGKILL, lost.output
        for survivor in told:
            assert survivor.code == 0 and "attached False" in survivor.output, survivor.output
            assert re.search(f"told: PeerLost: {_IS_RANK_3}", survivor.output), survivor.output
        # Neither shares a group with the lost one: rank 0 hears of it by both of its own.
        assert "(shard 1 of this replica: peer lost: rank 1 is lost" in told[0].output
        # Amid the killing it may be late for the step.
        assert sign == "SIGKILL" or "rank 1 gave the step up: peer lost: rank 1" in told[0].output
        return max(_time_of("told", survivor) for survivor in told) - _time_of("ended", lost)

    _expect_told_at_once(told_after_s, within_s)


@pytest.mark.parametrize("kind", _KINDS)
def test_a_rank_that_stands_still_is_named_by_its_silence(kind):
    after_s = _told_after_s(*launch.ranks(_PROGRAM, "stopped", kind))
    # The silence begins before, with the last sign of life.
    assert _HEARTBEAT_TIMEOUT_S / 2 < after_s < _HEARTBEAT_TIMEOUT_S + 10


@pytest.mark.parametrize("kind", _KINDS)
def test_an_exception_reaches_the_other_rank(kind, repeat):
    del repeat
    survivor, failed = launch.ranks(_PROGRAM, "exception", kind)
    assert failed.code == 1 and "KeyError: 'of rank 1'" in failed.output, failed.output
    assert survivor.code == 0, survivor.output
    assert "told: peer lost: rank 1" in survivor.output


@pytest.mark.parametrize("how, in_main_thread", [("thread", False), ("signal", True)])
def test_an_abort_ends_the_wait_for_shard_mates(how, in_main_thread):
    """Torch's group would wait for them until its time-out."""
    aborted, *others = launch.ranks(_PROGRAM, "aborted_while_shards_wait", how, count=4)
    assert "told: Aborted: 'model' was aborted" in aborted.output, aborted.output
    assert f"aborts [{in_main_thread}]\n" in aborted.output, aborted.output
    for other in others:
        assert "told: PeerLost: " in other.output and "aborts []\n" in other.output, other.output


def test_an_interrupt_ends_the_step_on_all_ranks():
    interrupted, other = launch.ranks(_PROGRAM, "interrupted")
    assert interrupted.code == 0 and "interrupted" in interrupted.output, interrupted.output
    assert other.code == 0 and "told: peer lost" in other.output, other.output
    for ended in (interrupted, other):
        assert "attached False" in ended.output, ended.output


@pytest.mark.parametrize("scenario, steps", [("exit_without_destroy", "3"),
                                             ("destroy_before_del", "3"),
                                             ("exit_with_forked_workers", "6")])
# Of four ranks replicas have several shards, and a second communicator.
@pytest.mark.parametrize("kind, count", [("ddp", 2), ("fsdp2", 2), ("fsdp2", 4)])
def test_programs_end(scenario, steps, kind, count, repeat):
    del repeat
    for ended in launch.ranks(_PROGRAM, scenario, kind, count=count, afresh=True):
        assert ended.code == 0, ended.output
        assert re.search(rf"^steps {steps}( {steps})?$", ended.output, re.MULTILINE), ended.output
        assert "WARN" not in ended.output, ended.output


def test_attach_without_a_process_group_is_told():
    for ended in launch.ranks(_PROGRAM, "attach_after_destroy"):
        assert ended.code == 0 and "told: there is no process group" in ended.output, ended.output
