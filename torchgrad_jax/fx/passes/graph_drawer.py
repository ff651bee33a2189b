"""Pictures of graphs, which are not drawn."""

from __future__ import annotations

import importlib.util
from typing import Any

__all__ = ["FxGraphDrawer"]


class FxGraphDrawer:
    """Refused, with and without pydot: `print(graph)` shows the nodes.

    Raises:
        RuntimeError: pydot is not installed.
        NotImplementedError: it is.
    """

    def __init__(self, graph_module: Any, name: str, *args: Any, **options: Any) -> None:
        if importlib.util.find_spec("pydot") is None:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot through your favorite "
                "Python package manager."
            )
        raise NotImplementedError("FxGraphDrawer is not supported: print(graph) shows the nodes")
