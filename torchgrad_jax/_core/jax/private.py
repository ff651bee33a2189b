"""Every private name of JAX that the package uses. For a new version of JAX, this is the one file to change.

For example, `jnp.sin` takes a tensor because `AVALS[Tensor]` says how JAX describes one, and JAX has no public way to
say so. Each name is taken once, when the package is imported, and its shape is checked. Where JAX has moved one, the
import ends with an `UnknownJax` that says which name is missing, and which versions of JAX are known.

Whatever could be said with public names is said with them, elsewhere: `jax.extend.core.set_current_trace`,
`jax.interpreters.{ad,batching,mlir}`, `jax.monitoring`, `jax.tree_util.default_registry`.
What remains is below, each with the reason.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax

from ..signals import contextmanager, restore, uninterrupted

KNOWN = "0.10.2 to 0.12.0"
"""The versions of JAX with which the tests were run; `pyproject.toml` allows these."""


class UnknownJax(ImportError):
    """The installed JAX lacks something that the package needs."""


def _take(module: str, name: str, *parts: str) -> Any:
    """`module.name`, which must have the attributes `parts`."""
    try:
        found = getattr(importlib.import_module(f"jax.{module}"), name)
        missing = [part for part in parts if not hasattr(found, part)]
    except (ImportError, AttributeError):
        found, missing = None, [""]
    if missing:
        what = ".".join(filter(None, ("jax", module, name, missing[0])))
        raise UnknownJax(
            f"torchgrad_jax does not know JAX {jax.__version__}: {what} is not there. It was tested with JAX {KNOWN}; "
            "pip install 'jax>=0.10.2,<0.13' gives one of these."
        )
    return found


# --- faster ways to what is public ---------------------------------------------------------------------

DEBUG_NANS = _take("_src.config", "debug_nans", "value")
DEBUG_INFS = _take("_src.config", "debug_infs", "value")
"""`jax.config.jax_debug_nans` takes three times as long, and each kernel asks."""

ArrayImpl = _take("_src.array", "ArrayImpl")
"""The class of arrays with values. `isinstance(x, jax.Array)` runs Python code in each call."""

batched_device_put = _take("_src.lib", "xla_client", "batched_device_put").batched_device_put
"""What `jnp.asarray` does in the end: 2 us instead of 40."""

X64 = _take("_src.config", "enable_x64", "value", "get_local", "set_local")
UNSET = _take("_src.config", "config_ext", "unset").unset
"""`jax_enable_x64`, as a setting of a thread: 0.03 us a call, and the public `jax.enable_x64` 0.8 us a block."""

backends_are_open = _take("_src.xla_bridge", "backends_are_initialized")
"""Whether JAX has opened its devices in this process: `jax.devices()` would open them."""


TRACE_CONTEXT = _take("_src.config", "trace_context", "__call__")
"""All settings that a trace depends on, as one key: JAX's own caches of traces have it in theirs."""

LOWERINGS = _take("interpreters.mlir", "_lowerings", "__getitem__")
"""By primitive, the rule that says what XLA is to do for it; a rule of ours falls back on JAX's."""

KEPT_OF_MODULE = tuple(
    name
    for name in ("cached_primitive_lowerings", "lowering_cache")
    if name in _take("interpreters.mlir", "ModuleContext", "replace").__dataclass_fields__
)
"""What JAX keeps of functions and steps that it has lowered, to use them again in the same module."""

JIT = _take("_src.pjit", "jit_p")
"""The step that calls a function under `jax.jit`. `jax.extend.core.primitives` has it too, and is slow to import."""


def rules_of_jit() -> list[dict[Any, Any]]:
    """Return the tables that say how JAX differentiates, transposes and batches the step of `jax.jit`."""
    names = {
        "ad": ("primitive_jvps", "primitive_linearizations", "primitive_transposes", "fancy_transposes"),
        "batching": ("fancy_primitive_batchers",),
        "partial_eval": ("custom_partial_eval_rules", "partial_eval_jaxpr_custom_rules"),
        "remat": ("rules",),
    }
    found = [(importlib.import_module(f"jax._src.interpreters.{m}"), n) for m, of in names.items() for n in of]
    tables = [getattr(module, name, None) for module, name in found]
    return [table for table in tables if isinstance(table, dict) and JIT in table]


# --- what JAX keeps, and would keep for ever -----------------------------------------------------------

LOWERED = (
    _take("_src.pjit", "_pjit_lower", "cache_keys", "evict_weakref"),
    _take("_src.interpreters.pxla", "_cached_lowering_to_hlo", "cache_keys", "evict_weakref"),
)
"""Modules that kernels were compiled from: 1 MB each. `jax.clear_caches()` would take the user's with them."""

TRACED = _take("_src.interpreters.partial_eval", "trace_to_jaxpr", "cache_info", "cache_keys", "evict_weakref")
"""Traces of functions, one for each shape, without a limit."""


# --- files of compiled programs ------------------------------------------------------------------------

COMPILATION_CACHE: Any = importlib.import_module("jax._src.compilation_cache")
for _name in (
    "_cache",
    "_cache_initialized",
    "_get_cache",
    "combine_executable_and_time",
    "compress_executable",
    "get_cache_key",
    "get_file_cache",
):
    _take("_src.compilation_cache", _name)
CacheInterface: Any = _take("_src.compilation_cache_interface", "CacheInterface", "get", "put")
"""JAX keeps all programs of a process in one object of this class, and has no way to give it two folders."""

SOONEST_COMPILED = _take("_src.config", "persistent_cache_min_compile_time_secs", "swap_local", "set_local")
SMALLEST_FILE = _take("_src.config", "persistent_cache_min_entry_size_bytes", "swap_local", "set_local")
"""Which programs JAX keeps: settings that are a thread's own, and whose public form sets them for the whole process."""


_COST: Any = _take("_src.lib", "xla_client", "_xla")._xla.hlo_module_cost_analysis


def cost_of_module(compiled: Any) -> dict[str, float]:
    """XLA's count for a program that was compiled for devices which are not here; these cannot count themselves."""
    (module,) = compiled.runtime_executable().hlo_modules()
    return _COST(jax.local_devices(backend="cpu")[0].client, module)


# --- what JAX asks of values ---------------------------------------------------------------------------

AVALS = _take("_src.core", "pytype_aval_mappings", "__setitem__")
"""How JAX describes a value of a class. JAX has no public register of classes that are arrays."""

CANONICAL = _take("_src.dtypes", "canonicalize_value_handlers", "__setitem__")
"""How JAX makes an array of a value of a class."""


class Function:
    """A function of JAX's that is replaced by one around it, because JAX has no hook there."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name

    def wrap(self, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Put `make(function)` in the place of the function."""
        now = getattr(self._owner, self._name)
        setattr(self._owner, self._name, functools.wraps(now)(make(now)))


class Patches:
    """Functions of JAX's that are replaced inside a block, in all threads, and that are JAX's own outside of it.

    Blocks may overlap: the first that begins puts the replacements in, and the last that ends takes them out. What
    another library has put there before stays, as what a replacement calls, and so does what one puts there meanwhile.

    Args:
        makers: (owner, name, make): ``make(function)`` takes the place of the function ``owner.name``.
    """

    def __init__(self, *makers: tuple[Any, str, Callable[[Any], Any]]) -> None:
        self._makers, self._blocks, self._lock = makers, set[object](), threading.Lock()
        self._put: list[tuple[Any, str, Any, Any]] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Begin a block."""
        block = object()
        try:
            self._begin(block)
            yield
        finally:
            restore(self._end, block)

    def _begin(self, block: object) -> None:
        with self._lock:
            for owner, name, make in () if self._blocks else self._makers:
                now = make(getattr(owner, name))
                self._put.append((owner, name, owner.__dict__[name], now))
                setattr(owner, name, now)
            self._blocks.add(block)

    def _end(self, block: object) -> None:
        with self._lock:
            self._blocks.discard(block)
            while self._put and not self._blocks:
                owner, name, before, now = self._put[-1]
                if owner.__dict__[name] is now:
                    setattr(owner, name, before)
                self._put.pop()


def _function(module: str, name: str) -> Function:
    _take(module, name, "__call__")
    return Function(importlib.import_module(f"jax.{module}"), name)


SEED = _function("_src.lax.lax", "_one_vjp")
"""The gradient that `jax.grad` starts from: it refuses results that are no arrays."""

AVAL = _take("core", "ShapedArray", "_create")
"""JAX keeps descriptions of arrays in a table that compares two shapes without a look at their hashes."""

for _name in ("Jaxpr", "Literal", "Primitive", "Var", "_canonicalize_dimension", "new_jaxpr_eqn"):
    _take("_src.core", _name)
CORE = importlib.import_module("jax._src.core")
"""The module, whose `_canonicalize_dimension` takes a dimension that is no number by way of an exception. That keeps
all frames around it in a cycle. Its classes of steps are those of `jax.extend.core`, which takes 50 ms to import."""

ClosedJaxpr = getattr(CORE, "ClosedJaxpr", CORE.Jaxpr)
"""A jaxpr with the values of its constants; from JAX 0.12 on there is no other."""

_take("_src.lax.convolution", "operator", "index")
CONVOLUTION = importlib.import_module("jax._src.lax.convolution")
"""The module, which by `operator.index` refuses to pad by what is no number."""

_take("tree_util", "default_registry", "flatten_with_path")
PATHS = Function(type(jax.tree_util.default_registry), "flatten_with_path")
"""Key paths of a tree. A registered class cannot say that it adds no step to them."""

MATCH = Function(type(jax.tree.structure(0)), "flatten_up_to")
"""What a tree has in the place of each leaf of another one. A registered class cannot say that it matches another."""


# --- traces --------------------------------------------------------------------------------------------

KERNEL_LOGGER = _take("_src.interpreters.pxla", "logger", "addFilter")
"""Says the shapes of each kernel that is compiled; `jax.monitoring` says its name alone."""

_HERE = _take("_src.core", "trace_ctx", "trace", "set_trace")
_CONTEXT = type(_take("_src.core", "set_current_trace")(None))


def current_trace() -> Any:
    """Return what JAX traces right now."""
    return _HERE.trace


class take_current_trace:
    """Take JAX's current trace away for a block, as `jax.extend.core.take_current_trace`; no signal leaves it half."""

    __slots__ = ("_before",)

    def __enter__(self) -> Any:
        self._before = _HERE.trace
        try:
            _HERE.set_trace(None)
        except BaseException:
            _HERE.set_trace(self._before)
            raise
        return self._before

    @uninterrupted
    def __exit__(self, *raised: object) -> None:
        _HERE.set_trace(self._before)


def watch_traces(
    begun: Callable[[Any], None],
    ended: Callable[[int], None],
    entered: Callable[[Any], None],
    left: Callable[[Any, bool], None],
) -> None:
    """Tell of each trace of JAX's when it is made and over, and of each block in which one is the current trace.

    `begun` is given the trace, `ended` its identity, `entered` the block, whose attribute `trace` is the trace, and
    `left` the block and whether an exception left it. `get_opaque_trace_state` and `take_current_trace` say which trace
    is the current one, but not when that changes, and a trace has to be known before the user's function runs in it.

    Where a signal comes between two steps of a block, the current trace is what it was outside of the block: JAX would
    trace all later code otherwise.
    """
    make, enter, leave = jax.core.Trace.__init__, _CONTEXT.__enter__, _CONTEXT.__exit__

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if self.__class__.__module__.startswith("jax."):
            begun(self)

    def __enter__(self: Any) -> Any:
        outside = _HERE.trace
        entered(self)
        try:
            return enter(self)
        except BaseException:
            _HERE.set_trace(outside)
            raise

    @uninterrupted
    def __exit__(self: Any, kind: Any, value: Any, tb: Any) -> Any:
        try:
            out = leave(self, kind, value, tb)
        except BaseException:
            _HERE.set_trace(self.prev)
            raise
        left(self, kind is not None)
        return out

    def then_ended(invalidate: Any) -> Any:
        @functools.wraps(invalidate)
        def invalidated(self: Any) -> None:
            invalidate(self)
            ended(id(self))

        return invalidated

    jax.core.Trace.__init__ = made  # type: ignore[method-assign]
    for cls in (jax.core.Trace, *jax.core.Trace.__subclasses__()):
        if "invalidate" in vars(cls):
            cls.invalidate = then_ended(cls.invalidate)
    _CONTEXT.__enter__, _CONTEXT.__exit__ = __enter__, __exit__


# --- what XLA can be told ------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8)
def options_of_xla(*wanted: tuple[str, Any]) -> dict[str, Any]:
    """Those of some options for compiling that this version of XLA has: newer ones have dropped some."""
    return {name: value for name, value in wanted if _has_option(name, value)}


def _has_option(name: str, value: Any) -> bool:
    def has_option(x: Any) -> Any:
        return x

    has_option.__name__ = "torch.has_option"  # a kernel of ours, as `own_kernels.py` names them, so that it is kept
    try:
        jax.jit(has_option, compiler_options={name: value}).lower(0).compile()
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return False
    return True
