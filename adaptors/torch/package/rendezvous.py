"""A communicator over the ranks of a torch process group; they meet in torch's own store."""

import collections
import contextlib

from torch import distributed as dist

import gradwire

# The next number for each group: attaching is collective, so it is equal on all ranks.
_numbers = collections.Counter()
_FAILED = b"failed: "  # instead of an id


class MeetingPoint:
    """A place in torch's store, for one communicator. Collective: it counts."""

    def __init__(self, group):
        self._store = dist.PrefixStore("gradwire", dist.distributed_c10d._get_default_store())
        self._key = f"{group.group_name}/{_numbers[group.group_name]}"
        _numbers[group.group_name] += 1

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


def communicator(point, group, settings):
    """Joins the ranks of `group` at `point`. Collective."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    if rank != 0:
        return gradwire.Comm.from_unique_id(point.wait_for_id(), rank, world_size, settings)
    try:
        identity = gradwire.unique_id()
        point.publish(identity)
        comm = gradwire.Comm.from_unique_id(identity, rank, world_size, settings)
    except gradwire.GradwireError as error:
        # Who has not read the id yet need not wait for this rank.
        point.publish(_FAILED + str(error).encode())
        raise
    point.forget()
    return comm
