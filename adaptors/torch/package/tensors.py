"""Registered tensors: what stands for a gradient in the library."""

import contextlib
import re
from typing import NamedTuple

import gradwire
from gradwire.torch.parameters import DATA_TYPES


class Description(NamedTuple):
    """A tensor as it is registered; exact: it is not compressed."""

    name: str
    shape: tuple
    dtype: object  # of torch
    exact: bool


def _encoded(name):
    """As the library takes it: percent-encoded where it has its own signs in it."""
    return re.sub(r"[%=,;\n]", lambda sign: f"%{ord(sign[0]):02X}", name)


class Tensors:
    """The gradwire.Tensor of each owner of a gradient."""

    def __init__(self, comm, prefix, spec, describe):
        """describe(owner): its Description."""
        self._comm = comm
        self._prefix = prefix
        self._spec = spec
        self._describe = describe
        self._made = {}  # id of the owner -> (owner, its tensor)

    def of(self, owner):
        """Registers it at its first use, if torch sends what did not seem to train."""
        if id(owner) not in self._made:
            self._made[id(owner)] = owner, self._register(owner)
        return self._made[id(owner)][1]

    def name_of(self, owner):
        """The model's own; also of one that the library does not take."""
        return self._describe(owner).name

    def _register(self, owner):
        what = self._describe(owner)
        return self._comm.tensor(f"{self._prefix}/{_encoded(what.name)}", what.shape,
                                 DATA_TYPES[what.dtype], self._spec_of(what))

    def _spec_of(self, what):
        return "none" if what.exact else self._spec

    def flush(self):
        """From now on all are exact, and carry what was kept back; after an error none is."""
        exact = []
        try:
            for owner, tensor in self._made.values():
                tensor.set_spec("none")
                exact.append((owner, tensor))
        except gradwire.GradwireError:
            for owner, tensor in exact:
                with contextlib.suppress(gradwire.GradwireError):
                    tensor.set_spec(self._spec_of(self._describe(owner)))
            raise
        self._spec = "none"

    def reset(self):
        """Registers all of them again: nothing is kept back."""
        for key, (owner, tensor) in self._made.items():
            tensor.deregister()
            self._made[key] = owner, self._register(owner)

    def has_any_of(self, owners):
        return any(id(owner) in self._made for owner in owners)
