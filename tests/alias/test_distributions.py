"""torch.distributions against torch: densities, samples with the same seed, gradients, divergences."""

import importlib

import pytest

from tests.engine.helpers import Programs, attempt, leaf, program

PROGRAMS = Programs()


def dist(m):
    return importlib.import_module(m.__name__ + ".distributions")


def numbers(m, *values):
    return m.tensor(values)


# Name, how to make it, values to look at.
CASES = {
    "Normal": (lambda m, d: d.Normal(numbers(m, 0.5, -1.0), numbers(m, 1.0, 2.0)), [0.3, -0.7]),
    "Laplace": (lambda m, d: d.Laplace(numbers(m, 0.5, -1.0), numbers(m, 1.0, 2.0)), [0.3, -0.7]),
    "Cauchy": (lambda m, d: d.Cauchy(numbers(m, 0.5, -1.0), numbers(m, 1.0, 2.0)), [0.3, -0.7]),
    "Gumbel": (lambda m, d: d.Gumbel(numbers(m, 0.5, -1.0), numbers(m, 1.0, 2.0)), [0.3, -0.7]),
    "Uniform": (lambda m, d: d.Uniform(numbers(m, 0.0, -1.0), numbers(m, 1.0, 2.0)), [0.3, 0.7]),
    "Exponential": (lambda m, d: d.Exponential(numbers(m, 0.5, 2.0)), [0.3, 0.7]),
    "HalfNormal": (lambda m, d: d.HalfNormal(numbers(m, 0.5, 2.0)), [0.3, 0.7]),
    "HalfCauchy": (lambda m, d: d.HalfCauchy(numbers(m, 0.5, 2.0)), [0.3, 0.7]),
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
    "MultivariateNormal": (
        lambda m, d: d.MultivariateNormal(numbers(m, 0.5, -1.0), m.tensor([[2.0, 0.5], [0.5, 1.0]])),
        [0.3, 0.7],
    ),
    "Precision": (
        lambda m, d: d.MultivariateNormal(
            numbers(m, 0.5, -1.0), precision_matrix=m.tensor([[2.0, 0.5], [0.5, 1.0]])
        ),
        [0.3, 0.7],
    ),
    "Independent": (lambda m, d: d.Independent(d.Normal(m.zeros(3, 2), m.ones(2)), 1), [0.3, 0.7]),
    "Mixture": (
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
}  # fmt: skip


def look(name):
    def run(m):
        d = dist(m)
        made, values = CASES[name]
        p = made(m, d)
        value = m.tensor(values)
        m.manual_seed(4)
        seen = [repr(p), list(p.batch_shape), list(p.event_shape), p.has_rsample]
        seen += [
            attempt(lambda: p.log_prob(value)),
            p.sample(),
            p.sample((3,)),
            p.sample(m.Size([2, 2])),
        ]
        if p.has_rsample:
            seen.append(p.rsample((2,)))
        plain = (NotImplementedError,)
        for f in (
            lambda: p.mean, lambda: p.variance, lambda: p.mode, lambda: p.entropy(), lambda: p.cdf(value),
            lambda: p.enumerate_support(), lambda: p.expand((3, *p.batch_shape)).log_prob(value),
            lambda: p.expand((3, *p.batch_shape)).sample().shape,
        ):  # fmt: skip
            got = attempt(f)
            seen.append("not there" if isinstance(got, plain) else got)
        return seen

    return program(name, run)


@pytest.mark.parametrize("name", CASES)
def test_one(name, same):
    same(look(name))


@PROGRAMS
def divergences(m):
    d = dist(m)
    a, b = numbers(m, 0.2, 0.7), numbers(m, 0.5, 0.6)
    pairs = [
        (d.Normal(a, b), d.Normal(b, a)), (d.Laplace(a, b), d.Laplace(b, a)), (d.Bernoulli(a), d.Bernoulli(b)),
        (d.Categorical(a), d.Categorical(b)), (d.Exponential(a), d.Exponential(b)), (d.Poisson(a), d.Poisson(b)),
        (d.Uniform(a, a + 1), d.Uniform(a - 1, a + 2)), (d.Uniform(a, a + 1), d.Normal(a, b)),
        (d.Geometric(a), d.Geometric(b)), (d.Binomial(3, a), d.Binomial(3, b)), (d.LogNormal(a, b), d.LogNormal(b, a)),
        (d.OneHotCategorical(a), d.OneHotCategorical(b)),
        (d.Independent(d.Normal(a, b), 1), d.Independent(d.Normal(b, a), 1)),
        (d.MultivariateNormal(a, m.eye(2) * 2), d.MultivariateNormal(b, m.tensor([[2.0, 0.5], [0.5, 1.0]]))),
        (d.Categorical(a), d.Normal(a, b)),
    ]  # fmt: skip
    return [attempt(lambda p=p, q=q: d.kl_divergence(p, q)) for p, q in pairs]


@PROGRAMS
def gradients(m):
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


@PROGRAMS
def refusals(m):
    d = dist(m)
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
        )
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_torch(program, same):
    same(program)
