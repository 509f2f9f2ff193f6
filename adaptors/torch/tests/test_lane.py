"""The threads of a process group's calls, without ranks."""

import datetime
import threading
import time
import weakref
from unittest import mock

import pytest
import torch

import gradwire
from gradwire._bindings import gwResult_t
from gradwire.torch.backend import backend_stats
from gradwire.torch.lane import _IDLE_THREADS, Lane

_LIMIT = datetime.timedelta(seconds=60)


class _Comm:
    """Knows how it ended."""

    def __init__(self):
        self.closed = self.aborted = 0

    def close(self):
        self.closed += 1

    def abort(self):
        self.aborted += 1


@pytest.fixture(name="comm")
def _comm():
    return _Comm()


@pytest.fixture(name="lane")
def _lane(comm):
    lane = Lane(comm)
    yield lane
    lane.stop()
    assert comm.closed and not comm.aborted
    assert not any(thread.is_alive() for thread in lane._threads)


def _ended(future):
    """Its value; fails instead of waiting for ever."""
    ended = threading.Event()
    future.add_done_callback(lambda _: ended.set())
    assert ended.wait(_LIMIT.total_seconds())
    return future.value()


def _held(lane):
    """A Work that is under way until the event is set: (Work, event)"""
    go = threading.Event()
    return lane.submit(go.wait, [torch.ones(1)]), go


def test_calls_are_made_in_order(lane):
    made = []
    works = [lane.submit(lambda number=number: made.append(number), []) for number in range(100)]
    for work in works:
        work.wait(_LIMIT)
    assert made == list(range(100))


def test_calls_write_what_was_made_in_inference_mode(lane):
    """What callbacks make is for every mode."""
    with torch.inference_mode():
        written = torch.zeros(2)
    held, go = _held(lane)
    made = held.get_future().then(lambda _: torch.ones(1))
    work = lane.submit(lambda: written.add_(1), [written])
    go.set()
    assert work.wait(_LIMIT)
    assert written.tolist() == [1, 1]
    assert not _ended(made).is_inference()


def test_callbacks_may_wait_for_futures_of_further_calls(lane):
    """One in the other, more than there are threads to begin with."""
    held, go = _held(lane)

    def deeper(depth):
        if depth == 0:
            return "bottom"
        # The next one's callback is there before it can end.
        inner, go_on = _held(lane)
        future = inner.get_future().then(lambda _: deeper(depth - 1))
        go_on.set()
        return future.wait()

    future = held.get_future().then(lambda _: deeper(5))
    go.set()
    assert _ended(future) == "bottom"


def test_callbacks_may_wait_for_calls_that_were_there_before(lane):
    first, go = _held(lane)
    second = lane.submit(lambda: None, ["second"])
    future = first.get_future().then(lambda _: second.get_future().wait())
    go.set()
    assert _ended(future) == ["second"]


def test_threads_that_callbacks_needed_end(lane):
    both_waited = threading.Barrier(_IDLE_THREADS + 3)
    for _ in range(_IDLE_THREADS + 3):
        work, go = _held(lane)
        future = work.get_future().then(lambda _: both_waited.wait(_LIMIT.total_seconds()))
        go.set()
    _ended(future)
    # All but those that are kept end by themselves, whichever those are.
    end = time.monotonic() + _LIMIT.total_seconds()
    while (alive := [thread for thread in lane._threads if thread.is_alive()])[_IDLE_THREADS:]:
        assert time.monotonic() < end, alive
        alive[0].join(0.01)
    assert lane.submit(lambda: None, []).wait(_LIMIT)


def test_futures_complete_where_no_thread_can_be_started(lane):
    with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start")):
        works = [_held(lane) for _ in range(_IDLE_THREADS)]
        both = threading.Barrier(_IDLE_THREADS)
        futures = [work.get_future().then(lambda _: both.wait(_LIMIT.total_seconds()))
                   for work, _ in works]
        for _, go in works:
            go.set()
        for future in futures:
            _ended(future)
        assert lane.submit(lambda: None, []).wait(_LIMIT)


def _fail(tensor):
    raise gradwire.PeerLost(f"of {tensor.numel()}")


def _expect_failure(wait):
    with pytest.raises(RuntimeError, match="of 3"):
        wait()


def test_a_failed_call_does_not_keep_its_tensors(comm):
    lane, tensor = Lane(comm), torch.ones(3)
    kept = weakref.ref(tensor)
    work = lane.submit(lambda tensor=tensor: _fail(tensor), [tensor])
    _expect_failure(work.wait)
    _expect_failure(work.get_future().wait)
    lane.stop()
    del tensor
    assert kept() is None
    error = work.exception()
    assert isinstance(error, gradwire.PeerLost) and error.result == gwResult_t.gwPeerLost
    assert error.__traceback__ is None and not work.is_success()


def test_a_wait_is_bounded(lane):
    work, go = _held(lane)
    with pytest.raises(gradwire.TimedOut, match="not ended"):
        work.wait(datetime.timedelta(milliseconds=1))
    go.set()
    assert work.wait(_LIMIT) and work.is_success()


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_statistics_are_not_waited_for_without_bound(timeout):
    with pytest.raises(ValueError, match="positive number"):
        backend_stats(timeout=timeout)


def test_nothing_comes_behind_the_end(comm):
    lane = Lane(comm)
    work, go = _held(lane)
    go.set()
    lane.stop()
    lane.stop()
    assert work.is_success() and comm.closed
    with pytest.raises(gradwire.InvalidUsage, match="destroyed"):
        lane.submit(lambda: None, [])


def test_a_callback_may_end_it(comm):
    lane = Lane(comm)
    work, go = _held(lane)
    future = work.get_future().then(lambda _: lane.stop())
    go.set()
    _ended(future)
    assert comm.closed and not comm.aborted
