"""Tensor code beside the same in JAX, and beside itself under torch."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._bridge.interop import as_jax
from .._core import tree
from .._engine.strided import read
from .._engine.tensor import Tensor, wrap_array

_TOLERANCE = {"float16": 1e-2, "bfloat16": 4e-2, "float32": 2e-5, "complex64": 2e-5}


def _close(what: str, got: Any, want: Any, inputs: Any, source: str, factor: float = 1.0) -> None:
    """Raise unless two trees of arrays agree; says which leaf, where, and how to see it again."""
    got_leaves, got_tree = jax.tree_util.tree_flatten(got)
    want_leaves, want_tree = jax.tree_util.tree_flatten(want)
    if got_tree != want_tree:
        raise AssertionError(f"{what}: structured {got_tree}, expected {want_tree}\n{source}")
    for i, (a, b) in enumerate(zip(got_leaves, want_leaves)):
        a, b = np.asarray(a), np.asarray(b)
        name = what if len(got_leaves) == 1 else f"{what}, output {i}"
        if a.shape != b.shape:
            raise AssertionError(
                f"{name}: shape {a.shape}, expected {b.shape}\n{_again(source, inputs)}"
            )
        if a.dtype != b.dtype:
            raise AssertionError(
                f"{name}: dtype {a.dtype}, expected {b.dtype}\n{_again(source, inputs)}"
            )
        tol = _TOLERANCE.get(a.dtype.name, 1e-10) * factor
        wide = np.complex128 if np.iscomplexobj(a) else np.float64
        x, y = a.astype(wide), b.astype(wide)
        with np.errstate(all="ignore"):
            scale = (
                max(1.0, float(np.nanmax(np.abs(y), initial=0.0))) if np.isfinite(y).any() else 1.0
            )
            bad = ~((x == y) | (np.abs(x - y) <= tol * scale) | (np.isnan(x) & np.isnan(y)))
        if bad.any():
            at = tuple(int(k) for k in np.argwhere(bad)[0])
            raise AssertionError(
                f"{name}: {int(bad.sum())} of {bad.size} elements differ, first at {at}: {a[at]!r}, "
                f"expected {b[at]!r}\n"
                f"{_again(source, inputs)}"
            )


def _again(source: str, inputs: Any) -> str:
    given = ", ".join(
        f"np.array({np.asarray(x).tolist()}, {np.asarray(x).dtype.name!r})" for x in inputs
    )
    return f"to see it again:\n{textwrap.indent(source, '    ')}\n    inputs = [{given}]"


def _source(f: Any) -> str:
    home = (getattr(f, "__module__", None) or "").partition(".")[0]
    if home in ("jax", "jaxlib", "numpy", "torch", "torchgrad_jax"):
        return f"# {f.__module__}.{getattr(f, '__name__', f)}"
    try:
        return textwrap.dedent(inspect.getsource(f)).strip()
    except (OSError, TypeError):
        return f"# {f!r}"


def assert_matches_jax(
    tensor_fn: Callable[..., Any], jax_fn: Callable[..., Any], inputs: Sequence[Any],
    order: int = 2, dtypes: Sequence[str] = ("float32", "float64"),
) -> None:  # fmt: skip
    """Raise unless a function over tensors agrees with one over arrays: values and derivatives.

    Args:
        tensor_fn: takes tensors and returns tensors, in containers if need be.
        jax_fn: the same for arrays.
        inputs: tensors or arrays; floating ones are tried in each of the dtypes.
        order: 0 compares values, 1 also gradients and Jacobian-vector products, 2 also Hessians (of the sum
            of all real outputs).
        dtypes: the dtypes to try.

    Raises:
        AssertionError: naming the dtype, the derivative, the output and the first element that differ.

    Example:
        >>> import jax.numpy as jnp
        >>> import torchgrad_jax as torch
        >>> torch.testing.assert_matches_jax(torch.sin, jnp.sin, [torch.ones(3)])
    """
    source = f"{_source(tensor_fn)}\n# against\n{_source(jax_fn)}"
    arrays = [read(x) if isinstance(x, Tensor) else jnp.asarray(x) for x in inputs]
    for name in dtypes:
        cast = [a.astype(name) if jnp.issubdtype(a.dtype, jnp.floating) else a for a in arrays]
        _one_dtype(tensor_fn, jax_fn, cast, order, name, source)


def _one_dtype(
    tensor_fn: Any, jax_fn: Any, arrays: list[Any], order: int, name: str, source: str
) -> None:
    tensors = [wrap_array(a) for a in arrays]
    want = jax_fn(*arrays)
    got = tree.map_leaves(lambda t: read(t) if isinstance(t, Tensor) else t, tensor_fn(*tensors))
    _close(f"{name}: value", got, want, arrays, source)
    at = tuple(i for i, a in enumerate(arrays) if jnp.issubdtype(a.dtype, jnp.inexact))
    if order < 1 or not at:
        return

    def total(*xs: Any) -> Any:
        leaves = jax.tree_util.tree_leaves(jax_fn(*xs))
        return sum(jnp.sum(jnp.real(x)) for x in leaves if jnp.issubdtype(x.dtype, jnp.inexact))

    for i in at:
        tensors[i].requires_grad_()
    leaves = [t for t in tree.flatten(tensor_fn(*tensors))[0] if isinstance(t, Tensor)]
    loss: Any = 0
    for t in leaves:
        if t.dtype.is_complex:
            loss = loss + t.real.sum()
        elif t.dtype.is_floating_point:
            loss = loss + t.sum()
    from ..autograd import grad

    found = grad(
        loss,
        [tensors[i] for i in at],
        create_graph=False,
        allow_unused=True,
        materialize_grads=True,
    )
    want_grads = jax.grad(total, at)(*arrays)
    conj = [jnp.conj(g) for g in want_grads]  # torch's gradient is the conjugate of JAX's
    _close(f"{name}: gradient", [read(g) for g in found], conj, arrays, source, 10.0)
    pure = as_jax(tensor_fn)
    slopes = [
        jnp.cos(jnp.arange(a.size).reshape(a.shape)).astype(a.dtype)
        if i in at
        else np.zeros(a.shape, jax.dtypes.float0)
        for i, a in enumerate(arrays)
    ]
    _close(
        f"{name}: jvp", jax.jvp(pure, arrays, slopes)[1], jax.jvp(jax_fn, arrays, slopes)[1], arrays, source, 10.0
    )  # fmt: skip
    if order < 2 or any(jnp.iscomplexobj(arrays[i]) for i in at):
        return

    def total_of_tensors(*xs: Any) -> Any:
        leaves = jax.tree_util.tree_leaves(pure(*xs))
        return sum(jnp.sum(jnp.real(x)) for x in leaves if jnp.issubdtype(x.dtype, jnp.inexact))

    _close(
        f"{name}: hessian", jax.hessian(total_of_tensors, at)(*arrays), jax.hessian(total, at)(*arrays),
        arrays, source, 100.0,
    )  # fmt: skip


def assert_matches_torch(
    fn: Callable[..., Any], inputs: Sequence[Any], *, gradients: bool = True, factor: float = 1.0,
    oracle: str = "torch",
) -> None:  # fmt: skip
    """Raise unless the same source gives the same under torch: values, dtypes, strides and gradients.

    Args:
        fn: called as ``fn(torch, *inputs)``, once with this package and once with torch for `torch`.
        inputs: arrays or tensors; floating ones require gradients.
        gradients: whether gradients of the sum of all floating outputs are compared.
        factor: a factor on the tolerances.
        oracle: the module to compare with.

    Raises:
        AssertionError: where the two differ.
        RuntimeError: when torch is not installed.

    Example:
        >>> import torchgrad_jax
        >>> f = lambda torch, x: torch.relu(x) * 2
        >>> torchgrad_jax.testing.assert_matches_torch(f, [[1.0, -1.0]])  # doctest: +SKIP
    """
    if importlib.util.find_spec(oracle) is None:
        raise RuntimeError(f"assert_matches_torch needs {oracle}, which is not installed")
    ours = importlib.import_module(__name__.partition(".")[0])
    theirs = importlib.import_module(oracle)
    if theirs is ours:
        raise RuntimeError("assert_matches_torch needs torch itself, not its alias")
    arrays = [_host(x) for x in inputs]
    source = _source(fn)
    seen = [_observed(lib, fn, arrays, gradients) for lib in (ours, theirs)]
    (error, outs, grads), (want_error, want_outs, want_grads) = seen
    if error != want_error:
        raise AssertionError(
            f"raised {error or 'nothing'}, torch raised {want_error or 'nothing'}\n{_again(source, arrays)}"
        )
    if len(outs) != len(want_outs):
        raise AssertionError(f"{len(outs)} outputs, torch gives {len(want_outs)}")
    for i, (a, b) in enumerate(zip(outs, want_outs)):
        for what, x, y in zip(("shape", "dtype", "stride", "requires_grad"), a[:4], b[:4]):
            if x != y:
                raise AssertionError(
                    f"output {i}: {what} {x}, torch's {y}\n{_again(source, arrays)}"
                )
        _close(f"output {i}", a[4], b[4], arrays, source, factor)
    for i, (g, w) in enumerate(zip(grads, want_grads)):
        if (g is None) != (w is None):
            raise AssertionError(f"gradient {i}: {g}, torch's {w}\n{_again(source, arrays)}")
        if g is not None:
            _close(f"gradient {i}", g, w, arrays, source, 10.0 * factor)


def _host(x: Any) -> np.ndarray:
    if isinstance(x, Tensor):
        return np.asarray(x.detach().numpy())
    return np.asarray(x, np.float32 if isinstance(x, list) else None)


def _observed(lib: Any, fn: Any, arrays: list[np.ndarray], gradients: bool) -> Any:
    tensors = [lib.tensor(a) for a in arrays]
    for t in tensors:
        if t.is_floating_point() or t.is_complex():
            t.requires_grad_(gradients)
    try:
        result = fn(lib, *tensors)
    except Exception as e:  # both libraries raising the same is agreement
        return type(e).__name__, [], []
    leaves = [t for t in tree.flatten(result)[0] if isinstance(t, lib.Tensor)]
    outs = [
        (
            tuple(t.shape),
            str(t.dtype).rpartition(".")[2],
            tuple(t.stride()),
            t.requires_grad,
            _array(lib, t),
        )
        for t in leaves
    ]
    live = [t for t in leaves if t.requires_grad]
    if not gradients or not live:
        return "", outs, []
    loss = sum((t.real if t.is_complex() else t).sum() for t in live)
    loss.backward()
    return "", outs, [None if t.grad is None else _array(lib, t.grad) for t in tensors]


def _array(lib: Any, t: Any) -> np.ndarray:
    t = t.detach()
    return (t.float() if t.dtype is lib.bfloat16 else t).resolve_conj().resolve_neg().numpy()


__all__ = ["assert_matches_jax", "assert_matches_torch"]
