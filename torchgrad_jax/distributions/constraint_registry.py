"""Transforms from all real numbers to what a constraint allows.

`biject_to(constraint)` gives one that has an inverse, `transform_to(constraint)` one that is easy to optimise
through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Makes transforms for constraints, by the constraint's class."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Declare what makes the transform of a class of constraints; also as a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {kind}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints") from None
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _interval(c: Any) -> Any:
    ends = (c.lower_bound, c.upper_bound)
    if all(isinstance(v, int | float) for v in ends) and ends == (0, 1):
        return transforms.SigmoidTransform()
    width = c.upper_bound - c.lower_bound
    affine = transforms.AffineTransform(c.lower_bound, width)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), affine])


def _beyond(bound: Any, sign: int) -> Any:
    parts = [transforms.ExpTransform(), transforms.AffineTransform(bound, sign)]
    return transforms.ComposeTransform(parts)


for _registry in (biject_to, transform_to):
    for _kinds, _factory in (
        ((constraints.real,), lambda c: transforms.identity_transform),
        ((constraints.positive, constraints.nonnegative), lambda c: transforms.ExpTransform()),
        ((constraints.greater_than, constraints.greater_than_eq), lambda c: _beyond(c.lower_bound, 1)),
        ((constraints.less_than,), lambda c: _beyond(c.upper_bound, -1)),
        ((constraints.interval, constraints.half_open_interval), _interval),
        ((constraints.corr_cholesky,), lambda c: transforms.CorrCholeskyTransform()),
        (
            (constraints.independent,),
            lambda c, of=_registry: transforms.IndependentTransform(of(c.base_constraint), c.reinterpreted_batch_ndims),
        ),
        (
            (constraints.cat,),
            lambda c, of=_registry: transforms.CatTransform([of(part) for part in c.cseq], c.dim, c.lengths),
        ),
        ((constraints.stack,), lambda c, of=_registry: transforms.StackTransform([of(part) for part in c.cseq], c.dim)),
    ):
        for _kind in _kinds:
            _registry.register(_kind, _factory)

biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda c: transforms.PositiveDefiniteTransform())
