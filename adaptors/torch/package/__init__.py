"""gradwire for PyTorch: gradients of DistributedDataParallel and FSDP2, compressed.

    from torch import distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import gradwire.torch

    dist.init_process_group("gloo")                  # in a program that torchrun has started
    model = DistributedDataParallel(network)
    handle = gradwire.torch.attach(model, "qsgd(bits=4,feedback=on)")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_of(model(inputs), targets).backward()   # gradients are averages over all ranks
        optimizer.step()
    print(handle.stats()["sent_bytes"])
    handle.close()                                   # all ranks

Of models with fully_shard() attach() takes replicas, each of them sharded, and models that all
ranks shard:

    handle = gradwire.torch.attach(model, "qsgd(bits=8)", across=mesh["replicate"])
    handle = gradwire.torch.attach(model, "qsgd(bits=8)")

Residuals differ between ranks, so each rank saves its own:

    torch.save({"model": ..., "gradwire": handle.state_dict()}, f"checkpoint-{rank}.pt")

For programs that call all_reduce themselves there is the backend "gradwire" of torch.distributed,
which `import torch` finds by itself, and this import registers where it may not. It is exact unless
GRADWIRE_COMPRESS in the environment names a spec:

    dist.init_process_group("cpu:gradwire")

Tensors are in host memory. Errors of a step are raised by backward() and are
gradwire.GradwireError: PeerLost, TimedOut, Aborted, Mismatch, NonFinite; their texts name the rank
and tell what to do. docs/pytorch.md has all of it.
"""

import gradwire_autoload

from gradwire.torch.attaching import attach
from gradwire.torch.backend import backend_stats
from gradwire.torch.handle import Handle

# What help(gradwire.torch) tells of.
__all__ = ["Handle", "attach", "backend_stats"]

gradwire_autoload.register()
