"""gradwire for PyTorch: gradients of DistributedDataParallel, compressed.

    handle = gradwire.torch.attach(ddp_model, "auto")

and the backend "gradwire" of torch.distributed, which this import registers.
"""

import gradwire_autoload

from gradwire.torch.attaching import attach
from gradwire.torch.backend import backend_stats
from gradwire.torch.handle import Handle

gradwire_autoload.register()
