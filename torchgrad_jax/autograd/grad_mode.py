"""When operations are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`.

Inside of inference mode nothing is ever recorded, whatever the others say; they then only change
what `is_grad_enabled` answers, as in torch.
"""

from __future__ import annotations

from typing import Any

from .._core.state import CUT, DUAL, GRAD, INFERENCE, MODES
from .._engine.cut import cutting
from .._engine.tensor import Tensor
from ._decorators import DecoratorContext

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
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
        MODES.bits = (MODES.bits | GRAD) & ~CUT
    else:
        MODES.bits = MODES.bits & ~GRAD | (cutting() if MODES.traced else 0)


def _back(mode: bool, cut: int) -> None:
    """Switch back to how it was before a block."""
    if MODES.bits & CUT != cut:
        MODES.bits ^= CUT
    if MODES.bits & INFERENCE:
        MODES.inference_grad = mode
    else:
        MODES.bits = MODES.bits | GRAD if mode else MODES.bits & ~GRAD


def _flag(function: str, value: Any) -> bool:
    """A bool, or torch's complaint."""
    if not isinstance(value, bool):
        raise TypeError(
            f"{function}(): argument 'enabled' (position 1) must be bool, not {type(value).__name__}"
        )
    return value


class _NoParamDecoratorContextManager(DecoratorContext):
    """Contexts that may be written without the call: ``@no_grad`` as well as ``@no_grad()``."""

    def __new__(cls, orig_func: Any = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)


class no_grad(_NoParamDecoratorContextManager):
    """Nothing is recorded inside; usable with `with` and as a decorator.

    Example:
        >>> with no_grad():
        ...     is_grad_enabled()
        False
    """

    cut = 0

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev, self.cut = is_grad_enabled(), MODES.bits & CUT
        _switch(False)

    def __exit__(self, *exc: object) -> None:
        _back(self.prev, self.cut)


class enable_grad(_NoParamDecoratorContextManager):
    """Operations are recorded inside, also within `no_grad`."""

    prev = False
    cut = 0

    def __enter__(self) -> None:
        self.prev, self.cut = is_grad_enabled(), MODES.bits & CUT
        _switch(True)

    def __exit__(self, *exc: object) -> None:
        _back(self.prev, self.cut)


class set_grad_enabled(DecoratorContext):
    """Turn recording on or off: at once when called, until the end of the block with `with`.

    As a decorator it leaves the mode around the decorated function alone.
    """

    def __init__(self, mode: bool) -> None:
        self.prev, self.cut = is_grad_enabled(), MODES.bits & CUT
        self.mode = _flag("set_grad_enabled", mode)
        _switch(mode)

    def __call__(self, orig_func: Any) -> Any:
        _back(self.prev, self.cut)
        return super().__call__(orig_func)

    def __enter__(self) -> None:
        _switch(self.mode)

    def __exit__(self, *exc: object) -> None:
        _back(self.prev, self.cut)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.{type(self).__name__}(mode={self.mode})"

    def clone(self) -> set_grad_enabled:
        """The same mode again."""
        before, cut = is_grad_enabled(), MODES.bits & CUT
        out = type(self)(self.mode)
        _back(before, cut)
        out.prev, out.cut = before, cut
        return out


_SWITCHED = GRAD | INFERENCE | DUAL | CUT
"""What inference mode changes."""


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
        self._before.append((MODES.bits & _SWITCHED, MODES.inference_grad))
        if self.mode:  # tangents do not flow either
            MODES.bits = MODES.bits & ~_SWITCHED | INFERENCE | cutting()
        else:
            MODES.bits = MODES.bits & ~(INFERENCE | CUT) | GRAD
        MODES.inference_grad = False

    def __exit__(self, *exc: object) -> None:
        bits, MODES.inference_grad = self._before.pop()
        MODES.bits = MODES.bits & ~_SWITCHED | bits

    def clone(self) -> inference_mode:
        """The same mode again."""
        return type(self)(self.mode)


class set_multithreading_enabled(DecoratorContext):
    """Whether a backward pass may use several threads; kept for scripts that ask, the walk uses one."""

    def __init__(self, mode: bool) -> None:
        self.prev = MODES.multithreading
        self.mode = MODES.multithreading = _flag("set_multithreading_enabled", mode)

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


class enforce_grad_layout_policy(DecoratorContext):
    """Whether gradients take the layout of their leaves: at once when called, until the end of the block with `with`.

    Without it a fresh gradient keeps the strides that it arrives with, and no warning says that a
    gradient and its leaf are laid out differently.

    Args:
        enable: on or off.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.zeros(2, 3, requires_grad=True)
        >>> with torch.autograd.enforce_grad_layout_policy(False):
        ...     x.t().backward(torch.ones(3, 2))
        >>> x.grad.stride()
        (1, 2)
    """

    def __init__(self, enable: bool = True) -> None:
        self.prev = MODES.grad_layout
        self.mode = MODES.grad_layout = _flag("set_grad_layout_enforcement_enabled", enable)

    def __call__(self, orig_func: Any) -> Any:
        MODES.grad_layout = self.prev
        return super().__call__(orig_func)

    def __enter__(self) -> None:
        """Nothing: constructing it did."""

    def __exit__(self, *exc: object) -> None:
        MODES.grad_layout = self.prev

    def clone(self) -> enforce_grad_layout_policy:
        """The same policy again."""
        return type(self)(self.mode)


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` last said."""
    return MODES.multithreading


class _force_original_view_tracking(DecoratorContext):
    """Whether a view whose base was written to gets a node named after the operation that made the view.

    Args:
        mode: True for that name; False for ``AsStridedBackward0``, the default.
    """

    def __init__(self, mode: bool) -> None:
        self.prev = MODES.view_replay
        self.mode = MODES.view_replay = _flag("set_view_replay_enabled", mode)

    def __enter__(self) -> None:
        """Nothing: constructing it did."""

    def __exit__(self, *exc: object) -> None:
        MODES.view_replay = self.prev

    def clone(self) -> _force_original_view_tracking:
        """The same mode again."""
        return type(self)(self.mode)


def is_view_replay_enabled() -> bool:
    """What `_force_original_view_tracking` last said."""
    return MODES.view_replay


class _unsafe_preserve_version_counter(DecoratorContext):
    """Hide writes to tensors inside from autograd: afterwards their versions are what they were.

    Args:
        tensors: a tensor, or a tuple of them.
    """

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tensors
        if not isinstance(self.tensors, tuple):
            raise AssertionError("Expected tensors to be a tuple")
        self.prev_versions = tuple(t._version for t in self.tensors)

    def __enter__(self) -> None:
        """Nothing: the versions were read when it was made."""

    def __exit__(self, *exc: object) -> None:
        for t, version in zip(self.tensors, self.prev_versions):
            t._vc.version = version
