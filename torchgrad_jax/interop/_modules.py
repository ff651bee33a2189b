"""A module of flax or equinox as one of `nn`: its arrays are parameters and buffers here, and JAX computes.

    net = interop.module(flax.linen.Dense(3), torch.ones(2, 4))
    net(x).sum().backward()        # `net.kernel.grad`
    optim.AdamW(net.parameters())

Each library has a `_Kind` below, which says what its arrays are called and how it is called with others. The call is
one operator (`from_jax`), whose inputs are the parameters, the buffers, a key, and the arguments.
"""

from __future__ import annotations

import abc
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._bridge.compile.watch.observer import unobserved
from .._bridge.jax_side.interop import from_jax
from .._core.arrays.dtypes import int64
from .._core.arrays.transfer import for_jax
from .._core.random.keys import is_key
from .._engine.graph.record import no_grad
from .._engine.memory.strided import read
from .._engine.memory.tensor import Tensor
from .._functions.exchange import as_tensor
from .._functions.random import randint
from ..nn.modules.module import Module
from ..nn.parameter import Parameter

_Arrays = dict[str, Any]
"""Arrays by path, with dots."""


class _Kind(abc.ABC):
    """A module of some library."""

    def __init__(self, other: Any) -> None:
        self.other = other

    @abc.abstractmethod
    def arrays(self, args: tuple[Any, ...]) -> tuple[_Arrays, _Arrays]:
        """Return what is learned, and other arrays."""

    @abc.abstractmethod
    def call(self, arrays: _Arrays, key: Any, training: bool, args: Any, kwargs: Any) -> tuple[Any, _Arrays]:
        """Return what the module gives with these arrays, and the arrays that it has changed."""

    @abc.abstractmethod
    def with_arrays(self, arrays: _Arrays) -> Any:
        """The module, or what stands for its arrays, with these."""

    @abc.abstractmethod
    def draws(self, training: bool) -> bool:
        """Return whether a call takes a key."""


def _paths(tree: Any) -> tuple[list[str], list[Any], Any]:
    """The path of each leaf, with dots, the leaves, and the structure."""
    found, structure = jax.tree_util.tree_flatten_with_path(tree)
    paths = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in found]
    return paths, [leaf for _, leaf in found], structure


def _is_learned(x: Any) -> bool:
    return not is_key(x) and jnp.issubdtype(x.dtype, jnp.inexact)


class _Equinox(_Kind):
    """A module of equinox: a tree whose leaves are arrays, and functions and other things besides."""

    def draws(self, training: bool) -> bool:
        key = inspect.signature(type(self.other).__call__).parameters.get("key")
        return key is not None and (training or key.default is key.empty)

    def arrays(self, args: tuple[Any, ...]) -> tuple[_Arrays, _Arrays]:
        paths, leaves, _ = _paths(self.other)
        found = {p: x for p, x in zip(paths, leaves) if isinstance(x, jax.Array | np.ndarray)}
        learned = {p: x for p, x in found.items() if _is_learned(x)}
        return learned, {p: x for p, x in found.items() if p not in learned}

    def call(self, arrays: _Arrays, key: Any, training: bool, args: Any, kwargs: Any) -> tuple[Any, _Arrays]:
        import equinox

        module = equinox.nn.inference_mode(self.with_arrays(arrays), not training)
        if key is not None:
            kwargs = {"key": key} | kwargs
        return module(*args, **kwargs), {}

    def with_arrays(self, arrays: _Arrays) -> Any:
        paths, leaves, structure = _paths(self.other)
        return structure.unflatten([arrays.get(p, x) for p, x in zip(paths, leaves)])


_SWITCHES = {"train": True, "training": True, "is_training": True, "deterministic": False, "use_running_average": False}
"""Arguments by which a `__call__` of flax.linen is told that it trains."""


class _Linen(_Kind):
    """A module of flax.linen, whose arrays it makes for an example."""

    def __init__(self, other: Any, variables: Mapping[str, Any] | None, rngs: tuple[str, ...]) -> None:
        super().__init__(other)
        self.variables, self.rngs = variables, rngs

    def draws(self, training: bool) -> bool:
        return training and bool(self.rngs)

    def arrays(self, args: tuple[Any, ...]) -> tuple[_Arrays, _Arrays]:
        if self.variables is None:
            keys = dict(zip(("params", *self.rngs), jax.random.split(_key(_words()), 1 + len(self.rngs))))
            self.variables = self.other.init(keys, *args, **self._switches({}, False))
        paths, leaves, self.structure = _paths(dict(self.variables))
        self.paths = paths
        found = dict(zip(paths, leaves))
        learned = {p: x for p, x in found.items() if p.startswith("params.")}
        return learned, {p: x for p, x in found.items() if p not in learned}

    def _switches(self, kwargs: Any, training: bool) -> Any:
        call = type(self.other).__call__
        return {k: v is training for k, v in _SWITCHES.items() if _takes(call, k)} | kwargs

    def call(self, arrays: _Arrays, key: Any, training: bool, args: Any, kwargs: Any) -> tuple[Any, _Arrays]:
        variables = self.with_arrays(arrays)
        changing = sorted(set(variables) - {"params"}) if training else []
        rngs = None if key is None else dict(zip(self.rngs, jax.random.split(key, len(self.rngs))))
        kwargs = self._switches(kwargs, training)
        if not changing:
            return self.other.apply(variables, *args, rngs=rngs, **kwargs), {}
        out, changed = self.other.apply(variables, *args, rngs=rngs, mutable=changing, **kwargs)
        paths, leaves, _ = _paths(dict(changed))
        return out, {p: x for p, x in zip(paths, leaves) if p in arrays}

    def with_arrays(self, arrays: _Arrays) -> Any:
        return self.structure.unflatten([arrays[p] for p in self.paths])


class _Nnx(_Kind):
    """A module of flax.nnx, which holds its arrays. Its streams of random numbers restart with the key of a call."""

    def draws(self, training: bool) -> bool:
        from flax import nnx

        return training and any(issubclass(v.type, nnx.RngKey) for v in self.state.values())

    def arrays(self, args: tuple[Any, ...]) -> tuple[_Arrays, _Arrays]:
        from flax import nnx

        self.graph, state = nnx.split(self.other)
        self.state = {".".join(map(str, path)): v for path, v in nnx.to_flat_state(state)}
        found = {p: v[...] for p, v in self.state.items() if not issubclass(v.type, nnx.RngState)}
        learned = {p: x for p, x in found.items() if issubclass(self.state[p].type, nnx.Param)}
        return learned, {p: x for p, x in found.items() if p not in learned}

    def _merged(self, arrays: _Arrays, key: Any) -> Any:
        from flax import nnx

        def value(path: str, i: int) -> Any:
            kind = self.state[path].type
            if key is not None and issubclass(kind, nnx.RngKey):
                return jax.random.fold_in(key, i)
            return arrays.get(path, self.state[path][...])

        flat = [
            (path, self.state[name].replace(value(name, i)))
            for i, (path, name) in enumerate(zip(self._keys(), self.state))
        ]
        return nnx.merge(self.graph, nnx.from_flat_state(flat))

    def _keys(self) -> list[Any]:
        from flax import nnx

        return [path for path, _ in nnx.to_flat_state(nnx.state(self.other))]

    def call(self, arrays: _Arrays, key: Any, training: bool, args: Any, kwargs: Any) -> tuple[Any, _Arrays]:
        from flax import nnx

        module = self._merged(arrays, key)
        (module.train if training else module.eval)()
        out = module(*args, **kwargs)
        if not training:
            return out, {}
        after = {".".join(map(str, path)): v for path, v in nnx.to_flat_state(nnx.state(module))}
        changing = [p for p in arrays if not issubclass(self.state[p].type, nnx.Param)]
        return out, {p: after[p][...] for p in changing}

    def with_arrays(self, arrays: _Arrays) -> Any:
        return self._merged(arrays, None)


def _takes(f: Any, name: str) -> bool:
    return name in inspect.signature(f).parameters


def _key(words: Any) -> Any:
    return jax.random.wrap_key_data(jnp.asarray(words).astype(jnp.uint32), impl="threefry2x32")


def _words() -> Tensor:
    """The words of a key, from the generator of this package."""
    return randint(0, 2**32, (2,), dtype=int64)


class JaxModule(Module):
    """A module of flax or equinox, made by `interop.module`. Its parameters have the names that they have there."""

    def __init__(self, kind: Any, args: tuple[Any, ...], call: Callable[..., Any] | None) -> None:
        super().__init__()
        self._kind, self._call = kind, call
        learned, others = kind.arrays(args)
        self._path_of: dict[str, str] = {}
        for arrays, is_learned in ((learned, True), (others, False)):
            for path, array in arrays.items():
                part, name = self._part(path.removeprefix("params."))
                tensor = as_tensor(jnp.array(array))
                if is_learned:
                    part.register_parameter(name, Parameter(tensor))
                else:
                    part.register_buffer(name, tensor)
                self._path_of[path.removeprefix("params.")] = path
        self._operator = from_jax(self._run)

    def _part(self, path: str) -> tuple[Module, str]:
        part: Module = self
        *outer, name = path.split(".")
        for each in outer:
            if each not in part._modules:
                part.add_module(each, Module())
            part = part._modules[each]  # type: ignore[assignment]
        return part, name

    def _arrays(self) -> dict[str, Any]:
        named = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        return {path: named[name] for name, path in self._path_of.items()}

    def _run(self, arrays: Any, words: Any, training: bool, args: Any, kwargs: Any) -> Any:
        key = None if words is None else _key(words)

        def result(*args: Any, **kwargs: Any) -> tuple[Any, _Arrays]:
            with unobserved():  # libraries count their modules, and more such, which no program has to repeat
                return self._kind.call(arrays, key, training, args, kwargs)

        if self._call is None:
            return result(*args, **kwargs)
        return self._call(lambda *args, **kwargs: result(*args, **kwargs)[0], *args, **kwargs), {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module; in training it draws its random numbers from the generator of this package."""
        words = _words() if self._kind.draws(self.training) else None
        out, changed = self._operator(self._arrays(), words, self.training, args, kwargs)
        if changed:
            held = self._arrays()
            with no_grad():
                for path, value in changed.items():
                    held[path].copy_(value)
        return out

    def original(self) -> Any:
        """Return the module of equinox or flax.nnx with the weights of this one; of flax.linen, its variables."""
        return self._kind.with_arrays({path: for_jax(read(t)) for path, t in self._arrays().items()})


def module(
    other: Any,
    *example: Any,
    variables: Mapping[str, Any] | None = None,
    rngs: tuple[str, ...] = ("dropout",),
    call: Callable[..., Any] | None = None,
) -> JaxModule:
    """Wrap a module of flax or equinox as an `nn.Module`: its arrays are parameters and buffers, by their names there.

    Gradients, optimizers, `state_dict`, `to_jax` and `compile` work as for other modules. Random numbers come from the
    generator of this package, in training alone. `train()` and `eval()` reach a module of equinox and flax.nnx as their
    own, and one of flax.linen as the argument `train`, `training`, `deterministic` or `use_running_average`.

    Args:
        other: a module of flax.linen, flax.nnx or equinox.
        *example: what a module of flax.linen is called with, from which it makes its arrays.
        variables: those arrays, if there are such already.
        rngs: the names of the streams of random numbers of a module of flax.linen.
        call: how the module is called, of it and the arguments: `lambda m, x: jax.vmap(m)(x)` for one of equinox that
            takes one example at a time. Running statistics stay as they are then.

    Returns:
        The module. Its method `original()` gives that of equinox or flax.nnx back, or the variables of flax.linen.
    """
    if isinstance(other, Module):
        raise TypeError("interop.module takes a module of flax or equinox; this one is a module of nn already")
    equinox, linen, nnx = (sys.modules.get(name) for name in ("equinox", "flax.linen", "flax.nnx"))
    arrays = tuple(jax.tree.map(_array, example, is_leaf=lambda x: isinstance(x, Tensor)))
    if equinox is not None and isinstance(other, equinox.Module):
        return JaxModule(_Equinox(other), arrays, call)
    if linen is not None and isinstance(other, linen.Module):
        if not example and variables is None:
            raise TypeError("interop.module: a module of flax.linen makes its arrays from an example; give one")
        return JaxModule(_Linen(other, variables, rngs), arrays, call)
    if nnx is not None and isinstance(other, nnx.Module):
        return JaxModule(_Nnx(other), arrays, call)
    raise TypeError(f"interop.module takes a module of flax or equinox, not {type(other).__name__}")


def _array(x: Any) -> Any:
    return jnp.asarray(x.detach()) if isinstance(x, Tensor) else x
