"""Python functions over tensors, registered under torch's names with torch's conventions."""

from __future__ import annotations

import copy
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..._core import events
from ..._core.arrays import shapes
from ..._core.state import MODES, OBSERVED
from ..._ops.registry import Out
from ..memory.tensor import Tensor
from ..overrides.asking import ORDINARY
from ..overrides.looking import foreign
from ..surface import COMPOSITES, METHODS, NAMESPACES, OPERATORS, PREFIXED, enter as enter_name, named
from . import compared
from .arguments import KINDS, NUMPY_NAMES, as_int, type_name
from .enter import Form, enter
from .parser import raise_if_any

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
        options = {k: v for k, v in locals().items() if k != "fn"}
        return functools.partial(composite, **options)
    label = name or fn.__name__
    prefix = f"{namespace}_" if namespace in PREFIXED else ""
    space = namespace or ("torch" if function else "Tensor")

    def made(of: Any, n: str, event: str, where: str, *rules: Any) -> Any:
        out, names = rules or (False, _NO_NAMES)
        return Composed(_renamed(of, n), out, prefix + event, prefix + n, names, where).public()

    shown = {n: made(fn, n, label, f"{space}.{n}", out, known_as) for n in (label, *aliases)}
    public = shown[label]
    for n, each in shown.items():
        if function:
            alone = _of_sequences(each) if method and each.form.star else each
            enter_name(NAMESPACES.setdefault(namespace, {}), n, named(alone, namespace, n))
        if method and not namespace:
            enter_name(METHODS, n, each)
        if callable(inplace):
            enter_name(METHODS, f"{n}_", made(inplace, f"{n}_", f"{n}_", f"Tensor.{n}_"))
    if operator:
        OPERATORS[operator] = public
    COMPOSITES[f"{namespace}.{label}" if namespace else label] = public
    return public


Ints = Sequence[int]
"""A parameter that takes one sequence of ints, no int alone."""

_SEQUENCES = frozenset((tuple, list, shapes.Size))
_CLASSES = {"Ints": _SEQUENCES} | {name: kind.classes for name, kind in KINDS.items() if kind.classes}
_CLASSES |= {f"{name} | None": classes | {type(None)} for name, classes in _CLASSES.items()}
"""What an argument is nearly always, by its annotation; of others the parser is asked."""


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


class Composed(Form):
    """A function that is made of others: its arguments come as the caller gave them."""

    __slots__ = ("adds_out", "alias", "by_position", "classes", "event", "first", "fitting", "fn", "star", "wild")

    def __init__(
        self, fn: Callable[..., Any], out: bool | Out, event: str, said: str, known_as: Mapping[str, str], where: str
    ) -> None:
        code, kinds = fn.__code__, fn.__annotations__
        names, self.wild = parameter_names(fn)
        self.fn, self.event, self.row, self.said, self.where, self.out = fn, event, None, said, where, out
        self.overridable = True
        varargs = code.co_flags & inspect.CO_VARARGS
        self.star = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if varargs else None
        self.adds_out = bool(out) and "out" not in names
        self.first = names[0] if names and kinds.get(names[0]) == "Tensor" else None
        self.alias = {k: v for k, v in NUMPY_NAMES.items() if v in names and k not in names}
        self.alias.update(known_as)
        self.classes = {n: _CLASSES[k] for n, k in kinds.items() if k in _CLASSES and n in names}
        self.by_position = [(i, self.classes[n]) for i, n in enumerate(names[: code.co_argcount]) if n in self.classes]
        self.fitting: dict[Any, bool] = {}
        """Classes of arguments, and names of those that are named, that the function takes as they come; whether there
        are sequences among them, whose items may override the function."""

    def public(self) -> Any:
        """The function that users call."""
        fitting, alias, form = self.fitting, self.alias, self
        fn = compared.compare_composite(self) if compared.CHECKING else self.fn

        @functools.wraps(self.fn)
        def public(*args: Any, **kwargs: Any) -> Any:
            kinds = (*map(type, args), *kwargs, *map(type, kwargs.values())) if kwargs else (*map(type, args),)
            lists = fitting.get(kinds, None)
            if lists is None and kwargs and alias.keys() & kwargs:
                own = {alias.get(k, k): v for k, v in kwargs.items()}
                if len(own) == len(kwargs) and (*map(type, args), *own, *map(type, own.values())) in fitting:
                    return public(*args, **own)
            if lists is None or (lists and foreign((*args, *kwargs.values()))) or MODES.bits & OBSERVED:
                return enter(public, args, kwargs)
            try:
                return fn(*args, **kwargs)
            except Exception as error:
                form.explain(args, kwargs, error)
                raise

        public.__module__ = "torchgrad_jax"
        public.form = form  # type: ignore[attr-defined]
        return public

    def under(self, public: Any, where: str) -> Any:
        """Another function, whose overloads torch knows by this name."""
        form = copy.copy(self)
        form.where = where
        out = form.public()
        out.__name__, out.__qualname__, out.__module__ = public.__name__, public.__qualname__, public.__module__
        return out

    def named(self, args: Any, kwargs: Any, more: Any, out: Any) -> tuple[Any, Any, Any]:
        """Arguments by the names that the function knows, a size among those by position; and `out`."""
        if self.wild:
            return args, kwargs, None
        alias, star, first = self.alias, self.star, self.first
        for k in [k for k in kwargs if k in alias]:
            if alias[k] in kwargs:
                self.complain(args, kwargs)
                raise TypeError(f"{self.said}() got multiple values for argument '{alias[k]}'")
            kwargs[alias[k]] = kwargs.pop(k)
        if star in kwargs:  # a size given by its name
            if kwargs[star].__class__ not in _SEQUENCES:
                self.complain(args, kwargs)
            before = (kwargs.pop(first),) if not args and first in kwargs else args
            args = (*before, kwargs.pop(star))
        return args, kwargs, kwargs.pop("out", None) if self.adds_out else None

    def answer(self, args: Any, kwargs: Any) -> Any:
        """Call the function, after a look at the classes of its arguments."""
        self.look(args, kwargs)
        fn = self.fn
        if MODES.bits & OBSERVED and MODES.observers:
            return events.op(self.event, "composite", (*args, *kwargs.values()), lambda: fn(*args, **kwargs))
        return fn(*args, **kwargs)

    def look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Ask torch's parser about arguments that look odd; remember classes that do not."""
        first = args[0] if args and self.first is not None else self
        if first is not self and not isinstance(first, Tensor) and not hasattr(type(first), "__torch_function__"):
            self.complain(args, kwargs)
            raise_if_any(self._complaint(args[:1], {}, _no_tensor_or_int))
        count, classes = len(args), self.classes
        odd = any(i < count and args[i].__class__ not in taken for i, taken in self.by_position)
        if odd or any(k in classes and v.__class__ not in classes[k] for k, v in kwargs.items()):
            self.complain(args, kwargs)
            raise_if_any(self._complaint(args, kwargs, _no_real_number))
        elif not self.wild:
            kinds = {*map(type, args), *map(type, kwargs.values())}
            if kinds <= ORDINARY | _SEQUENCES:
                fits = (*map(type, args), *kwargs, *map(type, kwargs.values()))
                self.fitting[fits] = not kinds.isdisjoint(_SEQUENCES)

    def complain_instead(self, args: Any, kwargs: Any, error: Exception) -> None:
        """Raise what torch says of the arguments, if the error is about them."""
        self.complain(args, kwargs)
        about = getattr(error, "about", None)
        if about is not None:  # an argument that was passed to an operator, and its complaint
            places = [where for where, _, value in self._arguments(args, kwargs) if value is about[0]]
            raise_if_any(TypeError(f"{places[0]} {about[1]}") if places else None)
        elif isinstance(error, TypeError) or getattr(error, "name", None) == "_m":  # an attribute of tensors
            raise_if_any(self._complaint(args, kwargs, _no_tensor_or_int))

    def _arguments(self, args: Any, kwargs: Any) -> Iterator[tuple[str, str, Any]]:
        """Of each argument how messages call it, its annotation, and its value."""
        for i, (name, value) in enumerate([*zip(self.fn.__code__.co_varnames, args), *kwargs.items()]):
            position = f" (position {i + 1})" if i < len(args) else ""
            yield f"{self.said}(): argument '{name}'{position}", str(self.fn.__annotations__.get(name)), value

    def _complaint(self, args: Any, kwargs: Any, is_wrong: Callable[[str, Any], bool]) -> TypeError | None:
        """torch's complaint about the first argument that is wrong for its annotation."""
        for where, annotation, value in self._arguments(args, kwargs):
            if is_wrong(annotation, value):
                return TypeError(f"{where} must be {annotation.partition(' | ')[0]}, not {type_name(value)}")
        return None


def _no_tensor_or_int(annotation: str, value: Any) -> bool:
    kind, _, others = annotation.partition(" | ")
    if others not in ("", "None") or (others and value is None):
        return False
    return (kind == "Tensor" and not isinstance(value, Tensor)) or (kind == "int" and as_int(value) is None)


def _no_real_number(annotation: str, value: Any) -> bool:
    """Return whether this is a complex number or a text in the place of a float, with which NumPy would compute."""
    return annotation.partition(" | ")[0] == "float" and isinstance(value, complex | str)


def _of_sequences(public: Any) -> Any:
    """The function beside a method that takes several ints: it takes them as one sequence only."""

    @functools.wraps(public)
    def function(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 2 or (len(args) == 2 and args[1].__class__ not in _SEQUENCES):
            public.form.complain(args, kwargs)
        return public(*args, **kwargs)

    return function
