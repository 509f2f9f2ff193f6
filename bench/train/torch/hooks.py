"""What averages the gradients of a model in DistributedDataParallel, by the names in settings.py."""

import re

from torch.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    powerSGD_hook,
    quantization_hooks,
)
from torch.nn.parallel import DistributedDataParallel

import gradwire.torch
import settings

# The first that PyTorch admits with error feedback.
_FIRST_POWERSGD_STEP = 2
_STATELESS = {
    settings.NOOP: debugging_hooks.noop_hook,
    settings.BF16_HOOK: default_hooks.bf16_compress_hook,
    "torch:quantization_pertensor_hook": quantization_hooks.quantization_pertensor_hook,
    "torch:quantization_perchannel_hook": quantization_hooks.quantization_perchannel_hook,
}


# They start further collectives in callbacks, which with several buckets come in another order on
# each rank: Gloo then aborts or, where sizes agree, mixes them up.
_IN_ONE_BUCKET = ("torch:powerSGD_hook", "torch:quantization_")
_ABOVE_ANY_MODEL_MB = 1000


def wrap(network, setting):
    """In DistributedDataParallel, with its default buckets where the hook can have them."""
    if setting.startswith(_IN_ONE_BUCKET):
        return DistributedDataParallel(network, bucket_cap_mb=_ABOVE_ANY_MODEL_MB)
    return DistributedDataParallel(network)


def attach(model, setting, **options):
    """The gradwire handle, which alone takes options; None for PyTorch's own."""
    if setting.startswith(settings.OURS):
        return gradwire.torch.attach(model, setting.removeprefix(settings.OURS), **options)
    if setting in _STATELESS:
        model.register_comm_hook(None, _STATELESS[setting])
    elif powersgd := re.fullmatch(r"torch:powerSGD_hook\(rank=(\d+)\)", setting):
        state = powerSGD_hook.PowerSGDState(
            None, int(powersgd[1]), start_powerSGD_iter=_FIRST_POWERSGD_STEP
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif setting != settings.PLAIN:
        raise ValueError(f"no setting '{setting}'; there are {', '.join(settings.ALL)}")
    return None
