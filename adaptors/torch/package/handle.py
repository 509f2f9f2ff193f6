"""What attach() gives: one model's communicator, its training steps and its state."""

import contextlib
import time
import warnings

import torch
from torch.autograd import Variable
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

import gradwire
from gradwire._bindings import gwResult_t
from gradwire.torch.parameters import DATA_TYPES


class _Bucket:
    """A bucket on its way: its memory must stay until the request is complete."""

    def __init__(self, buffer, request):
        self.buffer = buffer
        self.request = request
        self.future = torch.futures.Future()


def _for_users(error):
    """The library's advice is to run a revoked step again, which DDP does not do as it is."""
    if not isinstance(error, gradwire.Aborted):
        return error
    return gradwire.Aborted(error.result, f"{error} (wrap the model in DistributedDataParallel and "
                                          "attach again before that)")


class Handle:
    """A DistributedDataParallel model's gradients, on their way through gradwire.

    A training step is one synchronised backward: it begins with the first bucket and ends after the
    last one, before DistributedDataParallel waits. Errors are raised by backward().
    """

    def __init__(self, comm, group, tensors, name, scaler):
        self._comm = comm
        self._group = group
        self._tensors = tensors
        self._name = name
        self._scaler = scaler
        self._step = 0
        self._is_open = False
        self._flushing = False
        self._buckets = []
        self._groups = {}  # index of the bucket -> (what it holds, gradwire.Group)
        self._blocked_s = 0.0

    # ---- the hook ----

    def on_bucket(self, bucket):
        """Submits a bucket; the future of its average."""
        buffer = bucket.buffer()
        if buffer.is_sparse or buffer.dtype not in DATA_TYPES:
            future = self._pass_on(bucket, buffer)
        else:
            future = self._submit(bucket, buffer)
        if bucket.is_last() and self._is_open:
            # No node is at work outside a backward (join) and where buckets were held back until
            # its end (the first one of a static graph): then nobody would run a callback.
            if torch._C._current_autograd_node() is None:
                self._end()
            else:
                Variable._execution_engine.queue_callback(self._end)
        return future

    def _submit(self, bucket, buffer):
        try:
            if not self._is_open or bucket.index() == 0:
                self._begin()
            request = self._comm.submit(self._group_of(bucket, buffer), "avg", keep=buffer)
        except gradwire.Aborted as error:
            raise _for_users(error) from None
        self._buckets.append(_Bucket(buffer, request))
        return self._buckets[-1].future

    def _pass_on(self, bucket, buffer):
        kind = "sparse gradients" if buffer.is_sparse else f"gradients of type {buffer.dtype}"
        # Python says the same thing at the same place once.
        warnings.warn(f"{kind} are not compressed: they go through torch's own group", stacklevel=1)
        return allreduce_hook(self._group, bucket)

    def _group_of(self, bucket, buffer):
        parameters = bucket.parameters()
        key = (buffer.data_ptr(), *map(id, parameters))
        cached = self._groups.get(bucket.index())
        if cached is None or cached[0] != key:
            places = [gradwire.Pointer(view.data_ptr(), view.numel(), DATA_TYPES[view.dtype])
                      for view in bucket.gradients()]
            cached = key, gradwire.Group([self._tensors.of(p) for p in parameters], places)
            self._groups[bucket.index()] = cached
        return cached[1]

    # ---- steps ----

    def _begin(self):
        if self._is_open:
            self._abandon()
        scale = self._scaler.get_scale() if self._scaler else None
        self._comm.begin_step(self._step, scale)
        self._is_open = True

    def _abandon(self):
        """Ends a step whose backward failed: nobody waits for its outcome."""
        self._is_open = False
        buckets, self._buckets = self._buckets, []
        with contextlib.suppress(gradwire.GradwireError):
            self._comm.end_step()
        for bucket in buckets:
            with contextlib.suppress(gradwire.GradwireError):
                bucket.request.wait()

    def _end(self):
        start = time.perf_counter()
        buckets, self._buckets = self._buckets, []
        self._is_open = False
        try:
            outcome = self._outcome(buckets)
        except gradwire.GradwireError:
            raise
        except BaseException:
            # A signal's handler raised: the other ranks must not wait for the rest of this step.
            self._comm.abort()
            raise
        self._blocked_s += time.perf_counter() - start
        self._step += 1
        if outcome is gradwire.Outcome.SKIPPED:
            self._mark_skipped(buckets)
        for bucket in buckets:
            bucket.future.set_result(bucket.buffer)
        if self._flushing and outcome is gradwire.Outcome.COMMITTED:
            self.close()

    def _outcome(self, buckets):
        """Committed or skipped; everything else is raised, the first error first."""
        first = None
        for bucket in buckets:
            try:
                bucket.request.wait()
            except gradwire.GradwireError as error:
                first = first or error
        try:
            outcome = self._comm.end_step()
        except gradwire.GradwireError as error:
            raise _for_users(first or error) from None
        if outcome is gradwire.Outcome.ABORTED:
            raise _for_users(
                first or gradwire.Aborted(gwResult_t.gwAborted, self._comm.last_error()))
        return outcome

    def _mark_skipped(self, buckets):
        if not self._scaler:
            raise gradwire.NonFinite(gwResult_t.gwNonFinite, self._comm.last_error())
        # A GradScaler then skips the update, on all ranks.
        for bucket in buckets:
            bucket.buffer.fill_(float("nan"))

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

    def has_open_step_of(self, parameters):
        """Whether a step of any of the parameters has begun and not ended."""
        return self.attached and self._is_open and self._tensors.has_any_of(parameters)

    # ---- state ----

    def _key(self, part):
        return f"gradwire/{self._name}/rank{self._comm.rank}of{self._comm.world_size}/{part}"

    def state_dict(self):
        """This rank's residuals and counters. Keys differ between ranks: save those of all."""
        self._check_attached()
        state = torch.frombuffer(bytearray(self._comm.save_state()), dtype=torch.uint8)
        return {self._key("state"): state, self._key("step"): torch.tensor(self._step)}

    def load_state_dict(self, state_dict, residuals="drop"):
        """Reads what state_dict() gave on this rank; other keys are ignored.

        The state of another number of ranks cannot be used: with residuals="drop" a warning says
        so and the residuals begin at zero, with "error" it is a ValueError.
        """
        self._check_attached()
        if self._key("state") in state_dict:
            self._comm.load_state(state_dict[self._key("state")].numpy().tobytes())
            self._step = int(state_dict[self._key("step")])
            return
        mine = f"gradwire/{self._name}/"
        others = sorted({key.split("/")[-2] for key in state_dict if key.startswith(mine)})
        if not others:
            raise ValueError(f"there is no state of '{self._name}' in this checkpoint: it is "
                             "another model's, or was attached under another name")
        text = (f"the checkpoint has the state of {', '.join(others)}, this is rank "
                f"{self._comm.rank} of {self._comm.world_size}")
        if residuals != "drop":
            raise ValueError(text)
        self._tensors.reset()
        self._groups.clear()
        # It is equal on all ranks.
        self._step = int(state_dict[f"{mine}{others[0]}/step"])
        warnings.warn(f"{text}: residuals begin at zero", stacklevel=2)
