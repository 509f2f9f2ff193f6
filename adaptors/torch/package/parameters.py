"""Names of parameters, and which of them are compressed."""

import fnmatch

import torch

# The gradients that the library takes; others go through torch's own group.
DATA_TYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}
# What wrappers put into names, which would otherwise be other tensors' than without them.
_WRAPPERS = {"module", "_orig_mod", "_checkpoint_wrapped_module"}


def plain_name(name):
    """The parameter's name without those of wrappers."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


class Selection:
    """Which parameters travel exactly although the others are compressed."""

    def __init__(self, exclude, min_numel):
        self._globs = [exclude] if isinstance(exclude, str) else list(exclude)
        self._min_numel = min_numel

    def is_exact(self, name, parameter):
        small = parameter.numel() < self._min_numel or (self._min_numel > 0 and parameter.dim() < 2)
        return small or any(fnmatch.fnmatchcase(name, glob) for glob in self._globs)


def trained(ddp):
    """[(plain name, parameter)] of those that a DistributedDataParallel averages."""
    return [(plain_name(name), parameter) for name, parameter in ddp.module.named_parameters()
            if parameter.requires_grad and name not in ddp.parameters_to_ignore]


def register(comm, prefix, parameters, spec, selection):
    """Registers the parameters that the library takes: id of the parameter -> gradwire.Tensor."""
    tensors = {}
    for name, parameter in parameters:
        if parameter.dtype in DATA_TYPES:
            tensors[id(parameter)] = comm.tensor(
                f"{prefix}/{name}", tuple(parameter.shape), DATA_TYPES[parameter.dtype],
                "none" if selection.is_exact(name, parameter) else spec)
    return tensors
