"""Which values parameters and samples may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import cat as _join, linalg as _linalg, stack as _pile

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A region; `check` tells which values are inside of it, over the last `event_dim` dimensions."""

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Return whether each value is inside."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.__class__.__name__[1:] + "()"


def _known(value: Any, name: str) -> Any:
    if value is NotImplemented:
        raise NotImplementedError(f".{name} cannot be determined statically")
    return value


class _Dependent(Constraint):
    """Depends on other parameters, which have to be there first."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> Any:
        return _known(self._is_discrete, "is_discrete")

    @property
    def event_dim(self) -> Any:
        return _known(self._event_dim, "event_dim")

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> Any:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, x: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Return whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint; on the class itself it is a dependent one."""

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> Any:
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def _must_be_constraint(value: Any) -> None:
    if not isinstance(value, Constraint):
        raise AssertionError(f"base_constraint must be a Constraint, got {type(value).__name__}")


def _flat_all(result: Any, keep: int) -> Any:
    return result.reshape((*result.shape[:keep], -1)).all(-1)


class _IndependentConstraint(Constraint):
    """Holds for an event if it holds for each of its elements."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        _must_be_constraint(base_constraint)
        n = reinterpreted_batch_ndims
        if not isinstance(n, int):
            kind = type(n).__name__
            raise AssertionError(f"reinterpreted_batch_ndims must be an int, got {kind}")
        if n < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be >= 0, got {n}")
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, n

    @property
    def is_discrete(self) -> Any:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _flat_all(result, result.dim() - self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        name = self.__class__.__name__[1:]
        return f"{name}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Holds for a mixture's value if it holds for it in every component."""

    def __init__(self, base_constraint: Any) -> None:
        _must_be_constraint(base_constraint)
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> Any:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _flat_all(result, value.dim() - self.event_dim)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value: Any) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _Bounded(Constraint):
    """Has a lower or an upper bound, or both, which its repr shows."""

    def __repr__(self) -> str:
        bounds = (f"{n}={v}" for n, v in vars(self).items() if n in ("lower_bound", "upper_bound"))
        return f"{self.__class__.__name__[1:]}({', '.join(bounds)})"


class _IntegerInterval(_Bounded):
    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Bounded):
    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value  # NaN is not


class _GreaterThan(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class _LessThan(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Any) -> Any:
        return (x >= 0).all(dim=-1) & (x.sum(dim=-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return _flat_all(value.tril() == value, value.dim() - 2)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Any) -> Any:
        from .. import finfo

        # Products and sums of rows leave an error that grows with their length.
        tol = finfo(value.dtype).eps * value.size(-1) * 10
        unit = (_linalg.norm(value.detach(), dim=-1) - 1).abs().le(tol).all(dim=-1)
        return super().check(value) & unit


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return value.new_full(value.shape[:-2], _is_square(value), dtype=_bool())


def _is_square(value: Any) -> bool:
    return value.shape[-2] == value.shape[-1]


def _bool() -> Any:
    from .. import bool as dtype

    return dtype


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        from .. import isclose

        square = super().check(value)
        return isclose(value, value.mT, atol=1e-6).all(-2).all(-1) if _is_square(value) else square


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        return symmetric & _linalg.eigvalsh(value).ge(0).all(-1) if _is_square(value) else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        return symmetric & _linalg.cholesky_ex(value).info.eq(0) if _is_square(value) else symmetric


class _Several(Constraint):
    """Different constraints for the parts of a value along `dim`."""

    dim: int

    def _keep(self, cseq: Sequence[Any]) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq = list(cseq)

    @property
    def is_discrete(self) -> Any:
        return any(c.is_discrete for c in self.cseq)

    def _in_range(self, value: Any) -> None:
        n = value.dim()
        if not -n <= self.dim < n:
            raise AssertionError(f"dim {self.dim} out of range for value with {n} dimensions")


class _Cat(_Several):
    def __init__(self, cseq: Sequence[Any], dim: int = 0, lengths: Any = None) -> None:
        self._keep(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            counts = f"({len(self.lengths)}) must match cseq ({len(self.cseq)})"
            raise AssertionError(f"lengths {counts}")
        self.dim = dim

    @property
    def event_dim(self) -> Any:
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Any) -> Any:
        self._in_range(value)
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        parts = (value.narrow(self.dim, *at) for at in zip(starts, self.lengths))
        return _join([c.check(part) for c, part in zip(self.cseq, parts)], self.dim)


class _Stack(_Several):
    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        self._keep(cseq)
        self.dim = dim

    @property
    def event_dim(self) -> Any:
        n = max(c.event_dim for c in self.cseq)
        return n + 1 if self.dim + n < 0 else n

    def check(self, value: Any) -> Any:
        self._in_range(value)
        parts = value.unbind(self.dim)
        return _pile([c.check(part) for c, part in zip(self.cseq, parts)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean, one_hot = _Boolean(), _OneHot()
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
integer_interval, multinomial = _IntegerInterval, _Multinomial
real = _Real()
real_vector = independent(real, 1)
positive, nonnegative = _GreaterThan(0.0), _GreaterThanEq(0.0)
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval = _Interval, _HalfOpenInterval
unit_interval = _Interval(0.0, 1.0)
simplex = _Simplex()
lower_triangular, lower_cholesky, corr_cholesky = (_LowerTriangular(), _LowerCholesky(), _CorrCholesky())
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
cat, stack = _Cat, _Stack
