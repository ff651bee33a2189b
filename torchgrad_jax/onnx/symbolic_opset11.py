"""What torch's exporter to ONNX calls. Nothing is exported here, and each name refuses."""

from __future__ import annotations

from typing import Any

from .._core.errors import no_such_name as _no_such_name


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.onnx.symbolic_opset11.{name}"))
