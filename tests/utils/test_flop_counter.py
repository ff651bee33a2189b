"""FlopCounterMode against torch: what is counted, under which module and operator, and what is refused."""

import warnings
from importlib import import_module

import pytest

import torchgrad_jax as tg
from tests.programs import Programs
from torchgrad_jax.utils.flop_counter import FlopCounterMode

program = Programs()
test_same_as_torch = program.test()


def flops(m):
    return import_module(m.__name__ + ".utils.flop_counter")


def counted(m, fn, **options):
    with flops(m).FlopCounterMode(display=False, **options) as counter:
        fn()
    counts = counter.get_flop_counts()
    by_module = sorted([k, sorted([str(op), n] for op, n in v.items())] for k, v in counts.items())
    return [counter.get_total_flops(), by_module]


@program
def nothing_counted(m):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = flops(m).FlopCounterMode(mods=m.nn.ReLU(), depth=3, display=False)
    return (
        made.get_flop_counts(),
        made.get_total_flops(),
        made.get_flop_counts(),
        made.depth,
        [str(w.message) for w in told],
        counted(m, lambda: m.ones(3).sin()),
    )


@program
def products(m):
    def f(*shape, needs=False):
        return m.ones(*shape, requires_grad=needs)

    linear, a, b = m.nn.functional.linear, f(2, 3, 4), f(2, 4, 5)
    cases = [
        lambda: f(3, 4) @ f(4, 5),
        lambda: a @ b,
        lambda: a @ f(4, 5),
        lambda: m.addmm(f(5), f(3, 4), f(4, 5)),
        lambda: m.baddbmm(f(2, 3, 5), a, b),
        lambda: m.einsum("ij,kj->ik", f(2, 3), f(4, 3)),
        lambda: linear(a, f(5, 4)),
        lambda: linear(a, f(5, 4), f(5)),
        lambda: linear(f(4), f(5, 4)),
        lambda: m.mv(f(2, 3), f(3)),
        lambda: m.einsum("bij,bjk,bkl->bil", a, b, f(2, 5, 6)),
        lambda: m.tensordot(f(2, 3), f(3, 4), 1),
        lambda: m.linalg.multi_dot([f(2, 3), f(3, 4), f(4, 5)]),
        lambda: (f(3, 4, needs=True) @ f(4, 5)).sum().backward(),
        lambda: (f(3, 4) @ f(4, 5, needs=True)).sum().backward(),
        lambda: m.bmm(f(2, 3, 4, needs=True), f(2, 4, 5, needs=True)).sum().backward(),
        lambda: m.baddbmm(f(2, 3, 5, needs=True), a, b).sum().backward(),
        lambda: m.addmm(f(5, needs=True), f(3, 4, needs=True), f(4, 5, needs=True)).sum().backward(),
        lambda: m.nn.GRU(2, 3, 2)(f(4, 1, 2)),
        lambda: m.nn.LSTMCell(2, 3)(f(4, 2)),
        lambda: m.nn.RNN(2, 3, bidirectional=True)(f(4, 1, 2)),
        lambda: m.nn.GRUCell(2, 3)(f(4, 2)),
        lambda: m.nn.LSTM(2, 3)(f(4, 1, 2))[0].sum().backward(),
    ]
    return [counted(m, case) for case in cases]


@program
def convolutions(m):
    f = m.nn.functional

    def case(fn, x, w, **options):
        seen = []
        for nx, nw in ((False, False), (True, False), (False, True), (True, True)):
            x, w = x.detach().requires_grad_(nx), w.detach().requires_grad_(nw)

            def run(x=x, w=w, needed=nx or nw):
                y = fn(x, w, **options)
                if needed:
                    y.sum().backward()

            seen.append(counted(m, run))
        return seen

    return [
        case(f.conv1d, m.ones(2, 2, 5), m.ones(3, 2, 3)),
        case(f.conv2d, m.ones(2, 4, 5, 5), m.ones(8, 2, 3, 3), groups=2, stride=2),
        case(f.conv2d, m.ones(1, 4, 5, 5), m.ones(4, 1, 3, 3), groups=4),
        case(f.conv_transpose2d, m.ones(1, 2, 5, 5), m.ones(2, 3, 3, 3)),
        case(f.conv3d, m.ones(1, 1, 3, 3, 3), m.ones(1, 1, 2, 2, 2), padding=1),
    ]


@program
def models(m):
    net = m.nn.Sequential(m.nn.Conv2d(3, 4, 3), m.nn.ReLU(), m.nn.Flatten(), m.nn.Sequential(m.nn.Linear(4 * 36, 5)))
    x = m.ones(2, 3, 8, 8)
    layer = m.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
    layer.self_attn.dropout = 0.1  # so that attention is not one kernel, which torch does not count
    saved = net(x).sum()
    return [
        counted(m, lambda: net(x)),
        counted(m, lambda: net(x).sum().backward()),
        counted(m, lambda: saved.backward()),
        counted(m, lambda: layer(m.ones(1, 3, 4))),
        counted(m, lambda: m.nn.MultiheadAttention(4, 2)(*[m.ones(3, 1, 4)] * 3)),
    ]


@program
def other_formulas(m):
    module, x = flops(m), m.ones(2, 3)
    seen = []

    def sine(a, *args, out_shape=None, **kwargs):
        seen.append([list(a), list(out_shape or ())])
        return 7

    def raw(a, *args, out_val=None, **kwargs):
        return a.shape[0]

    aten = m.ops.aten
    found = [
        counted(m, lambda: x.sin(), custom_mapping={aten.sin: sine}),
        counted(m, lambda: x @ x.t(), custom_mapping={aten.mm: lambda a, b, out_shape=None, **k: a[0]}),
    ]
    module.register_flop_formula(aten.cos)(sine)
    module.register_flop_formula([aten.tan], get_raw=True)(raw)
    try:
        module.register_flop_formula(aten.cos)(sine)
    except RuntimeError as e:
        found.append([type(e).__name__])
    found += [counted(m, lambda: x.cos()), counted(m, lambda: x.tan())]
    for op in (aten.cos, aten.tan):
        del module.flop_registry[op]
    found.append([aten.mm in module.flop_registry, module.flop_registry[aten.mm](x, x.t(), out_val=x)])
    return seen, found


def test_counting_begins_anew_and_the_table_shows_it(capsys):
    net = tg.nn.Sequential(tg.nn.Linear(2, 3), tg.nn.Linear(3, 1))
    counter = FlopCounterMode()
    for _ in range(2):
        with counter:
            net(tg.ones(4, 2))
    assert counter.get_total_flops() == 4 * 2 * 3 * 2 + 4 * 3 * 1 * 2
    shown = capsys.readouterr().out
    assert shown.count("Module") == 2
    assert "Sequential.0" in shown
    assert "aten.addmm" in shown
    assert "66.67%" in shown
    assert counter.get_table(depth=1).splitlines()[2].split() == ["Sequential", "72.000", "100.00%"]


def test_large_numbers_are_shown_by_thousands_and_nothing_by_a_zero():
    with FlopCounterMode(display=False) as counter:
        pass
    assert counter.get_table().splitlines()[-1].split() == ["Global", "0.000", "0%"]
    with FlopCounterMode(display=False) as counter:
        tg.ones(100, 50) @ tg.ones(50, 1234)
    assert counter.get_table().splitlines()[2].split() == ["Global", "12.340M", "100.00%"]


def test_projections_of_lstms_are_counted():
    with FlopCounterMode(display=False) as counter:
        tg.nn.LSTM(2, 3, proj_size=2)(tg.ones(4, 1, 2))
    assert {str(k): n for k, n in counter.get_flop_counts()["LSTM"].items()} == {"aten.addmm": 384, "aten.mm": 48}


def test_what_cannot_be_counted_is_refused():
    with FlopCounterMode(display=False):
        with pytest.raises(NotImplementedError, match="cost_analysis"):
            tg.func.vmap(lambda a: a @ a)(tg.ones(2, 3, 3))
        with pytest.raises(NotImplementedError, match="recurrent"):
            tg.nn.GRU(2, 3)(tg.ones(4, 1, 2))[0].sum().backward()
        x = tg.ones(2, 2, requires_grad=True)
        with pytest.raises(NotImplementedError, match="create_graph"):
            tg.autograd.grad((x @ x).sum(), x, create_graph=True)


def test_convolutions_save_their_input_under_torchs_name():
    x = tg.ones(1, 1, 3, 3, requires_grad=True)
    node = tg.nn.functional.conv2d(x, tg.ones(1, 1, 2, 2, requires_grad=True)).grad_fn
    assert node._saved_input.shape == (1, 1, 3, 3)
    assert not hasattr(node, "_saved_self")
