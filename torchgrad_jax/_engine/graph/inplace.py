"""In-place writes: run a call and put its result into its first argument, under torch's rules for that."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..._core import events
from ..._core.arrays import dtypes
from ..._core.arrays.meta import Meta
from ..._core.state import (
    DUAL,
    FAKE,
    FUNCTION_MODE,
    GRAD,
    INFERENCE,
    MODES,
    OBSERVED,
    PACKING,
    SAYS_GRAD,
    WINDOWS,
    WRITE_LOCK,
)
from ..._ops.registry import Apart, Grad, InPlace, Layout, Overlap
from ..memory import owned
from ..memory.derivative_stops import under_jax
from ..memory.strided import check_disjoint, check_writable, is_mirrored, same_memory, warn_of_overlap, write
from ..memory.tensor import Tensor, alias_of, check_counted, extras, make
from ..run import windows
from ..run.kernel import put_elements
from ..run.trace import Call, Plan, aval, compute_dtype
from .grad_plan import GradPlan
from .history import check_captured, check_inplace, edge_of, grad_fn_of, rebase_history
from .node import Node
from .record import (
    PLAIN,
    begin_node,
    check_values,
    copy_call,
    end_node,
    faked,
    gradient_of,
    new_plan,
    only_inference,
    plain_leaves,
    plain_node,
    run_plan,
    with_absent,
)


def inplace_call(call: Call) -> InplaceCall:
    """The call whose result has the first leaf's shape and dtype, or an error."""
    if call.inplace is None:
        call.inplace = InplaceCall(call)
    return call.inplace


class InplaceCall(Call):
    """Writes to its first leaf: same shape, torch's rules for the dtype."""

    __slots__ = ("apart", "inner", "rules", "simple")
    in_place = True

    def __init__(self, inner: Call) -> None:
        self.rules = rules = inner.row.inplace or InPlace()
        self.apart = rules.reads_apart(inner.row.layout)
        super().__init__(
            inner.name,
            inner.run,
            node_name=rules.node or inner.node_name,
            row=inner.row,
            argnames=inner.argnames,
            promoted=inner.promoted,
            check=inner.check,
            edges=inner.edges,
            statics=inner.statics,
            forward=inner.forward,
            since=inner.since,
            forms=inner.forms,
        )
        self.inner = inner
        self.simple = rules.check is None and self.plain
        """Whether a write of plain tensors needs no more than its plan."""

    def write(self, leaves: Sequence[Any], by_kernel: bool = False) -> Tensor:
        """Write the result into the first leaf; nobody who watches operators sees it.

        With `by_kernel` it is the kernel of an operator that writes, as `batch_norm` writes statistics: that may be
        done to what a transformed function captures.
        """
        return _apply_inplace(self.inner, leaves, by_kernel=by_kernel)

    def refusal(self, keys: Sequence[Any], outs: Any, wanted: Sequence[int]) -> Any:
        """Return what a backward pass raises in the place of gradients, also where torch cannot derive this form."""
        missing = self.rules.missing
        return NotImplementedError(missing) if missing else super().refusal(keys, outs, wanted)

    def plan(self, keys: tuple[Any, ...]) -> Plan:
        plan = self._plans.get(keys)
        if plan is None:
            plan = self._new_plan(keys, InplacePlan(self, keys))
        return plan


def _check_shape(mine: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if wanted != mine:
        raise RuntimeError(f"output with shape {list(mine)} doesn't match the broadcast shape {list(wanted)}")


class InplacePlan(Plan):
    """A plan whose result is cast to the first leaf's dtype."""

    __slots__ = ()

    def __init__(self, call: InplaceCall, keys: tuple[Any, ...]) -> None:
        try:
            super().__init__(call, keys)
        # Torch looks at the result's shape before it looks for a kernel.
        except NotImplementedError:
            if Layout.steps(call.row.layout):
                # A ValueError says that the shapes do not broadcast.
                with contextlib.suppress(ValueError):
                    shapes = [k.shape for k in keys if isinstance(k, Meta)]
                    _check_shape(keys[0].shape, np.broadcast_shapes(*shapes))
            computed = compute_dtype(call, keys)
            if computed is not None and not dtypes.can_cast(computed, keys[0].dtype):
                raise dtypes.not_castable(computed, keys[0].dtype) from None
            raise
        me, out = keys[0], self.outs[0]
        check = call.rules.check
        castable = check is not None and check(me, out, keys[1:])
        _check_shape(me.shape, out.shape)
        if not castable and not dtypes.can_cast(out.dtype, me.dtype):
            raise dtypes.not_castable(out.dtype, me.dtype)
        if out.dtype is not me.dtype:
            inner, target = self.fn, me.dtype.np

            def fn(*xs: Any) -> Any:
                return jax.lax.convert_element_type(inner(*xs), target)

            fn.__name__ = fn.__qualname__ = call.name
            self.fn, self.found = fn, None
            self._compile(fn)
        elif me.numel >= owned.FROM and self.device.type == "cpu":
            self._put_elements()
        self.outs, self.single, self.out = (me,), True, me
        self._without_data()
        self._set_diff()

    def _put_elements(self) -> None:
        """Let NumPy put a few elements into a large array; where a storage has its memory alone, in place."""
        found, avals = self.found, [aval(self.keys[i]) for i in self.present]
        closed = found.forward().closed() if found is not None else jax.make_jaxpr(self.fn)(*avals)
        if self.kernel is not None and self.kernel.by != "others":
            put_elements(self.kernel, closed)


def _keep_old_self(gp: GradPlan, leaves: Sequence[Any], array: Any) -> Sequence[Any]:
    """The leaves to save: when the overwritten tensor is needed, its old value under a new name."""
    if 0 not in gp.saved_in:
        return leaves
    me = leaves[0]
    old = make(array, me._m)
    fn = me._fn if me._al is None else grad_fn_of(me)
    old._rg, old._fn, old._onr, old._acc = me._rg, fn, me._onr, me._acc
    return [old, *leaves[1:]]


def apply_inplace(call: Call, leaves: Sequence[Any]) -> Tensor:
    """Run `call` and write its result into the first leaf; autograd's rules for in-place writes."""
    if MODES.bits & OBSERVED and MODES.observers:
        return events.op(call.name + "_", "op", leaves, lambda: _apply_inplace(call, leaves))
    out = write_known(call, leaves, MODES.bits)
    if out is None:
        with WRITE_LOCK:
            out = _apply_inplace(call, leaves)
    return out


_WRITE_MODES = GRAD | FUNCTION_MODE | INFERENCE | SAYS_GRAD | PACKING | WINDOWS


def write_known(call: Call, leaves: Sequence[Any], mode: int) -> Tensor | None:
    """`apply_inplace` for plain tensors with nobody watching, where the plan is known; None where it takes more."""
    if mode & ~_WRITE_MODES or (mode & INFERENCE and mode & GRAD) or MODES.transforms:
        return None
    me, writing = leaves[0], call.inplace or inplace_call(call)
    if not writing.simple or me.__class__ not in PLAIN or me._m.overlaps or is_mirrored(me):
        return None
    for v in leaves[1:]:
        if v.__class__ in PLAIN and v._st is me._st:  # the two may overlap
            return None
    with WRITE_LOCK:
        alone = not mode & PACKING and owned.may_be(me)  # a hook may read the memory
        if alone and _put(call, writing, leaves, mode) is not None:
            return me
        plain = plain_leaves(leaves, mode)
        if plain is None:
            return None
        keys, xs, mask = plain
        plan = writing.plans.get(keys)
        if plan is None or not plan.single:
            return None
        gp = _gradient_of_write(call, plan, mask, leaves) if mode and (mask or me._al is not None) else None
        if call.check is not None:
            check_values(call, leaves, with_absent(leaves, xs))
        array = windows.forward(plan, xs) if mode > GRAD and windows.defers(mode) else plan.fwd(*xs)
        node = None if gp is None else _node_of_write(gp, _keep_old_self(gp, leaves, xs[0]), mode)
        write(me, array)
        if node is not None:
            _attach_write(me, node, mode)
        return me


def _put(call: Call, writing: InplaceCall, leaves: Sequence[Any], mode: int) -> Tensor | None:
    """Put elements where the first leaf's storage has its memory alone; None where nothing was done."""
    me, plain = leaves[0], plain_leaves(leaves[1:], mode)
    if plain is None:
        return None
    keys, xs, mask = plain
    plan = writing.known_plan((me._m, *keys))
    kernel = None if plan is None else plan.kernel
    if plan is None or kernel is None or kernel.put is None:
        return None
    if mode & WINDOWS:
        xs = [*map(windows.arrived, xs)]
    gp = _gradient_of_write(call, plan, mask << 1 | me._rg, leaves)
    if gp is not None and 0 in gp.saved_in:
        return None
    shown = [jax.ShapeDtypeStruct(me._m.shape, me._m.dtype.np), *xs]  # checks look at the elements of the others
    if call.check is not None:
        check_values(call, leaves, with_absent(leaves, shown))
    if plan.check is not None:
        plan.check(shown)
    memory = owned.memory_of(me._st)
    if memory is None:
        return None
    node = None if gp is None else _node_of_write(gp, leaves, mode)
    kernel.put(memory, xs)
    me._st.stamp += 1
    me._vc.version += 1
    if node is not None:
        _attach_write(me, node, mode)
    return me


def _gradient_of_write(call: Call, plan: Plan, mask: int, leaves: Sequence[Any]) -> GradPlan | None:
    """The gradient that a write to the first leaf is recorded with, if it is, and torch's refusals."""
    me = leaves[0]
    recorded = MODES.bits & GRAD
    if recorded and (mask or me._al is not None) and call.row.grad is not Grad.NO:
        check_inplace(me, bool(mask))
    recording = recorded and mask and plan.any_diff
    return (plan.grads.get(mask) or gradient_of(plan, mask, leaves)) if recording else None


def _node_of_write(gp: GradPlan, kept: Sequence[Any], mode: int) -> Node:
    return begin_node(gp, kept, mode) if gp.saved_out or mode & PACKING else plain_node(gp, kept, ())


def _attach_write(me: Tensor, node: Node, mode: int) -> None:
    """Put the node of a write behind the tensor that was written to."""
    if node.gp.saved_out or mode > GRAD:
        result = alias_of(me, me._m, me._al, me._vc)
        if mode & DUAL:
            result._x = extras(me)
        end_node(node, (result,), mode)
    rebase_history(me, node)


def _write_outside(call: Call, leaves: Sequence[Any], run: Any) -> Tensor:
    """An in-place write among tensors from outside of a run to which only their tangents belong."""
    me = leaves[0]
    before = MODES.tangents.snapshot(leaves)
    with run.outside():
        dual = MODES.bits & DUAL
        MODES.bits &= ~DUAL
        try:
            _apply_inplace(call, leaves, before)
        finally:
            MODES.bits |= dual
    call = inplace_call(call)
    keys = tuple(v._m if isinstance(v, Tensor) else None if v is None else v.__class__ for v in leaves)
    MODES.tangents.push_inplace(call.plans.get(keys) or call.plan(keys), before, me)
    return me


_PLANNED = re.compile(
    r"The size of tensor|result type \w+ can't be cast to the desired output type [A-Z]|output with shape|"
    r".*argument alpha"
)
_LACKING = re.compile(r'"\w+" not implemented')


def _check_written(call: InplaceCall, keys: tuple[Any, ...], leaves: Sequence[Any]) -> None:
    """Refuse to write where elements share memory, after what an operator itself has to say of its arguments.

    Sizes and dtypes that do not go together are found later in torch, and what a kernel lacks last.
    """
    try:
        check_writable(leaves[0])
    except RuntimeError:
        try:
            new_plan(call, keys, leaves)
        except Exception as error:
            later = _PLANNED.match(str(error))
            if call.rules.overlaps is Overlap.REFUSED_EARLY:
                later = later or not str(error).startswith("Dimension out of range")
            if Layout.steps(call.row.layout):
                later = later or _LACKING.match(str(error))
            if not later:
                raise error from None
        call.forget_plan(keys)  # a plan that is kept stands for operands that do not overlap
        raise


def _apply_inplace(call: Call, leaves: Sequence[Any], before: Any = None, by_kernel: bool = False) -> Tensor:
    """The write itself; `before` are the leaves' tangents where it is not this call that brings them along."""
    if MODES.bits & FAKE:
        leaves = faked(call.name + "_", leaves)
    me = leaves[0]
    mode = MODES.bits
    if MODES.transforms and not by_kernel:
        check_captured(me, call.name + "_")
    run = MODES.run
    if not run.may_write_outside and not run.inside(me):
        values = [v for v in leaves if isinstance(v, Tensor) and run.inside(v)]
        if values and not run.take_in(me, values):
            raise RuntimeError(run.outside_message(call.name, leaves))
        if not values:
            if run.batch is not None:
                run.batch.check_not_given(me, call.name + "_")
            # A later call would not repeat the write.
            if run.batch is None and under_jax(frozen=True):
                raise RuntimeError(run.outside_message(call.name, leaves))
            if run.touches(leaves):
                return _write_outside(call, leaves, run)
            with run.outside():
                return _apply_inplace(call, leaves)
    call = inplace_call(call)
    keys, xs, mask = run.keys_of(leaves)
    if mask and only_inference(call, keys, leaves):
        mask = 0
    if mode & GRAD and (mask or me._al is not None) and call.row.grad is not Grad.NO:
        check_inplace(me, bool(mask))
    overlaps, apart = call.rules.overlaps, call.apart
    try:
        if overlaps in (Overlap.REFUSED, Overlap.REFUSED_EARLY) or is_mirrored(me):
            if not (apart is Apart.STORED and same_memory(me, leaves[1])):
                _check_written(call, keys, leaves)
        elif overlaps is Overlap.WARNED:
            warn_of_overlap(me, call.name)
        if call.rules.check is not None:  # torch checks the arguments before it plans the write
            new_plan(call, keys, leaves)
        if apart is not Apart.NO:
            check_disjoint(me, leaves[1:], apart is Apart.WHOLLY, apart is Apart.STORED)
    except RuntimeError:
        if mode & GRAD and mask and call.row.grad is not Grad.NO:
            for v in leaves:
                if isinstance(v, Tensor):
                    edge_of(v)  # this raises where the view is forbidden
        raise
    plan = call.plans.get(keys) or new_plan(call, keys, leaves)
    recording = mode & GRAD and mask and plan.any_diff
    gp = gradient_of(plan, mask, leaves) if recording else None
    (array,) = run_plan(call, plan, leaves, xs)
    if mode & DUAL:
        before = MODES.tangents.snapshot(leaves)
    node = None
    if gp is not None:
        kept = _keep_old_self(gp, leaves, xs[0])
        if before is not None and kept is not leaves and before[1][0] is not None:
            MODES.tangents.set_tangent(kept[0], before[1][0])
        node = begin_node(gp, kept, mode)
    write(me, array)
    check_counted(me)
    if node is not None:
        _attach_write(me, node, mode)
    if mode & DUAL:
        MODES.tangents.push_inplace(plan, before, me)
    if mode & OBSERVED and MODES.anomaly is not None:
        MODES.anomaly.op_ran(call, (make(xs[0], me._m), *leaves[1:]), (me,))
    return me


copy_call.inplace = InplaceCall(copy_call)
"""By which `record` writes what kernels of torch's write to their arguments."""
