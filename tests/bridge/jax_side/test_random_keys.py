"""Random numbers from a key that the caller gives, under JAX's transforms."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch

F = torch.nn.functional
KEY = jax.random.key(3)
X = jnp.full((4, 6), 0.4, jnp.float32)

DRAWS: dict[str, Any] = {
    "dropout": lambda x: F.dropout(x),
    "dropout-inplace": lambda x: F.dropout(x * 1, inplace=True),
    "alpha-dropout": lambda x: F.alpha_dropout(x, training=True),
    "dropout1d": lambda x: F.dropout1d(x),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5),
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(F.dropout, x, use_reentrant=False),
    "rand": lambda x: x * torch.rand(4, 6),
    "randn-transposed": lambda x: torch.randn_like(x.t()),
    "randint": lambda x: torch.randint(0, 2**40, (5,)) % 1000,
    "randperm": lambda x: torch.randperm(30),
    "bernoulli": lambda x: torch.bernoulli(x),
    "bernoulli-number": lambda x: x.clone().bernoulli_(0.3),
    "normal": lambda x: torch.normal(x, x),
    "multinomial": lambda x: torch.multinomial(x, 9, replacement=True),
    "poisson": lambda x: torch.poisson(x * 5),
    "gamma": lambda x: torch._standard_gamma(x),
    "exponential": lambda x: x.clone().exponential_(2.0),
    "log-normal": lambda x: x.clone().log_normal_(),
    "geometric": lambda x: x.clone().geometric_(0.3),
    "rrelu": lambda x: F.rrelu(x - 0.5, training=True),
    "rrelu-inplace": lambda x: F.rrelu_(x - 0.5, training=True),
    "truncated-normal": lambda x: torch.nn.init.trunc_normal_(torch.empty(40), 1.0, 2.0, 0.0, 3.0),
    "geometric-distribution": lambda x: torch.distributions.Geometric(x).sample(),
    "continuous-bernoulli": lambda x: torch.distributions.ContinuousBernoulli(x, validate_args=True).rsample(),
    "new-attention": lambda x: torch.nn.MultiheadAttention(6, 1, dropout=0.5)(x, x, x)[0].detach(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_key_says_the_numbers(name):
    f = DRAWS[name]
    pure = torch.to_jax(f)
    got = np.asarray(pure(X, rngs=KEY))
    assert not np.array_equal(got, pure(X, rngs=jax.random.key(4)))
    np.testing.assert_allclose(jax.jit(pure)(X, rngs=KEY), got, rtol=1e-5)
    with torch.interop.rngs(KEY):
        np.testing.assert_allclose(np.asarray(f(torch.tensor(X))), got, rtol=1e-5)

    def directly(x, key):
        with torch.interop.rngs(key):
            return f(x)

    np.testing.assert_allclose(np.asarray(jax.jit(directly)(torch.tensor(X), KEY)), got, rtol=1e-5)


def test_truncated_normal_numbers():
    def draw():
        return torch.nn.init.trunc_normal_(torch.empty(20_000), 1.0, 2.0, -1.0, 3.0)

    found = np.sort(np.asarray(torch.to_jax(draw)(rngs=KEY)))
    torch.manual_seed(0)
    want = np.sort(draw().numpy())
    np.testing.assert_allclose(found, want, atol=0.06)
    assert found.min() >= -1
    assert found.max() <= 3


def test_slopes_of_rrelu():
    f = torch.to_jax(lambda x: F.rrelu(x, 0.2, 0.4, training=True).sum())
    slopes = jax.jit(jax.grad(f))(jnp.linspace(-1, 1, 1000, dtype=jnp.float32), rngs=KEY)
    assert (slopes[500:] == 1).all()
    assert 0.2 <= slopes[:500].min() < 0.21
    assert 0.39 < slopes[:500].max() <= 0.4


def test_each_draw_takes_the_next_part():
    both = torch.to_jax(lambda: (torch.rand(5), torch.rand(5)))
    a, b = both(rngs=KEY)
    assert not np.array_equal(a, b)
    assert np.array_equal(a, jax.random.uniform(jax.random.fold_in(KEY, 0), (5,), jnp.float32))


def test_examples_of_a_vmap_over_keys_differ():
    keys = jax.random.split(KEY, 3)
    rows = jax.vmap(lambda key: torch.to_jax(F.dropout)(X, rngs=key))(keys)
    assert not np.array_equal(rows[0], rows[1])
    assert np.array_equal(rows[1], torch.to_jax(F.dropout)(X, rngs=keys[1]))


def test_gradients_of_a_module_with_dropout():
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
    f = torch.to_jax(net)

    def loss(params, key):
        return f(params, X, rngs=key).sum()

    got = jax.jit(jax.grad(loss))(f.params, KEY)
    with torch.interop.rngs(KEY):
        net(torch.tensor(X)).sum().backward()
    for name, p in net.named_parameters():
        assert p.grad is not None
        np.testing.assert_allclose(got[name], p.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_own_gradients_meet_the_same_numbers():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return F.dropout(y).sum()

    g = jax.grad(lambda x: torch.to_jax(f)(x, rngs=KEY))(X)
    assert np.array_equal(g > 0, torch.to_jax(lambda x: F.dropout(x * 2))(X, rngs=KEY) > 0)
    assert set(np.unique(g)) == {0.0, 12.0}


def test_a_checkpoint_outside_of_the_block_repeats_its_numbers():
    x = torch.ones(50, requires_grad=True)
    with torch.interop.rngs(KEY):
        y = torch.utils.checkpoint.checkpoint(F.dropout, x, use_reentrant=False)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_vmap_inside_draws_a_row_for_each_example():
    def f(x):
        return torch.func.vmap(lambda r: torch.randperm(30) + r.sum() * 0, randomness="different")(x)

    rows = torch.to_jax(f)(X, rngs=KEY)
    assert not np.array_equal(rows[0], rows[1])
    assert sorted(rows[2].tolist()) == list(range(30))


def test_what_is_refused():
    def scanned(x):
        return jax.lax.scan(lambda c, _: (c * torch.rand(4, 6), None), x, None, 3)[0]

    with pytest.raises(RuntimeError, match="pass a key to that function"):
        torch.to_jax(scanned)(X, rngs=KEY)
    with pytest.raises(RuntimeError, match="same numbers each time"):
        torch.to_jax(lambda: torch.rand(3, generator=torch.Generator()))(rngs=KEY)
    with pytest.raises(TypeError, match="expected a key such as"):
        torch.to_jax(F.dropout)(X, rngs=0)
    with pytest.raises(TypeError, match="one key, not keys of shape"):
        torch.to_jax(F.dropout)(X, rngs=jax.random.split(KEY))


def test_typed_keys_are_arguments_and_results():
    f = torch.from_jax(lambda k, x: (jnp.where(jax.random.bernoulli(k, 0.5, x.shape), x, 0), jax.random.split(k)[0]))
    x = torch.ones(8, requires_grad=True)
    out, key = f(KEY, x)
    out.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, out.detach())
    assert key == jax.random.split(KEY)[0]
    g = torch.to_jax(lambda x, k: x + torch.as_tensor(jax.random.uniform(k, (6,), jnp.float32)))
    assert np.array_equal(g(X, KEY), jax.jit(g)(X, KEY))


def test_keys_that_a_function_closes_over():
    for impl in ("threefry2x32", "rbg"):
        key = jax.random.key(7, impl=impl)
        x = torch.ones(3, requires_grad=True)
        f = torch.from_jax(lambda x, key=key: x * jax.random.normal(key, x.shape, x.dtype))
        out = torch.from_jax(lambda x, f=f: f(x) * 2)(x)
        assert np.array_equal(out.detach().numpy(), 2 * jax.random.normal(key, (3,), "float32"))
        out.sum().backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad, out.detach())  # XLA fuses the two in other ways


D = torch.distributions
SAMPLES = {
    "normal": lambda x: D.Normal(x, x.exp()).rsample(),
    "gamma": lambda x: D.Gamma(x.abs() + 1, 2.0).rsample(),
    "beta": lambda x: D.Beta(x.abs() + 1, x.abs() + 2).sample(),
    "categorical": lambda x: D.Categorical(logits=x).sample((3,)),
    "bernoulli": lambda x: D.Bernoulli(logits=x).sample(),
    "von-mises": lambda x: D.VonMises(x, x.exp()).sample(),
    "wishart": lambda x: D.Wishart(x[0, 0] + 3, torch.eye(3)).rsample((2,)),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_distributions_draw_from_the_key(name):
    pure = torch.to_jax(SAMPLES[name])
    got = np.asarray(pure(X, rngs=KEY))
    np.testing.assert_allclose(jax.jit(pure)(X, rngs=KEY), got, rtol=1e-5)
    assert not np.array_equal(got, pure(X, rngs=jax.random.key(4)))
    keys = jax.random.split(KEY, 2)
    rows = jax.vmap(lambda key: pure(X, rngs=key))(keys)
    np.testing.assert_allclose(rows[1], pure(X, rngs=keys[1]), rtol=1e-5)


def test_angles_around_their_mean():
    """The mean direction and its length are those of the distribution: I1(k) / I0(k)."""
    k = torch.tensor([0.1, 2.0, 30.0])
    angles = torch.to_jax(lambda: D.VonMises(torch.tensor(1.0), k).sample((20_000,)))(rngs=KEY)
    mean = np.exp(1j * np.asarray(angles)).mean(0)
    length = jax.scipy.special.i1(k.numpy()) / jax.scipy.special.i0(k.numpy())
    np.testing.assert_allclose(mean, np.exp(1j) * np.asarray(length), atol=0.02)


def test_a_compiled_function_draws_angles_and_matrices():
    @torch.compile
    def f(x):
        return D.VonMises(x, x.exp()).sample(), D.Wishart(x + 4, torch.eye(3).expand(5, 3, 3)).rsample()

    torch.manual_seed(0)
    angles, matrices = f(torch.linspace(-1, 1, 5))
    assert angles.abs().max() <= np.pi
    assert (torch.linalg.eigvalsh(matrices) > 0).all()
    assert not torch.equal(angles, f(torch.linspace(-1, 1, 5))[0])
    with pytest.raises(ValueError, match="expected to be greater than ndim - 1"):
        f(torch.full((5,), -3.0))


# --- loops and branches that hand a key on --------------------------------------------------------


def _noise(key, x):
    key, own = jax.random.split(key)
    with torch.interop.rngs(own):
        return key, torch.rand_like(x)


def _step(key, x):
    key, u = _noise(key, x)
    return key, x * 1.1 * u


def _while(key, x):
    return torch.interop.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, *_step(*c[1:])), (0, key, x))[1:]


def _cond(key, x):
    return torch.interop.cond(x.sum() > 0, _step, lambda key, x: (key, x), key, x)


LOOPS = {
    "while": _while,
    "fori": lambda key, x: torch.interop.fori_loop(0, 3, lambda i, c: _step(*c), (key, x)),
    "scan": lambda key, x: torch.interop.scan(lambda c, _: (_step(*c), None), (key, x), None, 3)[0],
    "scan-rows": lambda key, x: torch.interop.scan(lambda x, key: _step(key, x)[::-1], x, jax.random.split(key, 3))[
        ::-1
    ],
    "map": lambda key, x: torch.interop.map(lambda a: _step(*a), (jax.random.split(key, 4), x)),
    "cond": _cond,
    "switch": lambda key, x: torch.interop.switch(1, [lambda k, x: (k, x), _step], key, x),
    "checkpoint": lambda key, x: torch.interop.checkpoint(_step)(key, x),
}


@pytest.mark.parametrize("name", LOOPS)
def test_keys_pass_through(name):
    """The keys that come out, values and gradients are the same in every way of running it."""
    f = LOOPS[name]
    start = torch.linspace(0.5, 1.0, 4)

    def trained(key, x):
        x = x.detach().clone().requires_grad_()
        keys, y = f(key, x)
        y.sum().backward()
        return keys, y.detach(), x.grad

    def pure(key, x):
        (keys, y), back = jax.vjp(lambda x: torch.to_jax(f)(key, x), x)
        zeros = np.zeros(keys.shape, jax.dtypes.float0)
        return keys, y, back((zeros, jnp.ones_like(y)))[0]

    keys, *want = trained(KEY, start)
    assert jnp.issubdtype(keys.dtype, jax.dtypes.prng_key)
    array = jnp.asarray(start.numpy())
    for way, x in ((torch.compile(trained), start), (pure, array), (jax.jit(pure), array)):
        keys_here, *got = way(KEY, x)
        assert (jax.random.key_data(keys_here) == jax.random.key_data(keys)).all()
        for a, b in zip(got, want):
            np.testing.assert_allclose(np.asarray(a), b.numpy(), rtol=1e-5)
