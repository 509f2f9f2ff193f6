"""Registered tensors: what stands for a gradient in the library."""

import contextlib
import re
from typing import NamedTuple

import gradwire
from gradwire.torch.parameters import DATA_TYPES
from gradwire.torch.specs import is_majority


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
        self._rules = None  # for those to come
        self._majorities = None  # names; None: to be asked for

    def check_new_by(self, rules):
        """rules: specs.Rules, which those that are there have been checked by."""
        self._rules = rules

    def of(self, owner):
        """Registers it at its first use, if torch sends what did not seem to train. InvalidArgument:
        it is not to have the spec."""
        if id(owner) not in self._made:
            tensor = self._register(owner, self._prefix, self._spec)
            self._check_new(tensor)
            self._majorities = None
            self._made[id(owner)] = owner, tensor
        return self._made[id(owner)][1]

    def _check_new(self, tensor):
        if self._rules is None:
            return
        try:
            self._rules.check_rows(self._rows_of([tensor]))
        except ValueError as error:
            tensor.deregister()
            raise gradwire.InvalidArgument(str(error)) from None

    def _rows_of(self, tensors):
        names = {tensor.name for tensor in tensors}
        return [row for row in self._comm.ledger()["tensors"] if row["name"] in names]

    def is_majority_of(self, owner):
        """Whether its codec gives signs (specs.is_majority)."""
        tensor = self.of(owner)
        if self._majorities is None:
            rows = self._comm.ledger()["tensors"]
            self._majorities = {row["name"] for row in rows if is_majority(row)}
        return tensor.name in self._majorities

    def name_of(self, owner):
        """The model's own; also of one that the library does not take."""
        return self._describe(owner).name

    def _register(self, owner, prefix, spec):
        what = self._describe(owner)
        return self._comm.tensor(f"{prefix}/{_encoded(what.name)}", what.shape,
                                 DATA_TYPES[what.dtype], "none" if what.exact else spec)

    def rows_with(self, spec):
        """Of the ledger, as they would be with that spec: of others, which are gone then."""
        others = []
        try:
            for owner, _ in self._made.values():
                others.append(self._register(owner, f"{self._prefix}?", spec))
            return self._rows_of(others)
        finally:
            for tensor in others:
                tensor.deregister()

    def set_spec(self, spec):
        """From now on, of all that are not exact; after an error none has it."""
        compressed = [tensor for owner, tensor in self._made.values()
                      if not self._describe(owner).exact]
        changed = []
        self._majorities = None
        try:
            for tensor in compressed:
                tensor.set_spec(spec)
                changed.append(tensor)
        except gradwire.GradwireError:
            for tensor in changed:
                with contextlib.suppress(gradwire.GradwireError):
                    tensor.set_spec(self._spec)
            raise
        self._spec = spec

    def flush(self):
        """From now on all are exact, and carry what was kept back; after an error none is."""
        self.set_spec("none")

    def reset(self):
        """Registers all of them again: nothing is kept back."""
        for key, (owner, tensor) in self._made.items():
            tensor.deregister()
            self._made[key] = owner, self._register(owner, self._prefix, self._spec)

    def has_any_of(self, owners):
        return any(id(owner) in self._made for owner in owners)
