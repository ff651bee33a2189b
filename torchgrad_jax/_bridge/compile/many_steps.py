"""Many steps of a compiled function in one program: a loop of XLA over batches that are stacked.

`step.many(xs, ys)` is `step(xs[0], ys[0])`, `step(xs[1], ys[1])`, ... What the steps write (parameters, optimizer
state, gradients) goes round in the loop, their results are stacked. Python's part of each step, such as drawing
random numbers and the steps of schedules, is done for all of them before the loop begins. Where a step needs another
program than the one before it, the loop ends there and a new one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._core.arrays import tree
from ..._core.arrays.meta import meta
from ..._core.jax.x64 import with_x64
from ..._core.random.generator import restorable
from ..._engine.entry.bind import ops
from ..._engine.graph.history import requires_grad_of
from ..._engine.memory.tensor import Tensor, make
from .arguments import object_trees
from .arguments.array_arguments import is_array_input, tensors_for
from .arguments.number_log import ReturnedNumber
from .program.donation import Donating, put_back, surely
from .program.entry import Entry
from .program.results import ELSEWHERE, ResultArray, ResultTensor
from .trace.checks import any_of
from .trace.outside_results import OutsideTensor, OutsideView

_HOST_BYTES = 1 << 28
"""How much memory random numbers that are drawn ahead may take; more of them make several loops."""

_KEPT = 8
"""For how many numbers of steps the loops of a program are kept."""


class StepsDone(NamedTuple):
    """Some steps' results: each leaf for all of them."""

    count: int
    leaves: list[Any]
    spec: Any


class Batches:
    """Arguments whose tensors and arrays have a row for each step."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], is_object: Callable[[Any], bool]) -> None:
        self._given, self._spec = object_trees.flatten((args, kwargs), is_object)
        self.flat = tensors_for(self._given)
        tensors = [x for x in self.flat if isinstance(x, Tensor)]
        if not tensors:
            raise TypeError(
                "many() needs a tensor among its arguments: its first dimension says how many steps there are"
            )
        sizes = {t._m.shape[0] if t._m.shape else -1 for t in tensors}
        if len(sizes) > 1 or -1 in sizes:
            shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
            raise ValueError(
                f"many() takes tensors with a row for each step, all with as many rows; the shapes were {shapes}"
            )
        if any(requires_grad_of(t) for t in tensors):
            raise ValueError("many() takes tensors that require no gradient: pass them detached")
        (self.length,) = sizes

    def row(self, i: int) -> Any:
        """The arguments of a step."""
        rows = [x[i] if isinstance(x, Tensor) or is_array_input(x) else x for x in self._given]
        return tree.unflatten(rows, self._spec)


def run_all(call: Callable[..., Any], batches: Batches) -> Any:
    """Take all steps; `call(args, kwargs, run)` finds or makes the program for a step and gives it to `run`."""
    done: list[StepsDone] = []
    at = 0
    if batches.length == 0:
        raise ValueError("many() was given tensors without rows: there is no step to take")
    while at < batches.length:
        args, kwargs = batches.row(at)
        try:
            out = call(args, kwargs, lambda entry, inputs, at=at: run_from(entry, inputs, batches, at))
        except Exception as error:
            if not any(n.startswith("In step") for n in getattr(error, "__notes__", ())):
                error.add_note(f"In step {at} of many().")
            raise
        done.append(out if isinstance(out, StepsDone) else _of_one(out, batches.length == 1))
        at += done[-1].count
    return _joined(done)


def _of_one(out: Any, alone: bool, outside: Sequence[bool] = ()) -> StepsDone:
    """The results of one step. If it is the only one, each tensor gets its row here, save those from `outside`."""
    leaves, spec = object_trees.flatten(out, object_trees.is_plain_object)
    stacked = [alone and isinstance(x, _STACKED) for x in leaves]
    for i, as_it_is in enumerate(outside[: len(leaves)]):
        stacked[i] &= not as_it_is
    return StepsDone(1, [_stack([x]) if s else _Rows([x]) for x, s in zip(leaves, stacked)], spec)


class _Rows(list[Any]):
    """A leaf of the result, step by step."""


def _joined(done: Sequence[StepsDone]) -> Any:
    spec = done[0].spec
    if any(d.spec != spec for d in done):
        raise RuntimeError("many(): the steps return results of different structures")
    columns = zip(*[d.leaves for d in done])
    return tree.unflatten([_leaf(list(parts)) for parts in columns], spec)


def _leaf(parts: list[Any]) -> Any:
    """One leaf for all steps: tensors and arrays stacked, one and the same object as it is, numbers as a list."""
    if len(parts) == 1 and isinstance(parts[0], _STACKED):
        return parts[0]
    rows = [x for p in parts if isinstance(p, _Rows) for x in p]
    if len(rows) == len(parts) or not any(isinstance(p, _STACKED) for p in parts):
        same = all(x is rows[0] for x in rows)
        if same and not isinstance(rows[0], int | float | complex):
            return rows[0]
        if not all(isinstance(x, _STACKED) for x in rows):
            return list(rows)
        return _stack(rows)
    whole: list[Any] = [p if isinstance(p, _STACKED) else _stack(list(p)) for p in parts]
    return ops.cat(whole) if isinstance(whole[0], Tensor) else jnp.concatenate(whole)


_STACKED = (Tensor, jax.Array)


def _stack(rows: list[Any]) -> Any:
    return ops.stack(rows) if isinstance(rows[0], Tensor) else jnp.stack(rows)


# --- one loop -------------------------------------------------------------------------------------


def is_steady(entry: Entry) -> bool:
    """Return whether a program may be run again after itself, whatever it computed."""
    program, traced = entry.program, entry.program.traced
    if (
        entry.switches
        or program.returned.kept_tensors
        or program.returned.returns_given
        or program.parts is not None
        or (program.joint is not None and program.joint.has_own_values)
        or not program.only_reads_arguments
        or traced.new_state
        or traced.flags
    ):
        return False
    written = {id(st): k for st, k, _ in program.writes.storages}
    if any(id(st) in written for st, _ in traced.looked_at):
        return False
    if any(written.get(id(st), -1) != written.get(id(f), -1) for st, f, _, _ in traced.peers):
        return False
    after = {id(leaf): (k, m) for leaf, k, m, _ in traced.grads}
    if any(m is None and k is not None for k, m in after.values()):
        return False
    if any(program.conditions.gradients_read.one_alone(leaf) for leaf, *_ in traced.grads):
        return False
    spent = {id(leaf) for leaf, _ in program.writes.spent_gradients}
    return all(after.get(id(leaf), (None, m))[1] is m and id(leaf) not in spent for leaf, m in traced.gradient_guards)


def run_from(entry: Entry, inputs: Sequence[Any], batches: Batches, at: int) -> Any:
    """Take step `at`, whose inputs these are, and as many of the later ones as the same program can."""
    if not is_steady(entry):
        outside = [isinstance(o, ELSEWHERE) and not _is_argument(o) for o in entry.program.returned.outs]
        return _of_one(entry.run(inputs), batches.length == 1, outside)
    if batches.length - at == 1 and batches.length > 1 and entry.loops.get(batches.length) is None:
        return entry.run(inputs)
    loop = entry.loops.get(batches.length)
    if loop is None:
        if len(entry.loops) >= _KEPT:
            del entry.loops[next(iter(entry.loops))]
        loop = entry.loops[batches.length] = Loop(entry, batches.length)
    return loop.run(inputs, batches, at)


class Loop:
    """A program that takes any of `length` steps, from one to another."""

    def __init__(self, entry: Entry, length: int) -> None:
        self.entry, self.program = entry, entry.program
        self.log = log = self.program.conditions.log
        traced, sources, inputs = self.program.traced, self.program.traced.sources, self.program.inputs
        self.fed = {i: k for i, k, _ in traced.writes}
        of_leaf = {id(leaf): k for leaf, k, m, _ in traced.grads if m is not None}
        for i, s in enumerate(sources):
            if s.kind == "grad" and id(s.what) in of_leaf:
                self.fed[i] = of_leaf[id(s.what)]
        """Sources that read what an earlier step wrote, and as which of its results."""
        self.rows = [i for i, s in enumerate(sources) if s.kind == "arg"]
        self.hosted = [i for i, s in enumerate(sources) if s.kind == "draw" or (s.kind == "number" and log)]
        """Sources whose values Python makes for each step."""
        special = {*self.rows, *self.hosted, *inputs.overwritten}
        self.rest = [i for i in range(len(sources)) if i not in special]
        spare = {id(leaf) for leaf, _ in inputs.spare}
        self.finals = [self.fed[i] for i in inputs.overwritten]
        self.finals += [k for leaf, k, m, _ in traced.grads if m is not None and id(leaf) in spare]
        more = [*self.fed.values(), *[k for _, k, m, _ in traced.grads if m is not None]]
        self.finals = list(dict.fromkeys([*self.finals, *more]))
        """Which results of the last step are kept, those first that take the place of an input."""
        self.stacked = sorted({self.program.body.result_order[o.index] for o in self.program.returned.tensors()})
        self.checked = self.program.checks is not None
        self.room = self._room(length)
        """How many steps one call takes at most."""

        def compiled_steps(*xs: Any) -> Any:
            return self._loop(xs)

        self.kernel = Donating(compiled_steps, inputs.n_given_away, bool(inputs.spare))

    def _room(self, length: int) -> int:
        sources = self.program.traced.sources
        size = sum(
            s.meta.numel * s.meta.dtype.itemsize for s in (sources[i] for i in self.hosted) if s.meta is not None
        )
        return max(1, min(length, _HOST_BYTES // max(size, 1)))

    # -- the program
    def _loop(self, xs: Sequence[Any]) -> list[Any]:
        program, sources = self.program, self.program.traced.sources
        checks, overwritten = program.checks, program.inputs.overwritten
        n, spares = len(overwritten), len(program.inputs.spare)
        own, memory = xs[:n], xs[n : n + spares]
        rows, hosted, rest = _split(xs[n + spares : -2], len(self.rows), len(self.hosted))
        low, high = xs[-2:]
        given = dict(zip([*self.rest, *overwritten], [*rest, *own]))
        first = {self.fed[i]: given[i] for i in self.fed}
        first.update(zip(self.finals[n : n + spares], memory))
        results = [v.aval for v in program.traced.jaxpr.outvars]
        state = tuple(_as(results[k], first.get(k)) for k in self.finals)
        buffers = tuple(jnp.zeros((self.room, *results[k].shape), results[k].dtype) for k in self.stacked)

        def values(i: Any, state: Any) -> list[Any]:
            now = dict(zip(self.finals, state))
            values_of = {**given, **{s: now[k] for s, k in self.fed.items()}}
            values_of.update(zip(self.rows, [_row(x, i) for x in rows]))
            values_of.update(zip(self.hosted, [_row(x, i - low) for x in hosted]))
            return [values_of[i] for i in range(len(sources))]

        def goes_on(carry: Any) -> Any:
            i, failed, state, _ = carry
            wanted = (i < high) & ~failed
            if checks is not None and checks.ahead_flags:
                wanted &= ~checks.fails_ahead(values(i, state))
            return wanted

        def step(carry: Any) -> Any:
            i, failed, state, buffers = carry
            values_of = program.body.steps(values(i, state))
            new = tuple(_as(results[k], values_of[k]) for k in self.finals)
            buffers = tuple(
                lax.dynamic_update_index_in_dim(b, _as(results[k], values_of[k]), i - low, 0)
                for b, k in zip(buffers, self.stacked)
            )
            if program.body.late:
                failed = any_of(values_of[len(results) :])
                new = tuple(jnp.where(failed, x, y) for x, y in zip(state, new))
            return jnp.where(failed, i, i + 1), failed, new, buffers

        low = jnp.asarray(low, jnp.int32)
        i, _, state, buffers = lax.while_loop(goes_on, step, (low, jnp.asarray(False), state, buffers))
        return [*state, *buffers, *([i] if self.checked else [])]

    # -- running
    @with_x64
    def run(self, inputs: Sequence[Any], batches: Batches, at: int) -> StepsDone:
        """Take the steps from `at` on; step `at` is one for this program, and Python did its part of it."""
        entry, program, log = self.entry, self.program, self.log
        args = program.arguments(inputs)
        stacks = [x for x in batches.flat if isinstance(x, Tensor)]
        stacks = [*stacks, *inputs[len(stacks) :]]
        rows = program.arguments(stacks)
        began = None if log is None else log.state()
        versions = program.writes.versions(args)
        arrays: list[Any] = []
        drawn: dict[Any, Any] = {}
        python_results: list[list[Any]] = [[] for _ in program.returned.outs]
        steps = high = 0

        def stored() -> None:
            results = self._placed(arrays)
            if program.one_device is not None:
                program.one_device.bring_back(results)
            entry.store(results, args, versions, steps)
            entry.has_run = entry.has_run or steps > 0
            if log is not None:
                log.settle()

        try:
            hosted, high = self._in_python(inputs, batches.length, at, drawn, python_results)
            steps = high - at
            sources = program.traced.sources
            if self._fails_at_once(args, hosted):
                self._fail(inputs, batches, at, began, drawn, 0)
            given = [sources[i].array(rows) for i in (*self.rows, *self.rest)]
            n = len(self.rows)
            bounds = np.int32(at), np.int32(high)
            own = program.inputs.arrays_to_overwrite(args)
            xs = [*own, *given[:n], *hosted, *given[n:], *bounds]
            if program.one_device is not None:
                xs = program.one_device.put_all(xs)
            arrays += self.kernel.results(xs, ())
            self.kernel.settled = True
            if self.checked:
                steps = int(arrays[-1]) - at
            stored()
        except BaseException:

            def settle() -> None:
                if arrays:
                    stored()
                else:
                    put_back(drawn, ())
                    if log is not None:
                        log.resume(began)

            surely(settle)
            raise
        if steps < high - at:
            self._fail(inputs, batches, at + steps, began, drawn, steps)
        return self._done(arrays, python_results, args, steps, lambda i: self._row(inputs, batches, at + i))

    def _fails_at_once(self, args: Sequence[Any], hosted: Sequence[Any]) -> bool:
        """Return whether a check of the first step fails that does not wait for the program."""
        checks, sources = self.program.checks, self.program.traced.sources
        if checks is None:
            return False
        drawn = {i: column[0] for i, column in zip(self.hosted, hosted)}
        wanted = [drawn[i] if i in drawn else sources[i].array(args) for i in checks.inputs]
        return checks.fail_ahead(wanted, range(len(wanted)))

    def _in_python(
        self, inputs: Sequence[Any], length: int, at: int, drawn: dict[Any, Any], python_results: list[Any]
    ) -> tuple[list[Any], int]:
        """Do Python's part of the steps: random numbers and the numbers that are carried, each stacked."""
        sources = self.program.traced.sources
        columns: list[list[Any]] = [[] for _ in self.hosted]
        high = min(length, at + self.room)
        with restorable(drawn):
            for i in range(at, high):
                if i > at and self.log is not None and self.entry.why_stale(inputs) is not None:
                    high = i
                    break
                for column, s in zip(columns, self.hosted):
                    column.append(sources[s].array(()))
                for rows, o in zip(python_results, self.program.returned.outs):
                    if isinstance(o, ReturnedNumber):
                        rows.append(o.tensor(()))
        return [self._padded(column) for column in columns], high

    def _padded(self, column: list[Any]) -> Any:
        values = np.stack([np.asarray(x) for x in column])
        missing = self.room - len(column)
        return np.pad(values, [(0, missing)] + [(0, 0)] * (values.ndim - 1)) if missing else values

    def _placed(self, arrays: Sequence[Any]) -> list[Any]:
        """The last step's results in the order of the program of one step."""
        order = self.program.body.result_order
        out: list[Any] = [None] * len(order)
        at = {k: new for new, k in enumerate(order)}
        for k, array in zip(self.finals, arrays):
            out[at[k]] = array
        return out

    def _row(self, inputs: Sequence[Any], batches: Batches, i: int) -> Sequence[Any]:
        """The inputs of step `i`."""
        leaves = tensors_for(tree.flatten(batches.row(i))[0])
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        return [*tensors, *inputs[len(tensors) :]]

    def _done(
        self,
        arrays: Sequence[Any],
        python_results: list[Any],
        args: Sequence[Any],
        steps: int,
        row: Callable[[int], Any],
    ) -> StepsDone:
        program = self.program
        buffers = dict(zip(self.stacked, arrays[len(self.finals) :]))
        leaves: list[Any] = []
        for o, rows in zip(program.returned.outs, python_results):
            if isinstance(o, ResultTensor):
                m = meta((steps, *o.meta.shape), o.meta.dtype, o.meta.device)
                array = buffers[program.body.result_order[o.index]]
                array = array if steps == self.room else array[:steps]
                if program.one_device is not None:
                    array = program.one_device.returned(array, m)
                leaves.append(o.of_array(array) if isinstance(o, ResultArray) else make(array, m))
            elif isinstance(o, ReturnedNumber):
                leaves.append(_Rows(rows[:steps]))
            elif _is_argument(o):
                taken = [program.arguments(row(i)) for i in range(steps)]
                leaves.append(ops.stack([o.tensor(xs).detach() for xs in taken]))
            else:
                leaves.append(_Rows([o.tensor(args) if isinstance(o, ELSEWHERE) else o] * steps))
        return StepsDone(steps, leaves, program.returned.spec)

    def _fail(self, inputs: Sequence[Any], batches: Batches, at: int, began: Any, drawn: Any, steps: int) -> None:
        """Raise what step `at` raises: the steps before it have been taken, it and the later ones have not."""
        sources = self.program.traced.sources
        put_back(drawn, ())
        if self.log is not None:
            self.log.resume(began)
            for _ in range(steps + 1):
                self.log.replay([inputs[i] for i in self.program.places])
        draws = [i for i in self.hosted if sources[i].kind == "draw"]
        for _ in range(steps):
            for s in draws:
                sources[s].array(())
        try:
            self.entry.raise_failed_check(self._row(inputs, batches, at))
        except Exception as error:
            error.add_note(f"In step {at} of many().")
            raise
        finally:
            if self.log is not None:
                self.log.restore()


def _is_argument(o: Any) -> bool:
    """Return whether a result is one of the step's arguments, or a view of one."""
    return isinstance(o, OutsideTensor | OutsideView) and isinstance(o.of, int)


def _split(xs: Sequence[Any], *sizes: int) -> list[Sequence[Any]]:
    parts, at = [], 0
    for size in sizes:
        parts.append(xs[at : at + size])
        at += size
    return [*parts, xs[at:]]


def _row(x: Any, i: Any) -> Any:
    return lax.dynamic_index_in_dim(x, i, keepdims=False)


def _as(like: Any, x: Any) -> Any:
    """A value as one of the loop; zeros where there is none yet."""
    if x is None:
        return jnp.zeros(like.shape, like.dtype)
    return lax.convert_element_type(x, like.dtype)
