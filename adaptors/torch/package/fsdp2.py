"""FSDP2: through the all-reduce hook where a model has replicas, each of them sharded; through a
reduce-scatter where all ranks shard it."""

import contextlib
import datetime
import functools
import re
import time
import warnings
import weakref

import torch
from torch import distributed as dist
from torch.autograd import Variable
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter
from torch.distributed.tensor import DTensor

import gradwire
from gradwire._bindings import gwResult_t
from gradwire.torch.handle import Handle, Router
from gradwire.torch.parameters import DATA_TYPES, TENSOR_PARALLEL, plain_name, pointer_to
from gradwire.torch.tensors import Description, Tensors

_RECIPE = ("shard with fully_shard(module, mesh=mesh['shard']) inside a node and pass "
           "across=mesh['replicate'] to attach")
# They want matrices; of a shard's flat gradient they would compress nothing.
_LOW_RANK = re.compile(r"\b(powersgd|acp)\b")

# So often a wait for other shards lets Python's signal handlers run.
_SLICE = datetime.timedelta(milliseconds=100)
# What a shard whose step failed waits for the others to hear of it.
_FAREWELL_S = 5.0


def _local(tensor):
    """This rank's part; it shares the memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class Unit:
    """What one call of fully_shard() made: parameters whose gradients FSDP reduces together.

    The gradients of this rank's shard are one flat tensor, that of the hook. The model is not kept.
    """

    def __init__(self, module, group):
        """module: its name. group: of torch, which calls the hook."""
        mesh = group.mesh_info
        self.module = module
        self.shard_rank = mesh.shard_mesh_rank
        self.shard = f"shard {mesh.shard_mesh_rank} of {mesh.shard_mesh_size}"
        self.shards = mesh.shard_process_group
        self.name = f"{module}@{self.shard}"
        self._group = weakref.ref(group)
        trained = self._trained()
        self.numel = sum(p.padded_sharded_param_size.numel() for p in trained)
        self.sent_numel = self.numel  # of the tensor
        self.dtype = self._reduced_dtype(trained[0])
        self._kept = None  # what waits for set_requires_all_reduce(True)

    def _trained(self):
        return [p for p in self._group().fsdp_params if p.sharded_param.requires_grad]

    @staticmethod
    def _reduced_dtype(param):
        """Of what the hook gets; torch says so in the first backward, too late to load state."""
        policy = param.mp_policy
        # Since 2.15 gradients are reduced in the type that they accumulate in.
        accumulated = getattr(param, "sharded_grad_dtype", None)
        return (policy.reduce_dtype or accumulated or policy.param_dtype
                or param.sharded_param.dtype)

    def check(self, output):
        """Raises if the hook got other gradients than those that were registered."""
        if (output.numel(), output.dtype) != (self.numel, self.dtype):
            raise ValueError(
                f"{self.name} has {output.numel()} gradients of {output.dtype} in this backward, "
                f"and had {self.numel} of {self.dtype} to train when gradwire was attached: freeze "
                "before that, and use each of its parameters in each step")

    def is_held_back(self, output):
        """With set_requires_all_reduce(False): then the gradients wait here, as in torch's HSDP."""
        if self._group().all_reduce_grads:
            if self._kept is not None:
                output += self._kept
                self._kept = None
            return False
        self._kept = output.clone() if self._kept is None else self._kept.add_(output)
        output.zero_()
        return True

    def forget(self):
        """Nothing waits any more."""
        self._kept = None

    def takes_views_of(self, output):
        """Whether FSDP will take the gradients as views of the hook's tensor, and not read it.

        It copies what it casts or adds to earlier gradients, and divides other types than these
        after the hook.
        """
        divides = (self._group().force_sum_reduction_for_comms
                   or output.dtype not in (torch.float32, torch.bfloat16))
        return not divides and all(
            param.sharded_param.grad is None
            and getattr(param, "sharded_grad_dtype", param.orig_dtype) == output.dtype
            and not getattr(param.sharded_param, "_post_accumulate_grad_hooks", None)
            for param in self._trained())

    def gradients(self):
        grads = (param.sharded_param.grad for param in self._trained())
        return [_local(grad) for grad in grads if grad is not None]


class ScatteredUnit(Unit):
    """Of a model that all ranks shard: its tensor has the gradients of all shards."""

    def __init__(self, module, group):
        super().__init__(module, group)
        self.name = module
        self.sent_numel = self.numel * group.mesh_info.shard_mesh_size


class _Firing:
    """A unit's gradients on their way."""

    def __init__(self, unit, output, request, is_late):
        self.unit = unit
        self.request = request
        self._output = output  # must stay until the request is complete
        self._is_late = is_late

    def fill(self, value):
        for gradient in self.unit.gradients():
            gradient.fill_(value)

    def deliver(self):
        """FSDP has the gradients; those that came late must lie where it looks."""
        place = self._output.untyped_storage().data_ptr()
        if self._is_late and any(gradient.untyped_storage().data_ptr() != place
                                 for gradient in self.unit.gradients()):
            raise RuntimeError(f"torch {torch.__version__} copies the gradients of "
                               f"{self.unit.name} too early for gradwire")


class Fsdp2Handle(Handle):
    """A step begins with the first unit's gradients, and ends after FSDP's own end of backward.

    FSDP cannot go on after a backward that failed midway, so what fails meanwhile is raised at the
    end of the step.
    """

    def __init__(self, comm, tensors, name, scaler):
        super().__init__(comm, tensors, name, scaler)
        self._end_of_step = None  # weak

    def _send(self, unit, output, submit):
        """submit(): the request whose result is in `output`, at the end of backward at the latest."""
        self._open_step()
        if any(sent.unit is unit for sent in self._sent):
            raise gradwire.InvalidUsage(
                gwResult_t.gwInvalidUsage,
                f"'{self._name}/{unit.name}' has gradients twice in one backward: shard the module "
                "together with the one that runs it")
        try:
            request = submit()
        except gradwire.GradwireError as error:
            self._error = self._error or error
            return
        is_late = unit.takes_views_of(output)
        self._sent.append(_Firing(unit, output, request, is_late))
        if not is_late:
            with self._waiting():
                self._wait_for(request)

    def _open_step(self):
        """Begins a step unless this backward has begun one."""
        if self._is_open and self._end_of_step() is not None:
            return
        if torch._C._current_graph_task_id() == -1:
            raise _finalized_by_hand()
        end = functools.partial(self._end)
        # The engine owns it: where a backward fails, it is dropped.
        Variable._execution_engine.queue_callback(end)
        self._end_of_step = weakref.ref(end)
        try:
            self._begin()
        except gradwire.GradwireError as error:
            self._error = error
        self._is_open = True  # also after an error: the end raises it


class ShardedHandle(Fsdp2Handle):
    """Of a model that all ranks shard."""

    def on_scatter(self, unit, output, gradients, op):
        """Reduces `gradients` of all ranks, of which `output` gets this rank's shard."""
        self._send(unit, output, lambda: self._comm.scatter(
            self._tensors.of(unit), pointer_to(gradients), pointer_to(output), op,
            keep=(gradients, output)))

    def detach(self):
        super().detach()
        if self._comm.world_size == 1:
            # FSDP reduces nothing over one rank, so no step will come that ends it.
            self.close()

    def _load_alike(self, places):
        """Tensors are padded to a multiple of the ranks, so those of another number are others."""
        return False


class ReplicatedHandle(Fsdp2Handle):
    """Of a model of several replicas."""

    def __init__(self, comm, tensors, name, scaler, unit):
        super().__init__(comm, tensors, name, scaler)
        self._shard = unit.shard
        self._shards = unit.shards

    def on_gradients(self, unit, output):
        """Averages over the replicas in place."""
        self._send(unit, output, lambda: self._submit_average(
            gradwire.Group([self._tensors.of(unit)], [pointer_to(output)]), output))

    def _outcome(self, sent):
        """What the shards of this replica agree on: the replicas of each have voted by themselves.

        A shard that committed what others did not has sent what it had kept back in vain, and keeps
        a rest of what is thrown away: it begins anew, as its replicas do.
        """
        try:
            mine = super()._outcome(sent)
        except gradwire.GradwireError:
            # Its own error matters more than whether the others hear of it.
            with contextlib.suppress(RuntimeError):
                self._worst_of_shards(gradwire.Outcome.ABORTED, _FAREWELL_S)
            raise
        outcome, shard = self._worst_of_shards(mine)
        if outcome is not mine and mine is gradwire.Outcome.COMMITTED:
            self._reset_tensors()
        if outcome is gradwire.Outcome.ABORTED:
            raise gradwire.Aborted(gwResult_t.gwAborted,
                                   f"the step failed in shard {shard} of this replica, whose error "
                                   "says why: run it again if that one can")
        if outcome is not mine:
            self._reason = f"shard {shard} of this replica had a NaN or an infinity in the step"
        return outcome

    def _worst_of_shards(self, mine, limit_s=float("inf")):
        """(outcome, number of a shard that has it)"""
        rank, size = dist.get_rank(self._shards), dist.get_world_size(self._shards)
        worst = torch.tensor(mine.value * size + rank)
        work = dist.all_reduce(worst, dist.ReduceOp.MAX, group=self._shards, async_op=True)
        _wait_in_slices(work, limit_s)
        outcome, shard = divmod(worst.item(), size)
        return gradwire.Outcome(outcome), shard

    def _place(self):
        return f"{super()._place()}@{self._shard.replace(' ', '')}"


def _wait_in_slices(work, limit_s):
    """At most as long as its process group does."""
    end = time.monotonic() + limit_s
    while True:
        try:
            work.wait(_SLICE)
            return
        except RuntimeError:
            # Its own, or that of the slice.
            if work.get_future().done() or time.monotonic() >= end:
                raise


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
        self._unit.check(output_tensor)
        if op not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            raise gradwire.InvalidUsage(
                gwResult_t.gwInvalidUsage,
                f"'{self._unit.name}' is reduced by {op}: gradwire sums and averages, so divide "
                "after backward instead of set_gradient_divide_factor()")
        name = "avg" if op == dist.ReduceOp.AVG else "sum"
        with self._router.handle.taking_part():
            self._router.handle.on_scatter(self._unit, output_tensor, input_tensor, name)
        return None


class _Router(Router):
    def route(self, unit, output):
        if not self.is_free:
            unit.check(output)
        if unit.is_held_back(output):
            return
        if self.is_free:
            # Before the sum, which in float16 may be too large.
            output /= dist.get_world_size(self.group)
            dist.all_reduce(output, group=self.group)
        else:
            with self.handle.taking_part():
                self.handle.on_gradients(unit, output)


def _finalized_by_hand():
    return gradwire.InvalidUsage(
        gwResult_t.gwInvalidUsage,
        "gradients come outside a backward, which ends the step: "
        "set_manual_backward_finalization(False), and set_is_last_backward for several backwards")


def _warn_of_ignored(trained, groups):
    # Modules have the one or the other, before and after a forward.
    sharded = {id(getattr(param, kind, None)) for group in groups for param in group.fsdp_params
               for kind in ("sharded_param", "_unsharded_param")}
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


def _param_group(name, module):
    """torch's group of the module's parameters; None: all of them are in groups of submodules."""
    try:
        return module._get_fsdp_state()._fsdp_param_group
    except AssertionError as error:
        raise ValueError(f"{name} has parameters in several meshes (shard_placement_fn), and torch "
                         "takes no hook for it: shard each kind by itself") from error


def _ranks_of_shards(name, mesh):
    """Those over which a unit is sharded, and nothing but sharded."""
    if mesh.replicate_mesh_dim is not None:
        raise ValueError(f"{name} is replicated by torch itself, whose all-reduce comes before "
                         f"gradwire: {_RECIPE}")
    return set(dist.get_process_group_ranks(mesh.shard_process_group))


def _check_whole(name, group):
    """That no parameter is a part of one before fully_shard() takes its shard."""
    if any(param.sharded_param.device_mesh.ndim > 1 for param in group.fsdp_params):
        raise ValueError(f"{name} {TENSOR_PARALLEL}")


class Fsdp2Model:
    """A model with fully_shard(), as attach() sees it."""

    make_unit = Unit
    specs = "qsgd, topk or auto"

    def __init__(self, model, spec):
        self._model = model
        self._spec = spec
        self.trained = [(plain_name(name), parameter)
                        for name, parameter in model.named_parameters() if parameter.requires_grad]
        self._units = []  # [(module, its unit)]

    def _shard_group(self):
        """[the first parameter's, which should be that of all]"""
        meshes = [parameter.device_mesh for parameter in self._model.parameters()
                  if isinstance(parameter, DTensor)]
        # check() refuses others.
        return [mesh.get_group() for mesh in meshes[:1] if mesh.ndim == 1]

    @property
    def size(self):
        """(tensors, elements)"""
        return len(self._units), sum(unit.sent_numel for _, unit in self._units)

    def check(self):
        found = _LOW_RANK.search(self._spec)
        if found:
            raise ValueError(f"{found[0]} is for matrices, and the gradients of a shard are flat: "
                             f"take {self.specs}")
        groups = self._groups()
        for name, group, _ in groups:
            if group.device.type != "cpu":
                # Also where the parameters wait in host memory (CPUOffloadPolicy).
                raise RuntimeError(f"{name} has its gradients on {group.device}, and this build "
                                   "takes host memory only")
        _warn_of_ignored(self.trained, [group for _, group, _ in groups])
        self._units = [(module, self.make_unit(name, group)) for name, group, module in groups
                       if any(p.sharded_param.requires_grad for p in group.fsdp_params)]
        for _, unit in self._units:
            if unit.dtype not in DATA_TYPES:
                raise ValueError(f"{unit.name} has gradients of {unit.dtype}, which the library "
                                 "does not take")
        if not self._units:
            raise ValueError("the model has no sharded parameter to train")
        if getattr(self._model._get_fsdp_state()._state_ctx, "manual_backward_finalization", False):
            raise _finalized_by_hand()

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

    def end_open_steps(self):
        """The next backward does."""

    def tensors(self, comm, prefix, spec, selection):
        def describe(unit):
            return Description(unit.name, (unit.sent_numel,), unit.dtype,
                               selection.is_exact(unit.module, unit.sent_numel))

        tensors = Tensors(comm, prefix, spec, describe)
        for _, unit in self._units:
            tensors.of(unit)
        return tensors


class ReplicatedModel(Fsdp2Model):
    """Sharded over some ranks; those of `across` have the same shard."""

    def __init__(self, model, spec, across):
        super().__init__(model, spec)
        self._across = _group_across(across)

    @property
    def groups(self):
        """Who takes part: the replicas, and the shards of this one."""
        return [self._across, *self._shard_group()]

    @property
    def speaks(self):
        """Whether its replicas tell what is compressed: those of other shards say the same."""
        return self._units[0][1].shard_rank == 0

    def _check_shards(self, name, ranks):
        shared = ranks & set(dist.get_process_group_ranks(self._across))
        if shared != {dist.get_rank()}:
            ranks = ", ".join(map(str, sorted(shared)))
            raise ValueError(f"{name} is sharded over the ranks {ranks}, which across= has too: "
                             f"{_RECIPE}")

    def check_hooks(self):
        for module, unit in self._units:
            if _param_group(unit.module, module)._all_reduce_hook is not None:
                raise ValueError(f"{unit.module} has an all-reduce hook already, and it takes only "
                                 "one: attach first")

    def make_equal(self):
        """The replicas begin equal, as DistributedDataParallel's do."""
        for _, module in _sharded_modules(self._model):
            module.reshard()
        first = dist.get_global_rank(self._across, 0)
        for parameter in self._model.parameters():
            dist.broadcast(_local(parameter.detach()), first, group=self._across)

    def hook(self, old):
        """A new router, and hooks of the units that ask it."""
        del old
        router = _Router(self._across)
        for module, unit in self._units:
            _forget_at_reset(_param_group(unit.module, module), unit)
            module.set_all_reduce_hook(functools.partial(router.route, unit))
        return router

    def handle(self, comm, tensors, name, scaler):
        return ReplicatedHandle(comm, tensors, name, scaler, self._units[0][1])


class ShardedModel(Fsdp2Model):
    """Sharded over all of its ranks."""

    make_unit = ScatteredUnit
    specs = "bf16, fp16, qsgd, efsign or topk(agreement=owners)"
    speaks = True

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

    def check_hooks(self):
        for module, unit in self._units:
            reduce_scatter = _param_group(unit.module, module)._reduce_scatter_comm
            if not type(reduce_scatter).__module__.startswith("torch."):
                raise ValueError(f"{unit.module} has a reduce-scatter of its own already, and it "
                                 "takes only one: attach first")

    def make_equal(self):
        """Each rank has other parameters."""

    def tensors(self, comm, prefix, spec, selection):
        tensors = super().tensors(comm, prefix, spec, selection)
        for row in comm.ledger()["tensors"]:
            if row["auto"] or (row["spec"] != "none" and row["scheme"] != "two_shot"):
                raise ValueError(f"{row['auto'] or row['spec']} is not for gradients that are "
                                 f"scattered to shards: take {self.specs}; or {_RECIPE}")
        return tensors

    def hook(self, old):
        """A new router, and reduce-scatters of the units that ask it."""
        del old
        router = Router(self.groups[0])
        for module, unit in self._units:
            module.set_custom_reduce_scatter(_Scatter(router, unit))
        return router

    def handle(self, comm, tensors, name, scaler):
        return ShardedHandle(comm, tensors, name, scaler)
