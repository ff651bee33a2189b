"""Recurrent layers, cells and packed sequences; compared with torch."""

import copy
import pickle

import pytest

import torchgrad_jax as tg
from tests.programs import Programs

from .programs import attempt, gradients, numbers, quietly, weighted

OPTIONS = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"bias": False, "batch_first": True},
    {"num_layers": 2, "batch_first": True, "bidirectional": True, "dropout": 0.4},
]
ROWS = [(kind, o) for kind in ("RNN", "GRU", "LSTM") for o in OPTIONS] + [
    ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
    ("LSTM", {"proj_size": 1, "num_layers": 2, "bidirectional": True}),
]


def label(row):
    return "-".join([row[0], *(f"{k}={v}" for k, v in row[1].items())])


def states(layer, hidden):
    return list(hidden) if isinstance(hidden, tuple) else [hidden]


def summed(out, hidden):
    return weighted(out) + sum(weighted(h) * 0.5 for h in hidden)


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_layer(row, same):
    kind, options = row

    def program(m):
        m.manual_seed(1)
        layer = getattr(m.nn, kind)(2, 2, **options)
        seen = [repr(layer), list(layer.state_dict().items())]
        layer.double()
        x = numbers(m, 2, 4, 2, requires_grad=True)
        out, hidden = layer(x)
        hidden = states(layer, hidden)
        summed(out, hidden).backward()
        return seen, out.detach(), [h.detach() for h in hidden], x.grad, gradients(layer)

    same(program, label(row))


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_layer_packed(row, same):
    kind, options = row

    def program(m):
        rnn = m.nn.utils.rnn
        m.manual_seed(1)
        layer = getattr(m.nn, kind)(2, 2, **options).double()
        sequences = [numbers(m, n, 2, requires_grad=True) for n in (2, 4, 1)]
        packed = rnn.pack_sequence(sequences, enforce_sorted=False)
        directions = 2 if options.get("bidirectional") else 1
        size = (options.get("num_layers", 1) * directions, 3)
        first = numbers(m, *size, options.get("proj_size") or 2, requires_grad=True)
        given = (first, numbers(m, *size, 2)) if kind == "LSTM" else first
        out, hidden = layer(packed, given)
        hidden = states(layer, hidden)
        padded, lengths = rnn.pad_packed_sequence(out, padding_value=9.0)
        summed(padded, hidden).backward()
        return (
            padded.detach(),
            lengths,
            [h.detach() for h in hidden],
            [s.grad for s in sequences],
            first.grad,
            gradients(layer),
            out.batch_sizes,
            out.sorted_indices,
            out.data.shape,
        )

    same(program, "packed-" + label(row))


program = Programs()
test_same_as_torch = program.test()


@program
def without_a_batch(m):
    seen = []
    for kind in ("RNN", "GRU", "LSTM"):
        m.manual_seed(1)
        layer = getattr(m.nn, kind)(3, 4, 2).double()
        x = numbers(m, 5, 3)
        h = numbers(m, 2, 4)
        out, hidden = layer(x, (h, h * 2) if kind == "LSTM" else h)
        seen += [out.detach(), [s.detach() for s in states(layer, hidden)]]
    return seen


@program
def second_derivatives(m):
    seen = []
    for kind in ("GRU", "LSTM"):
        m.manual_seed(1)
        layer = getattr(m.nn, kind)(2, 2).double()
        x = numbers(m, 3, 1, 2, requires_grad=True)
        (g,) = m.autograd.grad(weighted(layer(x)[0]), x, create_graph=True)
        weighted(g).backward()
        seen += [g.detach(), x.grad, gradients(layer)]
    return seen


@program
def cells(m):
    seen = []
    for build in (
        lambda: m.nn.RNNCell(3, 4),
        lambda: m.nn.RNNCell(3, 4, False, "relu"),
        lambda: m.nn.GRUCell(3, 4),
        lambda: m.nn.LSTMCell(3, 4),
        lambda: m.nn.LSTMCell(3, 4, bias=False),
    ):
        m.manual_seed(2)
        cell = build()
        seen += [repr(cell), list(cell.state_dict().items())]
        cell.double()
        x, h = numbers(m, 2, 3, requires_grad=True), numbers(m, 2, 4, requires_grad=True)
        lstm = type(cell).__name__ == "LSTMCell"
        out = cell(x, (h, h * 2) if lstm else h)
        out = list(out) if lstm else [out]
        sum(weighted(o) for o in out).backward()
        single = cell(x[0])
        seen += [[o.detach() for o in out], x.grad, h.grad, gradients(cell), [o.detach() for o in states(cell, single)]]
    return seen


@program
def refused(m):
    nn = m.nn
    x = m.ones(2, 1, 3)
    tries = [
        lambda: nn.LSTM(0, 1), lambda: nn.LSTM(1, 0), lambda: nn.LSTM(1, 1, 0), lambda: nn.LSTM("a", 1),
        lambda: nn.LSTM(1, 2.0), lambda: nn.LSTM(1, 1, bias=1), lambda: nn.LSTM(1, 1, batch_first=1),
        lambda: nn.LSTM(1, 1, dropout=2), lambda: nn.LSTM(1, 1, dropout=True), lambda: nn.LSTM(1, 2, proj_size=2),
        lambda: nn.LSTM(1, 2, proj_size=-1), lambda: nn.GRU(1, 2, proj_size=1), lambda: nn.RNN(1, 2, proj_size=1),
        lambda: nn.RNN(1, 1, nonlinearity="x"), lambda: nn.RNNBase("X", 1, 1),
        lambda: nn.RNNCell(1, 1, nonlinearity="x")(x[0, :, :1]),
        lambda: nn.LSTM(3, 4)(m.ones(3)), lambda: nn.RNN(3, 4)(m.ones(3)), lambda: nn.GRU(3, 4)(m.ones(3)),
        lambda: nn.LSTM(3, 4)(x.double()), lambda: nn.LSTM(2, 4)(x), lambda: nn.LSTM(3, 4)(x, (x, x)),
        lambda: nn.LSTM(3, 4)(x, (x[0], x[0])), lambda: nn.LSTM(3, 4)(x[0], (x, x)), lambda: nn.GRU(3, 4)(x, x),
        lambda: nn.GRU(3, 4)(x, x[0]), lambda: nn.RNN(3, 4)(x[0], x), lambda: nn.LSTM(3, 4)(x, (m.ones(1, 1, 4), x)),
        lambda: nn.LSTM(3, 4)(m.ones(0, 1, 3)), lambda: nn.LSTMCell(3, 4)(x), lambda: nn.GRUCell(3, 4)(x),
        lambda: nn.GRUCell(3, 4)(x[0], x), lambda: nn.LSTMCell(3, 4)(x[0], (x, x)),
        lambda: nn.LSTMCell(3, 4)(x[0], (x[0], x[0])),
        lambda: nn.GRUCell(2, 4)(x[0], m.ones(1, 4)), lambda: nn.GRUCell(3, 4)(x[0], m.ones(2, 4)),
    ]  # fmt: skip
    return [attempt(t) for t in tries]


@program
def warned_about_dropout(m):
    return m.nn.GRU(1, 1, dropout=0.5).dropout


@program
def packing(m):
    rnn = m.nn.utils.rnn
    x = numbers(m, 4, 3, 2)
    p = rnn.pack_padded_sequence(x, [4, 2, 1])
    q = rnn.pack_padded_sequence(x, m.tensor([1, 4, 2]), enforce_sorted=False)
    b = rnn.pack_padded_sequence(x.transpose(0, 1), [4, 2, 1], batch_first=True)
    one = rnn.pack_sequence([m.ones(3), m.ones(2)])
    padded = rnn.pad_packed_sequence(q, batch_first=True, total_length=5, padding_value=-1.0)
    double, back = p.to(m.float32), p.to(m.float64)
    return (
        list(p),
        list(q),
        list(b),
        list(one),
        padded,
        [str(double.data.dtype), double is p, back is p],
        p.is_cuda,
        [str(getattr(p, k)().data.dtype) for k in ("float", "double", "half", "long", "int", "short", "char", "byte")],
        rnn.unpack_sequence(q),
        rnn.invert_permutation(m.tensor([2, 0, 1])),
        rnn.invert_permutation(None),
        rnn.pad_sequence([m.ones(2, 2), m.ones(1, 2)], padding_value=5.0),
        rnn.pad_sequence([m.ones(2), m.ones(3)], batch_first=True, padding_side="left"),
        rnn.unpad_sequence(m.arange(6).reshape(3, 2), m.tensor([3, 1])),
        repr(one),
        p.cpu() is p,
    )


@program
def refused_packing(m):
    rnn = m.nn.utils.rnn
    x = m.ones(3, 2)
    p = rnn.pack_padded_sequence(x, [3, 1])
    tries = [
        lambda: rnn.pack_padded_sequence(x, [1, 2]),
        lambda: rnn.pack_padded_sequence(x, [2, 0]),
        lambda: rnn.pack_padded_sequence(x, [2, 2, 2]),
        lambda: rnn.pack_padded_sequence(x[:0], [2, 2]),
        lambda: rnn.pad_sequence(3),
        lambda: rnn.pad_sequence([]),
        lambda: rnn.pad_packed_sequence(p, total_length=2),
        lambda: rnn.pad_sequence([x], padding_side="up"),
        lambda: rnn.PackedSequence(3),
    ]
    return [attempt(t) for t in tries]


@program
def copied_and_replaced_weights(m):
    m.manual_seed(0)
    layer = m.nn.LSTM(2, 3)
    c, p = copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))
    x = m.ones(2, 1, 2)
    same = [bool((layer(x)[0] == other(x)[0]).all()) for other in (c, p)]
    layer.weight_ih_l0 = m.nn.Parameter(m.zeros(12, 2))
    layer.flatten_parameters()
    return same, layer(x)[0].detach(), [[w.shape for w in ws] for ws in layer.all_weights]


@program
def top_level_functions(m):
    m.manual_seed(0)
    layer = m.nn.GRU(2, 3)
    x, h = m.ones(2, 1, 2), m.zeros(1, 1, 3)
    weights = [p.detach() for p in layer.parameters()]
    return m.gru(x, h, weights, True, 1, 0.0, False, False, False), m.gru_cell(x[0], h[0], *weights)


@program
def deprecated_permutation(m):
    rnn = m.nn.modules.rnn
    return quietly(lambda: rnn.apply_permutation(m.arange(6).reshape(2, 3), m.tensor([2, 0, 1])))


def test_lengths_beyond_the_input_are_refused():
    """torch reads past the end of its memory."""
    with pytest.raises(RuntimeError, match="at most 3, the length of the input, but got 5"):
        tg.nn.utils.rnn.pack_padded_sequence(tg.ones(3, 2), [5, 2])


def test_nodes_of_packed_sequences(same):
    def packed(m):
        rnn = m.nn.utils.rnn
        sequences = [numbers(m, n, 2, requires_grad=True) for n in (3, 1, 2)]
        pack = rnn.pack_sequence(sequences, enforce_sorted=False)
        parts = rnn.unpack_sequence(pack)
        out, hidden = m.nn.GRU(2, 3).double()(pack)
        sum(weighted(p) for p in parts).backward()
        return [
            pack.data.grad_fn.name(),
            out.data.grad_fn.name(),
            hidden.grad_fn.name(),
            [t.grad for t in sequences],
            [(p.grad_fn.name(), p._is_view(), p.stride()) for p in parts],
        ]

    same(packed)


@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells_do_not_mix_dtypes(kind):
    cell = getattr(tg.nn, kind)(2, 3)
    with pytest.raises(RuntimeError, match="mat1 and mat2 must have the same dtype, but got Double and Float"):
        cell(tg.zeros(1, 2, dtype=tg.float64))


@program
def sequences_that_are_written_into_the_first_ones_kind(m):
    pad = m.nn.utils.rnn.pad_sequence
    held = [
        [m.ones(2, dtype=m.int64), m.ones(1) * 1.5],
        [m.ones(1), m.ones(2, dtype=m.float64)],
        [m.arange(6.0).view(3, 2), m.ones(2, 1)],
        [m.ones(3, 2), m.arange(2.0)],
    ]
    options = ({}, {"batch_first": True}, {"padding_side": "left", "padding_value": 7.0})
    w = m.ones(2, 1, requires_grad=True)
    pad([m.arange(6.0).view(3, 2), w]).pow(2).sum().backward()
    wrong = [[m.ones(3, 2), m.ones(2, 3)], [m.ones(3, 1), m.ones(2, 3)], [m.ones(2), 3]]
    return ([pad(h, **o) for h in held for o in options], w.grad, [attempt(lambda w=w: pad(w)) for w in wrong])


# --- weights in order -----------------------------------------------------------------------------


def _with(m, change):
    """The results of a layer before and after a change of its list of weights, and what the list holds."""
    m.manual_seed(1)
    layer, x = m.nn.LSTM(2, 3), m.ones(4, 1, 2)
    before = layer(x)[0]
    change(m, layer)
    after = layer(x)[0]
    return before, after, list(layer._flat_weights), len(list(layer.parameters()))


def _set_all(m, layer):
    layer._flat_weights = [w.detach() * 0.5 for w in layer._flat_weights]


def _set_one(m, layer):
    layer._flat_weights[1] = m.zeros(12, 3)


def _set_one_of_those_set(m, layer):
    _set_all(m, layer)
    layer._flat_weights[0] = m.zeros(12, 2)


def _then_a_parameter(m, layer):
    _set_all(m, layer)
    layer.weight_hh_l0 = m.nn.Parameter(m.ones(12, 3))


def _then_a_cast(m, layer):
    _set_all(m, layer)
    layer.double().float()


def _then_a_state(m, layer):
    _set_all(m, layer)
    layer.load_state_dict({k: v * 2 for k, v in layer.state_dict().items()})


def _then_a_copy(m, layer):
    _set_all(m, layer)
    layer.__dict__.update(copy.deepcopy(layer).__dict__)


def _weights_dropped(m, layer):
    raw = layer.weight_hh_l0
    del layer._parameters["weight_hh_l0"]
    layer.register_parameter("raw", m.nn.Parameter(raw.detach()))
    layer.weight_hh_l0 = layer.raw * m.tensor([1.0, 0.0, 1.0])


@program
def weights_in_order(m):
    changes = (
        _set_all, _set_one, _set_one_of_those_set, _then_a_parameter, _then_a_cast, _then_a_state, _then_a_copy,
        _weights_dropped,
    )  # fmt: skip
    return {change.__name__: _with(m, change) for change in changes}
