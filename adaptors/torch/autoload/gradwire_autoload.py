"""Makes the backend "gradwire" known to torch.distributed.

Not a part of the package gradwire, which loads the library: torch runs autoload() at the end of
every `import torch`, where nothing may be slow and nothing may fail.
"""

_NAME = "gradwire"


def _create(*args):
    from gradwire.torch import backend  # pylint: disable=import-outside-toplevel
    return backend.create(*args)


def register():
    """For dist.init_process_group("cpu:gradwire") and new_group(backend="gradwire"), of tensors in
    host memory. Once; more often has no effect."""
    from torch import distributed as dist  # pylint: disable=import-outside-toplevel
    if dist.is_available() and not dist.is_backend_available(_NAME):
        dist.Backend.register_backend(_NAME, _create, extended_api=True, devices=["cpu"])


def autoload():
    """The entry point."""
    try:
        register()
    except Exception:  # pylint: disable=broad-except
        # torch would refuse to be imported. `import gradwire.torch` tells what is wrong.
        pass
