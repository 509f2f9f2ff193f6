"""How ranks meet in a store; threads stand for ranks."""

import concurrent.futures
import datetime
import os
import signal
import threading
import time

import pytest
from torch import distributed as dist

import gradwire
from gradwire.torch import rendezvous

_LIMIT_S = 60


@pytest.fixture(name="store")
def _store():
    store = dist.HashStore()
    store.set_timeout(datetime.timedelta(seconds=_LIMIT_S))
    return store


def _places(store, count, name="group", limit=None):
    return [rendezvous.Place(store, name, rank, count, limit) for rank in range(count)]


def _run(places, work):
    """What work(places of a rank) raises or returns, by rank."""
    with concurrent.futures.ThreadPoolExecutor(len(places)) as ranks:
        runs = [ranks.submit(work, place) for place in places]
        return [run.exception(_LIMIT_S) or run.result() for run in runs]


def _agree(failing, words="mine"):
    def work(place):
        with rendezvous.agreement(place):
            if place.rank == failing:
                raise ValueError(words)
        return "agreed"

    return work


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_of_one_rank_is_told_to_all(store, failing):
    ended = _run(_places(store, 3), _agree(failing))
    for rank, error in enumerate(ended):
        if rank == failing:
            assert isinstance(error, ValueError) and str(error) == "mine"
        else:
            assert isinstance(error, rendezvous.OtherFailed)
            assert str(error) == f"rank {failing} could not take part: mine"


def test_an_error_without_words_is_told_by_its_name(store):
    _, told = _run(_places(store, 2), _agree(0, words=""))
    assert str(told) == "rank 0 could not take part: ValueError"


def test_an_error_does_not_wait_for_ranks_that_are_late(store):
    early, failing, _ = _places(store, 3)
    assert all(isinstance(error, Exception) for error in _run([early, failing], _agree(1)))


def test_ranks_that_do_not_come_are_listed(store):
    first, _, last = _places(store, 3, limit=datetime.timedelta(milliseconds=50))
    for error in _run([first, last], _agree(None)):
        # Who waits less tells the other one.
        assert isinstance(error, (gradwire.TimedOut, rendezvous.OtherFailed))
        assert "of 3 ranks these have not come: 1," in str(error)


def test_ranks_are_called_as_the_job_numbers_them(store):
    place = rendezvous.Place(store, "group", 0, 2, datetime.timedelta(milliseconds=50), ranks=[1, 3])
    for one in (place, place.again()):
        with pytest.raises(gradwire.TimedOut, match="of 2 ranks these have not come: 3,"):
            one.settle()


@pytest.fixture(name="interrupt")
def _interrupt():
    """Interrupts the main thread; a shell ignores SIGINT for what it starts in the background."""
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def _tcp_store():
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@pytest.mark.parametrize("make_store", [dist.HashStore, _tcp_store])
def test_a_signal_ends_the_wait_for_others(make_store, interrupt):
    store = make_store()
    place = rendezvous.Place(store, "group", 0, 2, datetime.timedelta(seconds=_LIMIT_S))
    start = time.monotonic()
    # The call waits when it comes, or is about to.
    threading.Timer(0.1, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        _agree(None)(place)
    assert time.monotonic() - start < _LIMIT_S / 2
    told, = _run([rendezvous.Place(store, "group", 1, 2)], _agree(None))
    assert str(told) == "rank 0 could not take part: KeyboardInterrupt"


def _give_up_on(store, absent):
    """The others of three ranks come to a meeting."""
    limit = datetime.timedelta(milliseconds=50)
    present = [rank for rank in range(3) if rank not in absent]
    ended = _run([rendezvous.Place(store, "group", rank, 3, limit) for rank in present], _agree(None))
    assert all(isinstance(error, (gradwire.TimedOut, rendezvous.OtherFailed)) for error in ended)


def test_ranks_that_did_not_come_are_at_the_next_meeting(store):
    """Their call had failed before it knew whom to meet, or their process began again."""
    for absent in ([1], [0, 2], [1]):
        _give_up_on(store, absent)
    assert _run(_places(store, 3), _agree(None)) == ["agreed"] * 3


def test_a_rank_that_comes_just_then_is_at_one_meeting_with_the_others(store):
    early, late = _places(store, 2, limit=datetime.timedelta(milliseconds=50))
    # The late one has begun its call.
    assert isinstance(_run([early], _agree(None))[0], gradwire.TimedOut)
    told, = _run([late], _agree(None))
    assert isinstance(told, rendezvous.OtherFailed) and "have not come: 1," in str(told)
    assert _run(_places(store, 2), _agree(None)) == ["agreed", "agreed"]


def test_a_store_that_is_gone_is_told():
    """In every call; what fails behind it is the same error."""
    host = _tcp_store()
    clients = [dist.TCPStore("127.0.0.1", host.port, is_master=False) for _ in range(3)]
    first, second = (rendezvous.Place(store, "group", rank, 2) for rank, store in
                     enumerate(clients[:2]))
    del host
    for call in (lambda: _agree(None)(first), second.wait_for_id,
                 lambda: rendezvous.Place(clients[2], "group", 1, 2)):
        with pytest.raises(gradwire.PeerLost, match="does not answer: .* start the job again") as told:
            call()
        assert "frame" not in str(told.value)


class _Meanwhile:
    """A store in which something happens before its first call that begins so."""

    def __init__(self, store, call, happens):
        self._store = store
        self._call = call
        self._happens = happens

    def __getattr__(self, name):
        def call(key, *args):
            if self._call and f"{name} {key}".startswith(self._call):
                self._call = None
                self._happens()
            return getattr(self._store, name)(key, *args)

        return call


@pytest.mark.parametrize("call, agreed", [("check ['arrived", True), ("add decided", True),
                                          ("set outcome", False)])
def test_a_time_out_and_the_last_arrival_are_decided_for_all(store, call, agreed):
    """The last rank comes where the other one has waited enough and looks who is missing."""
    waiting, last = _places(store, 2, limit=datetime.timedelta(milliseconds=50))
    last._limit = datetime.timedelta(seconds=_LIMIT_S)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        runs = []

        def come():
            runs.append(threads.submit(_agree(None), last))
            if agreed:
                runs[0].exception(_LIMIT_S)

        waiting._store = _Meanwhile(waiting._store, call, come)
        ended, = _run([waiting], _agree(None))
        told = runs[0].exception(_LIMIT_S) or runs[0].result()
    if agreed:
        assert (ended, told) == ("agreed", "agreed")
    else:
        assert isinstance(ended, gradwire.TimedOut)
        assert str(told) == f"rank 0 could not take part: {ended}"


def test_a_failure_is_not_skipped_by_ranks_that_come_later(store):
    failed, = _run([rendezvous.Place(store, "group", 0, 2)], _agree(0))
    assert isinstance(failed, ValueError)
    again = rendezvous.Place(store, "group", 0, 2)
    told, = _run([rendezvous.Place(store, "group", 1, 2)], _agree(None))
    assert str(told) == "rank 0 could not take part: mine"
    assert _run([again, rendezvous.Place(store, "group", 1, 2)], _agree(None)) == ["agreed"] * 2


def test_another_number_of_ranks_meets_in_the_same_store(store):
    for count in (2, 3, 2):
        assert _run(_places(store, count), _agree(None)) == ["agreed"] * count


def test_a_later_meeting_of_that_name_knows_nothing_of_it(store):
    _run(_places(store, 2), _agree(1))
    assert _run(_places(store, 2), _agree(None)) == ["agreed", "agreed"]


def test_groups_have_meetings_of_their_own(store):
    """A rank may be in more of them than another one."""
    rendezvous.Place(store, "another group", 0, 1)
    assert _run(_places(store, 2), _agree(None)) == ["agreed", "agreed"]


def _mesh(store, rows, columns, present=None, limit=None):
    """(place in its column, place in its row) of the ranks that are present, row by row."""
    return [(rendezvous.Place(store, f"column {column}", row, rows, limit),
             rendezvous.Place(store, f"row {row}", column, columns, limit))
            for row in range(rows) for column in range(columns)
            if present is None or (row, column) in present]


def _agree_in_mesh(places):
    with rendezvous.agreement(*places):
        pass
    return "agreed"


def test_rows_and_columns_hear_of_all(store):
    ranks = _mesh(store, 2, 2)

    def work(places):
        with rendezvous.agreement(*places):
            if places is ranks[3]:
                raise ValueError("mine")

    *others, failed = _run(ranks, work)
    assert isinstance(failed, ValueError)
    assert {str(error) for error in others} == {"rank 1 could not take part: mine"}


@pytest.mark.parametrize("present", [[(0, 0)], [(0, 0), (1, 0)], [(0, 1), (1, 0)]])
def test_rows_and_columns_give_up_together(store, present):
    """Also those who were told: the ranks of their rows are out of this meeting as well."""
    few = _mesh(store, 3, 2, present, datetime.timedelta(milliseconds=50))
    for error in _run(few, _agree_in_mesh):
        assert isinstance(error, (gradwire.TimedOut, rendezvous.OtherGaveUp))
    assert _run(_mesh(store, 3, 2), _agree_in_mesh) == ["agreed"] * 6


def test_a_time_out_behind_a_place_that_all_have_passed_is_one_of_all(store):
    """Rank 1 is between its column and its row when rank 0 gives up on it there."""
    ranks = _mesh(store, 2, 2)
    runs = []
    ranks[0][1]._limit = datetime.timedelta(milliseconds=50)
    ranks[1][1]._store = _Meanwhile(ranks[1][1]._store, "set arrived", lambda: runs[0].exception())
    with concurrent.futures.ThreadPoolExecutor(len(ranks)) as threads:
        for places in ranks:
            runs.append(threads.submit(_agree_in_mesh, places))
        first, *others = [run.exception(_LIMIT_S) for run in runs]
    assert isinstance(first, gradwire.TimedOut)
    assert {str(error) for error in others} == {f"rank 0 could not take part: {first}"}


def test_a_start_leaves_counts_in_the_store_and_no_secret(store):
    for _ in range(2):
        places = _places(store, 2)
        comms = _run(places, lambda place: rendezvous.join(_settled(place), None))
        assert not any(place._store.check(["id"]) for place in places)
        # How many meetings each rank has come to.
        assert store.num_keys() == 2
        assert _run(comms, gradwire.Comm.close) == [None, None]


def _settled(place):
    with rendezvous.agreement(place):
        return place


def _join(place):
    comm = rendezvous.join(place, "init_timeout_ms=60000" + "; window=x" * (place.rank == 1))
    comm.close()
    return "joined"


def test_a_setting_that_one_rank_refuses_is_told_to_all(store):
    start = time.monotonic()
    first, refused, last = _run(_places(store, 3), _join)
    assert time.monotonic() - start < _LIMIT_S / 2
    assert isinstance(refused, gradwire.InvalidArgument) and "'window'" in str(refused)
    for told in (first, last):
        assert isinstance(told, rendezvous.OtherFailed)
        assert str(told) == f"rank 1 could not take part: {refused}"


def test_ranks_that_differ_hear_it_from_the_library(store):
    def join(place):
        return rendezvous.join(place, {"window": place.rank + 1})

    for error in _run(_places(store, 2), join):
        assert isinstance(error, gradwire.Mismatch)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_in_the_start_is_told_to_all(store, interrupt, rank):
    """In the main thread, which waits for the library, and for the id where it is not rank 0."""
    places = _places(store, 3)
    threading.Timer(0.3, interrupt).start()
    with concurrent.futures.ThreadPoolExecutor() as threads:
        run = threads.submit(_join, places[2])
        with pytest.raises(KeyboardInterrupt):
            _join(places[rank])
        assert str(run.exception(_LIMIT_S / 2)) == f"rank {rank} could not take part: KeyboardInterrupt"
