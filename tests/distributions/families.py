"""One of each distribution: common ones in single precision, those with more involved draws in double precision."""

from __future__ import annotations

from typing import Any


def t(m: Any, *values: float) -> Any:
    return m.tensor(values, dtype=m.float64)


def numbers(m: Any, *values: float) -> Any:
    return m.tensor(values)


def square(m: Any) -> Any:
    return m.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=m.float64)


# Name, how to make it, a value inside.
FAMILIES: dict[str, tuple[Any, Any]] = {
    "Gamma": (lambda m, d: d.Gamma(t(m, 0.5, 3.0), t(m, 1.0, 2.0)), [0.3, 0.7]),
    "Beta": (lambda m, d: d.Beta(t(m, 0.5, 3.0), t(m, 1.0, 2.0)), [0.3, 0.7]),
    "Dirichlet": (lambda m, d: d.Dirichlet(t(m, 0.5, 3.0, 1.0)), [0.3, 0.5, 0.2]),
    "DirichletCorner": (lambda m, d: d.Dirichlet(t(m, 0.2, 0.9, 0.4)), [0.3, 0.5, 0.2]),
    "Chi2": (lambda m, d: d.Chi2(t(m, 0.5, 3.0)), [0.3, 0.7]),
    "StudentT": (lambda m, d: d.StudentT(t(m, 0.5, 1.5, 3.0), t(m, 1.0, 2.0, 0.0), 2.0), [0.3, 0.7, 0.1]),
    "FisherSnedecor": (lambda m, d: d.FisherSnedecor(t(m, 0.5, 3.0, 6.0), t(m, 1.0, 3.0, 7.0)), [0.3, 0.7, 0.1]),
    "InverseGamma": (lambda m, d: d.InverseGamma(t(m, 0.5, 3.0), t(m, 1.0, 2.0)), [0.3, 0.7]),
    "NegativeBinomial": (lambda m, d: d.NegativeBinomial(t(m, 0.5, 3.0), t(m, 0.3, 0.6)), [3.0, 7.0]),
    "NegativeBinomialLogits": (lambda m, d: d.NegativeBinomial(4, logits=t(m, 0.3, 0.6)), [3.0, 7.0]),
    "VonMises": (lambda m, d: d.VonMises(t(m, 0.5, 3.0, 0.0), t(m, 1.0, 20.0, 1e-6)), [0.3, 0.7, 0.0]),
    "LKJCholesky": (lambda m, d: d.LKJCholesky(2, t(m, 0.5, 2.0)), [[1.0, 0.0], [0.6, 0.8]]),
    "RelaxedBernoulli": (lambda m, d: d.RelaxedBernoulli(t(m, 0.5), t(m, 0.3, 0.6)), [0.3, 0.7]),
    "RelaxedOneHotCategorical": (
        lambda m, d: d.RelaxedOneHotCategorical(t(m, 0.5), logits=t(m, 0.3, 0.6, 0.1)),
        [0.3, 0.5, 0.2],
    ),
    "ContinuousBernoulli": (lambda m, d: d.ContinuousBernoulli(t(m, 0.3, 0.6, 0.5, 0.4995)), [0.3, 0.5, 0.2, 1.0]),
    "Pareto": (lambda m, d: d.Pareto(t(m, 0.5, 2.0), t(m, 1.5, 3.0)), [2.3, 3.7]),
    "Weibull": (lambda m, d: d.Weibull(t(m, 0.5, 2.0), t(m, 1.5, 3.0)), [2.3, 3.7]),
    "Kumaraswamy": (lambda m, d: d.Kumaraswamy(t(m, 0.5, 2.0), t(m, 1.5, 3.0)), [0.3, 0.7]),
    "LogisticNormal": (lambda m, d: d.LogisticNormal(t(m, 0.5, 2.0), t(m, 1.5, 3.0)), [0.3, 0.5, 0.2]),
    "GeneralizedPareto": (
        lambda m, d: d.GeneralizedPareto(  # torch compares its concentration with a float32 zero
            t(m, 0.5, 0.2, 0.0).float(), t(m, 1.5, 3.0, 1.0).float(), t(m, 0.5, 0.0, -0.3).float()
        ),
        [0.8, 0.7, 0.5],
    ),
    "LowRank": (
        lambda m, d: d.LowRankMultivariateNormal(t(m, 0.0, 1.0), t(m, 1.0, 0.5)[:, None], t(m, 1.0, 2.0)),
        [0.3, 0.7],
    ),
    "MultivariateNormal": (lambda m, d: d.MultivariateNormal(m.zeros(3, 2).double(), square(m)), [0.3, 0.7]),
    "Wishart": (lambda m, d: d.Wishart(t(m, 4.0), square(m)), [[2.0, 0.5], [0.5, 1.0]]),
    "Mixture": (
        lambda m, d: d.MixtureSameFamily(
            d.Categorical(m.ones(2, 3)), d.Independent(d.Normal(t(m, 1, 2, 3)[:, None] + t(m, 0, 1), 1.0), 1)
        ),
        [0.3, 0.7],
    ),
    "Gumbel": (lambda m, d: d.Gumbel(t(m, 0.5, -1.0), t(m, 1.0, 2.0)), [0.3, -0.7]),
    "HalfCauchy": (lambda m, d: d.HalfCauchy(t(m, 0.5, 2.0)), [0.3, 0.7]),
}

COMMON: dict[str, tuple[Any, Any]] = {
    "Normal": (lambda m, d: d.Normal(numbers(m, 0.5, -1.0), numbers(m, 1.0, 2.0)), [0.3, -0.7]),
    "Laplace": (lambda m, d: d.Laplace(numbers(m, 0.5, -1.0), numbers(m, 1.0, 2.0)), [0.3, -0.7]),
    "Cauchy": (lambda m, d: d.Cauchy(numbers(m, 0.5, -1.0), numbers(m, 1.0, 2.0)), [0.3, -0.7]),
    "Uniform": (lambda m, d: d.Uniform(numbers(m, 0.0, -1.0), numbers(m, 1.0, 2.0)), [0.3, 0.7]),
    "Exponential": (lambda m, d: d.Exponential(numbers(m, 0.5, 2.0)), [0.3, 0.7]),
    "HalfNormal": (lambda m, d: d.HalfNormal(numbers(m, 0.5, 2.0)), [0.3, 0.7]),
    "LogNormal": (lambda m, d: d.LogNormal(numbers(m, 0.5, -1.0), numbers(m, 1.0, 0.5)), [0.3, 0.7]),
    "Bernoulli": (lambda m, d: d.Bernoulli(numbers(m, 0.25, 0.9)), [1.0, 0.0]),
    "BernoulliLogits": (lambda m, d: d.Bernoulli(logits=numbers(m, 0.25, -2.0)), [1.0, 0.0]),
    "Geometric": (lambda m, d: d.Geometric(numbers(m, 0.25, 0.9)), [3.0, 0.0]),
    "Binomial": (lambda m, d: d.Binomial(5, numbers(m, 0.25, 0.9)), [3.0, 5.0]),
    "Poisson": (lambda m, d: d.Poisson(numbers(m, 0.5, 4.0)), [1.0, 3.0]),
    "Categorical": (lambda m, d: d.Categorical(m.tensor([[1.0, 2.0, 1.0], [0.2, 0.2, 0.6]])), [1.0, 2.0]),
    "CategoricalLogits": (lambda m, d: d.Categorical(logits=m.tensor([[1.0, 2.0, 1.0]])), [1.0, 2.0]),
    "OneHotCategorical": (lambda m, d: d.OneHotCategorical(m.tensor([1.0, 2.0, 1.0])), [0.0, 1.0, 0.0]),
    "Multinomial": (lambda m, d: d.Multinomial(4, m.tensor([1.0, 2.0, 1.0])), [1.0, 2.0, 1.0]),
    "Covariance": (
        lambda m, d: d.MultivariateNormal(numbers(m, 0.5, -1.0), m.tensor([[2.0, 0.5], [0.5, 1.0]])),
        [0.3, 0.7],
    ),
    "Precision": (
        lambda m, d: d.MultivariateNormal(numbers(m, 0.5, -1.0), precision_matrix=m.tensor([[2.0, 0.5], [0.5, 1.0]])),
        [0.3, 0.7],
    ),
    "Independent": (lambda m, d: d.Independent(d.Normal(m.zeros(3, 2), m.ones(2)), 1), [0.3, 0.7]),
    "MixtureOfNumbers": (
        lambda m, d: d.MixtureSameFamily(
            d.Categorical(m.tensor([0.3, 0.7])), d.Normal(numbers(m, -1.0, 2.0), numbers(m, 1.0, 0.5))
        ),
        [0.3, 0.7],
    ),
    "Squashed": (
        lambda m, d: d.TransformedDistribution(
            d.Normal(m.zeros(2), m.ones(2)),
            [d.AffineTransform(0.5, -2.0), d.TanhTransform(), d.transforms.SigmoidTransform()],
        ),
        [0.6, 0.7],
    ),
    "Softplus": (
        lambda m, d: d.TransformedDistribution(
            d.Normal(m.zeros(2), m.ones(2)), [d.SoftplusTransform(), d.PowerTransform(m.tensor(2.0))]
        ),
        [0.6, 0.7],
    ),
}
