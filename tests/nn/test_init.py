"""`nn.init`: the values that torch draws with the same seed; compared with torch."""

import pytest

from tests.programs import Programs

from .programs import attempt, quietly

ROWS = [
    ("uniform_", (3, 4), {"a": -2.0, "b": 3.0}),
    ("uniform_", (5, 7), {}),
    ("normal_", (3, 4), {"mean": 1.0, "std": 2.0}),
    ("normal_", (4, 8), {}),
    ("trunc_normal_", (4, 6), {"std": 0.02}),
    ("trunc_normal_", (4, 6), {"a": -0.5, "b": 1.0}),
    ("trunc_normal_", (4, 6), {"a": 1.5, "b": 2.5}),
    ("trunc_normal_", (4, 6), {"mean": 9.0}),
    ("constant_", (2, 3), {"val": 0.3}),
    ("ones_", (2, 3), {}),
    ("zeros_", (2, 3), {}),
    ("eye_", (2, 3), {}),
    ("dirac_", (4, 2, 3), {}),
    ("dirac_", (4, 2, 3, 3), {"groups": 2}),
    ("dirac_", (2, 3, 2, 2, 2), {}),
    ("xavier_uniform_", (3, 4), {"gain": 2.0}),
    ("xavier_normal_", (3, 4, 2), {}),
    ("kaiming_uniform_", (3, 4), {"a": 0.1}),
    ("kaiming_uniform_", (3, 4, 2), {"mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_normal_", (3, 4), {"nonlinearity": "tanh"}),
    ("kaiming_normal_", (0, 4), {}),
    ("orthogonal_", (3, 5), {}),
    ("orthogonal_", (5, 3), {"gain": 2.0}),
    ("orthogonal_", (3, 2, 2), {}),
    ("sparse_", (6, 3), {"sparsity": 0.4}),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r[0]}-{r[1]}-{r[2]}")
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_values(row, kind, same):
    name, shape, options = row

    def program(m):
        t = m.empty(*shape, dtype=getattr(m, kind), requires_grad=True)
        m.manual_seed(11)
        out = getattr(m.nn.init, name)(t, **options)
        return t.detach(), out is t, m.rand(1)

    same(program, f"{name}-{shape}-{options}-{kind}")


program = Programs()
test_same_as_torch = program.test()


@program
def gains(m):
    g = m.nn.init.calculate_gain
    names = ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu", "what")
    return ([attempt(lambda n=n: g(n)) for n in names], g("leaky_relu", 0.5), attempt(lambda: g("leaky_relu", "a")))


@program
def refused(m):
    i, one, two = m.nn.init, m.empty(2), m.empty(2, 2)
    tries = [
        lambda: i.xavier_uniform_(one),
        lambda: i.kaiming_normal_(one),
        lambda: i.kaiming_uniform_(two, mode="x"),
        lambda: i.eye_(one),
        lambda: i.dirac_(two),
        lambda: i.dirac_(m.empty(3, 1, 1), 2),
        lambda: i.orthogonal_(one),
        lambda: i.sparse_(one, 0.5),
        lambda: i.uniform_(two, 2, 1),
    ]
    return [attempt(t) for t in tries]


@program
def former_names(m):
    t = m.empty(2, 2)
    m.manual_seed(0)
    return m.nn.init.uniform(t), m.nn.init.xavier_normal.__name__, quietly(lambda: m.nn.init.eye(t))


@program
def generators(m):
    t = m.empty(2, 3)
    g = m.Generator()
    seen = []
    for name in ("uniform_", "normal_", "xavier_uniform_", "kaiming_normal_", "orthogonal_", "trunc_normal_"):
        g.manual_seed(4)
        seen.append(getattr(m.nn.init, name)(t, generator=g).clone())
    return seen


@program
def skipped(m):
    m.manual_seed(3)
    layer = m.nn.utils.skip_init(m.nn.Linear, 2, 3, dtype=m.float64)
    return (
        layer.weight.shape,
        str(layer.weight.dtype),
        m.rand(2),
        attempt(lambda: m.nn.utils.skip_init(m.nn.ReLU)),
        attempt(lambda: m.nn.utils.skip_init(int)),
    )
