"""torch.distributed.algorithms.ddp_comm_hooks: other ways to reduce the gradients of DistributedDataParallel."""

from . import (
    debugging_hooks as debugging_hooks,
    default_hooks as default_hooks,
    post_localSGD_hook as post_localSGD_hook,
    powerSGD_hook as powerSGD_hook,
)
