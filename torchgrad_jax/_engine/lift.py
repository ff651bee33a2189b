"""Tensor code as a JAX function: tensors hold tracers, and what comes from outside is lifted in.

`trace` runs a Python function over tensors once and gives the steps it took. A tensor from outside that
meets a traced one becomes an input of its own, with its place in the outer graph; operations among
outside tensors alone run outside, on their values. What the steps amount to is then one operator, a `Call`, so
that gradients of any order, forward mode and further transforms of it come from the engine.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core import dtypes, errors, shapes
from .._core.meta import Meta, meta
from .._core.python_numbers import Number
from .._core.state import DUAL, GRAD, LIFT, MODES, TRACED, Modes, next_level
from .._ops.registry import Layout
from .alike import Alike
from .history import edge_of, grad_fn_of, requires_grad_of
from .node import AccumulateGrad
from .steps import bind_equation
from .strided import is_direct, read, reader, stored
from .tape import Tape, Value, aval_of
from .tensor import Storage, Tensor, alias_of, extras, is_plain, make, plain_alias, wrap_array

_placeholder: Any = None


def outside_value(index: int, m: Meta, weak: bool = False) -> Any:
    """A tracer that stands for the captured tensor number `index`; a `weak` one stands for a Python number."""
    global _placeholder
    if _placeholder is None:
        from jax.extend.core import Primitive

        _placeholder = Primitive("outside_value")
        _placeholder.def_abstract_eval(lambda *, index, aval: aval)
    aval = jax.core.ShapedArray(m.shape, m.dtype.np, weak_type=weak)
    return _placeholder.bind(index=index, aval=aval)


def running_vmap() -> Lift | None:
    """The innermost run, if it is one of `vmap`."""
    run = MODES.lifts[-1] if MODES.bits & LIFT else None
    return None if run is None or run.size is None else run


def is_batched(t: Tensor) -> bool:
    """Whether a tensor stands for one example of the batch of a running `vmap`."""
    return bool(MODES.bits & LIFT) and any(
        run.size is not None and run.inside(t) for run in MODES.lifts
    )


def as_batch(t: Tensor, like: Sequence[Any]) -> Tensor:
    """`t` as one example of a batch, all of them the same, if any of the tensors `like` is an example.

    So are gradients in torch, whose seeds are made like what is differentiated: not one memory for all examples.
    """
    if not MODES.bits & LIFT:
        return t
    run = MODES.lifts[-1]
    if run.size is None or run.inside(t) or not any(run.inside(v) for v in like):
        return t
    if requires_grad_of(t) or (MODES.bits & DUAL and MODES.tangents.tangent_of(t) is not None):
        return t
    m = t._m
    if not shapes.is_dense(m.shape, m.strides):
        m = meta(m.shape, m.dtype, m.device)
    return make(run.capture(t, t._m, False), m)


def beside(t: Tensor, others: Sequence[Any]) -> Tensor:
    """`t` as a value of the run that a call on it and on `others` belongs to, so that it may get a place in its graph.

    A tensor from outside with a place in the graph of a run would carry the nodes of that run out of it.
    """
    if MODES.bits & LIFT:
        for run in reversed(MODES.lifts):
            if run.inside(t):
                return t
            if any(isinstance(v, Tensor) and run.inside(v) for v in others):
                return run.made_inside(t)
    return t


def is_hidden(t: Tensor) -> bool:
    """Whether a gradient is wanted of `t` outside of the running `vmap` alone."""
    return bool(MODES.bits & LIFT) and MODES.lifts[-1].hides(t)


def is_tracked(t: Tensor) -> bool:
    """Whether a gradient goes from `t` to where it came from; views made without recording only say they require it."""
    if t._rg or t._al is None or not requires_grad_of(t):
        return t._rg
    return not MODES.bits & GRAD or grad_fn_of(t) is not None


def tensor_of_jax(array: Any) -> Tensor:
    """A tensor around an array of the user's, or around what JAX has in its place while it traces the user's code."""
    t = wrap_array(array)
    if isinstance(array, jax.core.Tracer):
        if MODES.sealed and not (MODES.bits & LIFT and MODES.lifts[-1].pure):
            raise RuntimeError(errors.FROZEN_IN_RULE)
        Modes.traced = True
        follow_jax(t)
    return t


def follow_jax(t: Tensor) -> None:
    """Let the derivative that JAX takes of a running lift go on through a tensor around a tracer of JAX's."""
    if not MODES.bits & LIFT or t._m.dtype.category < dtypes.FLOATING:
        return
    if MODES.lifts[-1].follows(t._st.array):
        t._rg = extras(t).followed = True


class Move(NamedTuple):
    """What a function such as `transpose_` does to the dimensions of an example."""

    kept: tuple[int | None, ...]
    """Per dimension that comes out, which one it was; None for a new one."""
    before: int

    @classmethod
    def of(cls, call: Any, m: Meta, leaves: Sequence[Any]) -> Move:
        """What a call does to a tensor: strides that are all different tell where its dimensions go."""
        marks = tuple(range(-m.ndim, 0))
        out = call.geometry(meta(m.shape, m.dtype, m.device, marks), leaves)
        return cls(tuple([marks.index(s) if s in marks else None for s in out.strides]), m.ndim)

    def place(self, at: int) -> int:
        """Where the batch's dimension is afterwards that stood before dimension `at` of the example."""
        gone = sum(d not in self.kept for d in range(at))
        new = sum(d is None for d in self.kept[: at - gone])
        return at - gone + new

    def do(self, whole: Tensor, at: int) -> None:
        """The same for all examples, whose dimension is `at`."""
        added = [i for i, d in enumerate(self.kept) if d is None]
        gone = [d for d in range(self.before) if d not in self.kept]
        swapped = [i for i, d in enumerate(self.kept) if d != i]
        if added:
            whole.unsqueeze_(*[d + (d >= at) for d in added])
        elif gone or not swapped:
            whole.squeeze_(tuple([d + (d >= at) for d in gone]))
        else:
            whole.transpose_(*[d + (d >= at) for d in swapped])


class Lift:
    """One run of tensor code with tracers in its tensors."""

    __slots__ = (
        "alike", "birth", "captured", "entered", "inputs", "keep", "mapped", "met", "moves", "origins",
        "outer_dual", "outer_level", "outer_lifts", "outer_trace", "outer_traced", "outer_transforms", "own_leaves",
        "places", "randomness", "rows", "size", "steps", "tape", "traces",
    )  # fmt: skip
    size: Any  # of the batch, for a run of `vmap`
    stateful = False
    """Whether what is outside may be written to, and is read anew each time the steps are run."""

    pure = True
    """Whether what the run amounts to is differentiated by JAX."""

    def __init__(
        self, randomness: str = "error", size: int | None = None, inputs: Sequence[Tensor] = (),
        rows: Any = None,
    ) -> None:  # fmt: skip
        from jax.extend.core import take_current_trace

        with take_current_trace() as trace:
            self.outer_trace = trace
        self.outer_lifts, self.outer_transforms = MODES.lifts, MODES.transforms
        self.outer_level = MODES.level, MODES.given, MODES.birth
        self.outer_dual = MODES.dual_level
        self.outer_traced = (
            MODES.bits & TRACED
        )  # the trace that JAX makes for the run itself is no matter
        self.birth = next_level()
        self.rows = rows
        """For a run of `vmap`: gives tensors of the run for all examples, outside."""
        self.own_leaves = False
        """Whether the function made variables of its own by `requires_grad_`."""
        self.inputs = inputs
        """The outside tensors that the run is over, where it is one of `vmap`."""
        self.captured: list[Tensor] = []
        self.met: list[tuple[Any, tuple[Any, int] | None]] = []
        """What captured tensors held when they were captured, and their place in the graph."""
        self.mapped: list[bool] = []
        """Whether a captured tensor has a row per example (random draws that differ)."""
        self.entered: dict[int, tuple[Any, Tensor]] = {}
        """Captured tensors with a row per example, by the identity of what stands for a row."""
        self.origins: dict[int, tuple[Any, Tensor, int, Tensor]] = {}
        """By the identity of the storage of an example: what it held at first, what was given for all examples and
        along which dimension, and the tensor of one."""
        self.moves: dict[int, tuple[Tensor, list[Move]]] = {}
        """The tensors of examples, and how their dimensions were moved in place: see `record_move`."""
        self.steps: dict[int, tuple[Any, int, int]] = {}
        """Storages in which examples do not lie one after the other, by identity: see `lies`."""
        self.places: dict[Any, Any] = {}
        self.keep: list[Any] = []
        self.traces: list[Any] = []
        self.tape: Any = None
        """Where the steps of a run of `vmap` are written down; other runs are JAX's to trace."""
        self.alike: Alike | None = None
        self.randomness, self.size = randomness, size

    def inside(self, t: Tensor) -> bool:
        """Whether a tensor's elements belong to this run."""
        return self.ours(t._st.array)

    def owns(self, array: Any) -> bool:
        """Whether an array is a tracer of this run."""
        return isinstance(array, jax.core.Tracer) and any(array._trace is s for s in self.traces)

    def follows(self, array: Any) -> bool:
        """Whether the derivative goes on through what a transform of JAX's returned to this run."""
        return self.pure and self.size is None and self.owns(array)

    def ours(self, array: Any) -> bool:
        """Whether an array is a tracer of this run, or of a transform of JAX's that was called in it."""
        if self.owns(array):
            return True
        if not MODES.traced or not isinstance(array, jax.core.Tracer):
            return False
        return any(array._trace is s for s in self.inner_traces())

    def inner_traces(self) -> Iterator[Any]:
        """The transforms of JAX's that the code is in, as far as they were called in this run."""
        from jax.extend.core import take_current_trace

        with take_current_trace() as trace:
            pass
        while trace is not None and not any(trace is s for s in self.traces):
            if trace is self.outer_trace:
                return
            yield trace
            trace = getattr(trace, "parent_trace", None)

    def place_for(self, index: int, m: Meta, weak: bool = False) -> Any:
        """A tracer of the run itself, wherever in it the code is, that stands for an outside value."""
        if self.tape is not None:
            return self.tape.place(index, m)
        from jax.extend.core import set_current_trace

        with set_current_trace(self.traces[0]):
            return outside_value(index, m, weak)

    def hides(self, t: Tensor) -> bool:
        """Whether nothing inside knows that `t` requires a gradient: only what is outside of `vmap` wants it."""
        return (
            self.size is not None
            and not self.own_leaves
            and MODES.transforms == self.outer_transforms
            and self.inside(t)
        )

    def touches(self, leaves: Sequence[Any]) -> bool:
        """Whether any tensor among the leaves, or its tangent, does; with no tensors at all, yes."""
        tensors = [v for v in leaves if isinstance(v, Tensor)]
        if not tensors or any(self.inside(t) for t in tensors):
            return True
        if not MODES.bits & DUAL:
            return False
        slopes = [MODES.tangents.tangent_of(t) for t in tensors]
        return any(s is not None and self.inside(s) for s in slopes)

    @contextmanager
    def outside(self, users: bool = False) -> Iterator[None]:
        """Run what is inside where this run was started.

        What is made there belongs to the transforms that were entered since, save where it is code of the `users`.
        """
        from jax.extend.core import set_current_trace

        before, lifts, transforms = MODES.bits, MODES.lifts, MODES.transforms
        level = MODES.level, MODES.given, MODES.birth
        MODES.lifts, MODES.transforms = self.outer_lifts, self.outer_transforms
        if users:
            MODES.level, MODES.given, MODES.birth = self.outer_level
        MODES.bits = before & ~LIFT | (LIFT if self.outer_lifts else 0)
        try:
            with set_current_trace(self.outer_trace):
                yield
        finally:
            MODES.lifts, MODES.transforms = lifts, transforms
            MODES.level, MODES.given, MODES.birth = level
            MODES.bits = MODES.bits & ~LIFT | before & LIFT

    def level(self) -> int:
        """How deep in transforms the run is, counted from 1."""
        return self.outer_transforms + len(self.outer_lifts) + 1

    def holds_level(self) -> bool:
        """Whether the open level of forward mode was opened inside of the run."""
        return MODES.dual_level != self.outer_dual

    def runs_alone(self) -> bool:
        """Whether no transform that differentiates was opened inside of the run."""
        return MODES.transforms == self.outer_transforms and not self.holds_level()

    def same_for_all(self, t: Tensor) -> bool:
        """Whether a tensor of the run is known not to differ between the examples of its batch."""
        array = t._st.array
        return self.tape is not None and self.tape.holds(array) and array in self._alike()

    def varies(self, t: Tensor) -> bool:
        """Whether the values of a tensor may differ between the examples."""
        return self.inside(t) and not self.same_for_all(t)

    def _alike(self) -> Alike:
        if self.alike is None:
            self.alike = Alike(self.tape, self.mapped)
        return self.alike

    def for_all(self, t: Tensor) -> Tensor | None:
        """The values of a tensor of the run outside of it, where they do not differ between the examples."""
        array = read(t)
        if self.tape is None or not self.tape.holds(array) or array not in self._alike():
            return None
        with self.outside():
            found = self._alike().value(array, lambda i: _elements(self.captured[i]))
            return make(found, meta(t._m.shape, t._m.dtype, t._m.device))

    def take_in(self, me: Tensor, values: Sequence[Tensor]) -> bool:
        """Make a tensor a value of the run so that values of it, the same for all examples, can be written there.

        Forward mode inside of `vmap` has such values: their tangents belong to the batch. Only what the
        function of the run made itself may become one; others would keep it when the run is over.
        """
        if (
            me._st.born < self.birth
            or requires_grad_of(me)
            or not all(self.same_for_all(v) for v in values)
        ):
            return False
        self._enter(me)
        return True

    def _enter(self, t: Tensor) -> None:
        """Make the storage of a tensor that the run's function made one of the run."""
        st = t._st
        st.array = self.capture(make(st.array, st.meta), st.meta, False)

    def made_inside(self, t: Tensor) -> Tensor:
        """A tensor without a place in the graph as a value of the run: itself, or a copy if it came from outside."""
        if self.stateful:
            return t
        if t._st.born < self.birth or t._al is not None:
            return make(self.capture(t, t._m, False), meta(t._m.shape, t._m.dtype, t._m.device))
        self._enter(t)
        return t

    def so_far(self, arrays: Sequence[Any]) -> Lifted:
        """The steps of a run of `vmap` taken up to now, with these arrays as the results."""
        outs = [self.tape.number_of(a) for a in arrays]
        return Lifted(self, self.tape.needed(outs), outs)

    def array_of(self, t: Tensor) -> Any:
        """A tensor's elements for a step of this run."""
        requires = t._rg or requires_grad_of(t)
        if self.inside(t):
            array = read(t)
            # Detached, or made without recording: a derivative from outside must not pass either.
            if not is_tracked(t) and t._m.dtype.category >= 2 and self.owns(array):
                tape = self.tape
                array = lax.stop_gradient(array) if tape is None else tape.stop(array)
            return array
        al = t._al
        view = None if al is None else (al.offset, al.conj, al.neg)
        place = (id(t._fn), t._onr) if t._fn is not None else id(t) if requires else None
        key = (id(t._st), id(_memory(t).array), t._m, view, place)
        found = self.places.get(key)
        if found is None:
            found = self.places[key] = self.capture(t, t._m, False)
        return found

    def read(self, t: Tensor) -> Any:
        """`strided.read` during this run: values of outside tensors as they are now."""
        if self.outer_lifts and not self.inside(t):
            with self.outside():
                return read(t)
        array = t._st.array
        if array.__class__ is not Value or is_direct(t):
            return stored(t, array)
        al = t._al
        kernel = reader(t._st.meta, t._m, al.conj, al.neg)
        out = self.tape.kernel(kernel, (array, al.offset), aval_of(t._m))
        return stored(t, array) if out is None else out

    def write(self, t: Tensor) -> Any:
        """The elements of the storage that `t` is about to be written to."""
        return t._st.array

    def leaf(self, t: Tensor) -> None:
        """The gradient of a leaf is about to be looked at or replaced by a pass."""
        if not self.inside(t):
            raise RuntimeError(
                "backward() inside of a transformed function cannot accumulate into a tensor from outside; use "
                "autograd.grad, or call backward() outside"
            )

    def look_at_values(self, t: Tensor) -> None:
        """Python is about to know the values of an outside tensor."""

    def look_at_grad(self, t: Tensor) -> None:
        """The user looks at the gradient of a leaf."""

    def assign_grad(self, t: Tensor) -> None:
        """The gradient of a leaf is replaced by the user."""

    def storage_born(self, storage: Any) -> None:
        """A storage was made during this run."""

    def capture(self, t: Tensor, m: Meta, mapped: bool) -> Any:
        """Make an outside tensor an input of the run; its value here is described by `m`."""
        self.captured.append(t)
        self.met.append(_as_met(t))
        self.mapped.append(mapped)
        self.keep.append((t._st, t._fn))  # their identities are keys
        value = self.place_for(len(self.captured) - 1, m)
        if mapped:
            self.entered[id(value)] = (value, t)
        return value

    def captured_then(self) -> list[Tensor]:
        """The captured tensors as they were when they were captured, if somebody wrote to them since."""
        return [
            t if _memory(t).array is array else _as_it_was(t, array, edge)
            for t, (array, edge) in zip(self.captured, self.met)
        ]

    def origin_of(self, t: Tensor) -> tuple[Tensor, int] | None:
        """The tensor, and its dimension, that `t` is the unchanged example of; else None."""
        found = self.origins.get(id(t._st))
        if found is None or t._st.array is not found[0] or not is_direct(t) or not is_plain(t):
            return None
        _, whole, dim, _ = found
        return None if requires_grad_of(whole) is not requires_grad_of(t) else (whole, dim)

    def given_as(self, t: Tensor) -> tuple[Any, Tensor, int, Tensor] | None:
        """For a tensor on the memory of an example: what that held, what was given for all, the dimension, the
        example."""
        return self.origins.get(id(_memory(t)))

    def copy_for_rule(self, t: Tensor) -> Tensor:
        """A tensor at the same place in the graph that code of the user's may write to."""
        array, edge = _as_met(t)
        self.keep.append(edge)
        return _as_it_was(t, array, edge)

    def lies(self, t: Tensor, step: int, place: int = 0) -> None:
        """Note that the batch which `t` is an example of begins an example every so many elements.

        `place` is where its dimension stands among the others for torch, which matters where elements share memory.
        """
        m = t._m
        shape, strides = _inserted(m.shape, place, self.size), _inserted(m.strides, place, step)
        if place or shapes.preserve_strides(shape, strides)[0] != m.numel:
            self.steps[id(_memory(t))] = (_memory(t), step, place)

    def record_move(self, me: Tensor, call: Any, leaves: Sequence[Any]) -> None:
        """Note that dimensions of the tensor of an example are about to be moved, removed or added in place."""
        found = self.moves.get(id(me))
        if found is None:
            return
        move = Move.of(call, me._m, leaves)
        found[1].append(move)
        if (at := self.steps.get(id(_memory(me)))) is not None:
            self.steps[id(_memory(me))] = (*at[:2], move.place(at[2]))

    def moves_of(self, t: Tensor) -> Sequence[Move]:
        """What happened to the dimensions of the tensor of an example, in order."""
        return self.moves[id(t)][1] if id(t) in self.moves else ()

    def check_not_given(self, t: Tensor, name: str) -> None:
        """Complain about a write to the memory of what was given for all examples: their values are fixed."""
        if any(_memory(v) is _memory(t) for v in self.inputs):
            raise RuntimeError(
                f"vmap: {name} writes to the memory of a tensor that is being mapped over, from inside of "
                "the function that maps over it. Write to the example that the function was given, or to a clone."
            )

    def outside_message(self, name: str, leaves: Sequence[Any]) -> str:
        """What is said of a write of values of the run to a tensor from outside of it."""
        shape = leaves[0]._m.shape
        try:
            wanted = shapes.broadcast_shapes(*[v._m.shape for v in leaves if isinstance(v, Tensor)])
        except RuntimeError:  # an operator that does not broadcast, whose message names no shape
            wanted = shape
        return errors.write_outside(name, self.level(), shape, (self.size or 0, *wanted))

    def batch_meta(self, t: Tensor) -> Meta:
        """How the whole batch lies that `t` is an example of, where it is no view."""
        m, at = t._m, self.steps.get(id(_memory(t)))
        shape, strides = (self.size, *m.shape), (m.numel if at is None else at[1], *m.strides)
        if not shapes.is_dense(shape, strides):
            strides = shapes.contiguous_strides(shape)
        return meta(shape, m.dtype, m.device, strides)

    def memory_meta(self, t: Tensor) -> Meta:
        """How the memory lies, for all examples, that `t` is an example of; views included."""
        shape, strides = self._whole(t, t._m.ndim, 0)
        return meta(shape, t._m.dtype, t._m.device, strides)

    def lay_out(self, call: Any, leaves: Sequence[Any], outs: Sequence[Tensor]) -> None:
        """Let the results of an elementwise operator lie as torch's, which computes them for the whole batch."""
        given = [v for v in leaves if isinstance(v, Tensor)]
        elementwise = Layout.steps(call.row.layout)
        if not (elementwise or call.row.layout is Layout.PRESERVE):
            return
        if any(id(_memory(v)) in self.steps for v in given):
            # torch leaves the batch where it is for functions of one tensor, and moves it to the front for others.
            alone = sum(v is not None for v in leaves) == 1 and (elementwise or call.row.copies)
            for t in outs:
                self._lay_out_as(t, given, elementwise, alone)

    def lay_out_like(self, model: Tensor, t: Tensor) -> None:
        """Let a new tensor of the shape of `model` lie as a batch of such would in torch."""
        if self.steps:
            self._lay_out_as(t, [model], elementwise=False, alone=True)

    def _lay_out_as(
        self, t: Tensor, given: Sequence[Tensor], elementwise: bool, alone: bool
    ) -> None:
        """Let a new tensor lie as what comes from these, or from the first of them, would for the whole batch."""
        m, first = t._m, given[0]
        if not elementwise and first._m.shape != m.shape:
            return
        at = self.steps.get(id(_memory(first))) if alone and first._al is None else None
        place = 0 if at is None else at[2]
        operands = [self._whole(v, m.ndim, place) for v in given]
        shape = _inserted(m.shape, place, self.size)
        if elementwise:
            strides = list(shapes.elementwise_strides(shape, operands))
        else:
            strides = list(shapes.preserve_strides(*operands[0]))
        step = strides.pop(place)
        t._m = t._st.meta = meta(m.shape, m.dtype, m.device, tuple(strides))
        self.lies(t, step, place)

    def _whole(self, t: Tensor, ndim: int, place: int) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Shape and strides of what an operator reads for all examples."""
        m, at = t._m, self.steps.get(id(_memory(t)))
        if not self.inside(t):
            return m.shape, m.strides
        step = t._st.meta.extent if at is None else at[1]
        pad = (1,) * (ndim - m.ndim)
        shape, strides = (*pad, *m.shape), (*pad, *m.strides)
        return _inserted(shape, place, self.size), _inserted(strides, place, step)

    def row_of(self, t: Tensor) -> Tensor | None:
        """The outside tensor with a row per example that `t` is a row of, unchanged; else None."""
        _, found = self.entered.get(id(t._st.array), (None, None))
        if (
            found is None
            or not is_direct(t)
            or (requires_grad_of(found) and not requires_grad_of(t))
        ):
            return None
        return found


def _inserted(numbers: tuple[int, ...], place: int, number: int) -> tuple[int, ...]:
    return (*numbers[:place], number, *numbers[place:])


def _memory(t: Tensor) -> Any:
    """A tensor's storage, also where it is seen as a detached tensor sees it."""
    return getattr(t._st, "whole", t._st)


def _as_met(t: Tensor) -> tuple[Any, tuple[Any, int] | None]:
    """What the storage of a tensor holds, and the tensor's edge."""
    return _memory(t).array, edge_of(t) if requires_grad_of(t) else None


def _as_it_was(t: Tensor, array: Any, edge: tuple[Any, int] | None) -> Tensor:
    """A tensor that somebody wrote to, with the array that its storage held before and the edge that it had."""
    out = alias_of(t, t._m, plain_alias(t))
    storage = Storage(array, t._st.meta)
    out._st = out._vc = storage if _memory(t) is t._st else type(t._st)(storage)  # type: ignore[call-arg]
    if edge is not None:
        out._rg = True
        if isinstance(edge[0], AccumulateGrad):
            out._acc = weakref.ref(edge[0])
        else:
            out._fn, out._onr = edge
    return out


def _elements(t: Tensor) -> Any:
    """A tensor's elements for what is computed now, in whichever run that is."""
    return MODES.lifts[-1].array_of(t) if MODES.bits & LIFT else read(t)


def keys_of(leaves: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any], int]:
    """`record.keys_of` while tensor code is being lifted."""
    run = MODES.lifts[-1]
    tape = run.tape
    keys, xs, mask = [], [], 0
    for i, v in enumerate(leaves):
        if isinstance(v, Tensor):
            m, array = v._m, v._st.array
            keys.append(m)
            if v._al is not None or tape is None or not tape.holds(array):
                array = run.array_of(v)
                if v._rg or requires_grad_of(v):
                    mask |= 1 << i
            elif v._rg:
                mask |= 1 << i
            elif m.dtype.category >= 2:  # see `array_of`
                array = tape.stop(array)
            xs.append(array)
        elif v is None:
            keys.append(None)
        else:
            keys.append(v.__class__)
            xs.append(v.array() if type(v) is Number else v)
    return tuple(keys), xs, mask


class Lifted:
    """What a run of `vmap` came to: steps over inputs and captured tensors."""

    __slots__ = ("_about", "_met", "_outs", "_steps", "_tape", "captured", "key", "mapped")

    def __init__(self, lift: Lift, steps: Sequence[Any], outs: Sequence[Any]) -> None:
        tape, self._met = lift.tape, lift.met
        self._tape = tape
        self._steps, self._outs = steps, tuple(outs)
        consts = [
            c if isinstance(c, jax.Array | np.ndarray) else jnp.asarray(c) for _, c in tape.consts
        ]
        self.captured: list[Any] = [*lift.captured_then(), *[wrap_array(c) for c in consts]]
        self.mapped = [*lift.mapped, *[False] * len(consts)]
        self._about = (
            tuple([v.aval for v in tape.inputs]), self._outs, tuple(tape.outside),
            tuple([number for number, _ in tape.consts]),
        )  # fmt: skip
        self.key = (self._about, tuple(steps))

    def function(self) -> Callable[..., list[Any]]:
        """A pure function of the inputs and the captured arrays."""
        n_captured = len(self.captured) - len(self._tape.consts)
        return self._tape.function(self._steps, self._outs, n_captured)

    def loose(self) -> tuple[Any, list[Any], Callable[..., list[Any]]]:
        """The same with the numbers in it as further arguments: key, numbers, function."""
        steps, numbers = self._tape.loosened(self._steps)
        n_captured = len(self.captured) - len(self._tape.consts)
        key = (self._about, tuple(steps), tuple([v.__class__ for v in numbers]))
        return key, numbers, self._tape.function(steps, self._outs, n_captured, len(numbers))


_COMPILED = type(jax.jit(lambda: None))


def run_kernel(plan: Any, xs: Sequence[Any]) -> Any:
    """The forward of a plan during a run: one step of its tape, if it has one."""
    tape, fwd = MODES.lifts[-1].tape, plan.fwd
    if tape is None:
        return fwd(*xs)
    kernel = fwd
    if fwd.__class__ is not _COMPILED:
        kernel = getattr(fwd, "kernel", None)
        if kernel.__class__ is not _COMPILED:
            return fwd(*xs)
        fwd.check(xs)
    avals = plan.grads.get("avals")
    if avals is None:
        avals = tuple([aval_of(m) for m in plan.outs])
        avals = plan.grads["avals"] = avals[0] if plan.single else avals
    out = tape.kernel(kernel, xs, avals)
    return fwd(*xs) if out is None else out


class Traced:
    """What a run came to that JAX traced."""

    __slots__ = ("birth", "captured", "jaxpr", "n_in")

    def __init__(self, jaxpr: Any, consts: Sequence[Any], lift: Lift) -> None:
        self.jaxpr = jaxpr
        self.n_in = len(jaxpr.invars)
        self.birth = lift.birth
        self.captured: list[Any] = [*lift.captured, *[wrap_array(c) for c in consts]]

    def function(self) -> Callable[..., list[Any]]:
        """A pure function of the inputs and the captured arrays."""
        jaxpr, n_in = self.jaxpr, self.n_in
        n_captured = len(self.captured) - len(jaxpr.constvars)

        def run(*arrays: Any) -> list[Any]:
            captured = arrays[n_in : n_in + n_captured]
            return evaluate(jaxpr, arrays[:n_in], captured, arrays[n_in + n_captured :])

        return run


def evaluate(
    jaxpr: Any, inputs: Sequence[Any], captured: Sequence[Any], consts: Sequence[Any]
) -> list[Any]:
    """Take the steps of a run again, on other values."""
    env: dict[Any, Any] = dict(zip(jaxpr.invars, inputs))
    env.update(zip(jaxpr.constvars, consts))
    take(jaxpr.eqns, env, captured)
    return [v.val if hasattr(v, "val") else env[v] for v in jaxpr.outvars]


def take(
    steps: Sequence[Any], env: dict[Any, Any], captured: Sequence[Any], first: int = 0
) -> None:
    """Take steps one after the other over `env`; placeholders are numbered from `first`."""
    for eqn in steps:
        if eqn.primitive is _placeholder:
            env[eqn.outvars[0]] = captured[eqn.params["index"] - first]
            continue
        args = [v.val if hasattr(v, "val") else env[v] for v in eqn.invars]
        out = bind_equation(eqn, args)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))


def placeholder() -> Any:
    """The primitive that stands for values from outside."""
    return _placeholder


def trace(run: Callable[[list[Any]], list[Any]], avals: Sequence[Any]) -> Traced:
    """Run `run` on tracers of the given avals; it gives arrays. The tensors are the caller's affair."""
    from jax.extend.core import take_current_trace

    lift = Lift()

    def pure(*arrays: Any) -> list[Any]:
        with take_current_trace() as current:
            return _inside(lift, current, run, arrays)

    closed = jax.make_jaxpr(pure)(*avals)
    return Traced(closed.jaxpr, closed.consts, lift)


def _inside(
    lift: Lift, current: Any, run: Callable[[list[Any]], list[Any]], arrays: Sequence[Any]
) -> list[Any]:
    """Run `run` as what the lift is of."""
    from jax.extend.core import set_current_trace

    lift.traces.append(current)
    with set_current_trace(current):
        before, birth = MODES.bits, MODES.birth
        MODES.lifts = (*lift.outer_lifts, lift)
        MODES.bits = before & ~TRACED | lift.outer_traced | LIFT
        MODES.birth = lift.birth
        try:
            return run(list(arrays))
        finally:
            MODES.birth = birth
            MODES.lifts = lift.outer_lifts
            MODES.bits = MODES.bits & ~(LIFT | TRACED) | before & (LIFT | TRACED)


def taped(run: Callable[[list[Any]], list[Any]], avals: Sequence[Any], **settings: Any) -> Lifted:
    """The same for `vmap`, without JAX's tracing; two runs with the same steps have the same key."""
    lift = Lift(**settings)
    tape = lift.tape = Tape(avals, lift.outer_trace)
    try:
        arrays = _inside(lift, tape, run, tape.inputs)
        outs = [tape.number_of(a) for a in arrays]
        return Lifted(lift, tape.steps, outs)
    finally:
        tape.invalidate()
