"""Causal masks that attention knows by their kind."""

import pytest

import torchgrad_jax as torch
from torchgrad_jax.nn import functional as F
from torchgrad_jax.nn.attention.bias import CausalBias, CausalVariant, causal_lower_right, causal_upper_left

Q = torch.arange(24.0).reshape(1, 1, 3, 8).sin()
K = torch.arange(40.0).reshape(1, 1, 5, 8).cos()


@pytest.mark.parametrize(
    ("mask", "rows"),
    [
        (causal_upper_left(3, 5), [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]),
        (causal_lower_right(3, 5), [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
    ],
)
def test_the_same_as_the_mask_with_elements(mask, rows):
    elements = torch.tensor(rows, dtype=torch.bool)
    q = Q.clone().requires_grad_()
    out = F.scaled_dot_product_attention(q, K, K, attn_mask=mask)
    want = F.scaled_dot_product_attention(q, K, K, attn_mask=elements)
    assert type(out) is torch.Tensor
    torch.testing.assert_close(out, want)
    got, expected = (torch.autograd.grad(y.sum(), q)[0] for y in (out, want))
    torch.testing.assert_close(got, expected)
    assert repr(mask) == repr(elements)


def test_a_square_one_is_causal_attention():
    key = K[:, :, :3]
    want = F.scaled_dot_product_attention(Q, key, key, is_causal=True)
    for mask in (causal_lower_right(3, 3), causal_upper_left(3, 3)):
        assert F.scaled_dot_product_attention(Q, key, key, mask).equal(want)


def test_what_it_is():
    mask = causal_lower_right(2, 4)
    assert isinstance(mask, CausalBias)
    assert (mask.variant, mask.seq_len_q, mask.seq_len_kv) == (CausalVariant.LOWER_RIGHT, 2, 4)
    assert mask.shape == (2, 2, 4)
    assert isinstance(mask + 1, CausalBias)


def test_wrong_ones():
    with pytest.raises(AssertionError, match="variant must be a CausalVariant, got int"):
        CausalBias(1, 2, 3)  # type: ignore[arg-type]
    for make in (causal_upper_left, causal_lower_right):
        with pytest.raises(AssertionError, match="only supports 2D tensors"):
            make(1)
    with pytest.raises(ValueError, match="should not be used with causal=True"):
        F.scaled_dot_product_attention(Q, K, K, attn_mask=causal_upper_left(3, 5), is_causal=True)
    with pytest.warns(UserWarning, match="will produce NaNs"):
        causal_lower_right(4, 2)
