"""torch.onnx: out of scope, and says so."""

from __future__ import annotations

from typing import Any

from .._core.errors import no_such_name as _no_such_name


def is_in_onnx_export() -> bool:
    """False: nothing is ever exported."""
    return False


def export(*args: Any, **kwargs: Any) -> Any:
    """Refused.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "torch.onnx.export: exporting to ONNX is out of scope of torchgrad_jax"
    )


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.onnx.{name}"))
