"""torch.overrides: classes and modes that take over what functions do, through `__torch_function__`.

A class or an object may define `__torch_function__(cls, func, types, args=(), kwargs=None)`; public
functions, methods, operators and properties then leave calls that involve it to that method. A
`TorchFunctionMode` sees every call made inside a `with` block.

Differs from torch: functions that torch writes in Python pass on the arguments as they were given,
where torch passes some of them by keyword with defaults filled in.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ._core.builtin_functions import function_of
from ._core.errors import warn
from ._core.signals import contextmanager, uninterrupted
from ._core.state import FUNCTION_MODE, MODES
from ._engine.memory.tensor import Tensor
from ._engine.overrides import asking as _asking, looking as _looking

__all__ = [
    "enable_reentrant_dispatch", "get_ignored_functions", "get_overridable_functions", "get_testing_overrides",
    "handle_torch_function", "has_torch_function", "is_tensor_like", "is_tensor_method_or_property",
    "redispatch_function", "resolve_name", "wrap_torch_function",
]  # fmt: skip


# --- in functions of one's own --------------------------------------------------------------------


def _asks(value: Any) -> bool:
    return _asking.overrides(type(value)) and not MODES.functions_disabled


def has_torch_function(relevant_args: Sequence[Any], /) -> bool:
    """Return whether some argument, or a mode, overrides the function that asks.

    Args:
        relevant_args: the arguments that may override it.

    Example:
        >>> import torchgrad_jax as torch
        >>> has_torch_function((torch.ones(2), 3))
        False
    """
    if not isinstance(relevant_args, Sequence):
        raise TypeError("expected a sequence")
    return has_torch_function_variadic(*relevant_args)


def has_torch_function_unary(obj: Any, /) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function_variadic(obj)


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function` with the arguments one by one."""
    if MODES.skip_function and _looking.skipping():
        return False
    return _asking.modes_active() or any(_asks(a) for a in args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let a mode or the arguments' `__torch_function__` answer a call.

    Args:
        public_api: the function that was called.
        relevant_args: the arguments that may override it.
        args: what it was called with.
        kwargs: what it was called with by keyword.

    Returns:
        The first answer that is not `NotImplemented`.

    Raises:
        TypeError: nobody answers.
    """
    found = _asking.overloaded(relevant_args, tensors=True)
    kinds = tuple(type(a) for a in found)
    where = ""
    if _asking.modes_active():
        with _asking.innermost() as mode:
            result = mode.__torch_function__(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
        where = f" nor in mode {mode}"
    for a in found:
        result = _asking.ask(a, public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: {list(kinds)}{where}"
    )


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Any], Any]:
    """A decorator that makes a function overridable.

    Args:
        dispatcher: given the function's arguments, returns those that may override it.

    Example:
        >>> @wrap_torch_function(lambda x: (x,))
        ... def double(x):
        ...     return x + x
    """

    def decorate(func: Any) -> Any:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def redispatch_function(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Call a function that was overridden without asking again, so that it does what it would have done.

    Calls inside it are overridden as ever, if it is a function of one's own.

    Args:
        func: the function, as `__torch_function__` was given it.
        types: as `__torch_function__` was given them.
        args: its arguments.
        kwargs: its keyword arguments, or None.
    """
    return _looking.skip_one(func, args, kwargs or {})


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Nothing to do here: torch hides classes below autograd during a call, and there is no such place here."""
    yield


def _get_overloaded_args(relevant_args: Iterable[Any], get_type_fn: Callable[[Any], type] | None = None) -> list[Any]:
    if get_type_fn not in (None, type):
        raise NotImplementedError("_get_overloaded_args(): get_type_fn is not supported")
    return _asking.overloaded(relevant_args, tensors=True)


# --- modes ----------------------------------------------------------------------------------------


class TorchFunctionMode:
    """Sees every overridable call made inside a `with` block, factory functions included.

    Inside `__torch_function__` the mode is off; calls go to the next outer mode.

    Example:
        >>> import torchgrad_jax as torch
        >>> class Log(TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(resolve_name(func))
        ...         return func(*args, **(kwargs or {}))
        >>> with Log():
        ...     y = torch.ones(2)
        torch.ones
    """

    inner: TorchFunctionMode

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        _looking.activate()
        MODES.own |= {"function_modes": (*MODES.function_modes, self), "bits": MODES.bits | FUNCTION_MODE}
        return self

    @uninterrupted
    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        if not MODES.function_modes:
            _pop_mode()  # which complains
        left = MODES.function_modes[:-1]
        MODES.own |= {"function_modes": left, "bits": MODES.bits & ~FUNCTION_MODE | (FUNCTION_MODE if left else 0)}

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Deprecated: an instance."""
        warn.to_user("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`")
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **kwargs or {})


def _push_mode(mode: Any) -> None:
    _looking.set_modes((*MODES.function_modes, mode))


def _pop_mode() -> Any:
    if not MODES.function_modes:
        raise RuntimeError("there is no mode to pop: the stack of function modes is empty")
    *rest, mode = MODES.function_modes
    _looking.set_modes(tuple(rest))
    return mode


_pop_mode_temporarily = _asking.innermost


def _get_current_function_mode() -> Any:
    return MODES.function_modes[-1] if MODES.function_modes else None


def _len_torch_function_stack() -> int:
    return len(MODES.function_modes)


def _get_current_function_mode_stack() -> list[Any]:
    return list(MODES.function_modes)


# --- what there is --------------------------------------------------------------------------------


def is_tensor_like(inp: Any) -> bool:
    """Return whether something is a tensor or overrides functions.

    Args:
        inp: the object in question.

    Example:
        >>> is_tensor_like(0.5)
        False
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Any) -> bool:
    """Return whether a function given to `__torch_function__` is a method of Tensor or the getter of a property.

    Args:
        func: the function.

    Example:
        >>> import torchgrad_jax as torch
        >>> is_tensor_method_or_property(torch.Tensor.add), is_tensor_method_or_property(torch.add)
        (True, False)
    """
    name = _asking.name_of(func) or ""
    return name.startswith("torch.Tensor.") and not name.endswith((".__set__", ".__delete__"))


_UNNAMED = re.compile(r"torch\.autograd\.|.*\.__delete__$")
"""Functions that can be overridden though torch has no name for them."""


def resolve_name(f: Any) -> str | None:
    """A readable name for a function given to `__torch_function__`, or None.

    Args:
        f: the function.

    Example:
        >>> import torchgrad_jax as torch
        >>> resolve_name(torch.Tensor.shape.__get__)
        'torch.Tensor.shape.__get__'
    """
    name = _asking.name_of(f)
    return None if name is None or _UNNAMED.match(name) else name


def get_default_nowrap_functions() -> set[Any]:
    """Functions whose results `Tensor.__torch_function__` does not convert to the subclass."""
    return _asking.unconverted()


def get_ignored_functions() -> set[Any]:
    """Public functions that `__torch_function__` of a class cannot override."""
    methods = {getattr(Tensor, n) for n in _looking.IGNORED if hasattr(Tensor, n)}
    unbound = _looking.FREE | _looking.FACTORIES
    return methods | {fn for _, fn in _asking.public_functions() if fn.__name__ in unbound}


def get_overridable_functions() -> dict[Any, list[Any]]:
    """Functions that can be overridden, by the module, class or property that holds them.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.add in get_overridable_functions()[torch]
        True
    """
    import torchgrad_jax as torch

    found: dict[Any, list[Any]] = defaultdict(list)
    ignored = get_ignored_functions()
    for space, fn in _asking.public_functions():
        if fn not in ignored:
            holder = functools.reduce(getattr, space.split("."), torch) if space else torch
            if fn not in found[holder]:
                found[holder].append(fn)
    for member in Tensor.__dict__.values():
        if isinstance(member, property):
            found[member].append(member.__get__)
        elif isinstance(member, types.FunctionType) and member not in ignored:
            found[Tensor].append(member)
    return found


def _signature(fn: Any) -> inspect.Signature:
    """The signature of a function, of those made from the op table too."""
    fn = function_of(fn)
    binding = getattr(fn, "binding", None)
    if binding is None:
        return inspect.signature(fn)
    P = inspect.Parameter
    parameters = [
        P(p.name, P.KEYWORD_ONLY if p.kwonly else P.POSITIONAL_OR_KEYWORD, default=p.default) for p in binding.params
    ]
    if binding.row.out:
        parameters.append(P("out", P.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)


def get_testing_overrides() -> dict[Any, Any]:
    """For each overridable function one with the same parameters that returns -1."""

    def dummy(fn: Any) -> Any:
        accessor = isinstance(getattr(fn, "__self__", None), property)
        signature = inspect.signature(lambda self: -1) if accessor else _signature(fn)

        def substitute(*args: Any, **kwargs: Any) -> int:
            signature.bind(*args, **kwargs)
            return -1

        substitute.__name__ = getattr(fn, "__name__", "substitute")
        substitute.__signature__ = signature
        return substitute

    return {fn: dummy(fn) for functions in get_overridable_functions().values() for fn in functions}
