"""Values that nodes keep for the backward pass: version checks, unpacking, pack and unpack hooks."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from ..._core.arrays.meta import Meta, meta
from ..._core.errors import messages as errors
from ..._core.state import GRAD, MODES, PACKING, WINDOWS
from ..memory import strided
from ..memory.shared import saved_tensor, saved_value
from ..memory.shared_values import LIVE, VersionAndValues, outlasts, with_shared_values
from ..memory.tensor import Alias, Storage, Tensor, alias_of, held_by, make, plain_alias, tensor_over
from ..run import windows
from .history import grad_fn_of, node_of_written_part, written_part
from .node import AccumulateGrad


class Packed:
    """A saved tensor that went through a pack hook."""

    __slots__ = ("edge", "is_output", "meta", "output_nr", "packed", "unpack", "version")

    def __init__(self, packed: Any, unpack: Any, vc: Any, m: Any, is_output: bool) -> None:
        self.packed, self.unpack, self.meta = packed, unpack, m
        # A number, since the counter may be the storage, which need not stay alive.
        self.version = vc.version
        self.is_output = is_output
        self.output_nr = 0
        self.edge: Any = None  # where the value came from, if the node's own edges do not say it


Unpacked = dict[Packed, Any]
"""What unpack hooks gave to a pass ahead of the nodes that are to read it: arrays, or the errors that they raised.

A node takes out what it reads, and no hook is called for what is there.
"""


def versions_to_keep(saved: Sequence[Any], versions: tuple[int, ...]) -> tuple[int, ...]:
    """The versions that a node keeps of what it saves; those of what NumPy may write to with the present values."""
    keeps = LIVE and (MODES.run.at_once or MODES.transposed is not None)
    return with_shared_values(saved, versions) if keeps else versions


_TENSOR_OR_STORAGE = (Tensor, Storage)


def pack(value: Any, is_output: bool) -> Any:
    """Run the innermost pack hook on a value about to be saved."""
    hooks = MODES.pack_hooks
    if not hooks or not isinstance(value, _TENSOR_OR_STORAGE):
        return value
    tensor = value if value.__class__ is Tensor or not isinstance(value, Storage) else tensor_over(value)
    own, bits, before = MODES.own, MODES.bits, tensor._vc.version
    try:  # what a hook computes is not packed, and not recorded
        own |= {"pack_hooks": (), "bits": bits & ~(PACKING | GRAD)}
        packed = hooks[-1][0](tensor)
    finally:
        own |= {"pack_hooks": hooks, "bits": MODES.bits & ~GRAD | PACKING | bits & GRAD}
    if tensor._vc.version != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
            "cannot be modified by in-place operations as this can lead to unexpected side-effects. Please open "
            "an issue if you need to perform in-place operations on the input to a pack hook."
        )
    return Packed(packed, hooks[-1][1], tensor._vc, tensor._m, is_output)


def error_of_write(m: Any, producer: str | None, nr: int, now: int, then: int) -> RuntimeError:
    """The error about a saved value like `m` that was written to since."""
    prefix = "torch." if m.device.type == "cpu" else f"torch.{m.device.type}."
    return RuntimeError(
        errors.modified_in_place(
            prefix + m.dtype.type_name, m.shape, producer, nr, now, then, watched=MODES.anomaly is not None
        )
    )


def _describe(node: Any, index: int, entry: Any) -> tuple[str | None, int]:
    """Return which node made a saved value, and as which output; of inputs torch's messages always say 0."""
    n_in = len(node.gp.saved_in)
    if index >= n_in:
        k, diff = node.gp.saved_out[index - n_in], node.gp.plan.diff
        part = node_of_written_part(node)
        if part is not None:
            return part.name(), 0
        # What a write to a part saved is an output of that write, not of the CopySlices around it.
        name = getattr(node.gp, "inner", node.gp).name
        return (name, diff.index(k)) if k in diff else (None, 0)
    # A view that was forbidden since complains of that when asked.
    maker = grad_fn_of(entry) if isinstance(entry, Tensor) else None
    if maker is not None:
        return maker.name(), 0
    leaf = node.gp.saved_in[index]
    if leaf in node.gp.edge_leaves:
        edge = node.edges[node.gp.edge_leaves.index(leaf)]
        if edge is not None:
            name = edge[0].name()
            return (None if name.endswith("AccumulateGrad") else name), 0
    return None, 0


def _modified(node: Any, index: int, entry: Any, m: Any, now: int) -> RuntimeError:
    """The complaint about a saved value that was written to since."""
    producer, nr = _describe(node, index, entry)
    return error_of_write(m, producer, nr, now, node.vers[index])


def _check_unwritten(node: Any, index: int, entry: Any) -> None:
    """Complain if a saved value was written to since, and the node does not keep what it was."""
    if isinstance(entry, Storage):
        if entry.version != node.vers[index] and not outlasts(node.vers[index]):
            raise _modified(node, index, entry, entry.meta, entry.version)
    elif isinstance(entry, Tensor) and entry._vc.version != node.vers[index] and not outlasts(node.vers[index]):
        raise _modified(node, index, entry, entry._m, entry._vc.version)


def unwritten(node: Any) -> bool:
    """Return whether nobody wrote to what a node saved."""
    for entry, then in zip(node.saved or (), node.vers):
        counter = entry if isinstance(entry, Storage) else entry._vc if isinstance(entry, Tensor) else None
        if counter is not None and counter.version != then:
            return False
    return True


ALTERED: dict[int, Any] = {}
"""Tensors that were cut from a graph in place, or whose `.data` became something of another shape or dtype, by
identity; nodes may have saved them before."""


def note_altered(t: Tensor) -> None:
    """Remember that a tensor is no longer what nodes may have saved."""
    key = id(t)
    ALTERED[key] = weakref.ref(t, lambda _: ALTERED.pop(key, None))


def unaltered(node: Any) -> bool:
    """Return whether no tensor that a node saved is another one by now."""
    saved = node.saved
    return saved is None or not any(id(entry) in ALTERED for entry in saved)


def check_attached(node: Any) -> None:
    """Refuse what torch refuses: a saved input that has been cut from the graph since."""
    gp, saved = node.gp, node.saved
    if saved is None or gp is None:
        return
    for i, leaf in enumerate(gp.saved_in):
        if id(saved[i]) in ALTERED and saved[i]._fn is None and leaf in gp.edge_leaves:
            edge = node.edges[gp.edge_leaves.index(leaf)]
            if edge is not None and not isinstance(edge[0], AccumulateGrad):
                raise RuntimeError(errors.DETACHED_IN_PLACE)


def _as_saved(node: Any, index: int, entry: Any) -> Any:
    """Return what a saved input was when it was saved, where its data is of another shape or dtype since; else None."""
    gp = node.gp
    if id(entry) not in ALTERED or index >= len(gp.saved_in):
        return None
    m = gp.plan.keys[gp.saved_in[index]]
    known = isinstance(m, Meta) and (entry._m.dtype is not m.dtype or entry._m.shape != m.shape)
    if known and entry._m.dtype.is_complex and not m.dtype.is_complex:
        raise RuntimeError(
            f"a tensor that {node.name()} saved was real, and its data became complex: there is no gradient"
        )
    return m if known else None


def unpack_arrays(node: Any, ahead: Unpacked) -> list[Any]:
    """The saved values as arrays and numbers, after checking that nobody wrote to them."""
    saved = node.saved  # it is read once, as a pass of another thread may free it in the meantime
    if saved is None:
        raise RuntimeError(errors.SECOND_BACKWARD)
    out = []
    at_once, deferring = MODES.run.at_once, MODES.bits & WINDOWS and windows.defers(MODES.bits)
    for i, (entry, then) in enumerate(zip(saved, node.vers)):  # a write to a part holds a node besides
        if isinstance(entry, Storage):
            value: Any = held_by(entry) if deferring else entry.array
        elif isinstance(entry, Tensor):
            value = entry._st.array if entry._al is None and at_once and not deferring else None
        else:
            out.append(_unpacked_array(entry, ahead) if entry.__class__ is Packed else entry)
            continue
        _check_unwritten(node, i, entry)
        if then.__class__ is VersionAndValues or LIVE:
            old = saved_value(node, entry, then)
            value = value if old is None else old
        if value is None:
            value = strided.operand(entry)  # type: ignore[arg-type] - a storage has a value
        m = _as_saved(node, i, entry) if ALTERED and isinstance(entry, Tensor) else None
        out.append(value if m is None else strided.fitted(value, m))
    return out


def _unpacked_array(entry: Packed, ahead: Unpacked) -> Any:
    """Return what the kernels of a pass read: a value of another dtype is cast, one of another shape must broadcast."""
    return strided.fitted(_unpacked(entry, ahead), entry.meta)


def _unpacked(entry: Packed, ahead: Unpacked) -> Any:
    """The array that the unpack hook gives, or gave ahead."""
    value = ahead.pop(entry, None) if ahead else None
    if value is None:
        return strided.read(unpack_hooked(entry))
    if isinstance(value, BaseException):
        raise value
    return value


def unpack_ahead(entry: Packed, ahead: Unpacked) -> Any:
    """Call the unpack hook before the pass comes to the node, unless that was done.

    Returns:
        The array; None if the hook raised an error, which the node raises when the pass comes to it.
    """
    if entry not in ahead:
        try:
            ahead[entry] = strided.read(unpack_hooked(entry))
        except BaseException as error:
            ahead[entry] = error
    value = ahead[entry]
    return None if isinstance(value, BaseException) else value


def unpack_for_nothing(node: Any, ahead: Unpacked) -> None:
    """Do what torch does where no gradient is computed of the saved values: check them and call the unpack hooks."""
    saved = node.saved
    if saved is None:
        raise RuntimeError(errors.SECOND_BACKWARD)
    for i, entry in enumerate(saved):
        if entry.__class__ is Packed:
            _unpacked(entry, ahead)
        else:
            _check_unwritten(node, i, entry)


def unpack_hooked(entry: Packed) -> Tensor:
    """Return what the unpack hook makes of what the pack hook gave; no version is checked, as in torch."""
    value = entry.unpack(entry.packed)
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(value).__name__}"
        )
    return value


def check_version(entry: Any, then: int, producer: str | None, nr: int) -> None:
    """Complain if a tensor that a node saved was written to since, and the node does not keep what it was."""
    if entry._vc.version != then and not outlasts(then):
        if producer is None and (maker := grad_fn_of(entry)) is not None:
            producer = maker.name()
        raise error_of_write(entry._m, producer, nr, entry._vc.version, then)


def unpack_tensors(node: Any, fitting: bool = False, at: Sequence[int] | None = None) -> list[Any]:
    """The saved values as tensors with their place in the graph; `fitting` ones are as kernels read them.

    With `at` those at these positions, and the others are neither checked nor unpacked.
    """
    saved = node.saved
    if saved is None:
        raise RuntimeError(errors.SECOND_BACKWARD)
    arrays = None
    gp = node.gp
    n_in = len(gp.saved_in)
    out: list[Any] = []
    places = range(len(saved)) if at is None else at
    for i in places:
        entry = saved[i]
        kind = entry.__class__
        if kind is Packed:
            value, m = unpack_hooked(entry), entry.meta
            if fitting and (value._m.dtype is not m.dtype or value._m.shape != m.shape):
                array = strided.fitted(strided.read(value), m)
                value = make(array, meta(m.shape, m.dtype, m.device))
            out.append(_rewire(node, i, n_in, value))
            continue
        if not isinstance(entry, Tensor | Storage):
            out.append(entry)
            continue
        if arrays is None:
            arrays = True
            for j in places:
                _check_unwritten(node, j, saved[j])
        then = node.vers[i]
        if then.__class__ is VersionAndValues or LIVE:
            whole = entry if isinstance(entry, Tensor) else tensor_over(entry)
            old = saved_tensor(node, whole, then)
            if old is not None:
                placed = _rewire(node, i, n_in, old)
                MODES.tangents.share_tangent(old, placed)
                out.append(placed)
                continue
        if isinstance(entry, Storage):
            t = tensor_over(entry)
            out.append(_as_output(node, gp.saved_out[i - n_in], t))
        elif i >= n_in:
            t = alias_of(entry, entry._m, entry._al)
            t._x = entry._x  # the tangent of the value comes along
            out.append(_as_output(node, gp.saved_out[i - n_in], t))
        else:
            m = _as_saved(node, i, entry) if ALTERED and fitting else None
            if m is not None:
                array = strided.fitted(strided.read(entry), m)
                entry = _rewire(node, i, n_in, make(array, meta(m.shape, m.dtype, m.device)))
            out.append(entry)
    return out


def _as_output(node: Any, nr: int, t: Tensor) -> Tensor:
    diff = node.gp.plan.diff
    if nr in diff:
        part = written_part(node)  # the node's output is the base, but it saved the part
        t._fn, t._onr, t._rg = (part, 0, True) if part else (node, diff.index(nr), True)
    return t


def _rewire(node: Any, index: int, n_in: int, value: Tensor) -> Tensor:
    """Give an unpacked value the graph connection of what was packed."""
    gp = node.gp
    if index >= n_in:
        return _as_output(node, gp.saved_out[index - n_in], _apart(value))
    leaf = gp.saved_in[index]
    if leaf in gp.edge_leaves:
        return rewired(value, node.edges[gp.edge_leaves.index(leaf)])
    return value


def _apart(value: Tensor) -> Tensor:
    """An unpacked value that is a view of nothing, whatever the hook gave."""
    return alias_of(value, value._m, plain_alias(value))


def rewired(value: Tensor, edge: Any) -> Tensor:
    """An unpacked value with the place in the graph that the packed one had."""
    if edge is None:
        return value
    t = _apart(value)
    t._rg = True
    if isinstance(edge[0], AccumulateGrad):
        t._acc = weakref.ref(edge[0])
    else:
        t._fn, t._onr = edge
    return t


# --- what users look at ----------------------------------------------------------------------------


class SavedTensor:
    """One saved value of a node, before it is unpacked; the one at no index is None."""

    _node: Any
    _index: int | None

    def __init__(self) -> None:
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    @classmethod
    def _at(cls, node: Any, index: int | None) -> SavedTensor:
        out = cls.__new__(cls)
        out._node, out._index = node, index
        return out

    def _entry(self) -> Any:
        """Return what the node holds."""
        saved, i = self._node.saved, self._index
        return None if saved is None or i is None else saved[i]

    def register_hooks(self, pack_hook: Any, unpack_hook: Any) -> None:
        """Pack this value now; unpack it whenever it is needed."""
        node, i = self._node, self._index
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError(
                "register_hooks(): incompatible function arguments. The following argument types are supported:\n"
                "    1. (self: torch._C._autograd.SavedTensor, arg0: collections.abc.Callable, arg1: "
                f"collections.abc.Callable) -> None\n\nInvoked with: {self!r}, {pack_hook!r}, {unpack_hook!r}"
            )
        if node.saved is None:
            raise RuntimeError(errors.FREED_HOOKS)
        entry = self._entry()
        if isinstance(entry, Packed):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time."
            )
        if not isinstance(entry, Tensor | Storage):
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        assert i is not None
        is_output = node._is_output[i] if node.gp is None else i >= len(node.gp.saved_in)
        nr = entry._onr if isinstance(entry, Tensor) else 0
        if isinstance(entry, Tensor):  # the hook sees the value, not its place in the graph
            al = entry._al
            if al is not None:
                al = Alias(al.offset, None, 0, 0)
                al.conj, al.neg = entry._al.conj, entry._al.neg
            entry = alias_of(entry, entry._m, al, entry._vc)
        before, bits = MODES.pack_hooks, MODES.bits
        try:
            MODES.pack_hooks = (*before, (pack_hook, unpack_hook))
            packed = pack(entry, is_output)
        finally:
            MODES.own |= {"pack_hooks": before, "bits": bits}
        packed.output_nr = nr
        node.saved = (*node.saved[:i], packed, *node.saved[i + 1 :])

    def unpack(self) -> Any:
        """The value, as `_saved_*` gives it."""
        node, i = self._node, self._index
        if i is None:
            return None
        if node.gp is not None:
            return unpack_tensors(node, at=(i,))[0]
        saved = node.saved
        if saved is None:
            raise RuntimeError(errors.SECOND_BACKWARD)
        return node._unpacked(i, saved[i])

    @property
    def data(self) -> Any:
        """What the pack hook gave, or the value itself where there is no hook."""
        entry = self._entry()
        return entry.packed if isinstance(entry, Packed) else self.unpack()

    @property
    def unpack_hook(self) -> Any:
        """The hook that unpacks the value, or None."""
        entry = self._entry()
        return entry.unpack if isinstance(entry, Packed) else None


SavedTensor.__module__ = "torch._C._autograd"  # torch's `repr` names this module
