"""Random numbers whose parameters are tensors: bernoulli, normal, multinomial, poisson, binomial."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import dtypes, shapes
from .._core.arrays.meta import Meta, meta
from .._core.arrays.transfer import put
from .._core.errors import messages as errors
from .._core.random import rng
from .._core.state import GRAD, MODES, WINDOWS
from .._engine.entry.arguments import MISSING
from .._engine.entry.bind import composite
from .._engine.entry.out import warn_resized
from .._engine.graph.deferred import later
from .._engine.graph.history import check_captured, check_inplace, requires_grad_of
from .._engine.graph.inplace import apply_inplace
from .._engine.graph.record import apply, no_grad
from .._engine.memory.concrete import concrete
from .._engine.memory.strided import check_writable
from .._engine.memory.tensor import Tensor, make
from .._engine.modes.belonging import running_vmap
from .._ops.registry import Grad
from . import batched_sampling as batched, fills
from .arguments import check_shape, integer, is_number, options, real, shape_of, tensor_argument, unmatched, wrong
from .fresh import from_host, into
from .random import (
    _FLOATS,
    chosen,
    draw,
    draw_elsewhere,
    draw_inside,
    inside_trace,
    laid,
    memory_order,
    normals,
    numbers_elsewhere,
    refuse,
    without_derivatives,
)


def _result(
    fn: str,
    node: str,
    inputs: tuple[Tensor, ...],
    host: np.ndarray | Tensor,
    out: Any,
    grad: Grad = Grad.YES,
    first_edge: int = 0,
) -> Tensor:
    """Drawn numbers as the result of an op of `inputs`, or written into ``out``."""
    if out is not None and not isinstance(host, Tensor):
        recording = MODES.bits & GRAD and grad is not Grad.NO
        if recording and any(requires_grad_of(t) for t in inputs):
            raise RuntimeError(errors.untracked_out(fn))
        warn_resized(tensor_argument(fn, out, "out", 0), host.shape)
        return into(fn, out, host.shape, None, None, False, lambda d, v: put(host.astype(d.np), v))
    drawn = host if isinstance(host, Tensor) else from_host(host, inputs[0]._m.device)
    if MODES.bits & ~WINDOWS <= GRAD and not any(requires_grad_of(t) for t in inputs):  # nothing to record
        return drawn
    call = fills.overwriting(fn, node, tuple(range(first_edge, len(inputs))), grad)
    return apply(call, (*inputs, drawn))


# --- bernoulli ------------------------------------------------------------------------------------


def _check_chances(p: Tensor) -> np.ndarray:
    refuse("bernoulli_tensor_cpu_p_", p._m.dtype, _FLOATS)
    return concrete(p)


@composite
def bernoulli(input: Any, p: Any = MISSING, *, generator: Any = None, out: Any = None) -> Tensor:
    """Ones with the probability that each element says (or with probability `p`), else zeros."""
    t = tensor_argument("bernoulli", input, "input")
    gen = chosen("bernoulli", generator, t._m.device)
    m = t._m
    if inside_trace():
        _not_into(out)
        given = () if p is MISSING else (p,)
        found = draw_elsewhere((t,), lambda t: bernoulli(t, *given, generator=generator))
        if found is not None:
            return found
        if p is MISSING:
            refuse("bernoulli_tensor_cpu_p_", m.dtype, _FLOATS)
            numbers = _ones(t, gen)
            return _result("bernoulli", "BernoulliBackward0", (t,), numbers, out)
    if p is MISSING:
        drawn = rng.bernoulli(_check_chances(t), m.shape, m.dtype.np, generator=gen)
        return _result("bernoulli", "BernoulliBackward0", (t,), drawn, out)
    chance = real("bernoulli", "p", p, 2)
    if out is not None:
        raise unmatched("bernoulli")
    refuse("bernoulli_scalar_cpu_", m.dtype, fills._REAL)
    if inside_trace():
        run = running_vmap()
        if run is not None and run.randomness == "same" and run.varies(t):
            raise RuntimeError(errors.BATCHED_SAME)
        rows = draw(m, lambda m: laid(m, rng.bernoulli(chance, (m.numel,), m.dtype.np, generator=gen)))
        return _result("bernoulli_p", "NotImplemented", (t,), rows, None, Grad.MISSING)
    drawn = rng.bernoulli(chance, m.shape, m.dtype.np, generator=gen)
    return _result("bernoulli_p", "NotImplemented", (t,), drawn, None, Grad.MISSING)


def _ones(p: Tensor, gen: Any) -> Tensor:
    """The numbers of `bernoulli` inside of `vmap`, with these probabilities."""
    found = numbers_elsewhere((p,), lambda p: bernoulli(p, generator=gen))
    return batched.bernoulli(p, gen) if found is None else found


@composite(function=False)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with ones with probability `p`, a number or a tensor that broadcasts, else with zeros."""
    known = generator is None or isinstance(generator, rng.Generator)
    if not known or not (isinstance(p, Tensor) or is_number(p)):
        raise unmatched("bernoulli_")
    gen = chosen("bernoulli_", generator, self._m.device)
    if isinstance(p, Tensor):
        return _bernoulli_around(self, p, gen)
    chance = real("bernoulli_", "p", p, 1)

    def values(m: Meta) -> np.ndarray:
        refuse("bernoulli_scalar_cpu_", m.dtype, fills._REAL)
        return laid(m, rng.bernoulli(chance, (m.numel,), m.dtype.np, generator=gen))

    return fills.fill(self, "bernoulli_", "BernoulliBackward2", values)


def _bernoulli_around(self: Tensor, p: Tensor, gen: Any) -> Tensor:
    m = self._m
    if MODES.transforms:
        check_captured(self, "bernoulli_.Tensor")
    if MODES.bits & GRAD:
        check_inplace(self, requires_grad_of(self) or requires_grad_of(p))
    check_writable(self)
    if inside_trace():
        return _bernoulli_inside(self, p, gen)
    chances = _check_chances(p)
    try:
        chances = np.broadcast_to(chances, m.shape)
    except ValueError:
        raise RuntimeError(_not_expandable(p._m.shape, m.shape)) from None
    refuse("bernoulli_tensor_cpu_self_", m.dtype, fills._REAL)
    flat = chances.transpose(memory_order(m)).reshape(-1)
    drawn = laid(m, rng.bernoulli(flat, flat.shape, m.dtype.np, generator=gen))
    new = make(put(drawn, m.device), meta(m.shape, m.dtype, m.device))
    return apply_inplace(fills.overwriting("bernoulli_", "BernoulliBackward1", (0, 1)), (self, p, new))


def _bernoulli_inside(self: Tensor, p: Tensor, gen: Any) -> Tensor:
    """The same inside of `vmap`."""
    run = running_vmap()
    refuse("bernoulli_tensor_cpu_p_", p._m.dtype, _FLOATS)
    if run is not None and not run.inside(self):
        if run.varies(p):
            raise RuntimeError(
                errors.BATCHED_SAME
                if run.randomness == "same"
                else errors.write_outside("bernoulli", run.depth(), (), ())
            )
        if run.randomness == "different":
            raise RuntimeError(errors.BATCHED_FILL)
    p = p.expand(self._m.shape)
    new = _ones(p, gen)
    with no_grad():
        new = new.to(self._m.dtype)
    call = fills.overwriting("bernoulli_", "BernoulliBackward1", (0, 1))
    return apply_inplace(call, (self, p, new))


def _not_into(out: Any) -> None:
    """Refuse to draw into ``out=`` inside of `vmap`."""
    if out is not None:
        raise RuntimeError(errors.BATCHED_OUT)


def _not_expandable(shape: tuple[int, ...], target: tuple[int, ...]) -> str:
    extra = len(target) - len(shape)
    if extra < 0:
        return (
            f"The expanded size of the tensor ({len(target)}) must be greater or equal to the number of dimensions "
            f"in the tensor ({len(shape)})"
        )
    d = next(d for d in reversed(range(len(target))) if d >= extra and shape[d - extra] not in (1, target[d]))
    return (
        f"The expanded size of the tensor ({target[d]}) must match the existing size ({shape[d - extra]}) at "
        f"non-singleton dimension {d}.  Target sizes: {list(target)}.  Tensor sizes: {list(shape)}"
    )


# --- normal ---------------------------------------------------------------------------------------


@composite(method=False)
def normal(
    mean: Any,
    std: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = False,
    requires_grad: Any = False,
) -> Tensor:
    """Normal numbers around tensors of means and deviations, or ``size`` of them around two numbers."""
    tensors = tuple(v for v in (mean, std) if isinstance(v, Tensor))
    numbers = all(v is None or isinstance(v, Tensor) or is_number(v) for v in (mean, std))
    if mean is None or not numbers or bool(tensors) == (size is not None) or (not tensors and std is None):
        raise unmatched("normal")
    if size is not None:
        return _normals_of(mean, std, size, generator, out, (dtype, layout, device, pin_memory, requires_grad))
    m = tensors[0]._m
    refuse("normal_kernel_cpu", m.dtype, _FLOATS)
    if isinstance(out, Tensor):
        refuse("normal_kernel_cpu", out._m.dtype, _FLOATS)
    gen = chosen("normal", generator, m.device)
    node = (
        "NormalBackward3" if len(tensors) == 2 else "NormalBackward1" if isinstance(mean, Tensor) else "NormalBackward2"
    )
    if inside_trace():
        _not_into(out)
        return _normal_inside(tensors, mean, std, gen, node)
    mu = concrete(mean) if isinstance(mean, Tensor) else real("normal", "mean", mean, 1)
    sigma = concrete(std) if isinstance(std, Tensor) else 1.0 if std is None else real("normal", "std", std, 2)
    if not isinstance(sigma, np.ndarray) and not sigma >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {sigma:g}")
    shapes.broadcast_shapes(*[t._m.shape for t in tensors])
    # torch's deviations have out's shape.
    if isinstance(out, Tensor) and not isinstance(std, Tensor):
        mu = np.broadcast_to(mu, shapes.broadcast_shapes(tensors[0]._m.shape, out._m.shape))
    drawn = rng.normal_around(mu, sigma, m.dtype.np, generator=gen)
    return _result("normal", node, tensors, np.asarray(drawn), out)


def _normal_inside(tensors: tuple[Tensor, ...], mean: Any, std: Any, gen: Any, node: str) -> Tensor:
    """`normal` around tensors, inside of `vmap`."""

    def again(*given: Tensor) -> Tensor:
        it = iter(given)
        args = [next(it) if isinstance(v, Tensor) else v for v in (mean, std)]
        return normal(*args, generator=gen)

    found = draw_elsewhere(tensors, again)
    if found is not None:
        return found
    if std is None:
        std = 1.0
    elif not isinstance(std, Tensor):
        std = real("normal", "std", std, 2)
        if not std >= 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    mu = mean if isinstance(mean, Tensor) else real("normal", "mean", mean, 1)
    m = tensors[0]._m
    shape = shapes.broadcast_shapes(*[t._m.shape for t in tensors])
    drawn = numbers_elsewhere(tensors, again)
    if drawn is None:
        if isinstance(std, Tensor):
            later((std,), lambda arrays: rng.check_deviations(arrays[0]))
        plain = draw(meta(shape, m.dtype, m.device), lambda m: normals(m, gen))
        std, mu = [without_derivatives(v) if isinstance(v, Tensor) else v for v in (std, mu)]
        with no_grad():
            drawn = plain * std + mu
    return _result("normal", node, tensors, drawn, None)


def _normals_of(mean: Any, std: Any, size: Any, generator: Any, out: Any, opts: tuple[Any, ...]) -> Tensor:
    mu, sigma = real("normal", "mean", mean, 1), real("normal", "std", std, 2)
    shape = shape_of("normal", size, 3)
    dt, dev = options("normal", *opts)
    device, requires_grad = opts[2], opts[4]
    if out is not None:
        if inside_trace():
            _not_into(out)
        gen = chosen("normal", generator, tensor_argument("normal", out, "out", 0)._m.device)
        target = meta(shape, out._m.dtype, out._m.device)
        return into(
            "normal", out, shape, dt, device, requires_grad, lambda d, v: put(normals(target, gen, mu, sigma), v)
        )
    m = meta(shape, dt or dtypes.get_default_dtype(), dev)
    check_shape(shape, m.dtype.itemsize)
    gen = chosen("normal", generator, dev)
    return draw(m, lambda m: normals(m, gen, mu, sigma), requires_grad)


# --- multinomial, poisson, binomial ---------------------------------------------------------------


@composite
def multinomial(
    input: Any, num_samples: Any, replacement: Any = False, *, generator: Any = None, out: Any = None
) -> Tensor:
    """Category numbers drawn with the weights of each row."""
    t = tensor_argument("multinomial", input, "input")
    n = integer("multinomial", "num_samples", num_samples, 2)
    if not isinstance(replacement, bool):
        raise wrong("multinomial", "replacement", "bool", replacement, 3)
    if t._m.dtype not in _FLOATS:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {dtypes.scalar_type_name(t._m.dtype)}"
        )
    if out is not None and tensor_argument("multinomial", out, "out", 0)._m.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {dtypes.scalar_type_name(out._m.dtype)}")
    if t._m.ndim and t._m.shape[-1] > 2**24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    gen = chosen("multinomial", generator, t._m.device)
    if inside_trace():
        _not_into(out)
        found = draw_elsewhere((t,), again := lambda t: _rowwise(t, n, replacement, gen))
        if found is None:
            found = numbers_elsewhere((t,), again)
        return batched.multinomial(t, n, replacement, gen) if found is None else found
    by_column = memory_order(batched.waits_of(t._m)) == (1, 0)
    drawn = rng.multinomial(concrete(t), n, replacement, column_major=by_column, generator=gen)
    if out is not None:
        warn_resized(out, drawn.shape)
        return into("multinomial", out, drawn.shape, None, None, False, lambda d, v: put(drawn, v))
    return from_host(drawn, t._m.device)


def _rowwise(t: Tensor, n: int, replacement: bool, gen: Any) -> Tensor:
    """`multinomial` of any number of rows."""
    shape = t._m.shape
    rows = t.reshape(-1, shape[-1]) if len(shape) > 2 else t.contiguous()
    drawn = multinomial(rows, n, replacement, generator=gen)
    return drawn.reshape(*shape[:-1], n)


@composite(method=False)
def poisson(input: Any, generator: Any = None) -> Tensor:
    """Poisson counts of the given rates."""
    t = tensor_argument("poisson", input, "input")
    refuse("poisson_cpu", t._m.dtype, _FLOATS)
    if inside_trace():
        gen = chosen("poisson", generator, t._m.device)
        return draw_inside(
            (t,),
            lambda t: poisson(t, gen),
            lambda: batched.poisson(t, gen),
            lambda numbers: _result("poisson", "PoissonBackward0", (t,), numbers, None),
        )
    drawn = rng.poisson(concrete(t), generator=chosen("poisson", generator, t._m.device))
    return _result("poisson", "PoissonBackward0", (t,), drawn, None)


@composite(method=False)
def binomial(count: Any, prob: Any, generator: Any = None) -> Tensor:
    """Return how many of `count` trials of probability `prob` succeed."""
    n, p = tensor_argument("binomial", count, "count"), tensor_argument("binomial", prob, "prob", 2)
    for name, t in (("count", n), ("prob", p)):
        if t._m.dtype not in _FLOATS:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: {dtypes.scalar_type_name(t._m.dtype)}"
            )
    if n._m.dtype is not p._m.dtype:
        names = [dtypes.scalar_type_name(t._m.dtype) for t in (p, n)]
        raise RuntimeError(f"Found dtype {names[0]} but expected {names[1]}")
    shapes.broadcast_shapes(n._m.shape, p._m.shape)
    gen = chosen("binomial", generator, n._m.device)
    if inside_trace():
        shape = shapes.broadcast_shapes(n._m.shape, p._m.shape)
        both = (n.expand(shape), p.expand(shape))
        return draw_inside(
            both,
            lambda n, p: binomial(n, p, gen),
            lambda: batched.binomial(*both, gen),
            lambda numbers: _result("binomial", "NotImplemented", both, numbers, None, Grad.MISSING, first_edge=1),
        )
    drawn = rng.binomial(concrete(n), concrete(p), generator=gen)
    return _result("binomial", "NotImplemented", (n, p), drawn, None, Grad.MISSING, first_edge=1)
