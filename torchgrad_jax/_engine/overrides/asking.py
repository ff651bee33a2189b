"""`__torch_function__`: which classes and modes take over what is done to tensors, and how they are asked.

When functions look for them is the subject of `looking`.
"""

from __future__ import annotations

import importlib
import types
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from ..._core.arrays.devices import device
from ..._core.arrays.dtypes import dtype
from ..._core.arrays.formats import memory_format
from ..._core.arrays.shapes import Size
from ..._core.builtin_functions import function_of, shown
from ..._core.errors import warn
from ..._core.signals import uninterrupted
from ..._core.state import FUNCTION_MODE, MODES
from ..graph.record import PLAIN
from ..memory.tensor import Tensor
from ..surface import NAMESPACES, public_name

_PACKAGE = __name__.partition(".")[0]

ENABLED, SUBCLASSES_DISABLED, ALL_DISABLED = range(3)
"""Values of `MODES.functions_disabled`."""


class _DisabledFunction:
    """The `__torch_function__` of classes that override nothing; an object, so that no instance binds it."""

    __slots__ = ()

    def __call__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs or {})

    def __repr__(self) -> str:
        return "<built-in function _disabled_torch_function_impl>"


disabled_torch_function_impl = _DisabledFunction()


class _Disable:
    """Overrides are off to some degree inside."""

    __slots__ = ("before",)
    state = ENABLED

    def __enter__(self) -> None:
        self.before = MODES.functions_disabled
        MODES.functions_disabled = max(self.state, self.before)

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.functions_disabled = self.before


class DisableTorchFunctionSubclass(_Disable):
    """Inside, `__torch_function__` of classes is not called; modes still are."""

    __slots__ = ()
    state = SUBCLASSES_DISABLED


class DisableTorchFunction(_Disable):
    """Inside, neither classes nor modes override anything."""

    __slots__ = ()
    state = ALL_DISABLED


class SelectiveMode(ABC):
    """A mode that leaves most functions as they are. Where no other one is on, it is not taken off for each call."""

    @abstractmethod
    def answer(self, func: Any, plain: Any, args: Any, kwargs: Any) -> Any:
        """Do the call of `func`, which `plain` does without asking anybody, where this is the only mode."""


def replace_modes(stack: tuple[Any, ...]) -> None:
    """Replace this thread's stack of function modes; the bit keeps shortcuts that call no function from being taken."""
    MODES.own |= {"function_modes": stack, "bits": MODES.bits & ~FUNCTION_MODE | (FUNCTION_MODE if stack else 0)}


class only_modes:
    """Inside, this thread's stack of function modes is another one; gives the mode that was on top before."""

    __slots__ = ("before", "stack")

    def __init__(self, stack: tuple[Any, ...]) -> None:
        self.before, self.stack = MODES.function_modes, stack

    def __enter__(self) -> Any:
        bit = FUNCTION_MODE if self.stack else 0
        MODES.own |= {"function_modes": self.stack, "bits": MODES.bits & ~FUNCTION_MODE | bit}
        return self.before[-1] if self.before else None

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        bit = FUNCTION_MODE if self.before else 0
        MODES.own |= {"function_modes": self.before, "bits": MODES.bits & ~FUNCTION_MODE | bit}


def innermost() -> only_modes:
    """Inside, the mode on top of the stack is off it."""
    assert MODES.function_modes
    return only_modes(MODES.function_modes[:-1])


def modes_active() -> bool:
    """Return whether some mode sees the calls of this thread."""
    return bool(MODES.function_modes) and MODES.functions_disabled != ALL_DISABLED


# --- who overrides --------------------------------------------------------------------------------

ORDINARY: set[type] = {
    Tensor,
    bool,
    int,
    float,
    complex,
    str,
    type(None),
    slice,
    type(Ellipsis),
    dtype,
    device,
    memory_format,
    Size,
}
"""Classes whose instances override nothing, for a quick look at arguments."""


def add_plain(cls: type) -> None:
    """Declare a class of tensors that never override anything."""
    PLAIN.add(cls)
    ORDINARY.add(cls)


def overrides(cls: type) -> bool:
    """Return whether a class has its own idea of functions."""
    if cls in ORDINARY:
        return False
    found = getattr(cls, "__torch_function__", None)
    if found is None or found is disabled_torch_function_impl:
        return False
    # Tensors of torch itself bring torch's defaults, which would call us back for ever.
    name, home = getattr(found, "__name__", ""), getattr(found, "__module__", "")
    return name != "_disabled_torch_function_impl" and home != "torch._tensor"


def overridden(args: Iterable[Any]) -> bool:
    """Return whether some argument's class has its own idea of functions."""
    return any(overrides(a.__class__) for a in args)


def overloaded(args: Iterable[Any], tensors: bool = False) -> list[Any]:
    """One argument of each overriding type, in the order they are asked: subclasses before their bases.

    With `tensors`, plain tensors count, whose `__torch_function__` does as usual.
    """
    if MODES.functions_disabled:
        return []
    out: list[Any] = []
    for a in args:
        cls = a.__class__
        if not (overrides(cls) or (tensors and cls is Tensor)) or any(cls is type(b) for b in out):
            continue
        at = next((i for i, b in enumerate(out) if issubclass(cls, type(b))), len(out))
        out.insert(at, a)
    return out


def in_sequences(args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Any]:
    for a in (*args, *kwargs.values()):
        if isinstance(a, list | tuple):
            yield from a
        else:
            yield a


# --- asking them ----------------------------------------------------------------------------------


def dispatch(func: Any, overloaded: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Let the innermost mode, then each overriding argument answer for `func`."""
    args, kinds = tuple(args), tuple(type(a) for a in overloaded)
    asked = []
    if modes_active():
        with innermost() as mode:
            result = mode.__torch_function__(func, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
        asked.append(f"  - mode object {mode!r}\n")
    # For functions whose arguments torch rewrites before modes see them.
    seen = getattr(function_of(func), "seen", None)
    if seen is not None:
        args = seen(args)
    for a in overloaded:
        result = ask(a, func, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
        asked.append(f"  - tensor subclass {type(a)!r}\n")
    raise TypeError(
        f"Multiple dispatch failed for '{describe(func)}'; all __torch_function__ handlers returned NotImplemented:"
        f"\n\n{''.join(asked)}\nFor more information, try re-running with TORCH_LOGS=not_implemented"
    )


def ask(a: Any, func: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
    """Call one argument's `__torch_function__`."""
    method = a.__torch_function__
    if getattr(method, "__self__", None) is a:
        warn.to_user(
            "Defining your `__torch_function__ as a plain method is deprecated and will be an error in future, "
            "please define it as a classmethod.",
            DeprecationWarning,
        )
    return method(func, kinds, args, kwargs)


def describe(func: Any) -> str:
    """The name of a function in messages."""
    return name_of(func) or f"torch.{getattr(func, '__name__', repr(func))}"


def torch_function(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`Tensor.__torch_function__`: do as usual, and make the results instances of `cls`."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    if (getattr(func, "__module__", None) or "").partition(".")[0] == "torch":
        func = own_function(func)
    with DisableTorchFunctionSubclass():
        out = func(*args, **kwargs or {})
        return out if func in unconverted() else convert(out, cls)


def own_function(func: Any) -> Any:
    """Return the function of this package for one of PyTorch's, which asks tensors that are not its own what to do.

    PyTorch's modules call its functions (`torch.nn.PairwiseDistance()` given tensors of this package). Such a function
    computes nothing with them: called again, it would ask again. Both have the same names, as pickle needs them.
    """
    home = _PACKAGE + func.__module__.replace("torch._C._nn", "torch.nn.functional").removeprefix("torch")
    try:
        return getattr(importlib.import_module(home), func.__name__)
    except (ImportError, AttributeError):
        raise TypeError(
            f"{func.__module__}.{func.__name__} is a function of PyTorch, called with tensors of torchgrad_jax, which "
            "has no function of this name: convert the tensors through NumPy"
        ) from None


def convert(value: Any, cls: type) -> Any:
    """Tensors, and those in lists and tuples, as instances of `cls`."""
    if cls is Tensor:
        return value
    if isinstance(value, Tensor):
        return value if isinstance(value, cls) else value.as_subclass(cls)
    if isinstance(value, tuple | list):
        return type(value)(convert(v, cls) for v in value)
    return value


def unconverted() -> set[Any]:
    """Functions whose results `Tensor.__torch_function__` leaves as they are."""
    properties = Tensor.__dict__
    return {properties[name].__get__ for name in ("_base", "grad", "_grad")}


def install() -> None:
    """Put the default `__torch_function__` on Tensor."""
    Tensor.__torch_function__ = classmethod(torch_function)  # type: ignore[attr-defined]


# --- what can be overridden, by name --------------------------------------------------------------

DECLARED: list[tuple[str, Any]] = []
"""Functions written by hand that can be overridden, with their namespaces."""
PARTS = {"__get__": attrgetter("fget"), "__set__": attrgetter("fset"), "__delete__": attrgetter("fdel")}
"""The functions behind a property, by the names of its accessors."""
_names: dict[Any, str] = {}


def name_of(func: Any) -> str | None:
    """The path of a public function, method or accessor of a property, or None."""
    try:
        if func not in _names:
            _names.update(_find_names())
        return _names.get(func)
    except TypeError:  # the object has no hash
        return None


def accessors(prop: property) -> dict[str, Any]:
    """Return what `__torch_function__` is given for the uses of a property, by name."""
    return {name: getattr(prop, name) for name, part in PARTS.items() if part(prop) is not None}


def _find_names() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for name, member in Tensor.__dict__.items():
        path = f"torch.Tensor.{name}"
        if isinstance(member, property):
            for access, func in accessors(member).items():
                found[func] = f"{path}.{access}"
        elif isinstance(member, types.FunctionType):
            found.setdefault(member, path)
    for space, fn in public_functions():
        found.setdefault(fn, ".".join(("torch", *([space] if space else []), public_name(space, fn))))
    return found


def public_functions() -> Iterator[tuple[str, Any]]:
    """Public functions that can be overridden, with their namespaces."""
    for space, names in NAMESPACES.items():
        yield from ((space, fn) for fn in names.values() if isinstance(function_of(fn), types.FunctionType))
    yield from ((space, shown(fn)) for space, fn in DECLARED)
