"""Both directions of interop with JAX: its functions as operators, tensor code as its functions."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.arrays import devices, dtypes, tree
from ..._core.arrays.meta import Meta, meta
from ..._core.errors.checks import Check, is_traced
from ..._core.errors.messages import user_line
from ..._core.jax import jit_caches
from ..._core.jax.caches import CALLS
from ..._core.jax.host_rules import with_rules_of_host
from ..._core.jax.own_kernels import jit
from ..._core.jax.private import take_current_trace
from ..._core.jax.running_transforms import running
from ..._core.jax.x64 import IS_GUEST, as_host, narrowed_tree, with_x64
from ..._core.random.keys import checked, drawing_from, is_key, words_of
from ..._core.state import MODES, recording
from ..._engine.graph.history import edge_of, grad_fn_of, requires_grad_of
from ..._engine.graph.node import accumulator
from ..._engine.graph.record import PLAIN, apply, zeros_for
from ..._engine.memory.strided import read
from ..._engine.memory.tape import aval_of
from ..._engine.memory.tensor import Tensor, make, wrap_beside
from ..._engine.modes.begin import trace
from ..._engine.modes.belonging import follow_jax
from ..._engine.modes.runs import TracedRun
from ..._engine.modes.uses import Uses
from ..._engine.modes.written_steps import JaxprSteps
from ..._engine.overrides import asking
from ..._engine.passes.custom import Error, PyNode
from ..._engine.passes.walk import run as run_pass
from ..._engine.run.trace import Call
from ..._engine.tensor.values import sealed
from ..compile.arguments.array_arguments import tensor_for
from ..compile.function_modes import autocast_off, under_autocast, under_modes
from ..compile.watch.guards import PythonGuards
from ..compile.watch.observer import CALLER, Observer, of_this_thread
from . import trees as trees
from .inner_checks import Frames, OperatorChecks, results_of_checks

# --- JAX functions as operators -------------------------------------------------------------------


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


class _Kept:
    """Something that is the same for every call: compared by identity unless it is simple."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        try:
            return hash((self.value.__class__, self.value))
        except TypeError:
            return id(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Kept) or self.value.__class__ is not other.value.__class__:
            return False
        if self.value is other.value:
            return True
        simple = isinstance(self.value, int | float | complex | str | bool | bytes | tuple)
        # A zero has a sign, and an entry of a tuple may be a number of another type.
        return simple and self.value == other.value and repr(self.value) == repr(other.value)


def from_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """Make a JAX function an operator on tensors, differentiable as often as JAX can.

    Tensors that it closes over (or finds in globals, attributes and modules) are inputs of it like its arguments:
    gradients go to them, and each call reads what they hold then.

    Args:
        f: takes and returns arrays, in any pytrees. Python values among the arguments are passed on as they are,
            and each combination of them is traced once.

    Returns:
        The same function of tensors (and arrays); it is recorded like any other operator.

    Example:
        >>> import jax.numpy as jnp
        >>> import torchgrad_jax as torch
        >>> softplus = torch.from_jax(lambda x: jnp.logaddexp(x, 0.0))
        >>> x = torch.zeros(2, requires_grad=True)
        >>> softplus(x).sum().backward()
        >>> x.grad
        tensor([0.5000, 0.5000])
    """
    return operator_of(f, as_host(f))


def operator_of(f: Callable[..., Any], run: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function of arrays as an operator on tensors; `run` is what is called, if it is JAX code of the user's."""
    run = run or f
    operators = CALLS.cache()
    simple = CALLS.cache()
    """By the metas of arguments that are all tensors: operators that depend on nothing else."""
    known = simple.young

    @functools.wraps(f)
    def operator(*args: Any, **kwargs: Any) -> Any:
        if MODES.function_modes:
            return under_these_modes(args, kwargs)
        metas = tuple([x._m if x.__class__ in PLAIN else None for x in args])
        quick = None if kwargs else known.get(metas)
        if quick is not None and quick.reads_the_same():
            if MODES.run.may_write_outside:
                quick.tell_what_it_knows()
            return quick.of_tensors(args)
        flat, treedef = jax.tree_util.tree_flatten((args, kwargs), is_leaf=_is_tensor)
        dynamic = [i for i, x in enumerate(flat) if isinstance(x, Tensor | jax.Array | np.ndarray)]
        words = {i: str(jax.random.key_impl(flat[i])) for i in dynamic if is_key(flat[i])}
        kept = tuple(words.get(i) if i in dynamic else _Kept(x) for i, x in enumerate(flat))
        given = [flat[i] for i in dynamic]
        leaves = [x if isinstance(x, Tensor) else _followed(tensor_for(x, given)) for x in given]
        key = (treedef, kept, tuple(dynamic), tuple(t._m for t in leaves))
        found = operators.get(key)
        if found is None:
            found = operators.put(key, _Operator(f, run, treedef, dynamic, kept, leaves))
        elif not found.holds():
            found = _Operator(f, run, treedef, dynamic, kept, leaves)
            operators.replace(key, found)
        found.tell_what_it_knows()
        results = found(leaves)
        if found.is_new:
            found.has_been_called()
            if None not in metas and not kwargs and found.is_simple():
                simple.put(metas, found)
        return results

    under_autocasts: dict[Any, Callable[..., Any]] = {}
    """Operators of the function as it runs under autocast, by what autocast casts."""

    def under_these_modes(args: Any, kwargs: Any) -> Any:
        with autocast_off() as around:
            if around is None:  # a mode of the user may do something else in each call
                modes = MODES.function_modes
                with asking.only_modes(()):
                    return from_jax(under_modes(f, modes))(*args, **kwargs)
            if around not in under_autocasts:
                under_autocasts[around] = from_jax(under_autocast(f, *around))
            return under_autocasts[around](*args, **kwargs)

    return operator


def _followed(t: Tensor) -> Tensor:
    """A tensor of an array that a function around may be differentiated by."""
    follow_jax(t)
    return t


def _first_results(f: Callable[..., Any], n: int) -> Callable[..., Any]:
    """A function that gives so many of the results of another one."""
    return lambda *args: f(*args)[:n]


_LEAF = jax.tree.structure(0)


class _Operator:
    """A function of JAX's for arguments of certain shapes, as an operator.

    Tensors that the function reads besides its arguments are further inputs of it: they get gradients, and what is
    read is what they hold at each call. Where Python was told their values (`item()`, `bool()`, `numpy()`), the
    operator is good for these values.
    """

    __slots__ = (
        "call", "captured", "checks", "is_new", "keys", "lasts", "looked", "metas", "out_tree", "shown", "single",
        "guards",
    )  # fmt: skip

    def __init__(
        self, f: Any, called: Any, treedef: Any, dynamic: Sequence[int], kept: Any, leaves: Sequence[Tensor]
    ) -> None:
        self.out_tree: Any = None
        plain = True

        def run(arrays: Sequence[Any]) -> list[Any]:
            nonlocal plain
            values = [k.value if isinstance(k, _Kept) else k for k in kept]
            for i, x in zip(dynamic, arrays):
                impl = values[i]
                values[i] = x if impl is None else jax.random.wrap_key_data(x, impl=impl)
            args, kwargs = jax.tree_util.tree_unflatten(treedef, values)
            found = called(*args, **kwargs)
            results, self.out_tree = jax.tree_util.tree_flatten(found, is_leaf=_is_tensor)
            plain = not any(map(_is_tensor, results))
            self.keys = {i: str(jax.random.key_impl(r)) for i, r in enumerate(results) if is_key(r)}
            arrays = [_array_of(r) for r in results]
            if MODES.run.uses is not reading:
                return arrays
            noted[:] = reading.check_frames.frames[-1].noted
            return arrays + results_of_checks(noted)

        noted: list[Any] = []
        reading = FromJax()
        observer = Observer(refuses=False)
        with observer:
            for x in (f, *(k.value for k in kept if isinstance(k, _Kept))):
                observer.reads.begin_at(CALLER, x)
            steps = _recorded(run, [aval_of(t._m) for t in leaves], reading)
            self.guards = PythonGuards.of(observer.reads, list(observer.ran.values()))
        n_captured = len(steps.captured) - len(steps.jaxpr.constvars)
        self.captured: list[Tensor] = []
        self.looked, self.shown = reading.looked, reading.shown
        self.is_new = True
        """Whether it has yet to be called."""
        self.lasts = all(t._st.born < steps.birth for t, _ in self.looked)
        self.checks: OperatorChecks | None = None
        consts = steps.captured[n_captured:]
        of_run_around = any(is_traced(t._st.array) for t in consts)
        from .forward_mode import has_custom_vjp, of_custom_vjp  # see `tests/test_import.py`

        has_rules, of_host = has_custom_vjp(steps.jaxpr), called is not f
        if of_host:
            steps.jaxpr = with_rules_of_host(steps.jaxpr)
        # Otherwise JAX sees the function itself.
        if n_captured or not plain or noted or any(steps.keys) or of_run_around or (of_host and has_rules):
            self._close_over(steps, n_captured, leaves)
            pure = steps.function()
        else:
            pure = lambda *leaves: run(leaves)  # noqa: E731
        if noted:
            n = self.out_tree.num_leaves
            self.checks = OperatorChecks(noted, n, pure)
            pure = _first_results(pure, n + 1)
        if has_rules:
            pure = of_custom_vjp(pure, steps.jaxpr.effects)
        self.single = self.out_tree == _LEAF and not self.keys and not noted
        if self.single:
            self.call = _call_of(f, lambda leaves: pure(*leaves)[0])
        else:
            self.call = _call_of(f, lambda leaves: tuple(pure(*leaves)))
        self.metas = [t._m for t in self.captured]

    def _close_over(self, steps: JaxprSteps, n_captured: int, leaves: Sequence[Tensor]) -> None:
        self.captured = steps.captured
        if leaves:
            there = leaves[0]._m.device
            for i, t in enumerate(self.captured[n_captured:], n_captured):
                self.captured[i] = wrap_beside(t._st.array, there)
        # What the function computed of tensors from outside is computed again by each call.
        self.lasts &= all(
            t._al is None and t._fn is None and t._st.born < steps.birth for t in self.captured[:n_captured]
        ) and not any(is_traced(t._st.array) for t in self.captured[n_captured:])

    def has_been_called(self) -> None:
        """What the function reads of Python besides its arrays is compared with what the first call has left."""
        self.guards.refresh()
        self.is_new = False

    def holds(self) -> bool:
        """Return whether the function would read the same tensors and Python values again."""
        if (
            self.is_new
            or not self.lasts
            or any(t._st.array is not array for t, array in self.looked)
            or any(t() is not None and t()._st is not st for t, st in self.shown)
        ):
            return False
        same = all(t._m is m for t, m in zip(self.captured, self.metas))
        return same and self.reads_the_same()

    def reads_the_same(self) -> bool:
        """Return whether what the function reads of Python besides its arrays is what it was."""
        return self.guards.describe_change() is None

    def is_simple(self) -> bool:
        """Return whether it reads no tensors but its arguments, and gives one tensor or a plain tuple of them."""
        form = jax.tree.unflatten(self.out_tree, range(self.out_tree.num_leaves))
        flat = form.__class__ is tuple and form == tuple(range(len(form)))
        reads_more = self.captured or self.looked or self.keys
        return not reads_more and self.checks is None and self.lasts and (flat or self.single)

    def of_tensors(self, leaves: Sequence[Tensor]) -> Any:
        """Of plain tensors, for an operator that is simple."""
        before, MODES.sealed = MODES.sealed, True
        try:
            results = apply(self.call, leaves)
        finally:
            MODES.sealed = before
        return results if self.single else tuple(results)

    def tell_what_it_knows(self) -> None:
        """Let a run around this call, such as that of `compile`, know which values it depends on."""
        if (observer := of_this_thread()) is not None:
            observer.reads.absorbed[id(self.guards)] = self.guards
        for t, _ in self.looked:
            if not MODES.run.inside(t):
                MODES.run.uses.look_at_values(t)
        for ref, _ in self.shown:
            if (shown := ref()) is not None and not MODES.run.inside(shown):
                MODES.run.uses.rely_on_memory(shown)

    def __call__(self, leaves: Sequence[Tensor]) -> Any:
        given = [*leaves, *self.captured]
        with sealed():
            found = apply(self.call, given)
        if self.single:
            return found
        results = list(found)
        if self.checks is not None:
            self.checks.look(results.pop(), given)
        for i, impl in self.keys.items():
            results[i] = jax.random.wrap_key_data(read(results[i]), impl=impl)
        return jax.tree_util.tree_unflatten(self.out_tree, results)


class FromJax(Uses):
    """What a function given to `from_jax` depends on: the values of outside tensors that Python was told."""

    __slots__ = ("check_frames", "looked", "run", "shown")

    def __init__(self) -> None:
        self.run = TracedRun(may_check_later=True, uses=self)
        self.looked: list[tuple[Tensor, Any]] = []
        """Tensors, and the arrays that they held."""
        self.shown: list[tuple[Any, Any]] = []
        """Tensors from outside (weakly) of which others were made on the same storage, and the storage of each."""
        self.check_frames = Frames()

    def alias_born(self, t: Tensor, src: Tensor) -> None:
        """A tensor was made on the storage that `src` has now."""
        self.rely_on_memory(src)

    def rely_on_memory(self, t: Tensor) -> None:
        """Remember which storage it has."""
        if not self.run.inside(t):
            self.shown.append((weakref.ref(t), t._st))

    def check(self, arrays: Sequence[Any], check: Check) -> None:
        """Let the operator say whether a check of these arrays fails."""
        self.check_frames.note(arrays, check)

    def look_at_values(self, t: Tensor) -> None:
        """Remember them; an error inside of a function that JAX traces once and keeps, as `jax.jit` does."""
        with take_current_trace() as current:
            if type(current).__name__ == "DynamicJaxprTrace" and current not in self.run.traces:
                raise RuntimeError(
                    "from_jax: the values of a tensor are needed inside of a function that JAX traces once (jax.jit, "
                    "jax.lax.scan, ...), which would keep them when the tensor changes. Ask for them outside of it, or "
                    f"compute with the tensor itself.{user_line()}"
                )
        self.looked.append((t, t._st.array))


def _recorded(run: Callable[[list[Any]], list[Any]], avals: Sequence[Any], reading: FromJax) -> JaxprSteps:
    """The steps of a function, as they are where gradients are wanted."""
    with recording(), jit_caches.of_this_run():
        return trace(lambda xs: _in_frame(run, xs, reading), avals, reading.run)


def _in_frame(run: Callable[[list[Any]], list[Any]], xs: list[Any], reading: FromJax) -> list[Any]:
    with reading.check_frames.frame():
        return run(xs)


def _array_of(result: Any) -> Any:
    if not isinstance(result, Tensor):
        return words_of(result)
    return MODES.run.array_of(result)


def _call_of(f: Any, run: Callable[[Sequence[Any]], Any]) -> Call:
    name = getattr(f, "__name__", "function")
    label = "".join(p[:1].upper() + p[1:] for p in name.strip("<>").split("_"))
    return Call(
        name,
        run,
        node_name=f"{label}Backward",
        edges=lambda keys: tuple(i for i, k in enumerate(keys) if isinstance(k, Meta) and k.dtype.category >= 2),
    )


# --- tensor code as JAX functions -----------------------------------------------------------------


def as_jax(f: Callable[..., Any], rngs: bool | None = True) -> Callable[..., Any]:
    """Make a function over tensors a pure JAX function over arrays, in any pytrees.

    Tensors from outside are constants of it. Gradients stop at `detach()` and under `no_grad`, as in torch. With
    `rngs`, the function takes an argument of that name: the key that its random numbers come from.
    """

    takes_rngs = _takes_rngs(f) if rngs else None

    def run(*args: Any, **kwargs: Any) -> Any:
        key = kwargs.pop("rngs", None) if takes_rngs is False else None
        if key is not None:
            return seeded(checked(key), *args, **kwargs)
        flat, treedef = jax.tree_util.tree_flatten((args, kwargs))
        at = [i for i, x in enumerate(flat) if hasattr(x, "shape") and hasattr(x, "dtype")]
        trees: list[Any] = []

        def over(inputs: list[Tensor]) -> list[Any]:
            values = list(flat)
            for i, t in zip(at, inputs):
                values[i] = t
                if is_key(flat[i]):
                    values[i] = jax.random.wrap_key_data(t._st.array, impl=jax.random.key_impl(flat[i]))
            given, named = jax.tree_util.tree_unflatten(treedef, values)
            out, out_tree = jax.tree_util.tree_flatten(f(*given, **named), is_leaf=_is_tensor)
            trees[:] = [out_tree]
            return out

        found = over_arrays(over, [words_of(flat[i]) for i in at])
        return jax.tree_util.tree_unflatten(trees[0], found)

    run = with_x64(run)

    @functools.wraps(f)
    def pure(*args: Any, **kwargs: Any) -> Any:
        given, named = narrowed_tree((args, kwargs))
        return narrowed_tree(run(*given, **named))

    def with_key(key: Any, *args: Any, **kwargs: Any) -> Any:
        with drawing_from(key):
            return f(*args, **kwargs)

    seeded = pure if takes_rngs is None else as_jax(with_key, None)
    return pure


def _takes_rngs(f: Any) -> bool:
    try:
        return "rngs" in inspect.signature(f).parameters
    except (TypeError, ValueError):
        return False


def over_arrays(f: Callable[[list[Tensor]], list[Any]], arrays: Sequence[Any]) -> list[Any]:
    """Run a function from tensors to tensors (and numbers) on arrays, such that JAX's derivatives are torch's."""
    plain = True

    def run(tracers: list[Any]) -> list[Any]:
        nonlocal plain
        inputs = [_input(x) for x in tracers]
        out = f(inputs)
        plain = not _has_own_gradients([*inputs, *[t for t in out if isinstance(t, Tensor)]])
        current = MODES.run
        return [current.array_of(t) if isinstance(t, Tensor) else jnp.asarray(t) for t in out]

    avals = [jax.typeof(a).update(weak_type=False) for a in arrays]  # with how they are sharded
    steps = trace(run, avals)
    captured = [read(t) for t in steps.captured]
    if plain:
        return _as_step(steps.function(), is_of_kernels=True)(*arrays, *captured)
    if any(isinstance(a, jax.core.Tracer) for a in captured):
        raise NotImplementedError(
            "to_jax: a function with hooks or custom Functions inside reads tensors from outside that JAX traces; "
            "pass them as arguments"
        )
    return _as_step(_by_backward(f, steps, captured), is_of_kernels=False)(*arrays)


def _as_step(fn: Callable[..., list[Any]], is_of_kernels: bool) -> Callable[..., list[Any]]:
    """A function as one step of what JAX traces around it, if that may be lowered or differentiated with 32 bits.

    A kernel of this package has 64-bit types, no matter what calls, differentiates or lowers it. A function whose steps
    are kernels is compiled again only where JAX compiles it anyway: `jax.grad` outside of `jax.jit` uses those kernels.
    """
    if not IS_GUEST:
        return fn
    traces = (not is_of_kernels or type(trace).__name__ == "DynamicJaxprTrace" for trace in running())
    return jit(fn) if any(traces) else fn


def _input(array: Any) -> Tensor:
    t = make(array, meta(tuple(array.shape), dtypes.from_np(array.dtype), devices.default_device()))
    t._rg = t._m.dtype.category >= dtypes.FLOATING
    return t


def _has_own_gradients(tensors: Sequence[Tensor]) -> bool:
    """Return whether hooks or custom Functions say what the gradients of some tensors are, or that there are none."""
    if any(t._x is not None and (t._x.hooks or t._x.post_acc) for t in tensors):
        return True
    return any(
        isinstance(node, PyNode | Error) or (node.extras is not None and node.extras.observed)
        for node in _nodes_behind(tensors)
    )


def _nodes_behind(tensors: Sequence[Tensor]) -> Iterator[Any]:
    stack, seen = [grad_fn_of(t) for t in tensors], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        stack += [edge[0] for edge in node.edges if edge is not None]


def _by_backward(f: Any, steps: JaxprSteps, captured: Sequence[Any]) -> Callable[..., list[Any]]:
    """A function with the gradients that the tensor code's own backward pass gives; to any order."""
    from .forward_mode import is_inexact, with_tangents

    def back(arrays: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        wanted = [i for i, a in enumerate(arrays) if is_inexact(a)]

        def gradients(inputs: list[Tensor]) -> list[Any]:
            inputs, slopes = inputs[: len(arrays)], inputs[len(arrays) :]
            with recording():
                results = [t for t in f(inputs) if is_inexact(_aval_of_result(t))]
            roots = [(t, g) for t, g in zip(results, slopes) if isinstance(t, Tensor) and requires_grad_of(t)]
            # A pass only goes where its targets are; it has to meet the nodes that refuse to be differentiated.
            refusing = [
                edge
                for node in _nodes_behind([t for t, _ in roots])
                if isinstance(node, Error)
                for edge in node.edges
                if edge is not None
            ]
            found = run_pass(
                [edge_of(t) for t, _ in roots],  # type: ignore[misc] - those that require grad have one
                [g for _, g in roots],
                keep=True,
                create=True,
                targets=[*[(accumulator(inputs[i]), 0) for i in wanted], *refusing],
                accumulate=False,
            )
            return [zeros_for(inputs[i]._m) if g is None else g for i, g in zip(wanted, found)]

        return over_arrays(gradients, [*arrays, *cotangents])

    forward = steps.function()
    return with_tangents(lambda *arrays: forward(*arrays, *captured), back, steps.jaxpr.effects)


def _aval_of_result(result: Any) -> Any:
    return aval_of(result._m) if isinstance(result, Tensor) else jnp.asarray(result)


def apply_traced(f: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call `f` with tensors that JAX traces among its arguments, so that its own gradients are JAX's as well."""
    at = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
    specs: list[Any] = []

    def over(inputs: list[Tensor]) -> list[Any]:
        given = list(args)
        for i, t in zip(at, inputs):
            given[i] = t
        flat, spec = tree.flatten(f(*given))
        specs[:] = [spec, [None if isinstance(x, Tensor) else x for x in flat]]
        return [x for x in flat if isinstance(x, Tensor)]

    operator = _call_of(f, lambda leaves: tuple(over_arrays(over, leaves)))
    found = iter(apply(operator, [args[i] for i in at]))
    spec, others = specs
    leaves = [next(found) if x is None else x for x in others]
    return tree.unflatten(leaves, spec)
