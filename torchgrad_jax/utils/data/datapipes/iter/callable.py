"""Pipes that call a function on each example."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..._utils.collate import default_collate
from .._checks import check_columns, check_function, columns_of, size
from ..datapipe import IterDataPipe, functional_datapipe

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[Any]):
    """What a function makes of each example.

    Args:
        datapipe: the examples.
        fn: the function.
        input_col: the columns that it takes; all of the example if it is left out.
        output_col: where its result goes, -1 for one more column; the first of `input_col` if it is left out.
    """

    def __init__(
        self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None
    ) -> None:
        check_function(fn)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            columns = list(output_col)
            if len(columns) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = columns[0]
        self.datapipe, self.fn = datapipe, fn
        self.input_col, self.output_col = input_col, output_col
        check_columns(fn, input_col)

    def _apply_fn(self, data: Any) -> Any:
        result = columns_of(self.fn, self.input_col, data)
        if self.input_col is None:
            return result
        out = list(data) if isinstance(data, tuple) else data
        if self.output_col == -1:
            out.append(result)
        elif self.output_col is not None:
            out[self.output_col] = result
        elif isinstance(self.input_col, (list, tuple)):
            first, *others = self.input_col
            out[first] = result
            for column in sorted(others, reverse=True):
                del out[column]
        else:
            out[self.input_col] = result
        return tuple(out) if isinstance(data, tuple) else out

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return size(self, self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches of lists of examples.

    Args:
        datapipe: the lists.
        conversion: makes a batch of a list.
        collate_fn: the same, under its former name.
    """

    def __init__(
        self, datapipe: Any, conversion: Any = default_collate, collate_fn: Callable[..., Any] | None = None
    ) -> None:  # fmt: skip
        fn = collate_fn if collate_fn is not None else conversion
        if not callable(fn):
            raise NotImplementedError("conversions by column, of data frames, are not implemented")
        super().__init__(datapipe, fn=fn)
