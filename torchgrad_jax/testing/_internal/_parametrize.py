"""One test method per set of arguments: `parametrize`, `subtest` and `instantiate_parametrized_tests`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..._core.arrays.devices import device
from ..._core.arrays.dtypes import dtype


class subtest:
    """The values of one variant of a test, with a name or decorators of its own.

    Args:
        arg_values: the value, or a tuple with one for each argument.
        name: how the variant is called; by default that follows from the values.
        decorators: applied to this variant only, in this order.

    Example:
        >>> subtest((1, 2), name="small").name
        'small'
    """

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Sequence[Any] | None = None) -> None:
        self.arg_values, self.name, self.decorators = arg_values, name, decorators or []


class _Variant(NamedTuple):
    """What one decorator contributes to one test method."""

    name: str
    arguments: dict[str, Any]
    decorators: Sequence[Any]


class parametrize:
    """Run a test method once for each set of arguments. The class has to go through `instantiate_parametrized_tests`.

    Args:
        arg_str: names of the arguments, separated by commas.
        arg_values: values, tuples of values where there are several names, or `subtest`s.
        name_fn: makes the last part of the method's name from the values.
    """

    def __init__(self, arg_str: str, arg_values: Iterable[Any], name_fn: Callable[..., str] | None = None) -> None:
        self.arg_names = [n.strip() for n in arg_str.split(",") if n.strip()]
        self.arg_values = arg_values
        self.name_fn = name_fn

    def __call__(self, fn: Any) -> Any:
        fn.parametrizers = (*getattr(fn, "parametrizers", ()), self)
        return fn

    def variants(self, test: Any) -> Iterator[_Variant]:
        """A variant for each of the values."""
        if not self.arg_names:
            yield _Variant("", {}, [])
            return
        i = -1
        for i, given in enumerate(self.arg_values):
            case = given if isinstance(given, subtest) else subtest(given)
            values = list(case.arg_values) if len(self.arg_names) > 1 else [case.arg_values]
            if len(values) != len(self.arg_names):
                raise RuntimeError(
                    f"Expected # values == # arg names, but got: {len(values)} values and {len(self.arg_names)} "
                    f"names for test {test.__name__!r}"
                )
            name = case.name or (self.name_fn or functools.partial(self._usual_name, i))(*values)
            yield _Variant(name, dict(zip(self.arg_names, values)), case.decorators)
        if i < 0:
            raise ValueError(
                f"{test}: An empty arg_values was passed to @parametrize. Note that this may result from reuse of "
                "a generator."
            )

    def _usual_name(self, i: int, *values: Any) -> str:
        return "_".join(_value_name(i, n, v) for n, v in zip(self.arg_names, values))


def _value_name(i: int, name: str, value: Any) -> str:
    if isinstance(value, dtype):
        return str(value).split(".")[-1]
    if isinstance(value, device):
        return str(value)
    if isinstance(value, int | float | str):
        return f"{name}_{str(value).replace('.', '_')}"
    return f"{name}{i}"


def _copy(fn: Any) -> Any:
    """The same function again, so that a mark on one variant is not on all."""

    @functools.wraps(fn)
    def variant(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return variant


def _add_test(cls: Any, test: Any, variants: Sequence[_Variant]) -> None:
    """Give a class a test for one combination of variants, those of the innermost decorator first."""
    name = "_".join([test.__name__, *(v.name for v in reversed(variants) if v.name)])
    if hasattr(cls, name):
        raise AssertionError(f"Redefinition of test {name}")
    arguments: dict[str, Any] = {}
    fn = _copy(test)
    for variant in variants:
        for twice in arguments.keys() & variant.arguments.keys():
            raise RuntimeError(f"Parametrization of test {test.__name__!r}: the argument {twice!r} is given twice")
        arguments.update(variant.arguments)
        for decorate in variant.decorators:
            fn = decorate(fn)

    @functools.wraps(fn)
    def instantiated(self: Any, *args: Any, **kwargs: Any) -> Any:
        return fn(self, *args, **arguments, **kwargs)

    instantiated.__name__ = name
    instantiated.__dict__.pop("parametrizers", None)
    # pytest reads the signature through __wrapped__ and would look for fixtures of these names.
    del instantiated.__wrapped__
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
    for attribute in dir(generic_cls):
        test = getattr(generic_cls, attribute)
        if not hasattr(test, "parametrizers"):
            continue
        if attribute in vars(generic_cls):
            delattr(generic_cls, attribute)
        for variants in itertools.product(*(p.variants(test) for p in test.parametrizers)):
            _add_test(generic_cls, test, variants)
    return generic_cls


__all__ = ["instantiate_parametrized_tests", "parametrize", "subtest"]
