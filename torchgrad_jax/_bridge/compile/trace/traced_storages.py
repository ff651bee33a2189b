"""Storages that hold tracers while one thread traces a function: other threads wait until they hold values again.

The tracing thread has `WRITE_LOCK`, which it may take as often as it likes. Another thread that looks at such a storage
asks for the lock, and so goes on when the trace and the first run of its program are over.
"""

from __future__ import annotations

from typing import Any

from jax import lax

from ...._core.arrays.meta import meta
from ...._core.state import WRITE_LOCK
from ...._engine.memory.strided import read_stored, view_into
from ...._engine.memory.tensor import CREATED_DEFAULT, Alias, Storage, Tensor

_SLOTS: dict[str, Any] = {name: getattr(Storage, name) for name in ("array", "stamp", "version")}


def _after_the_trace(name: str) -> Any:
    slot = _SLOTS[name]

    def get(st: Storage) -> Any:
        with WRITE_LOCK:
            return slot.__get__(st)

    return property(get, slot.__set__)


class TracedStorage(Storage):
    """A storage from outside that the traced function has written to."""

    __slots__ = ()
    array: Any = _after_the_trace("array")
    stamp: Any = _after_the_trace("stamp")
    version: Any = _after_the_trace("version")


def mark_traced(st: Storage) -> None:
    """Let other threads wait for what a storage holds, from before a tracer is written to it."""
    if st.__class__ is Storage:
        st.__class__ = TracedStorage


def end_trace(st: Storage) -> None:
    """Make a storage that holds values again an ordinary one."""
    if st.__class__ is TracedStorage:
        st.__class__ = Storage


def _of_argument(name: str) -> Any:
    slot = _SLOTS[name]

    def get(st: Storage) -> Any:
        with WRITE_LOCK:
            owner: Tensor = st.placement
            if owner._st is st:
                return slot.__get__(st)
            return read_stored(owner) if name == "array" else getattr(owner._st, name)

    def put(st: Storage, value: Any) -> None:
        owner: Tensor = st.placement
        if owner._st is st:
            slot.__set__(st, value)
        elif owner._al is None:
            setattr(owner._st, name, value)
        else:
            raise RuntimeError(
                "this tensor was made of an argument of a compiled function while another thread traced that function, "
                "and cannot be written to; make it again"
            )

    return property(get, put)


class ArgumentStorage(Storage):
    """What an argument has in the place of its own storage during the trace. It stands for the argument afterwards."""

    __slots__ = ()
    array: Any = _of_argument("array")
    stamp: Any = _of_argument("stamp")
    version: Any = _of_argument("version")


def memory_of_argument(array: Any, t: Tensor) -> tuple[Storage, Alias | None]:
    """A storage for the elements of an argument, with the gaps that its strides leave, and how the argument reads it.

    The strides of `x[:, ::2]` decide what `contiguous` and `reshape` copy, so they are the same in the run.
    """
    m = t._m
    if m.dense:
        return Storage(array, m), None
    flat = meta((m.extent,), m.dtype, m.device)
    once = tuple([slice(0, 1) if s == 0 else slice(None) for s in m.strides])  # expanded dimensions
    part = array[once]
    placed = meta(part.shape, m.dtype, m.device, m.strides)
    gaps = lax.full((m.extent,), 0, m.dtype.np)
    return (
        Storage(view_into(gaps, placed, 0, False, False, part), flat),
        Alias(0, None, CREATED_DEFAULT, t._vc.version),
    )


def stand_for(owner: Tensor, st: Storage) -> None:
    """Let a storage with a tracer, which an argument without gaps is about to get, stand for that argument."""
    st.placement = owner  # which no storage of a tracer has
    st.__class__ = ArgumentStorage
