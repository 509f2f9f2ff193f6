"""The shards of a replica: who of them is lost, and what they agree on."""

import contextlib
import datetime
import time
from concurrent import futures
from typing import NamedTuple

import torch
from torch import distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_collectives import (
    DefaultAllGather,
    DefaultReduceScatter,
)

import gradwire
from gradwire._library import SLICE_S
from gradwire.torch import rendezvous
from gradwire.torch.advice import ADVICE, for_users, whose_ranks

_SLICE = datetime.timedelta(seconds=SLICE_S)
# What a shard whose step failed waits for the others to hear of it.
_FAREWELL_S = 5.0
# Behind an error of torch's group: until the end of another process must be known.
_NAMED_WITHIN_S = 2.0
_PAUSE_S = 0.01

_WORD_BYTES = 1024
# A word beyond the outcomes of a step: a rank is lost.
LOST = gradwire.Outcome.ABORTED.value + 1


class Word(NamedTuple):
    """What a shard says of a step: the more, the worse; and why."""

    number: int
    shard: int
    text: str

    def to_bytes(self):
        content = bytes([self.number]) + self.text.encode()[:_WORD_BYTES - 1]
        return bytearray(content.ljust(_WORD_BYTES, b"\0"))

    @classmethod
    def of(cls, shard, content):
        return cls(content[0], shard, content[1:].rstrip(b"\0").decode(errors="ignore"))


class Shards:
    """This rank's replica, which torch's own group shards.

    A communicator beside that group notices who is lost, which torch tells late and without a name,
    and carries what the shards agree on.
    """

    def __init__(self, comm, group):
        """comm: over the ranks of the group; None: there is but this one."""
        self._comm = comm
        self._whose = whose_ranks(dist.get_process_group_ranks(group))
        self._farewell = None

    @classmethod
    def join(cls, place, settings, group):
        """Collective, of the ranks of the group, which meet at `place`."""
        is_alone = dist.get_world_size(group) == 1
        return cls(None if is_alone else rendezvous.join(place, settings), group)

    def _for_users(self, error):
        return for_users(error, ADVICE, self._whose)

    # ---- who is lost ----

    @property
    def is_broken(self):
        try:
            self._check()
        except gradwire.GradwireError:
            return True
        return False

    def _check(self):
        """Raises if one is lost."""
        if self._comm is None or self._comm.closed:
            return
        try:
            self._comm.raise_async_error()
        except gradwire.GradwireError:
            self._tell_how_it_ended()

    def _tell_how_it_ended(self):
        """A call that is refused has the words, which name the rank."""
        try:
            self._comm.barrier()
        except gradwire.GradwireError as error:
            raise self._for_users(error) from None

    def wait_for(self, work, check=lambda: None):
        """For a collective of torch's group. Of an error that a lost rank is the cause of it is
        PeerLost, which names that.

        check(): raises where nobody wants it any more; called again and again.
        """
        try:
            while not _ends_in_a_slice(work):
                check()
                self._check()
        except gradwire.GradwireError:
            raise
        except RuntimeError as error:
            self._name_who_is_lost(error)
            raise

    def _name_who_is_lost(self, error):
        end = time.monotonic() + _NAMED_WITHIN_S
        while time.monotonic() < end:
            try:
                self._check()
            except gradwire.GradwireError as lost:
                raise lost from error
            time.sleep(_PAUSE_S)

    # ---- what they agree on ----

    def agree(self, number, text=""):
        """The words of all, by shard."""
        try:
            return self._exchange(number, text)
        except gradwire.GradwireError as error:
            raise self._for_users(type(error)(
                f"the shards of this replica have not agreed on the step: {error}")) from error

    def farewell(self, number, text):
        """As agree(), of one that fails anyway: it waits a short time, and empty is no answer."""
        self._farewell = rendezvous.call_elsewhere("gradwire-shards", self._exchange, number, text)
        with contextlib.suppress(gradwire.GradwireError, futures.TimeoutError):
            return self._farewell.result(_FAREWELL_S)
        return []

    def _exchange(self, number, text):
        if self._comm is None:
            return [Word(number, 0, text)]
        words = bytearray(_WORD_BYTES * self._comm.world_size)
        self._comm.all_gather(Word(number, self._comm.rank, text).to_bytes(), words)
        return [Word.of(shard, words[_WORD_BYTES * shard:][:_WORD_BYTES])
                for shard in range(self._comm.world_size)]

    # ---- the end ----

    def close(self):
        """In good order, but for what nobody waits for any more."""
        if self._comm is None or self._comm.closed:
            return
        if self.is_broken or self._farewell and not self._farewell.done():
            self._comm.discard()
            return
        with contextlib.suppress(gradwire.TimedOut):
            self._comm.close()

    def discard(self):
        """At once. Any thread, any time."""
        if self._comm is not None:
            self._comm.discard()


def _ends_in_a_slice(work):
    """False: it is under way. Raises its error; its process group bounds how long it takes."""
    try:
        work.wait(_SLICE)
    except RuntimeError:
        # Its own, which it raises again, or that of the slice, behind which it may have ended well.
        if not work.get_future().done():
            return False
        work.wait()
    return True


# ---- FSDP's collectives within the replica ----

class _Work(dist.Work):
    """An all-gather that FSDP waits for by itself."""

    def __init__(self, work, wait_for):
        super().__init__()
        self._work = work
        self._wait_for = wait_for

    def wait(self, timeout=None):
        del timeout
        self._wait_for(self._work)
        return True


class WatchedAllGather(DefaultAllGather):
    """FSDP's own; while gradwire is attached a rank that is lost ends the wait."""

    def __init__(self, router):
        self._router = router

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        if self._router.is_free:
            return super().__call__(output_tensor, input_tensor, group, async_op)
        work = super().__call__(output_tensor, input_tensor, group, async_op=True)
        return _waited_for(work, self._router, async_op)


class WatchedReduceScatter(DefaultReduceScatter):
    """Likewise."""

    def __init__(self, router):
        self._router = router

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        if self._router.is_free:
            return super().__call__(output_tensor, input_tensor, group, op, async_op)
        if async_op or not _is_gloo(group):
            work = super().__call__(output_tensor, input_tensor, group, op, async_op=True)
            return _waited_for(work, self._router, async_op)
        # What Gloo's own is made of, whose wait has no bound. FSDP has no use for the input any more.
        work = dist.all_reduce(input_tensor, op, group, async_op=True)
        _waited_for(work, self._router, async_op)
        output_tensor.copy_(input_tensor.chunk(dist.get_world_size(group))[dist.get_rank(group)])
        return None


def _waited_for(work, router, async_op):
    if async_op:
        return _Work(work, router.handle.wait_for_shards)
    router.handle.wait_for_shards(work)
    return None


def _is_gloo(group):
    try:
        backend = group._get_backend(torch.device("cpu"))
    except RuntimeError:  # it is one in Python
        return False
    return isinstance(getattr(backend, "wrapped_pg", backend), dist.ProcessGroupGloo)


def watch(module, group, router):
    """Has FSDP's own collectives of a module watched; others are their owner's.

    group: torch's, of its parameters.
    """
    if type(group._all_gather_comm) is DefaultAllGather:
        module.set_custom_all_gather(WatchedAllGather(router))
    if type(group._reduce_scatter_comm) is DefaultReduceScatter:
        module.set_custom_reduce_scatter(WatchedReduceScatter(router))


def unwatch(module, group):
    """What an earlier attach() has set."""
    if isinstance(group._all_gather_comm, WatchedAllGather):
        module.set_custom_all_gather(DefaultAllGather())
    if isinstance(group._reduce_scatter_comm, WatchedReduceScatter):
        module.set_custom_reduce_scatter(DefaultReduceScatter())
