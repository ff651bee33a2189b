"""Who runs a kernel: NumPy, where the arrays are small and on the CPU, or XLA.

`x * 2` on four elements takes NumPy 1 us and XLA 4, after 50 ms of compiling. On a million it is the other way round.
`choose` decides for a kernel whose jaxpr is known, and `choose_later` when it is called for the first time. Reading a
view of a small array is NumPy's, too: it looks at the memory in another way and copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from ..._core.arrays import devices, summands, sums, transfer
from ..._core.arrays.meta import Meta
from ..._core.arrays.out_of_memory import guarded
from ..._core.host import choice, code as host, writes
from ..._core.jax import jit_caches
from ..._core.jax.caches import KERNELS
from ..._core.jax.own_kernels import jit
from ..._core.jax.private import ArrayImpl, options_of_xla
from .numbers_apart import apart
from .program import Slice

Settle: TypeAlias = Callable[[Any], None]
Owner: TypeAlias = Callable[[], Any]


class Jitted:
    """A function under `jax.jit`, which is asked for when somebody calls it: most kernels are NumPy's.

    Args:
        fn: the function.
        alone: the same without rules for derivatives, which is sooner traced. It runs where all arguments have values.
    """

    __slots__ = ("__weakref__", "_alone", "_fn", "_made", "_made_alone", "plan")

    def __init__(self, fn: Callable[..., Any], alone: Callable[..., Any] | None = None) -> None:
        self._fn, self._alone = fn, alone
        self.plan: Owner | None = None
        """Gives the plan of which this is the forward."""
        self._made: Any = None
        self._made_alone: Any = None

    @property
    def made(self) -> Any:
        """The compiled function."""
        if self._made is None:
            self._made = jit(self._fn)
        return self._made

    @property
    def alone(self) -> Any:
        """What runs where all arguments have values."""
        if self._alone is None:
            return self.made
        if self._made_alone is None:
            self._made_alone = jit(self._alone)
        return self._made_alone

    @property
    def settled(self) -> Any:
        """What to call from now on."""
        return self.made if self._alone is None else self

    def __call__(self, *args: Any) -> Any:
        return (self.alone if _VALUES.issuperset(map(type, args)) else self.made)(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)


_VALUES = frozenset((np.ndarray, ArrayImpl, bool, int, float, complex))


def jitted(fn: Callable[..., Any], steps: Slice | None) -> Jitted:
    """A kernel whose steps may be known."""
    if steps is None or steps.by_shape:
        return Jitted(fn)

    def run(*args: Any) -> Any:
        out = steps.closed().run(*args)
        return out[0] if steps.single else out

    run.__name__ = run.__qualname__ = fn.__name__
    return Jitted(run) if steps.exact else Jitted(fn, run)


class Compiled:
    """A kernel that counts itself when it is called for the first time, since that compiles it."""

    __slots__ = ("_counted", "_owner", "_settle", "kernel")

    def __init__(self, kernel: Any, settle: Settle | None, owner: Owner | None) -> None:
        self.kernel, self._settle, self._owner, self._counted = kernel, settle, owner, False

    def __call__(self, *args: Any) -> Any:
        if not self._counted and not _any_traced(args):
            self._counted = True
            KERNELS.compiled(None if self._owner is None else self._owner())
            if self._settle is not None and not summands.SEVERAL:
                self._settle(getattr(self.kernel, "settled", self.kernel))
        several = summands.SEVERAL and summands.RUN
        if several and self.kernel.__class__ is Jitted and self.kernel.plan is not None:
            return summands.RUN[0](self.kernel, self.kernel.plan(), args)
        return self.kernel(*args)

    def check(self, xs: Any) -> None:
        """A kernel without checks: there is nothing to do before a tape writes it down as a step."""


class CompiledOnce(Compiled):
    """A compiled kernel that shares one executable with all kernels that differ from it in their numbers alone."""

    __slots__ = ("_closed", "_out_tree", "_shared")

    def __init__(self, kernel: Any, settle: Settle | None, owner: Owner | None, closed: Any, out_tree: Any) -> None:
        super().__init__(kernel, settle, owner)
        self._closed, self._out_tree, self._shared = closed, out_tree, None

    def __call__(self, *args: Any) -> Any:
        leaves = jax.tree.leaves(args)
        traced = any(isinstance(x, jax.core.Tracer) for x in leaves)
        if self._closed is not None and not traced:
            self._shared, self._closed = apart(self._closed), None
        if self._shared is None or traced:
            return super().__call__(*args)
        return jax.tree.unflatten(self._out_tree, self._shared(*leaves))


class ByItself(Compiled):
    """A compiled kernel to which XLA gives other bits inside of a larger program: one with a convolution."""

    __slots__ = ()

    def __init__(self, kernel: Any, owner: Owner | None) -> None:
        super().__init__(kernel, None, owner)


_SIMPLY = ("xla_cpu_use_fusion_emitters", False), ("xla_backend_optimization_level", 1)
"""Options with which XLA compiles a convolution in a third of the time, and it runs as long."""


class OfConvolutions(Compiled):
    """A compiled kernel with convolutions, of which XLA need not make more than it is told.

    Inside of a trace it is the kernel itself, since options are those of a whole program.
    """

    __slots__ = ("_flat", "_out_tree")

    def __init__(self, kernel: Any, owner: Owner | None, fn: Callable[..., Any], out_tree: Any) -> None:
        super().__init__(kernel, None, owner)
        self._out_tree = out_tree

        def flat(*leaves: Any) -> list[Any]:
            return jax.tree.leaves(fn(*leaves))

        flat.__name__ = flat.__qualname__ = getattr(kernel, "__name__", "convolutions")
        self._flat = jit(flat, compiler_options=options_of_xla(*_SIMPLY))

    def __call__(self, *args: Any) -> Any:
        leaves = jax.tree.leaves(args)
        if any(isinstance(x, jax.core.Tracer) for x in leaves):
            return super().__call__(*args)
        if not self._counted:
            self._counted = True
            KERNELS.compiled(None if self._owner is None else self._owner())
        return jax.tree.unflatten(self._out_tree, self._flat(*leaves))


def choose(
    kernel: Any, steps: Slice, device: Any, settle: Settle, owner: Owner | None, numbers: bool, form: Any
) -> Any:
    """What to call for a compiled function of tensors on `device`, whose steps are known.

    Args:
        kernel: the function.
        steps: its steps.
        device: where its tensors are.
        settle: is given `kernel` when that is what to call from now on.
        owner: gives the entry of a cache that the kernel belongs to, or None.
        numbers: whether there are kernels that differ from this one in their numbers alone.
        form: what computes the same in NumPy, or None; it is used where the jaxpr has NumPy code.
    """
    if device.type != "cpu":
        return _elsewhere(kernel, device, owner)
    found = steps.in_numpy(Compiled(kernel, None, owner), form)
    if found is not None:
        return found
    closed, single = steps.closed(), steps.single
    if (look := looking(closed, kernel, single)) is not None:
        return look
    tree = _LEAF if single else jax.tree.structure([0] * len(closed.out_avals))
    if choice.convolves(closed.jaxpr):
        return OfConvolutions(kernel, owner, kernel.alone.__wrapped__, tree)
    if choice.has_convolutions(closed.jaxpr):
        return ByItself(kernel, owner)
    if not numbers:
        return Compiled(kernel, settle, owner)
    return CompiledOnce(kernel, settle, owner, closed, tree)


def choose_later(
    kernel: Any,
    device: Any,
    settle: Settle | None = None,
    owner: Owner | None = None,
    limit: float = choice.LIMIT,
    numbers: bool = False,
) -> Any:
    """`choose` for a kernel that is traced when it is first called; its arguments and results may be trees."""
    if device.type != "cpu":
        return _elsewhere(kernel, device, owner)
    return Undecided(kernel, settle, owner, limit, numbers)


def _elsewhere(kernel: Any, device: Any, owner: Owner | None) -> Any:
    if device.type == "meta":
        return kernel
    KERNELS.compiled(None if owner is None else owner())
    return guarded(kernel, device)


class Undecided:
    """A compiled function that decides who runs it when it is called for the first time."""

    __slots__ = ("__weakref__", "_limit", "_numbers", "_owner", "_run", "_settle", "kernel")

    def __init__(self, kernel: Any, settle: Settle | None, owner: Owner | None, limit: float, numbers: bool) -> None:
        self.kernel, self._settle, self._owner = kernel, settle, owner
        self._limit, self._numbers = limit, numbers
        self._run: Any = None

    def __call__(self, *args: Any) -> Any:
        run = self._run
        if run is None:
            if _any_traced(args):
                with jit_caches.of_all_runs():
                    return self.kernel(*args)
            run = self._run = self._decided(args)
            if self._settle is not None:
                self._settle(run)
        return run(*args)

    def check(self, xs: Any) -> None:
        """A kernel without checks: there is nothing to do before a tape writes it down as a step."""

    def _decided(self, args: Any) -> Any:
        traced = getattr(self.kernel, "alone", self.kernel).trace(*args)
        compiled = Compiled(self.kernel, self._settle, self._owner)
        if choice.convolves(traced.jaxpr.jaxpr):
            compiled = OfConvolutions(self.kernel, self._owner, _as_function(traced.jaxpr), traced.out_tree)
        elif choice.has_convolutions(traced.jaxpr.jaxpr):
            compiled = ByItself(self.kernel, self._owner)
        elif self._numbers:
            compiled = CompiledOnce(self.kernel, self._settle, self._owner, traced.jaxpr, traced.out_tree)
        of_arrays = all(x is not None and x.__class__ not in (list, tuple) for x in args)
        flat = _flat(compiled, traced.in_tree)
        single = of_arrays and traced.out_tree == _LEAF
        whole = compiled if single else flat
        found = host.program(traced.jaxpr, whole, single, self._limit) or looking(traced.jaxpr, whole, single)
        tree = traced.out_tree
        if found is None or single or (of_arrays and tree == jax.tree.structure([0] * tree.num_leaves)):
            return found or compiled
        return _of_trees(found, of_arrays, traced.out_tree)


class Look:
    """A kernel that gives large arguments in other shapes: the same memory, since arrays do not change.

    Args:
        kernel: the compiled function, for arguments that NumPy can't look at.
        at: which arguments these are, one for each result.
        shapes: the shapes.
        single: whether it gives one result, and not a list of results.
    """

    __slots__ = ("_single", "_views", "kernel")

    def __init__(self, kernel: Any, at: Sequence[int], shapes: Sequence[tuple[int, ...]], single: bool) -> None:
        self.kernel, self._views, self._single = kernel, [*zip(at, shapes)], single

    def __call__(self, *xs: Any) -> Any:
        if not all(map(is_here, xs)):
            return self.kernel(*xs)
        outs = [xs[i] if xs[i].shape == shape else _reshaped(xs[i], shape) for i, shape in self._views]
        return outs[0] if self._single else outs

    def check(self, xs: Any) -> None:
        """A kernel without checks: there is nothing to do before a tape writes it down as a step."""


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return transfer.put(np.asarray(x).reshape(shape), devices.CPU)


def looking(closed: Any, kernel: Any, single: bool) -> Look | None:
    """A function whose jaxpr gives arguments in other shapes and does nothing else as a kernel that copies nothing."""
    at = choice.looked_at(closed.jaxpr) if host.possible() else None
    return None if at is None else Look(kernel, at, [a.shape for a in closed.out_avals], single)


class Putting:
    """A kernel that puts a few elements into its first argument, which it copies where that may not change.

    Args:
        compiled: the kernel, for arguments that NumPy can't take.
        parts: as `writes.in_place` gives it.
    """

    __slots__ = ("_compiled", "_put", "_steps", "kernel")

    def __init__(self, compiled: Compiled, parts: tuple[Any, Callable[..., None]]) -> None:
        steps, put = parts
        self._compiled, self._put, self.kernel = compiled, host.silently(put), compiled.kernel
        first = Compiled(jit(_as_function(steps)), None, None)
        self._steps = host.program(steps, first, False) or first

    def __call__(self, first: Any, *xs: Any) -> Any:
        if jax.config.jax_debug_nans or not all(map(_is_readable, (first, *xs))):
            return self._compiled(first, *xs)
        memory = transfer.aligned(first.shape, first.dtype)
        memory[...] = np.asarray(first)
        self.into(memory, xs)
        return transfer.put(memory, devices.CPU)

    def into(self, memory: np.ndarray, xs: Sequence[Any]) -> None:
        """Put the elements into memory that may change."""
        self._put(memory, *map(np.asarray, self._steps(*xs)))

    def check(self, xs: Any) -> None:
        """A kernel without checks: there is nothing to do before a tape writes it down as a step."""


def putting(kernel: Any, closed: Any, owner: Owner) -> Putting | None:
    """A function whose jaxpr puts a few elements into a large first argument as a kernel that may do that in place."""
    if choice.EXECUTOR == "xla" or jax.default_backend() != "cpu":
        return None
    parts = writes.in_place(closed)
    return parts and Putting(Compiled(kernel, None, owner), parts)


def _is_readable(x: Any) -> bool:
    return is_here(x) or x.__class__ in _NUMBERS


_NUMBERS = (bool, int, float, complex)


def _flat(compiled: Compiled, tree: Any) -> Any:
    """A function of trees as one of their leaves, with a list of the leaves of its results."""

    def run(*leaves: Any) -> Any:
        args, _ = jax.tree.unflatten(tree, leaves)
        return jax.tree.leaves(compiled(*args))

    run.kernel = compiled.kernel
    return run


_LEAF = jax.tree.structure(0)


def _of_trees(program: Any, of_arrays: bool, out_tree: Any) -> Any:
    """A program of flat arguments with the arguments and results of the function that it was made from."""

    def run(*args: Any) -> Any:
        return jax.tree.unflatten(out_tree, program(*(args if of_arrays else jax.tree.leaves(args))))

    run.kernel, run.check = program.kernel, program.check
    return run


def _any_traced(args: Any) -> bool:
    return any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(args))


_add = KERNELS.shared(jit(sums.plus))
_add_small = host.silently(np.add)


def add(x: Any, y: Any) -> Any:
    """The sum of two arrays of one shape and dtype, such as two gradients."""
    if x.dtype.kind != "c" and transfer.stays(x.dtype) and is_small(x) and is_small(y):
        return np.asarray(_add_small(x, y))
    return _add(x, y)


add_in_xla = _add
"""The sum of two arrays of which one is too large for NumPy."""


def in_xla(kernel: Any) -> Callable[..., Any] | None:
    """Return the function under `jax.jit` that a kernel calls, with options of its own for none of its arguments.

    None stands for a kernel that NumPy computes, or several functions, or one with options for XLA.
    """
    kind = kernel.__class__
    if kind is Undecided:
        return in_xla(kernel._run)
    if kind is CompiledOnce and kernel._closed is None and kernel._shared is not None:
        return kernel._shared
    if kind in (Compiled, CompiledOnce, Look):
        return in_xla(kernel.kernel)
    if kind is Jitted:
        return kernel.alone
    if kind is _JITTED:
        return kernel
    inner = getattr(kernel, "guards", None)
    return None if inner is None else in_xla(inner)


_JITTED = type(jit(lambda: None))


def in_numpy(kernel: Any) -> bool:
    """Return whether NumPy computes a kernel that was called, or the kernel only looks at its arguments."""
    if kernel.__class__ is Undecided:
        return in_numpy(kernel._run)
    of_xla = isinstance(kernel, Compiled | Jitted | _JITTED) or hasattr(kernel, "guards")
    return not of_xla and hasattr(kernel, "check")


def have_values(args: Any) -> bool:
    """Return whether all arguments are arrays with values, or numbers."""
    return _VALUES.issuperset(map(type, args))


def _as_function(closed: Any) -> Callable[..., Any]:
    """A jaxpr as a function of its arguments."""
    from jax.extend.core import jaxpr_as_fun  # which takes a while to import

    return jaxpr_as_fun(closed)


class OnHost:
    """A compiled function of a storage's array, an offset and perhaps another array; NumPy's for small arrays.

    Args:
        compiled: the function.
        host: the same for NumPy arrays.
    """

    __slots__ = ("compiled", "host")

    def __init__(self, compiled: Callable[..., Any], host: Callable[..., Any]) -> None:
        self.compiled, self.host = compiled, host

    def call(self, array: Any, offset: int, *value: Any) -> Any:
        """What the function gives: of one more array, if that is what it takes."""
        if is_here(array) and all(map(is_here, value)):
            return self.host(np.asarray(array), offset, *map(np.asarray, value))
        return self.compiled(array, offset, *value)


def is_small(x: Any) -> bool:
    """Whether NumPy may compute with an array: it is one of NumPy's, or a small one that was put nowhere."""
    return is_here(x) and (x.__class__ is np.ndarray or x.size <= choice.LARGEST)


def is_here(x: Any) -> bool:
    """Whether NumPy can read an array where it is: it is one of NumPy's, or one of JAX's that was put nowhere."""
    return x.__class__ is np.ndarray or (
        isinstance(x, jax.Array)
        and not isinstance(x, jax.core.Tracer)
        and not x.committed
        and jax.default_backend() == "cpu"
    )


def fits(store: Meta, m: Meta, touched: int) -> bool:
    """Whether NumPy can read or write a view, by which it touches so many elements.

    The storage has no gaps, and the view's dtype. One that is not row by row is rearranged first.
    """
    work = touched if store.contiguous else max(touched, store.numel)
    return choice.EXECUTOR != "xla" and work <= choice.LARGEST and (store.contiguous or store.dense) and _fits(store, m)


def lies_in(store: Meta, m: Meta) -> bool:
    """Whether NumPy finds the elements of a view where they lie in the memory of a storage on the CPU."""
    return store.contiguous and _fits(store, m)


def _fits(store: Meta, m: Meta) -> bool:
    return store.dtype is m.dtype and store.device.type == "cpu" and m.numel > 0


def reading(store: Meta, m: Meta, conj: bool, neg: bool) -> Callable[[np.ndarray, int], np.ndarray]:
    """The view `m` of an array at an offset; a few elements of many are copied, since a view would keep all of them."""
    order, window = _order(store), windows(m)

    def read(array: np.ndarray, offset: int) -> np.ndarray:
        x = window(array if order is None else array.transpose(order), offset)
        x = x.copy() if array.size > choice.LARGEST else x
        x = x.conj() if conj else x
        return -x if neg else x

    return read


def writing(store: Meta, m: Meta, conj: bool, neg: bool) -> Callable[[np.ndarray, int, np.ndarray], np.ndarray]:
    """An array whose view `m` at an offset is replaced."""
    order, window = _order(store), windows(m)

    def write(array: np.ndarray, offset: int, value: np.ndarray) -> np.ndarray:
        out = (array if order is None else array.transpose(order)).copy()
        value = value.conj() if conj else value
        window(out, offset)[...] = -value if neg else value
        return out if order is None else np.ascontiguousarray(out.transpose(np.argsort(order)))

    return write


def _order(store: Meta) -> tuple[int, ...] | None:
    """The dimensions of a storage as they are in memory; None where they are row by row."""
    return None if store.contiguous else tuple(sorted(range(store.ndim), key=lambda d: (-store.strides[d], d)))


def window(array: np.ndarray, m: Meta, offset: int) -> np.ndarray:
    """The view `m` at an offset of an array that is in the order of memory, or would be."""
    return windows(m)(array, offset)


def windows(m: Meta) -> Callable[[np.ndarray, int], np.ndarray]:
    """`window` for one `m`."""
    make, shape, size = np.ndarray, m.shape, m.dtype.itemsize
    strides = tuple([s * size for s in m.strides])

    def window(array: np.ndarray, offset: int) -> np.ndarray:
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        return make(shape, array.dtype, array, offset * size, strides)

    return window
