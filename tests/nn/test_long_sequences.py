"""Attention over long sequences, of which a block is computed at a time: the same numbers, without all scores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import func
from torchgrad_jax.nn import functional as F

N, HEADS, FEATURES = 2100, 2, 4  # three blocks, the last of which is smaller
draw = np.random.RandomState(0)
Q, K, V, TQ, TK, TV = (
    torch.from_numpy(draw.randn(1, HEADS, N, FEATURES).astype(np.float32)) for _ in range(6)
)
MASKS = {
    "none": None,
    "of one row": torch.from_numpy(draw.rand(1, 1, 1, N) > 0.3),
    "of all rows": torch.from_numpy(draw.rand(N, N) > 0.3),
    "of numbers": torch.from_numpy(draw.randn(1, 1, N, N).astype(np.float32)),
    "causal": "causal",
}


def attention(q, k, v, mask):
    if isinstance(mask, str):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return F.scaled_dot_product_attention(q, k, v, mask)


def by_hand(q, k, v, mask):
    scores = q @ k.mT / FEATURES**0.5
    if isinstance(mask, str):
        mask = torch.ones(N, N, dtype=torch.bool).tril()
    if mask is not None and mask.dtype is torch.bool:
        scores = scores.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        scores = scores + mask
    return scores.softmax(-1) @ v


@pytest.mark.parametrize("mask", MASKS)
def test_values_and_derivatives(mask):
    def found(f):
        def loss(q, k, v):
            return (f(q, k, v, MASKS[mask]) * TV).sum()

        value, tangent = func.jvp(lambda *a: f(*a, MASKS[mask]), (Q, K, V), (TQ, TK, TV))
        return value, tangent, *func.grad(loss, argnums=(0, 1, 2))(Q, K, V)

    for got, want in zip(found(attention), found(by_hand), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=2e-5)


def test_eager_and_second_derivatives():
    def found(f):
        q, k = Q.clone().requires_grad_(), K.clone().requires_grad_()
        first = torch.autograd.grad((f(q, k, V, "causal") * TV).sum(), (q, k), create_graph=True)
        return *first, *torch.autograd.grad((first[0] * TQ).sum() + (first[1] * TK).sum(), (q, k))

    for got, want in zip(found(attention), found(by_hand), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


def test_groups_of_queries_and_a_mapped_batch():
    q = torch.cat([Q, TQ], 1)
    got = F.scaled_dot_product_attention(q, K, V, enable_gqa=True)
    want = by_hand(q, K.repeat_interleave(2, 1), V.repeat_interleave(2, 1), None)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=2e-5)
    mapped = func.vmap(lambda a: attention(a, K, V, "causal"))(torch.stack([Q, TQ]))
    torch.testing.assert_close(mapped[1], by_hand(TQ, K, V, "causal"), rtol=1e-4, atol=2e-5)


def test_no_array_has_the_size_of_all_scores():
    def loss(q, k, v):
        return attention(q, k, v, "causal").square().sum()

    n = 4096
    shapes = [jax.ShapeDtypeStruct((1, HEADS, n, FEATURES), jnp.float32)] * 3
    for f in (torch.to_jax(loss), jax.grad(torch.to_jax(loss), argnums=(0, 1, 2))):
        memory = jax.jit(f).lower(*shapes).compile().memory_analysis()
        assert memory.temp_size_in_bytes < HEADS * n * n * 4 / 2
