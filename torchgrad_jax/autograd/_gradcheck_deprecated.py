"""Functions of torch.autograd.gradcheck that torch has deprecated."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core import dtypes
from .._core.meta import meta
from .._engine.tensor import Tensor
from ._gradcheck_compare import shown
from ._jacobians import (
    Nudged,
    analytical,
    as_tuple,
    checked,
    is_complex,
    numerical,
    numerical_rows,
    tensor_like,
)


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are deprecating it and it will be "
        "removed in a future version of PyTorch. If you have a specific use for this or feature request for this to be "
        "a stable API, please file us an issue at https://github.com/pytorch/pytorch/issues/new",
        FutureWarning,
        stacklevel=3,
    )


def get_numerical_jacobian(
    fn: Any, inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> Any:
    """Finite-difference Jacobians of ``fn(inputs)``, a function of one tuple; deprecated.

    Args:
        fn: takes the tuple of inputs.
        inputs: the inputs.
        target: with respect to what; by default all inputs that require grad.
        eps: the step.
        grad_out: must be 1.

    Returns:
        A Jacobian per input, of the first output.
    """
    _deprecated("get_numerical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_numerical_jacobian no longer supports values of grad_out != 1.0."
        )
    args = as_tuple(inputs)
    which = (
        None
        if target is None
        else [i for i, t in enumerate(args) if any(t is x for x in as_tuple(target))]
    )

    def run(*given: Any) -> Any:
        outs = as_tuple(fn(given))
        if any(is_complex(o) for o in outs):
            raise ValueError(
                "Expected output to be non-complex. get_numerical_jacobian no longer supports functions that return "
                "complex outputs."
            )
        return outs

    found = numerical(run, args, eps, which=which)
    return tuple(
        shown(row[0], args[i]) for row, i in zip(found, checked(args) if which is None else which)
    )


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> Any:
    """Jacobians of an output by backward, and three verdicts; deprecated.

    Args:
        inputs: the inputs.
        output: what was computed from them.
        nondet_tol: how far apart two runs of the backward may be.
        grad_out: must be 1.

    Returns:
        The Jacobians, whether two runs agreed, and whether sizes and dtypes were right.
    """
    _deprecated("get_analytical_jacobian")
    if grad_out != 1.0:
        raise ValueError(
            "Expected grad_out to be 1.0. get_analytical_jacobian no longer supports values of grad_out != 1.0."
        )
    if is_complex(output):
        raise ValueError(
            "Expected output to be non-complex. get_analytical_jacobian no longer supports functions that return "
            "complex outputs."
        )
    args = as_tuple(inputs)
    first, sizes, types = analytical(args, output)
    again, _, _ = analytical(args, output)
    same = all(not a.size or np.abs(a - b).max() <= nondet_tol for a, b in zip(first, again))
    jacobians = tuple(shown(a, args[i]) for a, i in zip(first, checked(args)))
    return jacobians, same, sizes, types


def get_numerical_jacobian_wrt_specific_input(
    fn: Any,
    input_idx: int,
    inputs: Sequence[Any],
    outputs: Any,
    eps: float,
    input: Tensor | None = None,
    is_forward_ad: bool = False,
) -> tuple[Tensor, ...]:
    """Finite-difference Jacobians of every output of ``fn(*inputs)`` by one input.

    Args:
        fn: the function.
        input_idx: which input is moved.
        inputs: the inputs.
        outputs: what ``fn(*inputs)`` gives; says how many Jacobians there are, and of which dtypes.
        eps: the step.
        input: the tensor to move, when it is not ``inputs[input_idx]`` itself.
        is_forward_ad: allow complex outputs of a real input.

    Returns:
        A Jacobian per output, of shape (elements of the input, elements of the output).
    """
    moved = inputs[input_idx] if input is None else input
    if not moved.requires_grad:
        raise AssertionError("Expected input to have requires_grad=True")
    if any(is_complex(o) for o in as_tuple(outputs)) and (is_complex(moved) or not is_forward_ad):
        raise AssertionError(
            f"Expected ds_dx to be real-valued, not complex{'' if is_complex(moved) else '.'}"
        )
    found = numerical_rows(Nudged(fn, inputs, input_idx, eps, moved), False)
    tensors = [o for o in as_tuple(outputs) if o._m.dtype.category >= dtypes.FLOATING]
    return tuple(
        tensor_like(_jacobian_meta(jac, out, moved), jac)
        for jac, out in zip((j for j in found if j is not None), tensors)
    )


def _jacobian_meta(jacobian: np.ndarray, out: Tensor, moved: Tensor) -> Any:
    dtype = moved._m.dtype if is_complex(moved) else out._m.dtype
    return meta(jacobian.shape, dtype, out._m.device)
