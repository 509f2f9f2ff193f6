"""attach(): what all kinds of models have in common."""

import contextlib
import sys
import weakref

from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire.torch import parameters, rendezvous
from gradwire.torch.ddp import DdpModel

# Tensors of fewer elements travel exactly: compressed they would save nothing.
_MIN_NUMEL = 4096

# By model. Its hooks ask the router for life; handles come and go.
_routers = weakref.WeakKeyDictionary()


def _wrapped(model):
    """What gradwire needs to know of the model."""
    if not isinstance(model, DistributedDataParallel):
        raise TypeError(f"attach takes a model in DistributedDataParallel, not "
                        f"{type(model).__name__}: wrap it first")
    if not dist.is_initialized():
        raise RuntimeError("there is no process group: call torch.distributed.init_process_group, "
                           "and attach before it is destroyed")
    return DdpModel(model)


def _check_router(model, wrapped):
    router = _routers.get(model)
    if router is None:
        wrapped.check_hooks()
    elif not router.is_free:
        raise RuntimeError("gradwire is attached to this model already: detach first, which takes "
                           "one more step")


def _router_of(model, wrapped):
    if model not in _routers:
        _routers[model] = wrapped.hook()
    return _routers[model]


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


def _describe(name, ledger, count, numel):
    """count, numel: tensors and their elements, those that the library does not take too."""
    rows = [row for row in ledger["tensors"] if row["spec"] != "none" or row["auto"]]
    specs = ", ".join(sorted({row["auto"] or row["spec"] for row in rows})) or "none"
    elems = sum(row["elems"] for row in rows)
    kept = sum(row["elems"] for row in rows if row["feedback"])
    # Two float32 for each element: what is committed and what is staged.
    return (f"gradwire: {name}: {len(rows)} of {count} tensors, {elems:,} of {numel:,} "
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
    wrapped = _wrapped(model)
    point = rendezvous.MeetingPoint(wrapped.group)
    wrapped.check()
    parameters.check(wrapped.trained)
    _check_router(model, wrapped)
    if scaler and not scaler.is_enabled():
        scaler = None
    wrapped.prepare()
    comm = rendezvous.communicator(point, wrapped.group, _with_defaults(settings, scaler))
    try:
        tensors = wrapped.tensors(comm, name, spec, parameters.Selection(exclude, min_numel))
        ledger = comm.ledger()
        _check_half(ledger, scaler)
        router = _router_of(model, wrapped)
        if comm.rank == 0:
            print(_describe(name, ledger, *wrapped.size), file=sys.stderr)
    except BaseException:
        with contextlib.suppress(gradwire.GradwireError):
            comm.close()
        raise
    router.handle = wrapped.handle(comm, tensors, name, scaler)
    return router.handle
