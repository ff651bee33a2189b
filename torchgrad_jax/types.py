"""torch.types: names for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from ._core.arrays.devices import device
from ._core.arrays.dtypes import dtype
from ._core.arrays.shapes import Size
from ._engine.memory.tensor import Tensor
from ._engine.tensor.attributes import UntypedStorage as Storage, layout
from ._functions.symbolic import SymBool as SymBool, SymFloat as SymFloat, SymInt as SymInt

_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype, _device, _layout = dtype, device, layout
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_symint: TypeAlias = Any

__all__ = ["Device", "FileLike", "Number", "Storage"]
