"""Python functions over tensors, registered under torch's names with torch's conventions."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax.sharding import Sharding

from ..._core import events
from ..._core.arrays import dtypes, shapes
from ..._core.state import MODES, OBSERVED
from ..._ops.registry import Out
from ..graph.record import PLAIN
from ..memory.tensor import Tensor
from ..surface import COMPOSITES, METHODS, NAMESPACES, OPERATORS, enter, named
from .arguments import ALIASES, as_int, type_name
from .out import write_out
from .overrides import foreign, handle
from .parser import raise_if_any, torch_complaint

_NO_NAMES: Mapping[str, str] = types.MappingProxyType({})


def composite(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    method: bool = True,
    function: bool = True,
    namespace: str = "",
    aliases: Sequence[str] = (),
    inplace: Any = None,
    operator: str | None = None,
    out: bool | Out = False,
    known_as: Mapping[str, str] = _NO_NAMES,
) -> Any:
    """Register a Python function over tensors under torch's name and signature.

    `out` is whether it accepts ``out=``; True stands for `Out.EXACT`. `known_as` has further names of parameters: torch
    has several overloads where there is one function here.
    """
    if fn is None:
        return lambda f: composite(
            f,
            name=name,
            method=method,
            function=function,
            namespace=namespace,
            aliases=aliases,
            inplace=inplace,
            operator=operator,
            out=out,
            known_as=known_as,
        )
    label = name or fn.__name__
    prefix = f"{namespace}_" if namespace in ("fft", "linalg", "special") else ""
    made = {
        n: _with_conventions(
            _renamed(fn, n),
            n,
            bool(out),
            prefix + label,
            prefix + n,
            known_as,
            f"{namespace or ('torch' if function else 'Tensor')}.{n}",
        )
        for n in (label, *aliases)
    }
    public = made[label]
    for n, each in made.items():
        each.out = out
        if function:
            shown = _of_sequences(each) if method and each.star else each
            enter(NAMESPACES.setdefault(namespace, {}), n, named(shown, namespace, n))
        if method and not namespace:
            enter(METHODS, n, each)
        if callable(inplace):
            short = n + "_"
            names = (short, False, short, short, _NO_NAMES, f"Tensor.{short}")
            enter(METHODS, short, _with_conventions(_renamed(inplace, short), *names))
    if operator:
        OPERATORS[operator] = public
    COMPOSITES[f"{namespace}.{label}" if namespace else label] = public
    return public


Ints = Sequence[int]
"""A parameter that takes one sequence of ints, no int alone."""

_NONE = type(None)
_CLASSES = {"int": {int}, "bool": {bool}, "float": {float, int}, "str": {str}}
_CLASSES["Ints"] = _SEQUENCES = {tuple, list, shapes.Size}
_CLASSES.update({f"{kind} | None": {*taken, _NONE} for kind, taken in _CLASSES.items()})
"""What an argument is nearly always, by its annotation; of others the parser is asked."""
_ORDINARY = frozenset({Tensor, int, float, bool, complex, str, type(None), slice, dtypes.dtype})


def parameter_names(fn: Any) -> tuple[Sequence[str], bool]:
    """Names of the parameters, and whether there is a ``**kwargs``; `inspect.signature` takes ten times as long."""
    code = inspect.unwrap(fn).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], bool(code.co_flags & inspect.CO_VARKEYWORDS)


def _renamed(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function that shows another name."""
    if not isinstance(fn, types.FunctionType) or fn.__qualname__ == name:
        return fn
    out = types.FunctionType(fn.__code__, fn.__globals__, name, fn.__defaults__, fn.__closure__)
    functools.update_wrapper(out, fn, ("__module__", "__doc__", "__annotations__"))
    out.__kwdefaults__ = fn.__kwdefaults__
    out.__qualname__ = name
    return out


class _Conventions:
    """How a composition takes its arguments: numpy's names for them, `out`, and which classes are expected where."""

    def __init__(
        self, fn: Callable[..., Any], out: bool, said: str, known_as: Mapping[str, str], torch_name: str
    ) -> None:
        code, kinds = fn.__code__, fn.__annotations__
        names, self.wild = parameter_names(fn)
        self.fn, self.said, self.torch_name = fn, said, torch_name
        varargs = code.co_flags & inspect.CO_VARARGS
        self.star = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if varargs else None
        self.adds_out = out and "out" not in names
        self.first = names[0] if names and kinds.get(names[0]) in ("Tensor", Tensor) else None
        self.alias = {k: v for k, v in ALIASES.items() if v in names and k not in names}
        self.alias.update(known_as)
        self.classes = {n: _CLASSES[k] for n, k in kinds.items() if k in _CLASSES and n in names}
        self.by_position = [(i, self.classes[n]) for i, n in enumerate(names[: code.co_argcount]) if n in self.classes]

    def rename(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Give arguments in `kwargs` the names that the function knows; those by position, maybe with a size more."""
        alias, star, first = self.alias, self.star, self.first
        for k in [k for k in kwargs if k in alias]:
            if alias[k] in kwargs:
                raise_complaint(self.torch_name, self.said, args, kwargs)
                raise TypeError(f"{self.said}() got multiple values for argument '{alias[k]}'")
            kwargs[alias[k]] = kwargs.pop(k)
        if star in kwargs:  # a size given by its name
            if kwargs[star].__class__ not in _SEQUENCES:
                raise_complaint(self.torch_name, self.said, args, kwargs)
            before = (kwargs.pop(first),) if not args and first in kwargs else args
            args = (*before, kwargs.pop(star))
        return args

    def write_out(self, public: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any) -> Any:
        """Call the function and write its result into `target`."""
        try:
            return composite_out(public, args, kwargs, target)
        except Exception:
            raise_complaint(self.torch_name, self.said, args, {**kwargs, "out": target})
            raise

    def refuse_first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Complain if the first argument is no tensor, and nothing that might stand for one."""
        if isinstance(args[0], Tensor) or hasattr(type(args[0]), "__torch_function__"):
            return
        raise_complaint(self.torch_name, self.said, args, kwargs)
        raise TypeError(f"{self.said}(): argument '{self.first}' (position 1) must be Tensor, not {type_name(args[0])}")

    def odd(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether some argument is of a class that is not expected in its place."""
        odd, count, classes = False, len(args), self.classes
        for i, taken in self.by_position:
            if i < count and args[i].__class__ not in taken:
                odd = True
        if kwargs:
            for k, v in kwargs.items():
                if k in classes and v.__class__ not in classes[k]:
                    odd = True
        return odd

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether classes alone say that the function takes these arguments: no sequence, of which items count."""
        given = (*args, *kwargs.values())
        return not self.wild and all(a.__class__ in _ORDINARY or a.__class__ in PLAIN for a in given)

    def explain(self, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> None:
        """The function failed: raise what torch says of its arguments, if it is about them."""
        raise_complaint(self.torch_name, self.said, args, kwargs)
        if isinstance(error, AttributeError | TypeError):
            raise_if_any(_complaint(self.fn, self.said, args, kwargs, error))


def _with_conventions(
    fn: Callable[..., Any], label: str, out: bool, event: str, said: str, known_as: Mapping[str, str], torch_name: str
) -> Callable[..., Any]:
    """Add numpy's argument names, overrides, and out= to a composition; `said` is its name in messages.

    `torch_name` is its full name, by which torch's overloads are known.
    """
    takes = _Conventions(fn, out, said, known_as, torch_name)
    wild, first = takes.wild, takes.first
    fitting: set[Any] = set()
    """Classes of arguments, and names of those that are named, that the function takes as they come."""

    @functools.wraps(fn)
    def public(*args: Any, **kwargs: Any) -> Any:
        kinds = (*map(type, args), *kwargs, *map(type, kwargs.values())) if kwargs else (*map(type, args),)
        if kinds not in fitting:
            if kwargs and not wild:
                args = takes.rename(args, kwargs)
                if takes.adds_out and (target := kwargs.pop("out", None)) is not None:
                    return takes.write_out(public, args, kwargs, target)
            if first is not None and args and args[0].__class__ not in PLAIN:
                takes.refuse_first(args, kwargs)
            for a in args:
                if a.__class__ not in _ORDINARY and a.__class__ not in PLAIN and foreign((a,)):
                    return handle(public, args, kwargs)
            if takes.odd(args, kwargs):
                raise_complaint(takes.torch_name, said, args, kwargs)
                raise_if_any(_no_real_number(fn, said, args, kwargs))
            elif kinds == (*map(type, args), *kwargs, *map(type, kwargs.values())) and takes.fits(args, kwargs):
                fitting.add(kinds)
        if MODES.bits & OBSERVED and MODES.observers:
            given = (*args, *kwargs.values())
            return events.op(event, "composite", given, lambda: fn(*args, **kwargs))
        try:
            return fn(*args, **kwargs)
        except Exception as e:
            takes.explain(args, kwargs, e)
            raise

    public.__name__ = public.__qualname__ = label
    public.__module__ = "torchgrad_jax"
    public.takes_out = takes.adds_out  # type: ignore[attr-defined] - for the stubs
    public.star, public.torch_name, public.said = takes.star, torch_name, said  # type: ignore[attr-defined]
    return public


def _of_sequences(public: Any) -> Any:
    """The function beside a method that takes several ints: it takes them as one sequence only."""

    @functools.wraps(public)
    def function(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 2 or (len(args) == 2 and args[1].__class__ not in _SEQUENCES):
            raise_complaint(public.torch_name, public.said, args, kwargs)
        return public(*args, **kwargs)

    return function


def raise_complaint(torch_name: str, said: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise what torch says of the arguments, if it does."""
    if any(isinstance(a, Sharding) for a in (*args, *kwargs.values())):
        return  # torch has no such function
    raise_if_any(torch_complaint(torch_name, said, args, kwargs))


_TAKES = {"Tensor": (lambda v: isinstance(v, Tensor)), "int": (lambda v: as_int(v) is not None)}
"""What an argument has to be, by its annotation."""


def _complaint(
    fn: Callable[..., Any], label: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> TypeError | None:
    """What torch says of an argument of the wrong type, which a composition finds out when it uses it."""
    about = getattr(error, "about", None)
    if about is None and isinstance(error, AttributeError) and error.name != "_m":
        return None
    given = [*zip(fn.__code__.co_varnames, args), *kwargs.items()]
    for i, (name, value) in enumerate(given):
        at = f" (position {i + 1})" if i < len(args) else ""
        if about is not None:
            if value is about[0]:
                return TypeError(f"{label}(): argument '{name}'{at} {about[1]}")
            continue
        kind, _, optional = str(fn.__annotations__.get(name)).partition(" | ")
        takes = _TAKES.get(kind)
        if takes is None or optional not in ("", "None") or (value is None and optional):
            continue
        if not takes(value):
            return TypeError(f"{label}(): argument '{name}'{at} must be {kind}, not {type_name(value)}")
    return None


def _no_real_number(
    fn: Callable[..., Any], label: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """The complaint about a complex number or a text in the place of a float, with which NumPy would compute."""
    for i, (name, value) in enumerate([*zip(fn.__code__.co_varnames, args), *kwargs.items()]):
        kind = str(fn.__annotations__.get(name)).partition(" | ")[0]
        if kind == "float" and isinstance(value, complex | str):
            at = f" (position {i + 1})" if i < len(args) else ""
            return TypeError(f"{label}(): argument '{name}'{at} must be float, not {type_name(value)}")
    return None


def composite_out(fn: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Call a composition and write its result into `out`."""
    names = [f"_{i}" for i in range(len(args))]

    def call(**named: Any) -> Any:
        return fn(*[named[n] for n in names], **kwargs)

    call.__name__, call.out = fn.__name__, fn.out
    return write_out(call, args, names, out)
