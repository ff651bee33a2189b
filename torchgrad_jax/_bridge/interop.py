"""Both directions of interop with JAX: its functions as operators, tensor code as its functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core import devices, dtypes
from .._core.meta import Meta, meta
from .._engine import lift
from .._engine.record import apply
from .._engine.strided import read
from .._engine.tensor import Tensor, make, make_of, wrap_array
from .._engine.trace import Call

# --- tensors as pytrees ---------------------------------------------------------------------------


def _children(t: Tensor) -> tuple[tuple[Any], Any]:
    return (read(t),), (t.__class__, t._rg and t._fn is None)


def _rebuilt(told: Any, children: Any) -> Tensor:
    cls, requires = told
    (array,) = children
    if isinstance(getattr(array, "dtype", None), np.dtype):
        t = wrap_array(array)
        t = t if cls is Tensor else make_of(cls, array, t._m)
    else:  # JAX puts other things than arrays into trees for a while
        t = make_of(cls, array, meta((), dtypes.float32, devices.CPU))
    t._rg = requires
    return t


def register(cls: type[Tensor]) -> None:
    """Make instances of a class pytrees of one leaf, their array."""
    jax.tree_util.register_pytree_node(cls, _children, _rebuilt)


register(Tensor)


# --- JAX functions as operators -------------------------------------------------------------------


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


class _Kept:
    """Something that is the same for every call: compared by identity unless it is simple."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        try:
            return hash((self.value.__class__, self.value))
        except TypeError:
            return id(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Kept) or self.value.__class__ is not other.value.__class__:
            return False
        if self.value is other.value:
            return True
        simple = isinstance(self.value, int | float | complex | str | bool | bytes | tuple)
        return simple and self.value == other.value


def from_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """A JAX function as an operator on tensors, differentiable as often as JAX can.

    Args:
        f: takes and returns arrays, in any pytrees. Python values among the arguments are passed on as they are,
            and each combination of them is traced once.

    Returns:
        The same function of tensors (and arrays); it is recorded like any other operator.

    Example:
        >>> import jax.numpy as jnp
        >>> import torchgrad_jax as torch
        >>> softplus = torch.from_jax(lambda x: jnp.logaddexp(x, 0.0))
        >>> x = torch.zeros(2, requires_grad=True)
        >>> softplus(x).sum().backward()
        >>> x.grad
        tensor([0.5000, 0.5000])
    """
    calls: dict[Any, tuple[Call, list[Any]]] = {}

    @functools.wraps(f)
    def operator(*args: Any, **kwargs: Any) -> Any:
        flat, treedef = jax.tree_util.tree_flatten((args, kwargs), is_leaf=_is_tensor)
        dynamic = [i for i, x in enumerate(flat) if isinstance(x, Tensor | jax.Array | np.ndarray)]
        kept = tuple(None if i in dynamic else _Kept(x) for i, x in enumerate(flat))
        leaves = [
            x if isinstance(x, Tensor) else wrap_array(jnp.asarray(x))
            for x in (flat[i] for i in dynamic)
        ]
        key = (treedef, kept, tuple(dynamic), tuple(t._m for t in leaves))
        found = calls.get(key)
        if found is None:
            found = calls[key] = _operator(f, treedef, flat, dynamic, kept)
        call, outs = found
        results = list(apply(call, leaves))
        return jax.tree_util.tree_unflatten(outs[0], results)

    return operator


def _operator(
    f: Any, treedef: Any, flat: list[Any], dynamic: list[int], kept: Any
) -> tuple[Call, list[Any]]:
    outs: list[Any] = []

    def run(leaves: Any) -> tuple[Any, ...]:
        values = [None if k is None else k.value for k in kept]
        for i, x in zip(dynamic, leaves):
            values[i] = x
        args, kwargs = jax.tree_util.tree_unflatten(treedef, values)
        results, out_tree = jax.tree_util.tree_flatten(f(*args, **kwargs))
        outs[:] = [out_tree]
        return tuple(jnp.asarray(r) for r in results)

    name = getattr(f, "__name__", "function")
    label = "".join(p[:1].upper() + p[1:] for p in name.strip("<>").split("_"))
    call = Call(
        name, run, node_name=f"{label}Backward",
        edges=lambda keys: tuple(i for i, k in enumerate(keys) if isinstance(k, Meta) and k.dtype.category >= 2),
    )  # fmt: skip
    return call, outs


# --- tensor code as JAX functions -----------------------------------------------------------------


def as_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function over tensors as a pure JAX function over arrays, in any pytrees.

    Tensors from outside are constants of it. Gradients stop at `detach()` and under `no_grad`, as in torch.
    """

    @functools.wraps(f)
    def pure(*args: Any, **kwargs: Any) -> Any:
        flat, treedef = jax.tree_util.tree_flatten((args, kwargs))
        at = [i for i, x in enumerate(flat) if hasattr(x, "shape") and hasattr(x, "dtype")]
        arrays = [jnp.asarray(flat[i]) for i in at]
        trees: list[Any] = []

        def run(tracers: list[Any]) -> list[Any]:
            values = list(flat)
            for i, x in zip(at, tracers):
                m = meta(tuple(x.shape), dtypes.from_np(x.dtype), devices.default_device())
                values[i] = make(x, m)
                values[i]._rg = m.dtype.category >= dtypes.FLOATING
            given, named = jax.tree_util.tree_unflatten(treedef, values)
            out, out_tree = jax.tree_util.tree_flatten(f(*given, **named), is_leaf=_is_tensor)
            trees[:] = [out_tree]
            current = lift.MODES.lifts[-1]
            return [current.array_of(t) if isinstance(t, Tensor) else jnp.asarray(t) for t in out]

        avals = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
        lifted = lift.trace(run, avals, randomness="error")
        found = lifted.function()(*arrays, *[read(t) for t in lifted.captured])
        return jax.tree_util.tree_unflatten(trees[0], found)

    return pure


__all__ = ["as_jax", "from_jax", "register"]
