"""What torch's dispatcher offers to Python: modes and classes that see every operator. There is no dispatcher here."""

from __future__ import annotations

from typing import Any

from .._core.errors.absent import refusal


class TorchDispatchMode:
    """Refused when it is entered, so that files that define one can be imported.

    Raises:
        NotImplementedError: by `with`.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.__torch_dispatch__")

    def __enter__(self) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__}: a TorchDispatchMode cannot be entered: there is no dispatcher below autograd; "
            "torch.overrides.TorchFunctionMode sees calls of public functions"
        )

    def __exit__(self, *exc: object) -> None:
        return None


def is_traceable_wrapper_subclass(t: object) -> bool:
    """False: no tensor wraps others below autograd."""
    return False


return_and_correct_aliasing = refusal(
    "torch.utils._python_dispatch.return_and_correct_aliasing",
    "there is no dispatcher below autograd; derive __torch_function__",
    NotImplementedError,
)
