"""Running an update rule over many parameters: as one kernel where nobody can tell, else tensor by tensor.

A rule is ``rule(p, g, s, h)``: parameter, gradient, a namespace of state tensors, a namespace of
hyperparameters. It writes to the parameter and the state in place, with the methods that `Cell` and `Tensor`
share and the helpers below.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core.arrays.dtypes import FLOATING, complex128, float64, from_np
from .._core.arrays.meta import Meta, meta
from .._core.arrays.placement import MANY, spread_over
from .._core.host import choice
from .._core.jax import abstract
from .._core.jax.caches import KERNELS
from .._core.jax.target import platform
from .._core.state import CUT, GRAD, IN_RUN, MODES, UNDER_JAX, WINDOWS
from .._engine.graph.record import PLAIN
from .._engine.memory.derivative_stops import stopped, unrecorded
from .._engine.memory.strided import operand, read
from .._engine.memory.tensor import Tensor, make, wrap_beside
from .._engine.overrides.asking import overridden
from .._engine.run import executors, windows
from .._engine.run.kernel import Kernel, traced_later
from ._cells import Cell, NotElementwise, Row
from ._scalars import advance, alike, store, take

Rule = Callable[[Any, Any, Any, Any], None]

# --- what rules say besides methods ----------------------------------------------------------------


def _factor(value: Any) -> Any:
    """A scalar as a method's number, or the tensor itself when the step is to depend on it."""
    if not isinstance(value, Tensor) or (MODES.bits & GRAD and value.requires_grad):
        return value
    return value if isinstance(read(value), jax.core.Tracer) else value.item()


def kept(x: Any) -> Any:
    """An operand that a recorded step may save although a later step overwrites it."""
    return x.clone() if isinstance(x, Tensor) and MODES.bits & GRAD else x


def add(x: Any, y: Any, alpha: Any) -> Any:
    """``x + alpha * y``, also for an alpha that is differentiated through."""
    alpha = _factor(alpha)
    return x + kept(y) * alpha if isinstance(alpha, Tensor) else x.add(y, alpha=alpha)


def add_(x: Any, y: Any, alpha: Any) -> Any:
    """The same in place."""
    alpha = _factor(alpha)
    if isinstance(alpha, Tensor):
        return x.addcmul_(kept(y), alpha)
    return x.add_(y, alpha=alpha)


def addcmul_(x: Any, a: Any, b: Any, value: Any = 1.0) -> Any:
    """``x += value * a * b``."""
    value = _factor(value)
    if isinstance(value, Tensor):
        return x.addcmul_(kept(a) * b, value)
    return x.addcmul_(kept(a), kept(b), value=value)


def addcdiv_(x: Any, a: Any, b: Any, value: Any = 1.0) -> Any:
    """``x += value * a / b``."""
    value = _factor(value)
    if isinstance(value, Tensor):
        return x.addcdiv_(kept(a), b / value)
    return x.addcdiv_(kept(a), kept(b), value=value)


def root(x: Any) -> Any:
    """Square root of a scalar of any kind."""
    return x.sqrt() if isinstance(x, Tensor) else x**0.5


def larger(a: Any, b: Any) -> Any:
    """The larger of two scalars, Python's where both are; the first may be a tensor."""
    if isinstance(a, Tensor):
        return a.clamp(min=b)
    return max(a, b) if _plain(a, b) else jnp.maximum(a, b)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two scalars."""
    return min(a, b) if _plain(a, b) else jnp.minimum(a, b)


def _plain(*values: Any) -> bool:
    return not any(isinstance(v, jax.Array) for v in values)


def norm(x: Any, dim: int | None = None) -> Any:
    """The 2-norm of everything, or along `dim`, which is kept."""
    if isinstance(x, Cell):
        return x.norm(dim)
    return x.norm(2) if dim is None else x.norm(2, dim, keepdim=True)


def mean(x: Any, dim: int) -> Any:
    """The mean along `dim`, which is kept."""
    return x.mean(dim) if isinstance(x, Cell) else x.mean(dim=dim, keepdim=True)


def as_real(*xs: Any) -> tuple[Any, ...]:
    """The arguments, complex ones as pairs of real numbers."""
    return tuple(x if x is None or not x.is_complex() else _real_view(x) for x in xs)


def _real_view(x: Any) -> Any:
    from .._engine.entry.bind import NAMESPACES

    return x.view_as_real() if isinstance(x, Cell) else NAMESPACES[""]["view_as_real"](x)


# --- scalars in float32, where there is no float64 ------------------------------------------------------

_NARROW: set[Rule] = set()


def narrow(rule: Rule) -> Rule:
    """Let the scalars of a rule be float32 on TPUs, which compute float64 by hundreds of instructions.

    Such a rule writes `rest(h, "beta1")` for ``1 - h.beta1`` and `forgotten(h, "beta1")` for ``1 - h.beta1 ** h.step``:
    0.999 in float32 would leave 0.001 with three digits too few.
    """
    _NARROW.add(rule)
    return rule


def rest(h: Any, name: str) -> Any:
    """``1 - h.beta1``, for the name "beta1"."""
    return h.rests[name]() if name in getattr(h, "rests", ()) else 1 - getattr(h, name)


def forgotten(h: Any, name: str) -> Any:
    """``1 - h.beta1 ** h.step``, for the name "beta1": what a running average has seen of its values."""
    if name not in getattr(h, "rests", ()):
        return 1 - getattr(h, name) ** h.step
    return -jnp.expm1(h.step * jnp.log1p(-h.rests[name]()))


# --- what most rules begin with -----------------------------------------------------------------------


def descent(g: Any, h: Any) -> Any:
    """The gradient to go down along."""
    return g.neg() if h.maximize else g


def penalized(p: Any, g: Any, h: Any) -> Any:
    """The gradient with that of the L2 penalty."""
    return add(g, p, h.weight_decay) if h.decays else g


def decayed(p: Any, g: Any, h: Any) -> Any:
    """The same, unless the parameter itself is made smaller instead."""
    if h.decays and h.decoupled:
        p.mul_(1 - h.lr * h.weight_decay)
        return g
    return penalized(p, g, h)


def average(g: Any, mean: Any, square: Any, h: Any) -> None:
    """Move the running averages of the gradient and of its square."""
    mean.lerp_(g, rest(h, "beta1"))
    addcmul_(square.mul_(h.beta2), g, g, rest(h, "beta2"))


# --- running them -----------------------------------------------------------------------------------

States = dict[Any, Any]


def run(rule: Rule, params: Sequence[Any], grads: Sequence[Any], states: States, h: dict[str, Any]) -> None:
    """Apply `rule` to every parameter; a state that is None may be made by it and is put in its list.

    Args:
        rule: the update.
        params: what is updated, in order.
        grads: their gradients.
        states: per name, one tensor or None for each parameter.
        h: hyperparameters. Numbers may change from step to step, anything else makes another kernel.
    """
    parts = _partition(params, grads, states) if params else []
    if parts is None:
        _one_by_one(rule, params, grads, states, h)
    for part in parts or ():
        _together(rule, params, grads, states, h, part)


def run_by_step(
    rule: Any, params: Any, grads: Any, columns: Any, steps: Any, h: dict[str, Any], exact: bool = False
) -> None:
    """Advance the step counts and run a rule that reads them, once for all parameters at the same step.

    With `exact`, a recorded step computes with the step count as the tensor that it is, in its precision.
    """
    now = advance(steps)
    if exact and MODES.bits & GRAD:
        for i in range(len(params)):
            columns_i = {k: column[i : i + 1] for k, column in columns.items()}
            run(rule, params[i : i + 1], grads[i : i + 1], columns_i, {**h, "step": steps[i]})
        return
    for part in alike(now) if now else []:
        ps, gs, *rest = take(part, params, grads, *columns.values())
        run(rule, ps, gs, dict(zip(columns, rest)), {**h, "step": now[part[0]]})


def _one_by_one(rule: Rule, params: Any, grads: Any, states: States, h: dict[str, Any]) -> None:
    # Methods of tensors take no array: a number that a program reads is a tensor for them.
    here = params[0]._m.device
    hyper = SimpleNamespace(**{k: wrap_beside(v, here) if isinstance(v, jax.Array) else v for k, v in h.items()})
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        s = SimpleNamespace(**{k: column[i] for k, column in states.items()})
        rule(p, g, s, hyper)
        for k, column in states.items():
            column[i] = getattr(s, k)


def _partition(params: Any, grads: Any, states: States) -> list[Any] | None:
    """Indices of parameters that can share a kernel; None where only one at a time will do."""
    if MODES.bits & ~(IN_RUN | CUT | UNDER_JAX | WINDOWS):
        return None
    if not PLAIN.issuperset(map(type, params)) and overridden(params):
        return None
    metas = [p._m for p in params]
    if any(d.category < FLOATING for d in {m.dtype for m in metas}):
        return None
    given = [[s for s in column if s is not None] for column in states.values()]
    for column in (grads, *states.values()):
        for t, m in zip(column, metas):
            if t is None or t._m is m:
                continue
            if t._m.dtype is not m.dtype or t._m.device is not m.device:
                return None
    if any(g._m.shape != m.shape for g, m in zip(grads, metas)):
        return None
    if any(x.inference for x in [p._x for p in params] if x is not None):
        return None
    written = [id(p._st) for p in params]
    for column in given:
        written += [id(s._st) for s in column]
    storages = set(written)
    if len(storages) != len(written) or not storages.isdisjoint([id(g._st) for g in grads]):
        return None  # something is written to that something else reads: order matters
    if not MANY and len({m.device for m in metas}) == 1:
        return _by_size(metas)
    places = [_place(p) for p in params]
    return [[i for i, q in enumerate(places) if q == place] for place in dict.fromkeys(places)]


def _by_size(metas: Sequence[Meta]) -> list[Any]:
    """The small ones, where they make one row, apart from the large ones: XLA compiles 10 ms for each that it meets."""
    small = [i for i, m in enumerate(metas) if m.numel <= choice.SMALL]
    short = sum([metas[i].numel for i in small]) <= _IN_A_ROW
    as_at_once = MODES.run.at_once or MODES.run.uses.keeps_kernels
    if not (_MANY <= len(small) < len(metas) and short and metas[0].device.type == "cpu" and as_at_once):
        return [range(len(metas))]
    return [small, [i for i, m in enumerate(metas) if m.numel > choice.SMALL]]


def _place(p: Tensor) -> Any:
    """The device of a parameter, and all devices of one over a mesh: a kernel computes over one mesh."""
    mesh = spread_over(p._st.array)
    return p._m.device, None if mesh is None else frozenset(mesh.device_set)


class _Kernel:
    """A rule compiled for a list of parameters; knows after its first run who was written how often."""

    def __init__(
        self,
        rule: Rule,
        fixed: dict[str, Any],
        traced: tuple[str, ...],
        names: tuple[str, ...],
        device: Any,
        kind: type[Cell] = Cell,
    ) -> None:
        self.rule, self.fixed, self.traced, self.names = rule, fixed, traced, names
        self.kind = kind
        self.narrow = False
        """Whether its numbers are float32."""
        self.writes: list[Sequence[int]] = []
        self.step = traced_later(self._step, device, limit=choice.OF_MANY)
        self.run: Callable[..., Any] = self.step
        """What is called outside of programs, with the same results."""
        self._device, self._flat = device, None
        self._results: tuple[Any, list[Meta]] = None, []

    def in_window(self, *args: Any) -> Any:
        """Make the step one of a window."""
        leaves, tree = jax.tree.flatten(args)
        if self._flat is None:
            shapes = [jax.ShapeDtypeStruct(np.shape(x), x.dtype) for x in leaves]
            found, out_tree = jax.tree.flatten(jax.eval_shape(self._step, *tree.unflatten(shapes)))
            self._results = out_tree, [meta(x.shape, from_np(x.dtype), self._device) for x in found]
            self._flat = self._of_leaves(tree)
        out_tree, metas = self._results
        return out_tree.unflatten(windows.call(self._flat, leaves, metas, False))

    def _of_leaves(self, tree: Any) -> Kernel:
        """The step as a kernel of the leaves of its arguments, which are such a tree."""
        if self.run is not self.step:
            return Kernel.of_others(lambda *xs: jax.tree.leaves(self.run(*tree.unflatten(xs))))

        def step(*xs: Any) -> list[Any]:
            return jax.tree.leaves(self._step(*tree.unflatten(xs)))

        step.__name__ = f"{getattr(self.rule, '__name__', 'an optimizer')}_step"
        return traced_later(step, self._device, limit=choice.OF_MANY)

    def _step(self, packed: Any, loose: dict[str, Any], ps: Any, gs: Any, states: Any) -> Any:
        hyper = SimpleNamespace(**self.fixed)
        numbers = packed if packed.ndim == 1 else packed[0]
        scalars = {name: numbers[i] for i, name in enumerate(self.traced)}
        scalars |= {name: jnp.reshape(value, ()).astype(packed.dtype) for name, value in loose.items()}
        vars(hyper).update(scalars)
        if packed.ndim == 2:
            hyper.rests = {name: partial(operator.getitem, packed[1], i) for i, name in enumerate(self.traced)}
            hyper.rests |= {name: partial(_rest_of, value, packed.dtype) for name, value in loose.items()}
        cells: list[list[Any]] = []
        for p, g, *olds in zip(ps, gs, *states):
            held = [None if x is None else self.kind(x) for x in olds]
            s = SimpleNamespace(**dict(zip(self.names, held)))
            cell = self.kind(p)
            self.rule(cell, self.kind(g), s, hyper)
            cells.append([cell, *[getattr(s, k) for k in self.names]])
        self.writes = [[0 if c is None else c.writes for c in column] for column in zip(*cells)]
        return [[None if c is None else c.array() for c in column] for column in zip(*cells)]


def _rest_of(value: Any, dtype: Any) -> Any:
    return (1 - jnp.reshape(value, ())).astype(dtype)


_MANY, _IN_A_ROW = 4, 1 << 18
"""From so many parameters on, of at most so many elements together, are they put in one row."""


class _InOneRow:
    """A rule over the elements of all parameters in one row.

    NumPy has a call for each step of a rule: Adam over 50 small parameters makes fifteen of them instead of 750. XLA
    compiles one short kernel.
    """

    def __init__(self, kernel: _Kernel, device: Any, shapes: list[tuple[int, ...]]) -> None:
        given = kernel.rule, kernel.fixed, kernel.traced, kernel.names
        self.kernel = kernel
        self.row: _Kernel | None = _Kernel(*given, device, Row)
        """None for a rule that needs more than the elements."""
        ends = np.cumsum([0, *map(math.prod, shapes)]).tolist()
        self.parts = [(slice(a, b), shape) for a, b, shape in zip(ends, ends[1:], shapes)]

    def run(self, packed: Any, loose: dict[str, Any], *columns: Any) -> Any:
        """What the kernel for each parameter by itself gives."""
        ps, gs, olds = columns
        present = [column for column in (ps, gs, *olds) if column[0] is not None]
        row = self.row if MODES.run.at_once else None
        if row is None or not all(executors.is_small(x) for column in present for x in column):
            return self.kernel.step(packed, loose, *columns)
        rows = [[_joined(ps)], [_joined(gs)], [[_joined(column)] for column in olds]]
        try:
            outs = row.step(packed, loose, *rows)
        except NotElementwise:
            self.row = None
            return self.kernel.step(packed, loose, *columns)
        self.kernel.writes = [list(n) * len(ps) for n in row.writes]
        return [self._apart(out) for (out,) in outs]

    def _apart(self, row: Any) -> list[Any]:
        if row is None:
            return [None] * len(self.parts)
        array = np.asarray(row)
        return [array[part].reshape(shape).copy() for part, shape in self.parts]


def _joined(column: Sequence[Any]) -> Any:
    if column[0] is None:
        return None
    return np.concatenate([np.asarray(x).ravel() for x in column])


def _with_row(kernel: _Kernel, metas: Any, missing: Any) -> _Kernel:
    """The kernel, which runs over one row where these parameters are many and small."""
    device = metas[0].device
    alike = len({m.dtype for m in metas}) == 1 and all(len(set(column)) == 1 for column in missing)
    plain = device.type == "cpu" and metas[0].dtype.np.kind == "f" and metas[0].dtype.itemsize >= 4
    short = sum(m.numel for m in metas) <= _IN_A_ROW and all(m.numel <= choice.SMALL for m in metas)
    if len(metas) >= _MANY and alike and plain and short:
        kernel.run = _InOneRow(kernel, device, [m.shape for m in metas]).run
    return kernel


_KERNELS = KERNELS.cache()


def _split(h: dict[str, Any]) -> tuple[list[str], list[float], dict[str, Any], dict[str, Any]]:
    """Names and values of numbers, arrays that are numbers, and what is compiled in."""
    names, numbers, loose, fixed = [], [], {}, {}
    for name, value in h.items():
        if isinstance(value, float | int) and not isinstance(value, bool):
            names.append(name)
            numbers.append(float(value))
        elif isinstance(value, jax.Array):
            loose[name] = value
        else:
            fixed[name] = value
    return names, numbers, loose, fixed


def _is_narrow(rule: Rule, metas: Sequence[Meta]) -> bool:
    """Whether the numbers of a kernel are float32: in programs for TPUs, unless a parameter is wider."""
    wide = any(m.dtype in (float64, complex128) for m in metas)
    return platform() == "tpu" and rule in _NARROW and not wide


def _packed(numbers: list[float], narrow: bool) -> np.ndarray:
    """The numbers as one array; where float32 has to do, with what each leaves of 1 in a second row."""
    wide = np.array(numbers)
    return np.array([wide, 1 - wide], np.float32) if narrow else wide


def _together(rule: Rule, params: Any, grads: Any, states: States, h: dict[str, Any], part: Any) -> None:
    traced, numbers, loose, fixed = _split(h)
    names = tuple(states)
    ps, gs, *columns = params, grads, *states.values()
    if len(part) != len(params):
        ps, gs, *columns = take(part, *[ps, gs, *columns])
    olds = [_arrays(column) for column in columns]
    missing = tuple([tuple([x is None for x in xs]) for xs in olds])
    metas = tuple([p._m for p in ps])
    kernel = _kernel_for(rule, tuple(traced), tuple(loose), fixed, names, metas, missing)
    elsewhere, derivative_stop_bit = MODES.bits & (IN_RUN | UNDER_JAX), MODES.bits & CUT
    args = (_packed(numbers, kernel.narrow), loose, _arrays(ps), _arrays(gs), olds)
    if metas[0].device.type == "meta":
        outs = abstract.call(kernel.step, *args)
    else:
        outs = (kernel.in_window if windows.defers(MODES.bits) else kernel.run)(*args)
        if MODES.run.uses.keeps_kernels:
            MODES.run.uses.kernel_called(kernel.step, args, False, _as_at_once(kernel, h, metas, missing, args))
    for name, column, news, writes in zip((None, *names), (ps, *columns), outs, kernel.writes):
        for j, (t, array, n) in enumerate(zip(column, news, writes)):
            if derivative_stop_bit and array is not None:
                array = stopped(array) if t is None else unrecorded(read(t), array)
            if t is None:
                if array is not None and name is not None:
                    states[name][part[j]] = make(array, _fresh_meta(gs[j]))
            elif n:
                if t._al is None and not elsewhere:
                    st = t._st
                    st.array = array
                    st.stamp += 1
                    t._vc.version += n
                else:
                    store(t, array, n)


def _as_at_once(kernel: _Kernel, h: dict[str, Any], metas: Any, missing: Any, args: Any) -> Kernel:
    """The step as code that runs at once takes it, as a kernel of the leaves of the arguments that it has in a trace.

    What is an array in a trace, such as the number of the step, is a number there, and stands among the other numbers.
    """
    names, fixed, leaves_of = (*h,), kernel.fixed, jax.tree.structure(args)
    order = [name for name in names if name not in fixed]
    step = _kernel_for(kernel.rule, tuple(order), (), fixed, kernel.names, metas, missing)

    def run(*leaves: Any) -> list[Any]:
        _, loose, *columns = leaves_of.unflatten(leaves)
        numbers = [float(np.asarray(loose[name] if name in loose else h[name])) for name in order]
        return jax.tree.leaves(step.run(_packed(numbers, step.narrow), {}, *columns))

    run.__name__ = f"{getattr(kernel.rule, '__name__', 'an optimizer')}_step"
    return Kernel.of_others(run)


def _kernel_for(
    rule: Rule,
    traced: tuple[str, ...],
    loose: tuple[str, ...],
    fixed: dict[str, Any],
    names: tuple[str, ...],
    metas: tuple[Meta, ...],
    missing: Any,
) -> _Kernel:
    """The kernel of a rule for such parameters, which is made for the first of them."""
    key = (rule, metas, traced, loose, tuple(fixed.items()), names, missing)
    kernel = _KERNELS.young.get(key) or _KERNELS.older(key)
    if kernel is None:
        kernel = _Kernel(rule, fixed, traced, names, metas[0].device)
        kernel.narrow = _is_narrow(rule, metas)
        _KERNELS.put(key, _with_row(kernel, metas, missing), 0)
    return kernel


def _fresh_meta(g: Tensor) -> Any:
    """How a clone of `g` lies in memory."""
    m = g._m
    return m if m.dense else m.like(strides=None, shape=m.shape)


def _arrays(tensors: Sequence[Tensor | None]) -> list[Any]:
    if not MODES.run.at_once:
        return [None if t is None else read(t) for t in tensors]
    if MODES.bits & WINDOWS and windows.defers(MODES.bits):
        return [None if t is None else operand(t) for t in tensors]
    return [None if t is None else t._st.array if t._al is None else read(t) for t in tensors]
