"""torch._tensor_str: how tensors are printed, under the names that packages import."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._engine.memory.strided import read
from ._engine.tensor import printing
from ._engine.tensor.printing import (
    get_printoptions as get_printoptions,
    printoptions as printoptions,
    set_printoptions as set_printoptions,
)


class _Options:
    """The options in force, as attributes."""

    def __getattr__(self, name: str) -> Any:
        options = get_printoptions()
        if name not in options:
            raise AttributeError(f"there is no print option {name!r}")
        return options[name]

    def __setattr__(self, name: str, value: Any) -> None:
        printing.set_option(name, value)

    def __repr__(self) -> str:
        options = ", ".join(f"{k}={v!r}" for k, v in get_printoptions().items())
        return f"__PrinterOptions({options})"


PRINT_OPTS = _Options()


def _tensor_str(self: Any, indent: int) -> str:
    """The elements of a tensor in brackets, in lines that start in column `indent`."""
    shape, array = tuple(self.shape), read(self)
    cut = printing.summary_index(shape)
    shown = np.asarray(array if cut is None else array[cut])
    return printing.contents(shown, self.dtype.name, shape, indent)


class _Formatter(printing.Formatter):
    """The text of a number as it would stand among the elements of a tensor, as `_Formatter(x).format(0.5)`."""

    def __init__(self, tensor: Any) -> None:
        super().__init__(np.asarray(read(tensor)), tensor.dtype.name)


_add_suffixes = printing.append_suffixes


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """Return what `repr` gives, or that with other text in the place of the elements."""
    return self.__repr__(tensor_contents=tensor_contents)


_str_intern = _str
