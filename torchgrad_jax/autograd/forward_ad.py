"""Forward-mode automatic differentiation with dual numbers, as in torch.autograd.forward_ad."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from .._core.arrays import dtypes
from .._core.signals import restore, uninterrupted
from .._core.state import DUAL, INFERENCE, MODES, Modes
from .._engine.entry.bind import ops
from .._engine.memory.tensor import Tensor
from .._engine.overrides.looking import public as overridable
from .._engine.tensor.dual import close_level, forward_grad, has_place_of, laid_out_as, set_tangent, tangent_of
from ._decorators import DecoratorContext

_current_level = -1


class UnpackedDualTensor(namedtuple("UnpackedDualTensor", ["primal", "tangent"])):
    """The parts of a dual tensor: ``primal``, and ``tangent`` or None.

    Example:
        >>> UnpackedDualTensor(1, None).tangent is None
        True
    """

    __slots__ = ()


def enter_dual_level() -> int:
    """Open a forward-mode level; see `dual_level`."""
    return dual_level().__enter__()


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the open level; its tangents are gone."""
    if level is not None and level != MODES.dual_level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    dual_level().__exit__()


class dual_level(DecoratorContext):
    """The level within which dual tensors carry tangents.

    Levels are the process's, as in torch: threads that start, and those that set no mode yet, see them.

    Example:
        >>> with dual_level():
        ...     pass
    """

    def __enter__(self) -> int:
        global _current_level
        if MODES.dual_level >= 0:
            raise RuntimeError("Nested forward mode AD is not supported at the moment")
        own = MODES.bits | DUAL
        _current_level = Modes.dual_level = 0
        Modes.bits |= DUAL
        MODES.bits = own
        return 0

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        global _current_level
        if MODES.dual_level < 0:
            raise RuntimeError("Dual level must be a positive number.")
        own = MODES.bits & ~DUAL
        _current_level = Modes.dual_level = -1
        Modes.bits &= ~DUAL
        MODES.bits = own
        restore(close_level)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of `tensor` that carries `tangent`.

    Args:
        tensor: the primal, floating point or complex.
        tangent: a tensor of the same shape.
        level: the open level; None means the current one.

    Returns:
        A dual tensor.

    Raises:
        RuntimeError: outside of a dual level, or when the parts do not fit together.
    """
    return _make_dual(tensor, tangent, level=MODES.dual_level if level is None else level)


@overridable("autograd.forward_ad")
def _make_dual(tensor: Tensor, tangent: Tensor, *, level: int) -> Tensor:
    """`make_dual` at a level; a class that overrides functions is asked about this one, as in torch."""
    if level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for value, name in ((tensor, "primal"), (tangent, "tangent")):
        if not isinstance(value, Tensor):
            raise AttributeError(f"'{type(value).__name__}' object has no attribute 'is_floating_point'")
        if value._m.dtype.category < dtypes.FLOATING:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {value._m.dtype}")
    if level != MODES.dual_level:
        raise RuntimeError("Invalid level given to _make_dual")
    if MODES.bits & INFERENCE or all(t._x is not None and t._x.inference for t in (tensor, tangent)):
        return ops._make_dual(tensor)  # autograd does not see the call
    if tensor._m.shape != tangent._m.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
            f"not supported. Tensor is of size {list(tensor._m.shape)} while the given forward gradient is of size "
            f"{list(tangent._m.shape)}."
        )
    if tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level "
            f"{level} is not supported."
        )
    if tangent_of(tangent) is not None:
        raise RuntimeError(
            f"Setting a forward grad that itself has a forward gradient at the same level{level} is not supported."
        )
    bits = MODES.bits
    MODES.bits = bits & ~DUAL
    try:
        dual = ops._make_dual(tensor)
        carried = tangent if has_place_of(tangent, tensor) else laid_out_as(tangent, tensor)
    finally:
        MODES.bits = bits
    set_tangent(dual, carried)
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent (None when there is none, or no open level)."""
    level = MODES.dual_level if level is None else level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type(tensor).__name__}")
    return UnpackedDualTensor(*_unpack_dual(tensor, level=level))


@overridable("autograd.forward_ad")
def _unpack_dual(tensor: Tensor, *, level: int) -> tuple[Tensor, Tensor | None]:
    """`unpack_dual` at an open level; a class that overrides functions is asked about this one, as in torch."""
    seen = MODES.forward_grad and not MODES.bits & INFERENCE
    tangent = tangent_of(tensor) if seen else None
    if level != MODES.dual_level and tangent is not None:
        raise RuntimeError("Invalid level given to _fw_primal")
    bits = MODES.bits
    MODES.bits = bits & ~DUAL
    try:
        primal = ops._fw_primal(tensor)
    finally:
        MODES.bits = bits
    set_tangent(primal, None)
    return primal, tangent


class _set_fwd_grad_enabled(DecoratorContext):
    """Turn the propagation of tangents on or off; views of dual tensors have tangents either way."""

    def __init__(self, mode: bool) -> None:
        self.prev = MODES.forward_grad
        self.mode = MODES.forward_grad = forward_grad(mode)

    @uninterrupted
    def __enter__(self) -> None:
        try:
            MODES.forward_grad = forward_grad(self.mode)
        except BaseException:
            # A signal's, which comes after the mode was changed by making the object.
            MODES.forward_grad = self.prev
            raise

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.forward_grad = self.prev

    def clone(self) -> Any:
        """A fresh one for each call of a decorated function."""
        out = object.__new__(type(self))
        out.mode, out.prev = self.mode, self.prev
        MODES.forward_grad = self.prev
        return out


def _is_fwd_grad_enabled() -> bool:
    return MODES.forward_grad


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
