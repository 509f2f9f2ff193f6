"""What attach() returns for DistributedDataParallel: the steps of its hook."""

import contextlib
from typing import NamedTuple

import torch
from torch.autograd import Variable
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

import gradwire
from gradwire.torch.ddp_reducer import gradient_of
from gradwire.torch.handle import Handle, handles
from gradwire.torch.parameters import DATA_TYPES, local_update, pointer_to
from gradwire.torch.routing import Phase


class _Requests:
    """Several, as one."""

    def __init__(self, requests):
        self._requests = requests

    def wait(self):
        with contextlib.ExitStack() as stack:
            for request in self._requests:
                stack.callback(request.wait)


class _Travelling(NamedTuple):
    """What a bucket travels as."""

    key: tuple  # of the bucket that it was made for
    tensors: list  # of all its gradients
    majorities: gradwire.Group  # those in float16; None: there are none, and the rest is all
    rest: gradwire.Group  # None: there is none
    rest_indices: list  # of its gradients, in the bucket


class _Bucket:
    """A bucket on its way."""

    def __init__(self, bucket, tensors, request):
        self.request = request
        self.future = torch.futures.Future()
        self._bucket = bucket  # of torch; its buffer must stay until the request is complete
        self._tensors = tensors

    def gradients(self):
        """[(parameter, its gradient)]"""
        return [(parameter, gradient_of(parameter, part))
                for parameter, part in zip(self._bucket.parameters(), self._bucket.gradients())]

    def discard(self):
        for tensor in self._tensors:
            tensor.discard_step()

    def fill(self, value):
        self._bucket.buffer().fill_(value)

    def deliver(self):
        self.future.set_result(self._bucket.buffer())


def _is_finite(gradients):
    values = gradients._values() if gradients.is_sparse else gradients
    return bool(values.isfinite().all())


def _take_rest(parameter, gradient):
    """Of a parameter that no rank used; DistributedDataParallel leaves the gradient it has alone.

    gradient: with what was kept back, of the one that it has or of zeros.
    """
    if not parameter.requires_grad:
        return
    if parameter.grad is not None:
        parameter.grad.copy_(gradient)
    elif gradient.any():
        parameter.grad = gradient.clone()


def _in_backward():
    return torch._C._current_autograd_node() is not None


class DdpHandle(Handle):
    """A step begins with the first bucket, and ends before DistributedDataParallel waits."""

    # The library's advice is to run a revoked step again, which DDP does not do as it is.
    _ADVICE = {
        **Handle._ADVICE,
        gradwire.Aborted: "before that state = handle.state_dict(), handle.close(), wrap the model in "
                          "DistributedDataParallel, attach again, load_state_dict(state): else what "
                          "was kept back is lost; then model.zero_grad() and all backwards of this "
                          "step again",
    }
    _ADVICE_AT_THE_END = {
        **Handle._ADVICE_AT_THE_END,
        gradwire.Aborted: "with PyTorch: wrap the model in DistributedDataParallel again and attach, "
                          "which begins with nothing kept back, and load_state_dict() of a checkpoint "
                          "if there is one",
    }

    def __init__(self, comm, tensors, name, scaler, group, usage=None):
        """usage: of the parameters, if not all are used in each step."""
        super().__init__(comm, tensors, name, scaler)
        self._keeps_state = False  # or has done so: what an unused parameter keeps back is at stake
        self._note_state()
        self._group = group
        self._groups = {}  # index of the bucket -> _Travelling
        self._usage = usage
        self._passed_on = set()  # ids of the parameters whose gradients gradwire does not take
        self._others = []  # futures of those in this step, if a scaler looks at them
        self._others_overflow = False  # in this step, whose update the scaler will skip
        self._takes_part = True  # in the step: it has a backward of its own
        self._unused = []  # parameters that no rank has used in this step

    def on_bucket(self, bucket):
        """Submits a bucket; the future of its average."""
        self._check_whole()
        if bucket.index() == 0:
            self._others = []
        try:
            future = self._submit(bucket, bucket.buffer())
        except gradwire.GradwireError as error:
            # DistributedDataParallel cannot go on, and who saves the state now wants no open step. The
            # others may wait in one that this rank has not begun yet.
            with contextlib.suppress(gradwire.GradwireError):
                if not self._is_open:
                    self._begin()
            self._abandon(str(error))
            raise self._tell(error) from None
        if bucket.is_last() and self._is_open:
            # No node is at work outside a backward (join) and where buckets were held back until
            # its end (the first one of a static graph): then nobody would run a callback.
            self._takes_part = _in_backward()
            if not self._takes_part:
                self._end()
            else:
                Variable._execution_engine.queue_callback(self._end)
        elif bucket.is_last() and self.phase is Phase.DETACHING:
            # All was passed on, so there is nothing to be sent before the end.
            self.close()
        return future

    def _submit(self, bucket, buffer):
        if buffer.is_sparse or buffer.dtype not in DATA_TYPES:
            return self._pass_on(bucket)
        if not self._is_open or bucket.index() == 0:
            self._begin()
        groups = self._groups_of(bucket, buffer)
        self._sent.append(_Bucket(bucket, groups.tensors, self._submit_groups(groups, bucket)))
        return self._sent[-1].future

    def _pass_on(self, bucket):
        parameters = bucket.parameters()
        self._check_hooks(parameters)
        self._passed_on.update(map(id, parameters))
        future = allreduce_hook(self._group, bucket)
        if self._scaler:
            self._others.append(future)
        return future

    def _before_vote(self, sent):
        """Those are thrown away, too, of parameters that nobody used, but for a flush; and all where
        the scaler will skip the step for some that torch's own group has summed. They are the same
        on all ranks, and so is this."""
        super()._before_vote(sent)
        others, self._others, self._unused = self._others, [], []
        if not all(_is_finite(future.wait()) for future in others):
            self._others_overflow = True
            self._discard(sent)
        elif self._usage and self._keeps_state:
            unused = self._usage.find_unused(self._comm, self._takes_part)
            self._unused = [one for one in unused if id(one) not in self._passed_on]
            for parameter in [] if self.phase is Phase.DETACHING else self._unused:
                self._tensors.of(parameter).discard_step()

    def _outcome(self, sent):
        """Skipped, too, where the scaler will skip what was committed."""
        self._others_overflow = False
        outcome = super()._outcome(sent)
        return gradwire.Outcome.SKIPPED if self._others_overflow else outcome

    def _end_flush(self, sent):
        """What was kept back of parameters that nobody used comes now or never."""
        unused = {id(parameter) for parameter in self._unused if self._takes_part}
        for bucket in sent:
            for parameter, gradient in bucket.gradients():
                if id(parameter) in unused:
                    _take_rest(parameter, gradient)
        super()._end_flush(sent)

    def _check_hooks(self, parameters):
        """In every step: attach() sees those only that are there by then."""
        for parameter in parameters:
            if parameter._post_accumulate_grad_hooks:
                raise local_update(self._tensors.name_of(parameter))

    def _submit_groups(self, groups, bucket):
        buffer = bucket.buffer()
        if groups.majorities is None:
            return self._submit_average(groups.rest, buffer)
        # No division before the sum makes signs smaller; what else is in float16 needs it.
        requests = [self._comm.submit(groups.majorities, "avg", keep=buffer)]
        if groups.rest is not None:
            gradients = bucket.gradients()
            for index in groups.rest_indices:
                gradients[index].div_(self._comm.world_size)
            requests.append(self._comm.submit(groups.rest, "sum", keep=buffer))
        return _Requests(requests)

    def _groups_of(self, bucket, buffer):
        parameters = bucket.parameters()
        self._check_hooks(parameters)
        key = (buffer.data_ptr(), *map(id, parameters))
        cached = self._groups.get(bucket.index())
        if cached is None or cached.key != key:
            cached = self._make_groups(key, bucket, buffer)
            self._groups[bucket.index()] = cached
        return cached

    def _make_groups(self, key, bucket, buffer):
        parameters = bucket.parameters()
        places = [pointer_to(view) for view in bucket.gradients()]
        tensors = [self._tensors.of(parameter) for parameter in parameters]
        majorities, rest = [], []
        for index, parameter in enumerate(parameters):
            is_apart = buffer.dtype is torch.float16 and self._tensors.is_majority_of(parameter)
            (majorities if is_apart else rest).append(index)

        def group_of(indices):
            return gradwire.Group([tensors[index] for index in indices],
                                  [places[index] for index in indices]) if indices else None

        return _Travelling(key, tensors, group_of(majorities), group_of(rest), rest)

    def detach(self):
        super().detach()
        self._groups.clear()

    def set_spec(self, spec):
        super().set_spec(spec)
        self._groups.clear()
        self._note_state()

    def _note_state(self):
        rows = self._comm.ledger()["tensors"]
        self._keeps_state = self._keeps_state or any(row["keeps_state"] for row in rows)

    def _reset_tensors(self):
        super()._reset_tensors()
        self._groups.clear()

    def _load(self, state_dict, residuals):
        try:
            super()._load(state_dict, residuals)
        finally:
            # Under an exact spec too there may be residuals now, if only on some ranks, which must
            # all go by the same.
            self._keeps_state = True


def end_open_steps_of(trained):
    """Of the model's earlier wrapping: a step whose backward failed here never ends by itself."""
    for handle in list(handles):
        if handle.has_open_step_of(parameter for _, parameter in trained):
            handle.abort()
