"""A communicator over the ranks of a torch process group; they meet in torch's own store."""

import contextlib
import threading
import time
from concurrent import futures

from torch import distributed as dist

import gradwire
from gradwire._library import SLICE_S
from gradwire.torch import comm_settings

_READY = b"ready"
_FIRST_PAUSE_S = 0.001


class OtherFailed(RuntimeError):
    """Another rank could not take part, which the text names."""


class OtherGaveUp(OtherFailed):
    """Another rank waited in vain for those that the text names."""


_ERRORS = {b"failed": OtherFailed, b"late": OtherGaveUp}
_GAVE_UP = gradwire.TimedOut, OtherGaveUp
# Where ranks differ, the library tells all of them itself, and better: it gets that long for it.
_OWN_WORDS_S = 1.0


def _error_in(value):
    """The error that a failed rank has left as a key's value, or None."""
    kind, _, text = value.partition(b": ")
    return _ERRORS[kind](text.decode()) if kind in _ERRORS else None


@contextlib.contextmanager
def _in_store():
    """What asks the store, and needs an answer."""
    try:
        yield
    except dist.DistError as error:
        words = str(error).partition("\n")[0]
        raise gradwire.PeerLost(
            f"torch's store, in which the ranks meet, does not answer: {words}. Its process, torchrun "
            "or that of rank 0, may have ended: see why, and start the job again") from error


class Place:
    """Where the ranks of a group meet once: keys of a store, which other meetings do not have.

    A rank that cannot take part says so, and none of the others waits for it.
    """

    def __init__(self, store, name, rank, world_size, limit=None, *, ranks=None):
        """limit: until all ranks have come, else that of comm_settings.start_limit(). ranks: what
        errors call them, else from 0 on."""
        self._ranks = ranks or range(world_size)
        self._limit = comm_settings.start_limit() if limit is None else limit
        self.rank = rank
        self.world_size = world_size
        kind = f"{name}/{world_size}"
        # The store may outlive the group, and this process, and serve another one of that name: it
        # counts the meetings that each rank has come to, and those that gave up on it. A call that
        # fails before this (attach of a model that is not wrapped) is in no count: the others may
        # wait for it until they give up, and the rank's next call is for their next.
        taken = False
        while not taken:
            with _in_store():
                number = dist.PrefixStore("gradwire", store).add(f"{kind}/{rank}", 1)
                self._store = dist.PrefixStore(f"gradwire/{kind}/number {number}", store)
                taken = self._take_seat(rank)

    def _take_seat(self, rank):
        """Whether it was free: a rank comes in time, or those who gave up on it were first."""
        return self._store.add(self._seat(rank), 1) == 1

    @classmethod
    def of(cls, group, limit=None):
        """The next one of the group's. Collective: it counts."""
        return cls(dist.distributed_c10d._get_default_store(), group.group_name,
                   dist.get_rank(group), dist.get_world_size(group), limit,
                   ranks=dist.get_process_group_ranks(group))

    def again(self):
        """Where those who have met here meet once more."""
        return Place(self._store, "again", self.rank, self.world_size, self._limit,
                     ranks=self._ranks)

    def fail(self, error):
        """This rank takes no part: the others' settle() and wait_for_id() raise, and their
        failure() gives it."""
        failure = self._failure(error)
        # Where the store is gone, the others know, and what is raised is the first error.
        with contextlib.suppress(dist.DistError):
            if isinstance(error, _GAVE_UP):
                self._give_up()
            self._decide(failure)
            for key in ("id", "failure"):
                self._store.set(key, failure)

    @_in_store()
    def settle(self):
        """Returns when all ranks are here; raises as soon as one has failed."""
        self._store.set(self._arrival(self.rank), "")
        if self._store.add("arrived", 1) == self.world_size:
            self._decide(_READY)
        if not self._comes("outcome"):
            error = self._timed_out()
            if self._decide(self._failure(error)):
                raise error
            # The last rank has come just now, or another one has failed.
        self._wait_for("outcome")

    def _decide(self, outcome):
        """Whether it is the first one, which stands: all ranks are told the same."""
        first = self._store.add("decided", 1) == 1
        if first:
            self._store.set("outcome", outcome)
        return first

    def _failure(self, error):
        """What the others are told of it."""
        kind = "late" if isinstance(error, _GAVE_UP) else "failed"
        text = str(error) or type(error).__name__
        if not isinstance(error, OtherFailed):
            rank = dist.get_rank() if dist.is_initialized() else self.rank
            text = f"rank {rank} could not take part: {text}"
        return f"{kind}: {text}".encode()

    @_in_store()
    def publish_id(self, identity):
        self._store.set("id", identity)

    @_in_store()
    def wait_for_id(self):
        return self._wait_for("id")

    @staticmethod
    def _arrival(rank):
        return f"arrived/{rank}"

    @staticmethod
    def _seat(rank):
        return f"seat/{rank}"

    def _give_up(self):
        """Ranks whose call has not begun are out of this meeting; the others have their seats."""
        for rank in range(self.world_size):
            self._take_seat(rank)

    def _timed_out(self):
        """Names who keeps the others waiting."""
        absent = ", ".join(str(self._ranks[rank]) for rank in range(self.world_size)
                           if not self._store.check([self._arrival(rank)]))
        what = (f"of {self.world_size} ranks these have not come: {absent}," if absent
                else "all ranks have come, and rank 0 has not gone on")
        return gradwire.TimedOut(
            f"{what} within {self._limit} (init_timeout_ms; of a process group its timeout=): see "
            "whether their processes still run and make the same call")

    def _comes(self, key):
        """Whether it is set in time. Signal handlers run meanwhile.

        The store's own wait lets none run, and warns twice each time that it ends without the key.
        """
        end = time.monotonic() + self._limit.total_seconds()
        pause_s = _FIRST_PAUSE_S
        while not self._store.check([key]):
            left_s = end - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, SLICE_S)
        return True

    def _wait_for(self, key):
        if not self._comes(key):
            raise self._timed_out()
        value = self._store.get(key)
        if error := _error_in(value):
            raise error
        return value

    def failure(self):
        """The error that a rank has said it takes no part for, or None. Does not wait."""
        with contextlib.suppress(dist.DistError):
            if self._store.check(["failure"]):
                return _error_in(self._store.get("failure"))
        return None

    def clear(self):
        """Behind a communicator's start: all ranks have been told the outcome and have the id, so
        nobody asks any more. The id holds the job's secret.

        What counts the meetings stays, what is left of those that failed, for ranks that come late,
        and the verdicts of other places than the communicator's (rows and columns, and those where
        ranks meet again).
        """
        keys = [self._arrival(self.rank), self._seat(self.rank)]
        if self.rank == 0:
            keys += ["id", "arrived", "decided", "outcome"]
        # Not every kind of store can delete.
        with contextlib.suppress(RuntimeError, NotImplementedError):
            for key in keys:
                self._store.delete_key(key)


@contextlib.contextmanager
def agreement(*places):
    """What comes before a communicator, on all ranks: an error of one is one of all.

    The places are settled one after the other, so in rows and columns of ranks each knows that all
    have come. Some may have given up in the second place while the last came through the first one,
    so that one is settled again.
    """
    if len(places) > 1:
        places += (places[0].again(),)
    try:
        yield
        for place in places:
            place.settle()
    except BaseException as error:
        for place in places:
            place.fail(error)
        raise


def _call(outcome, function, *args):
    """For a thread: the outcome of function(*args)."""
    try:
        outcome.set_result(function(*args))
    except BaseException as error:  # pylint: disable=broad-except
        outcome.set_exception(error)
    finally:
        # An error's frames lead here.
        del outcome


def call_elsewhere(name, function, *args):
    """The future of a call that another thread makes."""
    call = futures.Future()
    threading.Thread(target=_call, args=(call, function, *args), name=name, daemon=True).start()
    return call


def _ends(call, within_s):
    return bool(futures.wait([call], within_s).done)


def _start(place, *args):
    """The communicator. The library does not look into the store, so another thread calls it, and
    this one hears of ranks that cannot join."""
    call = call_elsewhere("gradwire-join", gradwire.Comm.from_unique_id, *args)
    try:
        while not _ends(call, SLICE_S):
            failure = place.failure()
            if failure and not _ends(call, _OWN_WORDS_S):
                raise failure
        return call.result()
    except BaseException:
        # Nobody wants any more what the library may yet make.
        call.add_done_callback(lambda made: made.exception() or made.result().discard())
        raise
    finally:
        # The frames of an error lead here, and it has the error.
        del call


def join(place, settings):
    """The communicator of the ranks that meet at `place`. Collective: an error of one rank before
    all are ready is one of all."""
    try:
        if place.rank == 0:
            identity = gradwire.unique_id()
            place.publish_id(identity)
        else:
            identity = place.wait_for_id()
        comm = _start(place, identity, place.rank, place.world_size, settings)
    except BaseException as error:
        place.fail(error)
        raise
    place.clear()
    return comm
