"""torch.distributed._composable: what changes a module in place, instead of putting another one around it."""

from ..._core.errors.messages import missing as _missing
from .checkpoint_activation import checkpoint as checkpoint
from .fsdp import fully_shard as fully_shard
from .replicate import replicate as replicate

__all__ = ["checkpoint", "fully_shard", "replicate"]

__getattr__ = _missing(__name__)
