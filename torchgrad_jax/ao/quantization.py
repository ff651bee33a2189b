"""torch.ao.quantization: out of scope (docs/non_goals.md); every function says so."""

from ..quantization import *  # noqa: F403
from ..quantization import __all__ as __all__, __getattr__ as __getattr__
