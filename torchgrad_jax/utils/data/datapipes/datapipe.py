"""Datasets that are made of other datasets, and found by a loader that seeds or shards them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..dataset import Dataset, IterableDataset

T_co = TypeVar("T_co", covariant=True)


class _Functional:
    """Methods that other classes register under a name."""

    functions: dict[str, Callable[..., Any]]

    def __getattr__(self, name: str) -> Any:
        found = type(self).functions.get(name)
        if found is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return functools.partial(found, self)

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function a method of all such pipes."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any) -> None:
        """Make a class of pipes that take another pipe a method of all such pipes."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register


class IterDataPipe(_Functional, IterableDataset[T_co]):
    """A stream of examples, made of other streams.

    Differs from torch: a second iterator of a pipe leaves the first one valid, and no pipes are registered.
    """

    functions: dict[str, Callable[..., Any]] = {}

    def __iter__(self) -> Iterator[T_co]:
        return self  # type: ignore[return-value]

    def reset(self) -> None:
        """For derived classes."""


class MapDataPipe(_Functional, Dataset[T_co]):
    """Examples by index, made of other such."""

    functions: dict[str, Callable[..., Any]] = {}


class _SerializationWrapper:
    """A pipe that is sent to workers; pickling it is the loader's business."""

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __len__(self) -> int:
        try:
            return len(self._datapipe)
        except Exception as error:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length") from error


class _IterDataPipeSerializationWrapper(_SerializationWrapper, IterDataPipe[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from self._datapipe


class _MapDataPipeSerializationWrapper(_SerializationWrapper, MapDataPipe[Any]):
    def __getitem__(self, index: Any) -> Any:
        return self._datapipe[index]
