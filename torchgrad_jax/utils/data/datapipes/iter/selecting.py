"""Pipes that leave examples out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._checks import check_columns, check_function, columns_of
from ..datapipe import IterDataPipe, functional_datapipe

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[Any]):
    """The examples that a function says True of.

    Args:
        datapipe: the examples.
        filter_fn: the function.
        input_col: the columns that it takes; all of the example if it is left out.
    """

    def __init__(self, datapipe: Any, filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        check_function(filter_fn)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col
        check_columns(filter_fn, input_col)

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            keep = columns_of(self.filter_fn, self.input_col, data)
            if not isinstance(keep, bool):
                raise ValueError(
                    "Boolean output is required for `filter_fn` of FilterIterDataPipe, got",
                    type(keep),
                )
            if keep:
                yield data
