"""What watches the shards of a replica, without ranks."""

from unittest import mock

import pytest

import gradwire.torch
from gradwire.torch import fsdp2_shards
from gradwire.torch.fsdp2_shards import Shards, Word


class _Work:
    """Of a process group: a slice of its wait passes, and by then it has ended."""

    def __init__(self, error=None):
        self._error = error

    def wait(self, limit=None):
        if limit is not None:
            raise RuntimeError("Operation timed out!")
        if self._error:
            raise self._error

    def get_future(self):
        return mock.Mock(done=lambda: True)


def _shards(**answers):
    """Of ranks 2 and 3, whose communicator gives these answers."""
    comm = mock.Mock(closed=False, rank=0, world_size=2, **answers)
    with mock.patch.object(fsdp2_shards.dist, "get_process_group_ranks", return_value=[2, 3]):
        return Shards(comm, None), comm


def _lost():
    error = gradwire.PeerLost("rank 1 is lost")
    return {"raise_async_error.side_effect": gradwire.PeerLost("peer lost"),
            "barrier.side_effect": error}


def test_what_ends_as_a_slice_of_its_wait_does_has_not_timed_out():
    shards, _ = _shards()
    shards.wait_for(_Work())
    with mock.patch.object(fsdp2_shards, "_NAMED_WITHIN_S", 0.0):
        with pytest.raises(RuntimeError, match="its own"):
            shards.wait_for(_Work(RuntimeError("its own")))


def _under_way():
    work = _Work()
    work.get_future = lambda: mock.Mock(done=lambda: False)
    return work


@pytest.mark.parametrize("work", [_under_way(), _Work(RuntimeError("Connection reset by peer"))])
def test_a_lost_shard_is_named_while_torch_waits_and_where_it_fails(work):
    shards, _ = _shards(**_lost())
    with pytest.raises(gradwire.PeerLost, match="rank 1 is lost .* they are 2, 3 of the job"):
        shards.wait_for(work)


def test_a_wait_ends_where_nobody_wants_it_any_more():
    shards, comm = _shards()
    comm.closed = True
    check = mock.Mock(side_effect=[None, gradwire.Aborted("was aborted")])
    with pytest.raises(gradwire.Aborted, match="was aborted"):
        shards.wait_for(_under_way(), check)
    assert check.call_count == 2


def test_a_wait_goes_on_behind_the_end_of_the_communicator():
    shards, comm = _shards(**_lost())
    comm.closed = True
    shards.wait_for(_Work())
    assert not shards.is_broken


def test_shards_that_do_not_agree_are_told_who_is_late():
    late = gradwire.TimedOut("rank 1 has not come")
    shards, _ = _shards(**{"all_gather.side_effect": late})
    with pytest.raises(gradwire.TimedOut, match="not agreed on the step: rank 1 .* 2, 3 of the job"):
        shards.agree(0)


def test_words_are_cut_where_they_are_too_long():
    word = Word(3, 1, "ä" * 2000)
    content = word.to_bytes()
    got = Word.of(1, content)
    assert len(content) == 1024 and got.number == 3 and got.text and word.text.startswith(got.text)
