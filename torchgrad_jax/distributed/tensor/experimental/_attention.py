"""torch.distributed.tensor.experimental._attention: the older name of what the package above shows."""

from __future__ import annotations

from ._context_parallel import (
    context_parallel as context_parallel,
    context_parallel_unshard as context_parallel_unshard,
    set_rotate_method as set_rotate_method,
)
