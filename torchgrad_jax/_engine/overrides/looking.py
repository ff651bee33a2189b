"""Public functions that look for overrides, and what they are called where somebody overrides them.

Until a program makes a tensor of an overriding class or enters a mode, no function looks. Then `activate` gives every
public function, method and accessor of a property code that looks, in place: they stay the objects that
programs keep in their dictionaries. A handler is given the arguments as the caller wrote them, which only a function
of ``(*args, **kwargs)`` knows; the code that a function had before costs less, and goes on in a copy of it.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.builtin_functions import function_of, shown
from ..._core.state import MODES
from ..._core.written_code import compiled
from ..memory.tensor import Tensor
from . import asking
from .asking import (
    ALL_DISABLED,
    DECLARED,
    ORDINARY,
    SelectiveMode,
    dispatch,
    in_sequences,
    modes_active,
    overloaded,
    overrides,
)

ACTIVE = False
"""Whether public functions look for overrides."""
_plain: dict[Any, Any] = {}
"""What each function that looks did before; accessors of properties as they are given to handlers, too."""

# --- what can be overridden -----------------------------------------------------------------------

IGNORED = frozenset({
    "__class__", "__dir__", "__hash__", "__init_subclass__", "__iter__", "__new__", "__setstate__", "__subclasshook__",
    "__torch_dispatch__", "__torch_function__", "__jax_array__", "__getstate__",
    "_make_subclass", "_make_wrapper_subclass", "_reduce_ex_internal", "as_subclass", "new",
})  # fmt: skip
"""Methods that nobody overrides."""
FREE = frozenset({"is_tensor", "is_storage", "is_grad_enabled", "is_inference_mode_enabled", "is_warn_always_enabled",
                  "get_default_dtype", "set_default_dtype", "get_default_device", "set_default_device", "manual_seed",
                  "seed", "initial_seed", "get_rng_state", "set_rng_state", "from_numpy", "set_printoptions",
                  "are_deterministic_algorithms_enabled", "use_deterministic_algorithms", "typename",
                  "is_deterministic_algorithms_warn_only_enabled", "get_num_threads", "set_num_threads"})  # fmt: skip
"""Functions that nobody overrides."""
FACTORIES = frozenset({"tensor", "as_tensor", "asarray"})
"""Functions that take any object as data, so that only modes override them."""

# Operators that are another name of a method, which is what `__torch_function__` is given.
_SPELLED = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
}
OPERATOR_METHODS: dict[str, str] = {
    **{f"__{k}__": v for k, v in _SPELLED.items()},
    **{f"__i{k}__": f"{v}_" for k, v in _SPELLED.items() if k != "matmul"},
    "__ifloordiv__": "floor_divide_",
    "__radd__": "add",
    "__rmul__": "mul",
    "__rtruediv__": "__rdiv__",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
    "__neg__": "neg",
    "__pos__": "positive",
    "__abs__": "abs",
}
_BINARY = frozenset(
    f"__{prefix}{k}__"
    for prefix in ("", "r", "i")
    for k in (*_SPELLED, "floordiv", "and", "or", "xor", "lshift", "rshift")
) | {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}


# --- functions that look --------------------------------------------------------------------------


_LOOKING = """
def closing_over({names}):
    def looking({parameters}):
        if False: ({names})
        return _look({given})
    return looking
"""
"""A function keeps the number of variables that it closes over, and a debugger that shows a frame reads them all: hence
the names in a branch that is never taken."""


@functools.cache
def _looking(getter: bool, closed: int) -> types.CodeType:
    """The code of a function that looks and closes over so many variables."""
    names = ", ".join(f"v{i}" for i in range(closed))
    parameters, given = ("self, *, _look", "self") if getter else ("*args, _look, **kwargs", "args, kwargs")
    text = _LOOKING.format(names=names, parameters=parameters, given=given)
    return compiled(text, {}, "closing_over", __file__)(*[None] * closed).__code__


def _look(func: Any, plain: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """What a function does once it looks: ask the classes that override `func`, or do what `plain` does."""
    asked: tuple[str, ...] | None = getattr(plain, "asked", None)

    def look(args: Any, kwargs: Any) -> Any:
        found: Sequence[Any] = ()
        for a in (*args, *kwargs.values()) if kwargs else args:
            if a.__class__ not in ORDINARY:
                of = (args, kwargs) if asked is None else (args[: len(asked)], {n: kwargs.get(n) for n in asked})
                found = () if kind == "factory" else overloaded(in_sequences(*of))
                break
        if not found:
            modes = MODES.function_modes
            if not modes or MODES.functions_disabled == ALL_DISABLED:
                return plain(*args, **kwargs)
            if len(modes) == 1 and isinstance(modes[0], SelectiveMode):
                return modes[0].answer(func, plain, args, kwargs)
        return dispatch(func, found, args, kwargs)

    def look_as_operator(args: Any, kwargs: Any) -> Any:
        try:
            return look(args, kwargs)
        except TypeError:
            if overloaded(args) or modes_active():
                return NotImplemented  # Python then asks the other operand, as with torch
            raise

    def look_at_self(self: Any) -> Any:
        if self.__class__ in ORDINARY and not MODES.function_modes:
            return plain(self)
        return look((self,), {})

    return look_at_self if kind == "getter" else look_as_operator if kind == "operator" else look


def _watch(fn: Any, func: Any, kind: str = "function") -> None:
    """Make a function look for overrides, in place; handlers are given `func`."""
    fn = function_of(fn)
    if not isinstance(fn, types.FunctionType) or fn in _plain:
        return
    plain = _plain[fn] = _plain[shown(fn)] = _copied(fn)
    if fn.__globals__.get("_me") is fn:  # a row's: its own globals hold it
        fn.__globals__["_me"] = plain
    # Another thread may call the function in between.
    fn.__kwdefaults__ = {**(fn.__kwdefaults__ or {}), "_look": _look(func, plain, kind)}
    fn.__code__ = _looking(kind == "getter", len(fn.__code__.co_freevars)).replace(co_name=fn.__name__)
    fn.__defaults__ = None
    fn.__dict__.setdefault("__wrapped__", plain)


def activate() -> None:
    """From now on public functions look for overrides."""
    global ACTIVE
    if ACTIVE:
        return
    ACTIVE = True
    for name, member in list(Tensor.__dict__.items()):
        if name in IGNORED:
            continue
        if isinstance(member, property):
            for access, func in asking.accessors(member).items():
                part: Any = asking.PARTS[access](member)
                _watch(part, func, "getter" if access == "__get__" else "function")
                _plain[func] = _plain.get(part, part)
        else:
            func = Tensor.__dict__.get(OPERATOR_METHODS.get(name, name), member)
            _watch(member, func, "operator" if name in _BINARY else "function")
    for _, fn in asking.public_functions():
        if fn.__name__ not in FREE:
            _watch(fn, fn, "factory" if fn.__name__ in FACTORIES else "function")


def foreign(args: Sequence[Any]) -> bool:
    """Return whether some argument is no tensor and overrides functions, and no function looks for that yet."""
    if ACTIVE or MODES.functions_disabled:
        return False
    for a in args:
        kind = a.__class__
        if kind in ORDINARY:
            continue
        if kind is list or kind is tuple:
            if any(x.__class__ not in ORDINARY and not isinstance(x, Tensor) and overrides(x.__class__) for x in a):
                return True
        elif not isinstance(a, Tensor) and overrides(kind):
            return True
    return False


def begin(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Answer a call that met a foreign argument: functions look for overrides from now on, and this one does."""
    activate()
    return func(*args, **kwargs)


def set_modes(stack: tuple[Any, ...]) -> None:
    """Replace this thread's stack of function modes, which public functions look for from now on."""
    if stack:
        activate()
    asking.replace_modes(stack)


def skip_one(func: Any, args: Any, kwargs: Any) -> Any:
    """Call a function without asking anybody about the call itself; calls inside it are overridden as ever."""
    plain = _plain.get(func)
    if plain is not None:
        return plain(*args, **kwargs)
    before, MODES.skip_function = MODES.skip_function, True
    try:
        return func(*args, **kwargs)
    finally:
        MODES.skip_function = before


def skipping() -> bool:
    """Return whether the question that is about to be asked is the one to skip; answers True once."""
    skip, MODES.skip_function = MODES.skip_function, False
    return skip


def public(space: str = "", asked: tuple[str, ...] | None = None) -> Callable[[Any], Any]:
    """Declare a function written by hand as one that can be overridden.

    Args:
        space: the namespace that it is in.
        asked: its first parameters, if only the arguments for these may override it.
    """

    def declare(fn: Any) -> Any:
        if asked is not None:
            fn.asked = asked
        DECLARED.append((space, fn))
        if ACTIVE:
            _watch(fn, fn)
        return fn

    return declare


# --- copies ---------------------------------------------------------------------------------------


def _copied(fn: Any) -> Any:
    """Another function object with the same code."""
    out = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    out.__kwdefaults__ = fn.__kwdefaults__
    out.__qualname__, out.__module__, out.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
    out.__annotations__ = fn.__annotations__
    out.__dict__.update(fn.__dict__)
    return out


def own(member: Any, name: str | None = None) -> Any:
    """A copy of a function or property for Tensor, apart from the one that the engine calls."""
    if isinstance(member, property):
        parts = [f and _copied(f) for f in (member.fget, member.fset, member.fdel)]
        return property(*parts, doc=member.__doc__)
    return renamed(_copied(member), name) if isinstance(member, types.FunctionType) else member


def renamed(fn: Any, name: str | None) -> Any:
    """A function that nobody else has, under the name that it has on Tensor."""
    if name is not None and fn.__name__ != name:
        if not fn.__qualname__.startswith("Tensor."):
            fn.__qualname__ = name
        fn.__name__ = name
    return fn
