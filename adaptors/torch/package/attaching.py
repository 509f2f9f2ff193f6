"""attach(): what all kinds of models have in common."""

import contextlib
import gc
import re
import sys
import warnings
import weakref

from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gradwire
from gradwire.torch import comm_settings, parameters, rendezvous
from gradwire.torch.ddp import DdpModel
from gradwire.torch.specs import Rules

# Tensors of fewer elements travel exactly: compressed they would save nothing. What `auto` takes it
# knows better: here nothing but parameters of one dimension is kept from it.
_MIN_NUMEL = 4096
_MIN_NUMEL_OF_AUTO = 1
# Beside what codecs keep, at the most: test_memory checks it.
_BUFFERS_MIB = 64

# By model: its hooks ask the router. Handles come and go.
_routers = weakref.WeakKeyDictionary()


def _is_sharded(model):
    # Who sharded it has imported that; to others half a second is not worth it.
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(model, fsdp.FSDPModule)


def _is_of_first_fsdp(model):
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return isinstance(model, getattr(fsdp, "FullyShardedDataParallel", ()))


def _wrapped(model, across):
    """Its WrappedModel."""
    if not isinstance(model, DistributedDataParallel) and not _is_sharded(model):
        remedy = "use fully_shard()" if _is_of_first_fsdp(model) else "wrap it first"
        raise TypeError("attach takes a model in DistributedDataParallel or with fully_shard(), "
                        f"not {type(model).__name__}: {remedy}")
    if not dist.is_initialized():
        raise RuntimeError("there is no process group: call torch.distributed.init_process_group, "
                           "and attach before it is destroyed")
    if _is_sharded(model):
        from gradwire.torch import fsdp2

        return (fsdp2.ShardedModel(model) if across is None
                else fsdp2.ReplicatedModel(model, across))
    return DdpModel(model, across)


def _check_router(model, wrapped):
    router = _routers.get(model)
    if router is not None and router.is_attached and not router.handle.abort_if_broken():
        raise RuntimeError("gradwire is attached to this model already: detach first, which takes "
                           "one more step, or close() the handle, which loses what was kept back")
    wrapped.check_hooks()


def _is_taken(name, trained):
    """Whether another model is attached under it; not so an earlier wrapping of the parameters."""
    mine = [parameter for _, parameter in trained]
    others = [router.handle for router in list(_routers.values())
              if router.is_attached and router.handle.name == name]
    return any(not other.sends(mine) and not other.abort_if_broken() for other in others)


def _check_name(name, trained):
    if not _is_taken(name, trained):
        return
    gc.collect()  # a model that nobody has any more may be in a cycle
    if _is_taken(name, trained):
        raise ValueError(f"another model is attached as '{name}', and their states would have the "
                         "same keys: give each model of a process a name=, or detach or close() the "
                         "other one")


def _check_arguments(name, scaler):
    """Before ranks join: what is wrong on one of them is told to all."""
    if not isinstance(name, str):
        raise TypeError(f'name= takes a text, as "model", not {name!r}')
    is_scaler = hasattr(scaler, "get_scale") and hasattr(scaler, "is_enabled")
    if not (scaler is None or scaler is False or is_scaler):
        raise TypeError("scaler= takes the GradScaler of the loss, and False to go without, not "
                        f"{scaler!r}")


def _default_min_numel(spec):
    return _MIN_NUMEL_OF_AUTO if re.match(r"\s*auto\b", spec) else _MIN_NUMEL


def _describe(name, spec, ledger, count, numel):
    """count, numel: tensors and their elements, those that the library does not take too."""
    rows = [row for row in ledger["tensors"] if row["spec"] != "none" or row["auto"]]
    may = "may " if any(row["auto"] for row in rows) else ""
    residuals, besides = (sum(row[field] for row in rows) / 1e6
                          for field in ("residual_bytes", "method_bytes"))
    return (f"gradwire: {name}: {_compressed(rows, spec, count, numel)}; residuals {may}take "
            f"{residuals:.1f} MB, codecs {may}keep {besides:.1f} MB besides, buffers take at most "
            f"{_BUFFERS_MIB} MiB")


def _compressed(rows, spec, count, numel):
    """rows: of the ledger, of what is compressed."""
    if rows:
        specs = ", ".join(sorted({row["auto"] or row["spec"] for row in rows}))
        elems = sum(row["elems"] for row in rows)
        return (f"{len(rows)} of {count} tensors, {elems:,} of {numel:,} elements as {specs}, the "
                "others exact")
    why = "" if spec.strip() == "none" else (
        f", nothing as {spec}: what exclude= leaves is too small (min_numel=), of one dimension, or "
        "of another type")
    return f"{count} tensors, {numel:,} elements, all exact{why}"


def attach(model, spec, *, across=None, name="model", exclude=(), min_numel=None,
           scaler=None, settings=None):
    """From the next backward on gradwire averages the gradients of a model; gives its Handle.

    All ranks of the model call it alike, in the thread that trains, between steps. Averages come
    where torch has gradients, in their type. Rank 0 says on standard error how many tensors are
    compressed, and the memory that this takes.

    model: in DistributedDataParallel, or with fully_shard() over the ranks of each replica; also
        within what torch.compile() gives. On the CPU.
    spec: "auto", "none", "bf16", "qsgd(bits=4)", "topk(0.01)", "powersgd(rank=4)", ...
    across: the mesh of the replicas, for fully_shard(): they become equal, and stay so. None: all
        ranks shard the model, and gradients are compressed on their way to their shards.
    name: what tensors and state are called; another one for each model of a process.
    exclude: globs of names that stay exact, as "*.bias": of parameters; of modules that were given
        to fully_shard(). One that matches nothing is warned of.
    min_numel: tensors of fewer elements stay exact, and parameters of one dimension. None: 4,096,
        and with "auto" what that leaves out. 0: what the spec itself leaves out, and nothing else.
    scaler: the GradScaler of the loss, asked once a step; needed where gradients in float16 meet a
        codec with feedback (False: do without). It also sets nonfinite=skip, unless that is set.
    settings: of the communicator, as {"nonfinite": "skip"} or text (docs/settings.md).

    Errors leave the model to torch's own group as before, and attach() may be called again.
    TypeError, ValueError, and RuntimeError without a process group, with gradients on a GPU or
    where gradwire is attached already: what to do is in the text. Of one rank they are a
    RuntimeError of the others, which has its words. gradwire.TimedOut: names the ranks that have
    not come within init_timeout_ms. gradwire.Mismatch: ranks differ in settings. gradwire.PeerLost:
    a rank, or torch's store, has gone meanwhile.
    """
    model = getattr(model, "_orig_mod", model)  # within what torch.compile() gives
    wrapped = _wrapped(model, across)
    limit = comm_settings.start_limit(settings)
    place, *others = [rendezvous.Place.of(group, limit) for group in wrapped.groups]
    with rendezvous.agreement(place, *others):
        _check_arguments(name, scaler)
        if scaler and not scaler.is_enabled():
            scaler = None
        rules = Rules(type(wrapped), scaler)
        rules.check(spec)
        selection = parameters.Selection(
            exclude, _default_min_numel(spec) if min_numel is None else min_numel)
        wrapped.check()
        parameters.check(wrapped.trained)
        _check_router(model, wrapped)
        settings = comm_settings.with_defaults(
            settings,
            # What the loss scaler skips, residuals must skip too.
            nonfinite="skip" if scaler else None,
            # As in torch's own all-reduces, and in the backend.
            op_timeout_ms=comm_settings.timeout_of(wrapped.groups[0]))
        wrapped.end_open_steps()
        _check_name(name, wrapped.trained)
    wrapped.make_equal([place, *others])
    comm = rendezvous.join(place, settings)
    try:
        with rendezvous.agreement(*(one.again() for one in (place, *others))):
            wrapped.join_others(others, settings)
            tensors = wrapped.tensors(comm, name, spec, selection)
            ledger = comm.ledger()
            rules.check_rows(ledger["tensors"])
        # On all ranks, and behind the agreement: filters may make one an error, which then is one of
        # all. Before the hooks, which stay.
        for text in [*wrapped.warnings(), *selection.warnings()]:
            warnings.warn(text, stacklevel=2)
        _routers[model] = router = wrapped.hook(_routers.get(model))
        if comm.rank == 0 and wrapped.speaks:
            print(_describe(name, spec, ledger, *wrapped.size), file=sys.stderr)
    except BaseException:
        with contextlib.suppress(gradwire.GradwireError):
            comm.close()
        wrapped.leave_others()
        raise
    handle = wrapped.handle(comm, tensors, name, scaler)
    handle.check_specs_by(rules)
    handle.number_ranks(dist.get_process_group_ranks(wrapped.groups[0]))
    router.handle = handle
    return handle
