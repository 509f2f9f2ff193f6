"""The backend "gradwire" of torch.distributed.

A group of Gloo's answers everything but sums and averages of float tensors. torch 2.15 takes a
Python class for one backend of a process group, beside others; earlier ones take it for the whole
group.
"""

import atexit
import contextlib
import datetime
import sys

import torch
from torch import distributed as dist
from torch._C import _distributed_c10d as c10d

import gradwire
from gradwire.torch import comm_settings, rendezvous, sums
from gradwire.torch.lane import Both, Lane
from gradwire.torch.parameters import DATA_TYPES

_NAME = "gradwire"
_CPU = torch.device("cpu")
_STATS_TIMEOUT_S = 5.0
_NOT_A_MEMBER = dist.GroupMember.NON_GROUP_MEMBER
_OPERATIONS = ((dist.ReduceOp.SUM, "sum"), (dist.ReduceOp.AVG, "avg"))

_announced = False


def _has_python_backends():
    """Whether a class of Python can be one backend of a group. Before it has no constructor."""
    try:
        c10d.Backend(0, 1)
    except TypeError:
        return False
    return True


def _advice():
    """Where tensors of another device can go."""
    if _has_python_backends():
        return "name a backend for that device, as in init_process_group('cpu:gradwire,cuda:nccl')"
    return (f"torch {torch.__version__} makes a backend in Python the whole process group, also "
            "where others are named beside it: give tensors of that device a group of their own, "
            "as new_group(backend='nccl') for cuda")


def _check_devices(tensors):
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise RuntimeError("the backend gradwire takes tensors in host memory, and this one is "
                               f"on {tensor.device}: {_advice()}")


def _operation_for(tensors, reduce_op):
    """What gradwire calls it; None: it is for Gloo."""
    _check_devices(tensors)
    types = {tensor.dtype for tensor in tensors}
    if len(types) != 1 or not types <= DATA_TYPES.keys():
        return None
    if any(tensor.layout != torch.strided for tensor in tensors):
        return None
    return next((name for kind, name in _OPERATIONS if reduce_op == kind), None)


def _all_reduce_options(opts, timeout):
    """torch itself also passes the operation alone, or nothing."""
    if isinstance(opts, c10d.AllreduceOptions):
        return opts
    made = c10d.AllreduceOptions()
    if opts is not None:
        made.reduceOp = opts
    if timeout is not None:
        made.timeout = timeout
    return made


class _Collectives:
    """What gradwire does for a process group. The names and parameters are torch's."""

    def _start(self, gloo, others, comm, least_bytes):
        """others: what answers the rest, Gloo itself or a process group of it."""
        self._gloo = gloo
        self._others = others
        self._comm = comm
        self._sums = sums.Sums(comm, least_bytes)
        self._lane = Lane(comm)
        # It also keeps this object: C++ alone may hold a group (TORCH_DISTRIBUTED_DEBUG=DETAIL),
        # which is nothing without its Python half.
        atexit.register(self._end)

    def allreduce(self, tensors, opts=None, timeout=None):
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        opts = _all_reduce_options(opts, timeout)
        operation = _operation_for(tensors, opts.reduceOp)
        # Several are one tensor on each of several devices.
        if operation is None or len(tensors) > 1:
            return self._gloo.allreduce(tensors, opts)
        return self._all_reduce(tensors, operation)

    def allreduce_coalesced(self, tensors, opts):
        operation = _operation_for(tensors, opts.reduceOp)
        if operation is None:
            return self._gloo.allreduce_coalesced(tensors, opts)
        return self._all_reduce(tensors, operation)

    def _all_reduce(self, tensors, operation):
        work = self._sums
        return self._lane.submit(lambda: work.all_reduce(tensors, operation), tensors)

    def _reduce_scatter_base(self, output, source, opts):
        operation = _operation_for([output, source], opts.reduceOp)
        if operation is None or source.numel() != output.numel() * self.size():
            return self._gloo._reduce_scatter_base(output, source, opts)
        work = self._sums
        return self._lane.submit(lambda: work.reduce_scatter(output, source, operation), [output])

    def barrier(self, *args, **kwargs):
        """As Gloo's own it ends behind what this rank has given before."""
        behind = self._lane.submit(lambda: None, [])  # first: it refuses what comes after the end
        # Begun by the caller's thread: Gloo numbers its calls as they come.
        return Both(self._others.barrier(*args, **kwargs), behind)

    def describe(self):
        return self._sums.describe()

    def stats(self, timeout):
        """Counters of the communicator."""
        comm, counters = self._comm, {}
        asked = self._lane.submit(lambda: counters.update(comm.stats()), [])
        try:
            asked.wait(timeout)
        except gradwire.TimedOut as error:
            if asked.is_completed():
                raise
            raise gradwire.TimedOut("operations of the process group have been under "
                                    f"way for {timeout}, and are not counted yet") from None
        return counters

    def getBackendName(self):  # pylint: disable=invalid-name
        return _NAME

    def _end(self):
        self._lane.stop()

    def shutdown(self):
        atexit.unregister(self._end)
        self._end()
        self._gloo.shutdown()

    def abort(self):
        self._lane.abort()
        self._gloo.abort()


# What torch 2.15 asks a Python backend for and Gloo has.
_OF_GLOO = ("broadcast", "allreduce_sparse", "reduce", "allgather", "all_gather_single",
            "allgather_coalesced", "all_gather_single_coalesced", "gather", "scatter",
            "reduce_scatter", "reduce_scatter_single_coalesced", "all_to_all_single", "alltoall",
            "send", "recv", "recv_anysource",
            "_get_sequence_number_for_group", "_set_sequence_number_for_group")
# What torch before 2.15 looks for in a Python process group, and where it finds nothing does itself,
# with Python's lock. A thread of Gloo that frees a tensor waits for that lock and has one that the
# call waits for.
_OF_PROCESS_GROUP = ("allgather", "allgather_into_tensor_coalesced", "alltoall_base", "broadcast",
                     "reduce_scatter", "reduce_scatter_tensor_coalesced", "send", "recv")


def _pass_on(kind, names):
    """Defines methods that call those of what answers the rest."""
    def passing_on(name):
        def method(self, *args, **kwargs):
            return getattr(self._others, name)(*args, **kwargs)

        method.__name__ = name
        return method

    for name in names:
        setattr(kind, name, passing_on(name))


class _Backend(_Collectives, c10d.Backend):
    """Of one device of a process group."""

    # The base class would ask this class again, and so on.
    supports_splitting = False
    supports_coalescing = False
    supports_shrinking = False
    supports_reconfigure = False
    supports_window = False
    _supports_time_estimate = False

    def __init__(self, options, gloo, *state):
        c10d.Backend.__init__(self, options.group_rank, options.group_size)
        self._options = c10d.Backend.Options(_NAME, options.timeout)
        self._start(gloo, gloo, *state)

    @property
    def options(self):
        return self._options

    def monitored_barrier(self, opts, wait_all_ranks=False):
        """torch hands over options, of which Gloo takes the time-out by itself."""
        self._gloo.monitored_barrier(opts.timeout, wait_all_ranks)

    def set_timeout(self, timeout):
        """Of what comes later, but for sums, which keep the one of the start."""
        self._options._timeout = timeout
        self._gloo.set_timeout(timeout)

    reduce_scatter_single = _Collectives._reduce_scatter_base


_pass_on(_Backend, _OF_GLOO)


def _serve_by(gloo, group):
    """Makes Gloo the backend of a process group."""
    group._register_backend(_CPU, dist.ProcessGroup.BackendType.GLOO, gloo)
    group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)


class _ProcessGroup(_Collectives, dist.ProcessGroup):
    """A whole process group; what it does not define goes to the backend registered in it."""

    def __init__(self, options, gloo, *state):
        rank, size = options.group_rank, options.group_size
        dist.ProcessGroup.__init__(self, rank, size)
        # One of C++, which calls Gloo without Python's lock.
        plain = dist.ProcessGroup(rank, size)
        for group in (self, plain):
            _serve_by(gloo, group)
        self._start(gloo, plain, *state)


_pass_on(_ProcessGroup, _OF_PROCESS_GROUP)


def _announce(group):
    """Once for a process, whatever groups follow, and at rank 0 of the first."""
    global _announced  # pylint: disable=global-statement
    if not _announced and group.rank() == 0:
        print(f"gradwire: backend: {group.describe()}", file=sys.stderr)
    _announced = True


def create(options, _backend_options):
    """What init_process_group and new_group call, on all ranks of the group."""
    rank, world_size = options.group_rank, options.group_size
    # As Gloo, the group waits that long for ranks that come late, now and in each operation.
    limit_ms = comm_settings.milliseconds(options.timeout)
    place = rendezvous.Place(options.store, f"backend/{options.group_id}", rank, world_size,
                             datetime.timedelta(milliseconds=limit_ms),
                             ranks=options.global_ranks_in_group)
    with rendezvous.agreement(place):
        least_bytes = comm_settings.min_bytes()
    gloo = c10d.ProcessGroupGloo(dist.PrefixStore("gloo", options.store), rank, world_size,
                                 timeout=options.timeout)
    comm = rendezvous.join(place, {"init_timeout_ms": limit_ms, "op_timeout_ms": limit_ms})
    try:
        kind = _Backend if _has_python_backends() else _ProcessGroup
        group = kind(options, gloo, comm, least_bytes)
    except BaseException:
        # In good order: the other ranks are about to be told the same.
        with contextlib.suppress(gradwire.GradwireError):
            comm.close()
        raise
    _announce(group)
    return group


def backend_stats(group=None, timeout=_STATS_TIMEOUT_S):
    """Counters of this rank's communicator of a process group with the backend gradwire, from its
    start on: a flat dict (docs/ledger.md).

    group: None is the default one. timeout: seconds that operations under way may take, behind
    which the counters come, else gradwire.TimedOut. Any thread. TypeError: the group has another
    backend, or is none; ValueError: no positive timeout; RuntimeError: there is no process group.
    """
    if not timeout > 0:
        raise ValueError(f"timeout takes a positive number of seconds, not {timeout}")
    if group is None and not dist.is_initialized():
        raise RuntimeError("there is no process group: call "
                           f"torch.distributed.init_process_group('cpu:{_NAME}') before")
    return _backend_of(dist.group.WORLD if group is None else group).stats(
        datetime.timedelta(seconds=timeout))


def _backend_of(group):
    if isinstance(group, _Collectives):
        return group
    if not isinstance(group, dist.ProcessGroup):
        # What new_group() gives to other ranks is a number.
        raise TypeError("backend_stats takes a process group that this rank is in, not "
                        f"{'that of others' if group == _NOT_A_MEMBER else repr(group)}")
    try:
        backend = group._get_backend(_CPU)
    except RuntimeError:  # it has none for tensors in host memory
        backend = None
    backend = getattr(backend, "wrapped_pg", backend)
    if not isinstance(backend, _Collectives):
        raise TypeError(f"the process group's backend is {dist.get_backend(group)}, not {_NAME}: "
                        f"name it, as in new_group(backend='cpu:{_NAME}')")
    return backend
