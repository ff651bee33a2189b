"""The Kullback-Leibler divergence of pairs of distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import linalg
from .continuous import Exponential, Laplace, Normal, Uniform
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution
from .multivariate import Independent, MultivariateNormal, mahalanobis, sum_rightmost
from .transforms import LogNormal, TransformedDistribution

_RULES: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Declare a function of two distributions as their divergence."""
    for t in (type_p, type_q):
        if not (isinstance(t, type) and issubclass(t, Distribution)):
            raise TypeError(f"Expected type_p to be a Distribution subclass but got {t}")

    def declare(fn: Any) -> Any:
        _RULES[type_p, type_q] = fn
        return fn

    return declare


def _rule(p: type, q: type) -> Any:
    """The rule for the closest base classes."""
    fits = [k for k in _RULES if issubclass(p, k[0]) and issubclass(q, k[1])]
    best = min(fits, key=lambda k: (p.__mro__.index(k[0]), q.__mro__.index(k[1])), default=None)
    return None if best is None else _RULES[best]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """How much p differs from q, as q sees it.

    Raises:
        NotImplementedError: no rule for the two classes.
    """
    rule = _rule(type(p), type(q))
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return rule(p, q)


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if [type(t) for t in p.transforms] != [type(t) for t in q.transforms]:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    from .. import nn

    soft = nn.functional.softplus
    one = p.probs * (soft(-q.logits) - soft(-p.logits))
    zero = (1 - p.probs) * (soft(q.logits) - soft(p.logits))
    return _infinite(one, (q.probs == 0) & (p.probs > 0)) + _infinite(
        zero, (q.probs == 1) & (p.probs < 1)
    )


def _infinite(x: Any, where: Any) -> Any:
    return x.masked_fill(where, math.inf)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _infinite(kl, p.total_count > q.total_count)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    t = p.probs * (p.logits - q.logits)
    t = t.masked_fill((q.probs == 0).expand_as(t), math.inf)
    return t.masked_fill((p.probs == 0).expand_as(t), 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return _infinite(kl, (q.low > p.low) | (q.high < p.high))


@register_kl(Uniform, Normal)
def _uniform_normal(p: Any, q: Any) -> Any:
    width = p.high - p.low
    wide = (math.sqrt(math.pi * 2) * q.scale / width).log()
    middle = (p.high + p.low - 2 * q.loc) / 2
    return wide + 0.5 * (width.pow(2) / 12 + middle.pow(2)) / q.scale.pow(2)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    a, b = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    logs = b.diagonal(dim1=-2, dim2=-1).log().sum(-1) - a.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    traced = linalg.solve_triangular(b, a, upper=False).pow(2).sum((-2, -1))
    return logs + 0.5 * (traced + mahalanobis(b, q.loc - p.loc) - p.event_shape[0])


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
