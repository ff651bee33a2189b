"""The bases of data pipes: what they share, and methods that make a pipe of a pipe.

Differs from torch: no data frames, no types of examples, and nothing is remembered of how far an iterator came.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ..dataset import Dataset, IterableDataset

__all__ = ["DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class DataChunk(list[T]):
    """A batch of examples.

    Args:
        items: the examples.
    """

    def __init__(self, items: Iterable[T]) -> None:
        super().__init__(items)
        self.items = list(self)

    def as_str(self, indent: str = "") -> str:
        """The examples in one line."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[T]:
        """The examples as they came."""
        yield from self.items


class _Methods:
    """What both kinds of pipes have: methods that pipes were registered as, and a short text."""

    functions: dict[str, Callable[..., Any]]

    def __getattr__(self, name: str) -> Any:
        if name in self.functions:
            return functools.partial(self.functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Let a function be a method of all pipes of this kind."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any) -> None:
        """Let a class be a method of all pipes of this kind."""
        if function_name in cls.functions:
            raise Exception(
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )
        cls.functions[function_name] = cls_to_register

    def __repr__(self) -> str:
        return type(self).__qualname__

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.functions]


class IterDataPipe(_Methods, IterableDataset[T_co]):
    """Examples in the order in which iterating gives them. A new iterator ends the one before.

    Derived classes define `__iter__`, which is called after `reset`, and mostly take the pipe they read from.

    Example:
        >>> from torchgrad_jax.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).map(str).batch(2))
        [['0', '1'], ['2', '3'], ['4']]
    """

    functions: dict[str, Callable[..., Any]] = {}
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__iter__" in vars(cls):
            cls.__iter__ = _numbered(vars(cls)["__iter__"])

    def __iter__(self) -> Iterator[T_co]:
        return self  # type: ignore[return-value] - derived classes may have __next__

    def reset(self) -> None:
        """Called before each pass."""


class MapDataPipe(_Methods, Dataset[T_co]):
    """Examples by key. Derived classes define `__getitem__` and, mostly, `__len__`."""

    functions: dict[str, Callable[..., Any]] = {}


class functional_datapipe:
    """As a decorator, lets a class be a method of all pipes of its kind.

    Args:
        name: the method's.
        enable_df_api_tracing: for data frames, which are not there.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        if enable_df_api_tracing:
            raise NotImplementedError("data pipes of data frames are not implemented")
        self.name = name

    def __call__(self, cls: Any) -> Any:
        for base in (IterDataPipe, MapDataPipe):
            if issubclass(cls, base):
                base.register_datapipe_as_function(self.name, cls)
        return cls


def _numbered(method: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """`__iter__` of a pipe: it resets the pipe, and its iterator ends when the next one begins."""

    def begin(pipe: Any) -> int:
        pipe._valid_iterator_id = (
            0 if pipe._valid_iterator_id is None else pipe._valid_iterator_id + 1
        )
        pipe.reset()
        return pipe._valid_iterator_id

    if not inspect.isgeneratorfunction(method):

        @functools.wraps(method)
        def made(self: Any) -> Iterator[Any]:
            inner = method(self)
            return _Iterator(inner, self, begin(self))

        return made

    @functools.wraps(method)
    def generated(self: Any) -> Iterator[Any]:
        number, inner = begin(self), method(self)
        try:
            for value in inner:
                self._number_of_samples_yielded += 1
                yield value
                _check(self, number)
        except Exception as e:
            _told(e, self)
            raise

    return generated


class _Iterator:
    """An iterator that is no generator, checked at each step."""

    def __init__(self, inner: Iterator[Any], pipe: Any, number: int) -> None:
        self.iterator, self.datapipe, self.iterator_id = inner, pipe, number

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        _check(self.datapipe, self.iterator_id)
        value = next(self.iterator)
        self.datapipe._number_of_samples_yielded += 1
        return value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.iterator, name)


def _shown(pipe: Any) -> str:
    """A pipe with those of its arguments that it keeps under their names."""
    names = inspect.signature(type(pipe)).parameters
    kept = sorted((n, v) for n, v in inspect.getmembers(pipe) if n in names)
    given = [f"{n}={v.__name__ if inspect.isfunction(v) else repr(v)}" for n, v in kept]
    return f"{type(pipe).__name__}({', '.join(given)})"


def _check(pipe: Any, number: int) -> None:
    if pipe._valid_iterator_id != number:
        raise RuntimeError(
            "This iterator has been invalidated because another iterator has been created from the same IterDataPipe: "
            f"{_shown(pipe)}\nThis may be caused by multiple references to the same IterDataPipe. We recommend using "
            "`.fork()` if that is necessary.\nFor feedback regarding this single iterator per IterDataPipe "
            "constraint, feel free to comment on this issue: https://github.com/pytorch/data/issues/45."
        )


def _told(error: Exception, pipe: Any) -> None:
    """Add to an error which pipe it comes from, once."""
    origin = "thrown by __iter__ of"
    told = f"\nThis exception is {origin} {_shown(pipe)}"
    if not error.args or not isinstance(error.args[0], str):
        error.args = (told,)
    elif (
        origin not in error.args[0]
        and "single iterator per IterDataPipe constraint" not in error.args[0]
    ):
        error.args = (error.args[0] + told, *error.args[1:])
