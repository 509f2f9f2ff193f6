"""What attach() gives: one model's communicator, its training steps and its state."""

import contextlib
import time
import warnings

import torch

import gradwire
from gradwire._bindings import gwResult_t


class Router:
    """Whom a model's hooks ask: the handle while one is attached, else torch's own group."""

    def __init__(self, group):
        self.group = group
        self.handle = None

    @property
    def is_free(self):
        return self.handle is None or not self.handle.attached


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
        self._flushing = False
        self._sent = []
        self._error = None  # the step's first
        self._reason = ""  # why it was skipped, if it was
        self._blocked_s = 0.0

    # ---- steps ----

    def _begin(self):
        if self._is_open:
            self._abandon()
        scale = self._scaler.get_scale() if self._scaler else None
        self._comm.begin_step(self._step, scale)
        self._error = None
        self._is_open = True

    def _abandon(self):
        """Ends a step whose backward failed: nobody waits for its outcome."""
        self._is_open = False
        sent, self._sent = self._sent, []
        with contextlib.suppress(gradwire.GradwireError):
            self._comm.end_step()
        for one in sent:
            with contextlib.suppress(gradwire.GradwireError):
                one.request.wait()

    @contextlib.contextmanager
    def _waiting(self):
        """Counts the time. Where a signal's handler raises, the others wait for no further part."""
        start = time.perf_counter()
        try:
            yield
        except gradwire.GradwireError:
            raise
        except BaseException:
            self._comm.abort()
            raise
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
        self._is_open = False
        with self._waiting():
            outcome = self._outcome(sent)
        self._step += 1
        if outcome is gradwire.Outcome.SKIPPED:
            self._mark_skipped(sent)
        for one in sent:
            one.deliver()
        if self._flushing and outcome is gradwire.Outcome.COMMITTED:
            self.close()

    def _before_vote(self):
        """Everything that was sent in the step is complete, or failed."""

    def _outcome(self, sent):
        """Committed or skipped; everything else is raised, the first error first."""
        for one in sent:
            self._wait_for(one.request)
        self._before_vote()
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
        self._tensors.flush()
        self._flushing = True

    def close(self):
        """Ends at once; what was kept back is lost. Collective, but where a step failed: abort()."""
        if self.attached and (self._is_open or self._is_broken()):
            self.abort()
        else:
            self._comm.close()

    def abort(self):
        """Ends at once, also amid a step; the backward of the other ranks raises PeerLost."""
        self._is_open = False
        self._comm.discard()

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

    def _key(self, part):
        return f"gradwire/{self._name}/{self._place()}/{part}"

    def state_dict(self):
        """This rank's residuals and counters. Keys differ between ranks: save those of all."""
        self._check_attached()
        state = torch.frombuffer(bytearray(self._comm.save_state()), dtype=torch.uint8)
        return {self._key("state"): state, self._key("step"): torch.tensor(self._step)}

    def _load(self, state):
        try:
            self._comm.load_state(state)
        except gradwire.Mismatch as error:
            raise gradwire.Mismatch(error.result,
                                    f"{error} (attach as it was when the checkpoint was saved, or "
                                    "do not load it: residuals then begin at zero)") from None

    def load_state_dict(self, state_dict, residuals="drop"):
        """Reads what state_dict() gave on this rank; other keys are ignored.

        The state of another number of ranks cannot be used: with residuals="drop" a warning says
        so and the residuals begin at zero, with "error" it is a ValueError.
        """
        self._check_attached()
        if self._key("state") in state_dict:
            self._load(state_dict[self._key("state")].numpy().tobytes())
            self._step = int(state_dict[self._key("step")])
            return
        mine = f"gradwire/{self._name}/"
        others = sorted({key.split("/")[-2] for key in state_dict if key.startswith(mine)})
        if not others:
            raise ValueError(f"there is no state of '{self._name}' in this checkpoint: it is "
                             "another model's, or was attached under another name")
        text = f"the checkpoint has the state of {', '.join(others)}, this is {self._place()}"
        if residuals != "drop":
            raise ValueError(text)
        self._reset_tensors()
        # It is equal on all ranks.
        self._step = int(state_dict[f"{mine}{others[0]}/step"])
        warnings.warn(f"{text}: residuals begin at zero", stacklevel=2)
