"""Kernels taken step by step instead of compiled, for many programs in little time.

What a random program costs is compiling kernels that nothing else uses. Here a kernel is traced as ever, and its
steps run one after the other: those that only move or compare numbers, or round once, in numpy, the others by
their own compiled primitive, of which there are few. The engine above notices nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core
import numpy as np

_jit = jax.jit
_SUBROUTINES = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}


def install() -> None:
    """Let `jax.jit` make such kernels from now on; what is imported already is not changed."""
    if "torchgrad_jax" in sys.modules:
        raise RuntimeError("kernels are taken step by step only if nothing was compiled before")
    jax.jit = _make


def _make(fn: Callable[..., Any], **options: Any) -> Any:
    return _jit(fn, **options) if options else Unfused(fn)


class Unfused:
    """A function that is traced once per shapes and dtypes, and run step by step."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn, self.compiled = fn, _jit(fn)
        self.known: dict[Any, tuple[Any, Any]] = {}

    def __call__(self, *args: Any) -> Any:
        leaves, tree = jax.tree.flatten(args)
        if any(isinstance(x, jax.core.Tracer) for x in leaves):
            return self.compiled(*args)
        key = (tree, tuple([_about(x) for x in leaves]))
        found = self.known.get(key)
        if found is None:
            closed, out = jax.make_jaxpr(self.fn, return_shape=True)(*args)
            found = self.known[key] = (closed, jax.tree.structure(out))
        closed, structure = found
        avals = closed.in_avals
        given = [np.asarray(x, a.dtype) for x, a in zip(leaves, avals)]
        with np.errstate(all="ignore"):
            outs = evaluate(closed.jaxpr, closed.consts, given)
        made = [jax.device_put(np.asarray(o, a.dtype)) for o, a in zip(outs, closed.out_avals)]
        return jax.tree.unflatten(structure, made)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)


def _about(x: Any) -> Any:
    if isinstance(x, jax.Array):
        return x.shape, x.dtype, x.weak_type
    return (x.shape, x.dtype) if isinstance(x, np.ndarray | np.generic) else type(x)


def evaluate(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """The results of a list of steps."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, [np.asarray(c) for c in consts]))
    env.update(zip(jaxpr.invars, args))

    def read(v: Any) -> Any:
        return np.asarray(v.val, v.aval.dtype) if isinstance(v, jax.extend.core.Literal) else env[v]

    for eqn in jaxpr.eqns:
        outs = _step(eqn, [read(v) for v in eqn.invars])
        env.update(zip(eqn.outvars, outs))
    return [read(v) for v in jaxpr.outvars]


def _step(eqn: Any, xs: list[Any]) -> Sequence[Any]:
    name = eqn.primitive.name
    inner = eqn.params.get(_SUBROUTINES.get(name))
    if inner is not None:
        return evaluate(inner.jaxpr, inner.consts, xs)
    by_numpy = _NUMPY.get(name)
    if by_numpy is not None and not any(x.dtype.itemsize == 2 and x.dtype.kind not in "iu" for x in xs):
        out = by_numpy(*xs, **eqn.params)
        if out is not None:
            return [np.asarray(out, eqn.outvars[0].aval.dtype)]
    outs = eqn.primitive.bind(*xs, **eqn.params)
    return [np.asarray(o) for o in (outs if eqn.primitive.multiple_results else [outs])]


# --- primitives whose result no library can round differently ---------------------------------------


def _plain(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs, **params: ufunc(*xs)


def _div(x: Any, y: Any, **params: Any) -> Any:
    return np.divide(x, y) if x.dtype.kind == "f" else None


def _order(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y, **params: None if x.dtype.kind == "c" else ufunc(x, y)


def _multiply(x: Any, y: Any, **params: Any) -> Any:
    return None if x.dtype.kind == "c" else np.multiply(x, y)


def _convert(x: Any, *, new_dtype: Any, **params: Any) -> Any:
    kind = np.dtype(new_dtype).kind
    if (x.dtype.kind in "fc" and kind in "iub") or (x.dtype.kind == "c" and kind != "c"):
        return None
    return x.astype(new_dtype)


def _broadcast(x: Any, *, shape: Any, broadcast_dimensions: Any, **params: Any) -> Any:
    sizes = [1] * len(shape)
    for n, d in zip(np.shape(x), broadcast_dimensions):
        sizes[d] = n
    return np.broadcast_to(np.reshape(x, sizes), shape)


def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    return x[tuple(map(slice, start_indices, limit_indices, strides or (1,) * x.ndim))]


def _pad(x: Any, value: Any, *, padding_config: Any) -> Any:
    if any(low < 0 or high < 0 for low, high, _ in padding_config):
        return None
    sizes = [low + high + n + max(n - 1, 0) * inner for n, (low, high, inner) in zip(x.shape, padding_config)]
    out = np.full(sizes, value, x.dtype)
    out[
        tuple(
            slice(low, low + max(n - 1, 0) * (inner + 1) + (n > 0), inner + 1)
            for n, (low, _, inner) in zip(x.shape, padding_config)
        )
    ] = x
    return out


def _select(which: Any, *cases: Any) -> Any:
    if len(cases) != 2 or which.dtype != np.bool_:
        return None
    return np.where(which, cases[1], cases[0])


def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Any) -> Any:
    return x[_clamped(x.shape, slice_sizes, starts)]


def _dynamic_update_slice(x: Any, y: Any, *starts: Any) -> Any:
    out = np.array(x)
    out[_clamped(x.shape, y.shape, starts)] = y
    return out


def _clamped(shape: Any, sizes: Any, starts: Any) -> tuple[slice, ...]:
    firsts = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, shape, sizes)]
    return tuple(slice(s, s + k) for s, k in zip(firsts, sizes))


def _iota(*xs: Any, dtype: Any, shape: Any, dimension: Any, **params: Any) -> Any:
    along = np.arange(shape[dimension]).astype(dtype)
    return _broadcast(along, shape=shape, broadcast_dimensions=(dimension,))


def _sum(x: Any, *, axes: Any, **params: Any) -> Any:
    return np.sum(x, axis=axes, dtype=x.dtype)


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": _plain(np.add), "sub": _plain(np.subtract), "mul": _multiply, "div": _div,
    "neg": _plain(np.negative), "max": _order(np.maximum), "min": _order(np.minimum),
    "abs": lambda x: None if x.dtype.kind == "c" else np.abs(x),
    "eq": _plain(np.equal), "ne": _plain(np.not_equal), "lt": _order(np.less),
    "le": _order(np.less_equal), "gt": _order(np.greater), "ge": _order(np.greater_equal),
    "and": _plain(np.bitwise_and), "or": _plain(np.bitwise_or), "xor": _plain(np.bitwise_xor),
    "not": _plain(np.invert), "is_finite": _plain(np.isfinite), "floor": lambda x, **p: np.floor(x),
    "ceil": lambda x, **p: np.ceil(x), "sqrt": lambda x, **p: None if x.dtype.kind == "c" else np.sqrt(x),
    "square": lambda x: None if x.dtype.kind == "c" else np.square(x),
    "real": _plain(np.real), "imag": _plain(np.imag), "conj": lambda x, **p: np.conj(x),
    "convert_element_type": _convert, "broadcast_in_dim": _broadcast, "slice": _slice,
    "reshape": lambda x, *, new_sizes, **p: np.reshape(x, new_sizes),
    "squeeze": lambda x, *, dimensions: np.squeeze(x, tuple(dimensions)),
    "transpose": lambda x, *, permutation: np.transpose(x, permutation),
    "rev": lambda x, *, dimensions: np.flip(x, dimensions),
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "pad": _pad, "select_n": _select, "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice, "iota": _iota, "copy": _plain(np.asarray),
    "stop_gradient": _plain(np.asarray), "reduce_sum": _sum,
    "reduce_max": lambda x, *, axes, **p: None if x.dtype.kind == "c" else np.max(x, axis=axes) if x.size else None,
    "reduce_min": lambda x, *, axes, **p: None if x.dtype.kind == "c" else np.min(x, axis=axes) if x.size else None,
    "reduce_and": lambda x, *, axes, **p: np.bitwise_and.reduce(x, axis=tuple(axes)) if x.dtype == bool else None,
    "reduce_or": lambda x, *, axes, **p: np.bitwise_or.reduce(x, axis=tuple(axes)) if x.dtype == bool else None,
}  # fmt: skip
