"""How gradients are computed: the steps of ``(f(x), vjp(x, ct))``, which can be cut at the results of f."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..._core.arrays.meta import Meta
from ..._core.errors import messages as errors
from ..._core.jax.sizes import Sizes
from ..._core.state import recording
from ..run.program import Literal, Program, Ref, Slice
from ..run.templates import Form, Found, Template
from ..run.trace import Plan, aval


class _Alone(threading.local):
    on = False


_ALONE = _Alone()


def alone(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` as it is traced where nobody differentiates it: gradients in it are taken from templates."""

    def run(*args: Any) -> Any:
        before, _ALONE.on = _ALONE.on, True
        try:
            return fn(*args)
        finally:
            _ALONE.on = before

    run.__name__ = run.__qualname__ = fn.__name__
    return run


class Formula:
    """The gradients of a plan by some of its inputs, from cotangents of some of its results.

    Args:
        plan: the plan.
        inputs: the leaves to differentiate by.
        diff: the results that cotangents are given of.
        found: the template of the plan; None to trace the gradients by shape.
    """

    __slots__ = (
        "_exact", "_numbers", "cuts", "diff", "grad_refs", "inputs", "out_refs", "plan", "prim_pos", "program", "wrt",
    )  # fmt: skip

    def __init__(self, plan: Plan, inputs: tuple[int, ...], diff: tuple[int, ...], found: Found | None) -> None:
        self.plan, self.inputs, self.diff = plan, inputs, diff
        self.prim_pos = {leaf: p for p, leaf in enumerate(plan.present)}
        self.wrt = [self.prim_pos[i] for i in inputs]
        program = None if found is None else _of_template(self, found)
        self.program: Program = _by_shape(self) if program is None else program
        """The steps to the results, then to the gradients."""
        self._numbers = () if found is None or program is None else found.numbers
        n = len(plan.outs)
        self.out_refs, self.grad_refs = self.program.out[:n], self.program.out[n:]
        self.cuts = self.program.computed(self.out_refs)
        self._exact: Formula | None = self if self.program.exact else None

    @property
    def exact(self) -> Formula:
        """The formula whose steps may be differentiated: those of a template may have lost rules for that."""
        if self._exact is None:
            self._exact = Formula(self.plan, self.inputs, self.diff, None)
        return self._exact

    # -- what is read
    def read(self, refs: Sequence[Ref], cuts: frozenset[int]) -> set[int]:
        """The numbers of the values that `refs` need when those in `cuts` are given."""
        return self.program.needs(refs, cuts)[1]

    def reads(self, refs: Sequence[Any], cuts: frozenset[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The inputs and the results among what `refs` need."""
        return self.among(self.read(refs, cuts))

    def among(self, read: set[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The inputs and the results among values."""
        ins = tuple(leaf for leaf, p in self.prim_pos.items() if p in read)
        outs = (k for k, r in enumerate(self.out_refs) if r in self.cuts and r in read)
        return ins, tuple(dict.fromkeys(outs))

    def source(self, ref: Any) -> int | None:
        """The number of the incoming gradient that a gradient is."""
        base = len(self.plan.present)
        return ref - base if isinstance(ref, int) and base <= ref < self.program.n_in else None

    # -- how it runs
    def run(
        self, cts: Sequence[Any], saved: Sequence[Any], wanted: tuple[int, ...], ins: Sequence[int],
        outs: Sequence[int], cuts: frozenset[int],
    ) -> list[Any]:  # fmt: skip
        """Gradients of the wanted inputs, from cotangents (None for zeros) and the values of `ins` and `outs`."""
        if not _ALONE.on and self.exact is not self:
            cuts = self.exact.cuts if cuts else cuts
            return self.exact.run(cts, saved, wanted, ins, outs, cuts)
        given: dict[int, Any] = {}
        plan = self.plan
        for leaf, v in zip(ins, saved):
            key = plan.keys[leaf]
            given[self.prim_pos[leaf]] = v if isinstance(key, Meta) else jnp.asarray(v, aval(key).dtype)
        for k, v in zip(outs, saved[len(ins) :]):
            ref = self.out_refs[k]
            # A literal stands for an empty result that nothing reads.
            if not isinstance(ref, Literal):
                given[ref] = v
        for j, (k, ct) in enumerate(zip(self.diff, cts), len(plan.present)):
            m = plan.outs[k]
            given[j] = jnp.zeros(m.shape, m.dtype.np) if ct is None else ct
        refs = [self.grad_refs[w] for w in wanted]
        return self.program.slice(refs, tuple(given), cuts, self._numbers).run(*given.values())

    def part(self, wanted: tuple[int, ...], ins: Sequence[int], outs: Sequence[int]) -> Slice | None:
        """The same as steps of arrays; None where a result that is saved is a constant."""
        base = len(self.plan.present)
        given = [*range(base, base + len(self.diff)), *[self.prim_pos[leaf] for leaf in ins]]
        given += [r for k in outs if isinstance(r := self.out_refs[k], int)]
        if len(given) < len(self.diff) + len(ins) + len(outs):
            return None
        refs = tuple([self.grad_refs[w] for w in wanted])
        return Slice(self.program, False, refs, tuple(given), self.cuts, self._numbers)

    def forms(
        self, which: int, ins: Sequence[int], outs: Sequence[int], used: Sequence[bool], cut: bool
    ) -> Sequence[Form]:
        """What has the templates of one gradient as a call of its own.

        Args:
            which: the gradient.
            ins: the inputs that it reads.
            outs: the results that it reads.
            used: whether it reads each incoming gradient.
            cut: whether it takes results as they are given, and does not compute them.
        """
        found, base, single, n_outs = self.plan.found, len(self.plan.present), self.plan.single, len(self.plan.outs)
        if found is None or self.program.sizes is None:
            return ()
        read, arrive = [self.prim_pos[i] for i in ins], [j for j, u in enumerate(used) if u]
        wrt, diff = self.wrt, self.diff

        def run_of(fn: Callable[..., Any], avals: Sequence[Any]) -> Callable[..., Any]:
            program = _traced(wrt, diff, fn, single, avals[:base], [avals[-1 - k] for k in diff])
            out_refs = program.out[:n_outs]
            cuts = program.computed(out_refs) if cut else frozenset()
            given: list[Any] = [*[base + j for j in arrive], *read, *[out_refs[k] for k in outs]]
            steps = program.slice([program.out[n_outs + which]], given, cuts)

            def run(leaves: Sequence[Any]) -> Any:
                return steps.run(*[jnp.asarray(x, v.aval.dtype) for x, v in zip(leaves, steps.invars)])[0]

            return run

        key = self.inputs, diff, which, tuple(arrive), tuple(read), tuple(outs), cut
        return [found.derived(key, run_of, [*[-1 - diff[j] for j in arrive], *read, *[-1 - k for k in outs]])]


def _of_template(formula: Formula, found: Found) -> Program | None:
    """The steps of a template that holds for the sizes at hand, also in its gradients."""
    wrt, diff = formula.wrt, formula.diff

    def of(t: Template) -> Any:
        def derive() -> Program:
            return _traced(wrt, diff, t.fn, t.single, t.avals, [t.outs[k] for k in diff], t.sizes)

        return t.further((formula.inputs, diff), derive)

    def suits(t: Template) -> Program | None:
        holds, steps = of(t)
        return steps if holds(found.numbers) else None

    steps = suits(found.template)
    if steps is None and of(found.template)[1] is not None:
        steps = found.family.find(found.numbers, found.source, suits)
    return steps


def _by_shape(formula: Formula) -> Program:
    plan = formula.plan
    avals = [aval(plan.keys[i]) for i in plan.present]
    cts = [aval(plan.outs[k]) for k in formula.diff]
    steps = _traced(formula.wrt, formula.diff, plan.fn, plan.single, avals, cts)
    plan.traced_by_shape()
    return steps


def _traced(
    wrt: Sequence[int], diff: Sequence[int], fn: Callable[..., Any], single: bool, avals: Sequence[Any],
    cts: Sequence[Any], sizes: Sizes | None = None, whole: bool = False,
) -> Program:  # fmt: skip
    """The steps of the results and of the gradients."""
    n = len(avals)

    def both(*args: Any) -> Any:
        prim, cts = args[:n], args[n:]

        def g(*d: Any) -> Any:
            full = list(prim)
            for p, v in zip(wrt, d):
                full[p] = v
            out = fn(*full)
            outs = (out,) if single else tuple(out)
            return tuple(outs[k] for k in diff), outs

        try:
            _, vjp, outs = jax.vjp(g, *[prim[p] for p in wrt], has_aux=True)
            grads = vjp(tuple(_conj(c) for c in cts))
        except (ValueError, NotImplementedError) as refusal:
            raise _as_no_derivative(refusal) from refusal
        return tuple(outs), tuple(_conj(x) for x in grads)

    with recording():
        return Program(jax.make_jaxpr(both)(*avals, *cts), sizes, whole)


def _conj(x: Any) -> Any:
    return jnp.conj(x) if jnp.issubdtype(x.dtype, jnp.complexfloating) else x


def _as_no_derivative(refusal: Exception) -> errors.NoDerivative:
    """Say that JAX has no derivative of a function: a callback, say, or a loop that ends by its values.

    The function itself has been traced before, so what fails is its derivative alone.
    """
    if isinstance(refusal, errors.NoDerivative):
        return refusal
    return errors.NoDerivative(str(refusal), type(refusal))
