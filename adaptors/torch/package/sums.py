"""Sums and averages of float tensors by a communicator, compressed where the user asks for it."""

import collections

import torch

import gradwire
from gradwire.torch.parameters import DATA_TYPES, pointer_to
from gradwire.torch.specs import is_majority

# Lengths of arrays that are remembered; programs use few.
_MAX_LENGTHS = 64
# Not too small for any codec.
_PROBE_SHAPE = (1024, 1024)


def stateless_spec(comm):
    """The setting `compress`, as the library understands it.

    An all-reduce has no name that what a codec keeps from step to step could belong to.
    """
    probe = comm.tensor("probe", _PROBE_SHAPE)
    row, = comm.ledger()["tensors"]
    probe.deregister()
    if is_majority(row):
        raise ValueError(f"{row['spec']} (GRADWIRE_COMPRESS) gives the sign of a sum times the number "
                         "of ranks, and who divides before the sum, as DistributedDataParallel does, "
                         "gets no average: use gradwire.torch.attach, or bf16, fp16 or qsgd(bits=8)")
    if row["keeps_state"]:
        raise ValueError(f"{row['auto'] or row['spec']} (GRADWIRE_COMPRESS) keeps state from step "
                         "to step, which an all-reduce of a process group cannot: use "
                         "gradwire.torch.attach, or bf16, fp16 or qsgd(bits=8)")
    return row["spec"]


class _Lengths:
    """A registered tensor for each type and length: of stateless codecs equal arrays share it."""

    def __init__(self, comm):
        self._comm = comm
        self._tensors = collections.OrderedDict()
        self._count = 0

    def tensor_of(self, array):
        key = array.dtype, array.numel()
        if key not in self._tensors:
            # The name seeds random rounding: a new one each time.
            self._count += 1
            self._tensors[key] = self._comm.tensor(f"all_reduce {self._count}", (array.numel(),),
                                                   DATA_TYPES[array.dtype])
        self._tensors.move_to_end(key)
        if len(self._tensors) > _MAX_LENGTHS:
            _, oldest = self._tensors.popitem(last=False)
            oldest.deregister()
        return self._tensors[key]


class Sums:
    """Calls of one thread; every one returns when it is complete."""

    def __init__(self, comm, least_bytes):
        self.spec = stateless_spec(comm)
        self._comm = comm
        self._least_bytes = least_bytes
        self._lengths = _Lengths(comm)

    def describe(self):
        if self.spec == "none":
            return "all-reduce and reduce-scatter of floats are exact"
        return f"all-reduce of {self._least_bytes:,} bytes and more as {self.spec}, others exact"

    def all_reduce(self, tensors, operation):
        """In place; several, of one type, travel as one array."""
        first = tensors[0]
        if len(tensors) == 1 and first.is_contiguous():
            self._reduce(first, operation)
            return
        array = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self._reduce(array, operation)
        parts = array.split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts):
            tensor.copy_(part.view(tensor.shape))

    def _reduce(self, array, operation):
        if self.spec == "none" or array.nbytes < self._least_bytes:
            self._comm.all_reduce(pointer_to(array), op=operation)
            return
        group = gradwire.Group([self._lengths.tensor_of(array)], [pointer_to(array)])
        self._comm.submit(group, operation, keep=array).wait()

    def reduce_scatter(self, output, source, operation):
        """output: this rank's part of the sum of `source`, of as many elements for each rank."""
        source, target = source.contiguous(), output.contiguous()
        self._comm.reduce_scatter(pointer_to(source), pointer_to(target), op=operation)
        if target is not output:
            output.copy_(target)
