"""Sizes as expressions, which no tensor here has, and control flow as functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.out_of_memory import OutOfMemoryError as OutOfMemoryError
from .._core.errors.checks import fail_if
from .._core.state import MODES
from .._engine.entry.bind import NAMESPACES
from .._engine.graph.deferred import later
from .._engine.memory.tensor import Tensor
from .._engine.overrides.asking import dispatch, overloaded
from .arguments import register


class _Symbol:
    """A number that stands for a size not yet known. There is none: programs ask with `isinstance`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{cls.__name__} is not supported: all sizes are numbers here")


class SymInt(_Symbol):
    """An integer that is not yet known."""


class SymFloat(_Symbol):
    """A floating-point number that is not yet known."""


class SymBool(_Symbol):
    """A truth value that is not yet known."""


class AcceleratorError(RuntimeError):
    """An error of the device."""


for _kind in (SymInt, SymFloat, SymBool, AcceleratorError):
    _kind.__module__ = "torch"


def sym_int(a: Any) -> int:
    """`int`, towards zero."""
    return int(a)


def sym_float(a: Any) -> float:
    """`float`."""
    return float(a)


def sym_not(a: Any) -> Any:
    """`not`."""
    return ~a if hasattr(a, "__sym_not__") else not a


def _larger(a: Any, b: Any, pick: Callable[..., Any]) -> Any:
    for v in (a, b):
        if not isinstance(v, int | float | np.integer | np.floating):
            kinds = (np.integer, np.floating, int, float)
            raise AssertionError(f"expected {kinds}, got {type(v)}")
    found = pick(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_max(a: Any, b: Any) -> Any:
    """The larger number, floating where either is."""
    return _larger(a, b, max)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, floating where either is."""
    return _larger(a, b, min)


def sym_sqrt(a: Any) -> float:
    """The square root."""
    return math.sqrt(a)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t` if `b` else `f`."""
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"type mismatch: {type(t)} vs {type(f)}")
    return t if b else f


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, given one by one or as a sequence."""
    return sum(args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args)


def _assert(condition: Any, message: str) -> Any:
    """`assert` as a function, which conditions that are being recorded can take part in."""
    if found := overloaded((condition,)):
        return dispatch(NAMESPACES[""]["_assert"], found, (condition, message), {})
    if MODES.run.may_check_later and isinstance(condition, Tensor) and condition._m.numel == 1:
        later((condition,), lambda arrays: _fail_unless(arrays[0], message))
    else:
        assert condition, message
    return None


def _fail_unless(condition: Any, message: str) -> None:
    fail_if(~condition.astype(bool).all(), lambda: AssertionError(message))


_NO_MESSAGE = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


def _check_with(error_type: type[Exception], cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise an exception of some type, with what `message` returns, unless a condition holds."""
    if isinstance(cond, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert "
            "that all elements are true."
        )
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(_NO_MESSAGE if message is None else str(message()))


def _check(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise a RuntimeError unless a condition holds."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise an IndexError unless a condition holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise a ValueError unless a condition holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise a TypeError unless a condition holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise a NotImplementedError unless a condition holds."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Callable[[], Any] | None = None) -> None:
    """Raise an exception of some type unless all elements of a tensor are true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not dtypes.bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Tensor, message: Callable[[], Any] | None = None) -> None:
    """Raise a RuntimeError unless all elements of a tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


TRACED_CONTROL: Any = None
"""How a run that is traced takes `cond` and `while_loop`, whose values nobody knows then; `_bridge` puts it here."""


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """Calls one of two functions with the operands; the other one does not run.

    Args:
        pred: which: a number or a tensor of one element.
        true_fn: the function where it holds.
        false_fn: the function where it does not.
        operands: the arguments.
    """
    if isinstance(pred, Tensor):
        if pred._m.numel != 1:
            shown = pred if MODES.run.at_once else f"one of shape {tuple(pred.shape)}"
            raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {shown}.")
    elif not isinstance(pred, bool | int | float):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, tuple | list):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands}."
        )
    if TRACED_CONTROL is not None and not MODES.run.at_once and isinstance(pred, Tensor):
        return TRACED_CONTROL[0](pred, true_fn, false_fn, operands)
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """Apply a function to the values it gave last for as long as a condition on them holds.

    Args:
        cond_fn: the condition, of all values.
        body_fn: gives the next values, as many and alike.
        carried_inputs: the first values.
    """
    if not isinstance(carried_inputs, tuple | list):
        raise RuntimeError(f"carried_inputs must be a tuple or list, got {type(carried_inputs)}")
    values = tuple(carried_inputs)
    if TRACED_CONTROL is not None and not MODES.run.at_once:
        return TRACED_CONTROL[1](cond_fn, body_fn, values)
    while bool(cond_fn(*values)):
        values = next_values(body_fn, values)
    return values


def next_values(body_fn: Callable[..., Any], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """One turn of a loop."""
    found = body_fn(*values)
    found = tuple(found) if isinstance(found, tuple | list) else (found,)
    if len(found) != len(values):
        raise RuntimeError(
            f"body_fn should return the same number of values as it takes, {len(values)}, but returned {len(found)}"
        )
    return found


for _fn in (
    sym_int, sym_float, sym_not, sym_max, sym_min, sym_sqrt, sym_ite, sym_sum, cond, while_loop, _assert, _check,
    _check_with, _check_index, _check_value, _check_type, _check_not_implemented, _check_tensor_all,
    _check_tensor_all_with,
):  # fmt: skip
    register(_fn.__name__, _fn)
