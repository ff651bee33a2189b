"""Attention over long sequences, of which a block is computed at a time: the same numbers, without all scores."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchgrad_jax as torch
from torchgrad_jax import func
from torchgrad_jax._ops import attention as kernels
from torchgrad_jax.nn import functional as F

N, HEADS, FEATURES = 2100, 2, 4  # five blocks of queries and of keys, the last of which are smaller
draw = np.random.RandomState(0)
Q, K, V, TQ, TK, TV = (torch.from_numpy(draw.randn(1, HEADS, N, FEATURES).astype(np.float32)) for _ in range(6))
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


def some(*shape):
    return torch.from_numpy(draw.randn(*shape).astype(np.float32))


def some_bools(*shape):
    return torch.from_numpy(draw.rand(*shape) > 0.3)


FEW, KEYS = 25, 23
FORMS: dict[str, list[Any]] = {  # what PyTorch computes step by step: queries, keys, values, mask, and arguments
    "three dimensions": [some(2, FEW, 4), some(2, KEYS, 4), some(2, KEYS, 4), None, {}],
    "two dimensions": [some(FEW, 4), some(KEYS, 4), some(KEYS, 4), None, {"is_causal": True}],
    "five dimensions": [
        some(2, 1, 3, FEW, 4), some(2, 2, 3, KEYS, 4), some(1, 3, KEYS, 4), some_bools(2, 1, FEW, KEYS),
        {"scale": -0.2},
    ],
    "dropout": [
        some(2, 3, FEW, 4), some(2, 3, KEYS, 4), some(2, 3, KEYS, 4), None, {"dropout_p": 0.3, "is_causal": True},
    ],
    "dropout and a mask": [
        some(3, FEW, 4), some(3, KEYS, 4), some(3, KEYS, 4), some_bools(3, FEW, KEYS), {"dropout_p": 0.3},
    ],
    "dropout and groups": [
        some(2, 4, FEW, 4), some(2, 2, KEYS, 4), some(2, 2, KEYS, 4), None, {"dropout_p": 0.3, "enable_gqa": True},
    ],
    "wide values": [some(2, 3, FEW, 4), some(2, 3, KEYS, 4), some(2, 3, KEYS, 7), None, {}],
    "a mask with a gradient": [
        some(2, 3, FEW, 4), some(2, 3, KEYS, 4), some(2, 3, KEYS, 4), some(3, FEW, KEYS), {},
    ],
    "a mask that widens": [some(FEW, 4), some(KEYS, 4), some(KEYS, 4), some(5, 1, KEYS), {}],
    "few queries": [some(2, 3, 4), some(2, 9 * KEYS, 4), some(2, 9 * KEYS, 4), some_bools(2, 3, 9 * KEYS), {}],
    "no key allowed": [
        some(2, FEW, 4), some(2, KEYS, 4), some(2, KEYS, 4), torch.zeros(FEW, KEYS, dtype=torch.bool), {},
    ],
}  # fmt: skip


def attention_with_gradients(tensors, given):
    leaves: list[Any] = [t.detach().requires_grad_() if t is not None and t.is_floating_point() else t for t in tensors]
    out = F.scaled_dot_product_attention(*leaves, **given)
    weights = torch.arange(out.numel(), dtype=torch.float32).reshape(out.shape).sin()
    wanted = [t for t in leaves if t is not None and t.requires_grad]
    return [out.detach(), *torch.autograd.grad((out.float() * weights).sum(), wanted)]


HALVES = [("dropout and a mask", "bfloat16"), ("dropout and a mask", "float16")]


@pytest.mark.parametrize("form, dtype", [*((form, "float32") for form in FORMS), *HALVES])
def test_forms_that_are_computed_step_by_step_in_eager_code(form, dtype, monkeypatch):
    """The compiled program has blocks of scores, the dropout of the seed, and halves as factors."""
    *tensors, given = FORMS[form]
    kind = getattr(torch, dtype)
    tensors = [t.to(kind) if t is not None and t.is_floating_point() else t for t in tensors]
    monkeypatch.setattr(kernels, "_LONG", 400)
    monkeypatch.setattr(kernels, "_edge", lambda heads: 5)
    compiled = torch.compile(lambda *tensors: attention_with_gradients(tensors, given))
    text = compiled.lower(*tensors).as_text()
    assert "stablehlo.while" in text
    kinds = {"float32": ("f32", "f32"), "bfloat16": ("bf16", "bf16"), "float16": ("f16", "f32")}
    dots = [line.split(" : ")[-1] for line in text.splitlines() if "dot_general" in line]
    assert all(f"x{kinds[dtype][0]}>," in d or f"x{kinds[dtype][1]}>," in d for d in dots)
    results = []
    for run in (compiled, lambda *tensors: attention_with_gradients(tensors, given)):
        torch.manual_seed(3)
        results.append([*run(*tensors), torch.rand(2)])
    tolerance = {"float32": 2e-5, "bfloat16": 3e-2, "float16": 4e-3}[dtype]
    for got, want in zip(*results, strict=True):
        error = (got.double() - want.double()).abs().max()
        assert error <= tolerance * want.double().abs().max() + 1e-6


@pytest.mark.parametrize("form", ["three dimensions", "dropout", "mapped"])
def test_no_form_has_an_array_of_the_size_of_all_scores(form):
    n = 4096
    lead = (1, HEADS) if form == "dropout" else (HEADS,)
    dropout = 0.1 if form == "dropout" else 0.0

    def attend(q):
        return F.scaled_dot_product_attention(q, q, q, dropout_p=dropout)

    def gradient(q):
        q = q.detach().requires_grad_()
        out = func.vmap(attend)(q[None]) if form == "mapped" else attend(q)
        return torch.autograd.grad(out.square().sum(), q)[0]

    lowered = torch.compile(gradient).lower(torch.zeros(*lead, n, FEATURES))
    assert lowered.memory_analysis().temp_size_in_bytes < HEADS * n * n * 4
