"""Divergences in closed form.

Where the families differ, a divergence is put together from the entropy of p and the mean of ``-log q(x)``
over samples of p, which needs a few moments of p only.
"""

from __future__ import annotations

import math
from typing import Any

from .. import autograd, full_like, inf, linalg, nn, where
from ._kl_registry import kl_divergence, register_kl
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .distribution import require
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal, _batch_lowrank_logdet, _batch_lowrank_mahalanobis
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis, _half_log_det
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant

_softplus = nn.functional.softplus
_LOG_2PI = math.log(2 * math.pi)


def _infinite_where(condition: Any, x: Any) -> Any:
    return where(condition, inf, x)


# --- one family -----------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """The Bregman divergence of the log normalizers."""
    if type(p) is not type(q):
        gap = " " * 28
        raise NotImplementedError(
            f"The cross KL-divergence between different exponential families cannot {gap}"
            "be computed using Bregman divergences"
        )
    params = [v.detach().requires_grad_() for v in p._natural_params]
    log_normal = p._log_normalizer(*params)
    slopes = autograd.grad(log_normal.sum(), params, create_graph=True)
    out = q._log_normalizer(*q._natural_params) - log_normal
    for mine, theirs, g in zip(params, q._natural_params, slopes):
        out -= _sum_rightmost((theirs - mine) * g, len(q.event_shape))
    return out


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    one = p.probs * (_softplus(-q.logits) - _softplus(-p.logits))
    zero = (1 - p.probs) * (_softplus(q.logits) - _softplus(p.logits))
    one = where(p.probs == 0, 0, _infinite_where(q.probs == 0, one))
    zero = where(p.probs == 1, 0, _infinite_where(q.probs == 1, zero))
    return one + zero


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    text = "KL between Binomials where q.total_count > p.total_count is not implemented"
    require(p.total_count >= q.total_count, [], lambda: NotImplementedError(text))
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return _infinite_where(p.total_count > q.total_count, p.total_count * each)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    t = p.probs * (p.logits - q.logits)
    return where(p.probs == 0, 0, _infinite_where(q.probs == 0, t)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    norms = a.sum(-1).lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - a.sum(-1).digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    rates = b * (p.rate / q.rate).log() + (q.rate - p.rate) * (a / p.rate)
    return rates + b.lgamma() - a.lgamma() + (a - b) * a.digamma()


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    both = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return both.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, apart = p.scale / q.scale, q.loc / q.scale - p.loc / q.scale
    tail = (apart + (1 + ratio).lgamma()).exp()
    return -ratio.log() - apart + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    out = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _infinite_where(p.support.lower_bound < q.support.lower_bound, out)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    out = ((q.high - q.low) / (p.high - p.low)).log()
    return _infinite_where((q.low > p.low) | (q.high < p.high), out)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    mine, theirs = (d._cont_bern_log_norm() + (-d.probs).log1p() for d in (p, q))
    return p.mean * (p.logits - q.logits) + mine - theirs


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# --- normal vectors -------------------------------------------------------------------------------


def _squares(x: Any) -> Any:
    return x.pow(2).sum((-2, -1))


def _log_det(d: Any) -> Any:
    if isinstance(d, MultivariateNormal):
        return 2 * _half_log_det(d._unbroadcasted_scale_tril)
    w, diagonal = d._parts
    return _batch_lowrank_logdet(w, diagonal, d._capacitance_tril)


def _distance(q: Any, x: Any) -> Any:
    if isinstance(q, MultivariateNormal):
        return _batch_mahalanobis(q._unbroadcasted_scale_tril, x)
    w, diagonal = q._parts
    return _batch_lowrank_mahalanobis(w, diagonal, x, q._capacitance_tril)


def _roots(p: Any) -> list[Any]:
    """Matrices whose outer squares add up to the covariance."""
    if isinstance(p, MultivariateNormal):
        return [p._unbroadcasted_scale_tril]
    w, d = p._parts
    return [w, d.sqrt().diag_embed()]


def _trace(q: Any, p: Any) -> Any:
    """The trace of the covariance of p after the inverse of that of q."""
    if isinstance(q, MultivariateNormal):
        factor = q._unbroadcasted_scale_tril
        return sum(_squares(linalg.solve_triangular(*_expanded(factor, r), upper=False)) for r in _roots(p))
    w, d = q._parts
    a = linalg.solve_triangular(q._capacitance_tril, w.mT / d.unsqueeze(-2), upper=False)
    roots = _roots(p)
    return sum(_squares(r * d.rsqrt().unsqueeze(-1)) - _squares(a @ r) for r in roots)


def _expanded(factor: Any, root: Any) -> tuple[Any, Any]:
    from .. import broadcast_shapes

    batch = broadcast_shapes(factor.shape[:-2], root.shape[:-2])
    return tuple(m.expand((*batch, *m.shape[-2:])) for m in (factor, root))


def _normal_vectors(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        kinds = {(True, True): "Multivariate Normals", (False, False): "Low Rank Multivariate Normals"}.get(
            tuple(isinstance(d, MultivariateNormal) for d in (p, q)),  # type: ignore[arg-type]
            "(Low Rank) Multivariate Normals",
        )
        gap = " " * 26
        raise ValueError(f"KL-divergence between two {kinds} with{gap}different event shapes cannot be computed")
    logs = _log_det(q) - _log_det(p)
    return 0.5 * (logs + _trace(q, p) + _distance(q, q.loc - p.loc) - p.event_shape[0])


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    for _q in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_p, _q)(_normal_vectors)


# --- two families ---------------------------------------------------------------------------------


def _x_log_x(x: Any) -> Any:
    return x.xlogy(x)  # 0 at 0


def _mean_log(p: Any) -> Any:
    """The mean of log(x)."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1


def _mean_exp(p: Any, scale: Any, loc: Any) -> Any:
    """The mean of exp((loc - x) / scale)."""
    if isinstance(p, Uniform):
        ends = ((loc - x) / scale for x in (p.low, p.high))
        low, high = (e.exp() for e in ends)
        return scale / (p.high - p.low) * (low - high)
    if isinstance(p, Normal):
        return ((loc - p.loc) / scale + 0.5 * (p.scale / scale).pow(2)).exp()
    a = p.concentration if isinstance(p, Gamma) else 1
    return (loc / scale).exp() * (1 + (p.rate * scale).reciprocal()) ** -a


def _cross_exponential(p: Any, q: Any) -> Any:
    return -q.rate.log() + q.rate * p.mean


def _cross_gamma(p: Any, q: Any) -> Any:
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return norm - (q.concentration - 1) * _mean_log(p) + q.rate * p.mean


def _cross_normal(p: Any, q: Any) -> Any:
    square = p.variance + (p.mean - q.loc).pow(2)
    return q.scale.log() + 0.5 * _LOG_2PI + square / (2 * q.scale.pow(2))


def _cross_gumbel(p: Any, q: Any) -> Any:
    return q.scale.log() + (p.mean - q.loc) / q.scale + _mean_exp(p, q.scale, q.loc)


def _cross_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


def _cross_beta(p: Any, q: Any) -> Any:
    """For uniform p."""
    width = p.high - p.low
    rest = (_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / width - 1
    a, b = q.concentration1, q.concentration0
    return a.lgamma() + b.lgamma() - (a + b).lgamma() - (a - 1) * _mean_log(p) - (b - 1) * rest


def _cross_pareto(p: Any, q: Any) -> Any:
    return -q.alpha.log() - q.alpha * q.scale.log() + (q.alpha + 1) * _mean_log(p)


def _cross_laplace(p: Any, q: Any) -> Any:
    """For normal p."""
    d = p.loc - q.loc
    peak = math.sqrt(2 / math.pi) * p.scale * (-0.5 * (d / p.scale).pow(2)).exp()
    return (2 * q.scale).log() + (peak + d * (d / p.scale / math.sqrt(2)).erf()) / q.scale


def _cross_uniform(p: Any, q: Any) -> Any:
    return (q.high - q.low).log()


_CROSS = {
    Exponential: _cross_exponential,
    Gamma: _cross_gamma,
    Normal: _cross_normal,
    Gumbel: _cross_gumbel,
    ContinuousBernoulli: _cross_continuous_bernoulli,
    Beta: _cross_beta,
    Pareto: _cross_pareto,
    Laplace: _cross_laplace,
    Uniform: _cross_uniform,
}


def _never(p: Any, q: Any) -> Any:
    return None


def _below(p: Any, q: Any) -> Any:
    return p.low < q.support.lower_bound


def _outside(p: Any, q: Any) -> Any:
    return (p.low < q.support.lower_bound) | (p.high > q.support.upper_bound)


def _narrower(p: Any, q: Any) -> Any:
    return (q.low > p.support.lower_bound) | (q.high < p.support.upper_bound)


def _touching(p: Any, q: Any) -> Any:
    """As torch has it between uniform and continuous Bernoulli: the same support is outside already."""
    if isinstance(q, Uniform):
        return (q.low >= p.support.lower_bound) | (q.high <= p.support.upper_bound)
    return (p.high >= q.support.upper_bound) | (p.low <= q.support.lower_bound)


def _heavy(power: int) -> Any:
    return lambda p, q: p.alpha <= power


# Pairs of families, and where p has values that q cannot have, or no finite mean.
_PAIRS = (
    (Beta, ContinuousBernoulli, _never), (Beta, Exponential, _never), (Beta, Gamma, _never), (Beta, Normal, _never),
    (Beta, Uniform, _narrower), (ContinuousBernoulli, Exponential, _never), (ContinuousBernoulli, Normal, _never),
    (ContinuousBernoulli, Uniform, _touching), (Exponential, Gamma, _never), (Exponential, Gumbel, _never),
    (Exponential, Normal, _never), (Gamma, Exponential, _never), (Gamma, Gumbel, _never), (Gamma, Normal, _never),
    (Gumbel, Normal, _never), (Laplace, Normal, _never), (Normal, Gumbel, _never), (Normal, Laplace, _never),
    (Pareto, Exponential, _heavy(1)), (Pareto, Gamma, _heavy(1)), (Pareto, Normal, _heavy(2)),
    (Uniform, Beta, _outside), (Uniform, ContinuousBernoulli, _touching), (Uniform, Exponential, _below),
    (Uniform, Gamma, _below), (Uniform, Gumbel, _never), (Uniform, Normal, _never), (Uniform, Pareto, _below),
)  # fmt: skip


def _pair(cross: Any, impossible: Any) -> Any:
    def rule(p: Any, q: Any) -> Any:
        out = cross(p, q) - p.entropy()
        bad = impossible(p, q)
        return out if bad is None else _infinite_where(bad, out)

    return rule


for _p, _q, _impossible in _PAIRS:
    register_kl(_p, _q)(_pair(_CROSS[_q], _impossible))


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


# --- no common support ----------------------------------------------------------------------------

_BOUNDED = (Beta, ContinuousBernoulli, Pareto, Uniform)
_POSITIVE = (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)


def _infinite(name: str) -> Any:
    return lambda p, q: full_like(getattr(p, name), inf)


for _p, _name, _those in (
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", _BOUNDED),
    (Gamma, "concentration", _BOUNDED),
    (Gumbel, "loc", _POSITIVE),
    (Laplace, "loc", _POSITIVE),
    (Normal, "loc", _POSITIVE),
    (Pareto, "scale", (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, "rate", (Bernoulli, Binomial)),
):
    for _q in _those:
        register_kl(_p, _q)(_infinite(_name))
