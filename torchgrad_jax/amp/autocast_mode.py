"""autocast: inside, products run in half precision, and what needs more in float32.

It is a mode that sees the public functions a program calls, casts their arguments by the lists of
`_lists`, and leaves everything else alone. Casts are recorded, so that gradients come back in the
dtype of the parameters.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeAlias

import jax

from .._core.arrays import devices, dtypes
from .._core.arrays.devices import meant
from .._core.builtin_functions import builtin, function_of
from .._core.errors import warn
from .._core.signals import contextmanager, restore, uninterrupted
from .._core.state import MODES
from .._engine.entry.bind import ops
from .._engine.memory.tensor import Tensor, tensors_in
from .._engine.overrides import asking, looking
from ._lists import AS_STATES, FLOAT32, LOWER, REFUSED, WIDEST, pads_in_float32

_DEFAULT = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16, "tpu": dtypes.bfloat16}
_KNOWN = (dtypes.bfloat16, dtypes.float16)
_FLOATS = (*_KNOWN, dtypes.float32, dtypes.float64)


class _State(threading.local):
    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.listed: frozenset[str] = frozenset()
        """Names of the functions that autocast does something to, on the devices for which it is on."""
        self.dtype: dict[str, Any] = dict(_DEFAULT)
        self.caching = True
        self.nesting = 0
        self.cache: dict[tuple[int, Any], tuple[Tensor, Tensor]] = {}


STATE = _State()


class _Mode(asking.SelectiveMode):
    """Stands on the stack of function modes while autocast is on for some device."""

    def answer(self, func: Any, plain: Any, args: Any, kwargs: Any) -> Any:
        """Do the call on cast arguments, and without the mode, if autocast does something to the function."""
        cast = _cast_arguments(_name(func), args, kwargs)
        if cast is None:
            return plain(*args, **kwargs)
        args, kwargs = cast
        if hasattr(function_of(func), "binding"):  # an operator, which calls no other function
            return plain(*args, **kwargs)
        with asking.innermost():
            return plain(*args, **kwargs)

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kinds:  # classes of the user answer first; what they call comes here again
            return NotImplemented
        kwargs = kwargs or {}
        cast = _cast_arguments(_name(func), args, kwargs)
        if cast is not None:  # what it calls is as it is: the mode is off the stack
            return func(*cast[0], **cast[1])
        if hasattr(function_of(func), "binding"):
            return func(*args, **kwargs)
        with asking.only_modes((*MODES.function_modes, self)):
            return looking.skip_one(func, args, kwargs)

    @contextmanager
    def suspended(self) -> Generator[Any, None, None]:
        """Within it autocast is off. What comes is a description of how it was, for `resumed` and as a key."""
        enabled, fast, caching = settings()
        on = tuple(sorted(k for k, v in enabled.items() if v))
        with restored(({}, fast, caching)):
            yield on, tuple(sorted(fast.items())), caching

    @contextmanager
    def resumed(self, described: Any) -> Generator[None, None, None]:
        """Within it autocast is as it was before `suspended`, with no casts from outside."""
        on, fast, caching = described
        cache, STATE.cache = STATE.cache, {}
        try:
            with restored((dict.fromkeys(on, True), dict(fast), caching)):
                yield
        finally:
            STATE.cache = cache


_MODE = _Mode()
_LISTED = {
    kind: frozenset().union(*[table[kind] for table in (LOWER, AS_STATES, FLOAT32, WIDEST, REFUSED)], ("pad",))
    for kind in LOWER
}
"""The names that autocast does something to, by device."""


def _name(func: Any) -> str:
    """A function's name without its namespace."""
    found = _names.get(func)
    if found is None:
        path = asking.name_of(func) or getattr(func, "__name__", "")
        found = _names[func] = path.rpartition(".")[2]
    return found


_names: dict[Any, str] = {}


def _cast_arguments(name: str, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """The arguments of a function as it gets them; None where autocast is on for what it calls, too."""
    if name not in STATE.listed:
        return None
    enabled, kind, found = STATE.enabled, None, dict[Any, None]()
    for t in _tensors(args, kwargs):
        m = t._m
        found[m.dtype] = None
        if kind is None and enabled.get(where := meant(m.device)):
            kind = where
    if kind is None:
        return None
    if name in REFUSED[kind]:
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
            "Use binary_cross_entropy_with_logits instead, or compute it in float32 with autocast off."
        )
    to = _target(name, kind, found, args, kwargs)
    if to is None:
        return None
    if len(found) == 1 and to in found:
        return args, kwargs
    return _cast_all(args, kind, to), _cast_all(kwargs, kind, to) if kwargs else kwargs


def _tensors(args: Any, kwargs: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for v in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(v, Tensor):
            found.append(v)
        elif isinstance(v, list | tuple | dict):
            found += v if {*map(type, v)} == _ONLY_TENSORS else tensors_in(v)
    return found


_ONLY_TENSORS = {Tensor}


def _target(name: str, kind: str, found: Iterable[Any], args: Any, kwargs: Any) -> Any:
    """The dtype that arguments are cast to; with None what the function calls is cast as if a user called it."""
    if name in LOWER[kind]:
        return STATE.dtype[kind]
    if name in FLOAT32[kind]:
        return None if kwargs.get("dtype") is not None else dtypes.float32
    if name in AS_STATES[kind]:
        states = [t._m.dtype for t in tensors_in((args[1:], kwargs)) if t._m.dtype in _FLOATS]
        return None if not states else STATE.dtype[kind] if states[0] is STATE.dtype[kind] else dtypes.float32
    if name == "pad":
        return dtypes.float32 if kind == "cpu" and pads_in_float32(*args, **kwargs) else None
    if name in WIDEST[kind]:
        return _widest(STATE.dtype[kind], found)
    return None


def _widest(lower: Any, found: Iterable[Any]) -> Any:
    """float32 if one of these dtypes is that, and else the lower precision."""
    widest = lower
    for dtype in found:
        if dtype is dtypes.float32:
            widest = dtype
        elif dtype in _KNOWN and dtype is not widest and widest is lower:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return widest


_CAST = frozenset((*_KNOWN, dtypes.float32))
"""Of what dtypes tensors are that are cast."""


def _cast_all(x: Any, kind: str, to: Any) -> Any:
    """The arguments, and what is in sequences and dictionaries among them, in another dtype."""
    if isinstance(x, Tensor):
        m = x._m
        return _cast(x, to) if m.dtype is not to and m.dtype in _CAST and meant(m.device) == kind else x
    if isinstance(x, list):  # or of a class of its own, as the weights of recurrent layers
        return [_cast_all(v, kind, to) for v in x]
    if isinstance(x, tuple) and any(isinstance(v, Tensor | list | tuple | dict) for v in x):
        return tuple([_cast_all(v, kind, to) for v in x])
    if x.__class__ is dict:
        return {k: _cast_all(v, kind, to) for k, v in x.items()}
    return x


def _cast(t: Any, to: Any) -> Tensor:
    """The tensor in another dtype; of a parameter, one cast is made and kept while autocast is on."""
    is_parameter = t._rg and t._fn is None and (t._al is None or t._al.base is None) and t._m.dtype is dtypes.float32
    if not (is_parameter and to in _KNOWN and STATE.caching):
        return ops._to_copy(t, to) if t.__class__ is Tensor else t.to(to)
    cache, key = STATE.cache, (id(t), to)
    found = cache.get(key)
    if found is None:
        found = cache[key] = (t, t.to(to))
    return found[1]


def _refresh() -> None:
    STATE.listed = frozenset().union(*[_LISTED[kind] for kind, on in STATE.enabled.items() if on])
    others = tuple(m for m in MODES.function_modes if m is not _MODE)
    wanted = any(STATE.enabled.values())
    if wanted and _MODE in MODES.function_modes:
        return
    # The mode is below all modes of the user, as in torch.
    looking.set_modes((_MODE, *others) if wanted else others)


Settings: TypeAlias = tuple[dict[str, bool], dict[str, Any], bool]


def settings() -> Settings:
    """For which devices autocast is on in this thread, to which dtype each casts, and whether casts are kept."""
    return dict(STATE.enabled), dict(STATE.dtype), STATE.caching


def _enter(wanted: Settings) -> None:
    STATE.enabled, STATE.dtype, STATE.caching = wanted
    STATE.nesting += 1
    _refresh()


def _leave(before: Settings, depth: int) -> None:
    """Set autocast as it was outside of a block, in which so many others are."""
    STATE.enabled, STATE.dtype, STATE.caching = before
    STATE.nesting = depth
    # The outermost block ends, even if one beside it that was never left is still counted.
    if STATE.nesting == 0 or not any(STATE.enabled.values()):
        STATE.cache.clear()
    _refresh()


@contextmanager
def restored(wanted: Settings) -> Generator[None, None, None]:
    """Within it, autocast is as `settings` found it."""
    before, depth = settings(), STATE.nesting
    enabled, fast, caching = wanted
    try:
        _enter((dict(enabled), dict(fast), caching))
        yield
    finally:
        restore(_leave, before, depth)


def is_autocast_available(device_type: str) -> bool:
    """Return whether autocast knows a type of devices."""
    return _checked_type(device_type) in _DEFAULT


_ELSEWHERE = ("xpu", "hpu", "ipu", "mtia")
"""Devices that torch has autocast for and JAX does not have."""


def _checked_type(device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return devices.device(device_type).type


def _has_gpu() -> bool:
    if MODES.target is not None:
        return MODES.target.platform == "cuda"
    try:
        return bool(jax.local_devices(backend="gpu"))
    except RuntimeError:
        return False


class autocast:
    """Lower precision inside of a `with` block, or of a decorated function.

    Args:
        device_type: "cpu", "cuda" or "tpu"; tensors on other devices are left alone.
        dtype: bfloat16 or float16; the default is float16 on a GPU and bfloat16 elsewhere.
        enabled: False switches autocast off inside.
        cache_enabled: whether parameters are cast once and kept until the outermost block ends.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(2, 2)
        >>> with torch.autocast("cpu"):
        ...     (x @ x).dtype, (x + x).dtype
        (torch.bfloat16, torch.float32)
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        self.device = _checked_type(device_type)
        if self.device not in _DEFAULT:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{self.device}'")
        self.fast_dtype = STATE.dtype[self.device] if dtype is None else dtype
        if self.device == "cuda" and enabled and not _has_gpu():
            warn.to_user("CUDA is not available or torch_xla is imported. Disabling autocast.")
            enabled = False
        if enabled and self.fast_dtype not in _KNOWN:
            name = self.device.upper()
            warn.to_user(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of torch.bfloat16, torch.float16 currently."
            )
            enabled = False
        self._enabled = enabled
        self._cache_enabled = STATE.caching if cache_enabled is None else cache_enabled

    def __enter__(self) -> autocast:
        self._before = settings()
        enabled, fast, _ = self._before
        here = {self.device: self._enabled}, {self.device: self.fast_dtype}
        depth = STATE.nesting
        try:
            _enter((enabled | here[0], fast | here[1], self._cache_enabled))
        except BaseException:  # a signal's, say
            restore(_leave, self._before, depth)
            raise
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        restore(_leave, self._before, STATE.nesting - 1)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled, self._cache_enabled):
                return func(*args, **kwargs)

        return wrapped


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorate the `forward` of a custom Function: it runs with autocast as it is, or on cast arguments with it off."""
    kind = _checked_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        on = STATE.enabled.get(kind, False)
        args[0]._dtype = STATE.dtype[kind]
        if cast_inputs is None or not on:
            args[0]._fwd_used_autocast = on and cast_inputs is None
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        with autocast(kind, enabled=False):
            return fwd(*_cast_all(args, kind, cast_inputs), **_cast_all(kwargs, kind, cast_inputs))

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate the `backward` of a custom Function: it runs with autocast as its `forward` did."""
    kind = _checked_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(kind, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorated


# --- the switches behind it -----------------------------------------------------------------------


@builtin
def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return whether autocast is on for a type of devices."""
    if isinstance(device_type, str) and device_type.partition(":")[0] in _ELSEWHERE:
        return False
    return STATE.enabled.get(_checked_type(device_type), False)


@builtin
def is_autocast_cpu_enabled() -> bool:
    """Return whether autocast is on for the CPU."""
    return is_autocast_enabled("cpu")


@builtin
def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off without a block."""
    if enabled is None:
        device_type, enabled = "cuda", bool(device_type)
    STATE.enabled[_checked_type(device_type)] = enabled
    _refresh()


@builtin
def get_autocast_dtype(device_type: str) -> Any:
    """The lower precision of a type of devices."""
    return STATE.dtype[_checked_type(device_type)]


@builtin
def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Choose the lower precision of a type of devices."""
    if dtype not in _KNOWN:
        raise RuntimeError(f"autocast supports torch.bfloat16 and torch.float16, not {dtype}")
    STATE.dtype[_checked_type(device_type)] = dtype


@builtin
def get_autocast_gpu_dtype() -> Any:
    """The lower precision of GPUs."""
    return STATE.dtype["cuda"]


@builtin
def get_autocast_cpu_dtype() -> Any:
    """The lower precision of the CPU."""
    return STATE.dtype["cpu"]


@builtin
def is_autocast_cache_enabled() -> bool:
    """Return whether casts of parameters are kept."""
    return STATE.caching


@builtin
def set_autocast_cache_enabled(enabled: bool) -> None:
    """Choose whether casts of parameters are kept."""
    STATE.caching = enabled


@builtin
def clear_autocast_cache() -> None:
    """Forget casts of parameters."""
    STATE.cache.clear()
