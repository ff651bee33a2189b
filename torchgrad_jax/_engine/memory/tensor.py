"""Tensor: a handle on a storage, with metadata and a place in the graph. No op methods here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from weakref import ref

import jax
import numpy as np
from jax.core import Tracer

from ..._core.arrays import devices, dtypes, placement, uneven
from ..._core.arrays.meta import Meta, meta
from ..._core.jax.x64 import settled
from ..._core.python_code import declare_ours
from ..._core.state import GRAD, IN_RUN, INFERENCE, MODES, UNDER_JAX
from ..run.windows import Pending, arrived


class Storage:
    """Owns the current array and, for tensors that do not say otherwise, the version counter.

    `array` has the logical shape of `meta`, whose strides say in which order torch would have laid
    the elements out. `stamp` counts all writes, and `born` is the transform or the
    run of `vmap` (`MODES.birth`) inside of which it was made.
    """

    __slots__ = ("__weakref__", "array", "born", "meta", "placement", "pointer", "stamp", "version")
    shared = False
    """Whether NumPy may have its memory, too."""
    views_keep_values = True
    """Whether a view may keep what it has read here until somebody writes."""

    def __init__(self, array: Any, m: Meta) -> None:
        self.array = array
        self.meta = m
        self.version = 0
        self.stamp = 0
        self.born = MODES.birth
        self.pointer: Any = 0
        if (born := MODES.run.born) is not None:
            born.append(ref(self))

    def data_ptr(self) -> int:
        """The address of memory that belongs to the storage, and what it was filled with: see `memory`."""
        if self.meta.device.type == "meta":
            return 0
        size = storage_size(self.meta)
        if not self.pointer or self.pointer.buffer.nbytes < size:
            self.pointer = Memory(np.empty(max(size, 1), np.uint8))
        return self.pointer.address


_ARRAY: Any = Storage.array


def hold_pending() -> None:
    """Let storages of this process hold `Pending`s: from now on, who reads `Storage.array` gets what has arrived.

    That is for good. A process that never asks for windows reads the slot as it is.
    """
    if type(vars(Storage)["array"]) is property:
        return
    Storage.array = property(lambda st: arrived(_ARRAY.__get__(st)), _ARRAY.__set__)  # type: ignore[misc]


def held_by(st: Storage) -> Any:
    """What a storage holds: its array, or a `Pending` for one that is not there yet."""
    x = _ARRAY.__get__(st)
    if x.__class__ is Pending:
        return x if x.window is not None or x.error is not None else x.array
    return st.array


def keep_arrived(st: Storage) -> Any:
    """Return the array of a storage, and keep that there in the place of a `Pending`.

    How many references there are to the array tells who else has it.
    """
    array = st.array
    if _ARRAY.__get__(st).__class__ is Pending:
        _ARRAY.__set__(st, array)
    return array


def _without_memory(st: Any, *value: Any) -> Any:
    raise RuntimeError(
        "a tensor on a storage of 0 elements was read or written to: its storage was resized to 0 bytes. Resize the "
        "storage to what it had, or give the tensor other memory by set_(), first"
    )


class FreedStorage(Storage):
    """A storage whose memory was let go by `resize_(0)`. Tensors on it keep their shapes, and have no values.

    `meta` stays as it was: it says how much memory the storage gets back.
    """

    __slots__ = ()
    array: Any = property(_without_memory, _without_memory)


def free(st: Storage) -> None:
    """Let the memory of a storage go."""
    _ARRAY.__set__(st, None)
    st.pointer = 0
    st.__class__ = FreedStorage
    st.stamp += 1


def give_memory(st: Storage, array: Any) -> None:
    """Give a freed storage memory again."""
    st.__class__ = Storage
    st.array = array
    st.stamp += 1


def _put_in_place(st: Any, value: Any) -> None:
    """Keep a value in a storage that is spread over several devices."""
    if not isinstance(value, Tracer):
        value = placement.place(arrived(value), st.placement)
    _ARRAY.__set__(st, value)


class PlacedStorage(Storage):
    """A storage whose array is spread over several devices: whatever is written to it is spread in the same way.

    `placement` is the sharding. Values that are being traced are kept as they are; the program that comes of the
    trace pins its results.
    """

    __slots__ = ()
    array: Any = property(_ARRAY.__get__, _put_in_place)


def _without_padding(st: Any) -> Any:
    kept = _ARRAY.__get__(st)
    if not isinstance(kept, jax.Array) or isinstance(kept, Tracer) or st.meta.device.type == "meta":
        return kept
    return uneven.unpad(kept, st.placement, st.meta.shape)


def _put_with_padding(st: Any, value: Any) -> None:
    value = arrived(value)
    real = not isinstance(value, Tracer) and st.meta.device.type != "meta"
    _ARRAY.__set__(st, uneven.pad(value, st.placement) if real else value)


class PaddedStorage(PlacedStorage):
    """A storage that the devices have unequal parts of: they are filled up to equal ones, where nobody sees it."""

    __slots__ = ()
    views_keep_values = False
    array: Any = property(_without_padding, _put_with_padding)


def kept_array(st: Storage) -> Any:
    """The array of a storage as the devices have it, filled up where its parts are unequal."""
    return _ARRAY.__get__(st) if st.__class__ is PaddedStorage else st.array


def put_kept(st: Storage, kept: Any) -> None:
    """Have a storage hold an array as `kept_array` gives it: no process waits for the others, as to fill up parts."""
    if st.__class__ is PaddedStorage:
        _ARRAY.__set__(st, kept)
    else:
        st.array = kept


def keep_placed(st: Storage, there: Any) -> None:
    """Have a storage keep its parts where a sharding says, also what is written to it later."""
    if not placement.MANY:
        placement.MANY.append(True)
    array = st.array
    st.placement = there
    st.__class__ = PlacedStorage if uneven.padding_of(st.meta.shape, there) is None else PaddedStorage
    st.array = array


def of_kept(kept: Any, m: Meta, there: Any) -> Tensor:
    """A tensor around an array as `kept_array` gives it."""
    t = make(kept, m)
    t._st.placement = there
    t._st.__class__ = PlacedStorage if uneven.padding_of(m.shape, there) is None else PaddedStorage
    return t


def placement_of(st: Storage) -> Any:
    """The sharding of a storage on several devices, which it has from now on; None for any other."""
    if isinstance(st, PlacedStorage):
        return st.placement
    if st.__class__ is not Storage:
        return None
    sharding = placement.spread_over(st.array)
    if sharding is not None:
        st.placement = sharding
        st.__class__ = PlacedStorage
    return sharding


def placed(array: Any, m: Meta) -> Tensor:
    """A tensor around an array on several devices, whose placement its storage keeps."""
    if not placement.MANY:
        placement.MANY.append(True)
    t = make(placement.place(array, placement.automatic(array.sharding)), m)
    placement_of(t._st)
    return t


def placed_later(array: Any, m: Meta, there: Any) -> Tensor:
    """A tensor on the meta device: what is made of it with data will be spread as the sharding says."""
    if not placement.MANY:
        placement.MANY.append(True)
    return of_kept(array, m, there)


def storage_size(m: Meta) -> int:
    """Bytes of a storage."""
    return m.extent * m.dtype.itemsize


class Memory:
    """Bytes that a storage may be read by from outside: as many as it has, filled when they are asked for."""

    __slots__ = ("address", "buffer", "stamp")

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer
        self.address: int = buffer.ctypes.data
        self.stamp: int | None = None


class Version:
    """A version counter of its own, for ``.data`` and friends."""

    __slots__ = ("version",)

    def __init__(self, version: int = 0) -> None:
        self.version = version


class Alias:
    """How a tensor reads a storage that is not exactly its own, and what it is a view of.

    `offset` is in elements of the tensor's dtype. `base` is the tensor that autograd regards this
    one as a view of (None for `detach` and the like). `creation` says under which circumstances the
    view was made, which decides whether writing to it is allowed; `seen` is the version at which
    the tensor's grad_fn was last brought up to date with the base. `chain` lists the views that
    lead from the base to this one, as (node name, meta, offset, conj, neg), where some of them do
    more than `as_strided` can.
    """

    __slots__ = ("array", "base", "chain", "conj", "creation", "neg", "offset", "replay", "seen", "stamp")

    def __init__(self, offset: int, base: Any, creation: int, seen: int) -> None:
        self.offset = offset
        self.base = base
        self.creation = creation
        self.seen = seen
        self.conj = self.neg = False
        self.array = self.replay = None
        self.chain: tuple[Any, ...] = ()
        self.stamp = -1


CREATED_DEFAULT, CREATED_NO_GRAD, CREATED_MULTI, CREATED_INFERENCE, CREATED_CUSTOM = range(5)
"""Values of `Alias.creation`."""


UNSET: Any = object()
"""Value of `Extras.grad_dtype`: gradients have the tensor's own dtype. None allows any."""


class Watchers:
    """What users attach to a tensor that an operation need not look at, such as hooks.

    The fields of `Extras` have the values here that they have for most tensors.
    """

    __slots__ = ("grad_dtype", "hooks", "name", "post_acc", "retains")
    born = 0
    dual: Any = None
    dual_level = -1
    awaiting: Any = None
    inference = uncounted = followed = False
    inner: Any = None

    def __init__(self) -> None:
        self.hooks: Any = None
        self.post_acc: Any = None
        self.retains: Any = None
        self.name: str | None = None
        self.grad_dtype: Any = UNSET


class Extras(Watchers):
    """What few tensors carry besides, which changes how operations treat them."""

    __slots__ = ("awaiting", "born", "dual", "dual_level", "followed", "inference", "inner", "uncounted")

    def __init__(self) -> None:
        super().__init__()
        self.born = 0  # of an alias made while JAX was tracing, whose storage may be older
        self.dual = None
        self.dual_level = -1
        self.awaiting: Any = None  # of a result, what its node keeps of it and of the tangent that it gets
        self.inference = self.uncounted = False
        self.followed = False  # requires a gradient only for JAX's derivative to go on
        self.inner: Any = None  # the tensor that is this one's only leaf, in trees of trees


class Tensor:
    """A multi-dimensional array of one dtype that can record what is done to it."""

    __slots__ = ("__dict__", "__weakref__", "_acc", "_al", "_fn", "_g", "_m", "_onr", "_rg", "_st", "_vc", "_x")
    _st: Storage
    _vc: Any
    _m: Meta
    _al: Any  # an Alias, or None for a tensor that is all of its storage
    _rg: bool
    _fn: Any
    _onr: int
    _g: Any
    _acc: Any
    _x: Any  # Watchers, Extras, or None

    __hash__ = object.__hash__


_new = object.__new__


declare_ours(Tensor)


def make(array: Any, m: Meta) -> Tensor:
    """A fresh tensor around an array; m describes it."""
    t, st = _new(Tensor), _new(Storage)
    st.array = array
    st.meta = t._m = m
    st.version = st.stamp = st.pointer = t._onr = 0
    st.born = MODES.birth
    if MODES.bits > GRAD and (born := MODES.run.born) is not None:
        born.append(ref(st))
    t._st = t._vc = st
    t._al = t._fn = t._g = t._acc = t._x = None
    t._rg = False
    return t


def tensor_over(st: Storage) -> Tensor:
    """A tensor that is all of a storage."""
    t = make(st.array, st.meta)
    t._st = t._vc = st
    return t


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from tensors_in(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors_in(v)


def make_of(cls: type, array: Any, m: Meta) -> Any:
    """`make` for a subclass."""
    t = _new(cls)
    t._st = t._vc = Storage(array, m)
    t._m = m
    t._al = t._fn = t._g = t._acc = t._x = None
    t._rg = False
    t._onr = 0
    return t


def alias_of(src: Tensor, m: Meta, alias: Alias | None, vc: Any = None, cls: type = Tensor) -> Any:
    """A tensor on the storage of `src`."""
    t = _new(cls)
    t._st = src._st
    t._vc = src._vc if vc is None else vc
    t._m = m
    t._al = alias
    t._fn = t._g = t._acc = t._x = None
    t._rg = False
    t._onr = 0
    if MODES.bits & (UNDER_JAX | IN_RUN):
        if MODES.bits & UNDER_JAX:
            extras(t).born = MODES.birth
        MODES.run.uses.alias_born(t, src)
    return t


def born(t: Tensor) -> int:
    """The transform inside of which a tensor was made, as `Storage.born`."""
    return (t._x.born if t._x is not None else 0) or t._st.born


def plain_alias(t: Tensor) -> Alias | None:
    """How `t` reads its storage, without what it is a view of."""
    al = t._al
    if al is None:
        return None
    out = Alias(al.offset, None, CREATED_DEFAULT, 0)
    out.conj, out.neg = al.conj, al.neg
    return out


def watchers(t: Tensor) -> Watchers:
    """What users attached to a tensor, made on first use."""
    if t._x is None:
        t._x = Watchers()
    return t._x


def extras(t: Tensor) -> Extras:
    """The rarely used part of a tensor, made on first use."""
    before = t._x
    if before.__class__ is not Extras:
        t._x = Extras()
        if before is not None:
            for name in Watchers.__slots__:
                setattr(t._x, name, getattr(before, name))
    return t._x


def is_plain(t: Tensor) -> bool:
    """Whether a tensor carries nothing that few tensors do, besides where it was made."""
    x = t._x
    return x is None or not (
        x.hooks
        or x.post_acc
        or x.retains
        or x.dual is not None
        or x.inference
        or x.uncounted
        or x.followed
        or x.name
        or x.grad_dtype is not UNSET
    )


def uncounted(t: Tensor) -> bool:
    """Whether a tensor has no version counter, as one made in inference mode; its `.data` has one."""
    return t._x is not None and t._x.uncounted


_OWN_REFERENCES = 4
"""References to a storage from one tensor, a local name and `sys.getrefcount` itself."""


def leave_storage(t: Tensor) -> None:
    """Keep the version counter of a tensor that is about to get other memory.

    A counter that is part of the storage left behind is kept as it is only where somebody shares it:
    otherwise the count alone lives on.
    """
    MODES.run.uses.replace_memory(t)
    vc = t._vc
    tracked = t._al is not None and t._al.base is not None
    if vc is t._st and not tracked and sys.getrefcount(vc) <= _OWN_REFERENCES:
        t._vc = Version(vc.version)


def check_counted(me: Tensor) -> None:
    """Complain about a write outside of inference mode that no version counter saw.

    torch counts a write once it is done: an inference tensor refuses too late.
    """
    if uncounted(me) and not MODES.bits & INFERENCE:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed."
            "You can make a clone to get a normal tensor before doing inplace update."
            "See https://github.com/pytorch/rfcs/pull/17 for more details."
        )


def check_shareable(t: Tensor) -> None:
    """Complain about sharing a version counter that an ordinary tensor does not have.

    That is what `.data = ` makes of an inference tensor: its writes stay uncounted.
    """
    if uncounted(t) and not t._x.inference:
        raise RuntimeError("Inference tensors do not track version counter.")


def count_like(t: Tensor, source: Tensor) -> None:
    """Nobody counts the writes to `t` where nobody counts those to its source."""
    if source._x is not None and source._x.uncounted:
        x = extras(t)
        x.uncounted, x.inference = True, source._x.inference


def mark_inference(t: Tensor) -> None:
    """Make `t` a tensor of inference mode: never saved, and without a version counter."""
    x = extras(t)
    x.inference = x.uncounted = True


def wrap_array(array: Any) -> Tensor:
    """A tensor around a JAX array (or tracer), by reference."""
    array = settled(array)
    if array.__class__ is np.ndarray:
        dev = devices.CPU
    else:
        try:
            dev = devices.of_jax(min(array.devices(), key=lambda d: d.id))
        except (AttributeError, TypeError):  # a tracer is on no device yet
            dev = devices.default_device()
    m = meta(tuple(array.shape), dtypes.from_np(array.dtype), dev)
    return make(array, m) if placement.spread_over(array) is None else placed(array, m)


def wrap_beside(array: Any, dev: Any) -> Tensor:
    """A tensor around a JAX array that meets tensors on a device: it goes there unless it is bound to its own.

    `jnp.ones(3)` lies on the first GPU where there is one, but JAX itself moves it to what it meets.
    """
    t = wrap_array(array)
    free = isinstance(array, jax.Array) and not isinstance(array, Tracer) and not array.committed
    if t._m.device is dev or not free or dev.type == "meta":
        return t

    return make(jax.device_put(array, devices.to_jax(dev)), t._m.like(device=dev))
