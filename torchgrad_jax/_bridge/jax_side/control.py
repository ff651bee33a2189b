"""JAX's control flow over tensors: `scan`, `cond`, `while_loop` and the like of `interop`, as operators of the graph.

Where one of these functions is given tensors (or is called inside of a compiled function), it becomes one recorded
operator: gradients go to its arguments and to the tensors that its functions close over. In eager code the branch that
a value chooses simply runs, and so does a loop that ends by its values. In code that JAX itself traces, and without
tensors, each is the function of `jax.lax` that has its name.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..._core.arrays.dtypes import INTEGRAL
from ..._core.arrays.python_numbers import Number
from ..._core.errors.messages import AMBIGUOUS
from ..._core.jax.x64 import of_jax
from ..._core.random.keys import is_key
from ..._core.state import MODES
from ..._engine.graph.history import requires_grad_of
from ..._engine.memory.derivative_stops import under_jax
from ..._engine.memory.strided import read
from ..._engine.memory.tensor import Tensor
from ..._engine.modes.belonging import tensor_of_jax
from ..._engine.tensor.values import loses_derivative
from ..._functions import symbolic
from ..compile.watch.notes import KEPT_UNDER
from .inner_checks import any_failed, failures_like, first_failures, note_once, note_steps, with_checks
from .interop import FromJax, _array_of, _Kept, operator_of


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def _flat(tree: Any) -> tuple[list[Any], Any]:
    leaves, spec = jax.tree_util.tree_flatten(tree, is_leaf=_is_tensor)
    return [x.array() if type(x) is Number else x for x in leaves], spec


def _ours(*trees: Any) -> bool:
    """Whether a call is one of tensor code; in a function given to `from_jax` it is JAX's, unless it has tensors."""
    if not MODES.run.at_once and not under_jax() and not isinstance(MODES.run.uses, FromJax):
        return True
    return _has_tensors(*trees)


def _has_tensors(*trees: Any) -> bool:
    return any(map(_is_tensor, jax.tree_util.tree_leaves(trees, is_leaf=_is_tensor)))


def _has_values() -> bool:
    """Return whether the values of tensors are there to decide."""
    return MODES.run.at_once and not under_jax()


def _fresh(f: Callable[..., Any]) -> Callable[..., Any]:
    """The same function as another object: JAX keeps traces by what it is given, and would find old tracers."""
    return functools.wraps(f)(lambda *args, **kwargs: f(*args, **kwargs))


class _Over:
    """A function over tensors as one of arrays: given and returned flat, or in trees of them."""

    def __init__(self, f: Callable[..., Any], *given: Any, only_reads: bool = False) -> None:
        """`given` are arguments like those that it gets: where they have tensors, it gets tensors.

        With `only_reads` it may not write to them: in eager code it gets the tensors themselves, and the write stays.
        """
        self.f, self.only_reads = f, only_reads
        leaves, self.spec = _flat(given)
        self.tensors = [isinstance(x, Tensor) for x in leaves]
        self.returned: list[bool] = []
        """Which leaves of the last result were tensors."""
        self.checks: list[Any] = []
        """What the function checked when it was last called by `checked`."""
        self.kinds = ""
        """The form, dtypes and shapes of its last result, in words."""

    def checked(self, *args: Any) -> tuple[Any, list[Any]]:
        """The result, and flags and arrays of what it checks."""
        found, failures, self.checks = with_checks(self, *args)
        return found, failures

    def __call__(self, *args: Any) -> Any:
        leaves, spec = jax.tree_util.tree_flatten(args)
        tensors = self.tensors if len(self.tensors) == len(leaves) else [True] * len(leaves)
        values = [tensor_of_jax(jnp.asarray(x)) if t else x for x, t in zip(leaves, tensors)]
        found = self.f(*jax.tree_util.tree_unflatten(spec, values))
        if self.only_reads and any(isinstance(x, Tensor) and x._vc.version for x in values):
            raise RuntimeError(
                "a branch or a loop in a compiled function writes to a tensor that it is given, and the write would be "
                "lost outside; write to a clone of it"
            )
        self.returned = [_is_tensor(x) for x in jax.tree.leaves(found, is_leaf=_is_tensor)]
        found = _as_arrays(found)
        self.kinds = str(jax.tree.map(_Kind, found))
        return found


class _Kind:
    """Shown as the dtype and the shape of an array."""

    def __init__(self, x: Any) -> None:
        self.of = jnp.result_type(x), jnp.shape(x)

    def __repr__(self) -> str:
        dtype, shape = self.of
        return f"{dtype}{list(shape)}"


def _as_arrays(tree: Any) -> Any:
    return jax.tree_util.tree_map(lambda x: x if is_key(x) else _array_of(x), tree, is_leaf=_is_tensor)


def _recorded(name: str, f: Any, key: Any, run: Callable[..., Any], leaves: Sequence[Any], *others: Any) -> Any:
    """What `run`, a function of arrays, gives for these leaves, as one operator of this name.

    It is kept with the user's function `f`, whose next call with the same `key` is not traced again, unless what
    `f` and `others` look at has changed.
    """

    def traced(*arrays: Any) -> Any:
        return jax.tree_util.tree_map(lambda x: x if is_key(x) else tensor_of_jax(x), run(*arrays))

    traced.__name__ = name
    traced.__dict__["of"] = (f, *others)  # where guards find them
    if under_jax() and not any(isinstance(x, Tensor) and loses_derivative(x) for x in leaves):
        return traced(*[read(x) if isinstance(x, Tensor) else x for x in leaves])
    operators = _operators_of(f) if MODES.run.at_once else None
    if operators is None:
        return operator_of(traced)(*leaves)
    key = (getattr(f, "__func__", None), key)
    try:
        found = operators.get(key)
    except TypeError:
        return operator_of(traced)(*leaves)
    if found is None:
        if len(operators) >= _KEPT:
            operators.clear()
        found = operators[key] = operator_of(traced)
    return found(*leaves)


_KEPT = 16
"""How many operators are kept with a function."""


class _Operators:
    """The operators made of one function; a copy or a pickle of the function begins without any."""

    __slots__ = ("made", "owner")

    def __init__(self, owner: Any = None) -> None:
        self.owner, self.made = owner, dict[Any, Any]()

    def __reduce__(self) -> Any:
        return _Operators, ()


def _operators_of(f: Any) -> dict[Any, Any] | None:
    """The operators that are kept with a function (or with the object of a bound method), if they can be.

    `functools.wraps` and `copy.copy` pass on what is kept with a function, so the owner tells for whom it was made.
    """
    owner = f.__self__ if isinstance(f, types.MethodType) else f
    kept = getattr(owner, "__dict__", None)
    if type(kept) is not dict or isinstance(owner, functools.partial):
        return None
    found = kept.get(KEPT_UNDER)
    if found is None or found.owner is not owner:
        found = kept[KEPT_UNDER] = _Operators(owner)
    return found.made


def _like(tensors: Sequence[bool], found: Any) -> Any:
    """Results as tensors where `tensors` says so; the others as arrays, unless they have a graph."""
    leaves, spec = _flat(found)
    for i, (tensor, x) in enumerate(zip(tensors, leaves)):
        if not tensor and isinstance(x, Tensor) and not requires_grad_of(x):
            leaves[i] = jnp.asarray(read(x))
    return jax.tree_util.tree_unflatten(spec, leaves)


# --- the functions --------------------------------------------------------------------------------


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: Any = 1,
    **options: Any,
) -> Any:
    """Carry a state through the rows of tensors as `jax.lax.scan`, as one operator of the graph.

    Args:
        f: takes the state and a row, and gives the next state and a row of results. Tensors that it reads from outside
            get gradients, too.
        init: the first state.
        xs: tensors whose rows are taken, in any pytree, or None.
        length: how many steps there are, if there are no `xs`.
        reverse: begin with the last row.
        unroll: how many steps one turn of the compiled loop takes.
        **options: others of `jax.lax.scan`.

    Returns:
        The last state, and the results of all steps.

    Example:
        >>> import torchgrad_jax as torch
        >>> w = torch.tensor(2.0, requires_grad=True)
        >>> last, _ = torch.interop.scan(lambda h, x: (h * w + x, h), torch.tensor(0.0), torch.ones(3))
        >>> last.backward()
        >>> last.item(), w.grad.item()
        (7.0, 5.0)
    """
    settings = {"length": length, "reverse": reverse, "unroll": unroll, **options}
    if not _ours(init, xs):
        return of_jax(lax.scan)(f, init, xs, **settings)
    leaves, spec = _flat((init, xs))
    over = _Over(f, init, xs)

    def run(*arrays: Any) -> Any:
        carry, rows = jax.tree_util.tree_unflatten(spec, arrays)

        def step(carry: Any, row: Any) -> Any:
            (carry, y), failures = over.checked(carry, row)
            return carry, (y, failures)

        carry, (ys, failures) = lax.scan(step, carry, rows, **settings)
        note_steps(failures, over.checks)
        return carry, ys

    key = ("scan", spec, tuple(over.tensors), tuple(settings.items()))
    carry, ys = _recorded("scan", f, key, run, leaves)
    return _like(over.tensors, carry), ys


def repeated(
    owner: Any,
    key: Any,
    layer: Callable[..., Any],
    x: Any,
    rows: Any,
    given: tuple[Any, ...],
    wrapped: Callable[..., Any],
    unroll: int,
    length: int,
    module: Any,
) -> Any:
    """`layer(x, row, *given)`, which calls `module`, for each of the `rows`, where `x` is what the one before gave."""
    leaves, spec = _flat((x, rows, given))
    over = _Over(layer, x, rows, *given)

    def run(*arrays: Any) -> Any:
        first, stacked, others = jax.tree_util.tree_unflatten(spec, arrays)
        body = wrapped(lambda carry, row: over.checked(carry, row, *others))
        last, failures = lax.scan(body, first, stacked, length, unroll=unroll)
        note_steps(failures, over.checks)
        return last

    return _recorded("scan_layers", owner, (key, spec, tuple(over.tensors)), run, leaves, module)


def map_(f: Callable[..., Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply a function to each row as `jax.lax.map`, as one operator of the graph.

    Args:
        f: takes a row, and may read tensors from outside.
        xs: tensors with rows, in any pytree.
        batch_size: how many rows are taken at once, by `vmap`.
    """
    if not _ours(xs):
        return of_jax(lax.map)(f, xs, batch_size=batch_size)
    leaves, spec = _flat(xs)
    over = _Over(f, xs)

    def run(*arrays: Any) -> Any:
        rows = jax.tree_util.tree_unflatten(spec, arrays)
        found, failures = lax.map(_fresh(over.checked), rows, batch_size=batch_size)
        note_steps(failures, over.checks)
        return found

    return _recorded("map", f, ("map", spec, tuple(over.tensors), batch_size), run, leaves)


def associative_scan(fn: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Combine rows with all rows before them as `jax.lax.associative_scan`, as one operator of the graph.

    Args:
        fn: associative; takes and gives many rows at once.
        elems: tensors with rows, in any pytree.
        reverse: begin with the last row.
        axis: the dimension of the rows.
    """
    if not _ours(elems):
        return of_jax(lax.associative_scan)(fn, elems, reverse, axis)
    leaves, spec = _flat(elems)
    over = _Over(fn, elems, elems)

    def run(*arrays: Any) -> Any:
        given = jax.tree_util.tree_unflatten(spec, arrays)
        return lax.associative_scan(_fresh(over), given, reverse, axis)

    return _recorded("associative_scan", fn, ("associative", spec, tuple(over.tensors), reverse, axis), run, leaves)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[..., Any], init_val: Any, *, unroll: Any = None) -> Any:
    """Repeat a step so many times as `jax.lax.fori_loop`, as one operator of the graph.

    Args:
        lower: the number of the first step.
        upper: the number after that of the last one.
        body_fun: takes the number of the step and the state, and gives the next state.
        init_val: the first state.
        unroll: how many steps one turn of the compiled loop takes.
    """
    if not _ours(lower, upper, init_val):
        return of_jax(lax.fori_loop)(lower, upper, body_fun, init_val, unroll=unroll)
    bounds = [_known(x) for x in (lower, upper)]
    fixed = all(isinstance(b, int) for b in bounds)
    leaves, spec = _flat((init_val, [] if fixed else bounds))
    over = _Over(body_fun, 0, init_val)

    def run(*arrays: Any) -> Any:
        first, given = jax.tree_util.tree_unflatten(spec, arrays)
        given = bounds if fixed else given
        none, checks = failures_like(over, given[0], first)
        if not none:
            return lax.fori_loop(given[0], given[1], _fresh(over), first, unroll=unroll)

        def step(i: Any, state: Any) -> Any:
            value, before = state
            value, failures = over.checked(i, value)
            return value, first_failures(before, failures)

        found, failures = lax.fori_loop(given[0], given[1], step, (first, none), unroll=unroll)
        note_once(failures, checks)
        return found

    key = ("fori", spec, tuple(over.tensors), tuple(bounds) if fixed else None, unroll)
    return _like(over.tensors[1:], _recorded("fori_loop", body_fun, key, run, leaves))


def _known(x: Any) -> Any:
    """A bound as a number of Python, where its value is there."""
    traced = isinstance(x, jax.core.Tracer) or (isinstance(x, Tensor) and not _has_values())
    return x if traced else operator.index(x)


def while_loop(cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init_val: Any) -> Any:
    """Repeat a step while a condition holds as `jax.lax.while_loop`, with a gradient; eager code simply runs it.

    Args:
        cond_fun: takes the state, and gives a tensor of one bool.
        body_fun: takes the state, and gives the next one.
        init_val: the first state.
    """
    if not _ours(init_val):
        return of_jax(lax.while_loop)(cond_fun, body_fun, init_val)
    if _has_values():
        value = init_val
        while bool(cond_fun(value)):
            value = body_fun(value)
        return value
    leaves, spec = _flat(init_val)
    goes_on = _Over(cond_fun, init_val, only_reads=True)
    over = _Over(body_fun, init_val, only_reads=True)

    def run(*arrays: Any) -> Any:
        first = jax.tree_util.tree_unflatten(spec, arrays)
        return _while_checked(goes_on, over, first)

    key = ("while", spec, tuple(over.tensors), cond_fun)
    return _like(over.tensors, _recorded("while_loop", body_fun, key, run, leaves, cond_fun))


def _while_checked(goes_on: _Over, over: _Over, first: Any) -> Any:
    """The loop, whose body and condition may check values: it ends where a check fails."""
    from . import value_loops  # it imports modules that are slow to import

    def test(value: Any) -> Any:
        return _flag(goes_on(value))

    of_test, checks = failures_like(test, first)
    of_body, more = failures_like(over, first)
    if not of_test and not of_body:
        return value_loops.while_loop(test, _fresh(over), first)

    def step(state: Any) -> Any:
        value, before = state
        _, tested, _ = with_checks(test, value)
        value, failures = over.checked(value)
        return value, first_failures(before, [*tested, *failures])

    def goes_on_unfailed(state: Any) -> Any:
        value, failures = state
        return _flag(goes_on(value)) & ~any_failed(failures)

    value, failures = value_loops.while_loop(goes_on_unfailed, step, (first, [*of_test, *of_body]))
    note_once(failures, [*checks, *more])
    note_once(*with_checks(test, value)[1:])
    return value


def _flag(x: Any) -> Any:
    x = jnp.asarray(x)
    if x.size != 1:
        raise RuntimeError(AMBIGUOUS)
    return x.reshape(()).astype(bool)


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any, **named: Any) -> Any:
    """Run one of two branches as `jax.lax.cond`, as one operator of a compiled program; eager code simply runs it.

    Args:
        pred: one bool that says which branch to take.
        true_fun: takes the operands.
        false_fun: takes the operands.
        *operands: tensors, in any pytrees.
        **named: the operand as `operand`, if there is one.
    """
    if not _ours(pred, true_fun, operands, named) and not _runs_a_branch(operands, named):
        return of_jax(lax.cond)(pred, true_fun, false_fun, *operands, **named)
    if not callable(true_fun) and len(operands) == 2 and callable(operands[1]):
        # JAX's older form: cond(pred, of_true, true_fun, of_false, false_fun)
        x, on_true, y, on_false = true_fun, false_fun, *operands
        return cond(pred, lambda x, _: on_true(x), lambda _, y: on_false(y), x, y)
    operands = _operands("cond", operands, named)
    if _has_values() or not isinstance(pred, Tensor | jax.core.Tracer | Number):
        return (true_fun if bool(pred) else false_fun)(*operands)
    return _branches(pred, [false_fun, true_fun], operands, lambda which: _flag(which).astype("int32"))


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, **named: Any) -> Any:
    """Run one of many branches as `jax.lax.switch`, as one operator of a compiled program; eager code simply runs it.

    Args:
        index: the number of the branch; the first or the last one, if there is none with that number.
        branches: take the operands.
        *operands: tensors, in any pytrees.
        **named: the operand as `operand`, if there is one.
    """
    if not _ours(index, operands, named) and not _runs_a_branch(operands, named):
        return of_jax(lax.switch)(index, branches, *operands, **named)
    operands = _operands("switch", operands, named)
    if isinstance(index, Tensor) and index.dtype.category != INTEGRAL:
        raise TypeError(f"Index type must be an integer, got {index.dtype}")
    if _has_values() or not isinstance(index, Tensor | jax.core.Tracer | Number):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    return _branches(index, branches, operands, lambda which: jnp.asarray(which).reshape(()).astype("int32"))


def _runs_a_branch(operands: Any, named: Any) -> bool:
    """Return whether branches without arguments are plain code, which may read any tensors."""
    return not operands and not named and _has_values() and not isinstance(MODES.run.uses, FromJax)


def _operands(name: str, operands: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Return what is given to a branch: by position, or one thing as `operand`."""
    if named and (operands or list(named) != ["operand"]):
        raise TypeError(
            f"{name}() takes operands by position, or one as operand=; got {len(operands)} and {list(named)}"
        )
    return tuple(named.values()) or operands


def _branches(
    which: Any, branches: Sequence[Callable[..., Any]], operands: Sequence[Any], number: Callable[[Any], Any]
) -> Any:
    leaves, spec = _flat((which, operands))
    overs = [_Over(f, *operands, only_reads=True) for f in branches]

    def run(*arrays: Any) -> Any:
        chosen, given = jax.tree_util.tree_unflatten(spec, arrays)
        none, checks = zip(*[failures_like(over, *given) for over in overs])

        def branch(k: int) -> Callable[..., Any]:
            def of(*given: Any) -> Any:
                found, failures = overs[k].checked(*given)
                return found, [*none[:k], failures, *none[k + 1 :]]

            return of

        branches = [branch(k) for k in range(len(overs))]
        try:
            found, failures = lax.switch(number(chosen), branches, *given)
        except TypeError as error:
            _explain_branches([over.kinds for over in overs], error)
            raise
        note_once([f for of in failures for f in of], [c for of in checks for c in of])
        return found

    found = _recorded("cond", None, None, run, leaves)
    if not under_jax():
        return found
    # As where the values decide: what no branch returned as a tensor is none.
    return _like([any(kinds) for kinds in zip(*[over.returned for over in overs])], found)


def _explain_branches(kinds: Sequence[str], error: Exception) -> None:
    """Raise an error that says what the branches return, where JAX complains that these are different things."""
    for k, kind in enumerate(kinds):
        if kind != kinds[0]:
            names = ["the false branch", "the true branch"]
            names = names if len(kinds) == 2 else [f"branch {i}" for i in range(len(kinds))]
            raise TypeError(
                "branches have to return tensors of the same dtypes and shapes in the same containers, but "
                f"{names[0]} returns {kinds[0]} and {names[k]} returns {kind}"
            ) from error


def checkpoint(fun: Callable[..., Any], **settings: Any) -> Any:
    """Have the backward pass compute a function again as `jax.checkpoint`, as one operator of the graph.

    Args:
        fun: a function over tensors, or a module.
        **settings: `policy`, `prevent_cse` and `static_argnums` of `jax.checkpoint`.

    Returns:
        The function, of tensors or arrays.
    """
    plain = of_jax(jax.checkpoint)(fun, **settings)
    options = dict(settings)
    static = settings.pop("static_argnums", ())
    chosen = tuple(sorted(settings.items()))

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        if MODES.run.at_once and not _has_tensors(args, kwargs):
            return plain(*args, **kwargs)
        if under_jax() or not _ours(args, kwargs):
            return of_jax(jax.checkpoint)(_fresh(fun), **options)(*args, **kwargs)
        of, given, fixed = _without(fun, args, static)
        leaves, spec = _flat((given, kwargs))
        over = _Over(lambda args, kwargs: of(*args, **kwargs), given, kwargs)

        def run(*arrays: Any) -> Any:
            given = jax.tree_util.tree_unflatten(spec, arrays)
            found, failures = jax.checkpoint(_fresh(over.checked), **settings)(*given)
            note_once(failures, over.checks)
            return found

        key = ("checkpoint", spec, tuple(over.tensors), fixed, chosen)
        return _recorded("checkpoint", fun, key, run, leaves)

    return call


def _without(fun: Any, args: Sequence[Any], static: Any) -> tuple[Any, list[Any], Any]:
    """A function of the arguments that are not static, those, and the others with their places and types."""
    if static == ():
        return fun, list(args), ()
    at = [range(len(args))[i] for i in ((static,) if isinstance(static, int) else static)]
    fixed, n = {i: args[i] for i in at}, len(args)

    def of(*given: Any, **kwargs: Any) -> Any:
        others = iter(given)
        return fun(*[fixed[i] if i in fixed else next(others) for i in range(n)], **kwargs)

    given = [x for i, x in enumerate(args) if i not in fixed]
    return of, given, tuple((i, _Kept(x)) for i, x in fixed.items())


# --- for torch's names ----------------------------------------------------------------------------


def _torch_cond(pred: Tensor, true_fn: Any, false_fn: Any, operands: Sequence[Any]) -> Any:
    return cond(pred, true_fn, false_fn, *operands)


def _torch_while(cond_fn: Any, body_fn: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    def body(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return symbolic.next_values(body_fn, values)

    return while_loop(lambda values: cond_fn(*values), body, values)


symbolic.TRACED_CONTROL = (_torch_cond, _torch_while)
