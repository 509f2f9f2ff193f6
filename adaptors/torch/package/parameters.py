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


def shared(ddp):
    """[(plain name, parameter)] of those that a DistributedDataParallel may average."""
    return [(plain_name(name), parameter) for name, parameter in ddp.module.named_parameters()
            if name not in ddp.parameters_to_ignore]


def trained(ddp):
    """Those of shared() that it averages if it was wrapped as the model is now."""
    return [(name, parameter) for name, parameter in shared(ddp) if parameter.requires_grad]


class Tensors:
    """The gradwire.Tensor of each parameter that the library takes."""

    def __init__(self, comm, prefix, ddp, spec, selection):
        self._comm = comm
        self._prefix = prefix
        self._spec = spec
        self._selection = selection
        self._names = {id(parameter): name for name, parameter in shared(ddp)}
        self._made = {}  # id of the parameter -> (parameter, its tensor)
        for _, parameter in trained(ddp):
            if parameter.dtype in DATA_TYPES:
                self.of(parameter)

    def of(self, parameter):
        """Registers it at its first use: torch goes on with what was frozen after wrapping."""
        if id(parameter) not in self._made:
            self._made[id(parameter)] = parameter, self._register(parameter)
        return self._made[id(parameter)][1]

    def _register(self, parameter):
        name = self._names[id(parameter)]
        is_exact = self._selection.is_exact(name, parameter)
        return self._comm.tensor(f"{self._prefix}/{name}", tuple(parameter.shape),
                                 DATA_TYPES[parameter.dtype], "none" if is_exact else self._spec)

    def flush(self):
        """From now on all are exact, and carry what was kept back."""
        self._spec = "none"
        for _, tensor in self._made.values():
            tensor.set_spec(self._spec)

    def reset(self):
        """Registers all of them again: nothing is kept back."""
        for key, (parameter, tensor) in self._made.items():
            tensor.deregister()
            self._made[key] = parameter, self._register(parameter)

    def has_any_of(self, parameters):
        return any(id(parameter) in self._made for parameter in parameters)
