"""What all distributions have."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import Size, Tensor, _is_all_true, no_grad, tensor
from .._bridge.compile.watch.observer import looks_at_parts
from .._core.errors import warn
from .._core.errors.checks import fail_if, is_traced
from .._core.state import MODES
from .._engine.graph.deferred import later
from . import constraints
from .utils import SCALAR, lazy_property

__all__ = ["Distribution"]

_LIMIT = object()
"""Stands in the outline of a constraint for a bound whose value is not known yet."""


def _with_limits(constraint: Any, value_of: Callable[[Any], Any]) -> Any:
    """The same constraint with other bounds in place of those that are tensors or stand for some."""
    made = copy.copy(constraint)
    for name, v in list(vars(constraint).items()):
        if v is _LIMIT or isinstance(v, Tensor):
            setattr(made, name, value_of(v))
        elif isinstance(v, constraints.Constraint):
            setattr(made, name, _with_limits(v, value_of))
    return made


def require(valid: Tensor, values: Sequence[Tensor], error: Callable[..., Exception]) -> None:
    """Raise `error(*values)` unless all of `valid` is true; in compiled functions and loops, once they run."""

    def check(arrays: Any) -> None:
        holds, *there = arrays
        fail_if(~holds.all(), lambda: error(*map(tensor, there)))

    if _is_checked_later():
        later([valid, *values], check)
    elif not _is_all_true(valid):
        raise error(*values)


def validate(valid: Tensor, values: Sequence[Tensor], error: Callable[..., Exception]) -> None:
    """`require` for parameters: code that JAX's own transforms trace checks nothing that depends on values."""
    if _is_checked_later() or not _is_traced(valid):
        require(valid, values, error)


def _is_checked_later() -> bool:
    """Return whether code is being traced whose checks become part of what is traced."""
    return any(run.may_check_later for run in MODES.runs)


def _is_traced(valid: Any) -> bool:
    return isinstance(valid, Tensor) and MODES.run.batch is None and is_traced(valid._st.array)


class Distribution:
    """A probability distribution: batches of it, and events that it gives.

    Args:
        batch_shape: the shape of a batch of distributions with parameters of their own.
        event_shape: the shape of one sample of one of them.
        validate_args: whether parameters and values are checked; the default is to.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__
    _batch_shape: Any
    _event_shape: Any

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Choose whether distributions check by default."""
        if value not in [True, False]:
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = SCALAR, event_shape: Any = SCALAR, validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = batch_shape, event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()  # there may be other base classes

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            wanted = {}
            self._undefined("arg_constraints", "Please set `arg_constraints = {}` or initialize")
        for name, constraint in wanted.items():
            unset = name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property)
            if constraints.is_dependent(constraint) or unset:
                continue
            value = getattr(self, name)
            self._require(
                constraint,
                value,
                f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                "{0} to satisfy the constraint {1}, but found invalid values:\n{2}",
            )

    def _require(self, constraint: Any, value: Tensor, text: str) -> None:
        """Raise unless the constraint holds; `text` takes the distribution, the constraint and the value."""
        valid = constraint.check(value)
        if _is_checked_later():
            self._require_later(constraint, value, valid, text)
        elif not _is_traced(valid) and not _is_all_true(valid):
            raise ValueError(text.format(repr(self), repr(constraint), value))

    def _require_later(self, constraint: Any, value: Tensor, valid: Any, text: str) -> None:
        """The same in a compiled function or a loop, where the values are not there yet."""
        mine = {k: v for k, v in self.__dict__.items() if isinstance(v, Tensor)}
        kind = type(self)
        limits: list[Tensor] = []
        outline = _with_limits(constraint, lambda v: limits.append(v) or _LIMIT)

        names = list(mine)

        def error(given: Tensor, *values: Tensor) -> Exception:
            rest = iter(values)
            there = _with_limits(outline, lambda _: next(rest))
            shown = object.__new__(kind)
            shown.__dict__.update(zip(names, rest))
            return ValueError(text.format(repr(shown), repr(there), given))

        require(valid, [value, *limits, *mine.values()], error)

    def _undefined(self, name: str, advice: str) -> None:
        what = f"`{name}`" + (" to enable sample validation" if name == "support" else "")
        warn.to_user(
            f"{self.__class__} does not define {what}. {advice} the distribution with `validate_args=False` "
            "to turn off validation."
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch."""
        raise NotImplementedError

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample."""
        return self._event_shape

    if TYPE_CHECKING:  # subclasses have them as attributes or as properties
        arg_constraints: Any
        support: Any
    else:

        @property
        def arg_constraints(self) -> Any:
            """What each parameter has to satisfy."""
            raise NotImplementedError

        @property
        def support(self) -> Any:
            """What samples satisfy."""
            raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = SCALAR) -> Any:
        """Samples without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = SCALAR) -> Any:
        """Samples that the parameters get gradients through."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """Deprecated: ``sample((n,))``."""
        warn.to_user("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning)
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or probability, of a value."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of nothing larger than a value."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """Inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values that samples can have."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = SCALAR) -> Size:
        if not isinstance(sample_shape, Size):
            sample_shape = Size(sample_shape)
        return Size(sample_shape + self._batch_shape + self._event_shape)

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape: Any = value.shape
        n = len(self._event_shape)
        if shape[len(shape) - n :] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {self._event_shape}.")
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(shape), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            self._undefined("support", "Please initialize")
            return
        if support is None:
            raise AssertionError("support is unexpectedly None")
        self._require(
            support,
            value,
            f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within the support "
            "({1}) of the distribution {0}, but found invalid values:\n{2}",
        )

    def _checked(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ method must "
                "also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _expanded(
        self,
        cls: Any,
        batch_shape: Any,
        instance: Any,
        names: tuple[str, ...],
        event: tuple[str, ...] = (),
        **others: Any,
    ) -> Any:
        """A copy with those parameters that are there expanded; those of `event` keep their own last dimensions.

        `others` are what else it has: a subclass may read them in what the initializer calls or assigns.
        """
        new = self._get_checked_instance(cls, instance)
        batch, depth = Size(batch_shape), len(self._batch_shape)
        for name in (*names, *event):
            if name in self.__dict__:
                old = self.__dict__[name]
                inner = tuple(old.shape[depth:]) if name in event else ()
                new.__dict__[name] = old.expand((*batch, *inner))
        for name, value in others.items():
            setattr(new, name, value)
        Distribution.__init__(new, batch, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __repr__(self) -> str:
        parts = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                parts.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{self.__class__.__name__}({', '.join(parts)})"


looks_at_parts(Distribution.__init__, lambda given: [(type(given["self"]), {}, "_validate_args")])
