"""nn.attention.varlen: packed sequences give what attention gives sequence by sequence; implementations by name."""

import pytest

import torchgrad_jax as torch
from tests.programs import Programs, complaint
from torchgrad_jax.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

program = Programs()
test_same_as_torch = program.test()

Q_LENGTHS, K_LENGTHS = (2, 0, 3, 1), (3, 2, 3, 4)


def begins(lengths):
    return torch.tensor([sum(lengths[:i]) for i in range(len(lengths) + 1)], dtype=torch.int32)


def tensors(q_heads=4, k_heads=4, spare=0, dtype=torch.float32):
    torch.manual_seed(0)
    q = torch.randn(sum(Q_LENGTHS) + spare, q_heads, 5, dtype=dtype)
    k, v = (torch.randn(sum(K_LENGTHS) + spare, k_heads, 5, dtype=dtype) for _ in range(2))
    return [t.requires_grad_() for t in (q, k, v)]


def one_by_one(q, k, v, window=(-1, -1), scale=None):
    """Attention of each sequence by its formula, and the logarithms of the sums."""
    outs, sums = [], []
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    groups = q.shape[1] // k.shape[1]
    q_at = k_at = 0
    for n_q, n_k in zip(Q_LENGTHS, K_LENGTHS):
        mine = q[q_at : q_at + n_q].transpose(0, 1)
        keys, values = (t[k_at : k_at + n_k].repeat_interleave(groups, 1).transpose(0, 1) for t in (k, v))
        scores = mine @ keys.mT * scale
        own = torch.arange(n_q)[:, None] + n_k - n_q
        there = torch.arange(n_k)
        seen = torch.ones(n_q, n_k, dtype=torch.bool)
        seen &= there >= own - window[0] if window[0] >= 0 else seen
        seen &= there <= own + window[1] if window[1] >= 0 else seen
        scores = scores.masked_fill(~seen, float("-inf"))
        outs.append((scores.softmax(-1).nan_to_num(0.0) @ values).transpose(0, 1))
        sums.append(scores.logsumexp(-1))
        q_at, k_at = q_at + n_q, k_at + n_k
    return torch.cat(outs), torch.cat(sums, 1)


def both(window=(-1, -1), **kinds):
    q, k, v = tensors(**kinds)
    given = begins(Q_LENGTHS), begins(K_LENGTHS), max(Q_LENGTHS), max(K_LENGTHS)
    gqa = q.shape[1] != k.shape[1]
    found, lse = varlen_attn(q, k, v, *given, window_size=window, enable_gqa=gqa, return_aux=AuxRequest(lse=True))
    return (q, k, v), found, lse


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (1, 0), (0, 2)])
def test_values_and_gradients_are_those_of_each_sequence(window):
    inputs, found, lse = both(window)
    want, sums = one_by_one(*inputs, window)
    assert torch.allclose(found, want, atol=1e-6)
    assert torch.allclose(lse, sums, atol=1e-5)
    weight = torch.randn_like(want)
    got = torch.autograd.grad((found * weight).sum(), inputs)
    for a, b in zip(got, torch.autograd.grad((want * weight).sum(), inputs)):
        assert torch.allclose(a, b, atol=1e-5)


def test_fewer_heads_of_keys_and_another_scale():
    q, k, v = tensors(4, 2)
    given = begins(Q_LENGTHS), begins(K_LENGTHS), 3, 4
    found = varlen_attn(q, k, v, *given, enable_gqa=True, scale=0.3)
    assert torch.allclose(found, one_by_one(q, k, v, scale=0.3)[0], atol=1e-6)


def test_tokens_behind_the_last_sequence_are_zero_and_count_for_nothing():
    (q, _, _), found, _ = both(spare=3)
    assert found.shape == q.shape
    assert not found[sum(Q_LENGTHS) :].any()
    assert torch.allclose(found[: sum(Q_LENGTHS)], one_by_one(*tensors(spare=3))[0], atol=1e-6)


def test_longer_paddings_and_compiled_functions_give_the_same():
    q, k, v = (t.detach() for t in tensors())
    given = begins(Q_LENGTHS), begins(K_LENGTHS)
    want = varlen_attn(q, k, v, *given, 3, 4)
    assert torch.allclose(varlen_attn(q, k, v, *given, 16, 8), want, atol=1e-6)
    compiled = torch.compile(lambda q, k, v, a, b: varlen_attn(q, k, v, a, b, 3, 4))
    assert torch.allclose(compiled(q, k, v, *given), want, atol=1e-6)


def test_batches_shapes_alone_and_other_dtypes():
    q = torch.randn(2, 5, 2, 4)
    begin = torch.tensor([0, 2, 5])
    want = torch.stack([varlen_attn(t, t, t, begin, begin, 3, 3) for t in q])
    assert torch.allclose(torch.func.vmap(lambda t: varlen_attn(t, t, t, begin, begin, 3, 3))(q), want, atol=1e-6)
    shaped, at = q[0].to("meta"), begin.to("meta")
    assert varlen_attn(shaped, shaped, shaped, at, at, 3, 3).shape == (5, 2, 4)
    half = q[0].bfloat16()
    found = varlen_attn(half, half, half, begin, begin, 3, 3)
    assert found.dtype is torch.bfloat16
    assert torch.allclose(found.float(), want[0], atol=3e-2)


def test_second_derivatives():
    q, k, v = (t.detach()[:4, :1, :2].double().requires_grad_() for t in tensors())
    begin = torch.tensor([0, 1, 4])

    def causal(q, k, v):
        return varlen_attn(q, k, v, begin, begin, 3, 3, window_size=(-1, 0))

    assert torch.autograd.gradgradcheck(causal, (q, k, v))


def test_keys_that_are_not_used_and_keys_in_pages():
    q, k, v = (t.detach() for t in tensors())
    used = torch.tensor([2, 1, 3, 2], dtype=torch.int32)
    given = begins(Q_LENGTHS), begins(K_LENGTHS), 3, 4
    found = varlen_attn(q, k, v, *given, seqused_k=used)
    rows = [range(b, b + n) for b, n in zip(begins(K_LENGTHS).tolist(), used.tolist())]
    short = torch.tensor([i for r in rows for i in r])
    want = varlen_attn(q, k[short], v[short], begins(Q_LENGTHS), begins(tuple(used.tolist())), 3, 4)
    assert torch.allclose(found, want, atol=1e-6)

    pages_k, pages_v = torch.zeros(9, 2, 4, 5), torch.zeros(9, 2, 4, 5)
    table = torch.tensor([[4, 0], [7, 0], [2, 8], [1, 0]], dtype=torch.int32)
    for n, r in enumerate(rows):
        for j, i in enumerate(r):
            page = int(table[n, j // 2])
            pages_k[page, j % 2], pages_v[page, j % 2] = k[i], v[i]
    paged = varlen_attn(q, pages_k, pages_v, begins(Q_LENGTHS), None, 3, 4, seqused_k=used, block_table=table)
    assert torch.allclose(paged, want, atol=1e-6)


def test_a_result_that_is_given():
    q, k, v = (t.detach() for t in tensors())
    given = begins(Q_LENGTHS), begins(K_LENGTHS), 3, 4
    out = torch.empty_like(q)
    found, lse = varlen_attn_out(out, q, k, v, *given, return_aux=AuxRequest(lse=True))
    assert found is out
    assert torch.equal(out, varlen_attn(q, k, v, *given))
    assert lse.shape == (4, 6)
    with pytest.raises(ValueError, match="out has the shape"):
        varlen_attn_out(torch.empty(1), q, k, v, *given)


def test_what_is_refused():
    q, k, v = tensors(4, 2)
    begin = begins(Q_LENGTHS), begins(K_LENGTHS)
    used = torch.ones(4, dtype=torch.int32)
    with pytest.raises(ValueError, match="same number of heads but got Hq=4 and Hkv=2"):
        varlen_attn(q, k, v, *begin, 3, 4)
    with pytest.raises(ValueError, match="a multiple of kv heads for GQA but got Hq=3 and Hkv=2"):
        varlen_attn(q[:, :3], k, v, *begin, 3, 4, enable_gqa=True)
    with pytest.raises(ValueError, match="a sequence has 3 tokens, and max_q is 2"):
        varlen_attn(q, k, v, *begin, 2, 4, enable_gqa=True)
    with pytest.raises(ValueError, match="window_size must have length 2"):
        varlen_attn(q, k, v, *begin, 3, 4, window_size=(1,), enable_gqa=True)  # pyright: ignore[reportArgumentType]
    with pytest.raises(RuntimeError, match="seqused_k is an inference-only parameter"):
        varlen_attn(q, k, v, *begin, 3, 4, enable_gqa=True, seqused_k=used)
    with pytest.raises(ValueError, match="cu_seq_k is None"):
        varlen_attn(q, k, v, begin[0], None, 3, 4, enable_gqa=True)


# --- implementations by name -----------------------------------------------------------------------


@program
def implementations(m):
    a, calls = m.nn.attention, []

    class Handle:
        def remove(self):
            calls.append("removed")

    def register():
        calls.append("registered")
        return Handle()

    start = a.list_flash_attention_impls(), a.current_flash_attention_impl()
    a.register_flash_attention_impl("mine", register_fn=register)
    a.activate_flash_attention_impl("mine")
    inside = a.current_flash_attention_impl()
    a.activate_flash_attention_impl("mine")
    unknown = complaint(lambda: a.activate_flash_attention_impl("other"))
    after = a.current_flash_attention_impl()
    a.register_flash_attention_impl("mine", register_fn=lambda: None)
    a.activate_flash_attention_impl("mine")
    missing = complaint(lambda: a.activate_flash_attention_impl("FA4"))[0]
    return start[1], {"FA3", "FA4"} <= set(start[0]), inside, unknown, after, calls, missing


def test_restoring_nothing_is_logged(caplog):
    torch.nn.attention.restore_flash_attention_impl()
    assert "no custom impl was activated" in caplog.text
    caplog.clear()
    torch.nn.attention.restore_flash_attention_impl(_raise_warn=False)
    assert caplog.text == ""
