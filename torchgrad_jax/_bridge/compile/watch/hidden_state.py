"""State that Python objects keep to themselves: iterators, generators of random numbers, open files.

Attributes, lists and dicts can be compared (`python_guards`). What an iterator has still to give, or a `random.Random`,
is no attribute; a `HiddenState` describes it, so that it is noticed when a function advanced one.
"""

from __future__ import annotations

import copyreg
import functools
import gc
import io
import random
import types
import warnings
from typing import Any

import numpy as np

_DEEPEST, _LONGEST = 6, 1000
_UNKNOWN = object()
"""The state of an iterator that cannot be asked for it."""
_CALLING = type(iter(int, 1))
"""Iterators that call something for each element (`re.finditer`): what they still give depends on that."""


class _Opaque(Exception):
    """There is no description of an iterator's state."""


def has_hidden_state(x: Any) -> bool:
    """Whether an object has state that is none of its attributes."""
    if isinstance(x, random.Random | np.random.Generator | np.random.RandomState | io.IOBase):
        return True
    if isinstance(x, np.random.BitGenerator):
        return True
    advance = getattr(type(x), "__next__", None)
    # A function of Python has its state in attributes.
    written = isinstance(advance, types.FunctionType)
    return advance is not None and not written and not hasattr(x, "__dict__")


_CACHED = type(functools.lru_cache(int))


def keeps_results(x: Any) -> bool:
    """Whether something is a function with a cache of its results (`functools.lru_cache`)."""
    return isinstance(x, _CACHED)


def kept_results(cached: Any) -> dict[Any, Any]:
    """That cache: a dict in which a result that was lost and computed anew is another object."""
    held = gc.get_referents(cached)
    return next((d for d in held if type(d) is dict and d is not vars(cached)), {})


class HiddenState:
    """An object, and its state when it was looked at."""

    __slots__ = ("of", "state")

    def __init__(self, of: Any) -> None:
        self.of = of
        try:
            self.state = state_of(of)
        except (_Opaque, NotImplementedError):  # a `random.SystemRandom` has no state
            self.state = _UNKNOWN

    def describe_change(self) -> str | None:
        """What has been done to it since, in words; None if nothing."""
        if self.state is _UNKNOWN or state_of(self.of) == self.state:
            return None
        if hasattr(type(self.of), "__next__") and not isinstance(self.of, io.IOBase):
            return f"an iterator from outside was advanced (a {type(self.of).__name__})"
        if isinstance(self.of, io.IOBase):
            return "a file was read or written"
        return f"a number was drawn from a {type(self.of).__name__}"

    def is_unknown(self) -> bool:
        """Whether nothing tells that it was advanced."""
        return self.state is _UNKNOWN

    def restore(self) -> None:
        """Put a generator of random numbers back."""
        if isinstance(self.of, random.Random):
            self.of.setstate(self.state)  # type: ignore[arg-type]
        elif isinstance(self.of, np.random.Generator):
            self.of.bit_generator.state = self.state.of
        elif isinstance(self.of, np.random.BitGenerator):
            self.of.state = self.state.of
        elif isinstance(self.of, np.random.RandomState):
            self.of.set_state(self.state.of)


class _Described:
    """NumPy's state of a generator, which may have arrays in it."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Described) and _exactly(self.of) == _exactly(other.of)

    __hash__ = None  # type: ignore[assignment]


def _exactly(state: Any) -> Any:
    """NumPy's state in a form that can be compared."""
    if isinstance(state, np.ndarray):
        return state.tobytes()
    if isinstance(state, dict):
        return {k: _exactly(v) for k, v in state.items()}
    return [_exactly(v) for v in state] if isinstance(state, tuple) else state


def state_of(x: Any, depth: int = 0) -> Any:
    """A description of an object's state that is equal to another one as long as nothing was done to it."""
    if isinstance(x, random.Random):
        return x.getstate()
    if isinstance(x, np.random.Generator):
        return _Described(x.bit_generator.state)
    if isinstance(x, np.random.BitGenerator):
        return _Described(x.state)
    if isinstance(x, np.random.RandomState):
        return _Described(x.get_state())
    if isinstance(x, io.IOBase):
        return _of_file(x)
    if isinstance(x, types.GeneratorType):
        return _of_generator(x, depth)
    return _of_iterator(x, depth)


def _of_file(x: Any) -> Any:
    try:
        return x.closed or x.tell()
    except (OSError, ValueError):
        return None


def _of_generator(x: Any, depth: int) -> Any:
    frame = x.gi_frame
    if frame is None:
        return None
    inner = x.gi_yieldfrom
    return (
        frame.f_lasti,
        [(k, _part(v, depth + 1)) for k, v in frame.f_locals.items()],
        None if inner is None else _part(inner, depth + 1),
    )


def _of_iterator(x: Any, depth: int) -> Any:
    if isinstance(x, _CALLING):
        raise _Opaque
    try:
        with warnings.catch_warnings():
            # Copying iterators of itertools is deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            found = x.__reduce__()
    except TypeError:
        raise _Opaque from None
    if found[0] is copyreg._reconstructor:  # type: ignore[attr-defined] # of any object, by its class alone
        raise _Opaque
    return _part(found, depth + 1)


def _part(v: Any, depth: int) -> Any:
    """One of the things that a state is made of."""
    if isinstance(v, int | float | str | bytes | range | type(None)):
        return type(v), v
    if depth > _DEEPEST:
        return id(v)
    if type(v) in (tuple, list):
        return [_part(item, depth + 1) for item in v] if len(v) < _LONGEST else id(v)
    if has_hidden_state(v):
        return id(v), state_of(v, depth + 1)
    return id(v)
