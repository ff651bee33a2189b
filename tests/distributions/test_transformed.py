"""Distributions with checked arguments inside of transforms, and the reductions over all examples that check them."""

from typing import Any

import pytest

from tests.programs import Programs, attempt, complaint

program = Programs()
test_same_as_torch = program.test()


def _x(m: Any) -> Any:
    return m.tensor([0.3, 0.5, 0.7])


def _spread(m: Any, x: Any) -> Any:
    return m.eye(3) * 0.3 + 0.1 + m.diag(x)


FAMILIES: dict[str, tuple[Any, Any]] = {
    "Normal": (lambda m, d, x: d.Normal(x, x + 1), 0.4),
    "LogNormal": (lambda m, d, x: d.LogNormal(x, x + 1), 0.4),
    "Bernoulli": (lambda m, d, x: d.Bernoulli(x), 1.0),
    "Bernoulli of logits": (lambda m, d, x: d.Bernoulli(logits=x), 1.0),
    "Beta": (lambda m, d, x: d.Beta(x, x + 1), 0.4),
    "Binomial": (lambda m, d, x: d.Binomial(5, x), 2.0),
    "Categorical": (lambda m, d, x: d.Categorical(x), 1),
    "Cauchy": (lambda m, d, x: d.Cauchy(x, x + 1), 0.4),
    "Chi2": (lambda m, d, x: d.Chi2(x), 0.4),
    "Dirichlet": (lambda m, d, x: d.Dirichlet(x), [0.2, 0.3, 0.5]),
    "Exponential": (lambda m, d, x: d.Exponential(x), 0.4),
    "FisherSnedecor": (lambda m, d, x: d.FisherSnedecor(x, x + 1), 0.4),
    "Gamma": (lambda m, d, x: d.Gamma(x, x + 1), 0.4),
    "Gumbel": (lambda m, d, x: d.Gumbel(x, x + 1), 0.4),
    "HalfNormal": (lambda m, d, x: d.HalfNormal(x), 0.4),
    "Independent": (lambda m, d, x: d.Independent(d.Normal(x, 1.0), 1), [0.2, 0.3, 0.5]),
    "InverseGamma": (lambda m, d, x: d.InverseGamma(x, x + 1), 0.4),
    "Kumaraswamy": (lambda m, d, x: d.Kumaraswamy(x, x + 1), 0.4),
    "Laplace": (lambda m, d, x: d.Laplace(x, x + 1), 0.4),
    "LowRankMultivariateNormal": (lambda m, d, x: d.LowRankMultivariateNormal(x, x[:, None], x + 1), [0.2, 0.3, 0.5]),
    "MixtureSameFamily": (lambda m, d, x: d.MixtureSameFamily(d.Categorical(x), d.Normal(x, x + 1)), 0.4),
    "MultivariateNormal": (
        lambda m, d, x: d.MultivariateNormal(x, scale_tril=m.linalg.cholesky(_spread(m, x))),
        [0.2, 0.3, 0.5],
    ),
    "NegativeBinomial": (lambda m, d, x: d.NegativeBinomial(3.0, x), 2.0),
    "OneHotCategorical": (lambda m, d, x: d.OneHotCategorical(x), [0.0, 1.0, 0.0]),
    "Pareto": (lambda m, d, x: d.Pareto(x, x + 1), 1.4),
    "Poisson": (lambda m, d, x: d.Poisson(x), 2.0),
    "StudentT": (lambda m, d, x: d.StudentT(x + 1, x, x + 1), 0.4),
    "Uniform": (lambda m, d, x: d.Uniform(x - 1, x + 1), 0.4),
    "VonMises": (lambda m, d, x: d.VonMises(x, x + 1), 0.4),
    "Weibull": (lambda m, d, x: d.Weibull(x, x + 1), 0.4),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_log_prob(name: str, same: Any) -> None:
    """Of each example, and its first and second derivatives in forward mode."""
    family, value = FAMILIES[name]

    def log_prob(m: Any) -> Any:
        v = m.as_tensor(value)

        def f(x: Any) -> Any:
            return family(m, m.distributions, x).log_prob(v)

        batch = m.stack([_x(m), _x(m) * 0.9])
        found = (
            m.func.vmap(f)(batch),
            m.func.jacfwd(f)(_x(m)),
            m.func.hessian(lambda x: f(x).sum())(_x(m)),
            m.func.vmap(m.func.grad(lambda x: f(x).sum()))(batch),
        )
        return [(t.double() + 0.0).round(decimals=4) + 0.0 for t in found]

    same(log_prob, f"log_prob of {name}")


@program
def samples_of_each_example(m: Any) -> Any:
    d, out = m.distributions, []
    batch = m.stack([_x(m), _x(m) * 0.9])
    for f in (
        lambda x: d.Normal(x, x).rsample(),
        lambda x: d.Categorical(x).sample(),
        lambda x: d.Bernoulli(x).sample((2,)),
        lambda x: d.Uniform(x, x + 1).rsample(),
        lambda x: d.OneHotCategorical(x).sample(),
    ):
        m.manual_seed(0)
        out.append(attempt(lambda f=f: m.func.vmap(f, randomness="different")(batch)))
    return out


@program
def what_does_not_fit_raises(m: Any) -> Any:
    d = m.distributions
    batch = m.stack([_x(m), -_x(m)])
    return [
        complaint(lambda: m.func.vmap(lambda x: d.Normal(x, x).log_prob(x))(batch)),
        complaint(lambda: m.func.vmap(lambda x: d.Exponential(1.0).log_prob(x))(batch)),
        complaint(lambda: m.func.hessian(lambda x: d.Normal(x, -x).log_prob(x).sum())(_x(m)))[1].partition(":\n")[0],
    ]


@program
def all_and_any_over_all_examples(m: Any) -> Any:
    batch, vmap = m.tensor([[1.0, 2.0], [-1.0, 2.0]]), m.func.vmap
    out = []
    for f in (m._is_all_true, m._is_any_true):
        out += [
            f(m.tensor([True, False])),
            f(m.zeros(0, dtype=m.bool)),
            m.ones(2, dtype=m.bool)._is_all_true(),
            vmap(lambda x, f=f: f(x > 0), out_dims=None)(batch),
            vmap(lambda x, f=f: x * (2 if f(x > 0) else 3))(batch),
            vmap(vmap(lambda x, f=f: f(x > 0), out_dims=None), out_dims=None)(batch),
            vmap(lambda x, f=f: vmap(lambda y: f(x + y > 3))(batch))(batch),
            vmap(lambda x, f=f: x * f(batch > 0))(batch),
            m.func.grad(lambda x, f=f: (x * f(x > 0)).sum())(batch),
        ]
    return out


@program
def transforms_one_after_the_other(m):
    d = m.distributions
    made = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.ExpTransform(), d.AffineTransform(1.0, 2.0)])
    x = m.tensor([1.5, 4.0], requires_grad=True)
    out = made.log_prob(x)
    return out, m.autograd.grad(out.sum(), x), made.cdf(x.detach()), made.icdf(m.tensor([0.2, 0.7]))
