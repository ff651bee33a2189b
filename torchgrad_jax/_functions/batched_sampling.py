"""Draws whose parameters are different for each example of a batch, inside of `vmap`.

The parameters are not known while the function is being traced. Random words for every example are drawn
outside and enter as tensors; what becomes of them is computed inside. Where a distribution takes a
fixed number of words, the numbers are those that torch would draw for the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import dtypes, shapes
from .._core.arrays.meta import Meta, meta
from .._core.jax.caches import CALLS
from .._core.random import rng
from .._engine.graph.deferred import later
from .._engine.graph.record import apply, no_grad
from .._engine.memory.tensor import Tensor
from .._engine.run.trace import Call
from .._ops.registry import Grad
from .random import batch_like, draw, laid


def bernoulli(p: Tensor, gen: Any) -> Tensor:
    """Ones with the probability that each element says, else zeros."""
    m = p._m
    later((p,), lambda arrays: rng.check_chances(arrays[0]))
    kind = dtypes.float64 if m.dtype is dtypes.float64 else dtypes.float32
    words = gen.doubles if kind is dtypes.float64 else gen.floats
    level = draw(meta(m.shape, kind, m.device), lambda m: words(m.numel).reshape(m.shape).astype(kind.np))
    with no_grad():
        return (level < p.to(kind)).to(m.dtype)


# --- multinomial ----------------------------------------------------------------------------------


def waits_of(weights: Meta) -> Meta:
    """How torch lays out the numbers that it draws for the weights: an expanded row gets a full matrix."""
    return weights.like(strides=shapes.preserve_strides(weights.shape, weights.strides))


def multinomial(weights: Tensor, n: int, replacement: bool, gen: Any) -> Tensor:
    """Category numbers with the weights of each row."""
    m = weights._m
    if m.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if n <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and n > m.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    later((weights,), lambda arrays: rng.check_weights(arrays[0], n, replacement))
    if replacement and n > 1:
        words = draw(
            meta((*m.shape[:-1], n), dtypes.float64, m.device), lambda m: gen.doubles(m.numel).reshape(m.shape)
        )
        return apply(_searched, (weights, words))
    waits = draw(
        waits_of(m),
        lambda m: laid(m, rng.exponential((m.numel,), m.dtype.np, generator=gen)),
        batch=batch_like(weights, m),
    )
    return apply(_first(n), (weights, waits))


def _search(leaves: Sequence[Any]) -> Any:
    weights, words = leaves
    kind = weights.dtype if weights.dtype == np.float64 else np.dtype(np.float32)
    totals = jnp.cumsum(weights.astype(kind), -1)
    totals = (totals / totals[..., -1:]).at[..., -1].set(1.0)
    below = totals[..., None, :].astype(words.dtype) < words[..., :, None]
    return jnp.sum(below, -1, dtype=jnp.int64)


_searched = Call("multinomial", _search, node_name="NotImplemented", grad=Grad.NO)


@CALLS.memo()
def _first(n: int) -> Call:
    """The first events of processes that run at the rates that the weights say."""

    def run(leaves: Sequence[Any]) -> Any:
        weights, waits = leaves
        order = jnp.argsort(-(weights / waits), axis=-1, stable=True)
        return order[..., :n].astype(jnp.int64)

    return Call("multinomial", run, node_name="NotImplemented", grad=Grad.NO)


# --- distributions that reject --------------------------------------------------------------------


def _key(like: Tensor, gen: Any) -> Tensor:
    """Two words from which JAX's generator starts."""
    low, high = -(2**31), 2**31
    return draw(
        meta((2,), dtypes.int64, like._m.device),
        lambda m: rng.randint(low, high, m.shape, np.dtype(np.int64), generator=gen),
    )


def _by_key(name: str, sample: Any) -> Call:
    def run(leaves: Sequence[Any]) -> Any:
        words, *given = leaves
        key = jax.random.wrap_key_data(words.astype(jnp.uint32), impl="threefry2x32")
        dtype = given[0].dtype
        return sample(key, *[x.astype(jnp.float64) for x in given]).astype(dtype)

    return Call(name, run, node_name="NotImplemented", grad=Grad.NO)


_poisson = _by_key("poisson", lambda key, rates: jax.random.poisson(key, rates, rates.shape))
_binomial = _by_key("binomial", lambda key, n, p: jax.random.binomial(key, n, p, n.shape, jnp.float64))


def poisson(rates: Tensor, gen: Any) -> Tensor:
    """Poisson counts; the distribution is torch's, the numbers are not."""
    later((rates,), lambda arrays: rng.check_rates(arrays[0]))
    with no_grad():
        return apply(_poisson, (_key(rates, gen), rates))


def binomial(count: Tensor, prob: Tensor, gen: Any) -> Tensor:
    """Numbers of successes; the distribution is torch's, the numbers are not."""
    with no_grad():
        return apply(_binomial, (_key(prob, gen), count, prob))


_standard_gamma = _by_key("_standard_gamma", jax.random.gamma)
_dirichlet = _by_key("_sample_dirichlet", jax.random.dirichlet)


def standard_gamma(alpha: Tensor, gen: Any) -> Tensor:
    """Gamma numbers; the distribution is torch's, the numbers are not."""
    with no_grad():
        return apply(_standard_gamma, (_key(alpha, gen), alpha))


def dirichlet(alpha: Tensor, gen: Any) -> Tensor:
    """Dirichlet numbers; the distribution is torch's, the numbers are not."""
    with no_grad():
        return apply(_dirichlet, (_key(alpha, gen), alpha))


def _first_accepted(key: Any, r: Any, concentration: Any) -> Any:
    """Each entry keeps its first angle that is accepted (Best and Fisher 1979)."""

    def some_are_missing(state: tuple[Any, ...]) -> Any:
        return ~jnp.all(state[1])

    def one_more_round(state: tuple[Any, ...]) -> tuple[Any, ...]:
        key, done, angles = state
        key, own = jax.random.split(key)
        u = jax.random.uniform(own, (3, *r.shape), r.dtype)
        z = jnp.cos(jnp.pi * u[0])
        f = (1 + r * z) / (r + z)
        c = concentration * (r - f)
        accepted = (c * (2 - c) > u[1]) | (jnp.log(c / u[1]) + 1 - c >= 0)
        proposed = jnp.sign(u[2] - 0.5) * jnp.arccos(f)
        return key, done | accepted, jnp.where(accepted & ~done, proposed, angles)

    never = jnp.isnan(r + concentration)
    start = (key, never, jnp.full_like(r, jnp.nan))
    return lax.while_loop(some_are_missing, one_more_round, start)[2]


_von_mises = _by_key("von_mises", _first_accepted)


def von_mises(r: Tensor, concentration: Tensor, gen: Any) -> Tensor:
    """Angles around 0, where `r` is the shape of the distribution that proposals are drawn from."""
    with no_grad():
        return apply(_von_mises, (_key(r, gen), r, concentration))
