"""The settings that are compared, as "library:what"; needs no PyTorch."""

import argparse
import re

# Leaves each rank its own gradients: what a step takes without communication.
NOOP = "torch:noop_hook"
PLAIN = "torch:none"
BF16_HOOK = "torch:bf16_compress_hook"
POWERSGD_HOOK = "torch:powerSGD_hook(rank={})"
OURS = "gradwire:"
AUTO = OURS + "auto"
# PyTorch's users choose PowerSGD by themselves; here `auto` may.
AUTO_LOW_RANK = OURS + 'auto(lag=100,allow="powersgd(rank=1),powersgd(rank=4)")'

PYTORCH = (
    PLAIN, BF16_HOOK, POWERSGD_HOOK.format(1), POWERSGD_HOOK.format(4),
    "torch:quantization_pertensor_hook", "torch:quantization_perchannel_hook",
)  # fmt: skip
GRADWIRE = (
    OURS + "none", OURS + "bf16", OURS + "qsgd(bits=8,feedback=off)",
    OURS + "qsgd(bits=4,feedback=on)", OURS + "topk(0.01)", OURS + "powersgd(rank=1)",
    OURS + "powersgd(rank=4)", AUTO, AUTO_LOW_RANK,
)  # fmt: skip
ALL = PYTORCH + GRADWIRE


def given(text):
    """A setting as the command line has it; of gradwire's any spec, which the library looks at."""
    hook = re.fullmatch(r"torch:powerSGD_hook\(rank=\d+\)", text)
    if text in ALL or text == NOOP or hook or text.startswith(OURS):
        return text
    raise argparse.ArgumentTypeError(
        f"no setting '{text}'; there are {', '.join(ALL)}, and gradwire:SPEC of any spec")


def is_auto(setting):
    """Whether a controller chooses while it runs."""
    return setting.startswith(AUTO)


def plain_name(setting):
    """The setting in names of files and tensors."""
    return re.sub(r"[^\w.-]+", "_", setting).strip("_")
