"""Names of parameters, which of them are compressed, and where their gradients lie."""

import fnmatch
import numbers
from collections.abc import Iterable

import torch

import gradwire

# The gradients that the library takes.
DATA_TYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}
# Said of a parameter or module that others hold parts of: their steps would fail and skip apart.
TENSOR_PARALLEL = ("is tensor-parallel (parallelize_module), and a step is agreed on by the ranks "
                   "of one part only: go without, or average by the backend 'cpu:gradwire'")
# What wrappers put into names, which would otherwise be other tensors' than without them. Not
# `module`: DistributedDataParallel is asked for what it wraps, and a model may have a part of that
# name.
_WRAPPERS = {"_orig_mod", "_checkpoint_wrapped_module"}


def plain_name(name):
    """The parameter's or module's name without those of wrappers."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def _globs_in(exclude):
    globs = [exclude] if isinstance(exclude, str) else exclude
    globs = list(globs) if isinstance(globs, Iterable) else [None]
    if not all(isinstance(glob, str) for glob in globs):
        raise TypeError("exclude= takes globs of names, as [\"head.*\", \"*.norm.*\"], and () "
                        f"for none, not {exclude!r}")
    return globs


class Selection:
    """Which gradients travel exactly although the others are compressed."""

    def __init__(self, exclude, min_numel):
        self._globs = _globs_in(exclude)
        if not isinstance(min_numel, numbers.Real):
            raise TypeError(f"min_numel= takes a number of elements, as 4096, not {min_numel!r}")
        self._min_numel = min_numel
        self.idle_globs = list(self._globs)  # that no name asked for has matched

    def is_exact(self, name, numel):
        matched = [glob for glob in self._globs if fnmatch.fnmatchcase(name, glob)]
        self.idle_globs = [glob for glob in self.idle_globs if glob not in matched]
        return numel < self._min_numel or bool(matched)

    def warnings(self):
        """Of globs that no name asked for has matched; a list of texts."""
        if not self.idle_globs:
            return []
        return ["exclude= names nothing that is trained here with "
                f"{', '.join(map(repr, self.idle_globs))}"]

    def is_exact_parameter(self, name, parameter):
        """One dimension counts as no element: biases and scales are few and matter."""
        return self.is_exact(name, parameter.numel() if parameter.dim() > 1 else 0)


def pointer_to(tensor):
    """The elements of one without gaps, which the caller keeps."""
    return gradwire.Pointer(tensor.data_ptr(), tensor.numel(), DATA_TYPES[tensor.dtype])


def early_update(what):
    """The error for a parameter, or one of a unit's, with a hook that FSDP runs amid the step."""
    return gradwire.InvalidArgument(
        f"{what} has a hook (register_post_accumulate_grad_hook) that runs before the ranks have "
        "agreed on the step: an optimizer in it would keep the update of a step that fails. Step, and "
        "look at gradients, after backward")


def local_update(name):
    """The error for a parameter with a hook that DistributedDataParallel runs on what this rank has
    alone. Most of them are optimizers, which plain DistributedDataParallel does not stop either."""
    return gradwire.InvalidArgument(
        f"the parameter {name} has a hook (register_post_accumulate_grad_hook) that gets this rank's "
        "own gradient: an optimizer in it would let the ranks drift apart. Step after backward; to "
        "look at gradients there is register_hook")


# Why a device is refused, and what to do.
HOST_MEMORY_ONLY = ("and this build takes host memory only: train on the CPU, or leave the model to "
                    "torch's own process group")


def check(trained):
    """Of [(name, parameter)]: whether the library can average their gradients."""
    for name, parameter in trained:
        if parameter.is_complex():
            raise ValueError(f"the parameter {name} is complex: split it into two real ones")
        if parameter.is_meta:
            raise RuntimeError(f"the parameter {name} is on meta and has no values yet: "
                               "model.to_empty(device=\"cpu\"), and give it some, before attach()")
        if parameter.device.type != "cpu":
            raise RuntimeError(f"the parameter {name} is on {parameter.device}, {HOST_MEMORY_ONLY}")
        if hasattr(parameter, "_in_backward_optimizers"):
            raise ValueError(f"the parameter {name} has an optimizer in the backward pass, which "
                             "updates it before the ranks have agreed on the step: call "
                             "optimizer.step() after backward instead")
