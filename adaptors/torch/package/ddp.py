"""attach(): DistributedDataParallel's communication hook."""

import sys
import weakref

from torch import distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

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


def _check_model(model):
    if not isinstance(model, DistributedDataParallel):
        raise TypeError(f"attach takes a model in DistributedDataParallel, not "
                        f"{type(model).__name__}: wrap it first")
    if not dist.is_initialized():
        raise RuntimeError("there is no process group: call torch.distributed.init_process_group, "
                           "and attach before it is destroyed")
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


def _router_of(model):
    router = _routers.get(model)
    if router is None and model._comm_hooks:
        hook, _ = model._comm_hooks[0]
        raise ValueError(f"the model has the communication hook {hook.__qualname__} already, and "
                         "it takes only one: attach first")
    if router is not None and not router.is_free:
        raise RuntimeError("gradwire is attached to this model already: detach first, which takes "
                           "one more step")
    return router


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
    settings: of the communicator, as {"nonfinite": "skip"} (docs/settings.md).
    """
    _check_model(model)
    trained = parameters.trained(model)
    _check_parameters(trained)
    router = _router_of(model)
    # What the loss scaler skips, residuals must skip too.
    settings = {**({"nonfinite": "skip"} if scaler else {}), **(settings or {})}
    comm = rendezvous.communicator(model.process_group, settings)
    try:
        selection = parameters.Selection(exclude, min_numel)
        tensors = parameters.register(comm, name, trained, spec, selection)
        ledger = comm.ledger()
        _check_half(ledger, scaler)
    except ValueError:
        comm.close()
        raise
    if router is None:
        router = _routers[model] = _Router(model.process_group)
        model.register_comm_hook(router, gradwire_hook)
    if comm.rank == 0:
        print(_describe(name, ledger, trained), file=sys.stderr)
    router.handle = Handle(comm, model.process_group, tensors, name, scaler)
    return router.handle
