"""Communicators."""

import ctypes
import enum
import json
import math
import weakref
from collections.abc import Iterable, Mapping

from gradwire import _bindings as c
from gradwire._library import as_spec, as_text, check, fitting, interruptible, lib
from gradwire.buffers import as_buffer, data_type
from gradwire.collectives import Collectives, operation
from gradwire.errors import InvalidArgument, InvalidUsage, in_python
from gradwire.lifetime import Lifetime, end_later
from gradwire.request import Request, Submission
from gradwire.tensors import Tensor


_JSON_GROWTH_BYTES = 4096
_JSON_TRIES = 10


class Outcome(enum.Enum):
    """How a training step ended, on all ranks alike."""

    COMMITTED = c.gwStepOutcome_t.gwStepCommitted
    SKIPPED = c.gwStepOutcome_t.gwStepSkipped
    ABORTED = c.gwStepOutcome_t.gwStepAborted


def settings_text(settings):
    """As the library takes them; settings: a dict or text, None: none."""
    if isinstance(settings, str):
        return settings
    if not isinstance(settings, (Mapping, type(None))):
        raise TypeError('settings take a dict or text, as {"window": 8} or "window=8", not '
                        f"{settings!r}")
    return "; ".join(f"{name}={value}" for name, value in (settings or {}).items())


def _config(settings):
    return c.gwConfig_t(ctypes.sizeof(c.gwConfig_t), c.GW_CONFIG_MAGIC, c.GW_VERSION_CODE,
                        settings_text(settings).encode())


def _scale(value):
    """A loss scale as the library has it, in float32; any number will do, also numpy's or torch's."""
    try:
        scale = ctypes.c_float(float(value)).value
    except (TypeError, ValueError):
        raise TypeError(f"loss_scale= takes a number, as 1024.0, not {value!r}") from None
    if not (math.isfinite(scale) and scale > 0):
        raise InvalidArgument(f"the loss scale {value} is not finite and positive in float32")
    return scale


def unique_id():
    """Bytes by which ranks meet: make them in the process of rank 0, hand them to all ranks.

    They hold the job's secret: ship them over a channel you trust.
    """
    made = c.gwUniqueId()
    check(lib.gwGetUniqueId(ctypes.byref(made)))
    return bytes(made)


def _start(function, *args):
    """Calls one of the functions that make a communicator; its handle."""
    handle = c.gwComm_t()
    # The text of the error belongs to the thread, so it is fetched where the call is made.
    def call():
        check(function(ctypes.byref(handle), *args))

    interruptible(call, on_interrupt=lambda started: end_later(started, handle))
    return handle


class Comm(Collectives):
    """One rank's end of a job; from_environment(), from_unique_id() and split() make it.

    Threads: any. Calls of several wait for each other, but for abort() and discard(). Signal
    handlers run during waits; what they raise amid a call with other ranks ends the communicator.

    Errors are GradwireError: InvalidArgument and InvalidUsage have no effect, after PeerLost and
    Revoked only close() and discard() are of use, after all others it can go on. No call waits
    without a bound (op_timeout_ms).

    A `with` block leaves in good order, or aborts where it is left by an exception. A communicator
    that is dropped, or still there at exit, takes leave too, or aborts where something is under
    way: the other ranks do not wait for it, and it waits for them at most abort_timeout_ms.
    """

    def __init__(self, handle):
        self._life = Lifetime(handle)
        self._handle, self._pending = handle, self._life.pending
        weakref.finalize(self, self._life.finish)

    @classmethod
    def from_environment(cls, settings=None):
        """Joins as the launcher says: `gradwire run`, torchrun, mpirun, srun; alone: one rank.

        Collective; returns when all ranks are ready.
        settings: text "name=value; ..." or a dict, names as `gradwire info -c` lists them. They win
        over the environment (GRADWIRE_NAME) and gradwire.toml.
        TimedOut: names the ranks that have not come within init_timeout_ms. Mismatch: ranks of
        another version or configuration. StartFailed: see there.
        """
        return cls(_start(lib.gwCommInitEnv, ctypes.byref(_config(settings))))

    @classmethod
    def from_unique_id(cls, identity, rank, world_size, settings=None):
        """Joins `world_size` ranks by the bytes of unique_id(), which are good for one start.

        As from_environment(); rank 0 is in the process that called unique_id(). PeerLost: rank 0 has
        ended before this rank came, or was told of fewer ranks.
        """
        if len(identity) != c.GW_UNIQUE_ID_BYTES:
            raise InvalidArgument(f"a unique id has {c.GW_UNIQUE_ID_BYTES} bytes, not "
                                  f"{len(identity)}: pass what unique_id() gave to rank 0's process")
        made = c.gwUniqueId.from_buffer_copy(identity)
        config = ctypes.byref(_config(settings))
        return cls(_start(lib.gwCommInitRankConfig, fitting(world_size, "world_size"), made,
                          fitting(rank, "rank"), config))

    def split(self, color, key=0, settings=None):
        """The ranks of one color as a communicator of their own, in the order of key, then of their
        ranks here.

        All ranks call it. color: from 0 on; None: this rank joins none and gets None. settings: as
        for from_environment(); None: as here. The two are independent: either may be closed first.
        What fails on one rank fails on all; this communicator stays as it was, but for PeerLost.
        """
        config = None if settings is None else ctypes.byref(_config(settings))
        made = c.gwComm_t()
        chosen = c.GW_SPLIT_NOCOLOR if color is None else fitting(color, "color")
        # Only what the library refuses is told to the other ranks, who wait. To C -1 means no group,
        # so another negative number stands for it.
        if color is not None and chosen == c.GW_SPLIT_NOCOLOR:
            chosen -= 1
        self._call(lib.gwCommSplit, self._handle, chosen, fitting(key, "key"), ctypes.byref(made),
                   config, made=made)
        return Comm(made) if made else None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
        else:
            self.discard()

    # ---- the handle ----

    def in_call(self):
        """What to hold in each call of the library: the communicator's end waits for it."""
        return self._life

    def one_at_a_time(self):
        """What to hold besides, but where the library takes any thread."""
        return self._life.one_at_a_time()

    def _check(self, code):
        """Within in_call()."""
        check(code, self._handle)

    def _call(self, function, *args, made=None):
        """A call that may wait for other ranks. Interrupting it ends the communicator.

        made: the handle of another one, if the call makes one.
        """
        def abort(call):
            if made is not None:
                end_later(call, made)
            self.abort()
            call.join()

        self._run(function, args, abort)

    def _call_locally(self, function, *args):
        """A call that waits for no other rank. Interrupting it ends nothing: it returns soon."""
        self._run(function, args, lambda call: call.join())

    def _run(self, function, args, on_interrupt):
        alone = self.one_at_a_time()

        # The text of an error without a communicator belongs to the thread.
        def checked(*args):
            with self.in_call(), alone:
                self._check(function(*args))

        interruptible(checked, *args, on_interrupt=on_interrupt, owner=self)

    def _int(self, function):
        value = ctypes.c_int()
        with self.in_call():
            self._check(function(self._handle, ctypes.byref(value)))
        return value.value

    @property
    def rank(self):
        """Of this process, from 0."""
        return self._int(lib.gwCommUserRank)

    @property
    def world_size(self):
        """Number of ranks."""
        return self._int(lib.gwCommCount)

    @property
    def closed(self):
        """Every call is refused, but for those that end it."""
        return self._life.is_over

    def check_open(self):
        """Raises where it is closed: the library has nothing of it any more."""
        if self.closed:
            raise InvalidUsage("the communicator is closed")

    # ---- the end ----

    def close(self):
        """Completes what was submitted, takes leave of the other ranks, frees everything.

        All ranks call it; once closed it has no effect. Rank 0 leaves last: TimedOut names who has
        not left within abort_timeout_ms, PeerLost a rank that died. Any other error is what ended
        the communicator before, or a step's abort that nobody has waited for. It is closed then, too.
        A step that is open is not committed; the log tells so.
        """
        if self.closed:
            return
        try:
            self._call(lib.gwCommFinalize, self._handle)
        finally:
            try:
                self._keep_outcomes()
            finally:
                self._destroy()

    def _keep_outcomes(self):
        for submission in list(self._pending):
            request = submission.request and submission.request()
            if request is not None:
                request.keep_outcome()

    def abort(self):
        """Ends everything under way, here and at the other ranks. Any thread, any time."""
        check(self._life.abort())

    def discard(self):
        """Aborts, waits for nobody and frees everything. Any thread, any time.

        What calls use that are under way is freed when the last one is left.
        """
        self.abort()
        self._destroy()

    def _destroy(self):
        check(self._life.end(), self._handle)

    def raise_async_error(self):
        """Raises what ended the communicator; returns while it is usable."""
        code = ctypes.c_int()
        with self.in_call():
            self._check(lib.gwCommGetAsyncError(self._handle, ctypes.byref(code)))
            self._check(code.value)

    # ---- registered tensors ----

    def tensor(self, name, shape, dtype="float32", spec=None):
        """Registers a gradient, a Tensor; local and cheap. All ranks register the same ones before
        the end of the first step that uses them.

        name: its identity, to which what compression keeps back belongs. shape: its lengths, of
        elements row by row, or one number; low rank sees matrices by it. dtype: "float32",
        "float16", "bfloat16", or one of numpy or torch. spec: "qsgd(bits=4)", "auto", ...; None: the setting `compress`.
        InvalidArgument: a name twice, or a spec that is none (the text has the nearest).
        """
        text = as_text(name, 'name= takes a text, as "layer.weight"')
        shape = [fitting(length, "length", ctypes.c_int64)
                 for length in (shape if isinstance(shape, Iterable) else [shape])]
        lengths = (ctypes.c_int64 * len(shape))(*shape)
        kind = data_type(dtype)
        config = c.gwTensorConfig_t(ctypes.sizeof(c.gwTensorConfig_t), c.GW_CONFIG_MAGIC,
                                    c.GW_VERSION_CODE, None if spec is None else as_spec(spec))
        handle = c.gwTensor_t()
        with self.in_call(), self.one_at_a_time():
            self._check(lib.gwTensorRegister(self._handle, text, lengths, len(shape),
                                             kind, ctypes.byref(config), ctypes.byref(handle)))
        return Tensor(self, handle, name, math.prod(shape), kind)

    def submit(self, group, op="sum", keep=None):
        """All-reduces the tensors of a Group together, as their specs say; gives a Request.

        All ranks submit the same ones in the same order. Until the request is complete the arrays
        are the library's: what is sent stays as it is, what is received is undefined.
        op: "sum" or "avg". keep: what else must stay until then, as who owns a Pointer's memory.
        InvalidUsage, without effect: a tensor twice in a step. Outside steps there is no vote: what
        is complete counts, and `auto` is bf16.
        """
        self._check_owns(group.comm)
        return self._submit(Submission(group.buffers, keep), lib.gwAllReduceTensors, group.count,
                            group.tensors, group.send, group.recv, operation(op))

    def reduce_scatter_tensor(self, tensor, send, recv, op="sum", keep=None):
        """As Tensor.reduce_scatter(); keep: as for submit()."""
        source, target = as_buffer(send), as_buffer(recv, writable=True)
        self._check_owns(tensor.comm)
        tensor.check(source)
        tensor.check(target, self.world_size)
        return self._submit(Submission((source, target), keep), lib.gwReduceScatterTensor,
                            tensor.handle, source.address, target.address, operation(op))

    def _check_owns(self, comm):
        """comm: of tensors that are to be submitted here."""
        self.check_open()
        if comm is not self:
            raise ValueError("the tensors belong to another communicator: submit them there")

    def _submit(self, submission, function, *args):
        with self.in_call(), self.one_at_a_time():
            self._free_dropped()
            # Before the call: an exception may come from a signal handler right behind it.
            self._pending[submission] = None
            try:
                self._check(function(*args, None, ctypes.byref(submission.handle)))
            finally:
                if not submission.handle:
                    self._pending.pop(submission, None)
            # Within: another thread must not take it for one that was dropped.
            return Request(self, submission)

    def release(self, submission):
        """Frees a submission if it is complete; whether it was. Within one_at_a_time()."""
        freed = submission.free()
        if freed:
            self._pending.pop(submission, None)
        return freed

    def _free_dropped(self):
        """Submissions that are complete and that nobody waits for: their arrays must not pile up.

        Up to the first that is under way: most complete in their order, and looking at all of them
        with each submission would take as long as the step.
        """
        with self.one_at_a_time():
            for submission in list(self._pending):
                if submission.is_dropped and not self.release(submission):
                    return

    # ---- training steps ----

    def begin_step(self, number, loss_scale=None):
        """Opens a step; number and loss_scale are equal on all ranks.

        number: from 0 on; it seeds random rounding. loss_scale: what gradients are multiplied by,
        finite and above 0, so that what is kept back counts under another scale, too.
        InvalidUsage: a step is open.
        """
        number = fitting(number, "step", ctypes.c_uint64)
        # Before the step is open.
        scale = None if loss_scale is None else _scale(loss_scale)
        with self.in_call(), self.one_at_a_time():
            self._check(lib.gwStepBegin(self._handle, number))
            if scale is not None:
                self._check(lib.gwStepSetLossScale(self._handle, scale))

    def end_step(self):
        """All ranks agree on how the step ended, an Outcome; waits for all of them.

        Update the weights after COMMITTED only. After the others last_error() says why, and what
        was kept back is as before: after ABORTED the step can be run again on the same gradients.
        NonFinite: aborted under nonfinite=error. InvalidUsage: no step is open.
        """
        outcome = ctypes.c_int()
        with self.in_call():
            try:
                self._call(lib.gwStepEnd, self._handle, ctypes.byref(outcome))
            finally:
                self._free_dropped()
        return Outcome(c.gwStepOutcome_t(outcome.value))

    def abort_step(self, why=""):
        """Gives the open step up: it ends as ABORTED on all ranks, which are told why."""
        text = as_text(why, "why= takes a text, which all ranks are told")
        with self.in_call():
            self._call(lib.gwStepAbort, self._handle, text)
            self._free_dropped()

    def last_error(self):
        """The text of the communicator's last error; empty: there was none."""
        with self.in_call():
            return in_python(lib.gwGetLastError(self._handle).decode(errors="replace"))

    # ---- state and statistics ----

    def save_state(self):
        """This rank's residuals and counters, as a bytearray of its own. Between steps."""
        size = ctypes.c_size_t()
        self._call_locally(lib.gwStateSave, self._handle, None, ctypes.byref(size))
        state = bytearray(size.value)
        self._call_locally(lib.gwStateSave, self._handle, as_buffer(state, writable=True),
                           ctypes.byref(size))
        del state[size.value:]
        return state

    def load_state(self, state):
        """Reads what save_state gave at the same rank, after the same tensors were registered.

        state: whatever has the buffer protocol. Mismatch: another rank or number of ranks, other
        tensors or shapes, or another spec where that kept more than a residual. DataCorrupt: bytes
        are damaged. Neither has an effect.
        """
        self._call_locally(lib.gwStateLoad, self._handle, as_buffer(state), memoryview(state).nbytes)

    def _json(self, function):
        size = ctypes.c_size_t()
        with self.in_call(), self.one_at_a_time():
            self._check(function(self._handle, None, ctypes.byref(size)))
            for _ in range(_JSON_TRIES):
                # It may get longer between two calls, as where many tensors begin to count.
                size.value += _JSON_GROWTH_BYTES
                buffer = ctypes.create_string_buffer(size.value)
                code = function(self._handle, buffer, ctypes.byref(size))
                if code != c.gwResult_t.gwInvalidArgument or size.value <= len(buffer):
                    break
            self._check(code)
        return json.loads(buffer.value)

    def stats(self):
        """Counters of this rank since the start: a flat dict (docs/ledger.md)."""
        return self._json(lib.gwCommGetStats)

    def ledger(self):
        """How long steps take (`steps`, ms), what happened to each tensor (`tensors`: codec, bytes,
        nanoseconds, error) and what `auto` decided (`controller`): a dict (docs/ledger.md)."""
        return self._json(lib.gwCommGetLedger)
