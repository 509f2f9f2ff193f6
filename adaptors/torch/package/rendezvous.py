"""A communicator over the ranks of a torch process group; they meet in torch's own store."""

import collections
import contextlib

from torch import distributed as dist

import gradwire

# The next number for each group: attaching is collective, so it is equal on all ranks.
_numbers = collections.Counter()
_FAILED = b"failed: "  # instead of an id


def _store_of(key):
    store = dist.PrefixStore("gradwire", dist.distributed_c10d._get_default_store())

    def publish(value):
        store.set(key, value)

    def await_value():
        value = store.get(key)
        if value.startswith(_FAILED):
            raise RuntimeError("rank 0 could not open a communicator: "
                               + value[len(_FAILED):].decode())
        return value

    def forget():
        # It holds the job's secret. Not every kind of store can delete.
        with contextlib.suppress(RuntimeError, NotImplementedError):
            store.delete_key(key)

    return publish, await_value, forget


def communicator(group, settings):
    """Joins the ranks of `group`. Collective."""
    number = _numbers[group.group_name]
    _numbers[group.group_name] += 1
    publish, await_value, forget = _store_of(f"{group.group_name}/{number}")
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    if rank != 0:
        return gradwire.Comm.from_unique_id(await_value(), rank, world_size, settings)
    try:
        identity = gradwire.unique_id()
    except gradwire.GradwireError as error:
        publish(_FAILED + str(error).encode())
        raise
    publish(identity)
    try:
        return gradwire.Comm.from_unique_id(identity, rank, world_size, settings)
    finally:
        forget()
