"""Registered tensors, and groups of them that travel together."""

import ctypes

from gradwire import _bindings as c
from gradwire._library import as_spec, check, lib
from gradwire.buffers import as_buffer, type_name


class Tensor:
    """A registered gradient, of Comm.tensor(): name, elems (their number) and dtype."""

    def __init__(self, comm, handle, name, elems, dtype):
        self.comm = comm
        self._handle = handle
        self.name = name
        self.elems = elems
        self.dtype = dtype

    @property
    def handle(self):
        """The library's; it goes with the communicator."""
        self.comm.check_open()
        return self._handle

    def check(self, buffer, shards=1):
        """Raises unless a Buffer has all of its elements, or one of so many shards of them."""
        if (buffer.count * shards, buffer.dtype) != (self.elems, self.dtype):
            times = "" if shards == 1 else f"{shards} times "
            wanted = type_name(self.dtype)
            remedy = "" if buffer.dtype == self.dtype else f": pass the array as {wanted}"
            raise ValueError(f"'{self.name}' has {self.elems} elements of {wanted}, not "
                             f"{times}{buffer.count} of {type_name(buffer.dtype)}{remedy}")

    def _call(self, function, *args):
        with self.comm.in_call(), self.comm.one_at_a_time():
            check(function(self.handle, *args), self.comm._handle)

    def set_spec(self, spec):
        """Another codec from the next operation on, on all ranks; one that is exact or without
        feedback sends along once what was kept back. InvalidUsage: in a step that has used it."""
        self._call(lib.gwTensorSetSpec, as_spec(spec))

    def discard_step(self):
        """Its result in the open step is of no use: what it keeps stays as before. All ranks."""
        self._call(lib.gwTensorDiscardStep)

    def deregister(self):
        """What was kept back is lost, the name is free, and this is of no more use. All ranks
        register and deregister in one order. InvalidUsage: in a step that has used it."""
        self._call(lib.gwTensorDeregister)

    def all_reduce(self, send, recv=None, op="sum"):
        """Submits it alone; gives a Request. send, recv: all of the tensor's elements; both are the
        library's until it is complete, as for Comm.submit(). recv None: in place."""
        return self.comm.submit(Group([self], [send], None if recv is None else [recv]), op)

    def reduce_scatter(self, send, recv, op="sum"):
        """send: the whole gradient; recv gets this rank's shard, the rank-th of world_size equal
        ones. Gives a Request; otherwise as all_reduce().

        recv may lie there in send. Specs: none, or what is reduced as two_shot (InvalidUsage).
        """
        return self.comm.reduce_scatter_tensor(self, send, recv, op)


class Group:
    """Tensors that travel together and where their elements lie; may be submitted every step."""

    def __init__(self, tensors, send, recv=None):
        """tensors: of one communicator. send, recv: an array for each, with all of its elements;
        recv None: in place. They are kept; the memory of a Pointer must stay."""
        sources = [as_buffer(s, writable=recv is None) for s in send]
        targets = sources if recv is None else [as_buffer(r, writable=True) for r in recv]
        if not len(tensors) == len(sources) == len(targets):
            raise ValueError("a group needs one buffer for each tensor")
        owners = {tensor.comm for tensor in tensors}
        if len(owners) != 1:
            raise ValueError("a group takes tensors of one communicator")
        self.comm, = owners
        for tensor, source, target in zip(tensors, sources, targets):
            tensor.check(source)
            tensor.check(target)
        self.count = len(tensors)
        self.tensors = (c.gwTensor_t * self.count)(*[t.handle for t in tensors])
        self.send = (ctypes.c_void_p * self.count)(*[s.address for s in sources])
        self.recv = (ctypes.c_void_p * self.count)(*[t.address for t in targets])
        self.buffers = (sources, targets)
