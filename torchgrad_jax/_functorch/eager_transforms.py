"""Transforms under an older name, and what packages take from beside them or put in its place.

Tensors are not wrapped for transforms here. So what wraps them can be imported and replaced; called, it says so.
"""

from __future__ import annotations

from typing import Any

from .._C._functorch import _refused
from .._core.errors.messages import missing as _missing
from ..func import (
    functionalize as functionalize,
    grad as grad,
    grad_and_value as grad_and_value,
    hessian as hessian,
    jacfwd as jacfwd,
    jacrev as jacrev,
    jvp as jvp,
    linearize as linearize,
    vjp as vjp,
)
from ..func._levels import check_argnums, only_real, pick
from ..utils._pytree import tree_leaves

__all__ = ["functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]


def _as_tuple(val: Any) -> tuple[Any, ...]:
    """Give a tuple as it is, and anything else as a tuple of one."""
    return val if isinstance(val, tuple) else (val,)


def _slice_argnums(args: tuple[Any, ...], argnums: int | tuple[int, ...], as_tuple: bool = True) -> Any:
    """Give the arguments that `argnums` names; a single one as a tuple, too, unless `as_tuple` is False."""
    check_argnums(args, argnums)
    found = pick(args, argnums)
    return _as_tuple(found) if as_tuple and isinstance(argnums, int) else found


def error_if_complex(func_name: str, args: Any, is_input: bool) -> None:
    """Raise for complex tensors among the inputs, or the outputs, of a transform."""
    only_real(func_name, "inputs" if is_input else "outputs", tree_leaves(args))


(
    _autograd_grad, _create_differentiable, _jvp_with_argnums, _undo_create_differentiable, _vjp_with_argnums,
    _wrap_all_tensors, _wrap_tensor_for_grad, enter_jvp_nesting, exit_jvp_nesting, grad_and_value_impl, grad_impl,
    grad_increment_nesting, jvp_increment_nesting,
) = (
    _refused(name)
    for name in (
        "_autograd_grad", "_create_differentiable", "_jvp_with_argnums", "_undo_create_differentiable",
        "_vjp_with_argnums", "_wrap_all_tensors", "_wrap_tensor_for_grad", "enter_jvp_nesting", "exit_jvp_nesting",
        "grad_and_value_impl", "grad_impl", "grad_increment_nesting", "jvp_increment_nesting",
    )
)  # fmt: skip

__getattr__ = _missing(__name__)
