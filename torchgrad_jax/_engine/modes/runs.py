"""The run that code is in: its values are there at once, or its steps are written down for later.

`MODES.run` is that run. Ordinary code is in `AT_ONCE`. Inside of `vmap`, `compile`, `to_jax` and the like, tensors hold
tracers: operations on them become steps of the run, and a tensor from outside that meets one of them becomes an input
of its own, with its place in the outer graph. Operations among outside tensors alone run outside, on their values.

What the steps amount to is then one operator, a `Call`, so that gradients of any order, forward mode and further
transforms of it come from the engine. `begin.py` makes such runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax import lax

from ..._core.arrays import shapes
from ..._core.arrays.meta import Meta, meta
from ..._core.arrays.python_numbers import Number
from ..._core.errors import messages as errors
from ..._core.jax import jit_caches
from ..._core.jax.running_transforms import current_trace
from ..._core.signals import contextmanager
from ..._core.state import DUAL, IN_RUN, MODES, UNDER_JAX, WINDOWS, Modes, next_level
from ..graph.history import edge_of, is_tracked, requires_grad_of
from ..graph.node import AccumulateGrad
from ..memory.derivative_stops import is_derived, storage_behind, under_jax, without_cotangent
from ..memory.strided import is_direct, operand, read, read_stored, reader, stored
from ..memory.tape import Look, Value, aval_of
from ..memory.tensor import Storage, Tensor, alias_of, make, plain_alias
from ..run import windows
from .batch import Batch
from .same_for_all import SameForAll
from .uses import NO_USES, Uses
from .written_steps import TapedSteps, outside_value


class TracedRun:
    """One run of tensor code: what it may do, what belongs to it, and where it was started."""

    __slots__ = (
        "around", "at_once", "batch", "birth", "born", "captured", "jax_derives", "keep",
        "known_values", "level_around", "mapped", "may_check_later", "may_write_outside", "met", "node_by_node",
        "outer_dual", "outer_trace", "outer_traced", "places", "randomness", "started_by_jax", "tape", "traces", "uses",
    )  # fmt: skip

    def __init__(
        self,
        batch: Batch | None = None,
        *,
        randomness: str = "error",
        at_once: bool = False,
        may_write_outside: bool = False,
        may_check_later: bool = False,
        node_by_node: bool = False,
        uses: Uses = NO_USES,
    ) -> None:
        self.at_once = at_once
        """Whether the array of a storage is its value: kernels run when they are called."""
        self.may_write_outside = may_write_outside
        """Whether what is outside may be written to, and is read again each time the steps are run."""
        self.may_check_later = may_check_later
        """Whether a check of values that are not there yet becomes a result of the program or the operator."""
        self.jax_derives = not (at_once or may_write_outside)
        """Whether what the run amounts to is differentiated by JAX."""
        self.node_by_node = node_by_node
        """Whether backward passes go node by node: then what they are made of does not depend on what ran before."""
        self.randomness = randomness
        """What random numbers may be in it: none ("error"), "same", "different", or "host", drawn for each run."""
        self.batch = batch
        """What it is over, where it is a run of `vmap`."""
        self.uses = uses
        """Hears what the code does with what is outside."""
        self.tape: Any = None
        """Where the steps are written down, if they are not JAX's to trace."""
        self.traces: list[Any] = []
        """The tape, or JAX's trace of the run."""
        self.born: list[Any] | None = None
        """Weak references to the storages made during the run, where somebody has to know."""
        self.captured: list[Tensor] = []
        self.met: list[tuple[Any, tuple[Any, int] | None]] = []
        """What captured tensors held when they were captured, and their place in the graph."""
        self.mapped: list[bool] = []
        """Whether a captured tensor has a row per example (random draws that differ)."""
        self.places: dict[Any, Any] = {}
        self.keep: list[Any] = []
        self.known_values: SameForAll | None = None
        self.outer_trace = None if at_once else current_trace()
        self.around = {"run": MODES.run, "runs": MODES.runs, "transforms": MODES.transforms}
        self.level_around = {"level": MODES.level, "given": MODES.given, "birth": MODES.birth}
        self.outer_dual = MODES.dual_level
        # The trace that JAX makes for the run itself does not count.
        self.outer_traced = MODES.bits & UNDER_JAX
        self.birth = next_level()
        self.started_by_jax = self.jax_derives and (batch is None or MODES.run.started_by_jax or under_jax())
        """Whether code that JAX derives started it: this run, or one of `vmap` within such."""

    # --- what belongs to the run
    def inside(self, t: Tensor) -> bool:
        """Whether a tensor's elements belong to this run."""
        return self.at_once or self.ours(t._st.array)

    def owns(self, array: Any) -> bool:
        """Whether an array is a tracer of this run."""
        return isinstance(array, jax.core.Tracer) and any(array._trace is s for s in self.traces)

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

    def touches(self, leaves: Sequence[Any]) -> bool:
        """Whether a call on these is a step of the run: one is inside, or its tangent is; with no tensors at all, yes.

        Where what is outside is read again each time, every call is.
        """
        if self.at_once or self.may_write_outside:
            return True
        tensors = [v for v in leaves if isinstance(v, Tensor)]
        if not tensors or any(self.inside(t) for t in tensors):
            return True
        if not MODES.bits & DUAL:
            return False
        slopes = [MODES.tangents.tangent_of(t) for t in tensors]
        return any(s is not None and self.inside(s) for s in slopes)

    def derived_outside(self, t: Tensor) -> bool:
        """Whether JAX follows a tensor outside of the run: a gradient that goes there may be asked for.

        The graph has to lead there: without that, a transform inside of the run does not record what JAX follows.
        """
        return not self.inside(t) and is_derived(t)

    # --- where it was started
    @contextmanager
    def outside(self, users: bool = False) -> Iterator[None]:
        """Run what is inside where this run was started.

        What is made there belongs to the transforms that were entered since, save where it is code of the `users`.
        """
        if self.at_once:
            yield
            return
        from jax.extend.core import set_current_trace

        bits, before = MODES.bits, {k: getattr(MODES, k) for k in (*self.around, *self.level_around)}
        then = {**self.around, **self.level_around} if users else self.around
        try:
            MODES.own |= {**then, "bits": bits & ~IN_RUN | (IN_RUN if self.around["runs"] else 0)}
            with set_current_trace(self.outer_trace):
                yield
        finally:
            MODES.own |= {**before, "bits": MODES.bits & ~IN_RUN | bits & IN_RUN}

    def depth(self) -> int:
        """How deep in transforms the run is, counted from 1."""
        return self.around["transforms"] + len(self.around["runs"]) + 1

    def holds_level(self) -> bool:
        """Whether the open level of forward mode was opened inside of the run."""
        return MODES.dual_level != self.outer_dual

    def runs_alone(self) -> bool:
        """Whether no transform that differentiates was opened inside of the run."""
        return self.is_innermost() and not self.holds_level()

    def is_innermost(self) -> bool:
        """Whether no transform of `func` that differentiates by backward passes was entered inside of the run."""
        return bool(MODES.transforms == self.around["transforms"])

    # --- calls
    def keys_of(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any], int]:
        """Plan key, arrays and numbers that are present, and the mask of leaves that require grad."""
        if self.at_once:
            return _keys_at_once(leaves, operand if MODES.bits & WINDOWS and windows.defers(MODES.bits) else None)
        tape = self.tape
        keys, xs, mask = [], [], 0
        for i, v in enumerate(leaves):
            if isinstance(v, Tensor):
                m, array = v._m, v._st.array
                keys.append(m)
                if v._al is not None or tape is None or not tape.holds(array):
                    array = self.array_of(v)
                    if v._rg or requires_grad_of(v) or (MODES.traced and self.derived_outside(v)):
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

    def kernel(self, plan: Any, xs: Sequence[Any]) -> Any:
        """What the forward of a plan gives; during a run one step of its tape, if it has one."""
        tape, fwd = self.tape, plan.fwd
        if self.at_once:
            return windows.forward(plan, xs) if MODES.bits & WINDOWS and windows.defers(MODES.bits) else fwd(*xs)
        if tape is None:
            with jit_caches.of_all_runs():
                out = fwd(*xs)
            if self.uses.keeps_kernels:
                self.uses.kernel_called(plan.kernel, xs, plan.single)
            return out
        kernel = plan.kernel.traced
        if kernel is None:
            return fwd(*xs)
        if plan.check is not None:
            plan.check(xs)
        avals = plan.grads.get("avals")
        if avals is None:
            avals = tuple([aval_of(m) for m in plan.outs])
            avals = plan.grads["avals"] = avals[0] if plan.single else avals
        out = tape.kernel(kernel, xs, avals)
        return fwd(*xs) if out is None else out

    def check_later(self, tensors: Sequence[Tensor], check: Callable[..., None]) -> None:
        """Check values once they are there; where JAX traces ordinary code, which knows no errors, they never are."""
        if self.may_check_later:
            self.uses.check([self.array_of(t) for t in tensors], check)
        elif (tape := self.tape) is not None:
            arrays = [self.array_of(t) for t in tensors]
            if all(tape.holds(a) for a in arrays):
                tape.looks.append(Look([make(a, _dense(t._m)) for a, t in zip(arrays, tensors)], check))

    # --- reading and writing
    def read(self, t: Tensor) -> Any:
        """The tensor's elements; those of outside tensors as they are now."""
        if self.at_once:
            return read_stored(t)
        if self.may_write_outside:
            return self.uses.read(t)
        if (self.around["runs"] or MODES.traced) and not self.inside(t):
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

    def array_of(self, t: Tensor) -> Any:
        """A tensor's elements for a step of this run."""
        if self.at_once:
            return read_stored(t)
        if self.may_write_outside or self.inside(t):
            array = self.read(t) if self.may_write_outside else read(t)
            # Detached, or made without recording: a gradient from outside must not pass either.
            if not is_tracked(t) and t._m.dtype.category >= 2 and self.owns(array):
                array = self._stopped(t, array)
            return array
        al = t._al
        view = None if al is None else (al.offset, al.conj, al.neg)
        requires = t._rg or requires_grad_of(t)
        place = (id(t._fn), t._onr) if t._fn is not None else id(t) if requires else None
        key = (id(t._st), id(storage_behind(t).array), t._m, view, place)
        found = self.places.get(key)
        if found is None:
            found = self.places[key] = self.capture(t, t._m)
        return found

    def _stopped(self, t: Tensor, array: Any) -> Any:
        """What a tensor holds, where gradients end; derivatives along tangents go on if it has one."""
        has_tangent = MODES.bits & DUAL and MODES.tangents.tangent_of(t) is not None
        stop = without_cotangent if has_tangent else lax.stop_gradient
        return stop(array) if self.tape is None else self.tape.stop(array, stop)

    def before_accumulation(self, leaf: Tensor) -> None:
        """The gradient of a leaf is about to be looked at or replaced by a pass."""
        if self.may_write_outside:
            self.uses.look_at_grad(leaf)
        elif not self.inside(leaf):
            raise RuntimeError(
                "backward() inside of a transformed function cannot accumulate into a tensor from outside; use "
                "autograd.grad, or call backward() outside"
            )

    # --- what is the same for all examples of a batch
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
            values = self._same_for_all().value(array, lambda i: MODES.run.array_of(self.captured[i]))
            return make(values, meta(t._m.shape, t._m.dtype, t._m.device))

    def whole(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Tensors of a run of `vmap` for all examples, outside of it."""
        assert self.batch is not None
        return self.batch.whole(self, tensors)

    # --- tensors from outside
    def place_for(self, index: int, m: Meta, weak: bool = False) -> Any:
        """A tracer of the run itself, wherever in it the code is, that stands for an outside value."""
        if self.tape is not None:
            return self.tape.place(index, m)
        from jax.extend.core import set_current_trace

        if not any(current_trace() is s for s in self.traces):
            jit_caches.Closures.seen = True
        with set_current_trace(self.traces[0]):
            return outside_value(index, m, weak)

    def capture(self, t: Tensor, m: Meta, mapped: bool = False) -> Any:
        """Make an outside tensor an input of the run; its value here is described by `m`.

        It is `mapped` where it has a row for each example of the batch.
        """
        self.captured.append(t)
        self.met.append(_array_and_edge(t))
        self.mapped.append(mapped)
        self.keep.append((t._st, t._fn))  # they are kept alive, since their identities are keys
        value = self.place_for(len(self.captured) - 1, m)
        if mapped:
            assert self.batch is not None
            self.batch.entered[id(value)] = (value, t)
        return value

    def captured_then(self) -> list[Tensor]:
        """The captured tensors as they were when they were captured, if somebody wrote to them since."""
        return [
            t if storage_behind(t).array is array else _as_it_was(t, array, edge)
            for t, (array, edge) in zip(self.captured, self.met)
        ]

    def copy_for_rule(self, t: Tensor) -> Tensor:
        """A tensor at the same place in the graph that code of the user's may write to."""
        array, edge = _array_and_edge(t)
        self.keep.append(edge)
        return _as_it_was(t, array, edge)

    def take_in(self, me: Tensor, values: Sequence[Tensor]) -> bool:
        """Make a tensor a value of the run so that values of it can be written there.

        Only what the function of the run made itself may become one; others would keep it when the run is over.
        In a run of `vmap` the values have to be the same for all examples, as in forward mode inside of it, where their
        tangents belong to the batch.
        """
        if me._st.born < self.birth:
            return False
        batched = self.batch is not None
        if batched and (requires_grad_of(me) or not all(map(self.same_for_all, values))):
            return False
        self._enter(me)
        return True

    def _enter(self, t: Tensor) -> None:
        """Make the storage of a tensor that the run's function made one of the run."""
        st = t._st
        st.array = self.capture(make(st.array, st.meta), st.meta)

    def made_inside(self, t: Tensor) -> Tensor:
        """A tensor without a place in the graph as a value of the run: itself, or a copy if it came from outside."""
        if self.may_write_outside:
            return t
        if t._st.born < self.birth or t._al is not None:
            return make(self.capture(t, t._m), meta(t._m.shape, t._m.dtype, t._m.device))
        self._enter(t)
        return t

    def so_far(self, arrays: Sequence[Any]) -> TapedSteps:
        """The steps of a run of `vmap` taken up to now, with these arrays as the results."""
        outs = [self.tape.number_of(a) for a in arrays]
        return TapedSteps(self, self.tape.needed(outs), outs)

    def outside_message(self, name: str, leaves: Sequence[Any]) -> str:
        """The error about a write of values of the run to a tensor from outside of it."""
        if self.batch is None:
            return errors.TRACED_ESCAPES.format(what="write to") + errors.user_line()
        shape = leaves[0]._m.shape
        try:
            wanted = shapes.broadcast_shapes(*[v._m.shape for v in leaves if isinstance(v, Tensor)])
        except RuntimeError:  # the message of an operator that does not broadcast names no shape
            wanted = shape
        return errors.write_outside(name, self.depth(), shape, (self.batch.size, *wanted))


def _keys_at_once(leaves: Sequence[Any], look: Any) -> tuple[tuple[Any, ...], list[Any], int]:
    """`keys_of` where the arrays of storages are their values; `look` gives others than these."""
    keys, xs, mask = [], [], 0
    for i, v in enumerate(leaves):
        if isinstance(v, Tensor):
            keys.append(v._m)
            if v._al is None:
                xs.append(v._st.array if look is None else look(v))
                if v._rg:
                    mask |= 1 << i
            else:
                xs.append(read(v) if look is None else look(v))
                if v._rg or requires_grad_of(v):
                    mask |= 1 << i
        elif v is None:
            keys.append(None)
        else:
            keys.append(v.__class__)
            xs.append(v)
    return tuple(keys), xs, mask


def _array_and_edge(t: Tensor) -> tuple[Any, tuple[Any, int] | None]:
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


def _kind_of(number: Any) -> type:
    """The class of a Python number, also of one that a node has saved as the array that stands for it in a run."""
    if isinstance(number, jax.core.Tracer):
        return _KINDS_OF_NUMBERS[number.dtype.kind]
    return number.__class__


_KINDS_OF_NUMBERS: dict[str, type] = {"b": bool, "i": int, "f": float, "c": complex}


def _dense(m: Meta) -> Meta:
    return meta(m.shape, m.dtype, m.device)


AT_ONCE = TracedRun(randomness="", at_once=True)
"""The run of ordinary code."""
Modes.run = AT_ONCE
