"""How torch would lay out the gradients of a call, whose memory they are, and how often they were written to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import shapes
from .._core.matrices import column_major
from .._core.meta import Meta, View, meta
from .._ops.gradient_steps import (
    CAST,
    COLUMN_MAJOR,
    GRAD,
    GRADIENT_STEPS,
    NUMBER,
    RESULT,
    ROW_MAJOR,
)
from .._ops.registry import OWN, SAME, Grad, Layout
from .steps import Const, Steps
from .trace import Plan

FRESH, VIEWED, PASSED, HELD = range(4)
"""Whose memory a gradient is: its own, the incoming gradient's seen otherwise, or that very tensor."""

_CONJUGATE = "ConjBackward0"
UNKNOWN = object()


class GradientLayouts:
    """What is known of the gradients that a plan gives, besides their values."""

    __slots__ = ()
    plan: Plan
    name: str
    inputs: tuple[int, ...]
    saved_in: tuple[int, ...]
    unread: frozenset[int]
    cuts: frozenset[int]
    grad_refs: list[Any]
    out_refs: list[Any]
    prim_pos: dict[int, int]
    described: dict[Any, Any]
    _steps: Steps

    def _reads(self, read: set[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        ins = tuple(leaf for leaf, p in self.prim_pos.items() if p in read)
        outs = tuple(
            k
            for k, r in enumerate(self.out_refs)
            if not isinstance(r, Const) and r in self.cuts and r in read
        )
        return ins, tuple(dict.fromkeys(outs))

    def describe(self, cts: tuple[Meta | None, ...]) -> tuple[tuple[Meta, int, int], ...]:
        """How torch would lay out each gradient: (meta, FRESH, VIEWED or PASSED, its version).

        A gradient that views the incoming one may not be accumulated into in place, nor one whose memory is HELD
        by something else; one that is the incoming one passed on is the same object, shared by all it is passed to.
        """
        found = self.described.get(cts)
        if found is None:
            found = self.described[cts] = tuple(
                self._describe(p, cts) for p in range(len(self.inputs))
            )
        return found

    def _describe(self, p: int, cts: tuple[Meta | None, ...]) -> tuple[Meta, int, int]:
        m, kind, version = self._as_made(p, cts)
        call, ct = self.plan.call, cts[0]
        # Dimensions that broadcasting put in front are summed, and torch makes a view without them.
        leaf = self.inputs[p]
        ndim = 0 if ct is None else ct.ndim
        if call.summed_ndim is not None and leaf in call.summed:
            ndim = call.summed_ndim(self.plan.keys)
        spread = ndim > m.ndim > 0 and call.grad is not Grad.IN_PLACE
        spread = spread and (Layout.steps(call.layout) or leaf in call.summed)
        key = self.plan.keys[leaf]
        if kind == VIEWED and ct is not None and m.dtype.is_complex:
            m = m.mirror if ct.mirrored != (self.name == _CONJUGATE) else m
        if spread and kind == FRESH and version and call.gradient:
            return m, FRESH, version - 1  # the first of those that it adds is such a view
        shares = leaf in call.held and (call.held_if is None or call.held_if(key, **call.statics))
        held = kind == FRESH and (spread or shares)
        return m, HELD if held else kind, version

    def _writes(self, leaf: int, recorded: bool) -> int:
        """How often torch's formula writes to the gradient that it returns."""
        versions: Any = self.plan.call.grad_facts[1]
        if not isinstance(versions, int | tuple):
            found = self.described.get(recorded)
            if found is None:
                found = self.described[recorded] = versions(self.plan.keys, recorded)
            versions = found
        return versions if isinstance(versions, int) else (*versions, *[0] * leaf, 0)[leaf]

    def begins(self, p: int, ct: Meta) -> int | None:
        """Where a gradient that is a part of the incoming one begins in it, in elements of its dtype; None where it is
        none, or all of it."""
        found = self.described.get((p, ct), UNKNOWN)
        if found is UNKNOWN:
            found = self.described[p, ct] = self._begins(p, ct)
        return found

    def _begins(self, p: int, ct: Meta) -> int | None:
        call, leaf = self.plan.call, self.inputs[p]
        key = self.plan.keys[leaf]
        if call.grad_view is None or not isinstance(key, Meta):
            return None
        before = [k.shape for k in self.plan.keys[:leaf] if isinstance(k, Meta)]
        if (begins := getattr(call.grad_view, "begins", None)) is not None:
            return begins(ct, before)
        if key.dtype is not ct.dtype:
            return None
        if call.joins is not None:
            axis, new = call.joins(key.ndim, **call.statics)
            return ct.strides[axis] * sum(
                [1 if new else s[axis] if s != (0,) else 0 for s in before]
            )
        seen = call.grad_view(ct, key, **call.statics)
        return seen.offset if isinstance(seen, View) else None

    def added(self, p: int) -> int:
        """How often torch adds to a gradient before it is added to what came from elsewhere."""
        added = self.plan.call.added
        return added[self.inputs[p]] if added else 0

    def recorded_version(self, p: int, version: int) -> int:
        """The version of a gradient that is recorded, where one that is not has `version`."""
        if callable(self.plan.call.grad_facts[1]):
            return self._writes(self.inputs[p], True)
        return version

    def _as_made(self, p: int, cts: tuple[Meta | None, ...]) -> tuple[Meta, int, int]:
        key, ct, call = self.plan.keys[self.inputs[p]], cts[0], self.plan.call
        assert isinstance(key, Meta)
        real = ct is not None and ct.dtype.is_complex and not key.dtype.is_complex
        if ct is None or not real or call.geometry is not None:
            return self._made_as(p, cts, key)
        if Layout.steps(call.layout) and ct.shape != key.shape:  # summed
            return meta(key.shape, key.dtype, key.device), FRESH, 0
        # The real part of what a complex input would get, as a view of it.
        imagined = meta(key.shape, ct.dtype, key.device, key.strides)
        m, _, version = self._made_as(p, cts, imagined)
        strides = tuple([2 * s for s in m.strides])
        if ct.dtype.to_real() is key.dtype:
            return meta(key.shape, key.dtype, key.device, strides), VIEWED, version
        strides = shapes.preserve_strides(key.shape, strides)
        return meta(key.shape, key.dtype, key.device, strides), FRESH, 0

    def _made_as(self, p: int, cts: tuple[Meta | None, ...], key: Meta) -> tuple[Meta, int, int]:
        call = self.plan.call
        plain = meta(key.shape, key.dtype, key.device)
        ct = cts[0]
        leaf = self.inputs[p]
        if self.name == _CONJUGATE and ct is not None:
            return meta(ct.shape, ct.dtype, ct.device, ct.strides), VIEWED, 0
        if leaf in call.transposed:
            return self._seen_back(key), HELD, 0
        follows, version = call.grad_facts[0], self._writes(leaf, False)
        if not isinstance(follows, bool):
            follows = leaf in follows
        stepped = self._stepped(leaf, cts, key) if key.ndim else None
        if stepped is not None:  # a part of something larger, if there are gaps in it
            return stepped, FRESH if stepped.dense else HELD, version
        unchanged = self.passes(p) or (key.dtype.is_complex and self._gives_real_part(p))
        if follows and key.dense and not unchanged:
            return key, FRESH, version
        laid_out = self._laid_out(leaf, ct, key)
        if laid_out is not None:
            return laid_out, FRESH, version
        elementwise = Layout.steps(call.layout)
        summed_or_cast = ct is None or ct.dtype is not key.dtype or _summed(ct, key)
        if version and elementwise and summed_or_cast and not callable(call.grad_facts[1]):
            version = 0
        if ct is None or len(cts) != 1 or (version and not elementwise):
            return plain, FRESH, version
        strides = None if call.grad_view is None else call.grad_view(ct, key, **call.statics)
        if strides == OWN:
            return plain, FRESH, 0
        if strides == SAME:
            return ct, PASSED, 0
        if isinstance(strides, View):
            strides = strides.strides
        if strides is not None:
            return meta(key.shape, key.dtype, key.device, tuple(strides)), VIEWED, 0
        if call.geometry is None and unchanged and ct.shape == key.shape:
            return ct, PASSED, 0
        if call.geometry is not None and key.numel == ct.numel:
            strides = shapes.view_strides(ct.shape, ct.strides, key.shape)
            if strides is None:
                return plain, FRESH, 0
            return meta(key.shape, key.dtype, key.device, strides), VIEWED, 0
        same = ct.shape == key.shape
        preserving = call.layout is Layout.PRESERVE and bool({*self.saved_in} - self.unread)
        if same and (preserving or (elementwise and (key.ndim > 1 or version))):
            ins, outs = self._reads(self._steps.slice([self.grad_refs[p]], self.cuts)[1])
            kept = [*[self.plan.keys[i] for i in ins], *[self.plan.outs[k] for k in outs]]
            operands = [(m.shape, m.strides) for m in [ct, *kept] if isinstance(m, Meta)]
            strides = shapes.elementwise_strides(key.shape, operands)
            return meta(key.shape, key.dtype, key.device, strides), FRESH, version
        if call.layout is Layout.PRESERVE and ct.shape == key.shape:
            return (
                meta(
                    key.shape, key.dtype, key.device, shapes.preserve_strides(ct.shape, ct.strides)
                ),
                FRESH,
                0,
            )
        return plain, FRESH, version

    def _seen_back(self, key: Meta) -> Meta:
        """The gradient of a transposed matrix, transposed."""
        shape, strides = (
            (*key.shape[:-2], *key.shape[:-3:-1]),
            (*key.strides[:-2], *key.strides[:-3:-1]),
        )
        held_if = self.plan.call.held_if
        if held_if is None or not held_if(meta(shape, key.dtype, key.device, strides)):
            strides = shapes.contiguous_strides(shape)
        return meta(key.shape, key.dtype, key.device, (*strides[:-2], *strides[:-3:-1]))

    def _laid_out(self, leaf: int, ct: Meta | None, key: Meta) -> Meta | None:
        """A gradient as the row's layout has it: like the inputs, or like the incoming gradient."""
        call = self.plan.call
        gradient = getattr(call.layout, "gradient", None)
        if gradient is None:
            return None
        layout, by_inputs = gradient
        given = [k for k in self.plan.keys if isinstance(k, Meta)] if by_inputs else [ct]
        if given == [None] or (not by_inputs and self.passes(self.inputs.index(leaf))):
            return None
        more = (call.statics,) if getattr(layout, "statics", False) else ()
        return meta(key.shape, key.dtype, key.device, layout(given, key.shape, *more))

    def _stepped(self, leaf: int, cts: tuple[Meta | None, ...], key: Meta) -> Meta | None:
        """A gradient as the steps of torch's formula lay it out, where they are on record."""
        formula = GRADIENT_STEPS.get(self.name, {}).get(leaf)
        ct = next((m for m in cts if m is not None), None)
        if callable(formula):
            formula = formula(self.plan.call.statics, key)
        if isinstance(formula, list):
            return meta(key.shape, key.dtype, key.device, tuple(formula))
        if formula == COLUMN_MAJOR and ct is not None:
            return self._by_columns(key, ct)
        if formula is None or ct is None or (ct.dtype is not key.dtype and CAST not in formula):
            return None
        if formula == ROW_MAJOR:
            return meta(key.shape, key.dtype, key.device)
        dims = self._reduced(key, ct)
        if _summed(ct, key) or dims is None:
            return None
        named = {GRAD: ct, RESULT: self.plan.outs[0]}

        def laid_out(step: Any) -> tuple[Sequence[int], Sequence[int]]:
            if isinstance(step, tuple):
                operands = [laid_out(s) for s in step]
                shape = shapes.broadcast_shapes(*[o[0] for o in operands])
                return shape, shapes.elementwise_strides(shape, operands)
            if step in (NUMBER, CAST):
                return (), ()
            if step == ROW_MAJOR:
                return key.shape, shapes.contiguous_strides(key.shape)
            m = named.get(step) or self.plan.keys[step]
            if not isinstance(m, Meta):
                return (), ()
            sizes, strides = list(m.shape), list(m.strides)
            for d in dims if step in named else ():
                sizes.insert(d, 1)
                strides.insert(d, 0)
            return sizes, strides

        shape, strides = laid_out(formula)
        if tuple(shape) != key.shape:
            return None
        return meta(key.shape, key.dtype, key.device, tuple(strides))

    def _by_columns(self, key: Meta, ct: Meta) -> Meta | None:
        """A matrix as LAPACK leaves it; what is summed over a batch, and vectors, are row-major."""
        first = self.plan.keys[0]
        if ct.ndim > key.ndim or (isinstance(first, Meta) and first.ndim > key.ndim):
            return None
        return meta(key.shape, key.dtype, key.device, column_major([key], key.shape))

    def _reduced(self, key: Meta, ct: Meta) -> tuple[int, ...] | None:
        """The dimensions of an input that the result lacks, or None where that is not known."""
        if ct.ndim >= key.ndim or not ct.ndim:
            return ()
        dim = self.plan.call.statics.get("dim")
        if dim is None:
            return None
        dims = sorted(d % key.ndim for d in ((dim,) if isinstance(dim, int) else dim))
        return tuple(dims) if ct.ndim + len(dims) == key.ndim else None

    def _gives_real_part(self, p: int) -> bool:
        """Whether a gradient is the real part of the incoming one."""
        ref = self._steps.real_parts.get(self.grad_refs[p])
        return ref is not None and len(self.plan.present) <= ref < self._steps.n_in

    def passes(self, p: int) -> bool:
        """Whether a gradient is the incoming one, unchanged."""
        ref = self.grad_refs[p]
        base = len(self.plan.present)
        return not isinstance(ref, Const) and base <= ref < self._steps.n_in


def _summed(ct: Meta, key: Meta) -> bool:
    """Whether a gradient is summed over what was broadcast, be it over no elements at all."""
    if ct.numel > key.numel or ct.ndim > key.ndim:
        return True
    return ct.ndim == key.ndim and any(k == 1 != n for n, k in zip(ct.shape, key.shape))
