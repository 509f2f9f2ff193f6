"""Checkpoints of one model's state: a key for each parameter, which tells the ranks apart."""

import collections.abc
import contextlib
import ctypes
import re

import torch

import gradwire
from gradwire.torch.saved import SavedState, without_own_parts

_RANK = re.compile(r"^rank\d+of\d+")
_PLACE = re.compile(_RANK.pattern + r"(@.*)?")
_OF_ANOTHER = re.compile(r"gradwire/(.+)/rank\d+of\d+(@[^/]*)?/")
_AS_IT_WAS = ("attach as it was when the checkpoint was saved, or do not load it: residuals then "
              "begin at zero")


@contextlib.contextmanager
def _saying_what_to_do():
    """About a state that does not fit or is damaged."""
    try:
        yield
    except gradwire.Mismatch as error:
        raise gradwire.Mismatch(f"{error} ({_AS_IT_WAS})") from None
    except gradwire.DataCorrupt as error:
        raise gradwire.DataCorrupt(f"{error} (with PyTorch: values as state_dict() gave them, in type "
                                   "and size too; or do not load it: residuals then begin at zero)"
                                   ) from None


def place_of(comm, shard=None):
    """Whose the state is, in keys."""
    place = f"rank{comm.rank}of{comm.world_size}"
    return place if shard is None else f"{place}@{shard.replace(' ', '')}"


class Checkpoint:
    """What state_dict() and load_state_dict() of a handle do."""

    def __init__(self, comm, name, place):
        self._comm = comm
        self._name = name
        self.place = place
        self._prefix = f"gradwire/{name}/"

    def save(self, step):
        """Its keys and values, which share one copy of the state."""
        saved = self._saved_state()
        ours = len(f"{self._name}/")  # before a parameter in a tensor's name
        state = {f"{self._prefix}{self.place}/{name[ours:]}": _bytes_as_tensor(tensor)
                 for name, tensor in saved.tensors.items()}
        state[f"{self._prefix}controller/{self.place}"] = _bytes_as_tensor(saved.end)
        state[f"{self._prefix}step"] = torch.tensor(step)
        return state

    def _keys_in(self, state_dict):
        """Those of this model's tensors: place -> {tensor's name: key}."""
        places = {}
        for key in state_dict:
            if not isinstance(key, str) or not key.startswith(self._prefix):
                continue
            place, _, parameter = key[len(self._prefix):].partition("/")
            if _PLACE.fullmatch(place):
                places.setdefault(place, {})[f"{self._name}/{parameter}"] = key
        if not places and not self._saved_state().tensors:
            return {self.place: {}}  # torch takes all gradients: at the most a count of steps
        if not places:
            raise ValueError(f"there is no state of '{self._name}' in this checkpoint: it is "
                             "another model's, or was attached under another name"
                             f"{_others_in(state_dict)}")
        return places

    def places_in(self, state_dict):
        """What it has of this model: place -> {tensor's name: its bytes}."""
        return {place: {name: _bytes_of(key, state_dict[key]) for name, key in keys.items()}
                for place, keys in self._keys_in(state_dict).items()}

    def keys_to_load(self, state_dict):
        """Those that load() or load_alike() wants, of a checkpoint that has the keys of all ranks."""
        places = self._keys_in(state_dict)
        # Where none is of use, load_state_dict() still has to see whose state there was.
        place = self.place if self.place in places else self._alike(places) or min(places)
        others = (f"{self._prefix}controller/{self.place}", f"{self._prefix}step")
        return [*places[place].values(), *(key for key in others if key in state_dict)]

    def step_in(self, state_dict):
        """It is equal on all ranks, and has no rank in its key."""
        key = f"{self._prefix}step"
        if key not in state_dict:
            raise ValueError(f"the checkpoint has no {key}, the count of steps, which is the same "
                             "on all ranks: where keys are chosen by rank, choose that key too")
        try:
            return int(state_dict[key])
        except (TypeError, ValueError, RuntimeError):  # the last of a tensor of several elements
            raise ValueError(f"the checkpoint's {key} is {state_dict[key]!r} and not the count of "
                             "steps: load what state_dict() gave") from None

    def load(self, state_dict, places):
        """What this rank has saved; places: those in state_dict."""
        key = f"{self._prefix}controller/{self.place}"
        self._load(places[self.place], _bytes_of(key, state_dict[key]) if key in state_dict else None)

    def load_alike(self, places):
        """Of another number of ranks: what is the same on all of them. False: there is none."""
        place = self._alike(places)
        if place is None:
            return False
        with _saying_what_to_do():
            alike = {name: without_own_parts(tensor) for name, tensor in places[place].items()}
        self._load(alike)
        return True

    def _alike(self, places):
        """One of another number of ranks that has the same tensors as this one's; None: there is none."""
        mine = _RANK.sub("", self.place)
        return next((place for place in sorted(places) if _RANK.sub("", place) == mine), None)

    def _saved_state(self):
        return SavedState.from_bytes(self._comm.save_state())

    def _load(self, tensors, end=None):
        """tensors: by name. end: what the controller had learnt; None: it goes on as it is."""
        saved = self._saved_state()
        if saved.tensors.keys() != tensors.keys():
            only_ours = sorted(saved.tensors.keys() - tensors.keys())
            lacks = "the checkpoint" if only_ours else "the model"
            differ = only_ours or sorted(tensors.keys() - saved.tensors.keys())
            raise gradwire.Mismatch(f"{lacks} has no {', '.join(differ[:4])}"
                                    f"{' and others' if len(differ) > 4 else ''}: {_AS_IT_WAS}")
        saved.tensors, saved.end = tensors, end or saved.end
        with _saying_what_to_do():
            self._comm.load_state(saved.to_bytes())


def _others_in(state_dict):
    """What there is instead, as the rest of a sentence."""
    keys = [key for key in state_dict if isinstance(key, str)]
    names = sorted({found[1] for found in map(_OF_ANOTHER.match, keys) if found})
    if names:
        return f". It has that of {', '.join(map(repr, names))}: attach(name=)"
    for key in keys:
        part = state_dict[key]
        if isinstance(part, collections.abc.Mapping) and any(map(_is_of_state, part)):
            return f". Its part {key!r} has states: load that"
    return ""


def _is_of_state(key):
    return isinstance(key, str) and bool(_OF_ANOTHER.match(key))


def _bytes_of(key, tensor):
    """A view of its memory. Tensor.numpy() wants numpy, which torch does without."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"the checkpoint's {key} is {type(tensor).__name__} and no tensor: load what "
                        "state_dict() gave")
    array = tensor.detach().cpu().contiguous()
    memory = (ctypes.c_char * array.nbytes).from_address(array.data_ptr())
    memory.owner = array  # keeps it as long as the view is there
    return memoryview(memory)


def _bytes_as_tensor(content):
    """Where they lie; content: a view of writable memory."""
    return torch.frombuffer(content, dtype=torch.uint8)
