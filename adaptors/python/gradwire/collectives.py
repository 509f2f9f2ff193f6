"""The exact collectives of a communicator."""

from gradwire import _bindings as c
from gradwire._library import check, fitting, lib
from gradwire.buffers import as_buffer, type_name
from gradwire.errors import InvalidArgument

_OPS = {"sum": c.gwRedOp_t.gwSum, "prod": c.gwRedOp_t.gwProd, "max": c.gwRedOp_t.gwMax,
        "min": c.gwRedOp_t.gwMin, "avg": c.gwRedOp_t.gwAvg}


def operation(op):
    if op not in _OPS:
        raise InvalidArgument(f"'{op}' is no operation; there are {', '.join(_OPS)}")
    return _OPS[op]


class Collectives:
    """What a Comm does with arrays that no codec has to do with; complete on return.

    All ranks make the same calls in the same order, with equal counts, types, operations and roots;
    else all get Mismatch, and the communicator stays usable. send() and receive() are for two.

    Arrays are what has the buffer protocol (numpy, array, bytearray) or DLPack (torch), or a
    Pointer: contiguous, in host memory, of any of the library's types. Bools of the buffer protocol
    travel as bytes, and have no sum and no average. Counts are of elements. Two arrays of a call do not overlap, but
    where it says so. op: "sum", "prod", "max", "min" or "avg". After an error the content of what
    was to be written is undefined.
    """

    def all_reduce(self, send, recv=None, op="sum"):
        """recv[i] becomes op over all ranks' send[i]; recv None, or send itself: in place."""
        source, target = _reduced(send, recv, op)
        self._call(lib.gwAllReduce, source, target, source.count, source.dtype,
                   operation(op), self._handle, None)

    def reduce(self, send, recv=None, op="sum", root=0):
        """As all_reduce, but only the rank `root` gets the result."""
        source, target = _reduced(send, recv, op)
        self._call(lib.gwReduce, source, target, source.count, source.dtype,
                   operation(op), fitting(root, "root"), self._handle, None)

    def broadcast(self, buffer, root=0):
        """`buffer` becomes what it is on the rank `root`."""
        place = as_buffer(buffer, writable=True)
        self._call(lib.gwBroadcast, place, place, place.count, place.dtype, fitting(root, "root"),
                   self._handle, None)

    def all_gather(self, send, recv):
        """recv: world_size * len(send) elements, the ranks' sends one behind the other. In place:
        send is this rank's part of recv."""
        source, target = _pair(send, recv, lambda count: count * self.world_size)
        self._call(lib.gwAllGather, source, target, source.count, source.dtype,
                   self._handle, None)

    def reduce_scatter(self, send, recv, op="sum"):
        """send: world_size * len(recv) elements; recv gets this rank's part of the sum. In place:
        recv is that part of send."""
        target, source = _pair(recv, send, lambda count: count * self.world_size, writable=False)
        _check_kind((source, target), op)
        self._call(lib.gwReduceScatter, source, target, target.count, target.dtype,
                   operation(op), self._handle, None)

    def all_to_all(self, send, recv):
        """Both: world_size * count elements; part i of send becomes this rank's part of rank i's
        recv. Never in place."""
        source, target = _pair(send, recv, lambda count: count)
        if source.count % self.world_size:
            raise ValueError(f"{source.count} elements are no multiple of {self.world_size} ranks")
        self._call(lib.gwAllToAll, source, target, source.count // self.world_size,
                   source.dtype, self._handle, None)

    def send(self, buffer, peer):
        """Returns when the rank `peer` receives it: exchange() is for both directions at a time.

        TimedOut: it did not call for op_timeout_ms. Mismatch, on both: it receives another count or
        type. The communicator stays usable.
        """
        place = as_buffer(buffer)
        self._call(lib.gwSend, place, place.count, place.dtype, fitting(peer, "peer"), self._handle,
                   None)

    def receive(self, buffer, peer):
        """Fills `buffer` with what `peer` sends: as many elements, of the same type. Errors are
        those of send()."""
        place = as_buffer(buffer, writable=True)
        self._call(lib.gwRecv, place, place.count, place.dtype, fitting(peer, "peer"), self._handle,
                   None)

    def exchange(self, sends, receives):
        """Sends and receives all at once, from and to itself too; returns when all are complete.

        sends, receives: lists of (buffer, peer); those of two ranks meet in their order.
        """
        # What can be wrong of an argument raises here, before the group is open.
        outgoing = [(as_buffer(buffer), fitting(peer, "peer")) for buffer, peer in sends]
        incoming = [(as_buffer(buffer, writable=True), fitting(peer, "peer"))
                    for buffer, peer in receives]

        # A group belongs to the thread that begins it. Its end has the first error of its calls.
        def group():
            lib.gwGroupStart()
            try:
                for place, peer in outgoing:
                    lib.gwSend(place, place.count, place.dtype, peer, self._handle, None)
                for place, peer in incoming:
                    lib.gwRecv(place, place.count, place.dtype, peer, self._handle, None)
            finally:
                # Left open it would take in all that this thread calls later, and do nothing.
                code = lib.gwGroupEnd()
            # Its text is the thread's: the communicator's is that of the last call that failed.
            check(code)
            return code

        self._call(group)

    def barrier(self):
        """Returns when all ranks have called it."""
        self._call(lib.gwBarrier, self._handle, None)


def _reduced(send, recv, op):
    """Buffers of a reduction, which have equal lengths; recv None: in place."""
    if recv is None:
        place = as_buffer(send, writable=True)
        places = place, place
    else:
        places = _pair(send, recv, lambda count: count)
    _check_kind(places, op)
    return places


def _check_kind(places, op):
    """Bytes of bools add up to what is no bool, and to 0 over 256 ranks."""
    if op in ("sum", "avg") and any(place.is_bool for place in places):
        raise TypeError("bools have no sum: pass array.view('uint8'), or op='max' for any of them "
                        "and 'min' for all")


def _pair(first, second, elems, writable=True):
    """Buffers of first and second, which has elems(count of first)."""
    one, other = as_buffer(first, not writable), as_buffer(second, writable)
    if one.dtype != other.dtype or other.count != elems(one.count):
        raise ValueError(
            f"{one.count} elements of {type_name(one.dtype)} need {elems(one.count)} of the same "
            f"type, not {other.count} of {type_name(other.dtype)}"
        )
    return one, other
