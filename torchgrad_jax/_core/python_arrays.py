"""What is in arrays of NumPy, of Python and of C, and in caches of results, that a compiled function can reach."""

from __future__ import annotations

import array
import ctypes
import functools
import gc
from typing import Any

import numpy as np

_OF_CTYPES = (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)
"""Memory of C's, such as a counter that processes share (`multiprocessing.Value`)."""
ARRAYS = (np.ndarray, np.void, bytearray, array.array, *_OF_CTYPES)


def array_content(held: Any) -> tuple[Any, ...]:
    if issubclass(type(held), np.void):
        return (held.dtype, held.dtype.names, held.tobytes())
    if not issubclass(type(held), np.ndarray):
        return (bytes(held),)
    held_bytes = np.ndarray.tobytes(held)  # which a masked array would give in its own way
    return held.shape, held.dtype, held_bytes, held.strides, held.flags.writeable, held.dtype.names


def objects_in(held: Any) -> list[Any]:
    """The Python objects in an array of NumPy, also in the fields of its elements."""
    if not (issubclass(type(held), np.ndarray | np.void) and held.dtype.hasobject):
        return []
    if held.dtype == object:
        return list(np.asarray(held).flat)
    return [part for name in held.dtype.names or () for part in _objects_of(held[name])]


def _objects_of(field: Any) -> list[Any]:
    return objects_in(field) if issubclass(type(field), np.ndarray | np.void) else [field]


def refill(holder: Any, content: tuple[Any, ...]) -> None:
    """Give an array what was in it; one of Python objects or of another shape now keeps what it has."""
    if isinstance(holder, np.ndarray):
        shape, kind, held, *_ = content
        if not holder.flags.writeable:
            return
        if (holder.shape, holder.dtype) == (shape, kind) and not kind.hasobject:
            holder[...] = np.frombuffer(held, kind).reshape(shape)
    elif isinstance(holder, np.void):
        kind, _, held = content
        if holder.dtype == kind and not kind.hasobject:
            (before,) = np.frombuffer(held, kind)
            for name in kind.names or ():
                holder[name] = before[name]
    elif isinstance(holder, _OF_CTYPES):
        ctypes.memmove(ctypes.addressof(holder), content[0], len(content[0]))
    else:
        of_array = isinstance(holder, array.array)
        holder[:] = array.array(holder.typecode, *content) if of_array else content[0]


def kept_results(cached: Any) -> dict[Any, Any]:
    """The cache of a function (`functools.lru_cache`): a result that was lost and computed again is another object."""
    held = gc.get_referents(cached)
    return next((d for d in held if type(d) is dict and d is not vars(cached)), {})


_OF_CACHES = {id(part) for part in gc.get_referents(functools.lru_cache(len)) if isinstance(part, type)}
"""Classes that each cache with a limit leads to."""


def results_of(cached: Any) -> list[Any]:
    """The results in such a cache; one with a limit keeps each in a link of C, and the collector knows of them."""
    kept = kept_results(cached)
    if not any(type(link).__name__ == "_lru_list_elem" for link in kept.values()):
        return list(kept.values())
    own = {id(kept), id(vars(cached)), id(cached.__wrapped__), *_OF_CACHES, id(type(cached))}
    return [part for part in gc.get_referents(cached) if id(part) not in own and type(part) is not object]
