"""Analytical and numerical Jacobians side by side: element by element, or along one random direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core import events
from .._core.arrays import dtypes
from .._core.arrays.meta import meta
from .._core.random.generator import Generator
from .._engine.memory.tensor import Tensor
from ._jacobians import (
    Directions,
    analytical,
    as_tuple,
    by_forward_mode,
    checked,
    differentiable,
    is_complex,
    is_inexact,
    numerical,
    tensor_like,
    units,
    values_of,
)


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` and `gradgradcheck`, so that other errors can be told apart."""

    __module__ = "torchgrad_jax.autograd.gradcheck"


@dataclass(frozen=True)
class Options:
    """The tolerances of one check."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_dtypes: bool
    fast: bool


def compare_by_parts(
    fn: Any, func_out: Any, inputs: tuple[Any, ...], o: Options, forward: bool, backward: bool
) -> None:
    """Compare the Jacobians; where numbers are complex, once for each part of them."""
    parts = (("imag", "imaginary"), ("real", "real"))
    if backward and any(is_complex(t) for t in as_tuple(func_out)):
        for part, name in parts:
            prefix = f"While considering the {name} part of complex outputs only, "
            _Comparison(_part_of_outputs(fn, part), inputs, o, False, prefix).run(
                {i for i, t in enumerate(differentiable(func_out)) if part == "imag" and not is_complex(t)}
            )
    elif backward:
        _Comparison(fn, inputs, o, False, "", func_out).run()
    indices = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and is_complex(t)]
    if forward and indices:
        for part, name in parts:
            # Parts of their own, so that moving one in place does not move the whole.
            own = tuple(_own_part(t, part) if i in indices else t for i, t in enumerate(inputs))
            prefix = f"While considering the {name} part of complex inputs only, "
            _Comparison(_part_of_inputs(fn, inputs, indices, part), own, o, True, prefix).run()
    elif forward:
        _Comparison(fn, inputs, o, True, "", func_out).run()


def _part_of_outputs(fn: Any, part: str) -> Any:
    def run(*args: Any) -> Any:
        return tuple(getattr(o, part) if is_complex(o) else o for o in as_tuple(fn(*args)))

    return run


def _part_of_inputs(fn: Any, inputs: Sequence[Any], indices: Sequence[int], part: str) -> Any:
    """`fn` as a function of one part of its complex inputs, the other held fixed."""

    def run(*args: Any) -> Any:
        full = list(args)
        for i in indices:
            fixed = inputs[i].detach()
            full[i] = fixed.real + args[i] * 1j if part == "imag" else args[i] + fixed.imag * 1j
        return fn(*full)

    return run


def _own_part(t: Any, part: str) -> Tensor:
    half = getattr(t.detach(), part)
    return tensor_like(half._m, values_of(half)).requires_grad_(t.requires_grad)


# --- one comparison -------------------------------------------------------------------------------


class _Comparison:
    """All Jacobians of a function, in one mode."""

    def __init__(
        self, fn: Any, inputs: tuple[Any, ...], o: Options, forward: bool, prefix: str, func_out: Any = None
    ) -> None:
        self.fn, self.inputs, self.o, self.forward, self.prefix = fn, inputs, o, forward, prefix
        results = as_tuple(fn(*inputs) if func_out is None else func_out)
        self.outputs = differentiable(results)
        self.checked = checked(inputs)
        self.wanted = [inputs[i] for i in self.checked]
        self.kept = [k for k, t in enumerate(results) if t.requires_grad]
        """Positions of the outputs among all results, and among those that forward mode gives tangents of."""
        inexact = [k for k, t in enumerate(results) if is_inexact(t)]
        self.kept_tangents = [inexact.index(k) for k in self.kept] if forward else []

    def run(self, skipped: set[int] | None = None) -> None:
        """Complain about the first pair of an output and an input whose Jacobians differ."""
        if not self.outputs:
            self._check_constant()
            return
        for i, j, a, n, atol in self._along_directions() if self.o.fast else self._whole():
            if (self.o.fast or i not in (skipped or ())) and not np.allclose(a, n, rtol=self.o.rtol, atol=atol):
                what = "Jacobian computed with forward mode mismatch" if self.forward else "Jacobian mismatch"
                like = self.outputs[i]
                raise GradcheckError(
                    f"{self.prefix}{what} for output {i} with respect to input {j},\n"
                    f"numerical:{_shown(n, like)}\nanalytical:{_shown(a, like)}\n"
                    + (self._slow_part(i, j) if self.o.fast else "")
                )

    def _whole(self) -> Iterator[tuple[int, int, Any, Any, float]]:
        """Whole Jacobians: output, input, analytical, numerical, and how far apart they may be."""
        numeric = [self._numerical(j, units(t)) for j, t in enumerate(self.wanted)]
        if self.forward:
            found = [self._tangents(j, units(t)) for j, t in enumerate(self.wanted)]
            analytic = [list(column) for column in zip(*found)]
        else:
            analytic = [self._pulled(out, list(np.eye(out._m.numel))) for out in self.outputs]
        for i in range(len(self.outputs)):
            for j in range(len(self.wanted)):
                yield i, j, analytic[i][j], numeric[j][i], self.o.atol

    def _along_directions(self) -> Iterator[tuple[int, int, Any, Any, float]]:
        """The same of products with random directions, which are drawn in torch's order."""
        source = Generator()
        us = [_directions(t, source) for t in self.wanted]
        vs = [_random_unit(source, t._m.numel) for t in self.outputs]
        pulled = [] if self.forward else [self._pulled(out, [v]) for out, v in zip(self.outputs, vs)]
        for j, (t, (real, imag)) in enumerate(zip(self.wanted, us)):
            along = self._numerical(j, [(real, imag)])
            pushed = self._tangents(j, [(real, imag)]) if self.forward else []
            for i, v in enumerate(vs):
                if self.forward:
                    yield i, j, pushed[i][0], along[i][0], self.o.atol * real.sum()
                    continue
                g = pulled[i][j][:, 0]
                a = np.dot(g.real, real) + 1j * np.dot(g.imag, imag) if is_complex(t) else np.dot(g, real)
                yield i, j, a, np.dot(along[i][0], v), self.o.atol * (real.sum() + imag.sum()) * v.sum()

    def _numerical(self, j: int, along: Directions) -> list[Any]:
        found = numerical(self.fn, self.inputs, self.checked[j], along, self.o.eps, self.forward)
        return [found[k] for k in self.kept]

    def _tangents(self, j: int, along: Directions) -> list[Any]:
        found = by_forward_mode(self.fn, self.inputs, self.checked[j], along)
        if not found:  # an input without elements
            return [np.zeros((0, out._m.numel)) for out in self.outputs]
        return [found[k] for k in self.kept_tangents]

    def _pulled(self, output: Tensor, vectors: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The analytical products, once found to be the same twice over and of the right kind."""
        first, sizes, types = analytical(self.wanted, output, vectors)
        if not types and self.o.check_dtypes:
            raise GradcheckError("Gradient has dtype mismatch")
        if not sizes:
            raise GradcheckError("Analytical gradient has incorrect size")
        return _repeatable(first, lambda: analytical(self.wanted, output, vectors)[0], self.o.nondet_tol)

    def _check_constant(self) -> None:
        """Outputs that do not require grad must not depend on the inputs."""
        fn, most = (_floating(self.fn), self.o.nondet_tol) if self.o.fast else (self.fn, 0)
        source = Generator()
        for i, t in zip(self.checked, self.wanted):
            along = [_directions(t, source)] if self.o.fast else units(t)
            for jacobian in numerical(fn, self.inputs, i, along, self.o.eps, False):
                if jacobian is not None and jacobian.size and np.abs(jacobian).max() > most:
                    raise GradcheckError("Numerical gradient for function expected to be zero")

    def _slow_part(self, i: int, j: int) -> str:
        """The full Jacobians, for the message of a failed fast check."""
        along, out = units(self.wanted[j]), self.outputs[i]
        n = self._numerical(j, along)[i]
        if self.forward:
            a = self._tangents(j, along)[i]
        else:
            a = analytical(self.wanted, out, list(np.eye(out._m.numel)))[0][j]
        text = (
            "\nThe above quantities relating the numerical and analytical jacobians are computed \nin fast mode. See: "
            "https://github.com/pytorch/pytorch/issues/53876 for more background \nabout fast mode. Below, we "
            "recompute numerical and analytical jacobians in slow mode:\n\n"
            f"Numerical:\n {_shown(n, out)}\nAnalytical:\n{_shown(a, out)}\n\n"
            f"The max per-element difference (slow mode) is: {np.abs(n - a).max()}.\n"
        )
        if np.allclose(a, n, rtol=self.o.rtol, atol=self.o.atol):
            text += (
                "\nFast gradcheck failed but element-wise differences are small. This means that the test might've "
                "passed in slow_mode!\n"
            )
        return text


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


def _floating(fn: Any) -> Any:
    """`fn` with integer outputs as floating ones, so that jumps of theirs show."""
    return lambda *args: [x if is_complex(x) else x.double() for x in as_tuple(fn(*args))]


def _repeatable(first: list[np.ndarray], run: Callable[[], list[np.ndarray]], most: float) -> list[np.ndarray]:
    """Return what a pass found, once it has found the same again.

    A pass may go node by node at first and compiled as a whole later, which rounds in another way; only what
    differs where all go node by node is told.
    """
    if _apart(first, run(), most):
        with events.Watching():
            if _apart(first := run(), run(), most):
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                    "gives different values, although analytical gradient matches numerical gradient."
                    f"The tolerance for nondeterminism was {most}.\n\n"
                    "If the operation is known to be nondeterministic, pass a larger nondet_tol to gradcheck or "
                    "gradgradcheck."
                )
    return first


def _apart(first: list[np.ndarray], again: list[np.ndarray], most: float) -> bool:
    return any(a.size and np.abs(a - b).max() > most for a, b in zip(first, again))


def _random_unit(source: Generator, n: int) -> np.ndarray:
    v = source.floats(n).astype(np.float64)
    return v / np.linalg.norm(v) if n else v


def _directions(t: Tensor, source: Generator) -> tuple[np.ndarray, np.ndarray]:
    """The next random directions, as torch draws them: for an input's real part, and its imaginary part if any."""
    real = _random_unit(source, t._m.numel)
    return real, _random_unit(source, t._m.numel) if is_complex(t) else np.zeros(t._m.numel)
