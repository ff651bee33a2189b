"""torch._vmap_internals: `vmap` as it was before torch.func, which packages still import."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ._core.errors import no_such_name as _no_such_name
from ._engine.tensor import Tensor as Tensor
from ._functorch.vmap import _get_name as _get_name
from .func import vmap as _new_vmap
from .utils._pytree import (
    _broadcast_to_and_flatten as _broadcast_to_and_flatten,
    tree_flatten as tree_flatten,
    tree_unflatten as tree_unflatten,
)

in_dims_t = int | tuple
out_dims_t = int | tuple[int, ...]

_OLD = "Please use `torch.vmap` instead of `torch._vmap_internals.vmap`."


def vmap(func: Callable, in_dims: in_dims_t = 0, out_dims: out_dims_t = 0) -> Callable:
    """An older name of `torch.vmap`, which warns and takes less."""
    warnings.warn(_OLD, FutureWarning, stacklevel=2)
    return _vmap(func, in_dims, out_dims)


vmap.__deprecated__ = _OLD


def _vmap(
    func: Callable, in_dims: in_dims_t = 0, out_dims: out_dims_t = 0, allow_none_pass_through: bool = False
) -> Callable:  # fmt: skip
    """`torch.vmap` without negative `in_dims`, random draws and nested results; None may be one of the results."""

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        _check_out_dims_is_int_or_int_tuple(out_dims, func)
        _check_in_dims(in_dims, args, func)
        nothing: list[bool] = []

        @functools.wraps(func)
        def kept(*row: Any) -> Any:
            out = func(*row)
            nothing[:] = _nothing(out, func, allow_none_pass_through)
            dims = _per_result(out_dims, len(nothing), func)
            _check_dims_of_results(dims, nothing)
            results = out if isinstance(out, tuple) else (out,)
            return tuple([r for r, none in zip(results, nothing) if not none])
        ...
