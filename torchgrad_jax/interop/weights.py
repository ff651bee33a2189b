"""Weights to and from the layouts of flax and equinox.

A layer of flax names its weights differently and lays them out differently: the kernel of a `Dense` is the transpose of
a `Linear`'s weight, and that of a `Conv` is HWIO. The tables below have one row for each kind of layer:

    _FLAX[nn.Linear]        # {"weight": ...} <-> {"params.kernel": ..., "params.bias": ...}

Every function here is one of arrays, so that gradients are compared by it as well:

    assert_matches_jax(net, flax_net.apply, [x], params=lambda state: weights.to_flax(net, state))

Begin with `_Layout`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._bridge.jax_side.interop import as_jax
from .._core.jax.x64 import narrowed_tree
from .._engine.graph.record import no_grad
from .._functions.exchange import as_tensor
from ..nn import modules as nn
from ..nn.modules.module import Module

_Arrays = dict[str, Any]
"""Arrays by name: those of a layer here, or of one there by its path, with dots."""


class _Layout(NamedTuple):
    """How weights of one kind of layer look there.

    Attributes:
        there: of the layer and its arrays by name, the arrays by path.
        here: of the layer and the arrays by path, those by name.
    """

    there: Callable[[Any, _Arrays], _Arrays]
    here: Callable[[Any, _Arrays], _Arrays]


def to_flax(
    module: Module, state: Mapping[str, Any] | None = None, *, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Convert the weights of a module to the variables of a module of flax, for `flax_module.apply`.

    Args:
        module: one layer, or a module of layers: Linear, convolutions, Embedding, norms, MultiheadAttention, LSTM, GRU,
            RNN. The variables of a layer inside of it stand under its name here.
        state: other arrays to take in place of the module's own, by the names of its `state_dict`.
        names: the names of layers in flax, by their names here: `{"0": "Dense_0", "encoder.0": "Encoder_0.Dense_0"}`.

    Returns:
        A dict of arrays with the keys "params" and, if there are running statistics, "batch_stats".

    Example:
        >>> import torchgrad_jax as torch
        >>> layer = torch.nn.Linear(3, 2)
        >>> variables = torch.interop.weights.to_flax(layer)
        >>> variables["params"]["kernel"].shape, variables["params"]["bias"].shape
        ((3, 2), (2,))
    """
    flat = _there(module, _FLAX, state, _in_collection(names))
    return _nested(narrowed_tree(flat))


def from_flax(module: Module, variables: Mapping[str, Any], *, names: Mapping[str, str] | None = None) -> None:
    """Give a module the weights of a module of flax.

    Args:
        module: gets them.
        variables: those of the module of flax: a dict with the key "params", and "batch_stats" if there are such.
        names: as for `to_flax`.

    Raises:
        ValueError: an array is missing, there is one too many, or a shape is another one.
    """
    flat = dict(_flattened(variables))
    _take_here(module, _FLAX, flat, _in_collection(names))


def to_equinox(module: Module, like: Any, state: Any = None, *, names: Mapping[str, str] | None = None) -> Any:
    """Return a module of equinox with the weights of a module here.

    Args:
        module: as for `to_flax`.
        like: a module of equinox of the same form; the result is one like it.
        state: where there are batch norms, the `equinox.nn.State` of `like`, which holds their statistics.
        names: the places of layers in `like`, by their names here: `{"0": "layers[0]"}`. By default they have the
            names that they have here, and a number is a place in a list, or in the `layers` of a `Sequential`.

    Returns:
        The module of equinox; with `state`, that and the state with the statistics.
    """
    import equinox

    named = _in_tree(names)
    norms = _norms_with_statistics(module, named, state, "to_equinox")
    flat = narrowed_tree(_there(module, _EQUINOX, None, named))
    paths = list(flat)
    found = [_at(like, path) for path in paths]
    for path, old in zip(paths, found):
        if old is None or old.shape != flat[path].shape:
            raise ValueError(
                f"to_equinox: {path} has shape {tuple(flat[path].shape)} here and {getattr(old, 'shape', None)} there"
            )
    _refuse_others(like, paths, found)
    model = equinox.tree_at(lambda m: [_at(m, path) for path in paths], like, [flat[path] for path in paths])
    for path, layer in norms:
        state = _with_statistics(state, _at(like, path), layer)
    return model if state is None else (model, state)


def from_equinox(module: Module, other: Any, state: Any = None, *, names: Mapping[str, str] | None = None) -> None:
    """Give a module the weights of a module of equinox.

    Args:
        module: gets them.
        other: the module of equinox.
        state: as for `to_equinox`.
        names: as for `to_equinox`.

    Raises:
        ValueError: an array is missing, there is one too many, or a shape is another one.
    """
    named = _in_tree(names)
    norms = _norms_with_statistics(module, named, state, "from_equinox")
    wanted = [*_there(module, _EQUINOX, None, named)]
    found = {path: _at(other, path) for path in wanted}
    _refuse_others(other, wanted, list(found.values()))
    _take_here(module, _EQUINOX, found, named)
    for path, layer in norms:
        _take_statistics(layer, state, _at(other, path))


def assert_outputs_agree(
    module: Module, f: Callable[..., Any], *inputs: Any, rtol: float = 1e-5, atol: float = 1e-5
) -> None:
    """Raise unless a module and a function of JAX's give the same: that weights have arrived.

    Args:
        module: called with tensors of the inputs.
        f: called with arrays of the inputs, such as `lambda x: flax_module.apply(variables, x)`.
        *inputs: arrays or tensors.
        rtol: how far the results may differ, relative to them.
        atol: how far they may differ besides.

    Raises:
        AssertionError: the results differ, with the place where they differ most.
    """
    arrays = [narrowed_tree(jnp.asarray(x)) for x in inputs]
    with no_grad():
        ours, theirs = jax.tree.leaves(as_jax(module)(*arrays)), jax.tree.leaves(f(*arrays))
    if len(ours) != len(theirs):
        raise AssertionError(f"{len(ours)} results here, {len(theirs)} there")
    for i, (a, b) in enumerate(zip(map(np.asarray, ours), map(np.asarray, theirs))):
        if a.shape != b.shape:
            raise AssertionError(f"result {i} has shape {a.shape} here and {b.shape} there")
        excess = np.abs(a - b) - rtol * np.abs(b) - atol
        if a.size and not (worst := excess.max()) <= 0:
            at = np.unravel_index(np.nanargmax(excess) if not np.isnan(worst) else np.argmax(np.isnan(excess)), a.shape)
            raise AssertionError(f"result {i} is {a[at]} here and {b[at]} there, at {tuple(map(int, at))}")


# --- one module after another --------------------------------------------------------------------------


def _layers(module: Module, layouts: Mapping[type, _Layout]) -> Iterator[tuple[str, Module, _Layout]]:
    """Name and layout of each layer with weights."""
    inside = set[str]()
    for name, layer in module.named_modules():
        if any(name.startswith(f"{outer}.") or not outer for outer in inside):
            continue
        layout = next((found for cls, found in layouts.items() if isinstance(layer, cls)), None)
        if layout is not None:
            inside.add(name)
            yield name, layer, layout
        elif [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]:
            raise NotImplementedError(
                f"weights: there is no layout for {name or 'the module'}, a {type(layer).__name__}; there is one for "
                + ", ".join(sorted(cls.__name__ for cls in layouts))
            )


def _there(
    module: Module, layouts: Mapping[type, _Layout], state: Mapping[str, Any] | None, named: Callable[[str, str], str]
) -> _Arrays:
    arrays = _own(module) if state is None else dict(state)
    flat: _Arrays = {}
    for name, layer, layout in _layers(module, layouts):
        prefix = f"{name}." if name else ""
        own = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        flat |= {named(name, path): v for path, v in layout.there(layer, own).items()}
    return flat


def _own(module: Module) -> _Arrays:
    return {name: jnp.asarray(t.detach()) for name, t in module.state_dict().items()}


def _take_here(
    module: Module, layouts: Mapping[type, _Layout], flat: _Arrays, named: Callable[[str, str], str]
) -> None:
    new: _Arrays = {}
    left = dict(flat)
    for name, layer, layout in _layers(module, layouts):
        own = {k: jnp.asarray(v.detach()) for k, v in layer.state_dict().items()}
        shapes = {path: v.shape for path, v in layout.there(layer, own).items()}
        given = {}
        for path, shape in shapes.items():
            there = named(name, path)
            if left.get(there) is None:
                raise ValueError(f"weights: {there} is missing; there are {', '.join(sorted(flat))}")
            given[path] = jnp.asarray(left.pop(there))
            if given[path].shape != shape:
                raise ValueError(f"weights: {there} has shape {given[path].shape}, and {shape} is wanted")
        found = layout.here(layer, given)
        new |= {(f"{name}.{k}" if name else k): v for k, v in found.items()}
    if left:
        raise ValueError(f"weights: no layer takes {', '.join(sorted(left))}")
    tensors = module.state_dict()
    with no_grad():
        for name, array in new.items():
            tensors[name].copy_(as_tensor(np.array(array)))


def _in_collection(names: Mapping[str, str] | None) -> Callable[[str, str], str]:
    """The path in flax's variables of a path in a layer, which begins with the collection."""

    def named(layer: str, path: str) -> str:
        collection, rest = path.split(".", 1)
        return ".".join(filter(None, (collection, (names or {}).get(layer, layer), rest)))

    return named


def _in_tree(names: Mapping[str, str] | None) -> Callable[[str, str], str]:
    return lambda layer, path: ".".join(filter(None, ((names or {}).get(layer, layer), path)))


def _flattened(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _flattened(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, getattr(tree, "value", tree)


def _nested(flat: _Arrays) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, leaf in flat.items():
        *outer, last = path.split(".")
        node = tree
        for key in outer:
            node = node.setdefault(key, {})
        node[last] = leaf
    return tree


def _at(tree: Any, path: str) -> Any:
    """Return what stands in a module of equinox under a path such as "layers[0].weight"."""
    for part in re.findall(r"[^.\[\]]+", path):
        if not part.isdigit():
            tree = getattr(tree, part)
        else:
            tree = (tree if isinstance(tree, Sequence) else tree.layers)[int(part)]
    return tree


def _refuse_others(tree: Any, paths: Sequence[str], found: Sequence[Any]) -> None:
    """Raise if a module of equinox has an array that none of the paths leads to."""
    known = {id(x) for x in found}
    other = [
        jax.tree_util.keystr(path)
        for path, x in jax.tree_util.tree_leaves_with_path(tree)
        if isinstance(x, jax.Array | np.ndarray) and id(x) not in known
    ]
    if other:
        raise ValueError(f"weights: no layer here has {', '.join(other)}; there are {', '.join(paths)}")


# --- statistics of batch norms in equinox -----------------------------------------------------------------


def _norms_with_statistics(
    module: Module, named: Callable[[str, str], str], state: Any, caller: str
) -> list[tuple[str, Any]]:
    """The batch norms of a module, by their paths in equinox."""
    found = [
        (named(name, ""), layer) for name, layer, _ in _layers(module, _EQUINOX) if isinstance(layer, _BATCH_NORMS)
    ]
    for path, layer in found:
        if state is None:
            raise ValueError(f"{caller}: equinox keeps the statistics of the batch norm {path} apart; give its state=")
        if layer.running_mean is None:
            raise ValueError(f"{caller}: the batch norm {path} has no statistics here, and equinox needs them")
    return found


def _with_statistics(state: Any, norm: Any, layer: Any) -> Any:
    """The state of equinox with the statistics of a batch norm here."""
    batches = int(layer.num_batches_tracked)
    if norm.mode == "ema":
        state = state.set(norm.ema_first_time_index, jnp.asarray(batches == 0))
        index, share = norm.ema_state_index, np.float32(1)
    else:
        state = state.set(norm.batch_counter, jax.lax.full_like(state.get(norm.batch_counter), batches))
        index, share = norm.batch_state_index, _share(norm, batches)
    held = zip((layer.running_mean, layer.running_var), state.get(index), strict=True)
    return state.set(index, tuple(jnp.asarray(np.asarray(t.detach()) * share, old.dtype) for t, old in held))


def _take_statistics(layer: Any, state: Any, norm: Any) -> None:
    """Give a batch norm here the statistics that equinox has."""
    if norm.mode == "ema":
        if state.get(norm.ema_first_time_index):
            layer.reset_running_stats()
            return
        batches, share = max(1, int(layer.num_batches_tracked)), np.float32(1)  # equinox does not count them
        found = state.get(norm.ema_state_index)
    else:
        batches = int(state.get(norm.batch_counter))
        share, found = _share(norm, batches), state.get(norm.batch_state_index)
    with no_grad():
        for t, value in zip((layer.running_mean, layer.running_var), found, strict=True):
            t.copy_(as_tensor(np.asarray(value) / share))
        layer.num_batches_tracked.fill_(batches)


def _share(norm: Any, batches: int) -> np.float32:
    """The share of the batches so far in a mean that began with zero: equinox divides by it in inference."""
    return np.float32(1) - np.float32(norm.momentum) ** np.float32(batches) if batches else np.float32(1)


# --- layouts -------------------------------------------------------------------------------------------


def _same(x: Any) -> Any:
    return x


def _each(*rows: tuple[str, str, Callable[[Any], Any], Callable[[Any], Any]]) -> _Layout:
    """A layout in which each array is one array there: (name here, path there, there, here)."""

    def there(layer: Any, own: _Arrays) -> _Arrays:
        return {path: to(own[name]) for name, path, to, _ in rows if name in own}

    def here(layer: Any, found: _Arrays) -> _Arrays:
        return {name: back(found[path]) for name, path, _, back in rows if path in found}

    return _Layout(there, here)


def _renamed(**paths: str) -> _Layout:
    return _each(*[(name, path, _same, _same) for name, path in paths.items()])


def _transposed(x: Any) -> Any:
    return x.T


def _to_hwio(x: Any) -> Any:
    return x.transpose(*range(2, x.ndim), 1, 0)


def _from_hwio(x: Any) -> Any:
    return x.transpose(x.ndim - 1, x.ndim - 2, *range(x.ndim - 2))


def _flipped(x: Any) -> Any:
    """In reverse order along the dimensions after the first two."""
    return jnp.flip(x, tuple(range(2, x.ndim)))


def _to_flax_transposed(x: Any) -> Any:
    """From (in, out, ...) to (..., in, out): flax does not turn the kernel around, as a gradient of `Conv` would."""
    return _flipped(x).transpose(*range(2, x.ndim), 0, 1)


def _from_flax_transposed(x: Any) -> Any:
    return _flipped(x.transpose(x.ndim - 2, x.ndim - 1, *range(x.ndim - 2)))


def _ungrouped(layout: _Layout) -> _Layout:
    def there(layer: Any, own: _Arrays) -> _Arrays:
        if layer.groups != 1:
            raise NotImplementedError(f"weights: a {type(layer).__name__} with groups={layer.groups}")
        return layout.there(layer, own)

    return _Layout(there, layout.here)


_HEADS = ("query", "key", "value")


def _heads(layer: Any, own: _Arrays) -> dict[str, Any]:
    """Weight and bias for queries, keys and values."""
    if layer.bias_k is not None:
        raise NotImplementedError("weights: a MultiheadAttention with add_bias_kv")
    if "in_proj_weight" in own:
        parts = dict(zip(_HEADS, jnp.split(own["in_proj_weight"], 3)))
    else:
        parts = {name: own[f"{name[0]}_proj_weight"] for name in _HEADS}
    biases = jnp.split(own["in_proj_bias"], 3) if own.get("in_proj_bias") is not None else (None, None, None)
    return {name: (parts[name], bias) for name, bias in zip(_HEADS, biases)}


def _from_heads(layer: Any, parts: Mapping[str, tuple[Any, Any]]) -> _Arrays:
    if layer.in_proj_weight is not None:
        found = {"in_proj_weight": jnp.concatenate([parts[name][0] for name in _HEADS])}
    else:
        found = {f"{name[0]}_proj_weight": parts[name][0] for name in _HEADS}
    if layer.in_proj_bias is not None:
        found["in_proj_bias"] = jnp.concatenate([parts[name][1] for name in _HEADS])
    return found


def _attention_to_flax(layer: Any, own: _Arrays) -> _Arrays:
    heads, found = layer.num_heads, {}
    for name, (weight, bias) in _heads(layer, own).items():
        found[f"params.{name}.kernel"] = weight.T.reshape(weight.shape[1], heads, -1)
        if bias is not None:
            found[f"params.{name}.bias"] = bias.reshape(heads, -1)
    out = own["out_proj.weight"]
    found["params.out.kernel"] = out.T.reshape(heads, -1, out.shape[0])
    if "out_proj.bias" in own:
        found["params.out.bias"] = own["out_proj.bias"]
    return found


def _attention_from_flax(layer: Any, found: _Arrays) -> _Arrays:
    def part(name: str) -> tuple[Any, Any]:
        kernel, bias = found[f"params.{name}.kernel"], found.get(f"params.{name}.bias")
        return kernel.reshape(kernel.shape[0], -1).T, None if bias is None else bias.reshape(-1)

    own = _from_heads(layer, {name: part(name) for name in _HEADS})
    out = found["params.out.kernel"]
    own["out_proj.weight"] = out.reshape(-1, out.shape[-1]).T
    if "params.out.bias" in found:
        own["out_proj.bias"] = found["params.out.bias"]
    return own


def _attention_to_equinox(layer: Any, own: _Arrays) -> _Arrays:
    found = {}
    for name, (weight, bias) in _heads(layer, own).items():
        found[f"{name}_proj.weight"] = weight
        if bias is not None:
            found[f"{name}_proj.bias"] = bias
    return found | {k.replace("out_proj", "output_proj"): v for k, v in own.items() if k.startswith("out_proj")}


def _attention_from_equinox(layer: Any, found: _Arrays) -> _Arrays:
    own = _from_heads(layer, {n: (found[f"{n}_proj.weight"], found.get(f"{n}_proj.bias")) for n in _HEADS})
    return own | {k.replace("output_proj", "out_proj"): v for k, v in found.items() if k.startswith("output_proj")}


def _gates(layer: Any) -> Sequence[str]:
    """The names of a cell's gates in flax, in the order in which their weights stand in one array here."""
    return "ifgo" if isinstance(layer, _LSTMS) else "rzn" if isinstance(layer, _GRUS) else [""]


def _cells(layer: Any) -> dict[str, str]:
    """By the end of the names of its weights, the name of each cell; "" for a single one."""
    if not isinstance(layer, nn.RNNBase):
        return {"": ""}
    if layer.proj_size:
        raise NotImplementedError("weights: an LSTM with proj_size")
    sides = ("", "_reverse") if layer.bidirectional else ("",)
    ends = [f"_l{k}{side}" for k in range(layer.num_layers) for side in sides]
    return {ends[0]: ""} if len(ends) == 1 else {end: f"{end[1:]}." for end in ends}


def _recurrent_to_flax(layer: Any, own: _Arrays) -> _Arrays:
    gates, found = _gates(layer), {}
    for end, cell in _cells(layer).items():
        for part, name in (("i", "weight_ih"), ("h", "weight_hh")):
            for gate, weight in zip(gates, jnp.split(own[name + end], len(gates))):
                found[f"params.{cell}{part}{gate}.kernel"] = weight.T
        bias, apart = _one_bias(layer, own, end)
        for gate, part in zip(gates, jnp.split(bias, len(gates))):
            found[f"params.{cell}{_side_of_bias(layer)}{gate}.bias"] = part
        if apart is not None:
            found[f"params.{cell}hn.bias"] = apart
    return found


def _side_of_bias(layer: Any) -> str:
    """Return which of the two sums of a gate has the bias in flax: that of the input, or that of the state."""
    return "h" if isinstance(layer, _LSTMS) else "i"


def _one_bias(layer: Any, own: _Arrays, end: str) -> tuple[Any, Any]:
    """The sum of the two biases of a cell, and what a GRU keeps apart from it: the state's bias of its last gate.

    Zeros, which flax and equinox have then, where the cell has no bias.
    """
    if f"bias_ih{end}" not in own:
        zero = jnp.zeros(own[f"weight_ih{end}"].shape[0], own[f"weight_ih{end}"].dtype)
        own = {f"bias_ih{end}": zero, f"bias_hh{end}": zero}
    first, second = own[f"bias_ih{end}"], own[f"bias_hh{end}"]
    if not isinstance(layer, _GRUS):
        return first + second, None
    begin = 2 * layer.hidden_size
    return first.at[:begin].add(second[:begin]), second[begin:]


def _two_biases(layer: Any, bias: Any, apart: Any, end: str) -> _Arrays:
    if layer.bias:
        zero = jnp.zeros_like(bias)
        return {f"bias_ih{end}": bias, f"bias_hh{end}": zero if apart is None else zero.at[-apart.size :].set(apart)}
    if any(x is not None and bool((x != 0).any()) for x in (bias, apart)):
        raise ValueError(f"weights: {type(layer).__name__} has bias=False and is given a bias")
    return {}


def _recurrent_from_flax(layer: Any, found: _Arrays) -> _Arrays:
    own: _Arrays = {}
    for end, cell in _cells(layer).items():
        for part, name in (("i", "weight_ih"), ("h", "weight_hh")):
            own[name + end] = jnp.concatenate([found[f"params.{cell}{part}{gate}.kernel"].T for gate in _gates(layer)])
        side = _side_of_bias(layer)
        bias = jnp.concatenate([found[f"params.{cell}{side}{gate}.bias"] for gate in _gates(layer)])
        own |= _two_biases(layer, bias, found.get(f"params.{cell}hn.bias"), end)
    return own


def _recurrent_to_equinox(layer: Any, own: _Arrays) -> _Arrays:
    found = {}
    for end, cell in _cells(layer).items():
        found[f"{cell}weight_ih"], found[f"{cell}weight_hh"] = own[f"weight_ih{end}"], own[f"weight_hh{end}"]
        if layer.bias:
            found[f"{cell}bias"], apart = _one_bias(layer, own, end)
            found |= {} if apart is None else {f"{cell}bias_n": apart}
    return found


def _recurrent_from_equinox(layer: Any, found: _Arrays) -> _Arrays:
    own: _Arrays = {}
    for end, cell in _cells(layer).items():
        own[f"weight_ih{end}"], own[f"weight_hh{end}"] = found[f"{cell}weight_ih"], found[f"{cell}weight_hh"]
        if layer.bias:
            own |= _two_biases(layer, found[f"{cell}bias"], found.get(f"{cell}bias_n"), end)
    return own


def _bias_of_images(layout: Callable[[Any], Any], back: Callable[[Any], Any]) -> _Layout:
    """Equinox adds a bias of shape (out, 1, ...) to an image."""

    def there(layer: Any, own: _Arrays) -> _Arrays:
        found = {"weight": layout(own["weight"])}
        if "bias" in own:
            found["bias"] = own["bias"].reshape(-1, *[1] * (own["weight"].ndim - 2))
        return found

    def here(layer: Any, found: _Arrays) -> _Arrays:
        own = {"weight": back(found["weight"])}
        return own | ({"bias": found["bias"].reshape(-1)} if "bias" in found else {})

    return _Layout(there, here)


def _swapped(x: Any) -> Any:
    """From (in, out, ...) to (out, in, ...) and back, each kernel turned around."""
    return _flipped(jnp.swapaxes(x, 0, 1))


_BIAS = ("bias", "params.bias", _same, _same)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_LSTMS = (nn.LSTM, nn.LSTMCell)
_GRUS = (nn.GRU, nn.GRUCell)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

_FLAX: dict[type, _Layout] = {
    nn.Linear: _each(("weight", "params.kernel", _transposed, _transposed), _BIAS),
    **dict.fromkeys(_CONVOLUTIONS, _each(("weight", "params.kernel", _to_hwio, _from_hwio), _BIAS)),
    **dict.fromkeys(
        _TRANSPOSED, _ungrouped(_each(("weight", "params.kernel", _to_flax_transposed, _from_flax_transposed), _BIAS))
    ),
    nn.Embedding: _renamed(weight="params.embedding"),
    nn.LayerNorm: _renamed(weight="params.scale", bias="params.bias"),
    nn.GroupNorm: _renamed(weight="params.scale", bias="params.bias"),
    nn.RMSNorm: _renamed(weight="params.scale"),
    **dict.fromkeys(
        _BATCH_NORMS,
        _renamed(
            weight="params.scale", bias="params.bias", running_mean="batch_stats.mean", running_var="batch_stats.var"
        ),
    ),
    nn.MultiheadAttention: _Layout(_attention_to_flax, _attention_from_flax),
    **dict.fromkeys((*_LSTMS, *_GRUS, nn.RNN, nn.RNNCell), _Layout(_recurrent_to_flax, _recurrent_from_flax)),
}

_EQUINOX: dict[type, _Layout] = {
    nn.Linear: _renamed(weight="weight", bias="bias"),
    **dict.fromkeys(_CONVOLUTIONS, _bias_of_images(_same, _same)),
    **dict.fromkeys(_TRANSPOSED, _ungrouped(_bias_of_images(_swapped, _swapped))),
    nn.Embedding: _renamed(weight="weight"),
    nn.LayerNorm: _renamed(weight="weight", bias="bias"),
    nn.GroupNorm: _renamed(weight="weight", bias="bias"),
    nn.RMSNorm: _renamed(weight="weight"),
    **dict.fromkeys(_BATCH_NORMS, _renamed(weight="weight", bias="bias")),
    nn.MultiheadAttention: _Layout(_attention_to_equinox, _attention_from_equinox),
    **dict.fromkeys((*_LSTMS, *_GRUS), _Layout(_recurrent_to_equinox, _recurrent_from_equinox)),
}
