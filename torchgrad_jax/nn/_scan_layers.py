"""Equal layers in a row as one layer in a loop of XLA: a program of one layer, however many there are."""

from __future__ import annotations

import copy
import enum
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from .._bridge.jax_side import control
from .._core.arrays.devices import device
from .._core.arrays.dtypes import dtype
from .._core.errors.messages import FROZEN_RANDOM
from .._core.random.keys import drawing_from
from .._core.state import MODES
from .._engine.entry.bind import ops
from .._engine.memory.tensor import Tensor
from .modules._loading import EXTRA_STATE
from .modules.container import ModuleList
from .modules.module import Module
from .parameter import Parameter
from .utils import parametrize
from .utils.stateless import reparametrized

_PLAIN = (bool, int, float, complex, str, bytes, type(None), dtype, device, enum.Enum, set, frozenset, range)
PARAMETRIZED = parametrize.ParametrizationList.__module__
"""The module that the classes of parametrized modules name as theirs."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class _Loop:
    """How layers are applied in turn: what is recomputed, and how many in one turn of the loop."""

    def __init__(self, checkpoint: bool, policy: Any, unroll: int) -> None:
        self.checkpoint = checkpoint or policy is not None
        self.policy, self.unroll = policy, unroll
        self._facts: list[Any] = []
        """What the code of a layer could depend on when it was traced last."""
        self._changes = 0
        """How often that was something else than before."""

    def _notice_changes(self, first: Module) -> None:
        facts = [value for name, value in _facts(first) if not name.startswith("'training'")]
        if not _same(facts, self._facts):
            self._facts = _snapshot(facts)
            self._changes += 1

    def run(self, first: Module, rows: dict[str, Tensor], length: int, x: Any, args: Any, kwargs: Any) -> Any:
        """Return what the last layer gives; `first` is applied with each of the `rows` of tensors."""

        def layer(carry: Any, row: tuple[Any, Any], args: Any, kwargs: Any) -> Any:
            tensors, key = row
            given, others = dict(tensors), _leaves((args, kwargs))
            with reparametrized(first, tensors), drawing_from(key):
                out = first(carry, *args, **kwargs)
            if not _fits(out, carry):
                raise ValueError(
                    "scan_layers takes layers that return what the next one takes, but one got "
                    f"{_described(carry)} and returned {_described(out)}"
                )
            if _changed(others, _leaves((args, kwargs))):
                raise RuntimeError(
                    "scan_layers: the layers write to an argument that all of them are given, which would be lost; "
                    "call them one by one"
                )
            for name, t in given.items():
                if t._vc.version or tensors[name] is not t:
                    raise RuntimeError(
                        f"scan_layers: the layers write to {name!r}, which would be lost; call them one by one"
                    )
            return out

        self._notice_changes(first)
        training = tuple(m.training for m in first.modules())
        key = (self._changes, training, length, _simple(args), _simple(kwargs))
        given = (args, kwargs)
        stream = MODES.keys
        keys = None
        if stream is not None and stream.may_draw():
            keys = jax.random.split(stream.next(), length)
        try:
            return control.repeated(self, key, layer, x, (rows, keys), given, self._wrapped, self.unroll, length, first)
        except RuntimeError as error:
            if str(error).startswith(FROZEN_RANDOM):
                error.add_note("scan_layers: or call the layers in a block `with torchgrad_jax.interop.rngs(key):`")
            raise

    def _wrapped(self, body: Callable[..., Any]) -> Callable[..., Any]:
        return jax.checkpoint(body, policy=self.policy) if self.checkpoint else body


class ScannedLayers:
    """What `scan_layers` returns: the layers, applied one after the other."""

    def __init__(self, layers: Any, loop: _Loop) -> None:
        self.layers, self._loop = layers, loop
        """The container that the layers came in: it may get others."""

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The last layer's result; `x` is for the first layer, and each other one gets what the one before it gave."""
        layers = list(self.layers)
        _insist_on_equal(layers)
        return self._loop.run(layers[0], _stacked(layers), len(layers), x, args, kwargs)


class StackedLayers(Module):
    """What `scan_layers(..., stacked=True)` returns: one layer whose parameters have a row for each of the layers.

    `state_dict` has the names and shapes that an `nn.ModuleList` of the layers has.
    """

    def __init__(self, layers: list[Module], loop: _Loop) -> None:
        super().__init__()
        _insist_on_rows(layers)
        self.layer = copy.deepcopy(layers[0])
        self._loop, self._length = loop, len(layers)
        made: dict[int, Any] = {}
        """By identity: the stacked form of a tensor of the layer, which may go by two names."""
        rows = _stacked(layers)
        for name, t in _tensors(self.layer).items():
            owner, _, own = name.rpartition(".")
            row = rows[name].detach()
            if isinstance(t, Parameter):
                row = Parameter(row, requires_grad=t.requires_grad)
            setattr(self.layer.get_submodule(owner), own, made.setdefault(id(t), row))
        self._names = [*rows]
        """What was stacked."""
        self.register_state_dict_post_hook(_split_rows)
        self.register_load_state_dict_pre_hook(_join_rows)

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The last layer's result; `x` is for the first layer, and each other one gets what the one before it gave."""
        _insist_on_no_hooks(self.layer, "the layer")
        tensors = _tensors(self.layer)
        if tensors.keys() != set(self._names):
            raise ValueError(
                f"scan_layers: the stacked layer has the tensors {[*tensors]}, but was made of {self._names}; change "
                "(parametrize, prune) the layers before they are stacked"
            )
        return self._loop.run(self.layer, tensors, self._length, x, args, kwargs)

    def __len__(self) -> int:
        return self._length

    def unstacked(self) -> ModuleList:
        """The layers as modules of their own, with copies of the parameters."""
        layers = [copy.deepcopy(self.layer) for _ in range(self._length)]
        for i, layer in enumerate(layers):
            made: dict[int, Any] = {}
            for name, t in _tensors(layer).items():
                owner, _, own = name.rpartition(".")
                row = t.detach()[i].clone()
                if isinstance(t, Parameter):
                    row = Parameter(row, requires_grad=t.requires_grad)
                setattr(layer.get_submodule(owner), own, made.setdefault(id(t), row))
        return ModuleList(layers)


def _split_rows(module: Any, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Names and shapes of a list of layers in a state dict."""
    whole = f"{prefix}layer."
    found = {name: state.pop(name) for name in list(state) if name.startswith(whole)}
    for i in range(len(module)):
        for name, t in found.items():
            row = t if _is_extra_state(name) else t[i]
            state[f"{prefix}{i}.{name.removeprefix(whole)}"] = row


def _join_rows(
    module: Any,
    state: dict[str, Any],
    prefix: str,
    _: Any,
    strict: bool,
    missing: list[str],
    __: Any,
    errors: list[str],
) -> None:
    """The inverse. Layers that are missing, or do not fit, keep what they have."""
    for name, own in module.layer.state_dict().items():
        joined = f"{prefix}layer.{name}"
        names = [f"{prefix}{i}.{name}" for i in range(len(module))]
        if joined in state and not any(row in state for row in names):
            continue
        missing += [row for row in names if strict and row not in state]
        rows = {i: state.pop(row) for i, row in enumerate(names) if row in state}
        state[joined] = _joined(own, names, rows, errors)


def _joined(own: Any, names: list[str], rows: dict[int, Any], errors: list[str]) -> Any:
    """One entry of a stacked layer's state, of `rows` where they fit."""
    if _is_extra_state(names[0]):
        first = next(iter(rows.values()), own)
        if not all(_same(x, first) for x in rows.values()):
            errors.append(f"{names[0]} differs from layer to layer, but stacked layers share it.")
        return first
    for i, x in list(rows.items()):
        if not isinstance(x, Tensor):
            what = f"expected torch.Tensor or Tensor-like object from checkpoint but received {type(x)}"
            errors.append(f'While copying the parameter named "{names[i]}", {what}')
        elif x.shape != own.shape[1:]:
            errors.append(
                f"size mismatch for {names[i]}: copying a param with shape {x.shape} from checkpoint, the shape in "
                f"current model is {own.shape[1:]}."
            )
        else:
            continue
        del rows[i]
    return ops.stack([rows.get(i, x) for i, x in enumerate(own)]) if rows else own


def _is_extra_state(name: str) -> bool:
    return name.rpartition(".")[2] == EXTRA_STATE


def scan_layers(
    modules: Iterable[Module], *, checkpoint: bool = False, policy: Any = None, unroll: int = 1, stacked: bool = False
) -> Any:
    """Equal modules, one applied to the result of the other, as one module in a loop of XLA.

    The forward and backward pass of 48 layers then are programs of one layer. The layers stay what they are: their
    parameters are stacked inside of the program, and their gradients arrive where they belong.

    Args:
        modules: modules of one class with parameters of the same shapes, such as an `nn.ModuleList` of blocks. Each
            returns what the next one takes: tensors of the same shapes and dtypes. A list or an `nn.ModuleList` may
            get other modules later; each call applies those that it holds.
        checkpoint: whether the backward pass computes each layer once more instead of keeping what is inside of it.
        policy: what it keeps nevertheless, one of `jax.checkpoint_policies`; implies `checkpoint`.
        unroll: how many layers one turn of the loop takes.
        stacked: whether to return a module with parameters of its own, which have a row for each layer. Nothing is
            stacked or taken apart in a step then, and an optimizer has one parameter to update instead of one for
            each layer.

    Returns:
        A function of the first layer's arguments: the first goes from layer to layer, all layers are given the others.
        With `stacked` it is an `nn.Module` in the place of an `nn.ModuleList`, with a `state_dict` of the same names.

    Raises:
        ValueError: if the modules are not equal, or have attributes (tensors that are no buffers, objects) of which
            nobody can tell; with `stacked`, if they share a parameter, or if one trains what another one does not.

    Example:
        >>> import torchgrad_jax as torch
        >>> layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))
        >>> x = torch.randn(2, 4)
        >>> y = torch.scan_layers(layers)(x)
        >>> torch.testing.assert_close(y, layers[2](layers[1](layers[0](x))))
    """
    layers = list(modules)
    container = modules if isinstance(modules, list | Module) else layers
    if not layers or not all(isinstance(m, Module) for m in layers):
        raise ValueError(f"scan_layers takes modules, at least one, but got {modules!r}")
    if not isinstance(unroll, int) or unroll < 1:
        raise ValueError(f"scan_layers takes a positive number as unroll, but got {unroll!r}")
    _insist_on_equal(layers)
    loop = _Loop(checkpoint, policy, unroll)
    return StackedLayers(layers, loop) if stacked else ScannedLayers(container, loop)


def _stacked(layers: list[Module]) -> dict[str, Tensor]:
    """The tensors of equal layers by name, with a row for each layer."""
    columns = list(map(_tensors, layers))
    return {name: ops.stack([tensors[name] for tensors in columns]) for name in columns[0]}


def _tensors(layer: Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; one that has two names twice."""
    return {**dict(layer.named_parameters(remove_duplicate=False)), **dict(layer.named_buffers(remove_duplicate=False))}


def _leaves(tree: Any) -> tuple[list[Any], Any]:
    return jax.tree_util.tree_flatten(tree, is_leaf=lambda x: isinstance(x, Tensor))


def _changed(before: tuple[list[Any], Any], now: tuple[list[Any], Any]) -> bool:
    """Return whether somebody has written to containers, or to tensors that were not written to before."""
    (leaves, spec), (found, form) = before, now
    if form != spec or any(a is not b for a, b in zip(leaves, found)):
        return True
    return any(isinstance(x, Tensor) and x._vc.version for x in leaves)


def _simple(tree: Any) -> Any:
    """Return what of the arguments is no tensor, as a key."""
    leaves, spec = _leaves(tree)
    return spec, tuple(
        None if isinstance(x, Tensor) else (type(x), repr(x) if isinstance(x, float) else x) for x in leaves
    )


def _fits(out: Any, given: Any) -> bool:
    """Return whether a layer's result can be given to the next layer; of arrays and numbers JAX tells."""
    (results, form), (leaves, wanted) = _leaves(out), _leaves(given)
    if not all(isinstance(x, Tensor) for x in (*results, *leaves)):
        return True
    return form == wanted and _described(out) == _described(given)


def _described(tree: Any) -> Any:
    """The form of what goes from layer to layer, with the kinds of tensors in it."""
    leaves, spec = _leaves(tree)
    kinds = [(x.dtype, tuple(x.shape)) if isinstance(x, Tensor) else x for x in leaves]
    return jax.tree_util.tree_unflatten(spec, kinds)


def _insist_on_equal(layers: list[Module]) -> None:
    first = list(_facts(layers[0]))
    for i, layer in enumerate(layers):
        found = list(_facts(layer))
        for (name, value), (other, there) in zip(first, found):
            if name != other or not _same(value, there):
                here, that = _shown(value), _shown(there)
                that = f"another {that}" if (name, here) == (other, that) else that
                raise ValueError(
                    f"scan_layers takes equal modules, but {name} is {here} in module 0 and {other} is {that} in "
                    f"module {i}"
                )
        if len(found) != len(first):
            raise ValueError(f"scan_layers takes equal modules, but module {i} is made otherwise than module 0")
        _insist_on_no_hooks(layer, f"module {i}")


def _shown(value: Any) -> str:
    return value.__qualname__ if isinstance(value, type) else str(value)


def _insist_on_rows(layers: list[Module]) -> None:
    """Raise if one parameter with a row for each layer would not be what the parameters of the layers are."""
    first = list(layers[0].named_parameters(remove_duplicate=False))
    ties = _ties(layers[0])
    owners: dict[int, int] = {}
    for i, layer in enumerate(layers):
        if _ties(layer) != ties:
            raise ValueError(
                f"scan_layers(stacked=True): parameters are shared inside of module {i} otherwise than in module 0"
            )
        for (name, p), (_, q) in zip(layer.named_parameters(remove_duplicate=False), first):
            if owners.setdefault(id(p), i) != i:
                raise ValueError(
                    f"scan_layers(stacked=True) gives each module a row of its own, but modules {owners[id(p)]} and "
                    f"{i} share {name}; leave out stacked=True"
                )
            if p.requires_grad != q.requires_grad:
                raise ValueError(
                    f"scan_layers(stacked=True): {name} requires {'a' if q.requires_grad else 'no'} gradient in module "
                    f"0, but not so in module {i}; leave out stacked=True to train some of the modules"
                )


def _ties(layer: Module) -> list[tuple[str, str]]:
    """Names of tensors, each beside the first name that the tensor has."""
    first: dict[int, str] = {}
    return [(name, first.setdefault(id(t), name)) for name, t in _tensors(layer).items()]


def _insist_on_no_hooks(layer: Module, name: str) -> None:
    if any(getattr(m, hooks, None) for m in layer.modules() for hooks in _HOOKS):
        raise ValueError(f"scan_layers: {name} has a hook, which would not see each layer's values")


def _facts(layer: Module) -> Iterator[tuple[str, Any]]:
    """All that the code of a module can depend on, save the values of its tensors."""
    for name, module in layer.named_modules():
        label = name or "the module"
        yield f"the class of {label}", type(module)
        for key, value in sorted(vars(module).items()):
            if key not in _OWN:
                yield f"{key!r} of {label}", value
    for name, t in _tensors(layer).items():
        yield name, (tuple(t.shape), t.dtype)


_OWN = {*vars(Module()), control.KEPT_UNDER} - {"training"}
"""Attributes that modules have of their own: what of them matters are tensors, modules and hooks, looked at by name."""


def _snapshot(value: Any) -> Any:
    """A value as it is now: containers and arrays may be written to."""
    if isinstance(value, list | tuple):
        return value.__class__(map(_snapshot, value)) if value.__class__ in (list, tuple) else value
    if value.__class__ is dict:
        return {k: _snapshot(v) for k, v in value.items()}
    return copy.copy(value) if isinstance(value, np.ndarray | set) else value


def _same(a: Any, b: Any) -> bool:
    """Return whether two attributes surely mean the same to the code of two modules."""
    if a is b:
        return True
    if a.__class__ is not b.__class__:
        return False
    if isinstance(a, type):  # a parametrized module has a class of its own
        generated = PARAMETRIZED in (a.__module__, b.__module__)
        return generated and a.__bases__ == b.__bases__ and vars(a).keys() == vars(b).keys()
    if isinstance(a, float | complex):
        return repr(a) == repr(b)  # a zero has a sign, and NaN is itself
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
