"""Gradients compared with finite differences, as in torch.autograd.gradcheck."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.arrays import dtypes
from .._core.arrays.meta import meta
from .._core.errors import warn
from .._engine.memory.tensor import Tensor
from ._gradcheck_compare import GradcheckError as GradcheckError, Options, compare_by_parts
from ._gradcheck_properties import check_batched, check_batched_forward, check_linear, check_undefined
from ._jacobians import as_tuple, checked, differentiable, is_complex, tensor_like
from ._passes import run_backward

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


# --- what is checked before -----------------------------------------------------------------------


def _check_inputs(inputs: Sequence[Any]) -> None:
    wanted = checked(inputs)
    for i in wanted:
        t = inputs[i]
        if t._m.dtype not in (dtypes.float64, dtypes.complex128):
            warn.to_user(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. "
            )
        if any(s == 0 and n > 1 for s, n in zip(t._m.strides, t._m.shape)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for i in wanted:
        inputs[i].retain_grad()


# --- the public functions -------------------------------------------------------------------------


def gradcheck(
    func: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Tensor | Sequence[Tensor],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare a function's gradients with finite differences.

    Args:
        func: takes tensors, returns one or several.
        inputs: its arguments; those that require grad are checked and should be float64.
        eps: the step of the differences.
        atol, rtol: how far apart the two may be.
        raise_exception: raise on failure, instead of returning False.
        nondet_tol: how far apart two runs of the backward may be.
        check_undefined_grad: also check that undefined gradients count as zeros.
        check_grad_dtypes: also check that gradients have the dtypes of the inputs.
        check_batched_grad: also check the backward under vmap.
        check_batched_forward_grad: also check forward mode under vmap.
        check_forward_ad: also check forward mode.
        check_backward_ad: check the backward.
        fast_mode: compare along one random direction instead of element by element.
        masked: of sparse inputs, which do not exist here.

    Returns:
        Whether everything agreed.

    Raises:
        GradcheckError: when something did not agree.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(3, dtype=torch.float64, requires_grad=True)
        >>> gradcheck(torch.sin, (x,))
        True
    """
    _check_options(check_forward_ad, check_backward_ad, check_batched_forward_grad, check_batched_grad)
    o = Options(eps, atol, rtol, nondet_tol, check_grad_dtypes, fast_mode)
    try:
        args = as_tuple(inputs)
        _check_inputs(args)
        func_out = func(*args)
        outputs = differentiable(func_out)
        wanted = [args[i] for i in checked(args)]
        compare_by_parts(func, func_out, args, o, check_forward_ad, check_backward_ad)
        if check_batched_forward_grad:
            check_batched_forward(func, args)
        if check_backward_ad:
            for i, out in enumerate(outputs):
                if check_batched_grad:
                    check_batched(out, i, wanted)
            check_linear(outputs, wanted)
            if check_undefined_grad:
                check_undefined(func, outputs, args, wanted)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_options(forward: bool, backward: bool, batched_forward: bool, batched: bool) -> None:
    """Refuse combinations that check nothing, or something that is not computed."""
    if not (forward or backward):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if batched and not backward:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if batched_forward and not forward:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")


def gradgradcheck(
    func: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare a function's second gradients with finite differences of the first.

    Args:
        func, inputs: as for `gradcheck`.
        grad_outputs: gradients of the outputs; random ones by default.
        gen_non_contig_grad_outputs: make the random ones non-contiguous.
        check_fwd_over_rev: also check forward mode over the backward.
        check_rev_over_rev: check the backward of the backward.
        eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes,
        check_batched_grad, fast_mode, masked: as for `gradcheck`.

    Returns:
        Whether everything agreed.

    Raises:
        GradcheckError: when something did not agree.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    args = as_tuple(inputs)
    if grad_outputs is None:
        given = tuple(_random_like(t, gen_non_contig_grad_outputs) for t in differentiable(func(*args)))
    else:
        given = as_tuple(grad_outputs)
    n = len(given)
    wanted = set(checked(args))

    def first_gradients(*both: Any) -> Any:
        ins = tuple(t.requires_grad_() if i in wanted else t for i, t in enumerate(both[:-n]))
        outs = differentiable(func(*ins))
        found = run_backward(outs, both[-n:], True, True, [ins[i] for i in sorted(wanted)], True, False)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first_gradients,
        (*args, *given),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _random_like(t: Tensor, gaps: bool) -> Tensor:
    """Random numbers in [-1, 1) that require grad."""
    m = t._m
    rng = np.random.default_rng(m.numel)
    noise = rng.uniform(-1, 1, m.shape) + (1j * rng.uniform(-1, 1, m.shape) if is_complex(t) else 0)
    out = tensor_like(m, noise)
    if gaps and m.ndim:
        wide = tensor_like(meta((*m.shape, 2), m.dtype, m.device), np.stack([noise, noise], -1))
        out = wide.select(-1, 0)
    return out.detach().requires_grad_()
