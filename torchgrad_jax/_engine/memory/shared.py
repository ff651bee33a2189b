"""Memory that a storage on the CPU shares with NumPy, for as long as somebody else holds the array.

    n = x.numpy()   # the storage of x becomes a SharedStorage: its elements are in the memory of n
    n[0] = 7        # the next read of x finds other bytes than before, and takes a new snapshot
    x.add_(1)       # computed from the snapshot; the result is copied into the memory of n
    x[0] = 5        # of a large tensor: a part is read and written in the memory itself
    del n           # the next use of x makes its storage an ordinary one again

`Storage.array` stays what it is everywhere else, an immutable array: here it is a snapshot, the same object until the
bytes differ. So code that compares arrays by identity, remembers a view by the storage's stamp, or keeps a value for
the backward pass needs no rule for shared memory; and assigning `array` writes to the memory.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

import jax
import numpy as np

from ..._core.arrays import devices
from ..._core.arrays.meta import Meta, meta
from ..._core.arrays.transfer import put
from ..._core.jax.running_transforms import is_running
from ..._core.state import DUAL, IN_RUN, MODES, WRITE_LOCK, next_sequence_nr
from ..run.windows import arrived
from . import strided
from .shared_values import LIVE, VersionAndValues
from .tensor import Alias, Memory, Storage, Tensor, alias_of, make

_ARRAY: Any = Storage.array
_STAMP: Any = Storage.stamp
_PIECE = 1 << 18
"""Bytes that are compared at a time."""


class Shared(Memory):
    """Memory with another owner, or with another reader.

    Args:
        buffer: the bytes of the storage.
        m: how its elements lie there.
        owner: the object whose references tell whether somebody else has the memory; None where nothing tells.
        seen: the array that the memory holds, if there is one already.
    """

    __slots__ = (
        "_bits", "_image", "_owner", "_references", "__weakref__", "asked", "before", "began", "counted", "seen",
        "window",
    )  # fmt: skip

    def __init__(self, buffer: np.ndarray, m: Meta, owner: Any, seen: Any = None) -> None:
        super().__init__(buffer)
        self.window = _laid_out(buffer, m, 0)
        self._bits = _bits(self.window, buffer)
        self.seen, self._image = seen, None
        self.before, self.began = seen, next_sequence_nr()
        """What a node with a smaller number, made before the memory was shared, has saved."""
        self.asked = False
        """Whether the address was asked for: then it stays."""
        self.counted = True
        """Whether the last write of a tensor is in the storage's `stamp`: who counts it need not look at the memory."""
        self._owner = owner
        ours = (self.window, self._bits, buffer)
        self._references = _READING + sum(x.base is owner for x in ours) + (buffer is owner)
        LIVE.add(weakref.ref(self, LIVE.discard))

    @property
    def writable(self) -> bool:
        """Whether NumPy allows to write there."""
        return self.window.flags.writeable

    def is_alone(self) -> bool:
        """Return whether nobody else has the memory any more."""
        return self._owner is not None and sys.getrefcount(self._owner) <= self._references

    def is_as_seen(self) -> bool:
        """Return whether the memory holds the bytes that it held when it was looked at last."""
        if self.seen is None:
            return False
        if self._image is None:
            values = np.ascontiguousarray(self.seen).reshape(self.window.shape)
            self._image = values.reshape(-1).view(self._bits.dtype).reshape(self._bits.shape)
        return _same(self._bits, self._image)

    def look(self) -> Any:
        """The present elements as an array that nobody will write to."""
        self.show(put(np.array(self.window, order="C"), devices.CPU))
        return self.seen

    def show(self, array: Any) -> None:
        """Remember which array the memory holds."""
        self.seen, self._image = array, None


class _Probe:
    __slots__ = ("held",)


def _references_of_reading() -> int:
    probe = _Probe()
    probe.held = object()
    return sys.getrefcount(probe.held)


_READING = _references_of_reading()
"""What `sys.getrefcount` gives for an object that one attribute refers to."""


def _laid_out(buffer: np.ndarray, m: Meta, offset: int) -> np.ndarray:
    """The elements of `m` in memory, from an offset in elements on."""
    size = m.dtype.itemsize
    return np.ndarray(m.shape, m.dtype.np, buffer, offset * size, [s * size for s in m.strides])


def _bits(window: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """An array as integers, so that NaN is equal to itself and 0 is not -0."""
    size = window.itemsize
    if window.flags.c_contiguous:
        kind = np.uint64 if window.nbytes % 8 == 0 else np.uint8
        return window.reshape(-1).view(kind)
    if size <= 8:
        return window.view(f"u{size}")
    return np.ndarray((*window.shape, 2), np.uint64, memory, 0, (*window.strides, 8))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.ndim != 1:
        return bool((a == b).all())
    if a.nbytes <= 4096:
        return a.tobytes() == b.tobytes()
    step = _PIECE // a.itemsize
    return all((a[i : i + step] == b[i : i + step]).all() for i in range(0, a.size, step))


class SharedStorage(Storage):
    """A storage whose elements are in memory that NumPy has, too. An ordinary storage becomes one, and back."""

    __slots__ = ()
    shared = True

    def present(self, what: Any) -> Any:
        """The elements that a tensor on it, or all of it, has now."""
        return strided.read(what) if isinstance(what, Tensor) else self.array

    @property
    def array(self) -> Any:
        """The elements as they are now."""
        held, memory = _ARRAY.__get__(self), self.pointer
        if held is not memory.seen:  # a value of a run that is being traced
            return held
        if memory.is_alone():
            return _part(self, memory)
        memory.counted = True
        if memory.is_as_seen():
            return held
        array = memory.look()
        _ARRAY.__set__(self, array)
        _STAMP.__set__(self, _STAMP.__get__(self) + 1)
        return array

    @array.setter
    def array(self, value: Any) -> None:
        held, memory, value = _ARRAY.__get__(self), self.pointer, arrived(value)
        if not _has_values(value) or (value is memory.seen and held is not value):
            _ARRAY.__set__(self, value)  # a traced value, or what was there before it
            return
        if memory.is_alone() or not memory.writable:
            _part(self, memory, value)
            return
        np.copyto(memory.window, np.asarray(value))
        memory.show(value)
        memory.counted = False
        _ARRAY.__set__(self, value)

    @property
    def stamp(self) -> int:
        """Counts the writes of tensors, and those of NumPy that were noticed."""
        if self.pointer.counted:
            self.array  # noqa: B018 - looks for them
        else:
            self.pointer.counted = True
        return _STAMP.__get__(self)

    @stamp.setter
    def stamp(self, value: int) -> None:
        self.pointer.counted = True
        _STAMP.__set__(self, value)

    def memory_in_place(self, to_write: bool) -> np.ndarray | None:
        """Return the memory itself, for a use of a part of it that need not look at all of it; None where it has to.

        A write to a part leaves the snapshot behind: the next read of the whole finds other bytes and takes a new one.
        """
        memory = self.pointer
        if _ARRAY.__get__(self) is not memory.seen or memory.is_alone() or not memory.window.flags.c_contiguous:
            return None
        if to_write and not memory.writable:
            return None
        memory.counted &= not to_write
        return memory.window

    def data_ptr(self) -> int:
        """The address of the memory."""
        self.pointer.asked = True
        return self.pointer.address


def _has_values(array: Any) -> bool:
    if array.__class__ is np.ndarray:
        return True
    return isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer)


def _part(st: Storage, memory: Shared, value: Any = None) -> Any:
    """Make a storage an ordinary one, with `value` or with what is in the memory that it leaves."""
    if value is None:
        value = memory.seen
        if not memory.is_as_seen():
            free = memory.is_alone() and not memory.asked and memory.window.flags.c_contiguous
            value = put(memory.window, devices.CPU) if free else memory.look()
            _STAMP.__set__(st, _STAMP.__get__(st) + 1)
    st.__class__ = Storage
    keep = memory.asked and memory.writable
    st.pointer = Memory(memory.buffer) if keep else 0
    _ARRAY.__set__(st, value)
    return value


def _is_traced() -> bool:
    """Return whether the code that runs is being traced, so that NumPy would not see what it does later."""
    return bool(MODES.bits & IN_RUN) or is_running()


# --- from a tensor to NumPy -----------------------------------------------------------------------


def view_of(t: Tensor) -> np.ndarray | None:
    """A NumPy array of a tensor's memory; None where it has none that could be shared."""
    m, st = t._m, t._st
    if not m.numel or _is_traced() or (t._al is not None and (t._al.conj or t._al.neg)):
        return None
    with WRITE_LOCK:
        memory = _memory_of(st)
        return None if memory is None else _laid_out(memory.buffer, m, strided.storage_offset(t))


def _memory_of(st: Storage) -> Shared | None:
    if st.__class__ is SharedStorage:
        return st.pointer if _ARRAY.__get__(st) is st.pointer.seen else None
    array = st.array  # from here on the storage is not one that has its memory alone
    if st.__class__ is not Storage or st.meta.device.type != "cpu" or not _has_values(array):
        return None
    st.data_ptr()
    buffer = st.pointer.buffer
    memory = Shared(buffer, st.meta, buffer if buffer.base is None else buffer.base, array)
    memory.asked = st.pointer.stamp is not None
    np.copyto(memory.window, np.asarray(array))
    st.pointer = memory
    _ARRAY.__set__(st, array)
    st.__class__ = SharedStorage
    return memory


def is_shared(st: Storage) -> bool:
    """Return whether NumPy may hold the memory of a storage."""
    return st.__class__ is SharedStorage


def memory_in_common(a: Storage, b: Storage) -> int | None:
    """Return how many bytes after `a` the storage `b` begins, where both are in memory of one array; else None."""
    if a.__class__ is not SharedStorage or b.__class__ is not SharedStorage:
        return None
    first, second = a.pointer.buffer, b.pointer.buffer
    if not np.may_share_memory(first, second):
        return None
    return b.pointer.address - a.pointer.address


def check_resizable(st: Storage) -> None:
    """Refuse to give a storage other memory while NumPy has what it is in."""
    if st.__class__ is SharedStorage and not st.pointer.is_alone():
        raise RuntimeError("Trying to resize storage that is not resizable")


# --- from NumPy to a tensor -----------------------------------------------------------------------


def tensor_on(array: np.ndarray, m: Meta) -> Tensor | None:
    """A tensor on the memory of an array; None where it has to be copied.

    Args:
        array: any NumPy array of numbers.
        m: how its elements lie in its memory.
    """
    run = MODES.run
    if run.batch is not None:  # an array made before a run of `vmap` is no part of the run
        with run.outside(users=True):
            return tensor_on(array, m)
    if not m.numel or m.device.type != "cpu" or _is_traced():
        return None
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if _is_constant(owner.base):
        return None
    size = m.extent
    buffer, base = _bytes_of(array, owner, size * m.dtype.itemsize), owner
    if buffer is None:
        buffer, base = _any_bytes_of(array, size), None
    elif not owner.flags.owndata:
        base = None
    store = meta((size,), m.dtype, m.device) if m.overlaps else m
    t = make(None, store)
    st = t._st
    st.pointer = Shared(buffer, store, base)
    st.__class__ = SharedStorage
    return t if store is m else alias_of(t, m, Alias(0, None, 0, 0))


def _is_constant(source: Any) -> bool:
    """Return whether nobody can write to the memory of an object."""
    if isinstance(source, memoryview):
        return source.readonly and isinstance(source.obj, jax.Array | bytes)
    return isinstance(source, jax.Array | bytes)


def _bytes_of(array: np.ndarray, owner: np.ndarray, size: int) -> np.ndarray | None:
    """So many bytes of the memory of `owner` from where `array` begins, as a view that refers to `owner` alone."""
    if owner.dtype.hasobject or owner.flags.writeable is not array.flags.writeable:
        return None
    order = sorted(range(owner.ndim), key=lambda d: -owner.strides[d])
    whole = np.asarray(owner).transpose(order)
    if not whole.flags.c_contiguous:
        return None
    whole = whole.reshape(-1).view(np.uint8)
    begin = array.ctypes.data - whole.ctypes.data
    return whole[begin : begin + size] if begin >= 0 and begin + size <= whole.size else None


def _any_bytes_of(array: np.ndarray, size: int) -> np.ndarray:
    flat = np.lib.stride_tricks.as_strided(array, (size,), (array.itemsize,), writeable=array.flags.writeable)
    return flat.view(np.uint8)


# --- what nodes save ------------------------------------------------------------------------------


def saved_value(node: Any, entry: Any, then: int) -> Any:
    """Return what a node saved, where NumPy may have written to it since; else None."""
    if then.__class__ is VersionAndValues:
        return then.array  # type: ignore[attr-defined]
    st = entry._st if isinstance(entry, Tensor) else entry
    if st.__class__ is not SharedStorage or node.seq > st.pointer.began:
        return None
    before = st.pointer.before
    return strided.stored(entry, before) if isinstance(entry, Tensor) else before


def saved_tensor(node: Any, entry: Tensor, then: int) -> Tensor | None:
    """A tensor of what a node saved, where NumPy wrote to it since; else None."""
    old = saved_value(node, entry, then)
    if old is None or old is strided.read(entry):
        return None
    out = make(old, meta(entry._m.shape, entry._m.dtype, entry._m.device))
    tangent = then.tangent if then.__class__ is VersionAndValues else None  # type: ignore[attr-defined]
    if tangent is not None and MODES.bits & DUAL:
        MODES.tangents.set_tangent(out, tangent)
    return out
