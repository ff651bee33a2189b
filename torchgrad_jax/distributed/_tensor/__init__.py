"""torch.distributed._tensor: the older name of torch.distributed.tensor."""

from __future__ import annotations

import sys
from typing import Any

from .. import device_mesh, tensor as _tensor
from ..tensor import placement_types

for _module in (device_mesh, placement_types):
    sys.modules[f"{__name__}.{_module.__name__.rpartition('.')[2]}"] = _module


def __getattr__(name: str) -> Any:
    return getattr(_tensor, name)
