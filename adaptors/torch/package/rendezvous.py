"""A communicator over the ranks of a torch process group; they meet in torch's own store."""

import collections
import contextlib

from torch import distributed as dist

import gradwire

# The next number for each group: attaching is collective, so it is equal on all ranks.
_numbers = collections.Counter()
_FAILED = b"failed: "  # instead of an id


class Place:
    """A key of a store under which the ranks of one communicator find its id."""

    def __init__(self, store, key):
        self._store = dist.PrefixStore("gradwire", store)
        self._key = key

    def publish(self, value):
        self._store.set(self._key, value)

    def wait_for_id(self):
        value = self._store.get(self._key)
        if value.startswith(_FAILED):
            text = value[len(_FAILED):].decode()
            raise RuntimeError(f"rank 0 could not open a communicator: {text}")
        return value

    def forget(self):
        # It holds the job's secret. Not every kind of store can delete.
        with contextlib.suppress(RuntimeError, NotImplementedError):
            self._store.delete_key(self._key)


class MeetingPoint(Place):
    """A place of the group's in torch's own store. Collective: it counts."""

    def __init__(self, group):
        name = group.group_name
        super().__init__(dist.distributed_c10d._get_default_store(), f"{name}/{_numbers[name]}")
        _numbers[name] += 1


def join(place, rank, world_size, settings):
    """The communicator of the ranks that meet at `place`. Collective."""
    if rank != 0:
        return gradwire.Comm.from_unique_id(place.wait_for_id(), rank, world_size, settings)
    try:
        identity = gradwire.unique_id()
        place.publish(identity)
        comm = gradwire.Comm.from_unique_id(identity, rank, world_size, settings)
    except gradwire.GradwireError as error:
        # Who has not read the id yet need not wait for this rank.
        place.publish(_FAILED + str(error).encode())
        raise
    place.forget()
    return comm


def communicator(point, group, settings):
    """Joins the ranks of `group` at `point`. Collective."""
    return join(point, dist.get_rank(group), dist.get_world_size(group), settings)
