"""Modules as pytrees of JAX's: parameters and buffers are the children, all else is compared.

A module is one node, whatever modules it holds. So a parameter that occurs in two places is one leaf, and paths are
the names of `state_dict`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from ..._core.state import MODES
from ..._engine.memory.tensor import Tensor, alias_of
from .module_snapshots import ModuleSnapshot, SnapshotReader, SnapshotWriter
from .trees import MODULES, as_class, rebuilt, teach_trees

_EMPTY: dict[str, type] = {}
"""Containers that each module has, and that are left out of frames while they are empty."""
_HIDDEN: dict[str, Any] = {"_compiled_call_impl": None}
_BASES: list[type] = []


class _Name(jax.tree_util.GetAttrKey):
    """The step in a key path to a parameter or buffer; JAX's messages about trees that differ ask for `key`."""

    @property
    def key(self) -> str:
        return self.name


def register_base(cls: type, empty: dict[str, type]) -> None:
    """Say what the class of modules is, and which containers each of them has."""
    _BASES.append(cls)
    MODULES[cls] = _parts
    _EMPTY.update(empty)
    _HIDDEN.update(empty)
    register(cls)


def register(cls: type) -> None:
    """Make the modules of a class pytrees."""
    jax.tree_util.register_pytree_with_keys(cls, _keyed_children, _module_of, _children)


def is_module(x: Any) -> bool:
    """Return whether something is a module."""
    return isinstance(x, *_BASES)


def _children(module: Any) -> tuple[list[Tensor], ModuleSnapshot]:
    named, snapshot = _taken_apart(module)
    return [t for _, t, _ in named], snapshot


def _keyed_children(module: Any) -> tuple[list[tuple[Any, Tensor]], ModuleSnapshot]:
    named, snapshot = _taken_apart(module)
    return [(_Name(name), t) for name, t, _ in named], snapshot


def _parts(module: Any) -> tuple[list[str], list[Tensor]]:
    named, _ = _taken_apart(module)
    return [name for name, _, _ in named], [t for _, t, _ in named]


def _taken_apart(module: Any) -> tuple[list[tuple[str, Tensor, bool]], ModuleSnapshot]:
    """Name and tensor of each child, and whether it is a buffer."""
    teach_trees()
    modules = dict(_named_modules(module, {}))
    writer = SnapshotWriter(_BASES[0], _HIDDEN, {id(m): m for m in modules.values()})
    named = [
        (f"{path}.{name}" if path else name, t, kind == "_buffers")
        for kind in ("_parameters", "_buffers")
        for path, m in modules.items()
        for name, t in m.__dict__[kind].items()
        if t is not None and writer.leaf(t)
    ]
    for name, t, _ in named:
        if hasattr(t, "cls_to_become"):
            raise ValueError(f"a module as a pytree: {name} has no shape yet; call the module once before")
    snapshot = writer.snapshot(module, lambda: tuple([_entry_of_tensor(writer, *each) for each in named]))
    return named, snapshot


def _entry_of_tensor(writer: SnapshotWriter, name: str, t: Tensor, buffer: bool) -> tuple[Any, ...]:
    requires = t._rg and t._fn is None and (t._x is None or not t._x.followed)
    return (name, t.__class__, requires, buffer, *writer.encode(t.__dict__ or None, name))


def _named_modules(module: Any, seen: dict[int, Any]) -> Iterator[tuple[str, Any]]:
    stack = [("", module)]
    while stack:
        path, module = stack.pop()
        if id(module) in seen:
            continue
        seen[id(module)] = module
        yield path, module
        below = [(f"{path}.{k}" if path else k, m) for k, m in module.__dict__["_modules"].items()]
        stack += [each for each in reversed(below) if each[1] is not None]


def _module_of(snapshot: ModuleSnapshot, children: Any) -> Any:
    """A module with the given tensors (or whatever JAX has in their place), without calling its constructor."""
    leaves = [_leaf(leaf_row, child) for leaf_row, child in zip(snapshot.leaves, children)]
    reader = SnapshotReader(snapshot, leaves, _constant)
    module = reader.root()
    for leaf_row, leaf in zip(snapshot.leaves, leaves):
        if leaf_row[5] is not None:
            leaf.__dict__.update(reader.value(*leaf_row[4:]))
    for m in reader.made.values():
        if is_module(m):
            for name, kind in _EMPTY.items():
                m.__dict__.setdefault(name, kind())
    return module


def _leaf(leaf_row: Any, child: Any) -> Tensor:
    _, cls, requires, buffer, *_ = leaf_row
    if isinstance(child, Tensor):
        t = as_class(child, cls, requires)
    else:
        t = rebuilt((cls, requires, False), (child,))
    # Among the inputs of a function, what is no buffer may be differentiated.
    given = buffer and not requires and t._rg and t._fn is None and not MODES.run.at_once
    return alias_of(t, t._m, t._al, cls=cls) if given else t


def _constant(cls: type, requires: bool, array: Any) -> Tensor:
    return rebuilt((cls, requires, False), (array,))


# --- halves ---------------------------------------------------------------------------------------


def partition(tree: Any, chosen: Any = None) -> tuple[Any, Any]:
    """Split a module (or any tree) into two halves of the same structure, for transforms that take one of them.

    What is in one half is None in the other; `combine` puts them together again.

    Args:
        tree: a module, or any pytree with tensors in it.
        chosen: tells by a tensor whether it belongs to the first half; by default whether it requires a gradient.

    Returns:
        What was chosen, and the rest.

    Example:
        >>> import jax
        >>> import torchgrad_jax as torch
        >>> net = torch.nn.BatchNorm1d(2)
        >>> params, rest = torch.interop.partition(net)
        >>> x = torch.ones(3, 2)
        >>> g = jax.grad(lambda params: torch.interop.combine(params, rest)(x).sum())(params)
        >>> g.bias
        Parameter containing:
        tensor([3., 3.], requires_grad=True)
    """
    wanted = chosen or (lambda t: getattr(t, "requires_grad", False))
    leaves = jax.tree.leaves(tree, is_leaf=lambda x: x is None or isinstance(x, Tensor))
    picked = [x is not None and wanted(x) for x in leaves]
    values, treedef = jax.tree.flatten(tree, is_leaf=_is_none)
    halves = [[v if bool(p) is half else None for v, p in zip(values, picked)] for half in (True, False)]
    return treedef.unflatten(halves[0]), treedef.unflatten(halves[1])


def combine(chosen: Any, rest: Any) -> Any:
    """Inverse of `partition`: one tree of two halves, with what is static as `rest` has it.

    Args:
        chosen: the first half.
        rest: the second.
    """
    return jax.tree.map(lambda r, c: r if c is None else c, rest, chosen, is_leaf=_is_none)


def _is_none(x: Any) -> bool:
    return x is None
