"""When operations are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`.

Inside of inference mode nothing is ever recorded, whatever the others say; they then only change
what `is_grad_enabled` answers, as in torch.
"""

from __future__ import annotations

from typing import Any

from .._core.state import GRAD, INFERENCE, MODES
from ._decorators import DecoratorContext

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def is_grad_enabled() -> bool:
    """Whether grad mode is on in this thread."""
    return bool(MODES.bits & GRAD) or (MODES.inference_grad and bool(MODES.bits & INFERENCE))


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on in this thread."""
    return bool(MODES.bits & INFERENCE)


def _switch(mode: bool) -> None:
    if MODES.bits & INFERENCE:
        MODES.inference_grad = mode
    elif mode:
        MODES.bits |= GRAD
    else:
        MODES.bits &= ~GRAD


class _NoParameters(DecoratorContext):
    """Contexts that may be written without the call: ``@no_grad`` as well as ``@no_grad()``."""

    def __new__(cls, orig_func: Any = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)


class no_grad(_NoParameters):
    """Nothing is recorded inside; usable with `with` and as a decorator.

    Example:
        >>> with no_grad():
        ...     is_grad_enabled()
        False
    """

    def __init__(self, orig_func: Any = None) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = is_grad_enabled()
        _switch(False)

    def __exit__(self, *exc: object) -> None:
        _switch(self.prev)


class enable_grad(_NoParameters):
    """Operations are recorded inside, also within `no_grad`."""

    def __init__(self, orig_func: Any = None) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = is_grad_enabled()
        _switch(True)

    def __exit__(self, *exc: object) -> None:
        _switch(self.prev)


class set_grad_enabled(DecoratorContext):
    """Turn recording on or off: at once when called, until the end of the block with `with`.

    As a decorator it leaves the mode around the decorated function alone.
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self.prev = is_grad_enabled()
        self.mode = mode
        _switch(mode)

    def __call__(self, orig_func: Any) -> Any:
        _switch(self.prev)
        return super().__call__(orig_func)

    def __enter__(self) -> None:
        _switch(self.mode)

    def __exit__(self, *exc: object) -> None:
        _switch(self.prev)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.{type(self).__name__}(mode={self.mode})"

    def clone(self) -> set_grad_enabled:
        """The same mode again."""
        before = is_grad_enabled()
        out = type(self)(self.mode)
        _switch(before)
        out.prev = before
        return out


class inference_mode(DecoratorContext):
    """Nothing is recorded inside, and new tensors can never take part in recorded operations."""

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return object.__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._before: list[tuple[int, bool]] = []

    def __enter__(self) -> None:
        self._before.append((MODES.bits & (GRAD | INFERENCE), MODES.inference_grad))
        MODES.bits = MODES.bits & ~(GRAD | INFERENCE) | (INFERENCE if self.mode else GRAD)
        MODES.inference_grad = False

    def __exit__(self, *exc: object) -> None:
        bits, MODES.inference_grad = self._before.pop()
        MODES.bits = MODES.bits & ~(GRAD | INFERENCE) | bits

    def clone(self) -> inference_mode:
        """The same mode again."""
        return type(self)(self.mode)


class set_multithreading_enabled(DecoratorContext):
    """Whether a backward pass may use several threads; kept for scripts that ask, the walk uses one."""

    def __init__(self, mode: bool) -> None:
        self.prev = MODES.multithreading
        self.mode = mode
        MODES.multithreading = mode

    def __enter__(self) -> None:
        MODES.multithreading = self.mode

    def __exit__(self, *exc: object) -> None:
        MODES.multithreading = self.prev

    def clone(self) -> set_multithreading_enabled:
        """The same mode again."""
        before = MODES.multithreading
        out = type(self)(self.mode)
        out.prev = MODES.multithreading = before
        return out


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` last said."""
    return MODES.multithreading
