"""Saved states by parameter: what gwStateSave writes, taken apart and put together again.

docs/wire_format.md is the specification.
"""

import struct

import gradwire

_MAGIC = 4  # bytes before the first part
_LENGTH = struct.Struct("<Q")  # before each part
_KIND = struct.Struct("<I")  # its first bytes
_CHECKSUM = 4  # behind each part
_NAME = struct.Struct("<Q")  # length of a tensor's name, which its part begins with
_ORIGIN, _TENSOR, _RESIDUAL, _LOCAL, _END = range(1, 6)
_OWN = (_RESIDUAL, _LOCAL)


def _parts(state, at=0):
    """(kind, bytes with length and checksum, content) of each, slices of `state`.

    Checksums are the library's.
    """
    while at < len(state):
        if len(state) - at < _LENGTH.size + _KIND.size:
            break
        begin = at + _LENGTH.size
        end = begin + _LENGTH.unpack_from(state, at)[0]
        if end + _CHECKSUM > len(state) or end < begin + _KIND.size:
            break
        kind = _KIND.unpack_from(state, begin)[0]
        yield kind, state[at: end + _CHECKSUM], state[begin + _KIND.size: end]
        at = end + _CHECKSUM
    if at != len(state):
        raise gradwire.DataCorrupt("the saved state of a parameter is damaged: it ends early")


def _name_in(content):
    """The name of the tensor whose part has that content."""
    length = _NAME.unpack_from(content)[0]
    return str(content[_NAME.size: _NAME.size + length], "utf-8")


class SavedState:
    """head: before the first tensor. tensors: by name, with what is their rank's own. end: the
    controller's, behind the last. All are bytes, or views of them."""

    def __init__(self, head, tensors, end):
        self.head = head
        self.tensors = tensors
        self.end = end

    @classmethod
    def from_bytes(cls, state):
        """Views of `state`, of which nothing is copied."""
        state = memoryview(state)
        saved = cls(state[:_MAGIC], {}, b"")
        at = _MAGIC
        for kind, part, content in _parts(state, at):
            begin, at = at, at + len(part)
            if kind == _ORIGIN:
                saved.head = state[:at]
            elif kind == _END:
                saved.end = part
            else:
                if kind == _TENSOR:
                    first, name = begin, _name_in(content)
                # What is its rank's own lies behind it.
                saved.tensors[name] = state[first:at]
        return saved

    def to_bytes(self):
        """Tensors in ascending order of their names' bytes, as the library wants them."""
        names = sorted(self.tensors, key=str.encode)
        return b"".join([self.head, *(self.tensors[name] for name in names), self.end])


def without_own_parts(tensor):
    """What all ranks have alike of a tensor."""
    return b"".join(part for kind, part, _ in _parts(tensor) if kind not in _OWN)
