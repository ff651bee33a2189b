"""Compiled functions compute attention by cuDNN's kernel, where a GPU has one that fits."""

import importlib
import re
from collections import Counter

import jax
import numpy as np
import pytest

import torchgrad_jax as torch
import torchgrad_jax._ops.attention as rows
from torchgrad_jax._bridge.compile.watch.code_that_reads import not_looked_at
from torchgrad_jax.nn.attention import SDPBackend, sdpa_kernel

RS = np.random.RandomState(0)
attention = torch.nn.functional.scaled_dot_product_attention


def like_the_kernel(q, k, v, *, scale, is_causal, implementation):
    """What cuDNN's kernel computes of arrays whose heads are behind the sequence, with derivatives as it has them.

    Its backward function reads the result and the log-sum-exp that the forward one keeps in float32.
    """

    def scores(q, k):
        s = jax.numpy.einsum("btnh,bsnh->bnts", q, k, preferred_element_type=np.float32) * scale
        return jax.numpy.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf) if is_causal else s

    def forward(q, k, v):
        s = scores(q, k)
        lse = jax.nn.logsumexp(s, -1)
        out = jax.numpy.einsum("bnts,bsnh->btnh", jax.numpy.exp(s - lse[..., None]), v.astype(np.float32)).astype(
            q.dtype
        )
        return out, (q, k, v, lse, out)

    def backward(kept, slope):
        q, k, v, lse, out = kept
        weights = jax.numpy.exp(scores(q, k) - lse[..., None])
        q, k, v, out, slope = (a.astype(np.float32) for a in (q, k, v, out, slope))
        along = jax.numpy.einsum("btnh,bsnh->bnts", slope, v) - (slope * out).sum(-1).swapaxes(1, 2)[..., None]
        ds = weights * along * scale
        found = (
            jax.numpy.einsum("bnts,bsnh->btnh", ds, k),
            jax.numpy.einsum("bnts,btnh->bsnh", ds, q),
            jax.numpy.einsum("bnts,btnh->bsnh", weights, slope),
        )
        return tuple(a.astype(kept[0].dtype) for a in found)

    attend = jax.custom_vjp(lambda *x: forward(*x)[0])
    attend.defvjp(forward, backward)
    return attend(q, k, v)


@pytest.fixture
def calls(monkeypatch):
    """How often a program was given the kernel; without a GPU a function like it takes its place."""
    torch.clear_caches()  # a program of earlier tests would be taken as it is
    found = []
    kernel = jax.nn.dot_product_attention if rows._has_cudnn() else like_the_kernel

    def counted(*args, implementation, **kwargs):
        found.append(implementation)
        return kernel(*args, **kwargs, implementation=implementation)

    not_looked_at(counted)  # as the function of JAX's that it stands for
    monkeypatch.setattr(rows, "_has_cudnn", lambda: True)
    monkeypatch.setattr(rows, "_on_cuda", lambda kernel, blocks, *given: kernel(*given))
    monkeypatch.setattr(rows.jax.nn, "dot_product_attention", counted)
    return found


def halves(*shapes, dtype=torch.bfloat16):
    return [torch.tensor(RS.randn(*s).astype(np.float32)).to(dtype).requires_grad_() for s in shapes]


def far(got, want):
    got, want = (t.detach().cpu().double() for t in (got, want))
    return ((got - want).abs().max() / want.abs().max()).item()


def exact(f, tensors):
    """The result and the gradients, in float64 on the host."""
    return with_gradients(f, [t.detach().cpu().double().requires_grad_() for t in tensors])


def with_gradients(f, tensors):
    out = f(*tensors)
    slope = torch.arange(out.numel(), device="cpu").double().sin().reshape(out.shape)
    return [out, *torch.autograd.grad(out, tensors, slope.to(out))]


SHAPES = {
    "even": ((1, 2, 256, 64),) * 3,
    "more keys": ((1, 2, 258, 40), (1, 2, 300, 40), (1, 2, 300, 40)),
    "fewer keys": ((1, 1, 300, 128), (1, 1, 256, 128), (1, 1, 256, 128)),
    "narrow": ((1, 1, 256, 8),) * 3,
    "three dimensions": ((2, 256, 16),) * 3,
    "two dimensions": ((256, 16),) * 3,
    "five dimensions": ((1, 2, 1, 256, 16),) * 3,
    "groups": ((1, 4, 256, 32), (1, 2, 256, 32), (1, 2, 256, 32)),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype, error", [(torch.bfloat16, 2e-2), (torch.float16, 4e-3)])
@pytest.mark.parametrize("name", SHAPES)
def test_result_and_gradients(elsewhere, calls, name, dtype, error, causal):
    tensors = halves(*SHAPES[name], dtype=dtype)

    def f(*given):
        return attention(*given, is_causal=causal, enable_gqa=name == "groups")

    got = with_gradients(torch.compile(f), tensors)
    assert calls
    for g, w in zip(got, exact(f, tensors), strict=True):
        assert g.dtype is dtype
        assert far(g, w) < error


def test_the_program_calls_the_kernel(cuda):
    """Forward and backward, and it has no array of scores."""
    if not rows._has_cudnn():
        pytest.skip("about cuDNN")
    q, k, v = halves(*((1, 2, 1024, 64),) * 3)

    @torch.compile
    def step(q, k, v):
        return torch.autograd.grad(attention(q, k, v, is_causal=True).sum(), [q, k, v])

    text = step.lower(q, k, v).compile().as_text()
    assert "fmhaSoftmaxBackward" in text
    assert 'fmhaSoftmax"' in text
    assert "1024,1024" not in text


def test_the_forward_kernel_runs_once(monkeypatch):
    """In a step with a backward pass, too, which reads what the forward kernel has kept; no GPU is needed to see it."""
    of_cudnn = importlib.import_module("jax._src.cudnn.fused_attention_stablehlo")
    monkeypatch.setattr(of_cudnn, "check_cudnn_version", lambda: 91_000)
    monkeypatch.setattr(of_cudnn, "check_compute_capability", lambda capability: True)

    def loss(q, k, v):
        for _ in range(2):
            q = rows._scaled_dot_product_cudnn_attention(q, k, v, True, None)[0]
        return (q.astype(np.float32) ** 2).sum()

    given = [jax.numpy.zeros((1, 2, 256, 64), jax.numpy.bfloat16)] * 3
    lowered = jax.jit(jax.grad(loss, (0, 1, 2))).trace(*given).lower(lowering_platforms=("cuda",))
    called = re.findall(r"__cudnn\$(\w+)", lowered.as_text())
    assert Counter(called) == {"fmhaSoftmax": 2, "fmhaSoftmaxBackward": 2}


def test_scale(elsewhere, calls):
    tensors = halves(*SHAPES["even"])

    def f(*given):
        return attention(*given, scale=0.5)

    assert far(torch.compile(f)(*tensors), exact(f, tensors)[0]) < 2e-2
    assert calls


def test_other_derivatives(elsewhere, calls):
    """Those of forward mode and of the second order are those of attention by blocks."""
    tensors = halves(*SHAPES["even"])
    way = [t.detach().flip(0) for t in tensors]
    host = [t.detach().cpu().double() for t in tensors], [t.cpu().double() for t in way]

    def plain(*given):
        return attention(*given, is_causal=True)

    def slopes(f, given, way):
        return torch.func.jvp(f, tuple(given), tuple(way))[1]

    def second(f, given, way):
        total = torch.func.grad(lambda *x: f(*x).double().square().sum(), (0, 1, 2))
        return torch.func.jvp(total, tuple(given), tuple(way))[1][0]

    for find in (slopes, second):
        compiled = torch.compile(lambda *x, find=find: find(plain, x[:3], x[3:]))
        want = find(plain, *host)
        assert far(compiled(*(t.detach() for t in tensors), *way), want) < 4e-2
    batch = [torch.stack([t, t * 2]) for t in tensors]
    got = torch.compile(torch.func.vmap(plain))(*batch)
    assert far(got, torch.func.vmap(plain)(*(t.detach().cpu().double() for t in batch))) < 2e-2
    assert calls


def squared(f):
    return lambda *x: (f(*x).astype(np.float32) ** 2).sum()


def total_of_slopes(f):
    return lambda *x: sum((g.astype(np.float32) ** 2).sum() for g in jax.grad(squared(f), (0, 1, 2))(*x))


DERIVATIVES = {
    "result": lambda f, x: f(*x),
    "gradients": lambda f, x: jax.grad(squared(f), (0, 1, 2))(*x),
    "tangents": lambda f, x: jax.jvp(f, x, x[::-1])[1],
    "tangents of gradients": lambda f, x: jax.jvp(jax.grad(squared(f), (0, 1, 2)), x, x[::-1])[1],
    "gradients of gradients": lambda f, x: jax.grad(total_of_slopes(f), (0, 1, 2))(*x),
    "gradients of examples": lambda f, x: jax.vmap(jax.grad(squared(f), (0, 1, 2)))(
        *(jax.numpy.stack([a, a]) for a in x)
    ),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_of_the_row(dev, calls, name):
    """They are those of attention by blocks, which is what the row computes on a CPU.

    Sums of large numbers that cancel each other differ by the rounding of these numbers.
    """
    if dev.type != "cpu":
        pytest.skip("the kernel takes halves; see `test_other_derivatives`")
    rs = np.random.RandomState(0)
    given = tuple(jax.numpy.asarray(rs.randn(1, 2, 8, 8), np.float32) for _ in range(3))
    found = [
        jax.tree.leaves(jax.jit(lambda *x, f=f: DERIVATIVES[name](f, x))(*given))
        for f in (
            lambda q, k, v: rows._scaled_dot_product_cudnn_attention(q, k, v, True, None)[0],
            lambda q, k, v: rows._by_blocks(True, 1 / np.sqrt(8), q, k, v),
        )
    ]
    for got, want in zip(*found, strict=True):
        largest = np.abs(want).max()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * max(1.0, largest))
    assert calls


def test_what_a_program_allows(elsewhere, calls):
    q, k, v = halves(*SHAPES["even"])
    f = torch.compile(lambda: attention(q, k, v))
    with sdpa_kernel(SDPBackend.MATH):
        f()
    torch.use_deterministic_algorithms(True)
    try:
        f()
    finally:
        torch.use_deterministic_algorithms(False)
    assert not calls
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        f()
    assert calls


def test_a_program_that_says_itself_what_it_allows(elsewhere, calls):
    q, k, v = halves(*SHAPES["even"])

    @torch.compile(fullgraph=True)
    def f(allowed):
        with sdpa_kernel(allowed):
            return attention(q, k, v)

    for _ in range(3):
        f(SDPBackend.MATH)
    assert not calls
    f([SDPBackend.FLASH_ATTENTION])
    n = len(calls)
    for _ in range(2):
        f([SDPBackend.FLASH_ATTENTION])
    assert n == len(calls) > 0


@pytest.mark.parametrize(
    "dtype, queries, keys, features, fits",
    [
        ("float16", 256, 300, 128, True),
        ("bfloat16", 256, 256, 8, True),
        ("float32", 256, 256, 64, False),
        ("float16", 254, 256, 64, False),
        ("float16", 256, 254, 64, False),
        ("float16", 257, 256, 64, False),
        ("float16", 256, 257, 64, False),
        ("float16", 256, 256, 136, False),
        ("float16", 256, 256, 60, False),
    ],
)
def test_which_attention_has_a_kernel(monkeypatch, dtype, queries, keys, features, fits):
    dtype = jax.numpy.dtype(dtype)
    assert not rows.has_kernel(dtype, queries, keys, features) or rows._has_cudnn()
    monkeypatch.setattr(rows, "_has_cudnn", lambda: True)
    assert rows.has_kernel(dtype, queries, keys, features) is fits


def test_what_the_kernel_does_not_compute(elsewhere, calls):
    q, k, v = halves(*SHAPES["even"])
    few, odd, wide = halves((1, 2, 128, 64), (1, 2, 257, 64), (1, 1, 256, 136))
    mask = torch.ones(256, 256, dtype=torch.bool).tril()
    for f in (
        lambda: attention(q.float(), k.float(), v.float()),
        lambda: attention(q, k, v, attn_mask=mask),
        lambda: attention(q, k, v, dropout_p=0.5),
        lambda: attention(few, few, few),
        lambda: attention(odd, odd, odd),
        lambda: attention(wide, wide, wide),
    ):
        torch.compile(f)()
    assert attention(q, k, v).shape == q.shape
    assert not calls
