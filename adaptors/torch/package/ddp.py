"""DistributedDataParallel, through its communication hook."""

import warnings
import weakref

import torch
from torch.autograd import Variable
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

import gradwire
from gradwire.torch.handle import Handle, Router
from gradwire.torch.parameters import DATA_TYPES, TENSOR_PARALLEL, plain_name, pointer_to
from gradwire.torch.tensors import Description, Tensors


def _check_finalization(model):
    """Since torch 2.15 it may be set between any two steps."""
    if getattr(model, "require_manual_backward_finalization", False):
        raise gradwire.InvalidArgument(
            "gradwire gives DistributedDataParallel the averages when backward ends, and "
            "finalize_backward() may wait for them before: leave "
            "require_manual_backward_finalization off")


def _check_join(model):
    if model._join_config.enable and not model._divide_by_initial_world_size:
        raise gradwire.InvalidArgument(
            "with a communication hook DistributedDataParallel does not divide gradients, and "
            "averages, of gradwire or after it of torch, are over all ranks, also those that have "
            "joined: join(divide_by_initial_world_size=True). An earlier join(...=False) counts "
            "until another is entered, as join(enable=False)")


def _check_scaler(model, has_scaler):
    """A rank that has joined steps no scaler, and the ranks' scales would differ."""
    if model._join_config.enable and has_scaler:
        raise gradwire.InvalidArgument(
            "in join() the scale of the loss follows the inputs of each rank, so the ranks would "
            "differ in it: use join() without attach(scaler=). An earlier join() counts until "
            "another is entered, as join(enable=False)")


def _check_gradient_hooks(trained):
    """Most of them are optimizers, which plain DistributedDataParallel does not stop either."""
    for name, parameter in trained:
        if parameter._post_accumulate_grad_hooks:
            raise ValueError(f"the parameter {name} has a hook (register_post_accumulate_grad_hook) "
                             "that gets this rank's own gradient: an optimizer in it would let the "
                             "ranks drift apart. Step after backward; to look at gradients there is "
                             "register_hook")


class _Router(Router):
    def __init__(self, model):
        super().__init__(model.process_group)
        self._model = weakref.ref(model)

    def route(self, bucket):
        if bucket.index() == 0:
            # Also where torch averages: within a hook it divides by the number of all ranks, too.
            _check_join(self._model())
        if self.is_free:
            return allreduce_hook(self.group, bucket)
        if bucket.index() == 0:
            _check_finalization(self._model())
            _check_scaler(self._model(), self.handle.has_scaler)
        with self.handle.taking_part():
            return self.handle.on_bucket(bucket)

    def __reduce__(self):
        """None: torch copies and pickles its list of hooks, but a copy's reducer has none of them."""
        return type(None), ()


def gradwire_hook(router, bucket):
    """The communication hook; torch asks for a second parameter of this name."""
    return router.route(bucket)


class _Bucket:
    """A bucket on its way."""

    def __init__(self, buffer, tensors, request):
        self.request = request
        self.future = torch.futures.Future()
        self._buffer = buffer  # must stay until the request is complete
        self._tensors = tensors

    def discard(self):
        """The step counts for nothing in what its tensors keep."""
        for tensor in self._tensors:
            tensor.discard_step()

    def fill(self, value):
        self._buffer.fill_(value)

    def deliver(self):
        self.future.set_result(self._buffer)


class _Usage:
    """Which parameters had a gradient, of a model with find_unused_parameters.

    What DistributedDataParallel knows of this rank, or already of all of them: of a parameter that
    any rank used one says so at the least, of others none.
    """

    def __init__(self, model, parameters):
        self._model = weakref.ref(model)
        self._parameters = parameters

    @classmethod
    def of(cls, model, parameters):
        """None: all are used, or there is no telling which, as where some that have sparse gradients
        were frozen after wrapping."""
        if not model.find_unused_parameters or model.static_graph:
            return None
        known = len(parameters) == model.reducer._get_local_used_map().numel()
        return cls(model, parameters) if known else None

    def find_unused(self, comm, takes_part):
        """The parameters that no rank used. takes_part: otherwise this one used none (join)."""
        used = self._model().reducer._get_local_used_map().ne(0).byte() * takes_part
        comm.all_reduce(used, op="max")
        # A tensor's items one by one would take 0.7 ms for a thousand parameters.
        used = used.tolist()
        return [parameter for parameter, is_used in zip(self._parameters, used) if not is_used]


def _is_finite(gradients):
    values = gradients._values() if gradients.is_sparse else gradients
    return bool(values.isfinite().all())


def _in_backward():
    return torch._C._current_autograd_node() is not None


class DdpHandle(Handle):
    """A step begins with the first bucket, and ends before DistributedDataParallel waits."""

    def __init__(self, comm, tensors, name, scaler, group, usage=None):
        """usage: of the parameters, if not all are used in each step."""
        super().__init__(comm, tensors, name, scaler)
        self._group = group
        self._groups = {}  # index of the bucket -> (what it holds, its tensors, gradwire.Group)
        self._usage = usage
        self._passed_on = set()  # ids of the parameters whose gradients gradwire does not take
        self._told = set()  # kinds of those, of which a warning has been given
        self._others = []  # futures of those in this step, if a scaler looks at them
        self._others_overflow = False  # in this step, whose update the scaler will skip
        self._takes_part = True  # in the step: it has a backward of its own

    def on_bucket(self, bucket):
        """Submits a bucket; the future of its average."""
        self._check_whole()
        if bucket.index() == 0:
            self._others = []
        buffer = bucket.buffer()
        if buffer.is_sparse or buffer.dtype not in DATA_TYPES:
            future = self._pass_on(bucket, buffer)
        else:
            future = self._submit(bucket, buffer)
        if bucket.is_last() and self._is_open:
            # No node is at work outside a backward (join) and where buckets were held back until
            # its end (the first one of a static graph): then nobody would run a callback.
            self._takes_part = _in_backward()
            if not self._takes_part:
                self._end()
            else:
                Variable._execution_engine.queue_callback(self._end)
        elif bucket.is_last() and self._flushing:
            # All was passed on, so there is nothing to be sent before the end.
            self.close()
        return future

    def _submit(self, bucket, buffer):
        try:
            if not self._is_open or bucket.index() == 0:
                self._begin()
            tensors, group = self._group_of(bucket, buffer)
            request = self._submit_average(group, buffer)
        except gradwire.GradwireError as error:
            # DistributedDataParallel cannot go on, and who saves the state now wants no open step.
            self._abandon(str(error))
            raise self._for_users(error) from None
        self._sent.append(_Bucket(buffer, tensors, request))
        return self._sent[-1].future

    def _pass_on(self, bucket, buffer):
        kind = "sparse gradients" if buffer.is_sparse else f"gradients of type {buffer.dtype}"
        self._passed_on.update(map(id, bucket.parameters()))
        if kind not in self._told:
            self._told.add(kind)
            warnings.warn(f"{kind} are not compressed: they go through torch's own group",
                          stacklevel=1)
        future = allreduce_hook(self._group, bucket)
        if self._scaler:
            self._others.append(future)
        return future

    def _before_vote(self, sent):
        """What was kept back must not go with gradients that are thrown away: those of parameters
        that nobody used, and all where the scaler will skip the step for some that torch's own
        group has summed. They are the same on all ranks, and so is this."""
        others, self._others = self._others, []
        if self._error:
            return
        try:
            if not all(_is_finite(future.wait()) for future in others):
                self._others_overflow = True
                for bucket in sent:
                    bucket.discard()
            elif self._usage:
                for parameter in self._usage.find_unused(self._comm, self._takes_part):
                    if id(parameter) not in self._passed_on:
                        self._tensors.of(parameter).discard_step()
        except gradwire.GradwireError as error:
            self._error = error

    def _outcome(self, sent):
        """Skipped, too, where the scaler will skip what was committed."""
        self._others_overflow = False
        outcome = super()._outcome(sent)
        return gradwire.Outcome.SKIPPED if self._others_overflow else outcome

    def _group_of(self, bucket, buffer):
        parameters = bucket.parameters()
        key = (buffer.data_ptr(), *map(id, parameters))
        cached = self._groups.get(bucket.index())
        if cached is None or cached[0] != key:
            places = [pointer_to(view) for view in bucket.gradients()]
            tensors = [self._tensors.of(parameter) for parameter in parameters]
            cached = key, tensors, gradwire.Group(tensors, places)
            self._groups[bucket.index()] = cached
        return cached[1:]

    def _reset_tensors(self):
        super()._reset_tensors()
        self._groups.clear()

    def has_open_step_of(self, parameters):
        """Whether a step of any of the parameters has begun and not ended."""
        return self.attached and self._is_open and self.sends(parameters)

    @staticmethod
    def _for_users(error):
        """The library's advice is to run a revoked step again, which DDP does not do as it is."""
        if not isinstance(error, gradwire.Aborted):
            return error
        return gradwire.Aborted(
            f"{error} (before that state = handle.state_dict(), handle.close(), wrap the model in "
            "DistributedDataParallel, attach again, load_state_dict(state): else what was kept back is "
            "lost)")


_handles = weakref.WeakSet()


def _end_open_steps_of(trained):
    """Of the model's earlier wrapping: a step whose backward failed here never ends by itself."""
    for handle in list(_handles):
        if handle.has_open_step_of(parameter for _, parameter in trained):
            handle.abort()


def _hooked_already(hook):
    return ValueError(f"the model has {hook} already, and it takes only one: attach first")


def _reduced(model):
    """The parameters that DistributedDataParallel may average.

    It asks its list of the ignored for each name of a shared one, and with a dot before the name for
    those of the model itself: they are averaged though they are on the list.
    """
    found = {}
    for module_name, module in model.module.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if f"{module_name}.{name}" not in model.parameters_to_ignore:
                found[id(parameter)] = parameter
    return list(found.values())


def _trained(model):
    """The parameters that its reducer has, in its order: those that trained when it was wrapped."""
    reduced = _reduced(model)
    trained = [parameter for parameter in reduced if parameter.requires_grad]
    # Without this DistributedDataParallel does not go on with what was frozen since, and does not
    # know how many it has.
    if not model.find_unused_parameters or model.static_graph or not hasattr(model, "reducer"):
        return trained
    if len(trained) == model.reducer._get_local_used_map().numel():
        return trained
    # Made of zeros, as large as the model.
    try:
        buckets = model.reducer._get_zeros_like_grad_buckets()
    except RuntimeError:  # of sparse gradients
        return trained
    known = {id(parameter) for bucket in buckets for parameter in bucket.parameters()}
    return [parameter for parameter in reduced if id(parameter) in known]


def _shape_in_memory(parameter):
    """Of its gradient in a bucket, which is laid out as the parameter; one with gaps is not."""
    by_stride = sorted(range(parameter.dim()), key=parameter.stride, reverse=True)
    laid_out = parameter.detach().permute(by_stride)
    return tuple((laid_out if laid_out.is_contiguous() else parameter).shape)


class DdpModel:
    """A DistributedDataParallel, as attach() sees it."""

    speaks = True  # its rank 0 tells what is compressed

    def __init__(self, model, across):
        self._model = model
        self._across = across
        self.groups = [model.process_group]
        self._names = {id(parameter): plain_name(name)
                       for name, parameter in model.module.named_parameters()}
        # [(plain name, parameter)]
        self.trained = [(self._names[id(parameter)], parameter) for parameter in _trained(model)]

    @property
    def size(self):
        """(tensors, elements)"""
        return len(self.trained), sum(parameter.numel() for _, parameter in self.trained)

    def check(self):
        if self._across is not None:
            raise ValueError("across= is for models with fully_shard(): DistributedDataParallel "
                             "averages over its own process_group=")
        if self._model._use_python_reducer:
            raise ValueError("torch._dynamo.config.optimize_ddp = 'python_reducer' calls no "
                             "communication hook: use 'ddp_optimizer'")
        if self._model.mixed_precision is not None:
            raise ValueError("DistributedDataParallel(mixed_precision=...) sends gradients of "
                             "another type than the parameters': use torch.autocast")
        if self._model._delay_all_reduce_params:
            raise ValueError("DistributedDataParallel(delay_all_reduce_named_params=...) averages "
                             "them past its communication hooks: leave it out")
        if self._model.skip_all_reduce_unused_params:
            raise ValueError("DistributedDataParallel(skip_all_reduce_unused_params=True) calls no "
                             "communication hook for a bucket that is unused, and the step would "
                             "not end: use find_unused_parameters without it")
        # What torch calls the parts by, whose names are gone after the first forward.
        if any(hasattr(parameter, "_st_info") for parameter in self._model._module_parameters):
            raise ValueError(f"the model {TENSOR_PARALLEL}")
        _check_finalization(self._model)
        _check_gradient_hooks(self.trained)

    def check_hooks(self):
        for hook, _ in self._model._comm_hooks:
            if hook is not gradwire_hook:  # which a copy of a model lists only
                raise _hooked_already(f"the communication hook {hook.__qualname__}")

    def end_open_steps(self):
        """Of an earlier wrapping, for which the other ranks wait."""
        _end_open_steps_of(self.trained)

    def make_equal(self, places):
        """DistributedDataParallel has done it."""

    def tensors(self, comm, prefix, spec, selection):
        names = self._names  # the handle has these functions, and must not keep the model

        def describe(parameter):
            name = names[id(parameter)]
            return Description(name, _shape_in_memory(parameter), parameter.dtype,
                               selection.is_exact_parameter(name, parameter))

        tensors = Tensors(comm, prefix, spec, describe)
        for _, parameter in self.trained:
            if parameter.dtype in DATA_TYPES:
                tensors.of(parameter)
        return tensors

    def hook(self, old):
        """The router that the model's hook asks. A model takes one hook for life."""
        if old is not None:
            return old
        router = _Router(self._model)
        try:
            self._model.register_comm_hook(router, gradwire_hook)
        except RuntimeError as error:
            # Those of torch's own kind are known to its reducer only; torch lists ours all the same.
            self._model._comm_hooks.clear()
            raise _hooked_already("one of torch's communication hooks") from error
        return router

    def handle(self, comm, tensors, name, scaler):
        keeps = any(row["keeps_state"] for row in comm.ledger()["tensors"])
        usage = _Usage.of(self._model, [p for _, p in self.trained]) if keeps else None
        handle = DdpHandle(comm, tensors, name, scaler, self._model.process_group, usage)
        _handles.add(handle)
        return handle
