"""From arguments as users give them to one run of the engine."""

from __future__ import annotations

import logging
import operator
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import jax

from .._bridge.vmap import vmap
from .._core.arrays import dtypes
from .._core.arrays.meta import Meta, meta
from .._core.arrays.transfer import filled
from .._core.errors import messages as errors, warn
from .._core.state import GRAD, MODES, UNDER_JAX, WINDOWS
from .._engine.graph.fitting import fitted, leaf_grad_meta
from .._engine.graph.history import edge_of, grad_fn_of, requires_grad_of
from .._engine.graph.node import AccumulateGrad, Node, accumulator
from .._engine.memory.escapes import refuse_escape
from .._engine.memory.tensor import Tensor, born, make
from .._engine.passes.order import reachable
from .._engine.passes.segments import run_batched as run_rows
from .._engine.passes.walk import run
from .._engine.tensor.tensor_hooks import retain_grad


class GradientEdge(namedtuple("GradientEdge", ["node", "output_nr", "ownership_token"], defaults=(None,))):
    """Where gradients flow: an output of a node. Given to `backward` and `grad` in place of tensors.

    Example:
        >>> GradientEdge(None, 0).output_nr
        0
    """

    __slots__ = ()


log = logging.getLogger("torch.autograd.graph")
"""Told at level DEBUG which nodes run; under torch's name, by which programs ask for it."""


def run_backward(
    tensors: Sequence[Any],
    grads: Sequence[Any],
    keep: bool,
    create: bool,
    inputs: Sequence[Any],
    allow_unreachable: bool,
    accumulate: bool,
) -> tuple[Any, ...]:
    """One pass: into `.grad` when accumulating, else the gradients of `inputs`."""
    if len(tensors) != len(grads):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    if keep.__class__ is not bool or create.__class__ is not bool:
        keep, create = _flag(keep), _flag(create)
    allow_unreachable = _flag(allow_unreachable)
    roots, given = [], []
    for i, (t, g) in enumerate(zip(tensors, grads)):
        root, m = _root(i, t, g)
        if g is None:
            raise RuntimeError(f"element {i} of gradients tuple is None, but the corresponding Tensor requires grad")
        if not isinstance(g, Tensor):
            raise RuntimeError(f"element {i} of gradients tuple is not a Tensor or None")
        roots.append(root)
        given.append(g if g._m is m else fitted("", i, g, m))
    targets = [_target(t, accumulate) for t in inputs] if inputs else None
    if accumulate and create:
        _warn_of_cycle()
    if accumulate and MODES.bits & UNDER_JAX:
        _refuse_outside(roots, targets, [*tensors, *given])
    if MODES.run.may_write_outside:
        MODES.run.uses.begin_pass(reachable([n for n, _ in roots]), targets)
    if log.isEnabledFor(logging.DEBUG):
        found = _logged(roots, given, keep, create, targets, accumulate)
    else:
        found = run(roots, given, keep, create, targets, accumulate)
    if not allow_unreachable and not accumulate:
        for i, g in enumerate(found):
            if g is None:
                raise RuntimeError(errors.UNUSED.format(index=i))
    return tuple(found)


def _refuse_outside(roots: Sequence[Any], targets: Any, given: Sequence[Any]) -> None:
    """Refuse a pass whose gradients JAX traces, and which would leave them in leaves from outside, before it begins."""
    nodes = [n for n, _ in targets] if targets else reachable([n for n, _ in roots])
    leaves = [n.variable for n in nodes if isinstance(n, AccumulateGrad)]
    refuse_escape(map(born, leaves), [t._st.array for t in given if isinstance(t, Tensor)], "change the gradient of")


def _logged(roots: Sequence[tuple[Node, int]], *args: Any) -> list[Tensor | None]:
    """A pass that logs every node before it runs, with dtypes and shapes of what came to it."""

    def prehook(node: Node) -> Any:
        return lambda grads: log.debug("Executing: %s with grad_outputs: [%s]", node, ",".join(map(_brief, grads)))

    handles = [n.register_prehook(prehook(n)) for n in reachable([n for n, _ in roots])]
    try:
        return run(roots, *args)
    finally:
        for handle in handles:
            handle.remove()


def _brief(t: Tensor | None) -> str:
    if t is None:
        return "None"
    return f"{_short(t._m.dtype)}[{', '.join(map(str, t._m.shape))}]"


def _short(dtype: Any) -> str:
    """The short name of a dtype: f32, bf16, c64, i64, b8."""
    name = str(dtype).rpartition(".")[2]
    for long, short in (("bfloat", "bf"), ("float", "f"), ("complex", "c"), ("uint", "u"), ("int", "i")):
        if name.startswith(long):
            return short + name[len(long) :]
    return "b8" if name == "bool" else name


def _whole(value: Any) -> int:
    """An integer, or something that is one."""
    if hasattr(value, "__index__"):
        return operator.index(value)
    raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")


def _flag(value: Any) -> bool:
    """A flag as torch's parser takes it: an integer, or something that is one."""
    if value is True or value is False:
        return value
    try:
        return bool(operator.index(value))
    except TypeError:
        raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer") from None


def _root(i: int, t: Any, given: Any) -> tuple[tuple[Node, int], Meta]:
    """Where a pass begins, and what a gradient has to look like there."""
    if isinstance(t, Tensor):
        edge = edge_of(t)
        if edge is None:
            raise RuntimeError(errors.NO_GRAPH.format(index=i))
        if edge[0].__class__ is not AccumulateGrad:
            given_dtype = given._m.dtype if isinstance(given, Tensor) else t._m.dtype
            return edge, t._m if edge[0]._grad_dtypes is None else edge[0].grad_meta(edge[1], given_dtype)
        return edge, leaf_grad_meta(t, given._m.dtype if isinstance(given, Tensor) else t._m.dtype)
    if not isinstance(t, GradientEdge):
        raise RuntimeError(f"element {i} of tensors tuple is neither a Tensor nor a GradientEdge")
    if not isinstance(t.node, Node):
        raise AttributeError(f"'{type(t.node).__name__}' object has no attribute '_input_metadata'")
    return (t.node, t.output_nr), t.node.out_meta(t.output_nr)


def _target(t: Any, accumulate: bool) -> tuple[Node, int]:
    if isinstance(t, GradientEdge):
        if not isinstance(t.node, Node):
            raise RuntimeError(
                f"GradientEdge's first object must be an autograd.graph.Node but got {type(t.node).__name__}"
            )
        return t.node, _whole(t.output_nr)
    if not isinstance(t, Tensor):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}")
    if accumulate:
        grad_fn_of(t)  # torch asks for it first
        retain_grad(t)
    edge = edge_of(t)
    # Through its base alone: nothing in a graph leads to it.
    if edge is None and requires_grad_of(t):
        return accumulator(t), 0
    if edge is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return edge


def _warn_of_cycle() -> None:
    warn.once(
        "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
        "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to "
        "avoid this. If you have to use this function, make sure to reset the .grad fields of your parameters to "
        "None after use to break the cycle and avoid the leak."
    )


def run_batched(
    tensors: Sequence[Any],
    grads: Sequence[Any],
    keep: bool,
    create: bool,
    inputs: Sequence[Any],
    allow_unreachable: bool,
) -> tuple[Any, ...]:
    """One pass for each row of the gradients, all at once in one `jax.vmap`."""
    for g in grads:
        if g is not None and g._m.ndim == 0:
            raise ValueError(
                "vmap(vjp, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that input is a Tensor of "
                "dimensionality 0 so expected in_dim to satisfy 0 <= in_dim < 0."
            )
    sizes = {g._m.shape[0] for g in grads if g is not None}
    if len(sizes) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{[g._m.shape[0] for g in grads if g is not None]} for the mapped dimension"
        )
    metas = [None if g is None else meta(g._m.shape[1:], g._m.dtype, g._m.device) for g in grads]
    compiled = None if create else compiled_rows(tensors, grads, metas, keep, inputs)
    if compiled is not None:
        missing = [a is None for a in compiled]
        if not allow_unreachable and any(missing):
            raise RuntimeError(errors.UNUSED.format(index=missing.index(True)))
        dev = grads[0]._m.device
        return tuple(
            None if a is None else make(a, meta(tuple(a.shape), dtypes.from_np(a.dtype), dev)) for a in compiled
        )
    return _row_by_row(tensors, grads, keep, create, inputs, allow_unreachable)


def compiled_rows(
    tensors: Sequence[Any], grads: Sequence[Any], metas: Sequence[Any], keep: bool, inputs: Sequence[Any]
) -> list[Any] | None:
    """The pass as one cached function of all rows, where nobody can look inside."""
    if MODES.bits & ~(GRAD | UNDER_JAX | WINDOWS) or MODES.anomaly is not None or any(g is None for g in grads):
        return None
    roots = []
    for i, (t, g, m) in enumerate(zip(tensors, grads, metas)):
        root, want = _root(i, t, g)
        if want is not m and (want.shape, want.dtype) != (m.shape, m.dtype):
            return None
        roots.append(root)
    return run_rows(roots, grads, keep, [_target(t, False) for t in inputs])


def _row_by_row(
    tensors: Sequence[Any],
    grads: Sequence[Any],
    keep: bool,
    create: bool,
    inputs: Sequence[Any],
    allow_unreachable: bool,
) -> tuple[Any, ...]:
    """The same by `vmap`; with `create`, as one operator on the graph that is being recorded."""
    at = [i for i, g in enumerate(grads) if g is not None]
    missing: list[bool] = []

    def row(*given: Tensor) -> tuple[Tensor, ...]:
        filled: list[Any] = [None] * len(grads)
        for i, g in zip(at, given):
            filled[i] = g
        found = run_backward(tensors, filled, keep, create, inputs, allow_unreachable, False)
        missing[:] = [g is None for g in found]
        return tuple(g for g in found if g is not None)

    found = iter(vmap(row)(*[grads[i] for i in at]))
    return tuple(None if gone else next(found) for gone in missing)


# --- gradients of the outputs ---------------------------------------------------------------------

_ONES: dict[Meta, Any] = {}


def ones_like(m: Meta) -> Tensor:
    """Ones like an output; the array is shared, since nothing can write to it."""
    array = _ONES.get(m)
    if array is None:
        if len(_ONES) > 256:
            _ONES.clear()
        with jax.ensure_compile_time_eval():  # an array also while something is being traced
            array = _ONES[m] = filled(m, 1)
    return make(array, m if m.dense else meta(m.shape, m.dtype, m.device))


def as_tuple(tensors: Any, length: int) -> tuple[Any, ...]:
    """grad_tensors as one entry per output."""
    if tensors is None:
        return (None,) * length
    return (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)


def make_grads(outputs: Sequence[Any], grads: Sequence[Any], batched: bool) -> tuple[Any, ...]:
    """The gradients that a pass starts from, checked or made."""
    given = []
    for i, (out, g) in enumerate(zip(outputs, grads)):
        given.append(_start(i, out, g, batched))
    return tuple(given)


def _start(i: int, out: Any, g: Any, batched: bool) -> Any:
    if isinstance(out, Tensor):
        m = out._m
    elif isinstance(out, GradientEdge):
        m = out.node.out_meta(out.output_nr)
    else:
        raise AssertionError("Expected output to be a torch.Tensor")
    if isinstance(g, Tensor):
        if batched or g._m is not m:
            _check(i, m, g, batched)
        return g
    if g is not None:
        raise TypeError(f"gradients can be either Tensors or None, but got {errors.class_name(g)}")
    if isinstance(out, Tensor) and not requires_grad_of(out):
        return None
    if m.numel != 1:
        raise RuntimeError(errors.SCALAR_ONLY)
    if m.dtype.category != dtypes.FLOATING:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {m.dtype}")
    return ones_like(m)


def _check(i: int, m: Meta, g: Tensor, batched: bool) -> None:
    if batched and (g._m.ndim == 0 or g._m.shape[0] == 0):  # torch looks at the first row
        raise IndexError(errors.NO_INDEX if g._m.ndim == 0 else errors.EMPTY_INDEX)
    if (g._m.shape[1:] if batched else g._m.shape) != m.shape:
        if batched:
            # torch drops the batch dimension twice in this message.
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{i}] has a shape of {g._m.size[2:]!r} "
                f"and output[{i}] has a shape of {m.size}. If you only want some tensors in `grad_output` to be "
                "considered batched, consider using vmap."
            )
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {g._m.size} and output[{i}] has a shape of {m.size}."
        )
    if (g._m.dtype.category == dtypes.COMPLEX) != (m.dtype.category == dtypes.COMPLEX):
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{i}] has a dtype of {g._m.dtype} and output[{i}] has a dtype of {m.dtype}."
        )


# --- the engine's own entry points ----------------------------------------------------------------


class Engine:
    """What public code calls on ``Variable._execution_engine``: trl and torchtune queue callbacks."""

    def queue_callback(self, callback: Any) -> None:
        """Call `callback` when the running pass is done."""
        task = MODES.graph_task
        if task is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        task.callbacks.append(callback)

    def is_checkpoint_valid(self) -> bool:
        """Return whether no pass for chosen inputs is running, in which reentrant checkpoints cannot work."""
        task = MODES.graph_task
        while task is not None:
            if task.calling and task.needed is not None:
                return False
            task = task.outer
        return True
