"""Analytical and numerical Jacobians side by side: element by element, or along one random direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core import events
from .._core.arrays import dtypes
from .._core.arrays.meta import meta
from .._core.random.generator import Generator
from .._engine.memory.tensor import Tensor
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
    pull,
    push,
    tensor_like,
    values_of,
)


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` and `gradgradcheck`, so that other errors can be told apart."""

    __module__ = "torchgrad_jax.autograd.gradcheck"


class Options:
    """The tolerances of one check."""

    def __init__(self, eps: float, atol: float, rtol: float, nondet_tol: float, dtypes_too: bool, fast: bool) -> None:
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        self.dtypes_too, self.fast = dtypes_too, fast


def shown(jacobian: Any, like: Any) -> Any:
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
        f"numerical:{shown(n, like)}\nanalytical:{shown(a, like)}\n"
    )


def _check_constant(fn: Any, inputs: Sequence[Any], o: Options) -> None:
    """Outputs that do not require grad must not depend on the inputs."""
    if o.fast:
        found, source = [], Generator()
        for i in checked(inputs):
            real, imag = _directions(inputs[i], source)
            nudged = Nudged(_floating(fn), inputs, i, o.eps)
            found += column(nudged, inputs[i], real, imag, False)
    else:
        found = [j for row in numerical(fn, inputs, o.eps) for j in row]
    for jacobian in found:
        if jacobian is not None and jacobian.size and np.abs(jacobian).max() > (o.nondet_tol if o.fast else 0):
            raise GradcheckError("Numerical gradient for function expected to be zero")


def _floating(fn: Any) -> Any:
    """`fn` with integer outputs as floating ones, so that jumps of theirs show."""
    return lambda *args: [x if is_complex(x) else x.double() for x in as_tuple(fn(*args))]


_NONDET = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
    "values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was {}.\n\n"
    "If the operation is known to be nondeterministic, pass a larger nondet_tol to gradcheck or gradgradcheck."
)


def _attributes_hold(inputs: Sequence[Any], output: Tensor, o: Options) -> list[np.ndarray]:
    """The analytical Jacobians, once found to be the same twice over and of the right kind."""
    first, sizes, types = analytical(inputs, output)
    if not types and o.dtypes_too:
        raise GradcheckError("Gradient has dtype mismatch")
    if not sizes:
        raise GradcheckError("Analytical gradient has incorrect size")
    return _repeatable(first, lambda: analytical(inputs, output)[0], o)


def _repeatable(first: list[np.ndarray], run: Callable[[], list[np.ndarray]], o: Options) -> list[np.ndarray]:
    """What a pass found, once it has found the same again.

    A pass may go node by node at first and compiled as a whole later, which rounds in another way; only what
    differs where all go node by node is told.
    """
    if _apart(first, run(), o):
        with events.Watching():
            if _apart(first := run(), run(), o):
                raise GradcheckError(_NONDET.format(o.nondet_tol))
    return first


def _apart(first: list[np.ndarray], again: list[np.ndarray], o: Options) -> bool:
    return any(a.size and np.abs(a - b).max() > o.nondet_tol for a, b in zip(first, again))


def _slow(
    fn: Any,
    func_out: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Tensor],
    o: Options,
    forward: bool,
    prefix: str,
    indices: Any,
) -> None:
    if not outputs:
        _check_constant(fn, inputs, o)
        return
    keep = [k for k, t in enumerate(as_tuple(func_out)) if t.requires_grad]
    numeric = [[row[k] for k in keep] for row in numerical(fn, inputs, o.eps, forward)]
    floats = [k for k, t in enumerate(as_tuple(func_out)) if t._m.dtype.category >= dtypes.FLOATING]
    if forward:
        found = [[row[floats.index(k)] for k in keep] if row else row for row in by_forward_mode(fn, inputs)]
        analytic = [
            [row[i] if row else np.zeros_like(n[i]) for row, n in zip(found, numeric)] for i in range(len(keep))
        ]
    else:
        analytic = [_attributes_hold(inputs, out, o) for out in outputs]
    for i, out in enumerate(outputs):
        if indices is not None and i not in indices and "imaginary part of complex outputs" in prefix:
            continue
        for j, (a, rows) in enumerate(zip(analytic[i], numeric)):
            if not _close(a, rows[i], o.rtol, o.atol):
                raise GradcheckError(_mismatch(a, rows[i], i, j, out, forward, prefix))


def _random_unit(source: Generator, n: int) -> np.ndarray:
    v = source.floats(n).astype(np.float64)
    return v / np.linalg.norm(v) if n else v


def _directions(t: Tensor, source: Generator) -> tuple[np.ndarray, np.ndarray]:
    """The next random directions, as torch draws them: for an input's real part, and its imaginary part if any."""
    real = _random_unit(source, t._m.numel)
    return real, _random_unit(source, t._m.numel) if is_complex(t) else np.zeros(t._m.numel)


def _fast(
    fn: Any,
    func_out: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Tensor],
    o: Options,
    forward: bool,
    prefix: str,
    indices: Any,
) -> None:
    if not outputs:
        _check_constant(fn, inputs, o)
        return
    keep = [k for k, t in enumerate(as_tuple(func_out)) if t.requires_grad]
    floats = [k for k, t in enumerate(as_tuple(func_out)) if t._m.dtype.category >= dtypes.FLOATING]
    source = Generator()
    us = [_directions(inputs[which], source) for which in checked(inputs)]
    vs = [_random_unit(source, t._m.numel) for t in outputs]
    pulled = None if forward else [_pulled_twice(inputs, out, v, o) for out, v in zip(outputs, vs)]
    for j, which in enumerate(checked(inputs)):
        t = inputs[which]
        real, imag = us[j]
        along = column(Nudged(fn, inputs, which, o.eps), t, real, imag, forward)
        pushed = push(fn, inputs, which, real) if forward else None
        for i, (k, out, v) in enumerate(zip(keep, outputs, vs)):
            if pushed is not None:
                a, n = pushed[floats.index(k)], along[k]
                atol = o.atol * real.sum()
            else:
                n = np.dot(along[k], v)
                g = pulled[i][j]  # type: ignore[index]
                a = np.dot(g.real, real) + 1j * np.dot(g.imag, imag) if is_complex(t) else np.dot(g, real)
                atol = o.atol * (real.sum() + (imag.sum() if is_complex(t) else 0)) * v.sum()
            if not _close(a, n, o.rtol, atol):
                slow = _slow_part(fn, inputs, which, j, out, k, o, forward, floats)
                raise GradcheckError(_mismatch(a, n, i, j, out, forward, prefix) + slow)


def _pulled_twice(inputs: Sequence[Any], output: Tensor, v: np.ndarray, o: Options) -> list[np.ndarray]:
    wanted = [inputs[i] for i in checked(inputs)]
    seed = tensor_like(output._m, v)
    first = pull(output, wanted, seed)
    if o.dtypes_too and any(g is not None and g._m.dtype is not t._m.dtype for g, t in zip(first, wanted)):
        raise GradcheckError("Gradient has dtype mismatch")
    if any(g is not None and g._m.shape != t._m.shape for g, t in zip(first, wanted)):
        raise GradcheckError("Analytical gradient has incorrect size")

    def flattened(gradients: Sequence[Any]) -> list[np.ndarray]:
        return [flat(g, t) for g, t in zip(gradients, wanted)]

    return _repeatable(flattened(first), lambda: flattened(pull(output, wanted, seed)), o)


def flat(g: Tensor | None, t: Tensor) -> np.ndarray:
    return np.zeros(t._m.numel, t._m.dtype.np) if g is None else values_of(g).reshape(-1)


def _slow_part(
    fn: Any,
    inputs: Sequence[Any],
    which: int,
    j: int,
    out: Tensor,
    k: int,
    o: Options,
    forward: bool,
    floats: list[int],
) -> str:
    """The full Jacobians, for the message of a failed fast check."""
    n = numerical(fn, inputs, o.eps, forward, [which])[0][k]
    a = by_forward_mode(fn, inputs)[j][floats.index(k)] if forward else analytical(inputs, out)[0][j]
    worst = np.abs(n - a).max()
    text = (
        "\nThe above quantities relating the numerical and analytical jacobians are computed \nin fast mode. See: "
        "https://github.com/pytorch/pytorch/issues/53876 for more background \nabout fast mode. Below, we recompute "
        "numerical and analytical jacobians in slow mode:\n\n"
        f"Numerical:\n {shown(n, out)}\nAnalytical:\n{shown(a, out)}\n\n"
        f"The max per-element difference (slow mode) is: {worst}.\n"
    )
    if _close(a, n, o.rtol, o.atol):
        text += (
            "\nFast gradcheck failed but element-wise differences are small. This means that the test might've passed "
            "in slow_mode!\n"
        )
    return text


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


def compare_by_parts(
    fn: Any, func_out: Any, inputs: tuple[Any, ...], o: Options, forward: bool, backward: bool
) -> None:
    check = _fast if o.fast else _slow
    outputs = differentiable(func_out)
    if backward:
        if any(is_complex(t) for t in as_tuple(func_out)):
            indices = [i for i, t in enumerate(outputs) if is_complex(t)]
            for part, name in (("imag", "imaginary"), ("real", "real")):
                part_fn = _part_of_outputs(fn, part)
                out = part_fn(*inputs)
                check(
                    part_fn,
                    out,
                    inputs,
                    differentiable(out),
                    o,
                    False,
                    f"While considering the {name} part of complex outputs only, ",
                    indices,
                )
        else:
            check(fn, func_out, inputs, outputs, o, False, "", None)
    if forward:
        indices = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and is_complex(t)]
        if indices:
            for part, name in (("imag", "imaginary"), ("real", "real")):
                part_fn = _part_of_inputs(fn, inputs, indices, part)
                # Parts of their own, so that moving one in place does not move the whole.
                parts = tuple(_own_part(t, part) if i in indices else t for i, t in enumerate(inputs))
                out = part_fn(*parts)
                check(
                    part_fn,
                    out,
                    parts,
                    differentiable(out),
                    o,
                    True,
                    f"While considering the {name} part of complex inputs only, ",
                    None,
                )
        else:
            check(fn, func_out, inputs, outputs, o, True, "", None)
