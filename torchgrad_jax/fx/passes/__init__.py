"""torch.fx.passes: what can be done with a recorded graph."""

from __future__ import annotations

from typing import Any

from ..._core.errors.messages import no_such_name as _no_such_name
from . import (
    graph_drawer as graph_drawer,
    infra as infra,
    shape_prop as shape_prop,
    split_module as split_module,
    utils as utils,
)


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.fx.passes.{name}"))
