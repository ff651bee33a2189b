"""torch.fx.passes.utils: finding parts of graphs."""

from __future__ import annotations

from . import matcher_utils as matcher_utils
