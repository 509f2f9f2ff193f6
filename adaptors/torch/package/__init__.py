"""gradwire for PyTorch: gradients of DistributedDataParallel, compressed.

    handle = gradwire.torch.attach(ddp_model, "auto")
"""

from gradwire.torch.ddp import attach
from gradwire.torch.handle import Handle
