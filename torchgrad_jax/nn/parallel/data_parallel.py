"""torch.nn.parallel.data_parallel: refused, see torch.nn.parallel."""

from __future__ import annotations

from . import DataParallel as DataParallel, data_parallel as data_parallel

__all__ = ["DataParallel", "data_parallel"]
