"""What a model holds can be pickled: functions of `nn.functional` by the name of their module."""

import pickle

from tests.programs import Programs

from .programs import attempt, numbers

program = Programs()
test_same_as_torch = program.test()


@program
def functions(m):
    f = m.nn.functional
    names = ("relu", "gelu", "celu_", "avg_pool2d", "dropout", "softmax", "cross_entropy", "linear")
    return [pickle.loads(pickle.dumps(getattr(f, n))) is getattr(f, n) for n in names] + [
        pickle.loads(pickle.dumps(g)) is g for g in (m.linalg.norm, m.fft.fft, m.special.erf, m.add)
    ]


@program
def transformers(m):
    m.manual_seed(0)
    layer = m.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).double().eval()
    x = numbers(m, 1, 3, 4)
    again = pickle.loads(pickle.dumps(layer))
    return again(x) - layer(x), repr(again), again.activation is m.nn.functional.relu


@program
def weight_norms(m):
    """The fused node for the first and last dimension, separate steps for the others."""
    out = []
    for shape, dims in (((3, 4), (0, 1, -1)), ((2, 3, 2), (0, 1, 2, -1)), ((4,), (0,))):
        for dim in dims:
            v = numbers(m, *shape, requires_grad=True)
            g = (m.norm_except_dim(v, 2, dim) * 2).detach().requires_grad_()
            w = m._weight_norm(v, g, dim)
            slopes = m.autograd.grad((w * w.detach().sin()).sum(), (v, g), create_graph=True)
            (slopes[0].sum() + slopes[1].sum()).backward()
            out += [w, slopes, v.grad, g.grad]
    layer = m.nn.utils.parametrizations.weight_norm(m.nn.Linear(3, 2))
    return [*out, type(layer.weight.grad_fn).__name__]


@program
def names_of_recurrent_nodes(m):
    out = []
    for kind in ("RNN", "LSTM", "GRU"):
        for dtype in (m.float32, m.float64):
            net = getattr(m.nn, kind)(2, 3).to(dtype)
            y, _ = net(m.ones(2, 1, 2, dtype=dtype))
            out.append((kind, str(dtype).rpartition(".")[2], type(y.grad_fn).__name__))
    out += [type(k(2, 3)(m.ones(1, 2)).grad_fn).__name__ for k in (m.nn.RNNCell, m.nn.GRUCell)]
    cell = m.nn.LSTMCell(2, 3)
    out.append(type(cell(m.ones(1, 2))[0].grad_fn).__name__)
    x = m.ones(1, 2)
    return out, [attempt(lambda: cell(x[0], m.ones(5))), attempt(lambda: cell(x, m.ones(2, 3)))]


@program
def uninitialized(m):
    """What is said about parameters without a shape; and that they get one."""
    layer = m.nn.LazyLinear(2)
    seen = [
        attempt(f)
        for f in (
            lambda: layer.weight.detach(),
            lambda: layer.weight + 1,
            lambda: layer.weight.sum(),
            lambda: layer.weight[0],
            lambda: layer.weight.shape,
        )
    ]
    return seen, list(layer(m.ones(3, 4)).shape), list(layer.weight.shape)


@program
def expanded_rows_draw_as_rows_do(m):
    """`multinomial` of an expanded tensor fills its numbers row by row."""
    m.manual_seed(1)
    weights = m.tensor([[1.0, 2.0, 1.0]]).expand(4, 3)
    return m.multinomial(weights, 1, True), m.multinomial(weights, 2), m.rand(1)


@program
def averaged_rates(m):
    """ASGD's rate after a state was taken over, and the order of L-BFGS's state."""
    p = m.nn.Parameter(m.tensor([1.0, 2.0], dtype=m.float64))
    first = m.optim.ASGD([p], lr=0.01)
    fresh = m.optim.ASGD([p], lr=0.01)
    for o in (first, fresh):
        if o is fresh:
            fresh.load_state_dict(first.state_dict())
        p.grad = m.ones_like(p)
        o.step()
    newton = m.optim.LBFGS([p], max_iter=4)

    def closure():
        newton.zero_grad()
        loss = ((p - 3) ** 4).sum()
        loss.backward()
        return loss

    newton.step(closure)
    return fresh.state_dict()["state"][0], list(newton.state_dict()["state"][0])
