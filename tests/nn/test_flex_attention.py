"""torch.nn.attention.flex_attention: scores that a program changes, masks that it writes."""

import importlib
import warnings

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def flex(m):
    return importlib.import_module(f"{m.__name__}.nn.attention.flex_attention")


def causal(b, h, q, kv):
    return q >= kv


def inputs(m, heads=2):
    q, k, v = (m.arange(24.0).view(1, 2, 6, 2).add(i).sin() for i in range(3))
    return q, k[:, :heads], v[:, :heads]


def attend(m, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch wants it compiled
        return flex(m).flex_attention(*args, **kwargs)


@program
def masks(m):
    f = flex(m)
    near = f.and_masks(causal, lambda b, h, q, kv: q - kv < 2)
    more = f.or_masks(causal, lambda b, h, q, kv: kv == 3)
    shapes = [tuple(f.create_mask(causal, b, h, 2, 3, device="cpu").shape) for b, h in ((None, None), (2, 3))]
    made = [f.create_mask(mask, 1, 2, 4, 4, device="cpu") for mask in (near, more, f.noop_mask)]
    return made, shapes, complaint(lambda: f.and_masks(causal, 3))[0]


@program
def blocks(m):
    out = []
    for size, sizes in ((2, (6, 6)), ((2, 3), (5, 7)), (128, (6, 6))):
        mask = flex(m).create_block_mask(causal, None, None, *sizes, device="cpu", BLOCK_SIZE=size)
        names = (
            "kv_num_blocks",
            "kv_indices",
            "full_kv_num_blocks",
            "full_kv_indices",
            "q_num_blocks",
            "q_indices",
            "full_q_num_blocks",
            "full_q_indices",
        )
        out.append([getattr(mask, n) for n in names])
        out.append([mask.shape, round(mask.sparsity(), 6), mask.to_dense(), mask.numel(), mask.BLOCK_SIZE])
    return out


@program
def scores(m):
    q, k, v = inputs(m)
    bias = m.arange(2.0)
    mods = (
        None,
        lambda s, b, h, i, j: s + (i - j) * 0.1 * (h + 1),
        lambda s, b, h, i, j: s * bias[h],
        lambda s, b, h, i, j: m.where(i >= j, s, -float("inf")),
    )
    return [attend(m, q, k, v, score_mod=mod) for mod in mods], attend(m, q, k, v, scale=0.3, return_lse=True)


@program
def scores_behind_masks(m):
    q, k, v = inputs(m)

    def never(b, h, i, j):
        return i > j

    out = []
    for mask in (causal, never):
        made = flex(m).create_block_mask(mask, 1, 1, 6, 6, device="cpu", BLOCK_SIZE=2)
        out.append(attend(m, q, k, v, block_mask=made, return_lse=True))
    return out


@program
def fewer_heads_of_keys(m):
    q, k, v = inputs(m, 1)
    return attend(m, q, k, v, enable_gqa=True), complaint(lambda: attend(m, q, k, v))


@program
def what_does_not_fit(m):
    q, k, v = inputs(m)
    mask = flex(m).create_block_mask(causal, 1, 1, 6, 6, device="cpu", BLOCK_SIZE=2)
    short = complaint(lambda: attend(m, q[:, :, :4], k, v, block_mask=mask))
    return complaint(lambda: attend(m, q[0], k, v)), short[0], short[1].partition(". ")[0]


def test_gradients_are_those_of_attention_with_a_mask():
    f = flex(tg)
    found = []
    for fused in (True, False):
        q, k, v = (x.clone().requires_grad_() for x in inputs(tg))
        if fused:
            mask = f.create_block_mask(causal, None, None, 6, 6)
            out = f.flex_attention(q, k, v, block_mask=mask)
        else:
            out = tg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        found.append(tg.autograd.grad(out.square().sum(), (q, k, v)))
    for x, y in zip(*found):
        tg.testing.assert_close(x, y)


@program
def more_than_the_result(m):
    q, k, v = inputs(m)
    f = flex(m)
    out = []
    for request in (f.AuxRequest(), f.AuxRequest(lse=True)):
        _, more = attend(m, q, k, v, return_aux=request)
        out.append((type(more).__name__, tuple(more)))
    asked = f.AuxRequest(lse=True)
    return (out, repr(asked), complaint(lambda: attend(m, q, k, v, return_lse=True, return_aux=asked)))


def test_the_highest_scores():
    q, k, v = inputs(tg)
    f = flex(tg)
    mask = f.create_block_mask(causal, 1, 1, 6, 6)
    out, more = f.flex_attention(q, k, v, block_mask=mask, return_aux=f.AuxRequest(max_scores=True))
    scores = q @ k.mT / q.size(-1) ** 0.5
    seen = tg.ones(6, 6, dtype=tg.bool).tril()
    tg.testing.assert_close(more.max_scores, scores.masked_fill(~seen, -float("inf")).amax(-1))
    assert more.lse is None
    assert out.shape == q.shape


def test_what_is_not_there_says_so():
    with pytest.raises(AttributeError):
        flex(tg).surely_not_there
