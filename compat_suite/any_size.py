"""Does a template give for other sizes what a trace of these sizes gives?

`torch.softmax` of (2, 3) makes a template with two symbols. It is asked here for sizes up to 300, prime, odd and equal
ones: its steps have to be those of a trace by shape, or to give the same bits for the same numbers. That compares
results, shapes and dtypes, of gradients, tangents and recorded gradients as well; what a node saves is compared by
itself, and steps that can be kept in a file have to be the same when they are read. The NumPy code that a template has
for any sizes has to give the bits of code that is made for the sizes at hand. No kernel may put a size into a set or a
dict, which would compare it with others unseen.
"""

from __future__ import annotations

import itertools
import pickle
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import jax
import numpy as np

from torchgrad_jax._core.host import code as host
from torchgrad_jax._core.host.choice import INNER
from torchgrad_jax._core.host.inline import Unsure
from torchgrad_jax._core.host.sized import Changed
from torchgrad_jax._core.jax.sizes import SMALLEST, Size, Sizes
from torchgrad_jax._engine.graph import formula as formulas
from torchgrad_jax._engine.run import templates, trace, trace_files
from torchgrad_jax._engine.run.program import Literal, Program, Slice
from torchgrad_jax._engine.run.templates import Template

from .jobs import Job
from .templates import BY_SHAPE, gradients_of, made_by

POOLS = ((2, 3, 5), (7, 11, 13), (4, 6, 9), (5, 5, 5), (127, 33, 2), (300, 131, 2))
"""Sizes that the symbols of a template stand for, in turn."""
_LARGEST = 1 << 19
"""Elements of an argument up to which numbers are compared."""
_KERNELS = ("torchgrad_jax._ops", "torchgrad_jax._core.arrays", "torchgrad_jax._functions")
"""The code that kernels consist of."""


def differences(jobs: Sequence[Job]) -> tuple[list[str], int]:
    """Run some jobs, and compare every template that they make; also for how many sizes one was compared."""
    with _hashes_watched() as places:
        made = made_by(jobs)
    found, compared = [f"a kernel puts a size into a set or a dict: {place}" for place in sorted(places)], 0
    for m in made:
        if m.general:
            assert m.plan.found is not None
            for sizes, said in _compared(m.plan, m.plan.found.template, m.grad):
                compared += 1
                if said:
                    found.append(f"{m.name}, {m.kind}, of {m.plan.keys} for the sizes {sizes}: {said}")
            if m.grad is not None and (said := _other_saved(m.grad)):
                found.append(f"{m.name}, {m.kind}, of {m.plan.keys}: {said}")
        elif m.kind not in BY_SHAPE.get(m.name, ((), ""))[0]:
            found.append(f"{m.name}, {m.kind}, of {m.plan.keys} is traced by its shape: that is not among BY_SHAPE")
    return found, compared


@contextmanager
def _hashes_watched() -> Iterator[set[str]]:
    """Where kernels ask for the hash of a size: a set or a dict compares it with others, and no guard says so."""
    places: set[str] = set()
    before = Size.__hash__

    def watched(size: Size) -> int:
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__", "").startswith(_KERNELS):
            places.add(f"{caller.f_code.co_filename}:{caller.f_lineno}")
        return before(size)

    Size.__hash__ = watched
    try:
        yield places
    finally:
        Size.__hash__ = before


def _other_saved(grad: Any) -> str:
    """What differs between what gradients read that come from a template and what those by shape read, or nothing."""
    exact = formulas.Formula(grad.plan, grad.formula.inputs, grad.formula.diff, None)
    mine, theirs = (f.reads(f.grad_refs, f.cuts) for f in (grad.formula, exact))
    return "" if mine == theirs else f"it saves {mine}, by shape {theirs}"


def _compared(plan: trace.Plan, template: Template, grad: Any) -> Iterator[tuple[Any, str]]:
    """For sizes that a template holds for, what differs from a trace by shape."""
    entry = (template.holds, template.program) if grad is None else gradients_of(grad, template)
    if entry is None:
        return
    holds, steps = entry
    formula = None if grad is None else grad.formula
    read = _read_again(steps, template.sizes)
    for sizes in _other_sizes(template):
        if holds(sizes):
            if read is not None and (said := _other_steps(read.at(sizes), steps.at(sizes))):
                yield sizes, f"read from a file it has other steps: {said}"
            try:
                theirs = _by_shape(plan, template, formula, sizes)
            except Exception as error:
                yield sizes, f"a trace by shape raises {type(error).__name__}: {error}"
            else:
                yield sizes, _difference(steps.at(sizes), theirs) or _other_code(_part(plan, steps, grad, sizes))


def _read_again(steps: Program, sizes: Sizes) -> Program | None:
    """The steps as another process reads them, or None where they are not kept."""
    try:
        record = trace_files.dumped(steps, sizes)
    except pickle.PicklingError:
        return None
    return trace_files.loaded(record, Sizes(sizes.hints[: sizes.n], sizes.equal()))


def _part(plan: trace.Plan, steps: Program, grad: Any, sizes: tuple[int, ...]) -> Slice | None:
    """The steps that are computed: of the gradients those by all inputs."""
    if grad is None:
        return steps.all(plan.single, sizes)
    wanted = tuple(range(len(grad.inputs)))
    part = grad.formula.part(wanted, grad.saved_in, grad.saved_out)
    return part and part._replace(program=steps, numbers=sizes)


def _other_code(part: Slice | None) -> str:
    """What differs between NumPy code for any sizes and that for the sizes at hand, or nothing."""
    if part is None:
        return ""
    closed = part.closed()
    given = _numbers([v.aval for v in closed.jaxpr.invars])
    try:
        mine = part.in_general(_by_xla, None)
    except Changed:
        return ""
    theirs = host.program(closed, _by_xla, part.single)
    if (mine is None) != (theirs is None):
        return f"NumPy computes it: {mine is not None}, by shape {theirs is not None}"
    if mine is None or any(a.size > _LARGEST for a in given):
        return ""
    answers = [_bytes(fn, given) for fn in (mine, theirs, *_read_code(part))]
    if answers[0] != answers[1]:
        return "other numbers of NumPy's code"
    return "" if answers[0] == answers[-1] else "other numbers of NumPy's code that was read from a file"


def _read_code(part: Slice) -> Iterator[Any]:
    """The NumPy code of a part as another process reads it, for its sizes; nothing where it is not kept."""
    for code in part.program.codes[part._key, False]:
        if code.holds(part.numbers):
            with suppress(pickle.PicklingError, RecursionError):
                record = trace_files.dumped(code, part.program.sizes)
                yield trace_files.loaded(record, part.program.sizes).at(part.program.now(part.numbers), _by_xla, None)
            return


def _by_xla(*args: Any) -> Any:
    raise Unsure


def _bytes(fn: Any, given: Sequence[Any]) -> Any:
    try:
        outs = fn(*given)
    except (Unsure, IndexError) as refused:
        return type(refused)
    return [(x.shape, x.dtype, x.tobytes()) for x in (outs if isinstance(outs, list) else [outs])]


def _other_sizes(template: Template) -> Iterator[tuple[int, ...]]:
    """Numbers for the symbols; those that have to be equal are, and one that has to be a product of others is that."""
    n, sizes, equal, fixed = template.sizes.n, template.sizes, template.sizes.equal(), {}
    follows: dict[int, Any] = {}
    for (op, terms), truth in sizes.guards.items():
        if (op, truth) != ("==", True):
            continue
        if sum(bool(factors) for factors, _ in terms) == 1:
            fixed |= {i: sizes.hints[i] for factors, _ in terms for i in factors if i < n}
        for (factors, c), rest in ((t, [u for u in terms if u is not t]) for t in terms):
            if len(factors) == 1 and factors[0] < n and abs(c) == 1 and all(factors[0] not in f for f, _ in rest):
                follows[factors[0]] = eval(f"lambda s: {sizes.text(sizes.size(dict(rest)) * -c)}")
                break
    for pool in POOLS:
        numbers = itertools.cycle(pool)
        chosen = {i: fixed.get(i) or next(numbers) for i in range(n) if i not in equal}
        found = [chosen[equal.get(i, i)] for i in range(n)]
        for i, of in follows.items():
            found[i] = of(found)
        if min(found, default=SMALLEST) >= SMALLEST:
            yield tuple(found)


def _by_shape(plan: trace.Plan, template: Template, formula: formulas.Formula | None, sizes: Sequence[int]) -> Program:
    """The steps that a trace of these sizes gives."""
    fn, avals = plan.found.source.with_symbols(sizes)  # type: ignore[union-attr]
    fn = templates.strong(fn) if template.strong else fn
    with jax.enable_x64(True):  # as the package traces
        if formula is None:
            return Program(jax.make_jaxpr(fn)(*avals), whole=True)
        outs = jax.eval_shape(fn, *avals)
    outs = [outs] if template.single else outs
    cts = [jax.ShapeDtypeStruct(outs[k].shape, outs[k].dtype) for k in formula.diff]
    return formulas._traced(formula.wrt, formula.diff, fn, template.single, avals, cts, whole=True)


def _difference(mine: Program, theirs: Program) -> str:
    """What differs between two programs, or nothing."""
    mine, theirs = (s.slice(s.out, range(s.n_in)) if hasattr(s, "out") else s for s in (mine, theirs))
    shapes = [[(a.shape, a.dtype) for a in s.out_avals] for s in (mine, theirs)]
    if shapes[0] != shapes[1]:
        return f"{shapes[0]} where a trace by shape gives {shapes[1]}"
    said = _other_steps(mine, theirs)
    if said and any(v.aval.size > _LARGEST for s in (mine, theirs) for e in s.eqns for v in (*e.invars, *e.outvars)):
        return ""  # they were compared for smaller sizes
    if said:
        given = _numbers([v.aval for v in mine.invars])
        with jax.enable_x64(True):
            answers = [[np.asarray(x).tobytes() for x in jax.jit(s.run)(*given)] for s in (mine, theirs)]
        return "" if answers[0] == answers[1] else f"other numbers: {said}"
    return said


def _numbers(avals: Sequence[Any]) -> list[Any]:
    drawn = np.random.RandomState(0)
    return [
        drawn.standard_normal(a.shape).astype(a.dtype) if a.dtype.kind in "fc" else np.ones(a.shape, a.dtype)
        for a in avals
    ]


def _other_steps(mine: Program, theirs: Program) -> str:
    """What differs between the steps of two programs, or nothing."""
    if len(mine.eqns) != len(theirs.eqns):
        return f"{len(mine.eqns)} steps, {len(theirs.eqns)} by shape"
    names = dict(zip(mine.invars, theirs.invars))

    def same(r: Any, s: Any) -> bool:
        if not isinstance(r, Literal):
            return names.get(r) is s
        x, y = (np.asarray(v.val) for v in (r, s)) if isinstance(s, Literal) else (np.zeros(0), np.ones(1))
        return x.shape == y.shape and x.astype(y.dtype).tobytes() == y.tobytes()

    for eqn, other in zip(mine.eqns, theirs.eqns):
        if eqn.primitive is not other.primitive or not all(map(same, eqn.invars, other.invars)):
            return f"{eqn.primitive}, {other.primitive} by shape"
        for name, value in other.params.items() if eqn.primitive.name not in INNER else ():
            if eqn.params[name] != value and repr(eqn.params[name]) != repr(value):
                return f"{name}={eqn.params[name]} of {eqn.primitive}, {value} by shape"
        names.update(zip(eqn.outvars, other.outvars))
    return "" if all(map(same, mine.outvars, theirs.outvars)) else "other results"
