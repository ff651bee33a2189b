"""Where a port parts from its original: results of each layer here, beside those of the layer there.

print(interop.compare(net, flax_net.bind(variables), x, names={"0": "Dense_0"}))

layer   there    farthest apart
0       Dense_0  0
2       Dense_1  0.31 at (4, 1): 0.58 here, 0.27 there
1 of 2 layers part; the first is 2
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from .._core.jax.x64 import narrowed_tree
from .._core.signals import contextmanager
from .._engine.graph.record import no_grad
from .._engine.memory.tensor import Tensor
from .._functions.exchange import as_tensor
from ..nn.modules.module import Module

_Results = dict[str, list[Any]]
"""By the path of a layer, the result of each of its calls."""


class Layer(NamedTuple):
    """A layer that both sides have.

    Attributes:
        name: its name here; "" is the whole module.
        there: its name there.
        agrees: whether all its results are the same but for rounding.
        apart: the largest difference; infinity where the shapes differ.
        where: in words, where that is.
    """

    name: str
    there: str
    agrees: bool
    apart: float
    where: str


class Comparison(NamedTuple):
    """What `compare` found; as text, a table.

    Attributes:
        layers: those that both sides have, in the order in which they came to their results here.
    """

    layers: list[Layer]

    @property
    def first(self) -> Layer | None:
        """The first layer that gives something else there; None if all agree."""
        return next((layer for layer in self.layers if not layer.agrees), None)

    def __str__(self) -> str:
        rows = [("layer", "there", "farthest apart")]
        for layer in self.layers:
            text = f"{layer.apart:.2g}{'' if layer.agrees else layer.where}"
            rows.append((layer.name or "(all)", layer.there or "(all)", text))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(cell.ljust(n) for cell, n in zip(row, widths)).rstrip() for row in rows]
        wrong = [layer for layer in self.layers if not layer.agrees]
        if wrong:
            lines.append(f"{len(wrong)} of {len(self.layers)} layers part; the first is {wrong[0].name or 'the whole'}")
        else:
            lines.append(f"all {len(self.layers)} layers agree")
        return "\n".join(lines)


def compare(
    module: Module,
    other: Any,
    *inputs: Any,
    call: Callable[..., Any] | None = None,
    names: Mapping[str, str] | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> Comparison:
    """Compare a module with its port to flax or equinox, layer by layer.

    Both are called once, without gradients. A result of a layer here may have its channels in dimension 1 where that of
    the other has them last.

    Args:
        module: called with tensors of the inputs; `module.eval()` first, as a rule.
        other: `flax_module.bind(variables)` of flax's linen, a module of flax's nnx, or one of equinox.
        *inputs: arrays or tensors.
        call: how the other one is called, if it is not `other(*inputs)`, as `jax.vmap(other)` for equinox.
        names: the names of layers there, by their names here; others have the same name. `layers[0]` is `layers.0`.
        rtol: how far results may differ, relative to the largest of the layer there.
        atol: how far they may differ besides.

    Raises:
        ValueError: there is no layer that both have.
    """
    arrays = [jnp.asarray(x) for x in inputs]
    ours = _results_here(module, arrays)
    theirs = _results_there(other, call, narrowed_tree(arrays))
    layers = []
    for name, results in ours.items():
        there = ".".join(re.findall(r"[^.\[\]]+", (names or {}).get(name, name)))
        if there in theirs:
            layers.append(Layer(name, there, *_apart(results, theirs[there], rtol, atol)))
    if not [layer for layer in layers if layer.name]:
        raise ValueError(
            f"compare: no layer here ({_listed(ours)}) has the name of one there ({_listed(theirs)}); "
            "say which is which: names={name here: name there}"
        )
    return Comparison(layers)


def _listed(results: _Results) -> str:
    return ", ".join(filter(None, results)) or "there are none that give arrays"


def _results_here(module: Module, arrays: Sequence[Any]) -> _Results:
    found: _Results = {}

    def noting(name: str) -> Callable[..., None]:
        return lambda layer, args, out: _note(found, name, out)

    handles = [layer.register_forward_hook(noting(name)) for name, layer in module.named_modules()]
    try:
        with no_grad():
            module(*map(as_tensor, arrays))
    finally:
        for handle in handles:
            handle.remove()
    return found


def _note(found: _Results, path: str, out: Any) -> None:
    """Keep the first array of a result, as it is now."""
    leaves = jax.tree.leaves(out, is_leaf=lambda x: isinstance(x, Tensor))
    arrays = [x for x in leaves if isinstance(x, Tensor | jax.Array | np.ndarray)]
    if arrays:
        x = arrays[0]
        _keep(found.setdefault(path, []), jnp.asarray(x.detach() if isinstance(x, Tensor) else x))


def _keep(results: list[Any], x: Any) -> None:
    """Keep an array; inside of `jax.vmap`, that of the whole batch."""
    if not isinstance(x, jax.core.Tracer):
        results.append(np.array(x))
        return

    @custom_vmap
    def passed(x: Any) -> Any:
        return x

    @passed.def_vmap
    def batched(size: int, is_batched: Any, x: Any) -> Any:
        _keep(results, x)
        return x, is_batched[0]

    passed(x)


def _results_there(other: Any, call: Callable[..., Any] | None, arrays: Sequence[Any]) -> _Results:
    linen = sys.modules.get("flax.linen")
    if linen is not None and isinstance(other, linen.Module):
        module, variables = other.unbind()
        state = module.apply(variables, *arrays, capture_intermediates=True, mutable=["intermediates"])[1]
        return {path: list(map(np.array, results)) for path, results in _calls(state["intermediates"])}
    found: _Results = {}
    with contextlib.ExitStack() as patched:
        paths = {id(layer): path for path, layer in _layers(other)}
        for cls in {type(layer) for _, layer in _layers(other)}:
            patched.enter_context(_noting(cls, paths, found))
        (call or other)(*arrays)
    return found


def _calls(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path and results of each layer of flax's linen."""
    for key, value in tree.items():
        if key == "__call__":
            yield path, value
        elif isinstance(value, Mapping):
            yield from _calls(value, f"{path}.{key}" if path else key)


def _layers(tree: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Path and object of each module inside of one of flax's nnx or of equinox, outer ones first."""
    seen = set() if seen is None else seen
    if id(tree) in seen or isinstance(tree, str):
        return
    seen.add(id(tree))
    if _is_module(tree):
        yield path, tree
    if isinstance(tree, Mapping):
        inner = [*tree.items()]
    elif isinstance(tree, Sequence):
        inner = [*enumerate(tree)]
    elif _is_module(tree):
        fields = [f.name for f in dataclasses.fields(tree)] if dataclasses.is_dataclass(tree) else [*vars(tree)]
        inner = [(name, getattr(tree, name, None)) for name in fields if not name.startswith("_")]
    else:
        return
    for key, value in inner:
        yield from _layers(value, f"{path}.{key}" if path else str(key), seen)


def _is_module(x: Any) -> bool:
    equinox, nnx = sys.modules.get("equinox"), sys.modules.get("flax.nnx")
    return any(found is not None and isinstance(x, found.Module) for found in (equinox, nnx))


@contextmanager
def _noting(cls: Any, paths: Mapping[int, str], found: _Results) -> Iterator[None]:
    """Let the modules of a class tell their results."""
    called = vars(cls).get("__call__")
    if called is None:
        yield
        return

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = called.__get__(self, cls)(*args, **kwargs)
        if id(self) in paths:
            _note(found, paths[id(self)], out)
        return out

    type.__setattr__(cls, "__call__", noted)
    try:
        yield
    finally:
        type.__setattr__(cls, "__call__", called)


def _apart(ours: Sequence[Any], theirs: Sequence[Any], rtol: float, atol: float) -> tuple[bool, float, str]:
    """Return whether the results of a layer agree, how far apart they are at most, and where."""
    if len(ours) != len(theirs):
        return False, np.inf, f": called {len(ours)} times here and {len(theirs)} times there"
    worst: tuple[bool, float, str] = (True, 0.0, "")
    for a, b in zip(ours, theirs):
        found = min(
            _of_one(a, b, rtol, atol), _of_one(_channels_last(a), b, rtol, atol), key=lambda x: (not x[0], x[1])
        )
        worst = max(worst, found, key=lambda x: (not x[0], x[1]))
    return worst


def _channels_last(a: Any) -> Any:
    return np.moveaxis(a, 1, -1) if a.ndim > 2 else a


def _of_one(a: Any, b: Any, rtol: float, atol: float) -> tuple[bool, float, str]:
    if a.shape != b.shape:
        return False, np.inf, f": shape {a.shape} here and {b.shape} there"
    if not a.size:
        return True, 0.0, ""
    off = np.abs(a.astype(np.complex128) - b)
    off = np.where(np.isnan(a) & np.isnan(b) | (a == b), 0, np.where(np.isnan(off), np.inf, off))
    at = tuple(map(int, np.unravel_index(np.argmax(off), off.shape)))
    largest = np.abs(b[np.isfinite(b)]).max(initial=0)
    return bool(off[at] <= atol + rtol * largest), float(off[at]), f" at {at}: {a[at]:.4g} here, {b[at]:.4g} there"
