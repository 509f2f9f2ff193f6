"""gradwire: compresses gradients for the network and sums them over all ranks.

    import gradwire

    with gradwire.Comm.from_environment() as comm:
        weights = comm.tensor("weights", grad.shape, spec="qsgd(bits=8)")
        for step in range(100):
            ...                                        # this rank's gradient, in the array grad
            comm.begin_step(step)
            weights.all_reduce(grad, op="avg").wait()  # now it is the average, in place
            if comm.end_step() is gradwire.Outcome.COMMITTED:
                ...                                    # update the weights

All ranks run it; `gradwire run -n 4 -- python program.py`, torchrun, mpirun or srun start them.
Arrays may be numpy's, torch's, of the standard library or whatever has DLPack; their elements are
in host memory. Errors are GradwireError, and tell what to do.

gradwire.torch.attach is the one line for DistributedDataParallel and FSDP2.
"""

from gradwire._bindings import GW_MAJOR, GW_MINOR, GW_PATCH
from gradwire.buffers import Pointer
from gradwire.comm import Comm, Outcome, unique_id
from gradwire.errors import (
    Aborted,
    DataCorrupt,
    GradwireError,
    InvalidArgument,
    InvalidUsage,
    Mismatch,
    NonFinite,
    PeerLost,
    Revoked,
    StartFailed,
    TimedOut,
)
from gradwire.request import Request
from gradwire.tensors import Group, Tensor

# What help(gradwire) tells of.
__all__ = [
    "Aborted", "Comm", "DataCorrupt", "GradwireError", "Group", "InvalidArgument", "InvalidUsage",
    "Mismatch", "NonFinite", "Outcome", "PeerLost", "Pointer", "Request", "Revoked", "StartFailed",
    "Tensor", "TimedOut", "unique_id",
]

__version__ = f"{GW_MAJOR}.{GW_MINOR}.{GW_PATCH}"
