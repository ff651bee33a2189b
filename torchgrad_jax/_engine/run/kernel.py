"""A kernel: a function of arrays, and who computes it.

    x * 2             # four elements: NumPy's, in 1 us, where XLA would take 4 after 50 ms of compiling
    x * 2             # a million: XLA's, compiled when it is first called
    x.reshape(-1)     # a million: nobody's, since the memory is the same in another shape
    x.index_fill_(0, i, 1.0)  # NumPy's, which puts a few elements into the memory of `x`

The steps decide, with their dtypes and shapes: when the kernel is made if they are known (`of_steps`), and else when it
is called for the first time (`traced_later`). `Kernel.by` says who it is, and `Kernel.run` is what to call then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import jax
import numpy as np

from ..._core.arrays import devices, summands, transfer
from ..._core.arrays.out_of_memory import guarded
from ..._core.host import choice, code as host, writes
from ..._core.host.space import silently
from ..._core.jax import jit_caches
from ..._core.jax.caches import KERNELS
from ..._core.jax.own_kernels import jit
from ..._core.jax.private import ArrayImpl, options_of_xla
from .executors import is_here
from .numbers_apart import apart
from .program import Slice

Owner: TypeAlias = Callable[[], Any]
By: TypeAlias = Literal["", "numpy", "look", "put", "xla", "xla alone", "others", "given"]
"""Who computes a kernel.

`numpy`: NumPy code. `look`: nobody, since the results are arguments in other shapes. `put`: NumPy, which puts a few
elements into the first argument. `xla`: XLA, and it may start the kernel together with others. `xla alone`: XLA, with
options of its own, or with other bits inside of a larger program. `others`: several kernels. `given`: nobody, since the
result is one of the arguments. Nothing: that is not known before the first call.
"""
_VALUES = frozenset((np.ndarray, ArrayImpl, bool, int, float, complex))
_NUMBERS = (bool, int, float, complex)
_LEAF = jax.tree.structure(0)
_SIMPLY = ("xla_cpu_use_fusion_emitters", False), ("xla_backend_optimization_level", 1)
"""Options with which XLA compiles a convolution in a third of the time, and it runs as long."""


class Kernel:
    """A function of arrays, and who computes it.

    Args:
        fn: the function; None for one of several kernels.
        alone: the same without rules for derivatives, which is sooner traced. It runs where all arguments have values.
        owner: gives the plan that the kernel belongs to, or None.
        is_forward: whether it is that plan's forward.
        counted: whether it is not, or not any more, to be counted when it is compiled.
    """

    __slots__ = (
        "__weakref__", "_alone", "_counted", "_decide", "_fn", "_is_forward", "_owner", "_traced", "_valued", "by",
        "effects", "put", "run", "shared", "untraced",
    )  # fmt: skip

    def __init__(
        self,
        fn: Callable[..., Any] | None,
        alone: Callable[..., Any] | None = None,
        owner: Owner | None = None,
        *,
        is_forward: bool = False,
        counted: bool = False,
    ) -> None:
        self._fn, self._alone, self._owner, self._is_forward, self._counted = fn, alone, owner, is_forward, counted
        self._traced: Any = None
        self._valued: Any = None
        self.effects = False
        """Whether it does more than to give results, such as to print: then each call of it counts, and their order."""
        self.untraced = False
        """Whether nobody knows yet that it can be traced: that is found out when it is first called."""
        self._decide: Callable[[Kernel, Sequence[Any]], None] | None = None
        """What is left to decide when it is first called, with values."""
        self.by: By = "xla"
        self.run: Callable[..., Any] | None = None
        """What to call, once that is known. Where XLA computes, it does not hold this object: both go at once."""
        self.shared: Callable[..., Any] | None = None
        """An executable of XLA's that kernels share which differ in their numbers alone."""
        self.put: Callable[[np.ndarray, Sequence[Any]], None] | None = None
        """For `put`: puts the elements into memory that may change, given the arguments but the first."""

    @staticmethod
    def of_others(run: Callable[..., Any], by: By = "others") -> Kernel:
        """Return a function that calls several kernels, or none, as if it were one."""
        made = Kernel(None)
        made.by, made.run = by, run
        return made

    @property
    def name(self) -> str:
        """What its function is called, for messages."""
        fn = self._fn or self.run
        return str(getattr(fn, "__name__", "a kernel")).removeprefix("torch.")

    # -- for XLA
    @property
    def traced(self) -> Any:
        """The function under `jax.jit`, as traces and tapes take it; None for several kernels."""
        if self._traced is None and self._fn is not None:
            self._traced = jit(self._fn)
        return self._traced

    @property
    def valued(self) -> Any:
        """The function under `jax.jit` for arguments that all have values."""
        if self._alone is None:
            return self.traced
        if self._valued is None:
            self._valued = jit(self._alone)
        return self._valued

    @property
    def joinable(self) -> Callable[..., Any] | None:
        """What XLA may start together with other kernels; None where NumPy computes, or XLA with other options."""
        return (self.shared or self.valued) if self.by in ("xla", "look") else None

    @property
    def fusable(self) -> Callable[..., Any] | None:
        """What XLA may fuse with other kernels; None for what is several kernels."""
        return None if self.by == "others" else self.valued

    @property
    def in_numpy(self) -> bool:
        """Whether NumPy computes it, or nobody; before the first call that may not be known."""
        return self.by in ("numpy", "look", "put")

    @property
    def is_open(self) -> bool:
        """Whether something about it is found out only by `trace`, or by the first call."""
        return self.untraced or self._decide is not None

    def compiled(self) -> Callable[..., Any]:
        """Return what XLA compiles, as a function that does not hold this object."""
        if self._alone is None:
            return self.traced
        valued, traced = self.valued, self.traced

        def run(*args: Any) -> Any:
            return (valued if have_values(args) else traced)(*args)

        return run

    # -- calls
    def __call__(self, *args: Any) -> Any:
        run = self.run
        return self._first(args) if run is None else run(*args)

    def trace(self, args: Sequence[Any]) -> None:
        """Find out who computes it and what is wrong with it, before it is called. `args` may be shapes."""
        self.effects = bool(self.valued.trace(*args).jaxpr.effects)
        decide = self._decide
        if decide is not None:
            decide(self, args)
            if self._decide is decide:
                self._decide = None
        self.untraced = False

    def _first(self, args: Sequence[Any]) -> Any:
        """Call it before `run` is known, and find that out if the arguments have values."""
        decide = self._decide
        if decide is None:
            return (self.run or self.in_xla)(*args)  # another thread may have decided
        if _any_traced(args):
            with jit_caches.of_all_runs():
                return self.traced(*args)
        decide(self, args)
        if self._decide is decide:
            self._decide = None
        return self(*args)

    def in_xla(self, *args: Any) -> Any:
        """Have XLA compute a call, also where others are NumPy's."""
        if not self._counted and not _any_traced(args):
            self.count()
        if summands.SEVERAL:
            if summands.RUN and self._is_forward and self._owner is not None:
                return summands.RUN[0](self.compiled(), self._owner(), args)
        elif self._counted and self.run is None:
            self.settle(self.compiled())
        return (self.valued if have_values(args) else self.traced)(*args)

    def count(self) -> None:
        """Count the kernel among those that are compiled."""
        self._counted = True
        KERNELS.compiled(None if self._owner is None else self._owner())

    def settle(self, run: Callable[..., Any], by: By | None = None) -> None:
        """Call this from now on, and have the plan of which this is the forward call it."""
        self.by, self.run = by or self.by, run
        plan = self._owner() if self._is_forward and self._owner is not None else None
        if plan is not None and plan.kernel is self and plan.check is None:
            plan.fwd = run


def of_steps(
    fn: Callable[..., Any],
    steps: Slice,
    device: Any,
    owner: Owner,
    *,
    numbers: bool = False,
    form: Any = None,
    is_forward: bool = False,
) -> Kernel:
    """Return a kernel of tensors on `device`, whose steps are known.

    Args:
        fn: the function.
        steps: its steps.
        device: where its tensors are.
        owner: gives the plan that the kernel belongs to.
        numbers: whether there are kernels that differ from this one in their numbers alone.
        form: what computes the same in NumPy, or None; it is used where the jaxpr has NumPy code.
        is_forward: whether it is its plan's forward.
    """
    kernel = Kernel(*_with_rules(fn, steps), owner, is_forward=is_forward)
    kernel.effects = bool(steps.program.effects)
    if device.type != "cpu":
        _elsewhere(kernel, device)
        return kernel
    found = steps.in_numpy(kernel.in_xla, form)
    if found is not None:
        kernel.settle(found, "numpy")
        return kernel
    closed = steps.closed()
    tree = _LEAF if steps.single else jax.tree.structure([0] * len(closed.out_avals))
    if not _look(kernel, closed, steps.single):
        _in_xla(kernel, closed, tree, numbers, kernel._alone or kernel._fn)
    return kernel


def traced_later(
    fn: Callable[..., Any],
    device: Any,
    owner: Owner | None = None,
    *,
    alone: Callable[..., Any] | None = None,
    limit: float = choice.LIMIT,
    numbers: bool = False,
    is_forward: bool = False,
) -> Kernel:
    """Return a kernel that is traced when it is first called; its arguments and results may be trees."""
    kernel = Kernel(fn, alone, owner, is_forward=is_forward)
    kernel.untraced = True
    if device.type != "cpu":
        _elsewhere(kernel, device)
    else:
        kernel.by, kernel._decide = "", partial(_decide_now, limit=limit, numbers=numbers)
    return kernel


def put_elements(kernel: Kernel, closed: Any) -> None:
    """Have NumPy put elements into a large first argument, which it copies where that may not change, if it can."""
    if not choice.is_possible() or (parts := writes.in_place(closed)) is None:
        return
    steps, put = parts[0], silently(parts[1])
    first = Kernel(_as_function(steps))
    values_of = host.program(steps, first.in_xla, False) or first

    def into(memory: np.ndarray, xs: Sequence[Any]) -> None:
        put(memory, *map(np.asarray, values_of(*xs)))

    def run(array: Any, *xs: Any) -> Any:
        if jax.config.jax_debug_nans or not all(map(_is_readable, (array, *xs))):
            return kernel.in_xla(array, *xs)
        memory = transfer.aligned(array.shape, array.dtype)
        memory[...] = np.asarray(array)
        into(memory, xs)
        return transfer.put(memory, devices.CPU)

    kernel.put, kernel._decide = into, None
    kernel.settle(run, "put")


def have_values(args: Any) -> bool:
    """Return whether all arguments are arrays with values, or numbers."""
    return _VALUES.issuperset(map(type, args))


# --- the ways ---------------------------------------------------------------------------------------------------


def _with_rules(fn: Callable[..., Any], steps: Slice) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """Return a function whose steps are known as one that JAX differentiates, and one without rules if it has some."""
    if steps.by_shape:
        return fn, None

    def run(*args: Any) -> Any:
        out = steps.closed().run(*args)
        return out[0] if steps.single else out

    run.__name__ = run.__qualname__ = fn.__name__
    return (run, None) if steps.exact else (fn, run)


def _elsewhere(kernel: Kernel, device: Any) -> None:
    """Have XLA compute on an accelerator; a kernel of the meta device is called where its steps are written down."""
    if device.type == "meta":
        kernel._counted = True
    else:
        kernel.count()
        kernel.settle(guarded(kernel.compiled(), device))


def _decide_now(kernel: Kernel, args: Sequence[Any], limit: float, numbers: bool) -> None:
    """Trace a kernel, and decide."""
    traced = kernel.valued.trace(*args)
    closed, tree = traced.jaxpr, traced.out_tree
    of_arrays = all(x is not None and x.__class__ not in (list, tuple) for x in args)
    single = of_arrays and tree == _LEAF
    in_xla = kernel.in_xla if single else _of_leaves(kernel.in_xla, traced.in_tree)
    of_lists = single or (of_arrays and tree == jax.tree.structure([0] * tree.num_leaves))
    found = host.program(closed, in_xla, single, limit)
    if found is not None:
        kernel.settle(found if of_lists else _of_trees(found, of_arrays, tree), "numpy")
    elif not _look(kernel, closed, single, in_xla, lambda run: run if of_lists else _of_trees(run, of_arrays, tree)):
        _in_xla(kernel, closed, tree, numbers, _as_function(closed))


def _look(
    kernel: Kernel, closed: Any, single: bool, in_xla: Any = None, shaped: Callable[[Any], Any] = lambda run: run
) -> bool:
    """Have a kernel that only gives arguments in other shapes copy nothing; return whether it is one."""
    at = choice.looked_at(closed.jaxpr) if choice.is_possible() else None
    if at is None:
        return False
    views, in_xla = [*zip(at, [a.shape for a in closed.out_avals])], in_xla or kernel.in_xla

    def run(*xs: Any) -> Any:
        if not all(map(is_here, xs)):
            return in_xla(*xs)
        outs = [xs[i] if xs[i].shape == shape else _reshaped(xs[i], shape) for i, shape in views]
        return outs[0] if single else outs

    kernel.settle(shaped(run), "look")
    return True


def _in_xla(kernel: Kernel, closed: Any, tree: Any, numbers: bool, of_leaves: Any) -> None:
    """Have XLA compute a kernel with these steps; `of_leaves` is its function of the leaves of its arguments."""
    kernel.by = "xla"
    if choice.convolves(closed.jaxpr):
        kernel.by, kernel._decide = "xla alone", partial(_convolve, of_leaves=of_leaves, tree=tree)
    elif choice.has_convolutions(closed.jaxpr):
        kernel.by = "xla alone"
    elif numbers:
        kernel._decide = partial(_share, closed=closed, tree=tree)


def _convolve(kernel: Kernel, args: Sequence[Any], of_leaves: Callable[..., Any], tree: Any) -> None:
    """Compile convolutions of which XLA need not make more than it is told.

    Inside of a trace the kernel is called as it is, since options are those of a whole program.
    """

    def flat(*leaves: Any) -> list[Any]:
        return jax.tree.leaves(of_leaves(*leaves))

    flat.__name__ = flat.__qualname__ = getattr(kernel._fn, "__name__", "convolutions")
    compiled = jit(flat, compiler_options=options_of_xla(*_SIMPLY))
    kernel.count()
    kernel.settle(_of_values(compiled, kernel.traced, tree))


def _share(kernel: Kernel, args: Sequence[Any], closed: Any, tree: Any) -> None:
    """Share one executable with all kernels that differ from this one in their numbers alone."""
    shared = apart(closed)
    if shared is not None:
        kernel.shared = shared
        kernel.settle(_of_values(shared, kernel.traced, tree))


def _of_values(run: Callable[..., Any], traced: Any, tree: Any) -> Callable[..., Any]:
    """Return a function that calls `run` on the leaves of arguments that have values; `traced` takes others."""

    def call(*args: Any) -> Any:
        leaves = jax.tree.leaves(args)
        if any(isinstance(x, jax.core.Tracer) for x in leaves):
            return traced(*args)
        return jax.tree.unflatten(tree, run(*leaves))

    return call


def _of_leaves(run: Callable[..., Any], tree: Any) -> Callable[..., Any]:
    """Return a function of trees as one of their leaves, which gives a list of the leaves of its results."""

    def flat(*leaves: Any) -> Any:
        args, _ = jax.tree.unflatten(tree, leaves)
        return jax.tree.leaves(run(*args))

    return flat


def _of_trees(run: Callable[..., Any], of_arrays: bool, tree: Any) -> Callable[..., Any]:
    """Return a function of leaves as one with the arguments and results of the function that it was made from."""

    def call(*args: Any) -> Any:
        return jax.tree.unflatten(tree, run(*(args if of_arrays else jax.tree.leaves(args))))

    return call


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return transfer.put(np.asarray(x).reshape(shape), devices.CPU)


def _is_readable(x: Any) -> bool:
    return is_here(x) or x.__class__ in _NUMBERS


def _any_traced(args: Any) -> bool:
    return any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(args))


def _as_function(closed: Any) -> Callable[..., Any]:
    """A jaxpr as a function of its arguments."""
    from jax.extend.core import jaxpr_as_fun  # which takes a while to import

    return jaxpr_as_fun(closed)
