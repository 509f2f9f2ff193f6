"""attach(): DistributedDataParallel's communication hook."""

import contextlib
import sys
import weakref

from torch import distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire.torch import parameters, rendezvous
from gradwire.torch.handle import Handle

# Tensors of fewer elements travel exactly: compressed they would save nothing.
_MIN_NUMEL = 4096


class _Router:
    """Whom a model's hook asks. A model takes one hook for life; handles come and go."""

    def __init__(self, group):
        self._group = group
        self.handle = None

    @property
    def is_free(self):
        return self.handle is None or not self.handle.attached

    def route(self, bucket):
        if self.is_free:
            return allreduce_hook(self._group, bucket)
        return self.handle.on_bucket(bucket)


_routers = weakref.WeakKeyDictionary()


def gradwire_hook(router, bucket):
    """The communication hook; torch asks for a second parameter of this name."""
    return router.route(bucket)


_handles = weakref.WeakSet()


def _check_group(model):
    if not isinstance(model, DistributedDataParallel):
        raise TypeError(f"attach takes a model in DistributedDataParallel, not "
                        f"{type(model).__name__}: wrap it first")
    if not dist.is_initialized():
        raise RuntimeError("there is no process group: call torch.distributed.init_process_group, "
                           "and attach before it is destroyed")


def _check_model(model):
    if model._use_python_reducer:
        raise ValueError("torch._dynamo.config.optimize_ddp = 'python_reducer' calls no "
                         "communication hook: use 'ddp_optimizer'")
    if model.mixed_precision is not None:
        raise ValueError("DistributedDataParallel(mixed_precision=...) sends gradients of another "
                         "type than the parameters': use torch.autocast")


def _check_parameters(trained):
    for name, parameter in trained:
        if parameter.is_complex():
            raise ValueError(f"the parameter {name} is complex: split it into two real ones")
        if parameter.device.type != "cpu":
            raise RuntimeError(f"the parameter {name} is on {parameter.device}, and this build "
                               "takes host memory only")
        if hasattr(parameter, "_in_backward_optimizers"):
            raise ValueError(f"the parameter {name} has an optimizer in the backward pass, which "
                             "updates it before the ranks have agreed on the step")


def _hooked_already(hook):
    return ValueError(f"the model has {hook} already, and it takes only one: attach first")


def _check_router(model):
    router = _routers.get(model)
    if router is None and model._comm_hooks:
        hook, _ = model._comm_hooks[0]
        raise _hooked_already(f"the communication hook {hook.__qualname__}")
    if router is not None and not router.is_free:
        raise RuntimeError("gradwire is attached to this model already: detach first, which takes "
                           "one more step")


def _make_router(model):
    """The model's, with its communication hook."""
    if model not in _routers:
        router = _Router(model.process_group)
        try:
            model.register_comm_hook(router, gradwire_hook)
        except RuntimeError as error:
            # Those of torch's own kind are known to its reducer only; torch lists ours all the same.
            model._comm_hooks.clear()
            raise _hooked_already("one of torch's communication hooks") from error
        _routers[model] = router
    return _routers[model]


def _end_open_steps_of(trained):
    """Of the model's earlier wrapping: a step whose backward failed here never ends by itself."""
    for handle in list(_handles):
        if handle.has_open_step_of(parameter for _, parameter in trained):
            handle.abort()


def _with_defaults(settings, scaler):
    """What the loss scaler skips, residuals must skip too."""
    default = "nonfinite=skip" if scaler else ""
    if not isinstance(settings, str):
        settings = "; ".join(f"{name}={value}" for name, value in (settings or {}).items())
    return settings if "nonfinite" in settings else "; ".join(filter(None, [default, settings]))


def _check_half(ledger, scaler):
    """Small gradients in half precision are zero without loss scaling; feedback then sums zeros."""
    half = [row["name"] for row in ledger["tensors"]
            if row["feedback"] and row["datatype"] == "half"]
    if half and scaler is None:
        raise ValueError(f"{half[0]} has gradients in float16 and a codec with feedback: pass "
                         "scaler=, the GradScaler of the loss, or scaler=False to go without")


def _describe(name, ledger, trained):
    rows = [row for row in ledger["tensors"] if row["spec"] != "none" or row["auto"]]
    specs = ", ".join(sorted({row["auto"] or row["spec"] for row in rows})) or "none"
    elems = sum(row["elems"] for row in rows)
    total = sum(parameter.numel() for _, parameter in trained)
    kept = sum(row["elems"] for row in rows if row["feedback"])
    # Two float32 for each element: what is committed and what is staged.
    return (f"gradwire: {name}: {len(rows)} of {len(trained)} tensors, {elems:,} of {total:,} "
            f"elements as {specs}, the others exact; residuals take {8 * kept / 1e6:.1f} MB")


def attach(model, spec, *, name="model", exclude=(), min_numel=_MIN_NUMEL, scaler=None,
           settings=None):
    """Averages the gradients of a DistributedDataParallel model by gradwire. Collective.

    spec: "auto", "none", "bf16", "qsgd(bits=4)", "topk(0.01)", "powersgd(rank=4)", ...
    name: what tensors and state are called; another one for each model of a process.
    exclude: globs of parameter names that stay exact, as "*.bias".
    min_numel: tensors of fewer elements or one dimension stay exact; 0: none of them.
    scaler: the GradScaler of the loss, asked once a step; needed where gradients in float16 meet a
        codec with feedback (False: do without).
    settings: of the communicator, as {"nonfinite": "skip"} or text (docs/settings.md).
    """
    _check_group(model)
    point = rendezvous.MeetingPoint(model.process_group)
    _check_model(model)
    trained = parameters.trained(model)
    _check_parameters(trained)
    _check_router(model)
    if scaler and not scaler.is_enabled():
        scaler = None
    _end_open_steps_of(trained)
    comm = rendezvous.communicator(point, model.process_group, _with_defaults(settings, scaler))
    try:
        selection = parameters.Selection(exclude, min_numel)
        tensors = parameters.Tensors(comm, name, model, spec, selection)
        ledger = comm.ledger()
        _check_half(ledger, scaler)
        router = _make_router(model)
        if comm.rank == 0:
            print(_describe(name, ledger, trained), file=sys.stderr)
    except BaseException:
        with contextlib.suppress(gradwire.GradwireError):
            comm.close()
        raise
    router.handle = Handle(comm, model.process_group, tensors, name, scaler)
    _handles.add(router.handle)
    return router.handle
