"""What a node saves and how it turns cotangents into gradients, derived from a plan's function."""

from __future__ import annotations

import copy
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..._core.arrays import dtypes
from ..._core.arrays.meta import Meta, meta
from ..._core.errors import messages as errors
from ..._core.jax import abstract
from ..._core.jax.caches import remember
from ..._core.state import MODES
from ..._core.written_code import compiled
from ..._ops.aten import kernel_name, op_name
from ..._ops.registry import Compares, Grad, NoGradient
from ..._ops.saved_names import SAVED_TENSORS
from ..memory.shared_values import LIVE, with_shared_values
from ..run import joining
from ..run.kernel import Kernel, of_steps, traced_later
from ..run.program import Literal
from ..run.trace import PYTHON_NP, Call, Key, Plan
from .formula import Formula
from .node import node_class


class Refusal(NamedTuple):
    """What a backward pass raises in the place of gradients, after the node was recorded like any other."""

    error: Exception
    about: int | None = None
    """The number of the gradient that raises; None if all do."""
    lacks: bool = False
    """Whether there is no derivative. Where there is one, a pass that stands in for forward mode computes it."""


class GradPlan:
    """What a node of this plan saves and how it turns cotangents into gradients.

    The saved set falls out of the trace of (f(x), vjp(x, ct)): with f's outputs as cut points,
    it is whatever inputs and outputs the gradients still depend on.
    """

    __slots__ = (
        "_in_numpy", "_parts", "alone", "calls", "dependent", "diff", "edge_grads", "edge_leaves", "edge_pick",
        "filled", "formula", "fused", "inputs", "mask", "metas", "name", "node_class", "plan", "refusal", "save",
        "saved_in", "saved_out", "saves_tensors", "sources", "vjps",
    )  # fmt: skip
    unpacks = True
    """Whether its nodes unpack what they saved where no gradient came, too."""

    def __init__(self, plan: Plan, mask: int, refusal: Refusal | None = None) -> None:
        self.plan, self.mask, self.refusal = plan, mask, refusal
        self.inputs = tuple(i for i in range(len(plan.keys)) if mask >> i & 1)
        _check_allowed(plan, self.inputs)
        self.edge_leaves = plan.call.edges(plan.keys) if plan.call.edges else _edge_leaves(plan.keys)
        self.name = _node_name(plan)
        # Torch's fallback makes it, and asks which inputs require a gradient.
        if self.name == "NotImplemented":
            self.edge_leaves = tuple(i for i in self.edge_leaves if i in self.inputs)
        severed = plan.call.severed(plan.keys)
        reached = {i: p for p, i in enumerate(self.inputs) if i not in severed}
        self.edge_grads = tuple(reached.get(i, -1) for i in self.edge_leaves)
        self.alone = refusal is not None or bool(severed)
        """Whether its nodes only run one by one."""
        self.node_class = node_class(self.name)
        self.vjps: dict[Any, Kernel] = {}
        self.calls: dict[Any, Any] = {}
        self._parts: dict[Any, GradPlan] = {}
        self.fused = 0
        self._in_numpy: bool | None = None
        self.dependent: frozenset[int] | None = None
        self.diff = plan.diff
        self.filled: GradPlan | None = None
        self.metas = tuple([_row_major(plan.keys[i]) for i in self.inputs])
        """What the gradients look like: each has memory of its own, row by row."""
        self.sources: tuple[int | None, ...] = (None,) * len(self.inputs)
        """Of each gradient that is an incoming one unchanged, the number of that."""
        self.saved_in: tuple[int, ...] = ()
        self.saved_out: tuple[int, ...] = ()
        if refusal is None or not refusal.lacks:
            self._derive()
        # A number with an edge is one that torch turns into a tensor, and saves as one.
        self.saves_tensors = bool(self.saved_out) or any(
            isinstance(plan.keys[i], Meta) or i in self.edge_leaves for i in self.saved_in
        )
        # It holds the node of a write, which a pass frees whatever that saved.
        if self.name == "CopySlices":
            self.saves_tensors = True
        self.save = saver(self.saved_in, self.saved_out, len(plan.keys))
        self.edge_pick = None if self.edge_leaves == tuple(range(len(plan.keys))) else getter(self.edge_leaves)

    # -- derivation
    def _derive(self) -> None:
        plan = self.plan
        self.formula = formula = Formula(plan, self.inputs, self.diff, plan.found)
        if self.refusal is None:
            self.sources = tuple([formula.source(ref) for ref in formula.grad_refs])
        ins, outs = formula.reads(formula.grad_refs, formula.cuts)
        if plan.call.row.from_inputs is True:  # recorded gradients alone read the numbers
            ins = tuple(dict.fromkeys((*ins, *formula.reads(formula.grad_refs, frozenset())[0])))
        if plan.call.row.keeps:
            ins, outs = self._kept(ins, outs)
        if any(isinstance(k, Meta) and not k.numel for k in plan.keys):
            ins, outs = self._as_if_filled(ins, outs)
        self.saved_out = tuple(sorted(outs, key=lambda k: (self._labels()[k], k)))
        self.saved_in = tuple(sorted(ins, key=self._packing_order))

    def _as_if_filled(self, ins: tuple[int, ...], outs: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What this call saves of tensors that are not empty: a trace of empty ones reads nothing.

        torch saves the same, whatever there is in it. Where the static arguments fit the empty
        tensors only, what is read has to do.
        """
        plan = self.plan
        if plan.call.geometry is not None or plan.call.row.joins is not None:
            return ins, outs
        keys = tuple(_filled(k) if isinstance(k, Meta) else k for k in plan.keys)
        try:
            full = GradPlan(type(plan)(plan.call.full or plan.call, keys), self.mask)
        except Exception:  # a row may raise anything for arguments that do not fit
            return ins, outs
        self.filled = full
        return tuple(dict.fromkeys((*ins, *full.saved_in))), tuple(dict.fromkeys((*outs, *full.saved_out)))

    def _kept(self, ins: tuple[int, ...], outs: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The inputs and results to save: those that gradients read, and those that torch saves besides."""
        call, keys = self.plan.call, self.plan.keys
        stems = [_stem(name) for name in call.argnames]
        # Stand-ins come last, and are not among these.
        mine = {stems[i] for i in self.inputs if i < len(stems)}
        if isinstance(call.row.keeps, tuple):
            names = {n for n in call.row.keeps if n in mine or n == "result"}
        else:
            names = {n for wanted, more in call.row.keeps.items() if wanted in mine for n in more}
        leaves = [i for i, s in enumerate(stems) if s in names and isinstance(keys[i], Meta)]
        labels = self._labels()
        results = [
            k
            for k, r in enumerate(self.formula.out_refs)
            if labels[k] in names and (isinstance(r, Literal) or r in self.formula.cuts)
        ]
        return tuple(dict.fromkeys((*ins, *leaves))), tuple(dict.fromkeys((*outs, *results)))

    def _labels(self) -> Sequence[str]:
        """torch's names of the results."""
        n = len(self.plan.outs)
        named = getattr(self.plan.call.result, "_fields", None)
        return ["result"] if self.plan.single else named or [f"result{k}" for k in range(n)]

    def _packing_order(self, leaf: int) -> tuple[str, int]:
        """torch saves, and so packs, inputs in alphabetical order of its names for them.

        The gradient that came in is what the last steps of formulas are about, so it goes before the rest.
        """
        names = self.plan.call.argnames
        stem = _stem(names[leaf]) if leaf < len(names) else "~"
        if stem == "input" and "input" not in SAVED_TENSORS.get(self.name, ()):
            stem = "self"
        return "" if stem == "grad" else stem, leaf

    # -- the pure function
    def fn(
        self,
        cts: Sequence[Any],
        saved: Sequence[Any],
        wanted: tuple[int, ...] | None = None,
        ins: Sequence[int] | None = None,
        outs: Sequence[int] | None = None,
        cuts: frozenset[int] | None = None,
    ) -> list[Any]:
        """Gradients of the wanted inputs (positions in `inputs`) from cotangents and saved values.

        `cts` has one entry per differentiable output; None stands for an output that nothing came back to.
        """
        self.refuse(wanted)
        return self._computed(cts, saved, wanted, ins, outs, cuts)

    def _computed(
        self,
        cts: Sequence[Any],
        saved: Sequence[Any],
        wanted: tuple[int, ...] | None = None,
        ins: Sequence[int] | None = None,
        outs: Sequence[int] | None = None,
        cuts: frozenset[int] | None = None,
    ) -> list[Any]:
        """Compute gradients, also those that a pass would refuse."""
        wanted = tuple(range(len(self.inputs))) if wanted is None else wanted
        ins = self.saved_in if ins is None else ins
        outs = self.saved_out if outs is None else outs
        present = tuple(ct is not None for ct in cts)
        if any(present) and not all(present) and self.plan.call.row.joins is None:
            part = self._part(present)
            if {*part.saved_in} <= {*ins} and {*part.saved_out} <= {*outs}:
                return part._computed([ct for ct in cts if ct is not None], saved, wanted, ins, outs)
        return self.formula.run(cts, saved, wanted, ins, outs, self.formula.cuts if cuts is None else cuts)

    @property
    def raises(self) -> bool:
        """Whether its nodes raise when they run, whether or not anybody waits for what they would give."""
        said = self.refusal
        return said is not None and said.about is None and (said.lacks or not MODES.transposing)

    def refuse(self, wanted: Sequence[int] | None = None) -> None:
        """Raise what a pass raises in the place of the wanted gradients, None for all, if it does."""
        said = self.refusal
        if said is None or (MODES.transposing and not said.lacks):
            return
        if said.about is None or wanted is None or said.about in wanted:
            # A new error each time: the one that is kept here would keep the frames that it went through.
            raise type(said.error)(*said.error.args)

    def vjp(self, present: tuple[bool, ...], wanted: tuple[int, ...] | None = None) -> Kernel:
        """Compiled ``(*cotangents present, *saved) -> gradients`` of all or the wanted inputs."""
        kernel = self.vjps.get((present, wanted))
        if kernel is None:
            wide = self._wide_vjp(present, wanted)
            kernel = self._kernel(present, wanted) if wide is None else Kernel.of_others(wide)
            self.vjps[present, wanted] = kernel
        return kernel

    def _kernel(self, present: tuple[bool, ...], wanted: tuple[int, ...] | None) -> Kernel:
        """Return a kernel that gives gradients, of cotangents and saved values."""
        n = sum(present)

        def run(*args: Any) -> Any:
            it = iter(args[:n])
            cts = [next(it) if p else None for p in present]
            return self.fn(cts, args[n:], wanted)

        run.__name__ = run.__qualname__ = f"{self.plan.call.name}_vjp"
        device, numbers, me = self.plan.device, self.plan.call.has_numbers, weakref.ref(self.plan)
        steps = self._steps(present, wanted) if device.type == "cpu" else None
        if steps is not None:
            kernel = of_steps(run, steps, device, me, numbers=numbers)
            if wanted is None and all(present):
                self._in_numpy = kernel.in_numpy
            return kernel
        later = traced_later(run, device, me, numbers=numbers)
        return Kernel.of_others(abstract.described(later)) if device.type == "meta" else later

    def _steps(self, present: tuple[bool, ...], wanted: tuple[int, ...] | None = None) -> Any:
        """The steps of the wanted gradients, as a function of cotangents and saved values, if there is one."""
        if self.refusal is not None:
            return None
        part = self._part(present)
        if not ({*part.saved_in} <= {*self.saved_in} and {*part.saved_out} <= {*self.saved_out}):
            return None
        picked = tuple(range(len(self.inputs))) if wanted is None else wanted
        return part.formula.part(picked, self.saved_in, self.saved_out)

    def forget(self) -> None:
        """Let go of what refers to this plan: kernels, and the calls of recorded gradients."""
        parts = list(self._parts.values())
        self._parts.clear()  # this comes first, as a plan may be a part of itself
        self.vjps.clear()
        self.calls.clear()
        for part in parts:
            part.forget()

    def in_numpy(self) -> bool:
        """Return whether NumPy computes its gradients, so that a walk need not compile anything for it."""
        if self._in_numpy is None:
            everything = (True,) * len(self.diff)
            steps = self._steps(everything) if self.plan.device.type == "cpu" else None
            found = None if steps is None else steps.fits()
            if found is None and max(len(self.inputs), len(self.diff)) <= joining.PER_KERNEL:
                self.vjp(everything)  # says it
            elif found is None:
                found = steps is not None and steps.in_numpy(self.fn) is not None
            self._in_numpy = bool(self._in_numpy if found is None else found)
        return self._in_numpy

    def _wide_vjp(self, present: tuple[bool, ...], wanted: tuple[int, ...] | None) -> Any:
        """The gradients of a call that joins or cuts more tensors than one kernel should handle."""
        plan = self.plan
        joined = plan.joined()
        if joined is not None:
            picked = range(len(self.inputs)) if wanted is None else wanted
            return joining.backward(*joined, [self.inputs[p] for p in picked])
        if plan.call.row.joins is None or len(plan.diff) <= joining.PER_KERNEL:
            return None
        key = plan.keys[self.inputs[0]]
        assert isinstance(key, Meta)
        axis, new = plan.call.row.joins(key.ndim, **plan.call.statics)
        outs = [plan.outs[k] for k in plan.diff]
        join = joining.forward(outs, key, axis, new)
        # The kernel is kept, so it must not be part of a trace that runs now.
        with jax.ensure_compile_time_eval():
            zeros = {m: jnp.zeros(m.shape, m.dtype.np) for m, p in zip(outs, present) if not p}

        def vjp(*cts: Any) -> list[Any]:
            it = iter(cts)
            return [join(*[next(it) if p else zeros[m] for m, p in zip(outs, present)])]

        return vjp

    def call(
        self, which: int, present: tuple[bool, ...], form: str = ""
    ) -> tuple[Call, tuple[int, ...], tuple[int, ...], tuple[bool, ...]]:
        """One gradient as an op of its own, with the saved inputs and outputs that it reads.

        `form` is what tells a formula that reads inputs alone from another, where values decide between them.
        """
        self.refuse((which,))
        key = (which, present, form)
        derived = self.calls.get(key)
        if derived is None and not all(present) and self.plan.call.row.joins is None:
            part = self._part(present)
            call, ins, outs, reads = part.call(which, (True,) * len(part.diff))
            it = iter(reads)
            used = tuple(p and next(it) for p in present)
            derived = self.calls[key] = (call, ins, outs, used)
        if derived is None:
            alone = form or self.plan.call.row.from_inputs is True
            cuts = frozenset() if alone else self.formula.cuts
            read = self.formula.read([self.formula.grad_refs[which]], cuts)
            ins, outs = self.formula.among(read)
            base = len(self.plan.present)
            used = tuple(p and base + j in read for j, p in enumerate(present))
            full = None
            if self.filled is not None:  # see `reached`
                full, more_ins, more_outs, more = self.filled.call(which, present)
                used = tuple(u or m for u, m in zip(used, more))
                # What it reads comes first and in its order, so that the one can stand for the other.
                ins, outs = (tuple(dict.fromkeys(x)) for x in ((*more_ins, *ins), (*more_outs, *outs)))
            elif self._empty_part(self.inputs[which]):
                used = present
            if full is not None and (ins, outs, used) != (more_ins, more_outs, more):
                full = None
            n = sum(used)

            def run(leaves: Sequence[Any]) -> Any:
                it = iter(leaves[:n])
                cts = [next(it) if u else None for u in used]
                return self._computed(cts, leaves[n:], (which,), ins, outs, cuts)[0]

            later = self.plan.call.row.compares is Compares.IN_SECOND_GRADIENTS
            facts: Any = {"compares": Compares.IN_GRADIENTS} if later else {}
            forms = self.formula.forms(which, ins, outs, used, bool(cuts))
            call = Call(f"{self.plan.call.name}_backward", run, node_name=_again(self.name), forms=forms, **facts)
            call.full = full
            names = (*self.plan.call.argnames, *["~"] * len(self.plan.keys))
            call.argnames = (*["grad"] * n, *[names[i] for i in ins], *["result"] * len(outs))
            derived = self.calls[key] = (call, ins, outs, used)
        return derived

    def _empty_part(self, leaf: int) -> bool:
        """Whether an input without elements became a part of the result: its gradient is one of the incoming one."""
        key = self.plan.keys[leaf]
        if not isinstance(key, Meta) or key.numel:
            return False
        return self.formula.prim_pos[leaf] in self.formula.read(self.formula.out_refs, frozenset())

    def whole(self) -> GradPlan:
        """The gradient plan of this call for all inputs that could require gradients."""
        keys = self.plan.keys
        able = (i for i in self.edge_leaves if isinstance(k := keys[i], Meta) and k.dtype.category >= dtypes.FLOATING)
        return grad_plan(self.plan, sum(1 << i for i in able))

    def _part(self, present: tuple[bool, ...]) -> GradPlan:
        """The plan of a pass in which some results get no gradient: torch's formulas leave those out."""
        if all(present):
            return self
        part = self._parts.get(present)
        if part is None:
            part = self._parts[present] = copy.copy(self)
            part.calls, part.dependent = {}, None
            part.diff = tuple(k for k, p in zip(self.diff, present) if p)
            part._derive()
        return part

    def reached(self, cts: Sequence[Any]) -> frozenset[int]:
        """The gradients that depend on one that came back; where some results got none, torch has no others."""
        if self.raises or self.plan.call.row.joins is not None:
            return frozenset(range(len(self.inputs)))
        part, base = self._part(tuple([c is not None for c in cts])), len(self.plan.present)
        if part.filled is not None:  # a trace reads nothing of empty tensors, torch's formula does
            return part.filled.reached(cts)
        if part.dependent is None:
            reads = [part.formula.read([r], part.formula.cuts) for r in part.formula.grad_refs]
            part.dependent = frozenset(p for p, read in enumerate(reads) if any(i >= base for i in read))
        return part.dependent

    def compared(self, which: int) -> tuple[frozenset[int], frozenset[int]]:
        """The inputs and results that a gradient only compares, where torch's formula lets nothing through."""
        compares = self.plan.call.row.compares
        if compares is Compares.INPUTS:
            return frozenset(self.saved_in), frozenset(self.saved_out)
        if compares is not Compares.IN_GRADIENTS:
            return frozenset(), frozenset()
        formula = self.formula
        flow = formula.program.flows([formula.grad_refs[which]], formula.cuts)
        ins = (leaf for leaf, p in formula.prim_pos.items() if p not in flow)
        outs = (k for k, r in enumerate(formula.out_refs) if isinstance(r, Literal) or r not in flow)
        return frozenset(ins), frozenset(outs)


def _node_name(plan: Plan) -> str:
    """The name of the nodes of a plan."""
    name = plan.call.node_name
    return name if isinstance(name, str) else name(plan.keys)


def _without_derivative(plan: Plan, name: str) -> Exception:
    """Return what an op without a derivative says, whose nodes have this name."""
    call = plan.call
    if name != "NotImplemented":  # torch knows the op, and knows that it has no formula
        return NotImplementedError(f"the derivative for '{op_name(call.name)}' is not implemented.")
    said = call.name if call.name == "set_" else f"aten::{op_name(call.name)}"
    # The call is the in-place form of an operator.
    if hasattr(call, "inner") and call.argnames[:1] == ("input",):
        said = said.rstrip("_") + "_"
    return RuntimeError(f"derivative for {said} is not implemented")


def _row_major(key: Any) -> Meta:
    """The meta of a gradient of what this is the meta of."""
    return meta(key.shape, key.dtype, key.device)


def _again(name: str) -> str:
    """The name of the node of a recorded gradient: ``PowBackward0`` gives ``PowBackwardBackward0``."""
    return name.rstrip("0123456789") + "Backward0"


def _stem(name: str) -> str:
    """The parameter of a leaf: the entries of a list are numbered."""
    stem, _, number = name.rpartition("_")
    return stem if stem and number.isdigit() else name


def _filled(m: Meta) -> Meta:
    """A tensor with three elements along each dimension that has none."""
    return meta(tuple(n or 3 for n in m.shape), m.dtype, m.device)


def _edge_leaves(keys: tuple[Key, ...]) -> tuple[int, ...]:
    """Leaves that get an entry in next_functions: tensors that could carry a gradient."""
    return tuple(i for i, k in enumerate(keys) if isinstance(k, Meta) and k.dtype.category >= dtypes.FLOATING)


def _tuple(items: Sequence[str]) -> str:
    """The text of a tuple."""
    return "(" + "".join(x + "," for x in items) + ")"


@remember()
def saver(ins: tuple[int, ...], outs: tuple[int, ...], n: int) -> Callable[..., Any]:
    """``(kinds, leaves..., storages of fresh outputs...) -> (saved, versions)`` for one pattern.

    Generated, because a loop over a pattern costs more than the two or three reads it does. A leaf
    that is a number is saved as it is.
    """
    args = [f"a{i}" for i in range(n)]
    stores = [f"s{k}" for k in outs]
    saved = [f"a{i}" for i in ins] + stores
    vers = [f"(0 if a{i}.__class__ in numbers else a{i}._vc.version)" for i in ins] + ["0"] * len(outs)
    space: dict[str, Any] = {"numbers": frozenset(PYTHON_NP), "live": LIVE, "with_shared_values": with_shared_values}
    source = (
        f"def save({', '.join(args + stores)}):\n"
        f"    if live: return (saved := {_tuple(saved)}), with_shared_values(saved, {_tuple(vers)})\n"
        f"    return {_tuple(saved)}, {_tuple(vers)}"
    )
    return compiled(source, space, "save", __file__)


def getter(indices: Sequence[int]) -> Callable[[Any], Any]:
    """`indices` of a sequence as a tuple, at C speed."""
    if not indices:
        return lambda seq: ()
    if len(indices) == 1:
        return operator.itemgetter(slice(indices[0], indices[0] + 1))
    return operator.itemgetter(*indices)


def _check_allowed(plan: Plan, inputs: Sequence[int]) -> None:
    """Refuse to record what torch refuses to."""
    call, row = plan.call, plan.call.row
    refused = row.no_gradient.get(NoGradient.REFUSED, ())
    for i in inputs:
        if call.argnames[i : i + 1] and (name := call.argnames[i]) in refused:
            raise RuntimeError(errors.undifferentiable(kernel_name(row.name), name))
    # In place torch does not look.
    real = row.grad is Grad.REAL and not call.in_place
    if real and any(plan.outs[k].dtype.category is dtypes.COMPLEX for k in plan.diff):
        raise RuntimeError(errors.no_complex_gradient(op_name(call.name)))


def grad_plan(plan: Plan, mask: int) -> GradPlan:
    """The gradient plan for the inputs whose bits are set in `mask`."""
    gp = plan.grads.get(mask)
    if gp is None:
        gp = plan.grads[mask] = _made(plan, mask)
    return gp


def _made(plan: Plan, mask: int) -> GradPlan:
    call, name = plan.call, _node_name(plan)
    inputs = [i for i in range(len(plan.keys)) if mask >> i & 1]
    if refused := call.refusal(plan.keys, plan.outs, inputs):
        said, about = refused if isinstance(refused, tuple) else (refused, None)
        error = said if isinstance(said, Exception) else RuntimeError(said)
        number = None if about is None else inputs.index(call.argnames.index(about))
        return GradPlan(plan, mask, Refusal(error, number))
    if call.row.grad is Grad.MISSING or (name == "NotImplemented" and not call.severed(plan.keys)):
        return GradPlan(plan, mask, Refusal(_without_derivative(plan, name), lacks=True))
    try:
        return GradPlan(plan, mask)
    except errors.NoDerivative as complaint:
        return GradPlan(plan, mask, Refusal(complaint.kind(str(complaint)), lacks=True))
