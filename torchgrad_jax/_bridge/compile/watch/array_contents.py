"""Arrays of NumPy, of Python and of C that a compiled function can reach: what is in them."""

from __future__ import annotations

import array
import ctypes
from typing import Any

import numpy as np

_OF_CTYPES = (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)
"""Memory of C's, such as a counter that processes share (`multiprocessing.Value`)."""
ARRAYS = (np.ndarray, bytearray, array.array, *_OF_CTYPES)


def array_content(held: Any) -> tuple[Any, ...]:
    if not isinstance(held, np.ndarray):
        return (bytes(held),)
    return (held.shape, held.dtype, held.tobytes())


def refill(holder: Any, content: tuple[Any, ...]) -> None:
    """Give an array what was in it; one of Python objects or of another shape now keeps what it has."""
    if isinstance(holder, np.ndarray):
        shape, kind, held = content
        if (holder.shape, holder.dtype) == (shape, kind) and not kind.hasobject:
            holder[...] = np.frombuffer(held, kind).reshape(shape)
    elif isinstance(holder, _OF_CTYPES):
        ctypes.memmove(ctypes.addressof(holder), content[0], len(content[0]))
    else:
        of_array = isinstance(holder, array.array)
        holder[:] = array.array(holder.typecode, *content) if of_array else content[0]
