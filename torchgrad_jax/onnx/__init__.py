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


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Nothing to do: what is registered would serve `export` alone, which refuses."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Nothing to do: see `register_custom_op_symbolic`."""


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.onnx.{name}"))
