"""torch.distributed._tensor: the older name of torch.distributed.tensor."""

from __future__ import annotations

import sys
from typing import Any

from .. import device_mesh, tensor as _tensor

sys.modules[f"{__name__}.device_mesh"] = device_mesh


def __getattr__(name: str) -> Any:
    return getattr(_tensor, name)
