"""FSDP2's units: the parameters whose gradients it reduces together."""

import functools
import weakref

import torch
from torch.distributed.tensor import DTensor

import gradwire
from gradwire.torch.parameters import DATA_TYPES, early_update

# Of a unit with signsgd.
NOT_FOR_SIGNS = ("has signsgd, whose signs FSDP would divide after the average, as it does in float16 and "
                 "where set_gradient_divide_factor() or set_force_sum_reduction_for_comms() says so: "
                 "reduce_dtype=torch.float32 or bfloat16, without these")
_FREEZE_AS_A_WHOLE = ("freeze before attach(), or the module as a whole, and use each of its parameters "
                      "in each step")


def local(tensor):
    """This rank's part; it shares the memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _settle_types(group):
    # Before the first forward it has no attribute.
    types = {(param.orig_dtype, param.reduce_dtype) for param in group.fsdp_params
             if getattr(group, "_orig_dtype", group) is None}
    if len(types) == 1:
        (group._orig_dtype, group._reduce_dtype), = types


def _init_types(group):
    type(group())._init_mp_dtypes(group())
    _settle_types(group())


def keep_types_of_frozen(group):
    """Before 2.15 torch looks once, at the first forward, for the types in which a group is reduced,
    and finds none where all of it is frozen then: it would be reduced without the policy's casts."""
    if "_orig_dtype" in type(group).__annotations__:
        _settle_types(group)
        group._init_mp_dtypes = functools.partial(_init_types, weakref.ref(group))


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
        self._kept = None  # what waits for set_requires_all_reduce(True)

    def _trained(self):
        """None where the model is gone."""
        group = self._group()
        params = group.fsdp_params if group is not None else []
        return [p for p in params if p.sharded_param.requires_grad]

    def _which_train(self):
        """Whether each of its parameters does. A list of these themselves would keep the model."""
        return [p.sharded_param.requires_grad for p in self._group().fsdp_params]

    @functools.cached_property
    def _trained_at_first(self):
        """What numel and dtype, and what is kept back, are of."""
        return self._which_train()

    def _first_trained(self):
        return [p for p, trains in zip(self._group().fsdp_params, self._trained_at_first) if trains]

    @property
    def trains(self):
        """Whether it is not frozen as a whole; what numel and dtype, asked first, then go by."""
        return bool(self._trained())

    @functools.cached_property
    def numel(self):
        return sum(p.padded_sharded_param_size.numel() for p in self._first_trained())

    @property
    def sent_numel(self):
        """Of the tensor."""
        return self.numel

    @functools.cached_property
    def dtype(self):
        return functools.reduce(torch.promote_types, map(self._reduced_dtype, self._first_trained()))

    @staticmethod
    def _reduced_dtype(param):
        """Of what the hook gets; torch says so in the first backward, too late to load state."""
        policy = param.mp_policy
        # Since 2.15 gradients are reduced in the type that they accumulate in.
        accumulated = getattr(param, "sharded_grad_dtype", None)
        return (policy.reduce_dtype or accumulated or policy.param_dtype
                or param.sharded_param.dtype)

    def check_type(self):
        """Raises if the library does not take its gradients."""
        if self.dtype not in DATA_TYPES:
            raise gradwire.InvalidArgument(
                f"{self.name} has gradients of {self.dtype}, which the library does not take: shard "
                "with MixedPrecisionPolicy(reduce_dtype=torch.float32), or leave the model to torch")

    def check(self, output):
        """Raises if the hook got other gradients than those that were registered, or if what comes
        behind it would use them too early."""
        self.check_type()
        if (output.numel(), output.dtype) != (self.numel, self.dtype):
            raise gradwire.InvalidArgument(
                f"{self.name} has {output.numel()} gradients of {output.dtype} in this backward, "
                f"and had {self.numel} of {self.dtype} to train at first: {_FREEZE_AS_A_WHOLE}")
        if self._which_train() != self._trained_at_first:  # as many others
            raise gradwire.InvalidArgument(f"{self.name} has other parameters to train than at first: "
                                           f"{_FREEZE_AS_A_WHOLE}")
        if any(param.sharded_param._post_accumulate_grad_hooks for param in self._trained()):
            raise early_update(f"a parameter of {self.name}")

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

    @property
    def is_summed(self):
        """Over the replicas, as in torch's HSDP: FSDP then divides by a factor for all ranks."""
        return self._group().gradient_divide_factor is not None

    def forget(self):
        """Nothing waits any more."""
        self._kept = None

    def _divides(self, dtype):
        """Whether FSDP divides after the hook."""
        return (self._group().force_sum_reduction_for_comms
                or dtype not in (torch.float32, torch.bfloat16))

    def check_majority(self, output):
        """Raises if FSDP divides what the hook gives, and signs are not to be divided."""
        if self._divides(output.dtype) or self.is_summed:
            raise gradwire.InvalidArgument(f"{self.name} {NOT_FOR_SIGNS}")

    def takes_views_of(self, output):
        """Whether FSDP will take the gradients as views of the hook's tensor, and not read it.

        It copies what it casts or adds to earlier gradients, and divides other types than these
        after the hook.
        """
        return not self._divides(output.dtype) and all(
            param.sharded_param.grad is None
            and getattr(param, "sharded_grad_dtype", param.orig_dtype) == output.dtype
            for param in self._trained())

    def gradients(self):
        grads = (param.sharded_param.grad for param in self._trained())
        return [local(grad) for grad in grads if grad is not None]

    def fill(self, value):
        for gradient in self.gradients():
            gradient.fill_(value)


class ScatteredUnit(Unit):
    """Of a model that all ranks shard: its tensor has the gradients of all shards."""

    def __init__(self, module, group):
        super().__init__(module, group)
        self.name = module
        self._shard_count = group.mesh_info.shard_mesh_size

    @property
    def sent_numel(self):
        return self.numel * self._shard_count

    def takes_views_of(self, output):
        """Not where a hook that came after attach() reads it."""
        return self._group()._all_reduce_hook is None and super().takes_views_of(output)
