"""Gradients compared with finite differences, as in torch.autograd.gradcheck."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core import dtypes
from .._core.meta import meta
from .._core.state import MODES
from .._engine.custom import UndefinedGrad
from .._engine.strided import read
from .._engine.tensor import Tensor, make
from . import forward_ad
from ._jacobians import (
    Nudged,
    analytical,
    as_tuple,
    by_forward_mode,
    checked,
    column,
    differentiable,
    is_complex,
    numerical,
    numerical_rows,
    pull,
    push,
    tensor_like,
    values_of,
)
from ._passes import run_backward

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` and `gradgradcheck`, so that other errors can be told apart."""


class _Options:
    """The tolerances of one check."""

    def __init__(
        self, eps: float, atol: float, rtol: float, nondet_tol: float, dtypes_too: bool, fast: bool
    ) -> None:
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        self.dtypes_too, self.fast = dtypes_too, fast


def _shown(jacobian: Any, like: Any) -> Any:
    """A Jacobian as the tensor whose repr goes into messages."""
    if np.ndim(jacobian) == 0:
        return complex(jacobian) if np.iscomplexobj(jacobian) else float(jacobian)
    array = np.asarray(jacobian)
    double = like.dtype in (dtypes.float64, dtypes.complex128)
    if array.dtype.kind == "c":
        dtype = dtypes.complex128 if double else dtypes.complex64
    else:
        dtype = dtypes.float64 if double else dtypes.float32
    return tensor_like(meta(array.shape, dtype, like.device), array)


def _close(analytic: Any, numeric: Any, rtol: float, atol: float) -> bool:
    return bool(np.allclose(analytic, numeric, rtol=rtol, atol=atol))


def _mismatch(a: Any, n: Any, i: int, j: int, like: Any, forward: bool, prefix: str) -> str:
    what = "Jacobian computed with forward mode mismatch" if forward else "Jacobian mismatch"
    return (
        f"{prefix}{what} for output {i} with respect to input {j},\n"
        f"numerical:{_shown(n, like)}\nanalytical:{_shown(a, like)}\n"
    )


# --- what is checked before -----------------------------------------------------------------------


def _check_inputs(inputs: Sequence[Any]) -> None:
    wanted = checked(inputs)
    for i in wanted:
        t = inputs[i]
        if t._m.dtype not in (dtypes.float64, dtypes.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        if any(s == 0 and n > 1 for s, n in zip(t._m.strides, t._m.shape)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True."
        )
    for i in wanted:
        inputs[i].retain_grad()


def _check_constant(fn: Any, inputs: Sequence[Any], o: _Options) -> None:
    """Outputs that do not require grad must not depend on the inputs."""
    if o.fast:
        found = []
        for i in checked(inputs):
            real, imag = _directions(inputs[i])
            nudged = Nudged(_floating(fn), inputs, i, o.eps)
            found += column(nudged, inputs[i], real, imag, False)
    else:
        found = [j for row in numerical(fn, inputs, o.eps) for j in row]
    for jacobian in found:
        if (
            jacobian is not None
            and jacobian.size
            and np.abs(jacobian).max() > (o.nondet_tol if o.fast else 0)
        ):
            raise GradcheckError("Numerical gradient for function expected to be zero")


def _floating(fn: Any) -> Any:
    """`fn` with integer outputs as floating ones, so that jumps of theirs show."""
    return lambda *args: [x if is_complex(x) else x.double() for x in as_tuple(fn(*args))]


# --- element by element ---------------------------------------------------------------------------


_NONDET = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
    "values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was {}.\n\n"
    "If the operation is known to be nondeterministic, pass a larger nondet_tol to gradcheck or gradgradcheck."
)


def _attributes_hold(inputs: Sequence[Any], output: Tensor, o: _Options) -> list[np.ndarray]:
    """The analytical Jacobians, once found to be the same twice over and of the right kind."""
    first, sizes, types = analytical(inputs, output)
    again, _, _ = analytical(inputs, output)
    if not types and o.dtypes_too:
        raise GradcheckError("Gradient has dtype mismatch")
    if not sizes:
        raise GradcheckError("Analytical gradient has incorrect size")
    if any(a.size and np.abs(a - b).max() > o.nondet_tol for a, b in zip(first, again)):
        raise GradcheckError(_NONDET.format(o.nondet_tol))
    return first


def _slow(fn: Any, func_out: Any, inputs: Sequence[Any], outputs: Sequence[Tensor], o: _Options, forward: bool,
          prefix: str, indices: Any) -> None:  # fmt: skip
    if not outputs:
        _check_constant(fn, inputs, o)
        return
    keep = [k for k, t in enumerate(as_tuple(func_out)) if t.requires_grad]
    numeric = [[row[k] for k in keep] for row in numerical(fn, inputs, o.eps, forward)]
    floats = [k for k, t in enumerate(as_tuple(func_out)) if t._m.dtype.category >= dtypes.FLOATING]
    if forward:
        found = [
            [row[floats.index(k)] for k in keep] if row else row
            for row in by_forward_mode(fn, inputs)
        ]
        analytic = [
            [row[i] if row else np.zeros_like(n[i]) for row, n in zip(found, numeric)]
            for i in range(len(keep))
        ]
    else:
        analytic = [_attributes_hold(inputs, out, o) for out in outputs]
    for i, out in enumerate(outputs):
        if (
            indices is not None
            and i not in indices
            and "imaginary part of complex outputs" in prefix
        ):
            continue
        for j, (a, rows) in enumerate(zip(analytic[i], numeric)):
            if not _close(a, rows[i], o.rtol, o.atol):
                raise GradcheckError(_mismatch(a, rows[i], i, j, out, forward, prefix))


# --- along one random direction -------------------------------------------------------------------


def _random_unit(rng: np.random.Generator, n: int) -> np.ndarray:
    v = rng.random(n)
    return v / np.linalg.norm(v) if n else v


def _directions(t: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Fixed random directions for the real and the imaginary part of an input."""
    rng = np.random.default_rng(42)
    n = t._m.numel
    real = _random_unit(rng, n)
    return real, _random_unit(rng, n)


def _fast(fn: Any, func_out: Any, inputs: Sequence[Any], outputs: Sequence[Tensor], o: _Options, forward: bool,
          prefix: str, indices: Any) -> None:  # fmt: skip
    if not outputs:
        _check_constant(fn, inputs, o)
        return
    keep = [k for k, t in enumerate(as_tuple(func_out)) if t.requires_grad]
    floats = [k for k, t in enumerate(as_tuple(func_out)) if t._m.dtype.category >= dtypes.FLOATING]
    rng = np.random.default_rng(7)
    vs = [_random_unit(rng, t._m.numel) for t in outputs]
    pulled = None if forward else [_pulled_twice(inputs, out, v, o) for out, v in zip(outputs, vs)]
    for j, which in enumerate(checked(inputs)):
        t = inputs[which]
        real, imag = _directions(t)
        along = column(Nudged(fn, inputs, which, o.eps), t, real, imag, forward)
        pushed = push(fn, inputs, which, real) if forward else None
        for i, (k, out, v) in enumerate(zip(keep, outputs, vs)):
            if pushed is not None:
                a, n = pushed[floats.index(k)], along[k]
                atol = o.atol * real.sum()
            else:
                n = np.dot(along[k], v)
                g = pulled[i][j]  # type: ignore[index]
                a = (
                    np.dot(g.real, real) + 1j * np.dot(g.imag, imag)
                    if is_complex(t)
                    else np.dot(g, real)
                )
                atol = o.atol * (real.sum() + (imag.sum() if is_complex(t) else 0)) * v.sum()
            if not _close(a, n, o.rtol, atol):
                slow = _slow_part(fn, inputs, which, j, out, k, o, forward, floats)
                raise GradcheckError(_mismatch(a, n, i, j, out, forward, prefix) + slow)


def _pulled_twice(
    inputs: Sequence[Any], output: Tensor, v: np.ndarray, o: _Options
) -> list[np.ndarray]:
    wanted = [inputs[i] for i in checked(inputs)]
    seed = tensor_like(output._m, v)
    first, again = (pull(output, wanted, seed) for _ in range(2))
    if o.dtypes_too and any(
        g is not None and g._m.dtype is not t._m.dtype for g, t in zip(first, wanted)
    ):
        raise GradcheckError("Gradient has dtype mismatch")
    if any(g is not None and g._m.shape != t._m.shape for g, t in zip(first, wanted)):
        raise GradcheckError("Analytical gradient has incorrect size")
    arrays = [[_flat(g, t) for g, t in zip(gs, wanted)] for gs in (first, again)]
    if any(a.size and np.abs(a - b).max() > o.nondet_tol for a, b in zip(*arrays)):
        raise GradcheckError(_NONDET.format(o.nondet_tol))
    return arrays[0]


def _flat(g: Tensor | None, t: Tensor) -> np.ndarray:
    return np.zeros(t._m.numel, t._m.dtype.np) if g is None else values_of(g).reshape(-1)


def _slow_part(fn: Any, inputs: Sequence[Any], which: int, j: int, out: Tensor, k: int, o: _Options, forward: bool,
               floats: list[int]) -> str:  # fmt: skip
    """The full Jacobians, for the message of a failed fast check."""
    n = numerical(fn, inputs, o.eps, forward, [which])[0][k]
    a = (
        by_forward_mode(fn, inputs)[j][floats.index(k)]
        if forward
        else analytical(inputs, out)[0][j]
    )
    worst = np.abs(n - a).max()
    text = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \nin fast mode. See: "
        "https://github.com/pytorch/pytorch/issues/53876 for more background \nabout fast mode. Below, we recompute "
        "numerical and analytical jacobians in slow mode:\n\n"
        f"Numerical:\n {_shown(n, out)}\nAnalytical:\n{_shown(a, out)}\n\n"
        f"The max per-element difference (slow mode) is: {worst}.\n"
    )
    if _close(a, n, o.rtol, o.atol):
        text += (
            "\nFast gradcheck failed but element-wise differences are small. This means that the test might've passed "
            "in slow_mode!\n"
        )
    return text


# --- complex numbers ------------------------------------------------------------------------------


def _part_of_outputs(fn: Any, part: str) -> Any:
    def run(*args: Any) -> Any:
        return tuple(getattr(o, part) if is_complex(o) else o for o in as_tuple(fn(*args)))

    return run


def _part_of_inputs(fn: Any, inputs: Sequence[Any], indices: Sequence[int], part: str) -> Any:
    """`fn` as a function of one part of its complex inputs, the other held fixed."""

    def run(*args: Any) -> Any:
        full = []
        for i, a in enumerate(args):
            if i in indices:
                fixed = inputs[i].detach()
                a = fixed.real + a * 1j if part == "imag" else a + fixed.imag * 1j
            full.append(a)
        return fn(*full)

    return run


def _own_part(t: Any, part: str) -> Tensor:
    half = getattr(t.detach(), part)
    return tensor_like(half._m, values_of(half)).requires_grad_(t.requires_grad)


def _by_parts(
    fn: Any, func_out: Any, inputs: tuple[Any, ...], o: _Options, forward: bool, backward: bool
) -> None:
    check = _fast if o.fast else _slow
    outputs = differentiable(func_out)
    if backward:
        if any(is_complex(t) for t in as_tuple(func_out)):
            indices = [i for i, t in enumerate(outputs) if is_complex(t)]
            for part, name in (("imag", "imaginary"), ("real", "real")):
                part_fn = _part_of_outputs(fn, part)
                out = part_fn(*inputs)
                check(part_fn, out, inputs, differentiable(out), o, False,
                      f"While considering the {name} part of complex outputs only, ", indices)  # fmt: skip
        else:
            check(fn, func_out, inputs, outputs, o, False, "", None)
    if forward:
        indices = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and is_complex(t)]
        if indices:
            for part, name in (("imag", "imaginary"), ("real", "real")):
                part_fn = _part_of_inputs(fn, inputs, indices, part)
                # Parts of their own, so that moving one in place does not move the whole.
                parts = tuple(
                    _own_part(t, part) if i in indices else t for i, t in enumerate(inputs)
                )
                out = part_fn(*parts)
                check(part_fn, out, parts, differentiable(out), o, True,
                      f"While considering the {name} part of complex inputs only, ", None)  # fmt: skip
        else:
            check(fn, func_out, inputs, outputs, o, True, "", None)


# --- further properties ---------------------------------------------------------------------------


def _wanted(inputs: Sequence[Any]) -> list[Tensor]:
    found = [inputs[i] for i in checked(inputs)]
    if not found:
        raise GradcheckError("no Tensors requiring grad found in input")
    return found


def _zeros(t: Tensor) -> Tensor:
    return make(jnp.zeros(t._m.shape, t._m.dtype.np), meta(t._m.shape, t._m.dtype, t._m.device))


def _check_linear(outputs: Sequence[Tensor], inputs: Sequence[Any]) -> None:
    """Zero gradients must give zero gradients."""
    wanted = _wanted(inputs)
    if not outputs:
        return
    found = run_backward(outputs, [_zeros(o) for o in outputs], True, False, wanted, True, False)
    for g, t in zip(found, wanted):
        if g is None:
            continue
        if values_of(g).any():
            raise GradcheckError("backward not multiplied by grad_output")
        if g._m.dtype is not t._m.dtype:
            raise GradcheckError("grad is incorrect type")
        if g._m.device is not t._m.device:
            raise GradcheckError("grad is incorrect device")
        if g._m.shape != t._m.shape:
            raise GradcheckError("grad is incorrect size")


_NOTES = (
    'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
)


def _warn_undefined() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may "
        "break existing callers of this function. If this is true for you, you can call this function with "
        '"check_undefined_grad=False" to disable the feature',
        stacklevel=5,
    )


def _check_undefined(fn: Any, outputs: Sequence[Tensor], inputs: Sequence[Any]) -> None:
    """Undefined gradients must be taken as zeros."""
    wanted = _wanted(inputs)

    def attempt(outs: Sequence[Tensor]) -> None:
        try:
            found = run_backward(outs, [_zeros(o) for o in outs], True, False, wanted, True, False)
        except RuntimeError as error:
            _warn_undefined()
            raise GradcheckError(
                f"Expected backward function to handle undefined output grads. {_NOTES}"
            ) from error
        for g in found:
            if g is not None and values_of(g).any():
                _warn_undefined()
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are undefined or zero. "
                    + _NOTES
                )

    undefined = UndefinedGrad()
    if outputs:
        attempt([undefined(t) for t in differentiable(fn(*inputs))])
    if len(outputs) > 1:
        for k in range(len(outputs)):
            attempt(
                [undefined(t) if i == k else t for i, t in enumerate(differentiable(fn(*inputs)))]
            )


def _check_batched(inputs: Sequence[Any], output: Tensor, index: int) -> None:
    """The backward under `jax.vmap` must equal the backward row by row."""
    wanted = _wanted(inputs)
    rng = np.random.default_rng(3)
    m = output._m
    noise = rng.standard_normal((2, *m.shape)) + (
        1j * rng.standard_normal((2, *m.shape)) if is_complex(output) else 0
    )
    rows = [tensor_like(m, r) for r in noise]
    columns = zip(*[pull(output, wanted, r) for r in rows])
    expected = [np.stack([_flat(g, t) for g in gs]) for gs, t in zip(columns, wanted)]

    def one(row: Any) -> list[Any]:
        found = pull(output, wanted, make(row, meta(m.shape, m.dtype, m.device)))
        return [
            jnp.zeros(t._m.shape, t._m.dtype.np) if g is None else read(g)
            for g, t in zip(found, wanted)
        ]

    try:
        got = jax.vmap(one)(jnp.stack([read(r) for r in rows]))
    except (RuntimeError, TypeError, jax.errors.JAXTypeError) as error:
        raise GradcheckError(
            f"While computing batched gradients, got: {error}\n\n{_BATCHED}"
        ) from error
    for j, (g, e) in enumerate(zip(got, expected)):
        _same_batch(np.asarray(g).reshape(2, -1), e, index, j)


_BATCHED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation: the derivative ran under jax.vmap, "
    "where code must not depend on the values of tensors. Pass check_batched_grad=False (or "
    "check_batched_forward_grad=False) to leave this out."
)


def _same_batch(got: np.ndarray, expected: np.ndarray, output: int, input: int) -> None:
    if not np.allclose(got, expected, rtol=1e-5, atol=1e-8, equal_nan=True):
        raise GradcheckError(
            f"For output {output} and input {input}:\n\n{_BATCHED}\n\nGot:\n{got}\n\nExpected:\n{expected}\n"
        )


def _check_batched_forward(fn: Any, inputs: Sequence[Any]) -> None:
    """Forward mode under `jax.vmap` must equal forward mode direction by direction."""
    rng = np.random.default_rng(3)
    for i in checked(inputs):
        t = inputs[i]
        rows = rng.standard_normal((2, *t._m.shape)).astype(t._m.dtype.np)
        expected = [push(fn, inputs, i, r) for r in rows]

        def one(row: Any, i: int = i, t: Tensor = t) -> list[Any]:
            plain = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
            with forward_ad.dual_level():
                plain[i] = forward_ad.make_dual(
                    plain[i], make(row, meta(t._m.shape, t._m.dtype, t._m.device))
                )
                outs = [
                    forward_ad.unpack_dual(x)
                    for x in as_tuple(fn(*plain))
                    if x.is_floating_point() or is_complex(x)
                ]
            return [jnp.zeros(p._m.shape, p._m.dtype.np) if d is None else read(d) for p, d in outs]

        try:
            got = jax.vmap(one)(jnp.asarray(rows))
        except (RuntimeError, TypeError, jax.errors.JAXTypeError) as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\n{_BATCHED}"
            ) from error
        for k, g in enumerate(got):
            _same_batch(np.asarray(g).reshape(2, -1), np.stack([e[k] for e in expected]), k, i)


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
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    o = _Options(eps, atol, rtol, nondet_tol, check_grad_dtypes, fast_mode)
    try:
        args = as_tuple(inputs)
        _check_inputs(args)
        func_out = func(*args)
        outputs = differentiable(func_out)
        _by_parts(func, func_out, args, o, check_forward_ad, check_backward_ad)
        if check_batched_forward_grad:
            _check_batched_forward(func, args)
        if check_backward_ad:
            for i, out in enumerate(outputs):
                if check_batched_grad:
                    _check_batched(args, out, i)
            _check_linear(outputs, args)
            if check_undefined_grad:
                _check_undefined(func, outputs, args)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


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
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
        )
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_rev_over_rev to be True"
        )
    args = as_tuple(inputs)
    if grad_outputs is None:
        given = tuple(
            _random_like(t, gen_non_contig_grad_outputs) for t in differentiable(func(*args))
        )
    else:
        given = as_tuple(grad_outputs)
    n = len(given)
    wanted = set(checked(args))

    def first_gradients(*both: Any) -> Any:
        ins = tuple(t.requires_grad_() if i in wanted else t for i, t in enumerate(both[:-n]))
        outs = differentiable(func(*ins))
        found = run_backward(
            outs, both[-n:], True, True, [ins[i] for i in sorted(wanted)], True, False
        )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first_gradients, (*args, *given), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def _random_like(t: Tensor, gaps: bool) -> Tensor:
    """Random numbers in [-1, 1) that require grad."""
    m = t._m
    rng = np.random.default_rng(MODES.bits + m.numel)
    noise = rng.uniform(-1, 1, m.shape) + (1j * rng.uniform(-1, 1, m.shape) if is_complex(t) else 0)
    out = tensor_like(m, noise)
    if gaps and m.ndim:
        wide = tensor_like(meta((*m.shape, 2), m.dtype, m.device), np.stack([noise, noise], -1))
        out = wide.select(-1, 0)
    return out.detach().requires_grad_()


# --- names from before, deprecated in torch -------------------------------------------------------


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
        _shown(row[0], args[i]) for row, i in zip(found, checked(args) if which is None else which)
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
    jacobians = tuple(_shown(a, args[i]) for a, i in zip(first, checked(args)))
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
    if not moved.requires_grad:  # type: ignore[attr-defined]
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
