"""Both directions of interop with JAX: its functions as operators, tensor code as its functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core import devices, dtypes, tree
from .._core.meta import Meta, meta
from .._core.state import MODES
from .._engine import lift
from .._engine.backward import run as run_pass
from .._engine.custom import PyNode
from .._engine.history import edge_of, grad_fn_of, requires_grad_of
from .._engine.node import accumulator
from .._engine.record import apply, zeros_for
from .._engine.strided import read
from .._engine.tensor import Tensor, make, wrap_array
from .._engine.trace import Call
from . import trees as trees

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
        trees: list[Any] = []

        def over(inputs: list[Tensor]) -> list[Any]:
            values = list(flat)
            for i, t in zip(at, inputs):
                values[i] = t
            given, named = jax.tree_util.tree_unflatten(treedef, values)
            out, out_tree = jax.tree_util.tree_flatten(f(*given, **named), is_leaf=_is_tensor)
            trees[:] = [out_tree]
            return out

        found = over_arrays(over, [jnp.asarray(flat[i]) for i in at])
        return jax.tree_util.tree_unflatten(trees[0], found)

    return pure


def over_arrays(f: Callable[[list[Tensor]], list[Any]], arrays: Sequence[Any]) -> list[Any]:
    """Run a function from tensors to tensors (and numbers) on arrays, such that JAX's derivatives are torch's."""
    plain = True

    def run(tracers: list[Any]) -> list[Any]:
        nonlocal plain
        inputs = [_input(x) for x in tracers]
        out = f(inputs)
        plain = not _has_own_gradients([*inputs, *[t for t in out if isinstance(t, Tensor)]])
        current = MODES.lifts[-1]
        return [current.array_of(t) if isinstance(t, Tensor) else jnp.asarray(t) for t in out]

    avals = [jax.typeof(a).update(weak_type=False) for a in arrays]  # with how they are sharded
    lifted = lift.trace(run, avals)
    captured = [read(t) for t in lifted.captured]
    if plain:
        return lifted.function()(*arrays, *captured)
    if any(isinstance(a, jax.core.Tracer) for a in captured):
        raise NotImplementedError(
            "to_jax: a function with hooks or custom Functions inside reads tensors from outside that JAX traces; "
            "pass them as arguments"
        )
    return list(_by_backward(f, lifted.function(), captured)(*arrays))


def _input(array: Any) -> Tensor:
    t = make(array, meta(tuple(array.shape), dtypes.from_np(array.dtype), devices.default_device()))
    t._rg = t._m.dtype.category >= dtypes.FLOATING
    return t


def _has_own_gradients(tensors: Sequence[Tensor]) -> bool:
    """Whether hooks or custom Functions say what the gradients of some tensors are."""
    if any(t._x is not None and (t._x.hooks or t._x.post_acc) for t in tensors):
        return True
    stack, seen = [grad_fn_of(t) for t in tensors], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, PyNode) or (node.extras is not None and node.extras.observed):
            return True
        stack += [edge[0] for edge in node.edges if edge is not None]
    return False


def _by_backward(f: Any, forward: Any, captured: Sequence[Any]) -> Callable[..., Any]:
    """A function with the gradients that the tensor code's own backward pass gives; to any order."""

    @jax.custom_vjp
    def run(*arrays: Any) -> tuple[Any, ...]:
        return tuple(forward(*arrays, *captured))

    def back(arrays: Any, cts: Any) -> tuple[Any, ...]:
        wanted = [i for i, a in enumerate(arrays) if jnp.issubdtype(a.dtype, jnp.inexact)]
        given = [k for k, ct in enumerate(cts) if ct.dtype != jax.dtypes.float0]

        def gradients(inputs: list[Tensor]) -> list[Any]:
            inputs, slopes = inputs[: len(arrays)], inputs[len(arrays) :]
            out = f(inputs)
            roots = [
                (out[k], g)
                for k, g in zip(given, slopes)
                if isinstance(out[k], Tensor) and requires_grad_of(out[k])
            ]
            found = run_pass(
                [edge_of(t) for t, _ in roots],  # type: ignore[misc] - those that require grad have one
                [g for _, g in roots],
                keep=True, create=True, targets=[(accumulator(inputs[i]), 0) for i in wanted], accumulate=False,
            )  # fmt: skip
            return [zeros_for(inputs[i]._m) if g is None else g for i, g in zip(wanted, found)]

        found = over_arrays(gradients, [*arrays, *[cts[k] for k in given]])
        out: list[Any] = [None] * len(arrays)
        for i, g in zip(wanted, found):
            out[i] = g
        return tuple(out)

    run.defvjp(lambda *arrays: (run(*arrays), arrays), back)
    return run


def apply_traced(f: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call `f` with tensors that JAX traces among its arguments, so that its own gradients are JAX's as well."""
    at = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
    specs: list[Any] = []

    def over(inputs: list[Tensor]) -> list[Any]:
        given = list(args)
        for i, t in zip(at, inputs):
            given[i] = t
        flat, spec = tree.flatten(f(*given))
        specs[:] = [spec, [None if isinstance(x, Tensor) else x for x in flat]]
        return [x for x in flat if isinstance(x, Tensor)]

    found = iter(over_arrays(over, [read(args[i]) for i in at]))
    spec, others = specs
    leaves = [wrap_array(next(found)) if x is None else x for x in others]
    return tree.unflatten(leaves, spec)


__all__ = ["apply_traced", "as_jax", "from_jax", "over_arrays"]
