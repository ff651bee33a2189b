"""What torch's dispatcher offers to Python: modes and classes that see every operator. There is no dispatcher here."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

_WHY = "there is no dispatcher below autograd; torch.overrides.TorchFunctionMode sees calls of public functions"


class TorchDispatchMode:
    """Refused when it is entered, so that files that define one can be imported.

    Raises:
        NotImplementedError: by `with`.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.__torch_dispatch__")

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: a TorchDispatchMode cannot be entered: {_WHY}")

    def __exit__(self, *exc: object) -> None:
        return None

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance, as in older programs."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""


def is_traceable_wrapper_subclass(t: object) -> bool:
    """False: no tensor wraps others below autograd."""
    return False


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """False."""
    return False


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """False: none can be entered."""
    return False


def _get_current_dispatch_mode() -> None:
    """None: none can be entered."""


def _get_current_dispatch_mode_stack() -> list[Any]:
    """No modes."""
    return []


@contextlib.contextmanager
def _disable_current_modes() -> Generator[list[Any], None, None]:
    """There are none to disable."""
    yield []


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Part of a `__torch_dispatch__`, which is never called."""
    raise NotImplementedError(f"return_and_correct_aliasing(): {_WHY}")
