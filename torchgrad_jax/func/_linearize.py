"""linearize: the derivative of a function at a point, as a linear function that nothing outside changes any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._core.arrays import tree
from .._core.state import DUAL, GRAD, IN_RUN, MODES
from .._engine.graph.history import requires_grad_of
from .._engine.graph.record import zeros_for
from .._engine.memory.tensor import Tensor
from .._engine.overrides import asking
from ..autograd import Function as AutogradFunction, grad as autograd_grad
from ._levels import Function, Level, detached, only_tensors, recording, running_level, transforming, transposed
from ._transforms import transposed_twice

_ONLY = "linearize(f, *primals): expected f(*primals) to return only tensors, got unsupported type"


def linearize(func: Function, *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return what `func` returns, and its derivative there as a linear function of tangents.

    Calling the linear function does not run `func` again. Gradients of what it returns reach the tangents only: as
    in torch, what it read of the primals and of other tensors are constants of it.

    Example:
        >>> import torchgrad_jax as torch
        >>> out, push = torch.func.linearize(torch.sin, torch.zeros(2))
        >>> push(torch.ones(2))
        tensor([1., 1.])
    """
    within = bool(MODES.bits & (IN_RUN | DUAL))  # which torch refuses: derivatives go on there
    out = None if within else func(*primals)
    there = _Linearized(func, primals, linked=within)
    return there.result() if within else out, there.push


class _Linearized:
    """The graph of one run of a function."""

    def __init__(self, func: Function, primals: tuple[Any, ...], linked: bool) -> None:
        self.linked = linked
        self.constant = not linked and not MODES.forward_grad
        """Whether torch, which takes the derivative in forward mode, takes none."""
        around = running_level()
        self.level = level = Level()
        with recording(level=level):
            self.primals, self.in_spec = tree.flatten(primals)
            self.inputs = [level.variable(p if linked else _copied(p)) for p in self.primals]
            pairs = zip(self.inputs, self.primals)
            given = [asking.convert(v, type(p)) if asking.overrides(type(p)) else v for v, p in pairs]
            with transforming(self.inputs), transposed(level):
                out = func(*tree.unflatten(given, self.in_spec))
                if linked:
                    level.refuse_unrecorded(tree.flatten(out)[0], self.inputs)
        self.outs, self.out_spec = only_tensors(out, _ONLY)
        if not linked:  # a primal that requires grad is a constant that does, but not a variable of a level around
            pairs = zip(self.inputs, self.primals)
            level.own -= {id(v) for v, p in pairs if requires_grad_of(p) and _matters_beyond(around, p)}

    def result(self) -> Any:
        """Return what the function returned, as the outside may see it."""
        return self.level.free(tree.unflatten(self.outs, self.out_spec))

    def push(self, *tangents: Any) -> Any:
        """The derivatives along tangents."""
        given, spec = tree.flatten(tangents)
        self._check(given, spec)
        if self.constant:
            zeros = [zeros_for(t._m) for t in self.outs]
            return tree.unflatten(zeros, self.out_spec)
        if self.linked:
            here, slopes = self.along(given)
            return here.free(tree.unflatten(_filled(slopes, self.outs), self.out_spec))
        return tree.unflatten(list(self.linear(_Push, given)), self.out_spec)

    def linear(self, op: Any, given: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return what `op` gives for vectors; where constants or vectors require grad, with a place in the graph."""
        here, found = op.of(self, [detached(t) for t in given])
        constant = [here.matters_outside([t]) for t in found]
        moving = bool(MODES.bits & GRAD) and any(requires_grad_of(t) for t in given)
        if not moving and not any(constant):
            return [detached(t) for t in _filled(found, op.like(self))]
        stand_in = zeros_for(given[0]._m)
        stand_in._rg = any(constant)
        wanted = [c or (moving and t is not None) for c, t in zip(constant, found)]
        return op.apply(self, op, wanted, stand_in, *given)

    def along(self, tangents: Sequence[Tensor]) -> tuple[Level, list[Any]]:
        """The derivatives along tangents, None where there are none, and the level they were found in."""
        here = self._here()
        with recording(level=here):
            return here, transposed_twice(here, self.outs, self.inputs, tangents)

    def back(self, gs: Sequence[Tensor]) -> tuple[Level, Sequence[Any]]:
        """The same of the gradients of the primals for those of the results."""
        at = [i for i, t in enumerate(self.outs) if requires_grad_of(t)]
        here = self._here()
        with recording(level=here):
            return here, autograd_grad(
                [self.outs[i] for i in at], self.inputs, [gs[i] for i in at], create_graph=True, allow_unused=True
            )

    def _here(self) -> Level:
        here = Level()
        here.own, here.kept = set(self.level.own), list(self.level.kept)
        return here

    def _check(self, given: Sequence[Any], spec: Any) -> None:
        if spec != self.in_spec:
            raise RuntimeError(
                f"Expected the tangents {spec!r} to have the same argspec as the primals {self.in_spec!r}"
            )
        for i, (p, t) in enumerate(zip(self.primals, given)):
            for what, got, want in (("shape", t._m.size, p._m.size), ("dtype", t._m.dtype, p._m.dtype)):
                if got != want:
                    raise RuntimeError(
                        f"tangent:{i} with {what} {got} in flattened pytree doesn't match the {what} {want} of the "
                        "corresponding primal."
                    )


def _matters_beyond(level: Level | None, t: Any) -> bool:
    return level is None or level.matters_outside([t])


def _copied(t: Any) -> Any:
    return t.detach().clone() if isinstance(t, Tensor) else t


def _filled(found: Sequence[Any], like: Sequence[Tensor]) -> list[Tensor]:
    """Derivatives with zeros where there are none."""
    return [zeros_for(t._m) if s is None else s for t, s in zip(like, found)]


class _Linear(AutogradFunction):
    """A linear function of vectors; a number that requires grad stands for the constants in it."""

    @staticmethod
    def forward(there: _Linearized, op: Any, wanted: list[bool], constant: Tensor, *given: Tensor) -> Any:
        found = op.of(there, [detached(t) for t in given])[1]
        return tuple(detached(t) for t in _filled(found, op.like(there)))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.there, ctx.op = inputs[:2]
        ctx.mark_non_differentiable(*[t for t, w in zip(output, inputs[2]) if not w])

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        return (None, None, None, None, *ctx.there.linear(ctx.op.transposed(), gs))


class _Push(_Linear):
    """Derivatives along tangents."""

    of = _Linearized.along

    @staticmethod
    def like(there: _Linearized) -> Sequence[Tensor]:
        return there.outs

    @staticmethod
    def transposed() -> Any:
        return _Pull


class _Pull(_Linear):
    """Gradients of the primals."""

    of = _Linearized.back

    @staticmethod
    def like(there: _Linearized) -> Sequence[Tensor]:
        return there.inputs

    @staticmethod
    def transposed() -> Any:
        return _Push
