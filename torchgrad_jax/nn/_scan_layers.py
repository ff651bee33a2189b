"""Equal layers in a row as one layer in a loop of XLA: a program of one layer, however many there are."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from .._bridge import control
from .._core.control import checkpoint as plain_checkpoint
from .._core.devices import device
from .._core.dtypes import dtype
from .._engine.bind import ops
from .._engine.tensor import Tensor
from .modules.module import Module
from .utils.stateless import reparametrized

_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    dtype,
    device,
    enum.Enum,
    set,
    frozenset,
    range,
)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class ScannedLayers:
    """What `scan_layers` returns: the layers, applied one after the other."""

    def __init__(self, layers: list[Module], checkpoint: bool, policy: Any, unroll: int) -> None:
        self.layers = layers
        self.checkpoint = checkpoint or policy is not None
        self.policy, self.unroll = policy, unroll

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The last layer's result; `x` is for the first layer, and each other one gets what the one before it gave."""
        _insist_on_equal(self.layers)
        first = self.layers[0]
        columns = {
            name: [tensors[name] for tensors in map(_tensors, self.layers)]
            for name in _tensors(first)
        }
        stacked = {name: ops.stack(column) for name, column in columns.items()}

        def layer(carry: Any, tensors: dict[str, Tensor], args: Any, kwargs: Any) -> Any:
            given = dict(tensors)
            with reparametrized(first, tensors):
                out = first(carry, *args, **kwargs)
            for name, t in given.items():
                if t._version or tensors[name] is not t:
                    raise RuntimeError(
                        f"scan_layers: the layers write to {name!r}, which would be lost; call them one by one"
                    )
            return out

        training = tuple(m.training for m in first.modules())
        key = (training, _simple(args), _simple(kwargs))
        return control.repeated(
            self,
            key,
            layer,
            x,
            stacked,
            (args, kwargs),
            self._wrapped,
            self.unroll,
            len(self.layers),
        )

    def _wrapped(self, body: Callable[..., Any]) -> Callable[..., Any]:
        return plain_checkpoint(body, policy=self.policy) if self.checkpoint else body


def scan_layers(
    modules: Iterable[Module], *, checkpoint: bool = False, policy: Any = None, unroll: int = 1
) -> ScannedLayers:  # fmt: skip
    """Equal modules, one applied to the result of the other, as one module in a loop of XLA.

    The forward and backward pass of 48 layers then are programs of one layer. The layers stay what they are: their
    parameters are stacked inside of the program, and their gradients arrive where they belong.

    Args:
        modules: modules of one class with parameters of the same shapes, such as an `nn.ModuleList` of blocks. Each
            returns what the next one takes: tensors of the same shapes and dtypes.
        checkpoint: whether the backward pass computes each layer once more instead of keeping what is inside of it.
        policy: what it keeps nevertheless, one of `jax.checkpoint_policies`; implies `checkpoint`.
        unroll: how many layers one turn of the loop takes.

    Returns:
        A function of the first layer's arguments: the first goes from layer to layer, all layers are given the others.

    Raises:
        ValueError: if the modules are not equal, or have attributes (tensors that are no buffers, objects) of which
            nobody can tell.

    Example:
        >>> import torchgrad_jax as torch
        >>> layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))
        >>> x = torch.randn(2, 4)
        >>> y = torch.scan_layers(layers)(x)
        >>> torch.testing.assert_close(y, layers[2](layers[1](layers[0](x))))
    """
    layers = list(modules)
    if not layers or not all(isinstance(m, Module) for m in layers):
        raise ValueError(f"scan_layers takes modules, at least one, but got {modules!r}")
    _insist_on_equal(layers)
    return ScannedLayers(layers, checkpoint, policy, unroll)


def _tensors(layer: Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; one that has two names twice."""
    return {
        **dict(layer.named_parameters(remove_duplicate=False)),
        **dict(layer.named_buffers(remove_duplicate=False)),
    }


def _simple(tree: Any) -> Any:
    """What of the arguments is no tensor, as a key."""
    leaves, spec = jax.tree_util.tree_flatten(tree, is_leaf=lambda x: isinstance(x, Tensor))
    return spec, tuple(None if isinstance(x, Tensor) else (type(x), x) for x in leaves)


def _insist_on_equal(layers: list[Module]) -> None:
    first = list(_facts(layers[0]))
    for i, layer in enumerate(layers):
        found = list(_facts(layer))
        for (name, value), (other, there) in zip(first, found):
            if name != other or not _same(value, there):
                raise ValueError(
                    f"scan_layers takes equal modules, but {name} is {value} in module 0 and {other} is {there} in "
                    f"module {i}"
                )
        if len(found) != len(first):
            raise ValueError(
                f"scan_layers takes equal modules, but module {i} is made otherwise than module 0"
            )
        if any(getattr(m, hooks, None) for m in layer.modules() for hooks in _HOOKS):
            raise ValueError(
                f"scan_layers: module {i} has a hook, which would not see each layer's values"
            )


def _facts(layer: Module) -> Iterator[tuple[str, Any]]:
    """All that the code of a module can depend on, save the values of its tensors."""
    for name, module in layer.named_modules():
        label = name or "the module"
        yield f"the class of {label}", type(module).__qualname__
        for key, value in sorted(vars(module).items()):
            if key not in _OWN:
                yield f"{key!r} of {label}", value
    for name, t in _tensors(layer).items():
        yield name, (tuple(t.shape), t.dtype)


_OWN = {*vars(Module()), control.KEPT_UNDER} - {"training"}
"""Attributes that modules have of their own: what of them matters are tensors, modules and hooks, looked at by name."""


def _same(a: Any, b: Any) -> bool:
    """Whether two attributes surely mean the same to the code of two modules."""
    if a is b:
        return True
    if a.__class__ is not b.__class__:
        return False
    if isinstance(a, _PLAIN):
        return a == b
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(_same, a.values(), b.values()))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, types.MethodType):  # each of its own module
        return a.__func__ is b.__func__
    if isinstance(a, types.FunctionType):
        held = [[c.cell_contents for c in f.__closure__ or ()] for f in (a, b)]
        return a.__code__ is b.__code__ and _same(
            [a.__defaults__, a.__kwdefaults__, held[0]], [b.__defaults__, b.__kwdefaults__, held[1]]
        )
    if isinstance(a, functools.partial):
        return _same([a.func, a.args, a.keywords], [b.func, b.args, b.keywords])
    return False


__all__ = ["ScannedLayers", "scan_layers"]
