"""Distributions: the same draws, densities, moments, gradients and divergences as torch."""

import importlib
import warnings

import pytest

from tests.engine.helpers import leaf, program
from tests.programs import attempt

from .families import COMMON, FAMILIES, numbers


def dist(m):
    return importlib.import_module(m.__name__ + ".distributions")


def kind(error):
    """Not implemented, or what went wrong."""
    return "NotImplementedError" if isinstance(error, NotImplementedError) else error


SINGLE = ("GeneralizedPareto",)
"""Families that torch has in single precision only."""


def look(name):
    def run(m):
        make, values = (FAMILIES | COMMON)[name]
        p = make(m, dist(m))
        value = m.tensor(values, dtype=m.float32 if name in (*SINGLE, *COMMON) else m.float64)
        larger = p.expand((3, *p.batch_shape))
        m.manual_seed(4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Wishart: "Singular sample detected."
            seen = [p.sample(), p.sample((3,)), p.sample(m.Size([2, 2])), larger.sample()]
            seen += [p.rsample((2,)) if p.has_rsample else None, m.rand(1)]
        seen += [repr(p), list(p.batch_shape), list(p.event_shape), p.has_rsample, str(p.support)]
        seen += [p.log_prob(value), larger.log_prob(value), type(p).__module__.rpartition(".")[2]]
        for f in (
            lambda: p.mean,
            lambda: p.variance,
            lambda: p.stddev,
            lambda: p.mode,
            lambda: p.entropy(),
            lambda: p.cdf(value),
            lambda: p.icdf(value),
            lambda: dist(m).kl_divergence(p, p),
            lambda: p.enumerate_support(),
        ):
            seen.append(kind(attempt(f)))
        return seen

    return program(name, run)


@pytest.mark.parametrize("name", FAMILIES | COMMON)
def test_looks(name, same):
    same(look(name))


THROUGH_SAMPLES = {
    "Gamma": ([0.5, 10.0], [1.0, 2.0]),
    "Beta": ([0.5, 3.0], [1.0, 2.0]),
    "Dirichlet": ([0.5, 1.0, 9.0],),
    "StudentT": ([1.5, 3.0], [0.0, 1.0], [1.0, 2.0]),
    "FisherSnedecor": ([1.5, 3.0], [3.0, 5.0]),
    "InverseGamma": ([1.5, 3.0], [1.0, 2.0]),
    "Kumaraswamy": ([0.5, 2.0], [1.0, 3.0]),
    "ContinuousBernoulli": ([0.3, 0.6],),
    "RelaxedBernoulli": ([0.5, 0.7], [0.1, 0.2]),
    "Weibull": ([0.5, 1.0], [1.0, 2.0]),
    "Pareto": ([0.5, 1.0], [1.0, 2.0]),
}


def slopes(name):
    def run(m):
        m.manual_seed(2)
        params = [m.tensor(p, dtype=m.float64, requires_grad=True) for p in THROUGH_SAMPLES[name]]
        p = getattr(dist(m), name)(*params)
        drawn = p.rsample((3,))
        weights = m.arange(1.0, drawn.numel() + 1, dtype=m.float64).view(drawn.shape)
        (drawn * weights).sum().backward()
        through = [q.grad.clone() for q in params]
        for q in params:
            q.grad = None
        p.log_prob(drawn.detach()).sum().backward()
        return drawn, drawn.grad_fn is not None, through, [q.grad for q in params]

    return program(f"slopes of {name}", run)


@pytest.mark.parametrize("name", THROUGH_SAMPLES)
def test_gradients(name, same):
    same(slopes(name))


def gradients_of_common_families(m):
    d = dist(m)
    m.manual_seed(1)
    loc, scale = leaf(m, 3), leaf(m, 3, start=0.5, stop=2.0)
    d.Normal(loc, scale).rsample((4,)).pow(2).sum().backward()
    logits = leaf(m, 2, 3)
    policy = d.Categorical(logits=logits)
    action = policy.sample()
    (-policy.log_prob(action) * m.tensor([1.0, -2.0]) - 0.01 * policy.entropy()).sum().backward()
    squashed = d.TransformedDistribution(d.Normal(loc, scale), d.TanhTransform(cache_size=1))
    x = squashed.rsample()
    squashed.log_prob(x).sum().backward()
    return [loc.grad, scale.grad, action, logits.grad]


def test_gradients_of_common_families(same):
    same(gradients_of_common_families)


def pairs(m):
    """Two of each family that has a rule with another."""
    d = dist(m)
    a, b = (m.tensor(v, dtype=m.float64) for v in ([0.2, 0.7], [0.5, 0.6]))
    one = m.ones(2, 1).double()
    return [
        d.Bernoulli(a), d.Beta(a, b), d.Binomial(3, a), d.Cauchy(a, b), d.ContinuousBernoulli(a), d.Dirichlet(a),
        d.Exponential(a), d.Gamma(a, b), d.Gumbel(a, b), d.HalfNormal(a), d.Laplace(a, b), d.Normal(a, b),
        d.Pareto(a, 2 * b + 1), d.Poisson(a), d.Uniform(a, a + 0.2), d.Uniform(0 * a, 1 + 0 * a),
        d.LowRankMultivariateNormal(a, one, b), d.MultivariateNormal(b, m.eye(2).double() * 2), d.Weibull(a, b),
        d.Beta(b + 1, a), d.Gamma(b + 1, a), d.Pareto(b, 5 * b), d.Normal(b, a), d.ContinuousBernoulli(b),
    ]  # fmt: skip


def divergences(m):
    d = dist(m)
    every = pairs(m)
    return [kind(attempt(lambda p=p, q=q: d.kl_divergence(p, q))) for p in every for q in every]


def divergences_of_common_families(m):
    d = dist(m)
    a, b = numbers(m, 0.2, 0.7), numbers(m, 0.5, 0.6)
    pairs = [
        (d.Categorical(a), d.Categorical(b)),
        (d.Geometric(a), d.Geometric(b)),
        (d.LogNormal(a, b), d.LogNormal(b, a)),
        (d.OneHotCategorical(a), d.OneHotCategorical(b)),
        (d.Categorical(a), d.Normal(a, b)),
        (d.Uniform(a, a + 1), d.Uniform(a - 1, a + 2)),
        (d.Binomial(3, a), d.Binomial(3, b)),
        (d.Independent(d.Normal(a, b), 1), d.Independent(d.Normal(b, a), 1)),
    ]
    return [kind(attempt(lambda p=p, q=q: d.kl_divergence(p, q))) for p, q in pairs]


def registered(m):
    kl = importlib.import_module(m.__name__ + ".distributions.kl")
    pairs = [pair for pair in kl._KL_REGISTRY if not any(c.__module__ == __name__ for c in pair)]
    return sorted((p.__name__, q.__name__) for p, q in pairs)


def new_rules(m):
    d = dist(m)

    class Mine(d.Normal):
        pass

    @d.register_kl(Mine, d.Normal)
    def first(p, q):
        return 1

    @d.register_kl(d.Normal, Mine)
    def second(p, q):
        return 2

    plain, mine = d.Normal(0.0, 1.0), Mine(0.0, 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        both = d.kl_divergence(mine, mine)
    said = [(w.category.__name__, str(w.message)) for w in caught]
    return d.kl_divergence(mine, plain), d.kl_divergence(plain, mine), both, said


@pytest.mark.parametrize(
    "program", [divergences, divergences_of_common_families, registered, new_rules], ids=lambda p: p.__name__
)
def test_divergences(program, same):
    same(program)


def refusals(m):
    d = dist(m)
    one = m.ones(2)

    class OwnArguments(d.Normal):
        def __init__(self, loc):
            super().__init__(loc, 1.0)

    return [
        attempt(f)
        for f in (
            lambda: d.Normal(0.0, -1.0),
            lambda: d.Normal(m.zeros(2), m.tensor([1.0, -1.0])),
            lambda: d.Bernoulli(),
            lambda: d.Bernoulli(1.5),
            lambda: d.Exponential(1.0).log_prob(m.tensor(-1.0)),
            lambda: d.Categorical(m.tensor(1.0)),
            lambda: d.Categorical(m.ones(3)).log_prob(m.tensor(3)),
            lambda: d.Normal(m.zeros(2), 1.0).log_prob(m.zeros(3)),
            lambda: d.Normal(0.0, 1.0).log_prob(0.5),
            lambda: d.Normal("a", 1.0),
            lambda: d.Normal(0.0, -1.0, validate_args=False).scale,
            lambda: d.Uniform(1.0, 0.0),
            lambda: d.MultivariateNormal(m.zeros(2), -m.eye(2)),
            lambda: d.Independent(d.Normal(0.0, 1.0), 1),
            lambda: d.Dirichlet(m.tensor(1.0)),
            lambda: d.Gamma(-1.0, 1.0),
            lambda: d.Beta(1.0, 1.0).log_prob(m.tensor(2.0)),
            lambda: d.Multinomial(m.tensor(3), one),
            lambda: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(one, 1.0)),
            lambda: d.MixtureSameFamily(d.Categorical(one), 3),
            lambda: d.MixtureSameFamily(d.Categorical(m.ones(2, 3)), d.Normal(m.ones(4, 3), 1.0)),
            lambda: d.LKJCholesky(1),
            lambda: d.Wishart(1.0, m.eye(3)),
            lambda: d.Wishart(4.0),
            lambda: d.LowRankMultivariateNormal(one, m.ones(3, 1), one),
            lambda: d.LowRankMultivariateNormal(m.ones(3, 2), m.ones(2, 2, 1), one),
            lambda: d.ContinuousBernoulli(1.5, validate_args=True),
            lambda: d.RelaxedBernoulli(m.tensor(1.0)),
            lambda: d.Binomial(m.tensor([1.0, 2.0]), one / 2).entropy(),
            lambda: d.Pareto(1.0, 1.0).log_prob(m.tensor(0.5)),
            lambda: d.MultivariateNormal(one, scale_tril=one),
            lambda: d.Distribution.set_default_validate_args(3),
            lambda: d.Distribution(validate_args=False).mode,
            lambda: OwnArguments(0.0).expand((2,)),
            lambda: d.Poisson(1.0).entropy(),
            lambda: d.Independent(d.Categorical(m.ones(2, 2)), 1).enumerate_support(),
        )
    ]


def test_refusals(same):
    same(refusals)
