"""torch.utils._python_dispatch: what may be asked about subclasses of tensors; modes see calls elsewhere."""

from __future__ import annotations

from typing import Any

from .._core.errors import no_such_name as _no_such_name


class TorchDispatchMode:
    """Refused: operators run on XLA, below which nothing dispatches; `TorchFunctionMode` sees calls of functions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "TorchDispatchMode is not supported: there is no dispatcher below the functions of torch. Use "
            "torch.overrides.TorchFunctionMode, which sees the calls of functions"
        )


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether something is of a class that says how it is taken apart into tensors and put together."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def __getattr__(name: str) -> Any:
    raise AttributeError(_no_such_name(f"torch.utils._python_dispatch.{name}"))
