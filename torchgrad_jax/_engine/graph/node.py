"""Graph nodes and edges: data, no algorithms."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..._core import events
from ..._core.errors.messages import SECOND_BACKWARD
from ..._core.state import MODES, OBSERVED, WRITE_LOCK, next_sequence_nr
from .hooks import Hooks, RemovableHandle, enter

_CPP_NODES = {"AccumulateGrad", "CopySlices", "CopyBackwards", "Identity", "NotImplemented"}


GRAD_LOCK = WRITE_LOCK
"""Held while a leaf's `.grad` is read and stored: several threads may accumulate into one leaf."""


class Spare(tuple[Any, ...]):
    """Saved values none of which is a tensor to torch, for there is no edge that it would be saved for."""

    __slots__ = ()


class NodeExtras:
    """What few nodes carry: hooks and metadata."""

    __slots__ = ("__weakref__", "metadata", "post", "pre", "reshaped", "retains", "tensor_pre", "traceback")

    def __init__(self) -> None:
        self.pre: Hooks | None = None
        self.post: Hooks | None = None
        self.tensor_pre: list[tuple[int, Hooks]] = []
        self.retains: dict[int, Any] = {}
        self.metadata: dict[Any, Any] | None = None
        self.traceback: Any = None
        self.reshaped = False  # whether an output got another shape after it was recorded

    @property
    def observed(self) -> bool:
        """Whether a backward pass has to stop here and call somebody."""
        return bool(self.pre or self.post or self.tensor_pre or self.retains or self.reshaped)

    @property
    def only_tensor_hooks(self) -> bool:
        """Whether those wait for gradients of its outputs alone."""
        return bool(self.tensor_pre or self.retains) and not (self.pre or self.post or self.reshaped)


def _counting(fn: Any) -> Any:
    """A method of one argument, about which it says what one written in C does."""

    @functools.wraps(fn)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != 1:
            what = "no keyword arguments" if kwargs else f"exactly one argument ({len(args)} given)"
            raise TypeError(f"{type(self).__name__}.{fn.__name__}() takes {what}")
        return fn(self, *args)

    return method


class Node:
    """An operation recorded for the backward pass.

    `gp` is the gradient plan shared by all nodes alike; `edges` say where each gradient goes, one
    per entry of ``gp.edge_leaves``; `saved` are the values kept for backward and `vers` their
    versions at that time; `saved` is None once freed.
    """

    __slots__ = ("__weakref__", "edges", "extras", "gp", "saved", "seq", "vers")
    of_several = False
    """Whether it stands for several nodes, each with outputs and edges of its own."""
    _grad_dtypes: Any = None
    """Of a Function's node: what `set_output_grad_dtype` declared, one dtype or None per output."""
    gp: Any
    edges: tuple[Any, ...]
    saved: Any  # a tuple, or None once freed
    vers: tuple[int, ...]
    seq: int
    extras: Any  # NodeExtras, or None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    def name(self) -> str:
        """The node's name, such as ``MulBackward0``; the two that are C++ classes have their path."""
        label = type(self).__name__
        return f"torch::autograd::{label}" if label in _CPP_NODES else label

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """Per input: the node that made it (or None) and which of its outputs it was."""
        return tuple((None, 0) if e is None else e for e in self.edges)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whatever a user wants to remember about this node."""
        extras = self._extras()
        if extras.metadata is None:
            extras.metadata = {}
        return extras.metadata

    def _sequence_nr(self) -> int:
        return self.seq

    @_counting
    def _set_sequence_nr(self, nr: int) -> None:
        """Nodes with higher numbers run first."""
        self.seq = nr

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def _input_metadata_count(self) -> int:
        return len(self.gp.plan.outs)

    @property
    def n_outputs(self) -> int:
        """How many forward outputs (backward inputs) the node has."""
        return len(self.gp.plan.diff)

    def out_meta(self, nr: int) -> Any:
        """Meta of a differentiable forward output."""
        return self.gp.plan.outs[self.gp.plan.diff[nr]]

    def grad_meta(self, nr: int, given: Any) -> Any:
        """Return what a gradient of dtype `given` has to look like at an output."""
        return self.out_meta(nr)

    def _extras(self) -> NodeExtras:
        if self.extras is None:
            self.extras = NodeExtras()
        return self.extras

    @_counting
    def register_hook(self, fn: Any) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node ran; it may return new grad_inputs."""
        extras = self._extras()
        if extras.post is None:
            extras.post = Hooks()
        return enter(extras.post, fn)

    @_counting
    def register_prehook(self, fn: Any) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node runs; it may return new grad_outputs."""
        extras = self._extras()
        if extras.pre is None:
            extras.pre = Hooks()
        return enter(extras.pre, fn)

    @property
    def _input_metadata(self) -> tuple[Any, ...]:
        return tuple(self.out_meta(k) for k in range(self.n_outputs))

    def _register_hook_dict(self, hooks: Any) -> None:
        """Run the hooks of a dict on the gradient of the node's first output."""
        self._extras().tensor_pre.append((0, hooks))

    @property
    def requires_grad(self) -> bool:
        """Whether any gradient goes further from here."""
        return any(e is not None for e in self.edges) or isinstance(self, AccumulateGrad)

    def __getattr__(self, name: str) -> Any:
        # `saved` replaces this and `__dir__` by functions that know the `_saved_*` attributes.
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def edges_from(self, outputs: int) -> Any:
        """The edges that a pass goes on by which comes from these outputs, as bits."""
        return self.edges

    def check_observers(self, slots: Any, captured: Any) -> None:
        """Refuse hooks, and captures of outputs, for which these gradients of the outputs do not tell enough."""

    def _release_once(self, saved: Any) -> None:
        """Free what was saved, unless a pass of another thread has done so while this one ran the node with it."""
        with GRAD_LOCK:
            if saved is not None and self.saved is None and self.gp is not None:
                raise RuntimeError(SECOND_BACKWARD)
            self._release()

    def _release(self) -> None:
        """Free what was saved; a node that saved no tensor can run again."""
        if self.gp.saves_tensors and self.saved.__class__ is not Spare:
            self.saved = None


def new_node(gp: Any, edges: tuple[Any, ...], saved: Any, vers: tuple[int, ...]) -> Node:
    """The node of an op that just ran, the youngest of all."""
    node = object.__new__(gp.node_class)
    node.gp, node.edges, node.saved, node.vers = gp, edges, saved, vers
    node.seq = next_sequence_nr()
    node.extras = None
    return node


class AccumulateGrad(Node):
    """The sink that adds incoming gradients to a leaf's ``.grad``."""

    __slots__ = ("meta", "variable")
    __module__ = "builtins"  # torch's nodes name this module
    variable: Any
    meta: Any  # shape and dtype of the variable when the node was made

    gp, edges, saved, vers = None, (), (), ()

    @property
    def n_outputs(self) -> int:
        return 1

    def out_meta(self, nr: int) -> Any:
        return self.meta

    def _sequence_nr(self) -> int:
        return 2**64 - 1

    def _release(self) -> None:
        """Nothing is saved."""


@functools.cache
def node_class(name: str) -> type[Node]:
    """The class of nodes of this name, so that ``type(node).__name__`` is torch's."""
    return type(name, (Node,), {"__slots__": (), "__module__": "builtins", "__new__": _not_by_hand})


def _not_by_hand(cls: type, *args: Any, **kwargs: Any) -> Any:
    if cls.__name__ in _CPP_NODES:
        raise RuntimeError("Cannot construct")
    raise TypeError(f"cannot create '{cls.__name__}' instances")


class SpentNode(Node):
    """A node whose graph was used up inside of a compiled program: a name, and an error."""

    __slots__ = ("find_edges", "out")

    @property
    def edges(self) -> tuple[Any, ...]:
        """Where its graph led to: a pass that is to arrive there comes here first."""
        return tuple(self.find_edges())

    @property
    def n_outputs(self) -> int:
        """Results that it has a gradient for."""
        return 1

    def out_meta(self, nr: int) -> Any:
        """Meta of the output."""
        return self.out

    def backward_tensors(self, tensors: Any) -> Any:
        """Complain as a freed node does."""
        raise RuntimeError(SECOND_BACKWARD)


@functools.cache
def _spent_class(name: str) -> type[SpentNode]:
    return type(name, (SpentNode,), {"__slots__": (), "__module__": "builtins"})


def spent(name: str, out: Any, find_edges: Callable[[], Sequence[Any]]) -> Node:
    """A node like the one that made a result, after its backward pass; `find_edges` gives where its graph led to."""
    node = object.__new__(_spent_class(name))
    node.gp = node.saved = node.extras = None
    node.vers, node.seq, node.out, node.find_edges = (), next_sequence_nr(), out, find_edges
    return node


def accumulator(tensor: Any) -> AccumulateGrad:
    """The leaf's AccumulateGrad node: one while anything holds it, made again after."""
    ref = tensor._acc
    if ref is not None:
        node = ref()
        if node is not None:
            return node
    node = object.__new__(AccumulateGrad)
    node.variable, node.meta, node.extras = tensor, tensor._m, None
    node.seq = next_sequence_nr()
    tensor._acc = weakref.ref(node)
    if MODES.bits & OBSERVED:
        events.node_recorded(node)
    return node


def note_reshaped(tensor: Any) -> None:
    """Remember at a tensor's node, or at the one that adds to its gradient, that the shape is another from now on."""
    node = tensor._fn or (tensor._acc and tensor._acc())
    if node is not None:
        node._extras().reshaped = True
