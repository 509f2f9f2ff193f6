"""gradwire for PyTorch: gradients of DistributedDataParallel and FSDP2, compressed.

    handle = gradwire.torch.attach(ddp_model, "auto")
    handle = gradwire.torch.attach(fsdp2_model, "qsgd(bits=8)", across=mesh["replicate"])

and the backend "gradwire" of torch.distributed, which this import registers.
"""

import gradwire_autoload

from gradwire.torch.attaching import attach
from gradwire.torch.backend import backend_stats
from gradwire.torch.handle import Handle

gradwire_autoload.register()
