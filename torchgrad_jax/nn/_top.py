"""The functions of the top level, for modules that are composed of them."""

from __future__ import annotations

from typing import Any

from .._engine.entry.bind import NAMESPACES


class _Top:
    """``torch.cat`` and so on, without importing the package that is being assembled."""

    def __getattr__(self, name: str) -> Any:
        try:
            fn = NAMESPACES[""][name]
        except KeyError:
            raise AttributeError(f"torchgrad_jax does not implement torch.{name}") from None
        setattr(self, name, fn)
        return fn


torch: Any = _Top()
