"""When operations are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`.

Inside of inference mode nothing is ever recorded, whatever the others say; they then only change
what `is_grad_enabled` answers, as in torch.
"""

from __future__ import annotations

from typing import Any

from .._core.builtin_functions import builtin
from .._core.signals import uninterrupted
from .._core.state import CUT, DUAL, GRAD, INFERENCE, MODES, SAYS_GRAD, next_sequence_nr
from .._engine.memory.derivative_stops import derivative_stop_bit
from .._engine.memory.tensor import Tensor
from ._decorators import DecoratorContext

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


@builtin
def is_grad_enabled() -> bool:
    """Return whether grad mode is on in this thread."""
    if MODES.bits & GRAD:
        return MODES.transposed is None or not _for_tangents_alone(MODES.transposed)
    return MODES.bits & (INFERENCE | SAYS_GRAD) == INFERENCE | SAYS_GRAD


def _for_tangents_alone(switches: list[int]) -> bool:
    """Return whether operations are recorded within `no_grad`: it keeps tangents, which a backward pass finds here."""
    return len(switches) % 2 == 1


def _note(mode: bool, switches: list[int]) -> None:
    """Remember, where operations are recorded in either mode, from which node on which one was on."""
    if mode == _for_tangents_alone(switches):
        switches.append(next_sequence_nr())


@builtin
def is_inference_mode_enabled() -> bool:
    """Return whether inference mode is on in this thread."""
    return bool(MODES.bits & INFERENCE)


def _switched(mode: bool) -> int:
    """`MODES.bits` with recording turned on or off."""
    bits = MODES.bits
    if bits & INFERENCE:
        return bits | SAYS_GRAD if mode else bits & ~SAYS_GRAD
    if MODES.transposed is not None and bits & GRAD:
        _note(mode, MODES.transposed)
        return bits
    if mode:
        return (bits | GRAD) & ~CUT
    return bits & ~GRAD | (derivative_stop_bit() if MODES.traced else 0)


def _switch(mode: bool) -> None:
    MODES.bits = _switched(mode)


def _flag(function: str, value: Any) -> bool:
    """A bool, or torch's complaint."""
    if not isinstance(value, bool):
        raise TypeError(f"{function}(): argument 'enabled' (position 1) must be bool, not {type(value).__name__}")
    return value


class _NoParamDecoratorContextManager(DecoratorContext):
    """Contexts that may be written without the call: ``@no_grad`` as well as ``@no_grad()``."""

    def __new__(cls, orig_func: Any = None) -> Any:
        self = object.__new__(cls)
        return self if orig_func is None else self(orig_func)


class _Recording:
    """Turns recording on or off for the time of a block."""

    mode = False
    """Whether operations are recorded inside."""
    prev = False
    """Whether they were before."""
    kept = 0
    """Bits of the modes as they were before."""

    def __enter__(self) -> None:
        self.prev, self.kept = is_grad_enabled(), MODES.bits & (CUT | GRAD)
        MODES.bits = _switched(self.mode)

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        bits = MODES.bits & ~CUT | self.kept & CUT
        if bits & INFERENCE:
            MODES.bits = bits | SAYS_GRAD if self.prev else bits & ~SAYS_GRAD
        else:
            MODES.bits = bits | GRAD if self.prev or self.kept & GRAD else bits & ~GRAD
        if MODES.transposed is not None and self.kept & GRAD:
            _note(self.prev, MODES.transposed)


class no_grad(_Recording, _NoParamDecoratorContextManager):
    """Nothing is recorded inside; usable with `with` and as a decorator.

    Example:
        >>> with no_grad():
        ...     is_grad_enabled()
        False
    """

    def __init__(self) -> None:
        self.prev = False


class enable_grad(_Recording, _NoParamDecoratorContextManager):
    """Operations are recorded inside, also within `no_grad`."""

    mode = True


class set_grad_enabled(_Recording, DecoratorContext):
    """Turn recording on or off: at once when called, until the end of the block with `with`.

    As a decorator it leaves the mode around the decorated function alone.
    """

    def __init__(self, mode: bool) -> None:
        self.mode = _flag("set_grad_enabled", mode)
        self.prev, self.kept = is_grad_enabled(), MODES.bits & (CUT | GRAD)
        MODES.bits = _switched(mode)

    def __call__(self, orig_func: Any) -> Any:
        self.__exit__()
        return super().__call__(orig_func)

    @uninterrupted
    def __enter__(self) -> None:
        try:
            _switch(self.mode)
        except BaseException:
            # A signal's, which comes after the mode was changed by making the object.
            self.__exit__()
            raise

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.{type(self).__name__}(mode={self.mode})"

    def clone(self) -> set_grad_enabled:
        """The same mode again."""
        out = object.__new__(type(self))  # the mode changes where its block begins
        out.mode, out.prev, out.kept = self.mode, is_grad_enabled(), MODES.bits & (CUT | GRAD)
        return out


_SWITCHED = GRAD | INFERENCE | SAYS_GRAD | DUAL | CUT
"""What inference mode changes."""


class inference_mode(DecoratorContext):
    """Nothing is recorded inside, and new tensors can never take part in recorded operations."""

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return object.__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._before: list[int] = []

    def __enter__(self) -> None:
        self._before.append(MODES.bits & _SWITCHED)
        if self.mode:  # tangents do not flow either
            MODES.bits = MODES.bits & ~_SWITCHED | INFERENCE | derivative_stop_bit()
        else:
            MODES.bits = MODES.bits & ~(INFERENCE | SAYS_GRAD | CUT) | GRAD

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.bits = MODES.bits & ~_SWITCHED | self._before[-1]
        del self._before[-1]

    def clone(self) -> inference_mode:
        """The same mode again."""
        return type(self)(self.mode)


class set_multithreading_enabled(DecoratorContext):
    """Whether a backward pass may use several threads; kept for scripts that ask, the walk uses one."""

    def __init__(self, mode: bool) -> None:
        self.prev = MODES.multithreading
        self.mode = MODES.multithreading = _flag("set_multithreading_enabled", mode)

    @uninterrupted
    def __enter__(self) -> None:
        MODES.multithreading = self.mode

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.multithreading = self.prev

    def clone(self) -> set_multithreading_enabled:
        """The same mode again."""
        out = object.__new__(type(self))
        out.mode, out.prev = self.mode, MODES.multithreading
        return out


class enforce_grad_layout_policy(DecoratorContext):
    """Whether gradients take the layout of their leaves: at once when called, until the end of the block with `with`.

    Without it a fresh gradient keeps the strides that it arrives with, which are those of a contiguous tensor, and no
    warning says that a gradient and its leaf are laid out differently.

    Args:
        enable: on or off.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.zeros(2, 3).t().requires_grad_()
        >>> with torch.autograd.enforce_grad_layout_policy(False):
        ...     x.sum().backward()
        >>> x.stride(), x.grad.stride()
        ((1, 3), (2, 1))
    """

    _is_clone = False

    def __init__(self, enable: bool = True) -> None:
        self.prev = MODES.grad_layout
        self.mode = MODES.grad_layout = _flag("set_grad_layout_enforcement_enabled", enable)

    def __call__(self, orig_func: Any) -> Any:
        MODES.grad_layout = self.prev
        return super().__call__(orig_func)

    @uninterrupted
    def __enter__(self) -> None:
        if self._is_clone:  # else constructing it did
            MODES.grad_layout = self.mode

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.grad_layout = self.prev

    def clone(self) -> enforce_grad_layout_policy:
        """The same policy again."""
        out = object.__new__(type(self))
        out.mode, out.prev, out._is_clone = self.mode, MODES.grad_layout, True
        return out


def is_multithreading_enabled() -> bool:
    """Return what `set_multithreading_enabled` last said."""
    return MODES.multithreading


class _unsafe_preserve_version_counter(DecoratorContext):
    """Hide writes to tensors inside from autograd: afterwards their versions are what they were.

    Args:
        tensors: a tensor, or a tuple of them.
    """

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tensors
        if not isinstance(self.tensors, tuple):
            raise AssertionError("Expected tensors to be a tuple")
        self.prev_versions = tuple(t._vc.version for t in self.tensors)

    def __enter__(self) -> None:
        """Nothing: the versions were read when it was made."""

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        for t, version in zip(self.tensors, self.prev_versions):
            t._vc.version = version
