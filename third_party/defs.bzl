"""Which optional dependencies this machine has."""

load("@local_cuda//:defs.bzl", _CUDA_FOUND = "CUDA_FOUND")
load("@local_mpich//:defs.bzl", _MPICH_FOUND = "FOUND")
load("@local_openmpi//:defs.bzl", _OPENMPI_FOUND = "FOUND")
load("@local_ucx//:defs.bzl", _UCX_FOUND = "FOUND")

CUDA_FOUND = _CUDA_FOUND
MPICH_FOUND = _MPICH_FOUND
OPENMPI_FOUND = _OPENMPI_FOUND
UCX_FOUND = _UCX_FOUND

def if_found(found, values):
    """`values` where the dependency was found, else an empty list.

    In a registry's BUILD:
        deps = [...] + if_found(UCX_FOUND, ["//transports/ucx"]),
        local_defines = if_found(UCX_FOUND, ["GRADWIRE_HAVE_UCX"]),
    """
    return values if found else []
