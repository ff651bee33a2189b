"""JAX's 64-bit types in this package's own calls of JAX, where the program around it keeps JAX's 32 bits.

    import torchgrad_jax as torch
    jnp.arange(3)                 # int32, as without this package
    torch.arange(3) * 2           # int64: this kernel is traced, compiled and started while JAX has 64-bit types
    jnp.asarray(torch.arange(3))  # int32: JAX narrows a tensor as it narrows an array of NumPy

JAX keeps `jax_enable_x64` for each thread beside the one of the process. So modules of this package see, in the place
of `jax`, `jax.numpy` and the like, copies of these modules whose functions switch 64-bit types on during a call.
`give_copies_of_jax` has Python's import put the copies there, so that no module has to think of it. What a copy cannot
reach does it by itself: compiled functions (`own_kernels.py`), rules of derivatives (`custom_jvp.py`), and functions
that are `with_x64`. `as_host` is around functions of the user's that are JAX code.

With `TORCHGRAD_JAX_X64=1` in the environment 64-bit types are on in the whole process, and nothing here does anything.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import operator
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import jax
import numpy as np
from jax.core import Tracer

from .private import UNSET, X64

Fn = TypeVar("Fn", bound=Callable[..., Any])

VARIABLE = "TORCHGRAD_JAX_X64"
IS_GUEST = os.environ.get(VARIABLE) != "1"
"""Whether the package leaves the process's `jax_enable_x64` as it is."""

_now, _set = X64.get_local, X64.set_local
_PACKAGE = __name__.partition(".")[0]


def with_x64(fn: Fn) -> Fn:
    """Return a function that runs while JAX has 64-bit types; the function itself where they are on anyway."""
    return _with_x64(fn) if IS_GUEST else fn


def _with_x64(fn: Any) -> Any:
    """The same wherever it is called. A signal leaves no switch on: it is set behind `try`, by one call of C."""

    def run(*args: Any, **kwargs: Any) -> Any:
        before = _now()
        try:
            _set(True)
            return fn(*args, **kwargs)
        finally:
            _set(before)

    return _named_as(run, fn)


def all_with_x64(module: dict[str, Any]) -> None:
    """Let the functions of a module, given its globals, run while JAX has 64-bit types: they compute by operators.

    A copy of `jax.numpy` has the switch in `jnp.add(x, y)`, and not in `x + y`.
    """
    if IS_GUEST:
        home = module["__name__"]
        functions = {n: f for n, f in module.items() if isinstance(f, types.FunctionType) and f.__module__ == home}
        module.update({name: _with_x64(fn) for name, fn in functions.items()})


def of_jax(fn: Fn) -> Fn:
    """Return the function of JAX's that a module of this package knows as `fn`, without the switch around it."""
    wrapped: Any = fn

    def call_for_host(*args: Any, **kwargs: Any) -> Any:
        return wrapped.of_jax(*args, **kwargs)

    return cast("Fn", call_for_host) if IS_GUEST else fn


def _named_as(run: Any, fn: Any) -> Any:
    try:
        functools.update_wrapper(run, fn)
    except (AttributeError, TypeError):
        run.__wrapped__ = fn
    run.of_jax = fn
    return run


def as_host(fn: Fn) -> Fn:
    """Return a function of the user's JAX code, called with the types that JAX has in the process.

    Arrays of 64 bits among its arguments are narrowed as JAX narrows those of NumPy.
    """
    if not IS_GUEST:
        return fn

    def run_as_host(*args: Any, **kwargs: Any) -> Any:
        before = _now()
        try:
            _set(UNSET)
            given, named = narrowed_tree((args, kwargs))
            return fn(*given, **named)
        finally:
            _set(before)

    return _named_as(run_as_host, fn)


def narrowed(array: Any) -> Any:
    """Return an array with the type that JAX has for it right now: of 32 bits, unless JAX has 64."""
    if not IS_GUEST or X64.value or array.dtype not in _NARROW:
        return array
    if isinstance(array, jax.Array):
        return jax.lax.convert_element_type(array, _NARROW[array.dtype])
    return array.astype(_NARROW[array.dtype])


def narrowed_for_host(array: Any) -> Any:
    """Return an array with the type that JAX has for it in the process, from code that is `with_x64`."""
    if not IS_GUEST or array.dtype not in _NARROW:
        return array
    before = _now()
    try:
        _set(UNSET)
        return narrowed(array)
    finally:
        _set(before)


def narrowed_tree(values: Any) -> Any:
    """Return a tree whose arrays, JAX's and NumPy's, have the types that JAX has right now."""
    if not IS_GUEST or X64.value:
        return values
    leaves, structure = jax.tree.flatten(values)
    found = [narrowed(settled(x)) if isinstance(x, jax.Array | np.ndarray | np.generic) else x for x in leaves]
    return values if all(map(operator.is_, leaves, found)) else structure.unflatten(found)


def settled(array: Any) -> Any:
    """Return an array of the user's JAX code as one whose dtype is the same where JAX has 64-bit types.

    In `jax.vmap(f)(np.ones(3))` the tracer of a float32 array holds NumPy's of float64, which JAX narrows when it first
    computes with it. And what comes of `jnp.asarray(2.0)` is float32 or float64 as JAX likes, in each step again.
    """
    if not IS_GUEST or not isinstance(array, jax.Array):
        return array
    if isinstance(array, Tracer) and any(isinstance(x, np.ndarray | np.generic) for x in _values_of(array)):
        array = _copied_by_host(array)
    weak = getattr(array, "weak_type", False)
    return jax.lax.convert_element_type(array, array.dtype) if weak else array


def _copied_by_host(array: Any) -> Any:
    before = _now()
    try:
        _set(UNSET)
        return jax.numpy.copy(array)
    finally:
        _set(before)


def _values_of(tracer: Any) -> list[Any]:
    return [getattr(tracer, name, None) for name in ("val", "primal", "tangent")]


def narrowed_type(aval: Any) -> Any:
    """Return the description of an array with the type that JAX has for it right now."""
    if not IS_GUEST or X64.value or aval.dtype not in _NARROW:
        return aval
    return aval.update(dtype=_NARROW[aval.dtype])


_NARROW: dict[Any, Any] = {
    np.dtype("int64"): np.dtype("int32"), np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"), np.dtype("complex128"): np.dtype("complex64"),
}  # fmt: skip


class Kernel:
    """A function under `jax.jit` that is traced, compiled and started while JAX has 64-bit types.

    JAX keeps what it compiles by whether these are on, so a kernel always starts as it was made.
    """

    __slots__ = ("__dict__", "__weakref__", "made")

    def __init__(self, made: Any) -> None:
        self.made = made
        functools.update_wrapper(self, made)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = _now()
        try:
            _set(True)
            return self.made(*args, **kwargs)
        finally:
            _set(before)

    def __getattr__(self, name: str) -> Any:
        if name == "made":  # a copy that is not filled yet
            raise AttributeError(name)
        found = getattr(self.made, name)
        return _with_x64(found) if name in _STAGES else found


def of_c(kernel: Any) -> Any:
    """Return the function under `jax.jit` itself, which is called by code that is `with_x64`."""
    return kernel.made if kernel.__class__ is Kernel else kernel


_STAGES = ("lower", "trace", "eval_shape")


# --- modules of JAX's as modules of this package see them -------------------------------------------------

_MODULES = (
    "jax", "jax.numpy", "jax.numpy.linalg", "jax.numpy.fft", "jax.lax", "jax.lax.linalg", "jax.nn", "jax.random",
    "jax.scipy", "jax.scipy.special", "jax.export", "jax.dtypes", "jax.api_util",
    "jax.experimental",
)  # fmt: skip
_GIVE_FUNCTIONS = frozenset((
    "vmap", "pmap", "grad", "value_and_grad", "jacfwd", "jacrev", "hessian", "checkpoint", "remat", "make_jaxpr",
    "linear_transpose", "shard_map", "named_call", "export",
))  # fmt: skip
"""Functions that give a function, which is called later."""
_GIVE_PAIRS = frozenset(("vjp", "linearize"))
"""Functions that give results and a function."""
_HAVE_NO_TYPES = frozenset((
    "jit", "devices", "local_devices", "default_backend", "device_count", "local_device_count", "process_count",
    "process_index", "clear_caches", "named_scope", "ensure_compile_time_eval", "default_matmul_precision",
    "default_device", "debug_nans", "debug_infs", "enable_x64", "live_arrays", "block_until_ready",
    "transfer_guard", "make_mesh", "set_mesh", "no_tracing", "checking_leaks", "log_compiles", "issubdtype",
    "numpy_dtype_promotion", "numpy_rank_promotion",
))  # fmt: skip
"""Functions that ask for no types when they are called. Some give a block; `jit` is for `own_kernels.py`."""


class _Callable:
    """A callable object of JAX's, such as `jnp.add` with its `at` and `reduce`, while JAX has 64-bit types."""

    def __init__(self, of: Any) -> None:
        self._call = _with_x64(of.__call__)
        _named_as(self, of)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in ("_call", "of_jax"):  # a copy that is not filled yet
            raise AttributeError(name)
        found = getattr(self.of_jax, name)
        return _with_x64(found) if callable(found) else found


def _giving(fn: Any) -> Any:
    run = _with_x64(fn)

    def give(*args: Any, **kwargs: Any) -> Any:
        found = run(*args, **kwargs)
        return _with_x64(found) if callable(found) else found

    return _named_as(give, fn)


@_with_x64
def _call(fn: Any, *args: Any) -> Any:
    return fn(*args)


def _giving_pairs(fn: Any) -> Any:
    run = _with_x64(fn)

    def give(*args: Any, **kwargs: Any) -> Any:
        out, then, *more = run(*args, **kwargs)
        return (out, jax.tree_util.Partial(_call, then), *more)

    return _named_as(give, fn)


def _copied(name: str, value: Any) -> Any:
    """A value of a module of JAX's as the copy of the module has it."""
    if isinstance(value, type) or not callable(value) or name.startswith("_") or name in _HAVE_NO_TYPES:
        return value
    if name in _GIVE_FUNCTIONS:
        return _giving(value)
    if name in _GIVE_PAIRS:
        return _giving_pairs(value)
    return _Callable(value) if isinstance(value, jax.numpy.ufunc) else _with_x64(value)


def _copies() -> dict[int, Any]:
    """By the identity of a module of JAX's, or of a function in it, its copy."""
    real = {name: importlib.import_module(name) for name in _MODULES}
    copies: dict[int, Any] = {id(module): types.ModuleType(name) for name, module in real.items()}
    for module in real.values():
        own = vars(copies[id(module)])
        for name, value in vars(module).items():
            if name not in ("__name__", "__loader__", "__spec__"):
                own[name] = copies.get(id(value)) or _copied(name, value)
                if own[name] is not value:
                    copies[id(value)] = own[name]
        own["__getattr__"] = functools.partial(getattr, module)  # what JAX imports when it is first asked for
    return copies


class _Loader:
    """Runs a module of this package, and puts the copies in the place of JAX's modules among its globals."""

    def __init__(self, loader: Any, copies: dict[int, Any]) -> None:
        self._loader, self._copies = loader, copies

    def exec_module(self, module: types.ModuleType) -> None:
        """Run it."""
        _call(self._loader.exec_module, module)
        own = vars(module)
        own.update({n: copy for n, v in own.items() if (copy := self._copies.get(id(v))) is not None})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_SEE_JAX_ITSELF = frozenset((f"{_PACKAGE}.testing._jax_side",))
"""Modules of this package that run JAX code of the user's as the user's program does."""


class _Finder:
    """Finds the modules of this package as Python's import does, and gives them a loader that puts the copies there."""

    def __init__(self) -> None:
        self._copies = _copies()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        """Return how a module is loaded; None for those of others."""
        if not name.startswith(f"{_PACKAGE}.") or name in _SEE_JAX_ITSELF:
            return None
        spec: Any = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self._copies)
        return spec


def give_copies_of_jax() -> None:
    """Let the modules of this package that are imported from now on see the copies of JAX's modules."""
    sys.meta_path.insert(0, _Finder())
