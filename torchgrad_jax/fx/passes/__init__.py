"""torch.fx.passes: what can be done with a recorded graph."""

from __future__ import annotations

from ..._core.errors.messages import missing as _missing
from . import (
    graph_drawer as graph_drawer,
    infra as infra,
    shape_prop as shape_prop,
    split_module as split_module,
    utils as utils,
)

__getattr__ = _missing(__name__)
