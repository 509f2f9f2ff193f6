"""FSDP2: through the all-reduce hook where a model has replicas, each of them sharded; through a
reduce-scatter where all ranks shard it."""

import functools
import hashlib
import itertools
import re
import warnings
import weakref

import torch
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultReduceScatter
from torch.distributed.tensor import DTensor

import gradwire
from gradwire.torch import rendezvous
from gradwire.torch.fsdp2_handles import ReplicatedHandle, ShardedHandle, finalized_by_hand
from gradwire.torch.fsdp2_shards import Shards, WatchedReduceScatter, unwatch, watch
from gradwire.torch.fsdp2_units import (
    NOT_FOR_SIGNS,
    ScatteredUnit,
    Unit,
    keep_types_of_frozen,
    local,
)
from gradwire.torch.parameters import HOST_MEMORY_ONLY, TENSOR_PARALLEL, early_update, plain_name
from gradwire.torch.routing import Router
from gradwire.torch.specs import is_majority
from gradwire.torch.tensors import Description, Tensors
from gradwire.torch.wrapped import WrappedModel

_RECIPE = ("shard with fully_shard(module, mesh=mesh['shard']) inside a node and pass "
           "across=mesh['replicate'] to attach")
# They want matrices; of a shard's flat gradient they would compress nothing.
_LOW_RANK = re.compile(r"\b(powersgd|acp)\b")


def _operation(unit, op):
    if op not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        raise gradwire.InvalidUsage(
            f"'{unit.name}' is reduced by {op}: gradwire sums and averages, so divide after backward "
            "instead of set_gradient_divide_factor()")
    return "avg" if op == dist.ReduceOp.AVG else "sum"


class _Scatter(ReduceScatter):
    """A unit's reduce-scatter, as FSDP calls it."""

    def __init__(self, router, unit):
        self._router = router
        self._unit = unit

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        if self._router.is_free:
            return dist.reduce_scatter_tensor(output_tensor, input_tensor, op, group, async_op)
        handle = self._router.handle
        with handle.refusing():
            self._unit.check(output_tensor)
            name = _operation(self._unit, op)
            handle.on_scatter(self._unit, output_tensor, input_tensor, name)
        return None


class _AllReduce:
    """A unit's all-reduce hook."""

    def __init__(self, router, unit):
        self._router = router
        self._unit = unit

    def __call__(self, output):
        self._router.route(self._unit, output)


class _Router(Router):
    def route(self, unit, output):
        if self.is_free:
            if not unit.is_held_back(output):
                self._all_reduce(unit, output)
            return
        with self.handle.refusing():
            unit.check(output)
            if not unit.is_held_back(output):
                self.handle.on_gradients(unit, output)

    def _all_reduce(self, unit, output):
        if not unit.is_summed:
            # Before the sum, which in float16 may be too large.
            output /= dist.get_world_size(self.group)
        dist.all_reduce(output, group=self.group)


def _warn_of_ignored(trained, groups):
    sharded = {id(param.sharded_param) for group in groups for param in group.fsdp_params}
    ignored = [name for name, parameter in trained if id(parameter) not in sharded]
    if ignored:
        warnings.warn(f"{', '.join(ignored)}: parameters that fully_shard() was told to ignore get "
                      "no average, neither of FSDP nor of gradwire: average their gradients over "
                      "all ranks yourself, or freeze them", stacklevel=4)


def _reset(group, unit):
    unit.forget()
    type(group())._reset_iter_state(group())


def _forget_at_reset(group, unit):
    """reset_iter_state(), since torch 2.15, discards what a group has accumulated."""
    if hasattr(group, "_reset_iter_state"):
        group._reset_iter_state = functools.partial(_reset, weakref.ref(group), unit)


def _first_difference(contents, group):
    """contents: of each rank of the group, a list of texts."""
    for texts in itertools.zip_longest(*contents, fillvalue="nothing more"):
        other = next((rank for rank, text in enumerate(texts) if text != texts[0]), None)
        if other is not None:
            first, second = (dist.get_global_rank(group, rank) for rank in (0, other))
            return (f"across= has ranks of other parts of the model: rank {first} has {texts[0]}, "
                    f"rank {second} {texts[other]}. {_RECIPE}")
    return ""


def _group_across(across):
    if isinstance(across, DeviceMesh) and across.ndim == 1:
        return across.get_group()
    if isinstance(across, dist.ProcessGroup):
        return across
    raise TypeError("across= takes the mesh of the replicas, of one dimension, or their process "
                    f"group, not {across!r}: {_RECIPE}")


def _sharded_modules(model):
    """[(plain name, module)]"""
    return [(plain_name(name) or "<root>", module) for name, module in model.named_modules()
            if isinstance(module, FSDPModule)]


def _param_groups(module):
    """torch's; before 2.15 there is one at most."""
    state = module._get_fsdp_state()
    if hasattr(state, "_fsdp_param_groups"):
        return state._fsdp_param_groups
    return [state._fsdp_param_group] if state._fsdp_param_group else []


def _param_group(name, module):
    """torch's group of the module's parameters; None: all of them are in groups of submodules."""
    groups = _param_groups(module)
    if len(groups) > 1:
        raise ValueError(f"{name} has parameters in several meshes (shard_placement_fn), and torch "
                         "takes no hook for it: shard each kind by itself")
    return groups[0] if groups else None


def _ranks_of_shards(name, mesh):
    """Those over which a unit is sharded, and nothing but sharded."""
    if mesh.replicate_mesh_dim is not None:
        raise ValueError(f"{name} is replicated by torch itself, whose all-reduce comes before "
                         f"gradwire: {_RECIPE}")
    return set(dist.get_process_group_ranks(mesh.shard_process_group))


def _is_distributed_over(parameter, across):
    """By somebody else, whom fully_shard() leaves it to: its replicas are no copies."""
    ranks = parameter.device_mesh.mesh.flatten().tolist() if isinstance(parameter, DTensor) else ()
    return len(set(ranks) & set(dist.get_process_group_ranks(across))) > 1


def _check_whole(name, group):
    """That no parameter is a part of one before fully_shard() takes its shard."""
    if any(param.sharded_param.device_mesh.ndim > 1 for param in group.fsdp_params):
        raise ValueError(f"{name} {TENSOR_PARALLEL}")


class Fsdp2Model(WrappedModel):
    """A model with fully_shard(). Steps that are open are ended by its next backward."""

    make_unit = Unit
    specs = "qsgd, topk or auto"

    def __init__(self, model):
        self._model = model
        # After an evaluation the root and what does not reshard are whole: the model then has other
        # parameters than those that train. Local, and without effect on what is sharded.
        for _, module in _sharded_modules(model):
            module.reshard()
        self.trained = [(plain_name(name), parameter)
                        for name, parameter in model.named_parameters() if parameter.requires_grad]
        self._units = []  # [(module, its unit)], also those where nothing trains yet

    def _shard_group(self):
        """[the first module's, which should be that of all]"""
        meshes = [group.mesh_info for _, module in _sharded_modules(self._model)
                  for group in _param_groups(module)]
        # check() refuses others.
        return [mesh.shard_process_group for mesh in meshes[:1] if mesh.replicate_mesh_dim is None]

    @property
    def size(self):
        trained = self._trained_units()
        return len(trained), sum(unit.sent_numel for unit in trained)

    def _trained_units(self):
        return [unit for _, unit in self._units if unit.trains]

    @classmethod
    def check_spec(cls, spec):
        found = _LOW_RANK.search(spec)
        if found:
            raise ValueError(f"{found[0]} is for matrices, and the gradients of a shard are flat: "
                             f"take {cls.specs}")

    def check(self):
        groups = self._groups()
        for name, group, _ in groups:
            if group.device.type != "cpu":
                # Also where the parameters wait in host memory (CPUOffloadPolicy).
                raise RuntimeError(f"{name} has its gradients on {group.device}, {HOST_MEMORY_ONLY}")
        for name, parameter in self.trained:
            if parameter._post_accumulate_grad_hooks:
                raise early_update(f"the parameter {name}")
        _warn_of_ignored(self.trained, [group for _, group, _ in groups])
        self._warn_of_replicas()
        self._units = [(module, self.make_unit(name, group)) for name, group, module in groups]
        for unit in self._trained_units():
            unit.check_type()
        if not self._trained_units():
            raise ValueError("the model has no sharded parameter to train")
        if getattr(self._model._get_fsdp_state()._state_ctx, "manual_backward_finalization", False):
            raise finalized_by_hand()

    def _warn_of_replicas(self):
        """Where there may be some that drift apart."""

    def check_hooks(self):
        """Those of an earlier attach(), with across= or without, may be there."""
        for module, unit in self._units:
            hook = _param_group(unit.module, module)._all_reduce_hook
            if hook is not None and not isinstance(hook, _AllReduce):
                raise ValueError(f"{unit.module} has an all-reduce hook already, and gradwire takes "
                                 "no other beside it: attach first")

    def hook(self, old):
        """A new router, and hooks of the units that ask it, in place of an earlier attach()'s."""
        del old
        router = self._make_router()
        for module, unit in self._units:
            group = _param_group(unit.module, module)
            module.set_all_reduce_hook(None)
            unwatch(module, group)
            if isinstance(group._reduce_scatter_comm, _Scatter):
                module.set_custom_reduce_scatter(DefaultReduceScatter())
            keep_types_of_frozen(group)
            self._hook_unit(module, unit, router)
        return router

    def _groups(self):
        """[(name, torch's group of parameters, a module of it)]"""
        found = {}  # several modules may have one group: name and module of the first
        for name, module in _sharded_modules(self._model):
            group = _param_group(name, module)
            if group is not None and group not in found:
                self._check_shards(name, _ranks_of_shards(name, group.mesh_info))
                _check_whole(name, group)
                found[group] = name, module
        return [(name, group, module) for group, (name, module) in found.items()]

    def tensors(self, comm, prefix, spec, selection):
        def describe(unit):
            return Description(unit.name, (unit.sent_numel,), unit.dtype,
                               selection.is_exact(unit.module, unit.sent_numel))

        tensors = Tensors(comm, prefix, spec, describe)
        for unit in self._trained_units():
            tensors.of(unit)
        return tensors


class ReplicatedModel(Fsdp2Model):
    """Sharded over some ranks; those of `across` have the same shard."""

    def __init__(self, model, across):
        super().__init__(model)
        self._across = _group_across(across)
        self._shards = None

    @property
    def groups(self):
        """The replicas, and the shards of this one."""
        return [self._across, *self._shard_group()]

    @property
    def speaks(self):
        """Those of other shards would say the same."""
        return self._units[0][1].shard_rank == 0

    def _check_shards(self, name, ranks):
        shared = ranks & set(dist.get_process_group_ranks(self._across))
        if shared != {dist.get_rank()}:
            ranks = ", ".join(map(str, sorted(shared)))
            raise ValueError(f"{name} is sharded over the ranks {ranks}, which across= has too: "
                             f"{_RECIPE}")

    def _parts(self):
        """[(name, this rank's part)] of the parameters that replicas have alike, in the order in which
        they are broadcast."""
        return [(plain_name(name), local(parameter.detach()))
                for name, parameter in self._model.named_parameters()
                if not _is_distributed_over(parameter, self._across)]

    def _contents(self):
        """What replicas have alike."""
        units = [f"{unit.name} ({unit.numel} of {unit.dtype})" for unit in self._trained_units()]
        return units + [f"{name} ({list(part.shape)} of {part.dtype})"
                        for name, part in self._parts()]

    def _check_contents(self):
        """Before a broadcast, which takes whatever comes: other ranks than the replicas may have
        parts of the same lengths."""
        mine = self._contents()
        digest = bytearray(hashlib.sha256("\n".join(mine).encode()).digest())
        digest = torch.frombuffer(digest, dtype=torch.uint8)
        digests = [torch.empty_like(digest) for _ in range(dist.get_world_size(self._across))]
        dist.all_gather(digests, digest, group=self._across)
        if all(torch.equal(digest, other) for other in digests):
            return
        contents = [None] * len(digests)
        dist.all_gather_object(contents, mine, group=self._across)
        raise ValueError(_first_difference(contents, self._across))

    def make_equal(self, places):
        """The replicas begin equal, as DistributedDataParallel's do."""
        with rendezvous.agreement(*(place.again() for place in places)):
            self._check_contents()
        first = dist.get_global_rank(self._across, 0)
        for _, part in self._parts():
            dist.broadcast(part, first, group=self._across)

    def join_others(self, places, settings):
        self._shards = Shards.join(*places, settings, self._units[0][1].shards)

    def leave_others(self):
        if self._shards:
            self._shards.discard()

    @classmethod
    def check_rows(cls, rows):
        for row in rows:
            if is_majority(row) and row["datatype"] == "half":
                raise ValueError(f"{row['name']} {NOT_FOR_SIGNS}")

    def _make_router(self):
        return _Router(self._across)

    def _hook_unit(self, module, unit, router):
        group = _param_group(unit.module, module)
        _forget_at_reset(group, unit)
        module.set_all_reduce_hook(_AllReduce(router, unit))
        watch(module, group, router)

    def handle(self, comm, tensors, name, scaler):
        return ReplicatedHandle(comm, tensors, name, scaler, self._units[0][1].shard, self._shards)


class ShardedModel(Fsdp2Model):
    """Sharded over all of its ranks."""

    make_unit = ScatteredUnit
    specs = "bf16, fp16, qsgd, efsign or topk(agreement=owners)"

    @property
    def groups(self):
        groups = self._shard_group()
        if not groups:
            raise ValueError("the model has no parameter that fully_shard() sharded over one mesh "
                             f"dimension: {_RECIPE}, or shard over all ranks")
        return groups

    def _check_shards(self, name, ranks):
        first = set(dist.get_process_group_ranks(self.groups[0]))
        if ranks != first:
            raise ValueError(f"{name} is sharded over the ranks {sorted(ranks)}, other modules over "
                             f"{sorted(first)}: shard all over the same, or pass across=")

    def _warn_of_replicas(self):
        # The others may have models of their own, as the stages of a pipeline do.
        ranks = dist.get_process_group_ranks(self.groups[0])
        if len(ranks) < dist.get_world_size():
            warnings.warn(f"{len(ranks)} of the job's {dist.get_world_size()} ranks shard the model "
                          f"({', '.join(map(str, ranks))}), and gradients are averaged over these "
                          "only: where other ranks have replicas of it, which would drift apart, "
                          "pass across=, the mesh of the replicas", stacklevel=4)

    def check_hooks(self):
        super().check_hooks()
        for module, unit in self._units:
            scatter = type(_param_group(unit.module, module)._reduce_scatter_comm)
            is_ours = issubclass(scatter, (_Scatter, WatchedReduceScatter))
            if not is_ours and not scatter.__module__.startswith("torch."):
                raise ValueError(f"{unit.module} has a reduce-scatter of its own already, and it "
                                 "takes only one: attach first")

    @classmethod
    def check_rows(cls, rows):
        for row in rows:
            if row["auto"] or (row["spec"] != "none" and row["scheme"] != "two_shot"):
                raise ValueError(f"{row['auto'] or row['spec']} is not for gradients that are "
                                 f"scattered to shards: take {cls.specs}; or {_RECIPE}")

    def _make_router(self):
        return Router(self.groups[0])

    def _hook_unit(self, module, unit, router):
        module.set_custom_reduce_scatter(_Scatter(router, unit))

    def handle(self, comm, tensors, name, scaler):
        return ShardedHandle(comm, tensors, name, scaler)
