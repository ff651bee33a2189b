"""Discrete distributions."""

from __future__ import annotations

from typing import Any

from .. import (
    Size,
    arange,
    bernoulli,
    binomial,
    eye,
    finfo,
    lgamma,
    multinomial,
    nan,
    nn,
    no_grad,
    poisson,
    xlogy,
    zeros_like,
)  # fmt: skip
from . import constraints
from .distribution import Distribution, broadcast_all, clamp_probs, lazy_property

_F = nn.functional


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of log odds, or of unnormalised logarithms."""
    return logits.sigmoid() if is_binary else _F.softmax(logits, dim=-1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Inverse of `logits_to_probs`."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def _one_of(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class _Binary(Distribution):
    """Given by probabilities or by log odds of one outcome."""

    has_enumerate_support = True
    _values: Any = None

    def _set(self, probs: Any, logits: Any) -> Any:
        _one_of(probs, logits)
        name = "probs" if probs is not None else "logits"
        (value,) = broadcast_all(probs if probs is not None else logits)
        self.__dict__[name] = value
        self._param = value
        return value

    @lazy_property
    def logits(self) -> Any:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Size:
        """The shape of what was given."""
        return self._param.size()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(batch_shape, _instance, ("probs", "logits", "total_count"))
        new._param = self._param.expand(Size(batch_shape))
        return new


class Bernoulli(_Binary):
    """1 with probability `probs`, and 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        shape = self._set(probs, logits).shape
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = nan
        return mode

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -_F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return _F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        values = arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))  # type: ignore[attr-defined]
        return values.expand((-1, *self._batch_shape)) if expand else values


class Geometric(_Binary):
    """Failures before the first success."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    has_enumerate_support = False

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        shape = self._set(probs, logits).shape
        super().__init__(shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(
                f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution {self!r} to be "
                f"positive but found invalid values:\n{self.probs[self.probs <= 0]}"
            )

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        p: Any = self.probs
        with no_grad():
            u: Any = p.new(self._extended_shape(sample_shape)).uniform_(finfo(p.dtype).tiny, 1)
            return (u.log() / (-p).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone()
        probs[(probs == 1) & (value == 0)] = 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        p: Any = self.probs
        return _F.binary_cross_entropy_with_logits(self.logits, p, reduction="none") / p


class Binomial(_Binary):
    """Successes among `total_count` trials."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real
    }  # fmt: skip
    total_count: Any

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        _one_of(probs, logits)
        name = "probs" if probs is not None else "logits"
        count, value = broadcast_all(total_count, probs if probs is not None else logits)
        self.total_count = count.type_as(value)
        self.__dict__[name] = self._param = value
        super().__init__(value.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        n, logits = self.total_count, self.logits
        ways = lgamma(n + 1) - lgamma(value + 1) - lgamma(n - value + 1)
        above = (
            logits.clamp(min=0) + logits - logits.clamp(max=0)
        ) / 2  # max(logits, 0), with half its slope at 0
        rest = n * above + n * (-logits.abs()).exp().log1p()
        return value * logits + ways - rest

    def enumerate_support(self, expand: bool = True) -> Any:
        n = int(self.total_count.max())
        if not self.total_count.min() == n:
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        values: Any = arange(1 + n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def entropy(self) -> Any:
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)


class Poisson(Distribution):
    """Events in a unit of time, `rate` on average."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Any

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, ("rate",))

    @property
    def mean(self) -> Any:
        return self.rate

    variance = mean

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        rate, value = broadcast_all(self.rate, value)
        return xlogy(value, rate) - rate - lgamma(value + 1)


class Categorical(Distribution):
    """An index, with probabilities proportional to `probs`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        _one_of(probs, logits)
        given = probs if probs is not None else logits
        if given.dim() < 1:
            name = "probs" if probs is not None else "logits"
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.__dict__["probs"] = self._param = probs / probs.sum(-1, keepdim=True)
        else:
            self.__dict__["logits"] = self._param = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = given.size(-1)
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(batch_shape, _instance, (), ("probs", "logits"))
        new._param = new.__dict__.get("probs", new.__dict__.get("logits"))
        new._num_events = self._num_events
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """The shape of what was given."""
        return self._param.size()

    @property
    def mean(self) -> Any:
        return self._param.new_full(self._batch_shape, nan)

    variance = mean

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        sample_shape = Size(sample_shape)
        flat = self.probs.reshape(-1, self._num_events)
        drawn: Any = multinomial(flat, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        index = value.long().unsqueeze(-1)
        shape = _joined(index.shape[:-1], self.logits.shape[:-1])
        logits = self.logits.expand((*shape, self._num_events))
        return logits.gather(-1, index.expand((*shape, 1))).squeeze(-1)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values: Any = arange(self._num_events, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


def _joined(a: Any, b: Any) -> tuple[int, ...]:
    from .. import broadcast_shapes

    return tuple(broadcast_shapes(tuple(a), tuple(b)))


class OneHotCategorical(Distribution):
    """A vector with a single 1, at an index drawn as by `Categorical`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        super().__init__(
            self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=False
        )
        if validate_args is not None:
            self._validate_args = validate_args
        else:
            self._validate_args = Distribution._validate_args

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(batch_shape, _instance, ())
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return _F.one_hot(self.probs.argmax(dim=-1), self._event_shape[0]).to(self.probs)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    @property
    def param_shape(self) -> Size:
        """The shape of what was given."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Any = ()) -> Any:
        index = self._categorical.sample(sample_shape)
        return _F.one_hot(index, self._event_shape[0]).to(self.probs)

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self._event_shape[0]
        values: Any = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with the gradient of the probabilities passed straight through the sample."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Distribution):
    """How often each index is drawn in `total_count` draws."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits, validate_args=validate_args)
        super().__init__(
            self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=False
        )
        self._validate_args = (
            Distribution._validate_args if validate_args is None else validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(batch_shape, _instance, ())
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        index = self._categorical.sample((self.total_count, *sample_shape))
        return _F.one_hot(index, self._event_shape[0]).sum(0).type_as(self.probs)

    def entropy(self) -> Any:
        """That of single draws, less what is not known of their order."""
        n = self.probs.new_tensor(float(self.total_count))
        each = Binomial(self.total_count, probs=self.probs, validate_args=False)
        counts = each.enumerate_support(False)[1:]
        orders = (each.log_prob(counts).exp() * lgamma(counts + 1)).sum((0, -1))
        return n * self._categorical.entropy() - lgamma(n + 1) + orders

    def log_prob(self, value: Any) -> Any:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone()
        logits[(value == 0) & (logits == -float("inf"))] = 0
        ways = lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)
