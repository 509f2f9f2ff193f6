"""What attach() gives: one model's communicator, its training steps and its state."""

import contextlib
import ctypes
import re
import time
import warnings

import torch

import gradwire
from gradwire._bindings import gwResult_t
from gradwire.torch.saved import SavedState, without_own_parts

_RANK = re.compile(r"^rank\d+of\d+")
_PLACE = re.compile(_RANK.pattern + r"(@.*)?")  # what _place() gives
_AS_IT_WAS = ("attach as it was when the checkpoint was saved, or do not load it: residuals then "
              "begin at zero")


class Router:
    """Whom a model's hooks ask: the handle while one is attached, else torch's own group."""

    def __init__(self, group):
        self.group = group
        self.handle = None

    @property
    def is_attached(self):
        return self.handle is not None and self.handle.attached

    @property
    def is_free(self):
        """Gradients are torch's own group's to sum."""
        return not self.is_attached and not (self.handle and self.handle.is_cut_off)


class Handle:
    """A model's gradients, on their way through gradwire.

    A training step is one synchronised backward: it begins with the first gradients that are sent
    and ends when backward does. Errors are raised by backward().

    What was sent in a step, until it ends, has a `request`, fill(value) of its gradients, and
    deliver() to those who wait for them. Subclasses send.
    """

    def __init__(self, comm, tensors, name, scaler):
        self._comm = comm
        self._tensors = tensors
        self._name = name
        self._scaler = scaler
        self._step = 0
        self._is_open = False
        # By abort(). What comes after is an error, of a backward under way too: the other ranks do
        # not follow this one to torch's own group.
        self.is_cut_off = False
        self._flushing = False
        self._sent = []
        self._error = None  # the step's first
        self._reason = ""  # why it was skipped, if it was
        self._blocked_s = 0.0

    # ---- steps ----

    def _begin(self):
        self._check_whole()
        if self._is_open:
            self._abandon()
        scale = self._scaler.get_scale() if self._scaler else None
        self._is_open = True  # the communicator's may be, also where this fails
        self._comm.begin_step(self._step, scale)
        self._error = None

    def _abandon(self, why="its backward failed"):
        """Gives up a step, on all ranks: this one throws it away."""
        self._is_open = False
        sent, self._sent, self._error = self._sent, [], None
        with contextlib.suppress(gradwire.GradwireError):
            self._comm.abort_step(why)
        for one in sent:
            with contextlib.suppress(gradwire.GradwireError):
                one.request.wait()

    @contextlib.contextmanager
    def taking_part(self):
        """In a step. Where a signal's handler raises, the others wait for no further part."""
        try:
            yield
        except gradwire.GradwireError:
            # Where it was aborted meanwhile, the calls have failed for want of a communicator.
            self._check_whole()
            raise
        except BaseException:
            self._comm.abort()
            raise

    @contextlib.contextmanager
    def _waiting(self):
        """Counts the time."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._blocked_s += time.perf_counter() - start

    def _submit_average(self, group, gradients):
        """gradients: the tensor that the group's elements lie in, the average's place too."""
        if gradients.dtype is not torch.float16:
            return self._comm.submit(group, "avg", keep=gradients)
        # Their sum may be too large where the average is not, so torch divides first, too.
        gradients /= self._comm.world_size
        return self._comm.submit(group, "sum", keep=gradients)

    def _wait_for(self, request):
        try:
            request.wait()
        except gradwire.GradwireError as error:
            self._error = self._error or error

    def _end(self):
        sent, self._sent = self._sent, []
        try:
            with self.taking_part(), self._waiting():
                outcome = self._outcome(sent)
        finally:
            # Not kept: its frames lead here.
            self._is_open, self._error = False, None
        self._step += 1
        if outcome is gradwire.Outcome.SKIPPED:
            self._mark_skipped(sent)
        for one in sent:
            one.deliver()
        if self._flushing and outcome is gradwire.Outcome.COMMITTED:
            self._end_flush(sent)

    def _end_flush(self, sent):
        """After a step that sent what was kept back."""
        del sent
        self.close()

    def _before_vote(self, sent):
        """Everything that was sent in the step is complete, or failed."""

    def _outcome(self, sent):
        """Committed or skipped; everything else is raised, the first error first."""
        self._check_whole()
        for one in sent:
            self._wait_for(one.request)
        self._before_vote(sent)
        try:
            outcome = self._comm.end_step()
        except gradwire.GradwireError as error:
            raise self._for_users(self._error or error) from None
        if outcome is gradwire.Outcome.ABORTED:
            self._error = self._error or gradwire.Aborted(gwResult_t.gwAborted,
                                                          self._comm.last_error())
        if self._error and outcome is not gradwire.Outcome.SKIPPED:
            raise self._for_users(self._error)
        self._reason = self._comm.last_error()
        return outcome

    def _mark_skipped(self, sent):
        if not self._scaler:
            raise gradwire.NonFinite(gwResult_t.gwNonFinite, self._reason)
        # A GradScaler then skips the update, on all ranks.
        for one in sent:
            one.fill(float("nan"))

    @staticmethod
    def _for_users(error):
        """The error with what its text must say beyond the library's."""
        return error

    # ---- for users ----

    @property
    def name(self):
        return self._name

    def sends(self, owners):
        """Whether gradients of any of them go its way."""
        return self._tensors.has_any_of(owners)

    @property
    def has_scaler(self):
        return bool(self._scaler)

    @property
    def attached(self):
        return not self._comm.closed

    def _check_attached(self):
        if not self.attached:
            raise gradwire.InvalidUsage(gwResult_t.gwInvalidUsage,
                                        f"'{self._name}' is detached: attach again")

    def stats(self):
        """Counters since attach, as numbers and a few words."""
        self._check_attached()
        return {**self._comm.stats(), "steps": self._step, "blocked_s": self._blocked_s}

    def ledger(self):
        """What happened to each tensor: codec, bytes, times, error."""
        self._check_attached()
        return self._comm.ledger()

    def detach(self):
        """The next step is exact and carries what was kept back; then torch's own group works."""
        self._check_attached()
        if self._is_open:
            self._give_up_before_detach()
        self._tensors.flush()
        self._flushing = True

    def _give_up_before_detach(self):
        """A step that a failed backward has left open; its tensors keep their specs to the end."""
        if torch._C._current_graph_task_id() != -1:
            raise gradwire.InvalidUsage(gwResult_t.gwInvalidUsage,
                                        f"'{self._name}' is in a step: detach after backward")
        self._abandon()

    def close(self):
        """Ends at once; what was kept back is lost. Collective, but where a step failed: abort().

        Who comes more than 5 s late counts as having left.
        """
        if self.attached and (self._is_open or self._is_broken()):
            self.abort()
            return
        # Rank 0 waits for the others, whom it would tell what became of a step or a rank. No step is
        # open, so there is nothing to tell, and they know that it has left: they can close, too.
        with contextlib.suppress(gradwire.TimedOut):
            self._comm.close()

    def abort(self):
        """Ends at once, also amid a step: backward raises, on the other ranks PeerLost.

        Any thread, any time, also a signal's handler: what a backward under way uses goes with it.
        """
        self.is_cut_off = True
        self._comm.discard()

    def _check_whole(self):
        if self.is_cut_off:
            raise self._for_users(gradwire.Aborted(
                gwResult_t.gwAborted, f"'{self._name}' was aborted: attach again"))

    def _is_broken(self):
        try:
            self._comm.raise_async_error()
        except gradwire.GradwireError:
            return True
        return False

    # ---- state ----

    def _reset_tensors(self):
        """Nothing is kept back any more."""
        self._tensors.reset()

    def _place(self):
        """Whose the state is."""
        return f"rank{self._comm.rank}of{self._comm.world_size}"

    @property
    def _prefix(self):
        return f"gradwire/{self._name}/"

    def _saved_state(self):
        return SavedState.from_bytes(self._comm.save_state())

    def state_dict(self):
        """This rank's residuals and counters, and what codecs keep: a key for each parameter.

        Keys differ between ranks: save those of all. Their values share one copy of the state.
        """
        self._check_attached()
        saved, place = self._saved_state(), self._place()
        ours = len(f"{self._name}/")  # before a parameter in a tensor's name
        state = {f"{self._prefix}{place}/{name[ours:]}": _bytes_as_tensor(tensor)
                 for name, tensor in saved.tensors.items()}
        state[f"{self._prefix}controller/{place}"] = _bytes_as_tensor(saved.end)
        state[f"{self._prefix}step"] = torch.tensor(self._step)
        return state

    def _by_place(self, state_dict):
        """What the checkpoint has of this model: place -> {tensor's name: its bytes}."""
        places = {}
        for key, value in state_dict.items():
            if not key.startswith(self._prefix):
                continue
            place, _, parameter = key[len(self._prefix):].partition("/")
            if _PLACE.fullmatch(place):
                name = f"{self._name}/{parameter}"
                places.setdefault(place, {})[name] = _bytes_of(value)
        return places

    def _load(self, tensors, end=None):
        """tensors: by name. end: what the controller had learnt; None: it goes on as it is."""
        saved = self._saved_state()
        if saved.tensors.keys() != tensors.keys():
            differ = sorted(saved.tensors.keys() ^ tensors.keys())
            raise gradwire.Mismatch(gwResult_t.gwMismatch,
                                    f"the checkpoint or the model has no {', '.join(differ[:4])}"
                                    f"{' and others' if len(differ) > 4 else ''}: {_AS_IT_WAS}")
        saved.tensors, saved.end = tensors, end or saved.end
        try:
            self._comm.load_state(saved.to_bytes())
        except gradwire.Mismatch as error:
            raise gradwire.Mismatch(error.result, f"{error} ({_AS_IT_WAS})") from None

    def _load_alike(self, places):
        """Of another number of ranks: what is the same on all of them. False: there is none."""
        mine = _RANK.sub("", self._place())
        for place in sorted(places):
            if _RANK.sub("", place) == mine:
                alike = {name: without_own_parts(tensor)
                         for name, tensor in places[place].items()}
                self._load(alike)
                return True
        return False

    def _step_in(self, state_dict):
        """It is equal on all ranks, and has no rank in its key."""
        key = f"{self._prefix}step"
        if key not in state_dict:
            raise ValueError(f"the checkpoint has no {key}, the count of steps, which is the same "
                             "on all ranks: where keys are chosen by rank, choose that key too")
        return int(state_dict[key])

    def load_state_dict(self, state_dict, residuals="drop"):
        """Reads what state_dict() gave on this rank; other keys are ignored.

        The residuals of another number of ranks cannot be used: with residuals="drop" a warning
        says so and they begin at zero, with "error" it is a ValueError. What codecs keep alike on
        all ranks (bases, counts) is kept, but for FSDP2 without across=, whose tensors are others.
        """
        self._check_attached()
        if residuals not in ("drop", "error"):
            raise ValueError(f'residuals= takes "drop" or "error", not {residuals!r}')
        places, place = self._by_place(state_dict), self._place()
        if not places and not self._saved_state().tensors:
            places[place] = {}  # torch takes all gradients, so there is a count of steps at the most
        if not places:
            raise ValueError(f"there is no state of '{self._name}' in this checkpoint: it is "
                             "another model's, or was attached under another name")
        step = self._step_in(state_dict)
        if place in places:
            controller = state_dict.get(f"{self._prefix}controller/{place}")
            end = None if controller is None else _bytes_of(controller)
            self._load(places[place], end)
            self._step = step
            return
        text = f"the checkpoint has the state of {', '.join(sorted(places))}, this is {place}"
        if residuals != "drop":
            raise ValueError(text)
        if not self._load_alike(places):
            self._reset_tensors()
        self._step = step
        # Last: filters may make it an error.
        warnings.warn(f"{text}: residuals begin at zero", stacklevel=2)


def _bytes_of(tensor):
    """A view of its memory. Tensor.numpy() wants numpy, which torch does without."""
    array = tensor.detach().cpu().contiguous()
    memory = (ctypes.c_char * array.nbytes).from_address(array.data_ptr())
    memory.owner = array  # keeps it as long as the view is there
    return memoryview(memory)


def _bytes_as_tensor(content):
    """Where they lie; content: a view of writable memory."""
    return torch.frombuffer(content, dtype=torch.uint8)
