"""Nested containers as flat lists: tuples, lists, dicts, named tuples, as torch's pytrees know them.

Everything else is a leaf, None included. Other modules may register classes of their own.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .shapes import Size

Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[list[Any], Any], Any]

_NODES: dict[type, tuple[Flatten, Unflatten]] = {}


def register(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Treat instances of exactly `cls` as containers."""
    _NODES[cls] = (flatten, unflatten)


register(tuple, lambda x: (list(x), None), lambda xs, _: tuple(xs))
register(Size, lambda x: (list(x), None), lambda xs, _: tuple(xs))
register(list, lambda x: (list(x), None), lambda xs, _: xs)
register(dict, lambda x: (list(x.values()), list(x)), lambda xs, keys: dict(zip(keys, xs)))
register(OrderedDict, lambda x: (list(x.values()), list(x)), lambda xs, keys: OrderedDict(zip(keys, xs)))
register(
    defaultdict,
    lambda x: (list(x.values()), [x.default_factory, list(x)]),
    lambda xs, context: defaultdict(context[0], zip(context[1], xs)),
)
register(deque, lambda x: (list(x), x.maxlen), lambda xs, maxlen: deque(xs, maxlen))


class Spec:
    """How a tree was built: its container classes and where the leaves are."""

    __slots__ = ("children", "context", "kind", "n")

    def __init__(self, kind: type | None, context: Any, children: list[Spec]) -> None:
        self.kind, self.context, self.children = kind, context, children
        self.n = 1 if kind is None else sum(c.n for c in children)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Spec)
            and self.kind is other.kind
            and self.context == other.context
            and self.children == other.children
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.n, len(self.children)))

    def __repr__(self) -> str:
        """The text of torch's tree specifications, which error messages contain."""
        return self._text(0)

    type = property(lambda self: self.kind, doc="The class of the container; None for a leaf.")
    num_leaves = property(lambda self: self.n, doc="How many leaves there are.")
    num_children = property(lambda self: len(self.children), doc="How many parts there are.")
    children_specs = property(lambda self: self.children, doc="The parts.")

    @property
    def num_nodes(self) -> int:
        """How many containers and leaves there are."""
        return 1 + sum(c.num_nodes for c in self.children)

    def is_leaf(self) -> bool:
        """Return whether it stands for a leaf."""
        return self.kind is None

    def child(self, index: int) -> Spec:
        """One of the parts."""
        return self.children[index]

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of a tree that are in the places of this one's leaves."""
        if self.kind is None:
            return [tree]
        if type(tree) is not self.kind:
            named = namedtuple if hasattr(self.kind, "_fields") else self.kind
            raise ValueError(f"Node type mismatch; expected {named!r}, but got {type(tree)!r}.")
        children, context = _parts(tree) or ([], None)
        if len(children) != len(self.children):
            raise ValueError(f"Node arity mismatch; expected {len(self.children)}, but got {len(children)}.")
        if isinstance(tree, dict):
            keys = self.context[-1] if self.kind is defaultdict else self.context
            gone, more = ([k for k in a if k not in b] for a, b in ((keys, tree), (tree, keys)))
            if gone:
                raise ValueError(f"Node keys mismatch; missing key(s): {set(gone)}; extra key(s): {set(more)}.")
            children = [tree[k] for k in keys]
        elif context != self.context and self.kind is not deque:
            raise ValueError(
                f"Node context mismatch for node type {self.kind!r}; expected {self.context!r}, but got {context!r}."
            )
        return [x for spec, c in zip(self.children, children) for x in spec.flatten_up_to(c)]

    def unflatten(self, leaves: Any) -> Any:
        """A tree with these leaves."""
        given = leaves if isinstance(leaves, list | tuple) else list(leaves)
        if len(given) != self.n:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers to a pytree that "
                f"holds {self.n} items ({self})."
            )
        return unflatten(given, self)

    def pretty(self) -> str:
        """The containers written out, with a star for each leaf."""
        return repr(unflatten([_Star()] * self.n, self))

    def _text(self, indent: int) -> str:
        if self.kind is None:
            return "*"
        named = self.context.__class__ is type and hasattr(self.kind, "_fields")
        head = f"TreeSpec({'namedtuple' if named else self.kind.__name__}, {self.context}, ["
        inner = [c._text(indent + 2) for c in self.children]
        return head + (",\n" + " " * (indent + 2)).join(inner) + "])"


class _Star:
    def __repr__(self) -> str:
        return "*"


LEAF = Spec(None, None, [])


def _is_namedtuple(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(x, "_fields") and type(x) is not tuple


def _parts(x: Any) -> tuple[list[Any], Any] | None:
    found = _NODES.get(type(x))
    if found is not None:
        return found[0](x)
    return (list(x), type(x)) if _is_namedtuple(x) else None


def registered(cls: type) -> bool:
    """Return whether a class is registered as a container."""
    return cls in _NODES


def flatten(x: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Spec]:
    """The leaves of a tree, and its `Spec`, which puts other leaves in their places."""
    leaves: list[Any] = []
    return leaves, _visit(x, leaves, is_leaf)


# A closure that calls itself would be a reference cycle, which would keep the leaves alive.
def _visit(x: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None = None) -> Spec:
    parts = None if is_leaf is not None and is_leaf(x) else _parts(x)
    if parts is None:
        leaves.append(x)
        return LEAF
    return Spec(type(x), parts[1], [_visit(c, leaves, is_leaf) for c in parts[0]])


def unflatten(leaves: Sequence[Any], spec: Spec) -> Any:
    """Inverse of `flatten`."""
    return _build(iter(leaves), spec)


def _build(leaves: Iterator[Any], spec: Spec) -> Any:
    if spec.kind is None:
        return next(leaves)
    children = [_build(leaves, c) for c in spec.children]
    found = _NODES.get(spec.kind)
    if found is not None:
        return found[1](children, spec.context)
    make = getattr(spec.kind, "_make", spec.kind)
    return make(children)


def map_leaves(fn: Callable[[Any], Any], x: Any) -> Any:
    """A tree of the same structure with `fn` of each leaf."""
    leaves, spec = flatten(x)
    return unflatten([fn(v) for v in leaves], spec)


def broadcast(prefix: Any, spec: Spec) -> list[Any] | None:
    """One entry of `prefix` per leaf of `spec`, leaves of the prefix standing for whole subtrees.

    None when the two do not fit together.
    """
    parts = _parts(prefix)
    if parts is None:
        return [prefix] * spec.n
    children, context = parts
    if spec.kind is not type(prefix) or spec.context != context:
        return None
    if len(children) != len(spec.children):
        return None
    out: list[Any] = []
    for child, sub in zip(children, spec.children):
        found = broadcast(child, sub)
        if found is None:
            return None
        out += found
    return out
