"""DistributedDataParallel, through its communication hook."""

import weakref

from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

import gradwire
from gradwire.torch.ddp_handle import DdpHandle, end_open_steps_of
from gradwire.torch.ddp_reducer import Usage, shape_in_memory, trained_by
from gradwire.torch.handle import failing_together
from gradwire.torch.parameters import DATA_TYPES, TENSOR_PARALLEL, local_update, plain_name
from gradwire.torch.routing import Router
from gradwire.torch.tensors import Description, Tensors
from gradwire.torch.wrapped import WrappedModel


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


class _Router(Router):
    def __init__(self, model):
        super().__init__(model.process_group)
        self._model = weakref.ref(model)

    def _check_step(self):
        # Also where torch averages: within a hook it divides by the number of all ranks, too.
        _check_join(self._model())
        if not self.is_free:
            _check_finalization(self._model())
            _check_scaler(self._model(), self.handle.has_scaler)

    def route(self, bucket):
        if bucket.index() == 0:
            with failing_together("another model", self.handle):
                self._check_step()
        if self.is_free:
            return allreduce_hook(self.group, bucket)
        with self.handle.taking_part():
            return self.handle.on_bucket(bucket)

    def __reduce__(self):
        """None: torch copies and pickles its list of hooks, but a copy's reducer has none of them."""
        return type(None), ()


def gradwire_hook(router, bucket):
    """The communication hook; torch asks for a second parameter of this name."""
    return router.route(bucket)


def _hooked_already(hook):
    return ValueError(f"the model has {hook} already, and it takes only one: attach first")


def _sparse_in(model):
    """The ids of the parameters that have sparse gradients, as DistributedDataParallel finds them."""
    return {id(module.weight) for module in model.module.modules()
            if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.sparse}


class DdpModel(WrappedModel):
    """A DistributedDataParallel."""

    def __init__(self, model, across):
        self._model = model
        self._across = across
        self._names = {id(parameter): plain_name(name)
                       for name, parameter in model.module.named_parameters()}
        self.trained = [(self._names[id(parameter)], parameter) for parameter in trained_by(model)]

    @property
    def groups(self):
        return [self._model.process_group]

    @property
    def size(self):
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
        for name, parameter in self.trained:
            if parameter._post_accumulate_grad_hooks:
                raise local_update(name)

    def check_hooks(self):
        for hook, _ in self._model._comm_hooks:
            if hook is not gradwire_hook:  # which a copy of a model lists only
                raise _hooked_already(f"the communication hook {hook.__qualname__}")

    def end_open_steps(self):
        end_open_steps_of(self.trained)

    def tensors(self, comm, prefix, spec, selection):
        names = self._names  # the handle has these functions, and must not keep the model

        def describe(parameter):
            name = names[id(parameter)]
            return Description(name, shape_in_memory(parameter), parameter.dtype,
                               selection.is_exact_parameter(name, parameter))

        tensors = Tensors(comm, prefix, spec, describe)
        for _, parameter in self.trained:
            if parameter.dtype in DATA_TYPES:
                tensors.of(parameter)
        return tensors

    def hook(self, old):
        if old is not None:  # a model takes one hook for life
            return old
        router = _Router(self._model)
        try:
            self._model.register_comm_hook(router, gradwire_hook)
        except RuntimeError as error:
            # Those of torch's own kind are known to its reducer only; torch lists ours all the same.
            self._model._comm_hooks.clear()
            raise _hooked_already("one of torch's communication hooks") from error
        return router

    def warnings(self):
        sparse = _sparse_in(self._model)
        kinds = [f"gradients of type {parameter.dtype}" if id(parameter) not in sparse
                 else "sparse gradients" for _, parameter in self.trained
                 if id(parameter) in sparse or parameter.dtype not in DATA_TYPES]
        return [f"{kind} are not compressed: they go through torch's own group"
                for kind in dict.fromkeys(kinds)]

    def handle(self, comm, tensors, name, scaler):
        usage = Usage.of(self._model, [p for _, p in self.trained])
        return DdpHandle(comm, tensors, name, scaler, self._model.process_group, usage)
