"""`__torch_function__`: how classes and modes take over what is done to tensors.

Until a program makes a tensor of an overriding class or enters a mode, no function looks for
overrides. Then `activate` gives every public function, method and property in place a code that
looks, and keeps the code it had for the calls that nobody overrides and for the engine itself.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..._core.arrays.devices import device
from ..._core.arrays.dtypes import dtype
from ..._core.arrays.formats import memory_format
from ..._core.arrays.shapes import Size
from ..._core.errors import warn
from ..._core.state import FUNCTION_MODE, MODES
from ..graph.record import PLAIN
from ..memory.tensor import Tensor
from ..surface import public_name

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


def set_modes(stack: tuple[Any, ...]) -> None:
    """Replace this thread's stack of function modes; the bit keeps shortcuts that call no function from being taken."""
    if stack:
        activate()
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

    def __exit__(self, *exc: object) -> None:
        bit = FUNCTION_MODE if self.before else 0
        MODES.own |= {"function_modes": self.before, "bits": MODES.bits & ~FUNCTION_MODE | bit}


def innermost() -> only_modes:
    """Inside, the mode on top of the stack is off it."""
    assert MODES.function_modes
    return only_modes(MODES.function_modes[:-1])


def modes_active() -> bool:
    """Whether some mode sees the calls of this thread."""
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
    """Whether a class has its own idea of functions."""
    if cls in ORDINARY:
        return False
    found = getattr(cls, "__torch_function__", None)
    if found is None or found is disabled_torch_function_impl:
        return False
    # Tensors of torch itself bring torch's defaults, which would call us back for ever.
    name, home = getattr(found, "__name__", ""), getattr(found, "__module__", "")
    return name != "_disabled_torch_function_impl" and home != "torch._tensor"


def overridden(args: Iterable[Any]) -> bool:
    """Whether some argument's class has its own idea of functions."""
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


def _flat(args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Any]:
    for a in (*args, *kwargs.values()):
        if a.__class__ is list or a.__class__ is tuple:
            yield from a
        else:
            yield a


def foreign(args: Sequence[Any]) -> bool:
    """Whether some argument is no tensor and overrides functions all the same."""
    if MODES.functions_disabled:
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
    seen = getattr(func, "seen", None)
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


def name_of(func: Any) -> str | None:
    """The path of a public function, method or accessor of a property, or None."""
    try:
        if func not in _names:
            _names.update(_find_names())
        return _names.get(func)
    except TypeError:  # the object has no hash
        return None


def accessors(prop: property) -> dict[str, Any]:
    """What `__torch_function__` is given for the uses of a property, by name."""
    given = {"__get__": prop.fget, "__set__": prop.fset, "__delete__": prop.fdel}
    return {name: getattr(prop, name) for name, part in given.items() if part is not None}


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
    for source in SOURCES:
        for space, fn in source():
            if isinstance(fn, types.FunctionType):
                yield space, fn


def handle(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Answer a call that met an overriding argument where functions do not look for them."""
    if not ACTIVE:
        activate()
        return func(*args, **kwargs)  # the function looks for overrides by now
    return dispatch(func, overloaded(_flat(args, kwargs)), args, kwargs)


def torch_function(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`Tensor.__torch_function__`: do as usual, and make the results instances of `cls`."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        out = func(*args, **kwargs or {})
        return out if func in unconverted() else convert(out, cls)


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


# --- looking for overrides ------------------------------------------------------------------------

ACTIVE = False
"""Whether public functions look for overrides."""
SOURCES: list[Callable[[], Iterable[tuple[str, Any]]]] = []
"""Each gives the public functions of some part of the package with their namespaces."""
REPLACED: list[Callable[[dict[Any, Any]], None]] = []
"""Told, when functions begin to look, which function now does what each did before."""
_names: dict[Any, str] = {}
_plain: dict[Any, Any] = {}

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


# The code that public functions get. `activate` puts the real values in the place of the numbers: a
# function keeps its globals, whose names are not for these to use. A function also keeps the number of
# variables that it closes over, hence the names in a branch that is never taken.
_LOOK = """
def closing_over({names}):
    def look(*args, **kwargs):
        if False: ({names})
        modes, ordinary, override, plain = 0x700001, 0x700002, 0x700003, 0x700004
        if modes.function_modes or kwargs:
            return override(args, kwargs)
        for a in args:
            if a.__class__ not in ordinary:
                return override(args, kwargs)
        return plain(*args)
    return look
"""
# The same for what takes a tensor and nothing else, such as the getters of properties.
_LOOK_AT_SELF = """
def closing_over({names}):
    def look(self):
        if False: ({names})
        modes, ordinary, override, plain = 0x700001, 0x700002, 0x700003, 0x700004
        if modes.function_modes or self.__class__ not in ordinary:
            return override((self,), {{}})
        return plain(self)
    return look
"""


@functools.cache
def _code(alone: bool, closed: int) -> types.CodeType:
    names = ", ".join(f"v{i}" for i in range(closed))
    space: dict[str, Any] = {}
    source = (_LOOK_AT_SELF if alone else _LOOK).format(names=names)
    exec(compile(source, f"{__file__}:look", "exec"), space)  # tracebacks show no line of this file
    return space["closing_over"](*[None] * closed).__code__


def _with_values(code: types.CodeType, values: dict[int, Any], name: str) -> types.CodeType:
    def put(const: Any) -> Any:
        if const.__class__ is tuple:
            return tuple(put(c) for c in const)
        return values.get(const, const) if const.__class__ is int else const

    return code.replace(co_consts=tuple(put(c) for c in code.co_consts), co_name=name)


def _never(func: Any) -> bool:
    """Of most modes: whether a call is the same with the mode as without, but for what it calls."""
    return False


def _overriding(func: Any, plain: Any, kind: str) -> Callable[..., Any]:
    """What a function does with arguments that may override it."""

    def override(args: Any, kwargs: Any) -> Any:
        found = () if kind == "factory" else overloaded(_flat(args, kwargs))
        if not found:
            modes = MODES.function_modes
            if not modes_active():
                return plain(*args, **kwargs)
            if len(modes) == 1 and getattr(modes[0], "passes", _never)(func):
                if not hasattr(func, "binding"):
                    return plain(*args, **kwargs)
                with innermost():  # an operator calls no other function
                    return plain(*args, **kwargs)
        return dispatch(func, found, args, kwargs)

    def operator(args: Any, kwargs: Any) -> Any:
        try:
            return override(args, kwargs)
        except TypeError:
            if overloaded(args) or modes_active():
                return NotImplemented  # Python then asks the other operand, as with torch
            raise

    return operator if kind == "operator" else override


_STARS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def copied(fn: Any, space: Any = None, closure: Any = None) -> Any:
    """Another function object with the same code."""
    space, closure = fn.__globals__ if space is None else space, closure or fn.__closure__
    out = types.FunctionType(fn.__code__, space, fn.__name__, fn.__defaults__, closure)
    out.__kwdefaults__ = fn.__kwdefaults__
    out.__qualname__, out.__module__, out.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
    out.__annotations__ = fn.__annotations__
    out.__dict__.update(fn.__dict__)
    return out


def twin(fn: Any) -> Any:
    """A copy that gets its code when `fn` does, where that is written at the first call."""
    if fn.__globals__.get("_me") is not fn:
        return copied(fn)
    space = dict(fn.__globals__)  # the copy has its own globals, in which its name means itself
    out = space["_me"] = copied(fn, space)
    twins = fn.__globals__.setdefault("_twins", [fn])
    twins.append(out)
    space["_twins"] = twins
    return out


def as_method(fn: Any, name: str) -> Any:
    """A function that is put on Tensor, which complains of its arguments as one of its methods."""
    form = getattr(fn, "form", None)
    if form is None:
        return fn
    return form.under(fn, f"Tensor.{name}")


def own(member: Any, name: str | None = None) -> Any:
    """A copy of a function or property for Tensor, apart from the one that the engine calls."""
    if isinstance(member, property):
        parts = [f and copied(f) for f in (member.fget, member.fset, member.fdel)]
        return property(*parts, doc=member.__doc__)
    return renamed(copied(member), name) if isinstance(member, types.FunctionType) else member


def renamed(fn: Any, name: str | None) -> Any:
    """A copy of a function under the name that it has on Tensor."""
    if name is not None and fn.__name__ != name:
        if not fn.__qualname__.startswith("Tensor."):
            fn.__qualname__ = name
        fn.__name__ = name
    return fn


def _divert(fn: Any, func: Any, kind: str) -> Any:
    """Make `fn` look for overrides in place; returns a function that does what it did before."""
    plain = copied(fn)
    space = fn.__globals__
    if space.get("_me") is fn:
        space["_me"] = plain
    if fn in space.get("_twins", ()):
        space["_twins"][:] = [plain if t is fn else t for t in space["_twins"]]
    values = {0x700001: MODES, 0x700002: ORDINARY, 0x700003: _overriding(func, plain, kind), 0x700004: plain}
    code = fn.__code__
    alone = code.co_argcount == 1 and not code.co_flags & _STARS and not fn.__kwdefaults__
    fn.__code__ = _with_values(_code(alone, len(code.co_freevars)), values, fn.__name__)
    fn.__defaults__ = fn.__kwdefaults__ = None
    fn.__dict__.setdefault("__wrapped__", plain)
    return plain


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
            parts = {"__get__": member.fget, "__set__": member.fset, "__delete__": member.fdel}
            for access, part in parts.items():
                if isinstance(part, types.FunctionType):
                    func = getattr(member, access)
                    _plain[func] = _plain[part] = _divert(part, func, "function")
        elif isinstance(member, types.FunctionType) and member not in _plain:
            func = Tensor.__dict__.get(OPERATOR_METHODS.get(name, name), member)
            _plain[member] = _divert(member, func, "operator" if name in _BINARY else "function")
    for _, fn in public_functions():
        if fn not in _plain and fn.__name__ not in FREE:
            _plain[fn] = _divert(fn, fn, "factory" if fn.__name__ in FACTORIES else "function")
    for callback in REPLACED:
        callback(_plain)


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
    """Whether the question that is about to be asked is the one to skip; answers True once."""
    skip, MODES.skip_function = MODES.skip_function, False
    return skip


def public(space: str = "") -> Callable[[Any], Any]:
    """Declare a function written by hand as one that can be overridden."""

    def declare(fn: Any) -> Any:
        SOURCES.append(lambda: [(space, fn)])
        if ACTIVE:
            _plain[fn] = _divert(fn, fn, "function")
        return fn

    return declare


def install() -> None:
    """Put the default `__torch_function__` on Tensor."""
    Tensor.__torch_function__ = classmethod(torch_function)  # type: ignore[attr-defined]
