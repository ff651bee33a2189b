"""Nodes whose backward is Python code over tensors: custom Functions and what stands around them.

A `PyNode` has no gradient plan. The walk hands it tensors (`backward_tensors`), and what it returns
is checked and fitted to the inputs it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import events
from ..._core.arrays import dtypes, shapes
from ..._core.arrays.formats import contiguous_format
from ..._core.arrays.meta import Meta, meta
from ..._core.errors import messages as errors, warn
from ..._core.signals import uninterrupted
from ..._core.state import DUAL, FUNCTION_MODE, GRAD, INFERENCE, MODES, OBSERVED, PACKING, WINDOWS, next_sequence_nr
from ..graph import saved_attributes  # noqa: F401 - gives nodes their `_saved_*`
from ..graph.fitting import validated
from ..graph.history import _regenerate, check_inplace, edge_of, move_hooks, offset_within, requires_grad_of
from ..graph.node import Node
from ..graph.record import save_general, zeros_for
from ..graph.saved import ALTERED, Packed, SavedTensor, check_version, rewired, unpack_hooked, versions_to_keep
from ..graph.views import as_strided_view, make_view, reinterpreted_view
from ..memory.shared import saved_tensor
from ..memory.shared_values import LIVE, VersionAndValues
from ..memory.strided import storage_offset
from ..memory.tensor import (
    CREATED_CUSTOM,
    CREATED_MULTI,
    CREATED_NO_GRAD,
    Alias,
    Extras,
    Tensor,
    alias_of,
    born,
    mark_inference,
    uncounted,
)
from ..modes.belonging import beside
from ..surface import METHODS, ops
from ..tensor import dual
from . import intermediates

# --- nodes ----------------------------------------------------------------------------------------


class PyNode(Node):
    """The node of a custom Function, which is also the `ctx` that its methods get."""

    __slots__ = (
        "__dict__", "_cleared", "_freed", "_grad_dtypes", "_ins", "_is_output", "_materialize",
        "_materialize_non_diff_grads", "dirty_tensors", "needs_input_grad", "non_differentiable", "outs",
        "saved_for_forward", "to_save",
    )  # fmt: skip
    _is_watched = False
    """Of the class: whether a forward was watched, see `intermediates`."""
    _has_looked = False
    """Of the class: whether a recorded pass has looked at what a watched forward saved."""
    _watch: intermediates.Watch | None = None
    needs_input_grad: tuple[bool, ...]
    to_save: Any
    saved_for_forward: Any
    dirty_tensors: Any
    non_differentiable: Any
    _materialize: bool
    outs: tuple[Meta | None, ...]
    _ins: tuple[bool, ...]
    _freed: bool
    _is_output: tuple[bool, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        self.gp = self.extras = self._grad_dtypes = None
        self.edges = self.saved = self.vers = self.outs = self._ins = self._is_output = ()
        self.seq = 0
        self.needs_input_grad = ()
        self.to_save = self.saved_for_forward = self.dirty_tensors = self.non_differentiable = None
        self._materialize = self._materialize_non_diff_grads = True
        self._freed = self._cleared = False
        return self

    def name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__qualname__} object at {id(self):#x}>"

    def __getattr__(self, name: str) -> Any:
        if name == "materialize_grads":  # this attribute can be set, and not read
            raise AttributeError(f"attribute '{name}' of 'torch._C._FunctionBase' objects is not readable")
        return super().__getattr__(name)

    def _set_materialize(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got (), but expected (bool)"
            )
        self._materialize = value

    materialize_grads = property(None, _set_materialize)
    """Whether undefined gradients reach the backward as zeros."""

    @property
    def n_outputs(self) -> int:
        return len(self.outs)

    def _input_metadata_count(self) -> int:
        return len(self.outs)

    def out_meta(self, nr: int) -> Any:
        return self.outs[nr]

    def grad_meta(self, nr: int, given: Any) -> Any:
        m = self.outs[nr]
        if self._grad_dtypes is None or m is None:
            return m
        return meta(m.shape, self._grad_dtypes[nr] or given, m.device, m.strides)

    def _check_declared(self, outputs: int) -> None:
        """Refuse dtypes of gradients of which there are not as many as outputs, or for what has no gradient."""
        declared = self._grad_dtypes
        if declared is None:
            return
        if len(declared) != outputs:
            raise RuntimeError(
                f"{self.name()}: set_output_grad_dtype got {len(declared)} dtypes, and the Function returned {outputs} "
                "values; give one for each, None for what has no gradient"
            )
        for i, (dtype, m) in enumerate(zip(declared, self.outs)):
            if dtype is not None and m is None:
                raise RuntimeError(
                    f"{self.name()}: set_output_grad_dtype got {dtype} for output {i}, which has no gradient; give None"
                )

    def _release(self) -> None:
        self._freed = True
        self.saved = None
        if self._watch is not None:
            self._watch = None

    # -- saved tensors
    def save(self, tensors: Sequence[Any]) -> None:
        """Keep what the user asked to keep, after the forward."""
        mode = MODES.bits
        saved, versions, is_output = [], [], []
        for i, t in enumerate(tensors):
            if t is None:
                saved.append(None)
                versions.append(0)
                is_output.append(False)
                continue
            if not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type {type(t).__name__}"
                )
            # `_fn` as recorded: a view that must not be looked at may be saved.
            mine = t._fn is self
            is_output.append(mine)
            versions.append(t._vc.version)
            entry: Any = t
            if mode & (PACKING | INFERENCE) or t._x.__class__ is Extras:
                entry = save_general(t, mine)
            if isinstance(entry, Packed):
                entry.output_nr = t._onr
                entry.edge = None if mine or not requires_grad_of(t) else edge_of(t)
            elif mine:  # an output that holds its node would be a cycle
                entry = alias_of(t, t._m, t._al and _baseless(t._al), t._vc)
                entry._onr = t._onr
                dual.share_tangent(t, entry)
            saved.append(entry)
        self.saved, self._is_output = tuple(saved), tuple(is_output)
        self.vers = versions_to_keep(saved, tuple(versions))

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What the forward saved, once checked that nobody wrote to it."""
        if self.saved_for_forward is not None:
            return tuple(self.saved_for_forward)
        return self._saved_for_backward()

    def _saved_for_backward(self) -> tuple[Any, ...]:
        # It is read once, as a pass of another thread may free it in the meantime.
        saved = self.saved
        if self._freed:
            raise RuntimeError(errors.SECOND_BACKWARD)
        if MODES.bits & GRAD and not self._has_looked:
            intermediates.look(self)
        return tuple([self._unpacked(i, entry) for i, entry in enumerate(saved or ())])

    def _unpacked(self, i: int, entry: Any) -> Any:
        if entry is None:
            return None
        if isinstance(entry, Packed):
            value = unpack_hooked(entry)
            return (
                self._as_mine(alias_of(value, value._m, value._al), entry.output_nr)
                if self._is_output[i]
                else rewired(value, entry.edge)
            )
        nr = entry._onr if self._is_output[i] else 0
        producer = type(self).__name__ if self._is_output[i] else None
        if id(entry) in ALTERED and entry._fn is None:
            # torch takes it for one of the Function's own.
            producer = type(self).__name__.removesuffix("Backward")
        then = self.vers[i]
        check_version(entry, then, producer, nr)
        if then.__class__ is VersionAndValues or LIVE:
            old = saved_tensor(self, entry, then)
            if old is not None:
                dual.share_tangent(entry, old)
                edge = edge_of(entry) if requires_grad_of(entry) else None
                return self._as_mine(old, nr) if self._is_output[i] else rewired(old, edge)
        if not self._is_output[i]:
            return entry
        mine = alias_of(entry, entry._m, entry._al, entry._vc)
        dual.share_tangent(entry, mine)
        return self._as_mine(mine, nr)

    def _as_mine(self, t: Tensor, nr: int) -> Tensor:
        t._fn, t._onr, t._rg = self, nr, True
        return t

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        saved = self.saved
        if self._freed:
            raise RuntimeError(errors.SECOND_BACKWARD)
        return tuple(SavedTensor._at(self, i) for i in range(len(saved or ())))

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The old name of `saved_tensors`; it never shows what was saved for forward mode."""
        warn.to_user("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self._saved_for_backward()

    def maybe_clear_saved_tensors(self) -> None:
        """Free the saved tensors, if the running pass is one that does not keep the graph."""
        task = MODES.graph_task
        if task is not None and not task.keep:
            self._release()

    # -- running
    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """Gradients for every tensor argument of the forward, as the user's code gives them."""
        name = self.name()
        out = self.apply_boxed([self._materialized(k, t) if t is None else t for k, t in enumerate(tensors)])
        outs = out if isinstance(out, tuple) else (out,)
        n = len(self._ins)
        if len(outs) > n and all(o is None for o in outs[n:]):
            outs = outs[:n]
        if len(outs) != n:
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {n}, got {len(outs)})"
            )
        grads = []
        for i, (is_tensor, g) in enumerate(zip(self._ins, outs)):
            if not is_tensor:
                if g is not None:
                    raise RuntimeError(
                        f"function {name} returned a gradient different than None at position {i + 1}, but the "
                        "corresponding forward input was not a Variable"
                    )
            elif g is None or isinstance(g, Tensor):
                grads.append(g)
            else:
                raise RuntimeError(f"expected Variable or None (got {type(g).__name__})")
        return grads

    def _materialized(self, k: int, t: Any) -> Any:
        m = self.outs[k]
        if m is None or not self._materialize:
            return t
        zeros = zeros_for(self.grad_meta(k, m.dtype))
        zeros._st.version = 1  # torch makes it empty and fills it, which counts as a write
        return zeros

    def apply_boxed(self, *args: Any) -> Any:
        """The user's backward."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Nodes of operators can be called, those of Functions cannot."""
        raise TypeError(f"'{type(self).__name__}' object is not callable")

    def backward_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        """Gradients for every edge."""
        return validated(self, self.run(tensors))


def _baseless(al: Alias) -> Alias:
    """The same place in the storage, as a tensor that is a view of nothing."""
    out = Alias(al.offset, None, 0, 0)
    out.conj, out.neg = al.conj, al.neg
    return out


class CopySlices(Node):
    """A custom Function that wrote to a view, seen from the view's base."""

    __slots__ = ("base", "conj", "fn", "neg", "offset", "view")

    def __init__(self, base: Tensor, view: Tensor, fn: PyNode) -> None:
        al, under = view._al, base._al
        self.conj = al is not None and al.conj != (under is not None and under.conj)
        self.neg = al is not None and al.neg != (under is not None and under.neg)
        self.gp = self.extras = None
        self.saved, self.vers = (), ()
        self.base, self.view, self.offset, self.fn = base._m, view._m, offset_within(base, view), fn
        self.edges = (edge_of(base), *fn.edges[1:])
        self.seq = next_sequence_nr()

    @property
    def n_outputs(self) -> int:
        return 1

    def _input_metadata_count(self) -> int:
        return 1

    def out_meta(self, nr: int) -> Any:
        return self.base

    def _release(self) -> None:
        self.saved = None
        self.fn._release()

    def backward_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        """The base's gradient with the view's part replaced by what the Function says."""
        if self.saved is None:
            raise RuntimeError(errors.SECOND_BACKWARD)
        (g,) = tensors
        if g is None:
            return [None] * len(self.edges)
        m, strides = self.view, self.base.strides
        out = ops.copy_(METHODS["new_empty_strided"](g, g._m.shape, strides), g)
        if self.conj or self.neg or m.dtype is not self.base.dtype:
            part = reinterpreted_view(out, m, self.offset, self.conj, self.neg)
        else:
            part = as_strided_view(out, m.shape, m.strides, self.offset)
        grads = self.fn.run([METHODS["clone"](part, memory_format=contiguous_format)])
        if grads[0] is None:
            ops.zero_(part)
        else:
            ops.copy_(part, grads[0])
        return validated(self, [out, *grads[1:]])


class Error(Node):
    """A node that lets nothing through: its gradient raises."""

    __slots__ = ("message", "metas")

    def __init__(self, message: str, inputs: Sequence[Tensor]) -> None:
        self.gp = self.extras = None
        self.saved, self.vers = (), ()
        self.message = message
        self.metas = tuple(t._m for t in inputs)
        self.edges = tuple(edge_of(t) for t in inputs)
        self.seq = next_sequence_nr()

    def name(self) -> str:
        return "torch::autograd::Error"

    @property
    def n_outputs(self) -> int:
        return len(self.metas)

    def _input_metadata_count(self) -> int:
        return len(self.metas)

    def out_meta(self, nr: int) -> Any:
        return self.metas[nr]

    def _release(self) -> None:
        """Nothing is saved."""

    def backward_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        """Refuse."""
        raise RuntimeError(self.message)


class DelayedError:
    """Aliases its arguments such that differentiating them raises `message`."""

    def __init__(self, message: str, num_inputs: int) -> None:
        self.message, self.num_inputs = message, num_inputs

    def __call__(self, *inputs: Any) -> Any:
        tensors = [t for t in inputs if isinstance(t, Tensor)]
        node = Error(self.message, tensors)
        out, nr = [], 0
        for t in inputs:
            if isinstance(t, Tensor):
                shown = alias_of(t, t._m, t._al and _baseless(t._al), t._vc)
                shown._fn, shown._onr, shown._rg = node, nr, True
                nr += 1
                out.append(shown)
            else:
                out.append(t)
        return tuple(out) if len(out) != 1 else out[0]


class _Undefined(Error):
    """A node that passes no gradient on."""

    __slots__ = ()

    def name(self) -> str:
        return "UndefinedGradBackward"

    def backward_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        """Nothing, for every edge."""
        return [None] * len(self.edges)


class WarnNotImplemented(_Undefined):
    """A node that stands for a gradient that nobody wrote: it warns, and passes nothing on."""

    __slots__ = ()

    def __init__(self, message: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        super().__init__(message, inputs)
        self.metas = tuple(t._m for t in outputs)
        for nr, t in enumerate(outputs):
            t._fn, t._onr, t._rg = self, nr, True

    def name(self) -> str:
        return "torch::autograd::WarnNotImplemented"

    def backward_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        """Say so."""
        warn.to_user(self.message)
        return super().backward_tensors(tensors)


class UndefinedGrad:
    """The identity, through which gradients come out undefined."""

    def __call__(self, t: Tensor) -> Tensor:
        out = alias_of(t, t._m, t._al and _baseless(t._al), t._vc)
        out._fn, out._onr, out._rg = _Undefined("", (t,)), 0, True
        return out


# --- running the forward of a Function ------------------------------------------------------------


SAVED_AS_IS = (
    "An input that has been returned as-is as output is being saved for backward. This is not supported if you "
    "override setup_context. You should return and save a view of the input instead, e.g. with x.view_as(x) or setup "
    "ctx inside the forward function itself."
)
NOT_RETURNED = (
    "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified "
    "inplace must all be outputs of the Function."
)


def keep_returned_marks(ctx: PyNode, outputs: Sequence[Any], written: Sequence[Tensor]) -> None:
    """Take the marks of writes off inputs that are not among the outputs; of those written to, they still count."""
    marked = _tuple_of(ctx, "dirty_tensors")
    returned = {id(t) for t in outputs}
    wrote = {id(t) for t in written}
    for t in marked:
        if id(t) in wrote and id(t) not in returned and not uncounted(t):
            t._vc.version += 1
    if marked:
        ctx.dirty_tensors = tuple(t for t in marked if id(t) in returned)


class _forward_mode:
    """What a Function's forward runs under: nothing is recorded, tangents do not flow."""

    def __enter__(self) -> None:
        self.bits = MODES.bits
        MODES.bits = self.bits & ~(GRAD | DUAL)

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.bits = self.bits


def apply_function(ctx: PyNode, args: Sequence[Any], forward: Any, jvp: Any) -> Any:
    """Run ``forward(ctx, *args)`` outside of the graph and record it as one node, `ctx`."""
    if MODES.bits & OBSERVED and MODES.observers:
        name = ctx.name().removesuffix("Backward")
        return events.op(name, "function", args, lambda: _apply_function(ctx, args, forward, jvp))
    return _apply_function(ctx, args, forward, jvp)


def _apply_function(ctx: PyNode, args: Sequence[Any], forward: Any, jvp: Any) -> Any:
    mode = MODES.bits
    tensors, ins, needs = [], [], []
    for a in args:
        ins.append(isinstance(a, Tensor))
        needs.append(ins[-1] and requires_grad_of(a))
        if ins[-1]:
            tensors.append(a)
    ctx.needs_input_grad, ctx._ins = tuple(needs), tuple(ins)
    recording = bool(mode & GRAD) and True in needs
    if recording:
        ctx.edges = tuple(map(edge_of, tensors))
        # A higher number than those of nodes that views get when they are looked at.
        ctx.seq = next_sequence_nr()
    inside = [t for t in tensors if born(t) >= MODES.birth] if MODES.transforms else []
    versions = {id(t): t._vc.version for t in inside}
    with _forward_mode():
        if recording and not (ctx._is_watched or mode & ~_WATCHED_MODES):
            raw = _watched(ctx, tensors, args, forward)
        else:
            raw = forward(ctx, *args)
    marked = {id(t) for t in _tuple_of(ctx, "dirty_tensors")} if inside else ()
    for t in inside:
        # Transforms of torch count the mark of a write, which comes now, and not the write.
        if id(t) in marked:
            t._vc.version = versions[id(t)]
    outputs = raw if isinstance(raw, tuple) else (raw,)
    given = [dual.tangent_of(t) for t in tensors] if mode & DUAL and MODES.forward_grad else []
    wrapped = _wrap_outputs(ctx, tensors, outputs, recording)
    if jvp is not None and given and any(g is not None for g in given):
        _push_tangents(ctx, args, dict(zip(map(id, tensors), given)), outputs, wrapped, jvp)
    if recording:  # the jvp ran before this: it sees only what was saved for it
        ctx._check_declared(len(outputs))
        saved = _tuple_of(ctx, "to_save")
        if ctx._watch is not None:
            ctx._watch.saves(saved, (*outputs, *wrapped))
        ctx.save(saved)
    ctx.to_save = ctx.dirty_tensors = ctx.saved_for_forward = ctx.non_differentiable = None
    if recording and mode & OBSERVED:
        events.node_recorded(ctx)
    return tuple(wrapped) if isinstance(raw, tuple) else wrapped[0]


_WATCHED_MODES = GRAD | FUNCTION_MODE | PACKING | OBSERVED | WINDOWS


def _watched(ctx: PyNode, tensors: Sequence[Tensor], args: Sequence[Any], forward: Any) -> Any:
    """Run the first forward of a class, and note what it computes of what."""
    type(ctx)._is_watched = True
    with intermediates.Watch(tensors, [t for t in tensors if requires_grad_of(t)]) as ctx._watch:
        return forward(ctx, *args)


def _tuple_of(ctx: PyNode, name: str) -> tuple[Any, ...]:
    value = getattr(ctx, name)
    if value is None:
        return ()
    if not isinstance(value, tuple):
        raise RuntimeError(f"autograd internal error: {name} attribute is expected to be a tuple but is ")
    return value


def _marked(ctx: PyNode, name: str, complaint: str) -> dict[int, Tensor]:
    marked = {}
    for t in _tuple_of(ctx, name):
        if not isinstance(t, Tensor):
            raise RuntimeError(complaint)
        marked[id(t)] = t
    return marked


def _wrap_outputs(ctx: PyNode, tensors: Sequence[Tensor], outputs: Sequence[Any], recording: bool) -> list[Any]:
    """The outputs as the caller gets them: attached to `ctx`, detached, or views of inputs."""
    dirty = _marked(ctx, "dirty_tensors", "mark_dirty can only accept variables, but argument ")
    for t in dirty.values():
        if not uncounted(t):
            t._vc.version += 1
    frozen = (
        _marked(ctx, "non_differentiable", "mark_non_differentiable only accepts variable arguments, but got ")
        if recording
        else {}
    )
    inputs = {*map(id, tensors)}
    ctx.outs = tuple([o._m if isinstance(o, Tensor) else None for o in outputs])
    wrapped: list[Any] = []
    n_diff, modified = 0, set()
    for nr, out in enumerate(outputs):
        if not isinstance(out, Tensor):
            wrapped.append(out)
            continue
        is_input, is_dirty = id(out) in inputs, id(out) in dirty
        if is_dirty:
            modified.add(id(out))
            if not is_input:
                warn.to_user(
                    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been "
                    "mutated should be passed to ctx.mark_dirty()."
                )
        diff = recording and id(out) not in frozen and out._m.dtype.category >= dtypes.FLOATING
        t = (
            _attached(ctx, nr, beside(out, tensors), is_input, is_dirty, len(outputs))
            if diff
            else _unattached(out, is_input, is_dirty)
        )
        if t._al is not None and t._al.base is not None and not (is_input and is_dirty):
            t._al.creation = CREATED_CUSTOM
        n_diff += diff
        wrapped.append(t)
        if not (diff or ctx._materialize_non_diff_grads):
            # There is nothing to make zeros like.
            ctx.outs = (*ctx.outs[:nr], None, *ctx.outs[nr + 1 :])
    if n_diff > 1:
        for t in wrapped:
            if isinstance(t, Tensor) and t._al is not None and t._al.base is not None:
                t._al.creation = CREATED_MULTI
    if len(modified) != len(dirty):
        raise RuntimeError(NOT_RETURNED)
    return wrapped


def _unattached(out: Tensor, is_input: bool, is_dirty: bool) -> Tensor:
    """An output without gradient."""
    if not requires_grad_of(out):
        return _itself(out) if is_input and not is_dirty else out
    if is_input:
        return alias_of(out, out._m, out._al and _baseless(out._al), out._vc)
    if out._al is None or out._al.base is None:
        out._fn, out._onr, out._rg = None, 0, False
    return out


def _itself(t: Tensor) -> Tensor:
    """A view of all of a tensor, so that an input returned as it is gets a history of its own."""
    if t._x is not None and t._x.inference:
        out = make_view(t, t._m, storage_offset(t), tracked=False)
        mark_inference(out)
        return out
    return make_view(t, _meta_of_plain_view(t._m), storage_offset(t), creation=CREATED_NO_GRAD)


def _meta_of_plain_view(m: Meta) -> Meta:
    """The meta of `view` to the same shape: strides of dimensions of size 1 are the ordinary ones."""
    if m is meta(m.shape, m.dtype, m.device):
        return m
    strides = shapes.view_strides(m.shape, m.strides, m.shape)
    return m if strides is None else meta(m.shape, m.dtype, m.device, strides)


def _attached(ctx: PyNode, nr: int, out: Tensor, is_input: bool, is_dirty: bool, n: int) -> Tensor:
    """A differentiable output, made the `nr`-th of `ctx`."""
    if is_dirty:
        if out._fn is None and requires_grad_of(out):
            raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
        view = out._al is not None and out._al.base is not None
        if view and n > 1:
            raise RuntimeError(
                "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
                "return more than one Tensor. This is not supported by the current autograd engine. You should "
                "either make sure the input is not a view (using .clone() for example) or make your Function only "
                "return one Tensor (potentially splitting it into two Functions: one doing the inplace that "
                "returns a single Tensor and a second one that does the other operations). You can ask on the "
                "forum https://discuss.pytorch.org/ if you need help to do this change."
            )
        # torch forgets these before it looks whether the write was allowed.
        out._g = out._acc = None
        if out._x is not None:
            out._x.hooks = None
        if view:
            check_inplace(out)
        rebase(out, ctx, nr)
        return out
    t = _itself(out) if is_input else out
    t._fn, t._onr, t._rg, t._acc = ctx, nr, True, None
    return t


def rebase(t: Tensor, node: PyNode, nr: int) -> None:
    """Attach a tensor that a Function wrote to; its base too, if it is a view."""
    al = t._al
    if al is None or al.base is None:
        t._fn, t._onr, t._rg = node, nr, True
        move_hooks(t)
        return
    base = al.base
    outer = CopySlices(base, t, node)
    base._fn, base._onr, base._rg = outer, 0, True
    move_hooks(base)
    if base._al is not None:
        base._al.seen = base._vc.version
    _regenerate(t)


# --- forward mode ---------------------------------------------------------------------------------


def _push_tangents(
    ctx: PyNode, args: Sequence[Any], given: dict[int, Any], outputs: Sequence[Any], wrapped: Sequence[Any], jvp: Any
) -> None:
    """Give the outputs the tangents that the user's jvp says."""

    tangents = []
    for a in args:
        t = given.get(id(a)) if isinstance(a, Tensor) else None
        if t is None and isinstance(a, Tensor) and ctx._materialize and a._m.dtype.category >= dtypes.FLOATING:
            t = zeros_for(a._m)
        tangents.append(t)
    versions = {k: t._vc.version for k, t in given.items() if t is not None}
    bits = MODES.bits
    MODES.bits = bits & ~DUAL
    try:
        slopes = jvp(ctx, *tangents)
    finally:
        MODES.bits = bits
    slopes = slopes if isinstance(slopes, tuple) else (slopes,)
    if len(slopes) != len(outputs):
        raise RuntimeError(
            "Function's jvp returned an invalid number of forward gradients (expected "
            f"{len(outputs)} but got {len(slopes)})"
        )
    for i, g in enumerate(slopes):
        if g is not None and not isinstance(g, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(g).__name__}) for grad output {i}.")
    frozen = {id(t) for t in ctx.non_differentiable or ()}
    dirty = {id(t) for t in ctx.dirty_tensors or ()}
    for i, (out, t, g) in enumerate(zip(outputs, wrapped, slopes)):
        if not isinstance(out, Tensor) or id(out) in frozen or out._m.dtype.category < dtypes.FLOATING:
            if g is not None:
                raise RuntimeError(
                    f"Function's jvp returned a gradient at position {i}, but  the corresponding forward output is not "
                    "a differentiable Tensor.You should return None at that position instead."
                )
            continue
        if g is None and not (id(out) in dirty and given.get(id(out)) is not None):
            raise RuntimeError(
                f"Function's jvp returned None at position {i}, where the forward output is a differentiable Tensor; "
                "return zeros"
            )
        viewed = [given[id(a)] for a in args if isinstance(a, Tensor) and a._st is t._st and given[id(a)] is not None]
        before = given.get(id(out))
        if id(out) in dirty and before is not None:
            _check_written(g, before, versions[id(out)])
        else:
            assert g is not None
            _set_tangent(t, g, viewed)


def _check_written(g: Any, before: Tensor, version: int) -> None:
    """Complain unless the jvp wrote to the tangent of what its Function wrote to."""
    if g is not before or g._vc.version == version:
        raise RuntimeError(
            "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
            "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
        )


def _set_tangent(t: Tensor, g: Tensor, viewed: Sequence[Tensor]) -> None:
    if viewed and t._al is not None and t._al.base is not None and not MODES.transforms:
        if g._al is None or g._al.base is None:
            raise RuntimeError(
                "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a "
                "view."
            )
        if g._st is not viewed[0]._st:
            raise RuntimeError(
                "A custom Function is returning a view but the jvp is not returning a view of the same base as the "
                "given grad input."
            )
    if g._m.shape != t._m.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(t._m.shape)} while the given forward gradient is of size "
            f"{list(g._m.shape)}."
        )
    dual.set_tangent(t, g)
