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
from typing import Any

import jax
from jax import lax

from ..._core.arrays import dtypes, shapes
from ..._core.arrays.meta import Meta, meta
from ..._core.arrays.python_numbers import Number
from ..._core.errors import messages as errors
from ..._core.jax import jit_caches
from ..._core.state import DUAL, GRAD, LIFT, MODES, TRACED, Modes, next_level
from ..graph.history import edge_of, grad_fn_of, requires_grad_of
from ..graph.node import AccumulateGrad, accumulator
from ..memory.derivative_stops import is_traced, storage_behind, under_jax, without_cotangent
from ..memory.strided import is_direct, read, read_stored, reader, stored
from ..memory.tape import Look, Tape, Value, aval_of
from ..memory.tensor import Storage, Tensor, alias_of, extras, is_plain, make, plain_alias, wrap_array, wrap_beside
from .batch_layout import BatchLayout
from .same_for_all import SameForAll
from .traced_run import Lifted, Traced, outside_value


def running_vmap() -> Lift | None:
    """The innermost run, if it is one of `vmap`."""
    return None if MODES.run.size is None else MODES.run


def is_batched(t: Tensor) -> bool:
    """Whether a tensor stands for one example of the batch of a running `vmap`."""
    return any(run.size is not None and run.inside(t) for run in MODES.lifts)


def as_batch(t: Tensor, like: Sequence[Any]) -> Tensor:
    """`t` as one example of a batch, all of them the same, if any of the tensors `like` is an example.

    So are gradients in torch, whose seeds are made like what is differentiated: not one memory for all examples.
    """
    run = MODES.run
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
    for run in reversed(MODES.lifts):
        if run.inside(t):
            return t
        if any(isinstance(v, Tensor) and run.inside(v) for v in others):
            return run.made_inside(t)
    return t


def is_hidden(t: Tensor) -> bool:
    """Whether a gradient is wanted of `t` outside of the running `vmap` alone."""
    return MODES.run.hides(t)


def is_tracked(t: Tensor) -> bool:
    """Whether a gradient goes from `t` to where it came from; views made without recording only say they require it."""
    if t._rg or t._al is None or not requires_grad_of(t):
        return t._rg
    return not MODES.bits & GRAD or grad_fn_of(t) is not None


def tensor_of_jax(array: Any, beside: Tensor | None = None) -> Tensor:
    """A tensor around an array of the user's, or around what JAX has in its place while it traces the user's code.

    An array that nobody bound to a device goes where `beside` is, the tensor that it meets.
    """
    t = wrap_array(array) if beside is None else wrap_beside(array, beside._m.device)
    if isinstance(array, jax.core.Tracer):
        if MODES.sealed and not MODES.run.pure:
            raise RuntimeError(errors.FROZEN_IN_RULE)
        Modes.traced = True
        follow_jax(t)
    return t


def follow_jax(t: Tensor) -> None:
    """Let the derivative that JAX takes of a running lift go on through a tensor around a tracer of JAX's."""
    array = t._st.array
    if t._m.dtype.category >= dtypes.FLOATING and any(run.follows(array) for run in MODES.lifts):
        t._rg = extras(t).followed = True


def is_derived(t: Tensor) -> bool:
    """Whether JAX takes a derivative of code that is no lift, and follows it through this tensor of that code."""
    return t._m.dtype.category >= dtypes.FLOATING and is_traced(t)


class Lift(BatchLayout):
    """One run of tensor code with tracers in its tensors."""

    __slots__ = (
        "birth", "captured", "derived", "entered",
        "inputs", "keep", "known_values", "mapped", "met", "origins", "outer_dual",
        "outer_level", "outer_lifts", "outer_run", "outer_trace", "outer_traced", "outer_transforms", "own_leaves",
        "places", "randomness", "rows", "size", "tape", "traces",
    )  # fmt: skip
    at_once = False
    pure = True

    def __init__(
        self, randomness: str = "error", size: int | None = None, inputs: Sequence[Tensor] = (), rows: Any = None
    ) -> None:
        from jax.extend.core import take_current_trace

        super().__init__()
        with take_current_trace() as trace:
            self.outer_trace = trace
        self.outer_run, self.outer_lifts = MODES.run, MODES.lifts
        self.derived = self.pure if size is None else self.outer_run.derived or under_jax()
        self.outer_transforms = MODES.transforms
        self.outer_level = MODES.level, MODES.given, MODES.birth
        self.outer_dual = MODES.dual_level
        # The trace that JAX makes for the run itself does not count.
        self.outer_traced = MODES.bits & TRACED
        self.birth = next_level()
        self.rows = rows
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
        self.places: dict[Any, Any] = {}
        self.keep: list[Any] = []
        self.traces: list[Any] = []
        self.tape: Any = None
        self.known_values: SameForAll | None = None
        self.randomness, self.size = randomness, size

    def inside(self, t: Tensor) -> bool:
        """Whether a tensor's elements belong to this run."""
        return self.ours(t._st.array)

    def owns(self, array: Any) -> bool:
        """Whether an array is a tracer of this run."""
        return isinstance(array, jax.core.Tracer) and any(array._trace is s for s in self.traces)

    def follows(self, array: Any) -> bool:
        """Whether the derivative goes on through what a transform of JAX's returned to this run."""
        if not self.owns(array):
            return False
        wanted = self.size is not None and any(requires_grad_of(t) for t in (*self.inputs, *self.captured))
        return self.derived or wanted

    def ours(self, array: Any) -> bool:
        """Whether an array is a tracer of this run, or of a transform of JAX's that was called in it."""
        if self.owns(array):
            return True
        if not MODES.traced or not isinstance(array, jax.core.Tracer):
            return False
        # JAX looks at the results of a transform where it has left it: what runs now does not tell.
        trace = array._trace
        if trace is self.outer_trace:
            return False
        while trace is not None and trace is not self.outer_trace:
            trace = getattr(trace, "parent_trace", None)
            if any(trace is s for s in self.traces):
                return True
        return trace is not None and not self.traces

    def place_for(self, index: int, m: Meta, weak: bool = False) -> Any:
        """A tracer of the run itself, wherever in it the code is, that stands for an outside value."""
        if self.tape is not None:
            return self.tape.place(index, m)
        from jax.extend.core import set_current_trace, take_current_trace

        with take_current_trace() as current:
            if not any(current is s for s in self.traces):
                jit_caches.Closures.seen = True
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

        before, run, lifts, transforms = MODES.bits, MODES.run, MODES.lifts, MODES.transforms
        level = MODES.level, MODES.given, MODES.birth
        MODES.run, MODES.lifts = self.outer_run, self.outer_lifts
        MODES.transforms = self.outer_transforms
        if users:
            MODES.level, MODES.given, MODES.birth = self.outer_level
        MODES.bits = before & ~LIFT | (LIFT if self.outer_lifts else 0)
        try:
            with set_current_trace(self.outer_trace):
                yield
        finally:
            MODES.run, MODES.lifts, MODES.transforms = run, lifts, transforms
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
        return self.tape is not None and self.tape.holds(array) and array in self._same_for_all()

    def varies(self, t: Tensor) -> bool:
        """Whether the values of a tensor may differ between the examples."""
        return self.inside(t) and not self.same_for_all(t)

    def _same_for_all(self) -> SameForAll:
        """What is known of values that do not differ between the examples."""
        if self.known_values is None:
            self.known_values = SameForAll(self.tape, self.mapped)
        return self.known_values

    def for_all(self, t: Tensor) -> Tensor | None:
        """The values of a tensor of the run outside of it, where they do not differ between the examples."""
        array = read(t)
        if self.tape is None or not self.tape.holds(array) or array not in self._same_for_all():
            return None
        with self.outside():
            values = self._same_for_all().value(array, lambda i: _elements(self.captured[i]))
            return make(values, meta(t._m.shape, t._m.dtype, t._m.device))

    def take_in(self, me: Tensor, values: Sequence[Tensor]) -> bool:
        """Make a tensor a value of the run so that values of it can be written there.

        Only what the function of the run made itself may become one; others would keep it when the run is over.
        In a run of `vmap` the values have to be the same for all examples, as in forward mode inside of it, where their
        tangents belong to the batch.
        """
        if me._st.born < self.birth:
            return False
        batched = self.size is not None
        if batched and (requires_grad_of(me) or not all(map(self.same_for_all, values))):
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
            # Detached, or made without recording: a gradient from outside must not pass either.
            if not is_tracked(t) and t._m.dtype.category >= 2 and self.owns(array):
                array = self._stopped(t, array)
            return array
        al = t._al
        view = None if al is None else (al.offset, al.conj, al.neg)
        place = (id(t._fn), t._onr) if t._fn is not None else id(t) if requires else None
        key = (id(t._st), id(storage_behind(t).array), t._m, view, place)
        found = self.places.get(key)
        if found is None:
            found = self.places[key] = self.capture(t, t._m, False)
        return found

    def _stopped(self, t: Tensor, array: Any) -> Any:
        """What a tensor holds, where gradients end; derivatives along tangents go on if it has one."""
        has_tangent = MODES.bits & DUAL and MODES.tangents.tangent_of(t) is not None
        stop = without_cotangent if has_tangent else lax.stop_gradient
        return stop(array) if self.tape is None else self.tape.stop(array, stop)

    def keys_of(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any], int]:
        """Plan key, arrays and numbers that are present, and the mask of leaves that require grad."""
        tape = self.tape
        keys, xs, mask = [], [], 0
        for i, v in enumerate(leaves):
            if isinstance(v, Tensor):
                m, array = v._m, v._st.array
                keys.append(m)
                if v._al is not None or tape is None or not tape.holds(array):
                    array = self.array_of(v)
                    if v._rg or requires_grad_of(v) or (MODES.traced and self._derived_outside(v)):
                        mask |= 1 << i
                elif v._rg:
                    mask |= 1 << i
                elif m.dtype.category >= 2:  # see `array_of`
                    array = self._stopped(v, array)
                xs.append(array)
            elif v is None:
                keys.append(None)
            else:
                keys.append(_kind_of(v))
                xs.append(v.array() if type(v) is Number else v)
        return tuple(keys), xs, mask

    def _derived_outside(self, t: Tensor) -> bool:
        return is_derived(t) and not self.inside(t)

    def edge_outside(self, t: Tensor) -> Any:
        """Where the gradient of a tensor goes that requires none, but that JAX follows outside of the run.

        The graph has to lead there: without that, a transform inside of the run does not record what JAX follows.
        """
        return (accumulator(t), 0) if self._derived_outside(t) else None

    def kernel(self, plan: Any, xs: Sequence[Any]) -> Any:
        """The forward of a plan during a run: one step of its tape, if it has one."""
        tape, fwd = self.tape, plan.fwd
        if tape is None:
            with jit_caches.of_all_runs():
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

    def check_later(self, tensors: Sequence[Tensor], check: Callable[..., None]) -> None:
        """Check values once the run is over; not where JAX traces, which knows no errors."""
        if (tape := self.tape) is None:
            return
        arrays = [self.array_of(t) for t in tensors]
        if all(tape.holds(a) for a in arrays):
            tape.looks.append(Look([make(a, _dense(t._m)) for a, t in zip(arrays, tensors)], check))

    def to_save(self, values: list[Any]) -> list[Any]:
        """The inputs that a node saves; numbers that are carried from run to run as the arrays that they are here."""
        return [v.array() if type(v) is Number else v for v in values]

    def versions(self, saved: Sequence[Any], versions: tuple[int, ...]) -> tuple[int, ...]:
        """The versions that a node keeps of what it saves: NumPy writes to nothing here."""
        return versions

    def read(self, t: Tensor) -> Any:
        """The tensor's elements; those of outside tensors as they are now."""
        if (self.outer_lifts or MODES.traced) and not self.inside(t):
            with self.outside():
                return read(t)
        array = t._st.array
        if not isinstance(array, jax.core.Tracer):
            return read_stored(t)
        if array.__class__ is not Value or is_direct(t):
            return stored(t, array)
        al = t._al
        kernel = reader(t._st.meta, t._m, al.conj, al.neg)
        out = self.tape.kernel(kernel, (array, al.offset), aval_of(t._m))
        return stored(t, array) if out is None else out

    def leaf_made(self) -> None:
        """Somebody has a tensor require a gradient."""
        self.own_leaves = True

    def before_accumulation(self, leaf: Tensor) -> None:
        """The gradient of a leaf is about to be looked at or replaced by a pass."""
        if not self.inside(leaf):
            raise RuntimeError(
                "backward() inside of a transformed function cannot accumulate into a tensor from outside; use "
                "autograd.grad, or call backward() outside"
            )

    def capture(self, t: Tensor, m: Meta, mapped: bool) -> Any:
        """Make an outside tensor an input of the run; its value here is described by `m`."""
        self.captured.append(t)
        self.met.append(_as_met(t))
        self.mapped.append(mapped)
        self.keep.append((t._st, t._fn))  # they are kept alive, since their identities are keys
        value = self.place_for(len(self.captured) - 1, m)
        if mapped:
            self.entered[id(value)] = (value, t)
        return value

    def captured_then(self) -> list[Tensor]:
        """The captured tensors as they were when they were captured, if somebody wrote to them since."""
        return [
            t if storage_behind(t).array is array else _as_it_was(t, array, edge)
            for t, (array, edge) in zip(self.captured, self.met)
        ]

    def origin_of(self, t: Tensor) -> tuple[Tensor, int] | None:
        """The tensor, and its dimension, that `t` is the unchanged example of; else None."""
        origin = self.origins.get(id(t._st))
        if origin is None or t._st.array is not origin[0] or not is_direct(t) or not is_plain(t):
            return None
        _, whole, dim, _ = origin
        return None if requires_grad_of(whole) is not requires_grad_of(t) else (whole, dim)

    def given_as(self, t: Tensor) -> tuple[Any, Tensor, int, Tensor] | None:
        """For a tensor on the memory of an example: what that held, what was given for all, the dimension, the
        example."""
        return self.origins.get(id(storage_behind(t)))

    def copy_for_rule(self, t: Tensor) -> Tensor:
        """A tensor at the same place in the graph that code of the user's may write to."""
        array, edge = _as_met(t)
        self.keep.append(edge)
        return _as_it_was(t, array, edge)

    def check_not_given(self, t: Tensor, name: str) -> None:
        """Complain about a write to the memory of what was given for all examples: their values are fixed."""
        if any(storage_behind(v) is storage_behind(t) for v in self.inputs):
            raise RuntimeError(
                f"vmap: {name} writes to the memory of a tensor that is being mapped over, from inside of "
                "the function that maps over it. Write to the example that the function was given, or to a clone."
            )

    def outside_message(self, name: str, leaves: Sequence[Any]) -> str:
        """The error about a write of values of the run to a tensor from outside of it."""
        if self.size is None:
            return errors.TRACED_ESCAPES.format(what="write to") + errors.user_line()
        shape = leaves[0]._m.shape
        try:
            wanted = shapes.broadcast_shapes(*[v._m.shape for v in leaves if isinstance(v, Tensor)])
        except RuntimeError:  # the message of an operator that does not broadcast names no shape
            wanted = shape
        return errors.write_outside(name, self.level(), shape, (self.size or 0, *wanted))

    def row_of(self, t: Tensor) -> Tensor | None:
        """The outside tensor with a row per example that `t` is a row of, unchanged; else None."""
        _, whole = self.entered.get(id(t._st.array), (None, None))
        if whole is None or not is_direct(t) or (requires_grad_of(whole) and not requires_grad_of(t)):
            return None
        return whole


def _as_met(t: Tensor) -> tuple[Any, tuple[Any, int] | None]:
    """What the storage of a tensor holds, and the tensor's edge."""
    return storage_behind(t).array, edge_of(t) if requires_grad_of(t) else None


def _as_it_was(t: Tensor, array: Any, edge: tuple[Any, int] | None) -> Tensor:
    """A tensor that somebody wrote to, with the array that its storage held before and the edge that it had."""
    out = alias_of(t, t._m, plain_alias(t))
    storage = Storage(array, t._st.meta)
    out._st = out._vc = storage if storage_behind(t) is t._st else type(t._st)(storage)  # type: ignore[call-arg]
    if edge is not None:
        out._rg = True
        if isinstance(edge[0], AccumulateGrad):
            out._acc = weakref.ref(edge[0])
        else:
            out._fn, out._onr = edge
    return out


def _elements(t: Tensor) -> Any:
    """A tensor's elements for what is computed now, in whichever run that is."""
    return MODES.run.array_of(t)


def _kind_of(number: Any) -> type:
    """The class of a Python number, also of one that a node has saved as the array that stands for it in a run."""
    if isinstance(number, jax.core.Tracer):
        return _KINDS_OF_NUMBERS[number.dtype.kind]
    return number.__class__


_KINDS_OF_NUMBERS: dict[str, type] = {"b": bool, "i": int, "f": float, "c": complex}

_COMPILED = type(jax.jit(lambda: None))


def _dense(m: Meta) -> Meta:
    return meta(m.shape, m.dtype, m.device)


# --- beginning a run ------------------------------------------------------------------------------


def trace(run: Callable[[list[Any]], list[Any]], avals: Sequence[Any], lift: Lift | None = None) -> Traced:
    """Run `run` on tracers of the given avals; it gives arrays. The tensors are the caller's affair."""
    from jax.extend.core import take_current_trace

    lift = lift or Lift()

    def pure(*arrays: Any) -> list[Any]:
        with take_current_trace() as current:
            return _inside(lift, current, run, arrays)

    closed = jax.make_jaxpr(pure)(*avals)
    return Traced(closed.jaxpr, closed.consts, lift)


def _inside(lift: Lift, current: Any, run: Callable[[list[Any]], list[Any]], arrays: Sequence[Any]) -> list[Any]:
    """Run `run` as what the lift is of."""
    from jax.extend.core import set_current_trace

    lift.traces.append(current)
    with set_current_trace(current):
        before, birth = MODES.bits, MODES.birth
        MODES.run, MODES.lifts = lift, (*lift.outer_lifts, lift)
        MODES.bits = before & ~TRACED | lift.outer_traced | LIFT
        MODES.birth = lift.birth
        try:
            return run(list(arrays))
        finally:
            MODES.birth = birth
            MODES.run, MODES.lifts = lift.outer_run, lift.outer_lifts
            MODES.bits = MODES.bits & ~(LIFT | TRACED) | before & (LIFT | TRACED)


def taped(run: Callable[[list[Any]], list[Any]], avals: Sequence[Any], **settings: Any) -> Lifted:
    """Run `run` for `vmap`, its steps written on a tape instead of traced by JAX.

    Two runs that take the same steps have the same key.
    """
    lift = Lift(**settings)
    tape = lift.tape = Tape(avals, lift.outer_trace)
    try:
        arrays = _inside(lift, tape, run, tape.inputs)
        outs = [tape.number_of(a) for a in arrays]
        return Lifted(lift, tape.steps, outs)
    finally:
        tape.invalidate()
