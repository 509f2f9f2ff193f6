"""What attach() gives: one model's communicator, its training steps and its state. Half of it is what
users are told of their calls."""

import collections.abc
import contextlib
import threading
import time
import warnings
import weakref

import torch

import gradwire
from gradwire.torch.advice import ADVICE, ADVICE_AT_THE_END, for_users, whose_ranks
from gradwire.torch.checkpoint import Checkpoint, place_of
from gradwire.torch.routing import Phase

handles = weakref.WeakSet()  # all that somebody has


@contextlib.contextmanager
def failing_together(what, mine=None):
    """What raises in it ends the backward, and so the steps that other models have in it: torch does
    not call their ends any more, for which the other ranks would wait.

    what: fails, for those who are told. mine: the handle whose step it is itself.
    """
    try:
        yield
    except BaseException as error:
        for other in list(handles):
            if other is not mine and other.is_open_in(threading.get_ident()):
                other._abandon(f"{what} failed in the same backward: {error}")
                other._spoil_gradients()
        raise


class Handle:
    """A model's gradients, on their way through gradwire; attach() makes it.

    A training step is one synchronised backward: it begins with the first gradients that are sent
    and ends when backward does, on all ranks alike. Its errors are raised by backward(); no rank
    should then update its weights.

    Threads: abort(), stats(), ledger() and attached are for any, at any time, and for a signal's
    handler; the other calls are for the thread that trains, between steps.

    Who drops both handle and model ends it, as abort() does where a step is open.
    """

    _ADVICE = ADVICE
    _ADVICE_AT_THE_END = ADVICE_AT_THE_END

    # Subclasses send. What was sent in a step, until it ends, has a `request`; fill(value) of its
    # gradients, and deliver() to those who wait for them; and discard(): the step counts for nothing
    # in what its tensors keep.

    def __init__(self, comm, tensors, name, scaler):
        self._comm = comm
        self._tensors = tensors
        self._name = name
        self._scaler = scaler
        self._step = 0
        self._loaded_steps = 0  # of those, that an earlier run has made
        self._is_open = False
        self._training_thread = None  # that began the last step
        # What phase is made of, besides the communicator's end.
        self._is_flushing = False
        self._discards = False  # what comes of the steps, in discarding()
        self._is_aborted = False
        self._sent = []
        self._error = None  # the step's first
        self._reason = ""  # why it was skipped, if it was
        self._blocked_s = 0.0
        self._whose_ranks = ""  # for errors
        self._rules = None
        handles.add(self)

    def number_ranks(self, ranks):
        """ranks: of the job, as the communicator numbers them from 0 on. Errors tell."""
        self._whose_ranks = whose_ranks(ranks)

    def check_specs_by(self, rules):
        """rules: specs.Rules that attach() went by, for set_spec() and what first trains later."""
        self._rules = rules
        self._tensors.check_new_by(rules)

    # ---- steps ----

    def _begin(self):
        self._check_whole()
        if self._is_open:
            self._abandon()
        self._training_thread = threading.get_ident()
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
        with self._failing_together():
            try:
                yield
            except gradwire.GradwireError:
                # Where it was aborted meanwhile, the calls have failed for want of a communicator.
                self._check_whole()
                raise
            except BaseException:
                self._comm.abort()
                raise

    def _failing_together(self):
        return failing_together(f"the step of '{self._name}'", self)

    def is_open_in(self, thread):
        """Whether it is in a step that the thread has begun."""
        return self._is_open and self._training_thread == thread

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
        with self._failing_together():
            self._end_step()

    def _end_step(self):
        sent, self._sent = self._sent, []
        try:
            with self.taking_part(), self._waiting():
                outcome = self._outcome(sent)
        except BaseException:
            self._spoil_gradients()
            raise
        finally:
            # Not kept: its frames lead here.
            self._is_open, self._error = False, None
        self._step += 1
        if outcome is gradwire.Outcome.SKIPPED:
            self._mark_skipped(sent)
        for one in sent:
            one.deliver()
        is_final = self.phase is Phase.DETACHING and not self._discards
        if is_final and outcome is gradwire.Outcome.COMMITTED:
            self._end_flush(sent)

    def _spoil_gradients(self):
        """Of a step that failed, where the model has them already."""

    def _end_flush(self, sent):
        """After a step that sent what was kept back."""
        del sent
        self.close()

    def _before_vote(self, sent):
        """Everything that was sent in the step is complete. What was kept back must not go with
        gradients that are thrown away, on any rank."""
        if self._discards:
            self._discard(sent)

    @staticmethod
    def _discard(sent):
        for one in sent:
            one.discard()

    def _outcome(self, sent):
        """Committed or skipped; everything else is raised, the first error first."""
        self._check_whole()
        for one in sent:
            self._wait_for(one.request)
        try:
            if not self._error:
                self._before_vote(sent)
        except gradwire.GradwireError as error:
            self._error = error
        try:
            outcome = self._comm.end_step()
        except gradwire.GradwireError as error:
            raise self._tell(self._error or error) from None
        if outcome is gradwire.Outcome.ABORTED:
            self._error = self._error or gradwire.Aborted(self._comm.last_error())
        if self._error and outcome is not gradwire.Outcome.SKIPPED:
            raise self._tell(self._error)
        self._reason = self._comm.last_error()
        return outcome

    def _mark_skipped(self, sent):
        # A GradScaler then skips the update, on all ranks.
        for one in sent:
            one.fill(float("nan"))
        if not self._scaler:
            raise self._tell(gradwire.NonFinite(self._reason))

    def _tell(self, error):
        """The error of a step, with what to do here, and where it is the communicator's end."""
        advice = self._ADVICE_AT_THE_END if self._is_broken() else self._ADVICE
        return for_users(error, advice, self._whose_ranks)

    @contextlib.contextmanager
    def _between_steps(self, what):
        """For `what`, an order to be given after backward. A step that a failed backward has left
        open is given up: its tensors keep specs and state to its end."""
        self._check_attached()
        if self._is_open:
            # Of other threads nobody knows whether they call amid a backward of the one that trains.
            if not self.is_open_in(threading.get_ident()) or torch._C._current_graph_task_id() != -1:
                raise gradwire.InvalidUsage(f"'{self._name}' is in a step: {what} after backward")
            self._abandon()
        try:
            yield
        except gradwire.GradwireError as error:
            raise for_users(error, self._ADVICE_AT_THE_END, self._whose_ranks) from None

    # ---- for users ----

    @property
    def name(self):
        """What attach() was given."""
        return self._name

    def sends(self, owners):
        """Whether gradients of any of them go its way."""
        return self._tensors.has_any_of(owners)

    def has_open_step_of(self, owners):
        """Whether a step of any of them has begun and not ended."""
        return self.attached and self._is_open and self.sends(owners)

    @property
    def has_scaler(self):
        """Whether attach() was given one that is enabled."""
        return bool(self._scaler)

    @property
    def phase(self):
        """Who averages the gradients, for the model's hooks."""
        # Made of facts that stay true, so that abort(), of another thread or of a signal's handler,
        # finds none half changed.
        if self._is_aborted:
            return Phase.ABORTED
        if self._comm.closed:
            return Phase.DETACHED
        return Phase.DETACHING if self._is_flushing else Phase.ATTACHED

    @property
    def attached(self):
        """Gradwire averages the gradients, also in the step behind detach()."""
        return self.phase in (Phase.ATTACHED, Phase.DETACHING)

    def _check_attached(self):
        if not self.attached:
            raise gradwire.InvalidUsage(f"'{self._name}' is detached, closed or aborted, and its "
                                        "statistics and state went with that: attach again")

    def stats(self):
        """Counters of this rank since attach(), a flat dict of numbers and a few words: those of
        docs/ledger.md, `steps` that were committed or skipped, and `blocked_s`, the seconds that
        backward has waited. InvalidUsage: not attached any more."""
        self._check_attached()
        return {**self._comm.stats(), "steps": self._step - self._loaded_steps,
                "blocked_s": self._blocked_s}

    def ledger(self):
        """How long steps take (`steps`, ms), what happened to each tensor (`tensors`: codec, bytes,
        nanoseconds, error) and what `auto` decided (`controller`): a dict (docs/ledger.md).
        InvalidUsage: not attached any more."""
        self._check_attached()
        return self._comm.ledger()

    def detach(self):
        """The next step that is not skipped is exact and also sends what was kept back. From then
        on torch's own group works, and attach() may be called again.

        All ranks, before the same backward. InvalidUsage, without effect: amid a backward, or not
        attached any more.
        """
        with self._between_steps("detach"):
            self._tensors.flush()
            self._is_flushing = True

    def set_spec(self, spec):
        """Another codec from the next step on, of all that attach() does not leave exact (exclude=,
        min_numel=). All ranks, before the same backward.

        What was kept back stays, and goes along with the next step where the new spec keeps nothing
        back; what else the codec kept (bases, averages) is lost. Without effect: TypeError and
        ValueError, what attach() too says of specs; InvalidUsage, amid a backward, behind detach()
        or not attached any more.
        """
        with self._between_steps("change the spec"):
            if self._is_flushing:
                raise gradwire.InvalidUsage(f"'{self._name}' is being detached, and its last step is "
                                            "exact: attach again behind that")
            self._rules.check(spec)
            self._rules.check_rows(self._tensors.rows_with(spec))
            self._tensors.set_spec(spec)

    @contextlib.contextmanager
    def discarding(self):
        """`with handle.discarding():` around a backward whose gradients no update gets, such as the
        first of two in a sharpness-aware step, or a generator's through its discriminator. They
        are averaged as ever, and what is kept back stays as it was. Without, a part of them would
        be kept back and come with later gradients.

        All ranks, around the same backwards. InvalidUsage, without effect: amid a backward, not
        attached any more, or under transaction=off, where there is no former state.
        """
        with self._between_steps("discard"):
            if not self._comm.ledger()["transaction"]:
                raise gradwire.InvalidUsage(
                    "discarding() goes back to the state before a step, which transaction=off does "
                    "not keep: leave it on")
        before, self._discards = self._discards, True  # one may be within another
        try:
            yield
        finally:
            self._discards = before

    def close(self):
        """Ends now; from the next backward on torch's own group works. What was kept back is lost,
        unless state_dict() has saved it. Once closed it has no effect.

        All ranks: rank 0 waits for the others, but not for those who come more than 5 s late (or
        abort_timeout_ms, if that is less). After a failed step it does what abort() does, and waits
        for nobody.
        """
        if self.phase is not Phase.DETACHED and (self._is_open or self._is_broken()):
            self.abort()
            return
        # Rank 0 waits for the others, whom it would tell what became of a step or a rank. No step is
        # open, so there is nothing to tell, and they know that it has left: they can close, too.
        with contextlib.suppress(gradwire.TimedOut):
            self._comm.close()

    def abort(self):
        """Ends at once, also amid a step, and waits for nobody: backward() raises Aborted until
        attach() is called again, on the other ranks PeerLost. Once detached it has no effect.

        Any thread, any time, also a signal's handler: what a backward under way uses goes with it.
        """
        if self.phase is Phase.DETACHED:
            return
        self._is_aborted = True
        self._comm.discard()

    def abort_if_broken(self):
        """As abort() where a rank is lost or the communicator has ended, and no step can come that
        detaches; whether that was so."""
        is_broken = self._is_broken()
        if is_broken:
            self.abort()
        return is_broken

    def _check_whole(self):
        if self.phase is Phase.ABORTED:
            raise for_users(gradwire.Aborted(f"'{self._name}' was aborted"),
                            self._ADVICE_AT_THE_END)

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

    def _checkpoint(self):
        return Checkpoint(self._comm, self._name, place_of(self._comm))

    def state_dict(self):
        """This rank's residuals and counters, and what codecs keep: {key: tensor} for torch.save or
        torch.distributed.checkpoint, a key for each parameter.

        Keys begin with "gradwire/{name}/" and differ between ranks: save those of all. Values are
        bytes (uint8, one dimension, in host memory) and the count of steps; they share one copy of
        the state, which training leaves alone. After a failed backward it is that before the step.
        InvalidUsage: amid a backward, or not attached any more.
        """
        with self._between_steps("save"):
            return self._checkpoint().save(self._step)

    def empty_state_dict(self, metadata):
        """Places for torch.distributed.checkpoint to load this rank's state into, which
        load_state_dict() then takes: {key: uninitialised tensor}. They are as large as what was
        saved, which a new handle's own are not.

        metadata: state_dict_metadata of a checkpoint that has state_dict() of all ranks. Of another
        number of ranks the places are for the state of one of them. ValueError: there is no state of
        this name. InvalidUsage: amid a backward, or not attached any more.
        """
        if not isinstance(metadata, collections.abc.Mapping):
            raise TypeError("empty_state_dict takes state_dict_metadata of what read_metadata() gives, "
                            f"not {type(metadata).__name__}")
        with self._between_steps("load"):
            keys = self._checkpoint().keys_to_load(metadata)
        return {key: torch.empty(metadata[key].size, dtype=metadata[key].properties.dtype)
                for key in keys}

    def _load_alike(self, checkpoint, places):
        """Of another number of ranks: what is the same on all of them. False: there is none."""
        return checkpoint.load_alike(places)

    def load_state_dict(self, state_dict, residuals="drop"):
        """Goes on from what state_dict() gave on this rank; other keys are ignored, so those of all
        ranks may come together. All ranks, behind attach() as it was, and the weights of then.

        The residuals of another number of ranks cannot be used: with residuals="drop" a warning
        says so and they begin at zero, with "error" it is a ValueError. What codecs keep alike on
        all ranks (bases, counts) is kept, but for FSDP2 without across=, whose tensors are others.

        Without effect, and attach() as it was is the remedy: ValueError, there is no state of this
        name, or no count of steps; gradwire.Mismatch, it is of other parameters or shapes, or of
        another codec that kept more than residuals; gradwire.DataCorrupt, it is damaged.
        """
        if residuals not in ("drop", "error"):
            raise ValueError(f'residuals= takes "drop" or "error", not {residuals!r}')
        if not isinstance(state_dict, collections.abc.Mapping):
            raise TypeError("load_state_dict takes what state_dict() gave, not "
                            f"{type(state_dict).__name__}: of a file, what torch.load() reads")
        with self._between_steps("load"):
            self._load(state_dict, residuals)

    def _load(self, state_dict, residuals):
        checkpoint = self._checkpoint()
        places, step = checkpoint.places_in(state_dict), checkpoint.step_in(state_dict)
        is_mine = checkpoint.place in places
        text = (f"the checkpoint has the state of {', '.join(sorted(places))}, this is "
                f"{checkpoint.place}")
        if is_mine:
            checkpoint.load(state_dict, places)
        elif residuals == "error":
            raise ValueError(f'{text}: start as many ranks as then, or residuals="drop"')
        elif not self._load_alike(checkpoint, places):
            self._reset_tensors()
        self._loaded_steps += step - self._step
        self._step = step
        if not is_mine:
            # Last: filters may make it an error.
            warnings.warn(f"{text}: residuals begin at zero", stacklevel=3)
