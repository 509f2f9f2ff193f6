"""gradwire: gradients made small for the network, summed by any all-reduce.

    comm = gradwire.Comm.from_environment()
    weights = comm.tensor("weights", grad.shape, spec="qsgd(bits=8)")
    comm.begin_step(step)
    request = weights.all_reduce(grad, op="avg")
    request.wait()
    comm.end_step()

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

__version__ = f"{GW_MAJOR}.{GW_MINOR}.{GW_PATCH}"
