"""One test method per set of arguments: `parametrize` and what goes with it.

A decorator of this kind leaves a function `parametrize_fn(test, test_class, device_class)` on the method, which
yields `(test, suffix of the name, arguments, function from arguments to decorators)`; instantiating a class
replaces the method by what it yields.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..._core.arrays.devices import device
from ..._core.arrays.dtypes import dtype

Decorators = Callable[[dict[str, Any]], list[Any]]
Variant = tuple[Callable[..., Any], str, dict[str, Any], Decorators]
VariantsOf = Callable[[Any, Any, Any], Iterable[Variant]]


def dtype_name(kind: dtype) -> str:
    """The name of a dtype as it stands in names of tests."""
    return str(kind).split(".")[-1]


def _no_decorators(arguments: dict[str, Any]) -> list[Any]:
    return []


class subtest:
    """The values of one variant of a test, with a name or decorators of its own.

    Args:
        arg_values: the value, or a tuple with one for each argument.
        name: how the variant is called; by default that follows from the values.
        decorators: applied to this variant only, the last one first.

    Example:
        >>> subtest((1, 2), name="small").name
        'small'
    """

    __slots__ = ("arg_values", "decorators", "name")

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Sequence[Any] | None = None) -> None:
        self.arg_values = arg_values
        self.name = name
        self.decorators = decorators if decorators else []


class _TestParametrizer:
    """A decorator that makes variants of a test; it stacks with others of its kind."""

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterable[Variant]:
        raise NotImplementedError(f"{type(self).__name__} must define _parametrize_test")

    def __call__(self, fn: Any) -> Any:
        inner = getattr(fn, "parametrize_fn", None)
        fn.parametrize_fn = compose_parametrize_fns(inner, self._parametrize_test) if inner else self._parametrize_test
        return fn


def compose_parametrize_fns(old_parametrize_fn: VariantsOf, new_parametrize_fn: VariantsOf) -> Any:
    """Variants of variants: those of the outer decorator for each of the inner one."""

    def composed(test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        for inner, inner_name, inner_args, inner_of in old_parametrize_fn(test, generic_cls, device_cls):
            for outer, name, args, outer_of in new_parametrize_fn(inner, generic_cls, device_cls):
                twice = [k for k in args if k in inner_args]
                if twice:
                    raise RuntimeError(
                        f"Parametrization of test {test.__name__!r}: the argument {twice[0]!r} is given twice"
                    )
                both = "_".join(n for n in (name, inner_name) if n)
                yield outer, both, {**args, **inner_args}, _chained(outer_of, inner_of)

    return composed


def _chained(first: Decorators, second: Decorators) -> Decorators:
    return lambda arguments: [*first(arguments), *second(arguments)]


class parametrize(_TestParametrizer):
    """Run a test method once for each set of arguments.

    Args:
        arg_str: names of the arguments, separated by commas.
        arg_values: values, tuples of values where there are several names, or `subtest`s.
        name_fn: makes the last part of the method's name from the values.

    The class has to be passed to `instantiate_parametrized_tests` or `instantiate_device_type_tests`.
    """

    def __init__(self, arg_str: str, arg_values: Iterable[Any], name_fn: Callable[..., str] | None = None) -> None:
        self.arg_names = [n.strip() for n in arg_str.split(",") if n.strip()]
        self.arg_values = arg_values
        self.name_fn = name_fn

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        if not self.arg_names:
            yield test, "", {}, _no_decorators
            return
        empty = True
        for i, given in enumerate(self.arg_values):
            empty = False
            own: Sequence[Any] = given.decorators if isinstance(given, subtest) else []
            values = given.arg_values if isinstance(given, subtest) else given
            values = list(values) if len(self.arg_names) > 1 else [values]
            if len(values) != len(self.arg_names):
                raise RuntimeError(
                    f"Expected # values == # arg names, but got: {len(values)} values and {len(self.arg_names)} "
                    f"names for test {test.__name__!r}"
                )
            variant = _copy(test) if own else test
            for d in own:
                variant = d(variant)
            name = self._name(i, values, given)
            yield variant, name, dict(zip(self.arg_names, values)), _no_decorators
        if empty:
            raise ValueError(
                f"{test}: An empty arg_values was passed to @parametrize. Note that this may result from reuse of "
                "a generator."
            )

    def _name(self, i: int, values: list[Any], given: Any) -> str:
        if isinstance(given, subtest) and given.name:
            return given.name
        if self.name_fn is not None:
            return self.name_fn(*values)
        return "_".join(_value_name(i, n, v) for n, v in zip(self.arg_names, values))


def _value_name(i: int, name: str, value: Any) -> str:
    if isinstance(value, dtype):
        return dtype_name(value)
    if isinstance(value, device):
        return str(value)
    if isinstance(value, int | float | str):
        return f"{name}_{str(value).replace('.', '_')}"
    return f"{name}{i}"


def _copy(fn: Any) -> Any:
    """The same function again, so that marks on one variant are not on all."""

    @functools.wraps(fn)
    def variant(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    variant.__dict__.pop("parametrize_fn", None)
    return variant


class decorateIf(_TestParametrizer):
    """Apply a decorator to those variants of a test whose arguments a predicate holds for."""

    def __init__(self, decorator: Any, predicate_fn: Callable[[dict[str, Any]], bool]) -> None:
        self.decorator = decorator
        self.predicate_fn = predicate_fn

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        def of(arguments: dict[str, Any]) -> list[Any]:
            return [self.decorator] if self.predicate_fn(arguments) else []

        yield test, "", {}, of


class reparametrize(_TestParametrizer):
    """Variants of another decorator, renamed, changed or multiplied by a function.

    Args:
        parametrizer: the decorator.
        adapter_fn: from a variant's suffix and arguments to a dictionary of suffixes and arguments, or None for
            a variant that is to be left out.
    """

    def __init__(self, parametrizer: _TestParametrizer, adapter_fn: Callable[..., Any]) -> None:
        self.parametrizer = parametrizer
        self.adapter_fn = adapter_fn

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        made = self.parametrizer._parametrize_test(test, generic_cls, device_cls)
        for variant, name, arguments, of in made:
            adapted = self.adapter_fn(name, arguments)
            for new_name, new_arguments in (adapted or {}).items():
                yield variant, new_name, new_arguments, of


def add_test(cls: type, name: str, variant: Any, arguments: dict[str, Any], of: Decorators) -> None:
    """Give a class one variant of a test under a name of its own."""
    if hasattr(cls, name):
        raise AssertionError(f"Redefinition of test {name}")
    fn = variant
    for d in of(arguments):
        fn = d(_copy(fn))

    @functools.wraps(fn)
    def instantiated(self: Any, *args: Any, **kwargs: Any) -> Any:
        return fn(self, *args, **arguments, **kwargs)

    instantiated.__name__ = name
    instantiated.__dict__.pop("parametrize_fn", None)
    # pytest reads the signature through __wrapped__ and would look for fixtures of these names.
    instantiated.__dict__.pop("__wrapped__", None)
    setattr(cls, name, instantiated)


def instantiate_parametrized_tests(generic_cls: Any) -> Any:
    """Replace the parametrized methods of a test class by their variants; also a decorator of classes.

    Example:
        >>> class Squares:
        ...     @parametrize("x", [2, 3])
        ...     def test_square(self, x):
        ...         assert x * x > x
        >>> [n for n in dir(instantiate_parametrized_tests(Squares)) if n.startswith("test")]
        ['test_square_x_2', 'test_square_x_3']
    """
    for attribute in tuple(dir(generic_cls)):
        test = getattr(generic_cls, attribute)
        if not hasattr(test, "parametrize_fn"):
            continue
        if attribute in vars(generic_cls):
            delattr(generic_cls, attribute)
        for variant, suffix, arguments, of in test.parametrize_fn(test, generic_cls, None):
            name = f"{test.__name__}_{suffix}" if suffix else test.__name__
            add_test(generic_cls, name, variant, arguments, of)
    return generic_cls


__all__ = [
    "compose_parametrize_fns",
    "decorateIf",
    "dtype_name",
    "instantiate_parametrized_tests",
    "parametrize",
    "reparametrize",
    "subtest",
]
