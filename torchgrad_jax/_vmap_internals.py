"""torch._vmap_internals: `vmap` as it was before torch.func, which packages still import."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ._core.errors import warn
from ._core.errors.messages import missing as _missing
from ._engine.memory.tensor import Tensor as Tensor
from ._functions.shape import movedim as _movedim
from ._functorch.vmap import (
    _broadcast_to_and_flatten as _broadcast_to_and_flatten,
    _get_name as _get_name,
    tree_flatten as tree_flatten,
    tree_unflatten as tree_unflatten,
    vmap as _new,
)

in_dims_t = int | tuple
out_dims_t = int | tuple[int, ...]

_OLD = "Please use `torch.vmap` instead of `torch._vmap_internals.vmap`."


def vmap(func: Callable, in_dims: in_dims_t = 0, out_dims: out_dims_t = 0) -> Callable:
    """An older `torch.vmap`, which warns and takes less."""
    warn.to_user(_OLD, FutureWarning)
    return _vmap(func, in_dims, out_dims)


vars(vmap)["__deprecated__"] = _OLD  # as typing.deprecated marks it


def _vmap(
    func: Callable, in_dims: in_dims_t = 0, out_dims: out_dims_t = 0, allow_none_pass_through: bool = False
) -> Callable:
    """`torch.vmap` of a function with one result or a tuple of them, counted from the front.

    Args:
        func: takes tensors, and returns one or a tuple of them.
        in_dims: as in `torch.vmap`, but not negative.
        out_dims: where the examples are counted in each result.
        allow_none_pass_through: let results of a tuple be None.
    """

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        _check_out_dims_is_int_or_int_tuple(out_dims, func)
        _check_in_dims(in_dims, args, func)
        returned: list[Any] = []

        @functools.wraps(func)
        def kept(*row: Any) -> Any:
            out = func(*row)
            if not allow_none_pass_through:
                _validate_outputs(out, func)
            returned[:] = [out] if isinstance(out, Tensor) else [None, *tuple(out)]
            return tuple([x for x in returned if x is not None])

        rows = iter(_new(kept, in_dims)(*args))
        single = returned[0] is not None
        results = returned if single else returned[1:]
        moved = [
            None if x is None else _movedim(next(rows), 0, d) if d else next(rows)
            for x, d in zip(results, _dims_of(results, out_dims, func))
        ]
        return moved[0] if single else tuple(moved)

    return wrapped


def _check_in_dims(in_dims: Any, args: Sequence[Any], func: Callable) -> None:
    """What this `vmap` refuses and the newer one does not: dimensions counted from the back."""
    if not args or not isinstance(in_dims, int | tuple):
        return
    flat, spec = tree_flatten(args)
    for x, d in zip(flat, _broadcast_to_and_flatten(in_dims, spec) or ()):
        if isinstance(x, Tensor) and isinstance(d, int) and not 0 <= d < x.dim():
            raise ValueError(
                f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for some input, but "
                f"that input is a Tensor of dimensionality {x.dim()} so expected in_dim to satisfy 0 <= in_dim < "
                f"{x.dim()}."
            )


def _check_out_dims_is_int_or_int_tuple(out_dims: Any, func: Callable) -> None:
    if isinstance(out_dims, int):
        return
    if not isinstance(out_dims, tuple) or not all(isinstance(d, int) for d in out_dims):
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int or a tuple of int "
            "representing where in the outputs the vmapped dimension should appear."
        )


def _validate_outputs(outputs: Any, func: Callable) -> None:
    """Raise unless a function returned a tensor, or a tuple of tensors."""
    if isinstance(outputs, Tensor):
        return
    complaint = f"vmap({_get_name(func)}, ...): `{_get_name(func)}` must only return Tensors, got type"
    if not isinstance(outputs, tuple):
        raise ValueError(f"{complaint} {type(outputs)} as the return.")
    for i, x in enumerate(outputs):
        if not isinstance(x, Tensor):
            raise ValueError(f"{complaint} {type(x)} for return {i}.")


def _dims_of(results: Sequence[Any], out_dims: Any, func: Callable) -> tuple[int, ...]:
    """A dimension per result."""
    n = len(results)
    if isinstance(out_dims, int):
        return (out_dims,) * n
    if len(out_dims) != n:
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must have one dim per output (got {n} "
            f"outputs) of {_get_name(func)}."
        )
    return out_dims


__getattr__ = _missing(__name__)
