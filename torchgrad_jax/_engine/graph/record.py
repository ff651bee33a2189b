"""Apply an op: gather arrays, find the plan, run it, wrap the results, add a node.

`apply` is the general path. `bind` generates specialised copies of its plain case for the common
signatures; both must stay the same in effect.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..._core import events
from ..._core.arrays import dtypes
from ..._core.arrays.devices import FakeDevice
from ..._core.arrays.meta import Meta, meta
from ..._core.arrays.python_numbers import Number
from ..._core.arrays.transfer import filled
from ..._core.errors import messages as errors
from ..._core.jax.abstract import AbstractArray
from ..._core.signals import uninterrupted
from ..._core.state import (
    CUT,
    DUAL,
    FAKE,
    FUNCTION_MODE,
    GRAD,
    IN_RUN,
    INFERENCE,
    MODES,
    OBSERVED,
    PACKING,
    SAYS_GRAD,
    TRANSFORM,
    UNDER_JAX,
    WINDOWS,
)
from ..._ops.registry import Grad, Layout
from ..memory.derivative_stops import derivative_stop_bit, stopped
from ..memory.shared_values import VersionAndValues
from ..memory.strided import conjugate_lazily, conjugations, operand, read, read_stored
from ..memory.tensor import (
    CREATED_DEFAULT,
    CREATED_NO_GRAD,
    Alias,
    Extras,
    Tensor,
    alias_of,
    check_shareable,
    extras,
    make,
    mark_inference,
    plain_alias,
)
from ..run import windows
from ..run.trace import Call, Plan
from . import deferred, saved as saving
from .grad_plan import GradPlan, grad_plan
from .history import complain_first, edge_of, grad_fn_of, requires_grad_of
from .node import Node, Spare, new_node

PLAIN: set[type] = {Tensor}
"""Classes whose instances never override how functions treat them."""
NUMBERS: tuple[Any, ...] = (bool, int, float, complex)
COMMON = GRAD | TRANSFORM | IN_RUN | DUAL | UNDER_JAX | FUNCTION_MODE
"""Modes in which calls on plain tensors take short ways: in runs and at levels what a tape of `vmap` can write down."""


PLAIN_MODES = GRAD | TRANSFORM | UNDER_JAX | INFERENCE | SAYS_GRAD | PACKING | FUNCTION_MODE | WINDOWS
"""Modes in which a call on plain tensors whose plan is known needs nothing else."""


class no_grad:
    """Recording off inside, as a light context manager for the engine's own use."""

    __slots__ = ("bits",)

    def __enter__(self) -> None:
        self.bits = MODES.bits
        MODES.bits = self.bits & ~GRAD | (derivative_stop_bit() if MODES.traced else 0)

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        MODES.bits = (MODES.bits & ~(GRAD | CUT)) | (self.bits & (GRAD | CUT))


def faked(name: str, leaves: Sequence[Any]) -> Sequence[Any]:
    """`leaves` with fake tensors in the place of others, which most modes refuse."""

    def one(v: Any) -> Any:
        if not isinstance(v, Tensor) or isinstance(v._m.device, FakeDevice):
            return v
        if not MODES.fake.allow_non_fake_inputs:
            raise AssertionError(errors.MIXED_FAKE.format(name))
        return MODES.fake.from_tensor(v)

    return [one(v) for v in leaves]


def as_leaf(value: Any) -> Any:
    """A leaf as `apply` wants it: tensor, Python number or None."""
    if value is None or isinstance(value, Tensor) or value.__class__ in NUMBERS:
        return value
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        return value.item()
    for kind in NUMBERS:
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"must be Tensor, not {errors.class_name(value)}")


def gradient_of(plan: Plan, mask: int, leaves: Sequence[Any]) -> GradPlan:
    """The gradient plan of a call on these leaves."""
    if plan.call.row.grad is Grad.REAL and mask not in plan.grads:
        complain_first(leaves)  # an error of a node comes before one about the result
    return grad_plan(plan, mask)


def record(gp: GradPlan, leaves: Sequence[Any], outs: Sequence[Tensor], mode: int) -> Node:
    """A node for an op that ran on `leaves` and gave `outs`, which are attached to it."""
    node = begin_node(gp, leaves, mode)
    if (call := gp.plan.call).row.kernel.writes:
        _write_back(call, leaves, outs)
    end_node(node, outs, mode)
    return node


def begin_node(gp: GradPlan, leaves: Sequence[Any], mode: int) -> Node:
    """A node with its edges and saved inputs; in-place ops need these before they write."""
    edges = _edges(gp, leaves)
    mask, saved = gp.mask, [leaves[i] for i in gp.saved_in]
    if not MODES.run.at_once:  # numbers that are carried from run to run are saved as the arrays that they are here
        saved = [v.array() if type(v) is Number else v for v in saved]
    vers, special = [], mode & (PACKING | INFERENCE)
    for v in saved:
        tensor = isinstance(v, Tensor)
        vers.append(v._vc.version if tensor else 0)
        special = special or (tensor and v._x.__class__ is Extras)
    vers = saving.versions_to_keep(saved, tuple(vers))
    if special or (None in edges and any(e is None and mask >> i & 1 for i, e in zip(gp.edge_leaves, edges))):
        needed = needed_inputs(gp, edges)
        if needed is None:
            saved = [
                saving.pack(v, False) if v.__class__ is Tensor and v._x is None else save_general(v, False)
                for v in saved
            ]
        else:
            saved = [
                save_general(v, False) if i in needed else (read(v) if isinstance(v, Tensor) else v)
                for i, v in zip(gp.saved_in, saved)
            ]
        if needed is not None and needed.isdisjoint(gp.saved_in):
            saved = Spare(saved)
    return new_node(gp, edges, tuple(saved) if saved.__class__ is list else saved, vers)


def needed_inputs(gp: GradPlan, edges: Sequence[Any]) -> set[int] | None:
    """The inputs to save where some that require grad have no edge, and torch asks which have: None is all.

    It asks where one gradient alone reads an input.
    """
    if len(edges) == 1 or None not in edges or gp.raises:
        return None
    wanted = [p for p, e in zip(gp.edge_grads, edges) if p >= 0 and e is not None]
    if len(wanted) == len(gp.inputs):
        return None
    whole = gp.whole()
    if whole.raises:
        return None
    reads = Counter(i for p in range(len(whole.inputs)) for i in _read_by(whole, p))
    needed = {i for i, n in reads.items() if n > 1}
    return needed.union(*[_read_by(gp, p) for p in wanted])


def _read_by(gp: GradPlan, which: int) -> Sequence[int]:
    """The inputs that one gradient reads: none if all that it does is to raise."""
    if gp.refusal is not None and gp.refusal.about == which:
        return ()
    return gp.call(which, (True,) * len(gp.diff))[1]


def end_node(node: Node, outs: Sequence[Tensor], mode: int) -> None:
    """Add the saved outputs and attach the outputs to the node."""
    gp = node.gp
    if gp.saved_out:
        saved = []
        for k in gp.saved_out:
            t = outs[k]
            if mode & DUAL:
                saved.append(_awaiting_tangent(t))
            elif t._al is None and t._vc is t._st:
                saved.append(t._st)
            else:
                saved.append(_without_base(t))
        versions = tuple([outs[k]._vc.version for k in gp.saved_out])
        versions = saving.versions_to_keep(saved, versions)
        node.vers += versions
        node.saved += tuple(saved)
        if mode & DUAL:
            for k, then in zip(gp.saved_out, versions):
                _keep_tangent_of(outs[k], then)
    for nr, k in enumerate(gp.plan.diff):  # other outputs have no number
        t = outs[k]
        t._fn, t._onr, t._rg = node, nr, True
    if mode & PACKING and gp.saved_out:  # the pack hooks see outputs that have their node
        n = len(gp.saved_in)
        node.saved = node.saved[:n] + tuple([save_general(outs[k], True) for k in gp.saved_out])
    if mode & OBSERVED:
        events.node_recorded(node)


def await_tangents(outs: Sequence[Tensor]) -> None:
    """Let a backward pass find the tangents of a node's saved results, which the caller of the op attaches later.

    `outs` are all results of an op that was recorded while forward mode was switched off.
    """
    node = next((t._fn for t in outs if t._fn is not None), None)
    if node is None or MODES.bits & PACKING:  # what hooks packed are the results themselves
        return
    if node.gp.saved_out:
        n = len(node.gp.saved_in)
        kept = [_awaiting_tangent(outs[k]) for k in node.gp.saved_out]
        node.saved = node.saved[:n] + tuple(kept)
        for k, then in zip(node.gp.saved_out, node.vers[n:]):
            _keep_tangent_of(outs[k], then)


def _keep_tangent_of(t: Tensor, then: int) -> None:
    """Let a node keep the tangent that a result of its operation gets later, if it keeps the result's value."""
    if then.__class__ is VersionAndValues:
        extras(t).awaiting = then


def _awaiting_tangent(t: Tensor) -> Tensor:
    """A result as its node saves it, which has its tangent as soon as the result has."""
    kept = _without_base(t)
    kept._x = extras(t)
    return kept


def _without_base(t: Tensor) -> Tensor:
    """The same tensor. A view that knew its base would hold the base's node, which saves the view or holds who does."""
    return alias_of(t, t._m, plain_alias(t), t._vc)


def save_general(value: Any, is_output: bool) -> Any:
    """Save with hooks and with inference tensors in mind."""
    if isinstance(value, Tensor) and value._x is not None and value._x.inference:
        if MODES.transforms:  # a level of its own, in which there are no inference tensors
            return saving.pack(value, is_output)
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
            "inference mode in computation tracked by autograd. To work around this, you can make "
            "a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` "
            "instead of `torch.inference_mode()`."
        )
    if isinstance(value, Tensor) and value._x is not None and not MODES.transforms:
        check_shareable(value)
    return saving.pack(value, is_output)


def _all_inference(leaves: Sequence[Any]) -> bool:
    return all(v._x is not None and v._x.inference for v in leaves if isinstance(v, Tensor))


def _copied_out(call: Call, leaves: Sequence[Any]) -> Tensor:
    """A copy of an inference tensor that asks for gradients is a write to new memory, which is recorded."""
    with no_grad():
        out = apply(call, leaves)
    return recorded_copy(make(out._st.array, out._m), leaves[0])


copy_call = Call(
    "copy",
    lambda leaves: jax.lax.convert_element_type(leaves[1], leaves[0].dtype),
    node_name="CopyBackwards",
    argnames=("self", "src"),
    layout=Layout.PRESERVE,
    any_size=True,
)


def recorded_copy(target: Tensor, source: Tensor) -> Tensor:
    """`source` copied into memory of its own that is laid out like `target`."""
    out = apply(copy_call, (target, source))
    out._st.version = 1
    return out


def _as_made(call: Call, leaves: Sequence[Any], out: Tensor) -> Tensor:
    """The result of an op on inference tensors, as the view that torch's kernel ends with."""
    m = out._m
    made = call.row.kernel.made_as(m.shape, **call.statics)  # type: ignore[misc]
    if made is None or not m.contiguous or any(v._m.dtype is not m.dtype for v in leaves if isinstance(v, Tensor)):
        return out
    shape, writes = made
    base = make(jax.lax.reshape(out._st.array, shape), meta(shape, m.dtype, m.device))
    base._vc.version = writes
    creation = CREATED_DEFAULT if MODES.bits & GRAD else CREATED_NO_GRAD
    return alias_of(base, m, Alias(0, base, creation, writes))


def only_inference(call: Call, keys: Sequence[Any], leaves: Sequence[Any]) -> bool:
    """Ops on nothing but inference tensors are never recorded, whatever their flags say.

    A number that torch makes a tensor of is an ordinary one.
    """
    if not _all_inference(leaves):
        return False
    edges = () if call.edges is None else call.edges(keys)
    return not any(leaves[i].__class__ in NUMBERS for i in edges)


def run_plan(call: Call, plan: Plan, leaves: Sequence[Any], xs: list[Any]) -> tuple[Any, ...]:
    """Run the forward with the call's checks on concrete values around it."""
    if call.check is not None:
        if not any(isinstance(x, jax.core.Tracer) for x in xs):
            check_values(call, leaves, with_absent(leaves, xs))
        else:
            deferred.check_later(call, leaves)
    run = MODES.run
    if MODES.bits & OBSERVED and MODES.observers:
        events.computed(plan.kernel, xs)
        return events.kernel(call, plan, leaves, lambda: _results(plan, run.kernel(plan, xs)))
    return _results(plan, run.kernel(plan, xs))


def check_values(call: Call, leaves: Sequence[Any], values: Sequence[Any]) -> None:
    """Check values; a view that must not be used any more comes before what is wrong with them.

    Those of meta tensors are not there, and nothing can be wrong with them.
    """
    if any(v.__class__ is AbstractArray for v in values):
        return
    try:
        call.check(values)
    except Exception:
        complain_first(leaves)
        raise


def with_absent(leaves: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
    """The values of the leaves, None for those that are."""
    it = iter(xs)
    return [None if v is None else next(it) for v in leaves]


def _results(plan: Plan, outs: Any) -> tuple[Any, ...]:
    return (outs,) if plan.single else tuple(outs)


def apply(call: Call, leaves: Sequence[Any]) -> Any:
    """Run a call on tensors, numbers and Nones, and record it when it should be."""
    mode = MODES.bits
    if mode <= GRAD or not mode & ~PLAIN_MODES:
        out = apply_known(call, leaves, mode)
    else:
        out = None if mode & ~COMMON else apply_taped(call, leaves, mode)
    if out is not None:
        return out
    if mode & OBSERVED and MODES.observers:
        return events.op(call.name, "op", leaves, lambda: _apply(call, leaves))
    return _apply(call, leaves)


def plain_leaves(leaves: Sequence[Any], mode: int) -> tuple[tuple[Any, ...], list[Any], int] | None:
    """`keys_of` for plain tensors; None where there is anything else.

    In inference mode tensors of that mode are as plain as others.
    """
    keys: list[Any] = []
    inference, look = mode & INFERENCE, read if mode > GRAD else read_stored
    deferring = mode > GRAD and windows.defers(mode)
    if deferring:
        look = operand
    xs, mask, bit = [], 0, 1
    for v in leaves:
        kind = v.__class__
        if kind in PLAIN:
            if v._x.__class__ is Extras and not (inference and v._x.inference and v._x.inner is None):
                return None
            keys.append(v._m)
            if v._al is None:
                xs.append(operand(v) if deferring else v._st.array)
                if v._rg:
                    mask |= bit
            else:
                xs.append(look(v))
                if v._rg:
                    mask |= bit
                elif mode & GRAD and requires_grad_of(v):  # no gradient can go along its edge
                    return None
        elif v is None:
            keys.append(None)
        elif kind in NUMBERS:
            keys.append(kind)
            xs.append(v)
        else:
            return None
        bit += bit
    return tuple(keys), xs, mask


def apply_known(call: Call, leaves: Sequence[Any], mode: int) -> Any:
    """`_apply` for plain tensors with nobody watching, where the plan is known; None where it takes more."""
    plain = plain_leaves(leaves, mode)
    if plain is None or not call.plain or (mode & INFERENCE and mode & GRAD):
        return None
    if mode & PACKING and call.row.kernel.writes:  # which happens between two calls of hooks
        return None
    keys, xs, mask = plain
    plan = call.plans.get(keys)
    if plan is None or not xs:
        return None
    if call.check is not None:
        if mode > GRAD and any(isinstance(x, jax.core.Tracer) for x in xs):
            return None
        check_values(call, leaves, xs if len(xs) == len(leaves) else with_absent(leaves, xs))
    try:
        arrays = windows.forward(plan, xs) if mode > GRAD and windows.defers(mode) else plan.fwd(*xs)
    except ValueError:  # what JAX refuses the general path explains
        return None
    if not plan.single:
        return several(plan, arrays, mask if mode & GRAD else 0, leaves, mode)
    t = make(arrays, plan.outs[0])
    if mode & GRAD and mask and plan.any_diff:
        _record_known(plan, mask, leaves, (t,), mode)
    elif mode & INFERENCE:
        mark_inference(t)
    return t


def several(plan: Plan, arrays: Sequence[Any], mask: int, leaves: Sequence[Any], mode: int) -> Any:
    """The results of a plan that has several, of plain tensors; they are recorded where `mask` says so."""
    call = plan.call
    outs = tuple([make(a, m) for a, m in zip(arrays, plan.outs)])
    if mode & INFERENCE:
        for t in outs:
            mark_inference(t)
    if mask and plan.any_diff:
        _record_known(plan, mask, leaves, outs, mode)
    if call.row.kernel.writes:
        _write_back(call, leaves, outs)
    return outs if call.result is None else call.result(*outs)


def plain_node(gp: GradPlan, leaves: Sequence[Any], stores: Sequence[Any]) -> Node:
    """A node for plain tensors with nobody watching; `stores` are the storages of the results that it saves."""
    return new_node(gp, _edges(gp, leaves), *gp.save(*leaves, *stores))


def _edges(gp: GradPlan, leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Where the gradients of a call's leaves go."""
    mask = gp.mask
    return tuple([edge_of(leaves[i]) if mask >> i & 1 else None for i in gp.edge_leaves])


def _record_known(plan: Plan, mask: int, leaves: Sequence[Any], outs: Sequence[Tensor], mode: int) -> None:
    """`record` for plain tensors; nobody watches but hooks of what is saved."""
    gp = plan.grads.get(mask) or gradient_of(plan, mask, leaves)
    if mode & PACKING:
        end_node(begin_node(gp, leaves, mode), outs, mode)
        return
    node = plain_node(gp, leaves, [outs[k]._st for k in gp.saved_out] if gp.saved_out else ())
    for nr, k in enumerate(plan.diff):  # other results have no number
        t = outs[k]
        t._fn, t._onr, t._rg = node, nr, True


def _apply(call: Call, leaves: Sequence[Any]) -> Any:
    if MODES.bits & FAKE:
        leaves = faked(call.name, leaves)
    run = MODES.run
    if not run.touches(leaves):
        with run.outside():
            return _apply(call, leaves)
    keys, xs, mask = run.keys_of(leaves)
    if mask and only_inference(call, keys, leaves):
        if call.row.kernel.copies and MODES.bits & GRAD and not MODES.bits & INFERENCE:
            return _copied_out(call, leaves)
        mask = 0
    plan = call.plans.get(keys) or new_plan(call, keys, leaves)
    arrays = run_plan(call, plan, leaves, xs)
    outs = tuple(make(a, m) for a, m in zip(arrays, plan.outs))
    mode = MODES.bits
    if run.batch is not None:
        run.batch.lay_out(call, leaves, outs, run.inside)
    if call.row.kernel.made_as is not None and not mode & INFERENCE and _all_inference(leaves):
        outs = (_as_made(call, leaves, outs[0]),)
    if call.row.kernel.conjugated is not None and conjugations(leaves) == call.row.kernel.conjugated:
        conjugate_lazily(outs[0])
    if mode & GRAD and mask and plan.any_diff:
        record(gradient_of(plan, mask, leaves), leaves, outs, mode)
    elif call.row.kernel.writes:
        _write_back(call, leaves, outs)
    if mode > GRAD:
        finish(call, plan, leaves, outs, mode)
    return _wrapped(call, plan, outs)


def _write_back(call: Call, leaves: Sequence[Any], outs: Sequence[Tensor]) -> None:
    """What torch's kernel writes to its arguments: after they are saved, uncounted, before results are."""
    for name, k in [w for w in call.row.kernel.writes.items() if w[1] < len(outs)]:
        t = leaves[call.argnames.index(name)]
        before = t._vc.version
        with no_grad():
            copy_call.inplace.write((t, outs[k]), by_kernel=True)
        t._vc.version = before


def _wrapped(call: Call, plan: Plan, outs: tuple[Tensor, ...]) -> Any:
    """Results as the caller gets them: one, a tuple, or a named tuple."""
    if plan.single:
        return outs[0]
    return call.result(*outs) if call.result is not None else outs


def apply_taped(call: Call, leaves: Sequence[Any], mode: int) -> Any:
    """`_apply` in a run of `vmap`, where plain tensors and numbers meet; None where it takes more than that."""
    run = MODES.run
    if (tape := run.tape) is None or call.row.kernel.writes:
        return None
    ours = False
    for v in leaves:
        kind = v.__class__
        if kind in PLAIN:
            ours = ours or tape.holds(v._st.array)
            if v._x is not None and v._x.inference:
                return None
        elif kind not in NUMBERS and v is not None:
            return None
    if not ours:
        return None
    keys, xs, mask = run.keys_of(leaves)
    plan = call.plans.get(keys) or new_plan(call, keys, leaves)
    if call.check is not None:
        deferred.check_later(call, leaves)
    arrays = run.kernel(plan, xs)
    if not plan.single:
        outs = tuple([make(a, m) for a, m in zip(arrays, plan.outs)])
    else:
        outs = (make(arrays, plan.outs[0]),)
    if run.batch is not None:
        run.batch.lay_out(call, leaves, outs, run.inside)
    if mode & GRAD and mask and plan.any_diff:
        record(plan.grads.get(mask) or grad_plan(plan, mask), leaves, outs, mode)
    if mode & DUAL:
        MODES.tangents.push_tangents(call, plan, leaves, outs)
    return _wrapped(call, plan, outs)


def finish(call: Call, plan: Plan, leaves: Sequence[Any], outs: Sequence[Tensor], mode: int) -> None:
    """What the rarer modes add to an op that just ran."""
    if mode & INFERENCE:
        for t in outs:
            mark_inference(t)
    if mode & CUT and not mode & GRAD:
        for t in outs:
            t._st.array = stopped(t._st.array)
    if mode & DUAL:
        MODES.tangents.push_tangents(call, plan, leaves, outs)
    if mode & OBSERVED and MODES.anomaly is not None:
        MODES.anomaly.op_ran(call, leaves, outs)


def new_plan(call: Call, keys: tuple[Any, ...], leaves: Sequence[Any]) -> Plan:
    """The plan of a call; a view that must not be used any more comes before what is wrong with the call."""
    try:
        return call.plan(keys)
    except Exception:  # it is raised again, unless a leaf has something to complain of first
        if MODES.bits & GRAD and call.row.grad is not Grad.IN_PLACE:
            for t in leaves:
                if isinstance(t, Tensor) and requires_grad_of(t):
                    grad_fn_of(t)
        raise


@functools.cache
def _cast_call(dtype: dtypes.dtype) -> Call:
    def run(leaves: Sequence[Any]) -> Any:
        return jax.lax.convert_element_type(leaves[0], dtype.np)

    return Call("to", run, node_name="ToCopyBackward0", argnames=("self",), any_size=True)


def cast(t: Tensor, dtype: dtypes.dtype) -> Tensor:
    """A tensor in another dtype, recorded where recording is on."""
    return apply(_cast_call(dtype), (t,))


def zeros_for(m: Meta) -> Tensor:
    """Zeros shaped like an output."""
    return make(filled(m, 0), m if m.contiguous else meta(m.shape, m.dtype, m.device))
