"""Attention and transformers; compared with torch."""

import pytest

from tests.programs import Programs

from .programs import attempt, gradients, numbers, quietly, weighted

program = Programs()
test_same_as_torch = program.test()


def attend(m, options, shape=(3, 2, 4), **call):
    m.manual_seed(0)
    layer = m.nn.MultiheadAttention(4, 2, **options)
    state = list(layer.state_dict().items())
    layer.double()
    x = numbers(m, *shape, requires_grad=True)
    out, weights = layer(x, x, x, **call)
    weighted(out).backward()
    return repr(layer), state, out.detach(), weights, x.grad, gradients(layer)


@program
def attention(m):
    return attend(m, {})


@program
def attention_batch_first(m):
    mask = m.tensor([[False, True, False], [False, False, False]])
    return attend(m, {"batch_first": True}, (2, 3, 4), key_padding_mask=mask, average_attn_weights=False)[2:]


@program
def attention_with_extras(m):
    return attend(m, {"bias": False, "add_bias_kv": True, "add_zero_attn": True}, need_weights=False)


@program
def attention_with_dropout_and_causal_mask(m):
    mask = m.nn.Transformer.generate_square_subsequent_mask(3).double()
    return attend(m, {"dropout": 0.4}, attn_mask=mask, need_weights=False)[2:]


@program
def attention_without_a_batch(m):
    return attend(m, {}, (3, 4))[2:]


@program
def attention_of_other_sizes(m):
    m.manual_seed(0)
    layer = m.nn.MultiheadAttention(4, 2, kdim=3, vdim=5)
    state = list(layer.state_dict().items())
    layer.double()
    out, weights = layer(numbers(m, 3, 2, 4), numbers(m, 2, 2, 3), numbers(m, 2, 2, 5))
    weighted(out).backward()
    return state, out.detach(), weights.detach(), gradients(layer)


@program
def refused_attention(m):
    a = m.nn.MultiheadAttention
    x = m.ones(2, 1, 4)
    layer = a(4, 2)

    def attended(w, **more):
        return m.nn.functional.multi_head_attention_forward(
            x, x, x, 4, 2, w, None, more.pop("bias_k", None), None, False, 0.0, m.ones(4, 4), None, **more
        )

    return [
        attempt(t)
        for t in (
            lambda: attended(None),
            lambda: attended(m.ones(12, 4), bias_k=m.ones(1, 1, 4)),
            lambda: attended(m.ones(12, 4), static_k=m.ones(3, 2, 2)),
            lambda: a(0, 1),
            lambda: a(4, 3),
            lambda: layer(m.ones(2, 1, 6), x, x),
            lambda: layer(x[0, 0], x, x),
            lambda: layer(x, x, m.ones(3, 1, 4)),
        )
    ]


@program
def merged_masks(m):
    layer = m.nn.MultiheadAttention(4, 2)
    x, padding = m.ones(1, 2, 4), m.tensor([[0.0, 1.0]])
    return [
        layer.merge_masks(None, None, x),
        layer.merge_masks(None, padding, x),
        layer.merge_masks(m.ones(2, 2), padding, x),
        layer.merge_masks(m.ones(2, 2, 2), None, x),
    ]


LAYERS = [{}, {"norm_first": True, "activation": "gelu"}, {"batch_first": True, "bias": False}]


@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_encoder_layer(options, same):
    def program(m):
        m.manual_seed(0)
        layer = m.nn.TransformerEncoderLayer(4, 2, 8, **options)
        seen = [repr(layer), list(layer.state_dict().items())]
        layer.double()
        x = numbers(m, 3, 2, 4, requires_grad=True)
        out = layer(x)
        weighted(out).backward()
        layer.eval()
        return seen, out.detach(), x.grad, gradients(layer), layer(x).detach()

    same(program, f"encoder layer {options}")


@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_decoder_layer(options, same):
    def program(m):
        m.manual_seed(0)
        layer = m.nn.TransformerDecoderLayer(4, 2, 8, 0.2, **options)
        seen = [repr(layer), list(layer.state_dict().items())]
        layer.double()
        x, memory = numbers(m, 3, 2, 4, requires_grad=True), numbers(m, 3, 2, 4) * 2
        mask = m.nn.Transformer.generate_square_subsequent_mask(2 if options.get("batch_first") else 3)
        out = layer(x, memory, tgt_mask=mask.double())
        weighted(out).backward()
        return seen, out.detach(), x.grad, gradients(layer)

    same(program, f"decoder layer {options}")


@program
def whole_transformer(m):
    m.manual_seed(0)
    t = quietly(lambda: m.nn.Transformer(4, 2, 2, 1, 8, 0.0))
    seen = [repr(t), list(t.state_dict().items())]
    t.double()
    src, tgt = numbers(m, 3, 2, 4, requires_grad=True), numbers(m, 2, 2, 4)
    mask = t.generate_square_subsequent_mask(2)
    padding = m.tensor([[False, False, True], [False, False, False]])
    out = t(src, tgt, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding)
    weighted(out).backward()
    return seen, out.detach(), src.grad, gradients(t)["encoder.layers.0.linear1.weight"]


@program
def refused_transformers(m):
    t = quietly(lambda: m.nn.Transformer(4, 2, 1, 1, 8))
    x = m.ones(2, 1, 4)
    return [
        attempt(f)
        for f in (
            lambda: t(x, m.ones(2, 2, 4)),
            lambda: t(m.ones(2, 1, 3), x),
            lambda: m.nn.TransformerEncoderLayer(4, 2, activation="tanh"),
        )
    ]


@program
def encoders_that_warn(m):
    layer = m.nn.TransformerEncoderLayer
    made = [
        layer(4, 2, 8),
        layer(4, 2, 8, batch_first=True, norm_first=True),
        layer(3, 3, 8, batch_first=True),
        layer(4, 2, 8, batch_first=True, activation=m.tanh),
        layer(4, 2, 8, batch_first=True),
        layer(4, 2, 8, batch_first=True, bias=False),
        m.nn.TransformerDecoderLayer(4, 2, 8),
    ]
    return [m.nn.TransformerEncoder(x, 1).use_nested_tensor for x in made]


@program
def padding_in_inference(m):
    m.manual_seed(0)
    layer = m.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    encoder = m.nn.TransformerEncoder(layer, 2, m.nn.LayerNorm(4)).eval()
    x = numbers(m, 2, 3, 4).float()
    end = m.tensor([[False, False, True], [False, False, False]])
    start = m.tensor([[True, False, False], [False, False, False]])
    seen = [encoder(x, src_key_padding_mask=end).detach()]
    with m.no_grad():
        seen += [quietly(lambda: encoder(x, src_key_padding_mask=end)), encoder(x, src_key_padding_mask=start)]
        seen += [encoder(x, mask=encoder_mask(m)), encoder(x[0])]
    return seen


def encoder_mask(m):
    return m.nn.Transformer.generate_square_subsequent_mask(3)


@program
def causal_masks(m):
    find = m.nn.modules.transformer._detect_is_causal_mask
    mask = encoder_mask(m)
    return (
        mask,
        find(mask),
        find(mask, False),
        find(mask, None, 3),
        find(mask * 0),
        find(None),
        find(None, True),
        m.nn.Transformer.generate_square_subsequent_mask(2, dtype=m.float64),
    )


@program
def how_the_result_of_attention_lies_in_memory(m):
    x = m.arange(24.0).view(3, 2, 4) / 10
    seen = []

    def look(layer, *args, **options):
        out, weights = layer(*args, **options)
        seen.append([out.stride(), None if weights is None else weights.stride()])

    layer = m.nn.MultiheadAttention(4, 2, batch_first=True).eval()
    with m.no_grad():
        look(layer, x, x, x)
        look(layer, x, x, x, need_weights=False)
        look(layer, x, x.clone(), x)
        look(layer, x, x, x, attn_mask=m.zeros(2, 2))
        look(layer, x, x, x, attn_mask=m.zeros(2, 2).bool())
        look(layer, x, x, x, key_padding_mask=m.zeros(3, 2).bool())
        look(layer, x, x, x, average_attn_weights=False)
        look(layer, x[0], x[0], x[0])
        look(layer.train(), x, x, x)
    look(layer.eval(), x, x, x)
    layer.requires_grad_(False)
    look(layer, x, x, x)
    y = x.clone().requires_grad_()
    look(layer, y, y, y)
    for heads, options in ((2, {}), (1, {"batch_first": True}), (2, {"batch_first": True, "bias": False})):
        look(m.nn.MultiheadAttention(4, heads, **options).eval().requires_grad_(False), x, x, x)
    layer.register_forward_hook(lambda *args: None)
    look(layer, x, x, x)
    return seen
