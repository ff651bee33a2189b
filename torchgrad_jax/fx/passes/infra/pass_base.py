"""A pass: a function from a module to a changed one."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """A module after a pass, and whether the pass changed it."""

    graph_module: Any
    modified: bool


class PassBase(abc.ABC):
    """A pass, with checks before and after it."""

    def __call__(self, graph_module: Any) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: Any) -> PassResult | None:
        """What the pass does."""

    def requires(self, graph_module: Any) -> None:  # noqa: B027 nothing to check unless overridden
        """Checks the module before the pass."""

    def ensures(self, graph_module: Any) -> None:  # noqa: B027
        """Checks the module after the pass."""
