"""The graph as users see it, as in torch.autograd.graph: nodes, edges, saved tensors, hooks on several tensors."""

from __future__ import annotations

import abc
import contextlib
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Literal

import jax

from .._core import events
from .._core.arrays.devices import to_jax
from .._core.jax.own_kernels import jit
from .._core.signals import contextmanager, uninterrupted
from .._core.state import INFERENCE, MODES, PACKING
from .._engine.graph import draw  # noqa: F401 - gives nodes the picture that a notebook shows
from .._engine.graph.history import edge_of, grad_fn_of, requires_grad_of
from .._engine.graph.hooks import RemovableHandle
from .._engine.graph.node import Node as _EngineNode
from .._engine.memory.strided import read, storage_offset
from .._engine.memory.tensor import Tensor, check_counted, make
from .._engine.passes.compiled_segments import Compiled
from .._engine.passes.segments import whole_graph
from ._passes import GradientEdge as GradientEdge, ones_like
from .variable import Variable as Variable

GradientEdge.__module__ = "torch.autograd.graph"


class Node(abc.ABC):
    """The abstract class of graph nodes: ``isinstance(t.grad_fn, Node)``."""

    @abc.abstractmethod
    def name(self) -> str:
        """The node's name, such as ``MulBackward0``."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """Where the gradients go."""
        raise NotImplementedError

    @abc.abstractmethod
    def metadata(self) -> dict[Any, Any]:
        """A dict for whatever one wants to remember."""
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def _input_metadata(self) -> list[Any]:
        raise NotImplementedError

    @abc.abstractmethod
    def _register_hook_dict(self, tensor: Any) -> None:
        raise NotImplementedError

    @abc.abstractmethod
    def _sequence_nr(self) -> int:
        raise NotImplementedError

    @abc.abstractmethod
    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node ran."""
        raise NotImplementedError

    @abc.abstractmethod
    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node runs."""
        raise NotImplementedError

    @classmethod
    def __subclasshook__(cls, subclass: type) -> Any:
        if cls is Node:
            return issubclass(subclass, _EngineNode)
        return NotImplemented


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of `tensor` flows.

    Args:
        tensor: one that requires grad.

    Returns:
        The edge, which `backward` and `grad` take in place of the tensor.

    Raises:
        RuntimeError: for a tensor that does not require grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    _check_findable(tensor)
    edge = edge_of(tensor)
    assert edge is not None
    return GradientEdge(*edge)


def _check_findable(tensor: Tensor) -> None:
    """In inference mode torch finds no accumulator: it looks behind a view of the leaf, made there."""
    if MODES.bits & INFERENCE and tensor.requires_grad and tensor.grad_fn is None:
        raise AttributeError("'NoneType' object has no attribute 'next_functions'")


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Tell autograd that tensors were written to behind its back.

    Args:
        tensor: a tensor, or several.
    """
    if not isinstance(tensor, Iterable):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    tensors = (tensor,) if isinstance(tensor, Tensor) else tuple(tensor)
    for t in tensors:
        if not isinstance(t, Tensor):
            raise RuntimeError("increment_version expects each element of the iterable to be a tensor")
    for t in tensors:
        if not t.is_inference():
            check_counted(t)
            t._vc.version += 1


# --- hooks on saved tensors -----------------------------------------------------------------------


def _check_hooks(pack_hook: Any, unpack_hook: Any) -> None:
    if MODES.hooks_disabled is not None:
        raise RuntimeError(MODES.hooks_disabled)
    if not callable(pack_hook) or not callable(unpack_hook):
        raise TypeError(
            "_push_saved_tensors_default_hooks(): incompatible function arguments. The following argument types are "
            "supported:\n    1. (arg0: collections.abc.Callable, arg1: collections.abc.Callable) -> None\n\n"
            f"Invoked with: {pack_hook!r}, {unpack_hook!r}"
        )


def _push_saved_tensors_default_hooks(pack_hook: Any, unpack_hook: Any) -> None:
    saved_tensors_hooks(pack_hook, unpack_hook).__enter__()


def _pop_saved_tensors_default_hooks() -> None:
    saved_tensors_hooks(*MODES.pack_hooks[-1]).__exit__()


class saved_tensors_hooks:
    """Within it, tensors saved for backward go through `pack_hook`, and back through `unpack_hook`.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.tensor(2.0, requires_grad=True)
        >>> with saved_tensors_hooks(lambda t: t * 10, lambda t: t / 10):
        ...     y = x.exp()
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        pair = self.pack_hook, self.unpack_hook
        _check_hooks(*pair)
        MODES.own |= {"pack_hooks": (*MODES.pack_hooks, pair), "bits": MODES.bits | PACKING}

    @uninterrupted
    def __exit__(self, *args: object) -> None:
        left = MODES.pack_hooks[:-1]
        MODES.own |= {"pack_hooks": left, "bits": MODES.bits & ~PACKING | (PACKING if left else 0)}


class save_on_cpu(saved_tensors_hooks):
    """Within it, tensors saved for backward wait in host memory.

    Differs from torch: host memory is not pinned, whatever `pin_memory` says; XLA pins what it
    transfers.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack_to_cpu(tensor: Tensor) -> Any:
            if tensor._m.device.type == "cpu":
                return tensor, None
            host = jax.device_put(read(tensor), jax.local_devices(backend="cpu")[0])
            return host, tensor._m

        def unpack_from_cpu(packed: Any) -> Tensor:
            value, m = packed
            return value if m is None else make(jax.device_put(value, to_jax(m.device)), m)

        super().__init__(pack_to_cpu, unpack_from_cpu)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Generator[None, None, None]:
    """Within it, using saved tensor hooks raises `error_message`.

    Args:
        error_message: what the RuntimeError says.
    """
    before = MODES.hooks_disabled
    if not isinstance(error_message, str):
        raise TypeError(
            "_saved_tensors_hooks_disable(): incompatible function arguments. The following argument types are "
            "supported:\n    1. (error_message: str, fail_if_non_empty: bool = True) -> None\n\n"
            f"Invoked with: {error_message!r}"
        )
    if MODES.pack_hooks:
        raise RuntimeError(error_message)
    MODES.hooks_disabled = error_message
    try:
        yield
    finally:
        MODES.hooks_disabled = before


class node_creation_hook(events.Watching):
    """Within it, a function is called with each node that is made, once the node is complete.

    It is called for nodes of operations and of Functions, and for those of leaves whose gradient is asked for first,
    also in backward passes that record and in recomputations. Of several such contexts the outermost is called first.
    A compiled function runs op by op within it.

    Args:
        hook: takes the node. It may register hooks and write to `node.metadata`; it must make no node.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> with node_creation_hook(lambda node: print(node.name())):
        ...     y = x * 2
        torch::autograd::AccumulateGrad
        MulBackward0
    """

    def __init__(self, hook: Callable[[Node], None]) -> None:
        self.hook, self._calling = hook, False

    def node_recorded(self, node: Any) -> None:
        if self._calling:
            raise RuntimeError(
                "node_creation_hook: the hook made a node; it must only look at the node that it is given"
            )
        self._calling = True
        try:
            self.hook(node)
        finally:
            self._calling = False


class _AllowMutationOnSavedContext:
    """What is saved within `allow_mutation_on_saved_tensors`."""

    def __init__(self) -> None:
        self.open = True
        """Whether graphs recorded in the context can run backward."""
        self._kept: weakref.WeakSet[_KeptValues] = weakref.WeakSet()

    @property
    def cloned(self) -> dict[Any, Tensor]:
        """The values of saved tensors that were written to since, by what they were saved as."""
        found = {kept.key: kept for kept in list(self._kept) if kept.is_overwritten()}
        return {key: kept.tensor() for key, kept in found.items()}

    def clear(self) -> None:
        """Forget what was saved."""
        self.open = False
        self._kept.clear()


class _KeptValues:
    """The values that a tensor had when it was saved."""

    def __init__(self, t: Tensor) -> None:
        self.array, self.meta, self._counter, self._version = read(t), t._m, t._vc, t._vc.version
        self.key = id(t._vc), t._vc.version, t._m.shape, t._m.strides, storage_offset(t)

    def is_overwritten(self) -> bool:
        """Return whether the tensor was written to since."""
        return self._counter.version != self._version

    def tensor(self) -> Tensor:
        """A tensor of the values."""
        return make(self.array, self.meta if self.meta.dense else self.meta.like(shape=self.meta.shape))


_allowing = threading.local()


@contextmanager
def allow_mutation_on_saved_tensors() -> Generator[_AllowMutationOnSavedContext, None, None]:
    """Within it, tensors saved for backward may be written to: the graph keeps their old values.

    Nothing is copied: arrays are immutable, so the old value simply stays where it is. The backward
    must run before the context ends.

    Example:
        >>> import torchgrad_jax as torch
        >>> with allow_mutation_on_saved_tensors():
        ...     a = torch.ones(2, requires_grad=True)
        ...     b = a.clone()
        ...     out = (b**2).sum()
        ...     _ = b.sin_()
        ...     out.backward()
        >>> a.grad
        tensor([2., 2.])
    """
    if getattr(_allowing, "on", False):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    ctx = _AllowMutationOnSavedContext()

    def pack(t: Tensor) -> _KeptValues:
        kept = _KeptValues(t)
        ctx._kept.add(kept)
        return kept

    def unpack(kept: _KeptValues) -> Tensor:
        if not ctx.open:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
                "in which the graph was originally recorded."
            )
        return kept.tensor()

    _allowing.on = True
    try:
        with saved_tensors_hooks(pack, unpack):
            yield ctx
    finally:
        _allowing.on = False  # before any call, where a signal would come
        ctx.clear()


# --- hooks on several tensors ---------------------------------------------------------------------


class _MultiHandle(RemovableHandle):
    handles: tuple[RemovableHandle, ...]

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove every hook."""
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


def _get_grad_fn_or_grad_acc(t: Tensor | GradientEdge) -> Any:
    if isinstance(t, GradientEdge):
        return t.node
    _check_findable(t)
    edge = edge_of(t) if t.requires_grad else None
    if edge is None:
        raise AssertionError("Expected gradient function to be set")
    return edge[0]


def _current_graph_task_id() -> int:
    task = MODES.graph_task
    return -1 if task is None else task.id


def _will_engine_execute_node(node: Any) -> bool:
    """Return whether the running pass will come to a node."""
    if not isinstance(node, _EngineNode):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    task = MODES.graph_task
    if task is None:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    if node not in task.nodes or node is task.root:  # torch does not count a single root
        return False
    if task.needed is None:
        return True
    if not any(node.edges) and not task.accumulates and node in task.needed:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). This is "
            "currently not supported."
        )
    return node in task.needed


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[Sequence[Tensor | None]], None] | Callable[[Tensor], None],
    *,
    mode: Literal["all", "any"] = "all",
) -> RemovableHandle:
    """Call a hook when the gradients of several tensors are there.

    Args:
        tensors: the tensors, which require grad.
        fn: with mode "all", called once per pass with all gradients, None for those that the pass
            does not compute; with "any", called with the first gradient computed.
        mode: "all" or "any".

    Returns:
        A handle that removes the hook.
    """
    modes = ("all", "any")
    if mode not in modes:
        raise ValueError(f"Expects mode to be one of {modes} but got {mode}")
    lock = threading.Lock()
    if mode == "any":
        ran: dict[int, bool] = defaultdict(bool)

        def first(grad: Tensor) -> None:
            task = _current_graph_task_id()
            assert task != -1, "expected this hook to be called inside a backward call"
            with lock:
                before, ran[task] = ran[task], True
            if not before:
                fn(grad)  # type: ignore[arg-type]
                _forget_later(ran, task)

        return _MultiHandle(tuple(t.register_hook(first) for t in tensors if t.requires_grad))

    nodes = [_get_grad_fn_or_grad_acc(t) for t in tensors]
    waiting: dict[int, list[Any]] = {}

    def hook_of(i: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            task = _current_graph_task_id()
            assert task != -1, "expected this hook to be called inside a backward call"
            with lock:
                entry = waiting.get(task)
                if entry is None:
                    expected = sum(map(_will_engine_execute_node, nodes))
                    entry = waiting[task] = [expected, [None] * len(nodes)]
                    _forget_later(waiting, task)
                entry[0] -= 1
                entry[1][i] = grad
                done = entry[0] == 0
            if done:
                waiting.pop(task, None)
                fn(entry[1])

        return hook

    return _MultiHandle(tuple(t.register_hook(hook_of(i)) for i, t in enumerate(tensors)))


def _forget_later(table: dict[int, Any], task: int) -> None:
    """Drop a pass's entry at its end."""
    MODES.graph_task.callbacks.append(lambda: table.pop(task, None))


# --- settings of devices with streams -------------------------------------------------------------

_stream_settings = {"warn": True, "override": False}


def _flag(name: str, enabled: bool) -> None:
    if not isinstance(enabled, bool):
        raise RuntimeError(f"enabled must be a bool, but got {type(enabled).__name__}")
    _stream_settings[name] = enabled


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Kept for torch code: XLA orders its own streams, so there is no mismatch to warn of."""
    _flag("warn", enabled)


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Kept for torch code: XLA orders its own streams."""
    _flag("override", enabled)


def region_activation_memory_budget(budget: float) -> contextlib.AbstractContextManager[None]:
    """A budget for what a compiled region keeps for backward; as in torch, an error outside of one.

    Args:
        budget: between 0 and 1.
    """
    name = "torch.autograd.graph.region_activation_memory_budget"
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise TypeError(f"{name}: expects a float, got {type(budget).__name__}")
    if not 0 <= budget <= 1:
        raise ValueError(f"{name}: must be in [0, 1], got {budget}")
    raise RuntimeError(f"{name} can only be used inside a torch.compile region; it has no effect in eager mode.")


# --- not in torch ---------------------------------------------------------------------------------


def to_jaxpr(tensor: Tensor) -> Any:
    """Return what the backward pass from a tensor lowers to, as one jaxpr.

    Its inputs are the gradient of the tensor and what the graph saved; its outputs the gradients of the leaves.

    Raises:
        RuntimeError: where Python code takes part in the pass: hooks, custom Functions.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> print(torch.autograd.graph.to_jaxpr(x.sin()).jaxpr.eqns[0].primitive)
        jit
    """
    if not requires_grad_of(tensor) or grad_fn_of(tensor) is None:
        raise RuntimeError("to_jaxpr: the tensor has no graph")
    roots = [(grad_fn_of(tensor), tensor._onr)]
    grads = [ones_like(tensor._m)]
    found = whole_graph(roots, grads, None)
    if found is None:
        raise RuntimeError(
            "to_jaxpr: this graph is not one JAX function: it has hooks, custom Functions, packed or freed values, "
            "or more nodes than are compiled as one"
        )
    segment = found[1]
    compiled = Compiled(segment.key)
    return jax.make_jaxpr(jit(compiled.pure()))(*segment.given, *segment.args)


__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "node_creation_hook", "region_activation_memory_budget", "register_multi_grad_hook",
    "save_on_cpu", "saved_tensors_hooks", "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]  # fmt: skip
