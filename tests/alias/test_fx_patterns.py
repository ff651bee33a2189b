"""torch.fx.replace_pattern: which calls are replaced and by what, against torch."""

import importlib

import pytest

import torchgrad_jax as tg
from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()


def rewriter(m):
    return importlib.import_module(f"{m.__name__}.fx.subgraph_rewriter")


def replaced(m, fn, pattern, replacement, *args):
    """The calls of the graph afterwards, what it gives, and how many places were replaced."""
    gm = m.fx.symbolic_trace(fn)
    found = m.fx.replace_pattern(gm, pattern, replacement)
    gm.graph.lint()
    calls = [(n.op, n.name, str(n.args), str(n.kwargs)) for n in gm.graph.nodes]
    places = [(f.anchor.name, {p.name: str(g) for p, g in f.nodes_map.items()}) for f in found]
    return calls, places, gm(*args)


@program
def all_places(m):
    def fn(x, a, b):
        return x + m.max(m.cat([a, b]).sum()) + m.max(m.cat([b, a]).sum())

    args = m.ones(2), m.tensor([1.0, 5.0]), m.tensor([2.0, 3.0])
    return replaced(m, fn, lambda a, b: m.cat([a, b]), lambda a, b: m.stack([a, b]) * 2, *args)


@program
def chains_replaced_in_turn(m):
    x = m.tensor([0.5, -1.0])
    return replaced(m, lambda x: m.relu(m.relu(m.relu(x) + 1) + 1), lambda a: m.relu(a) + 1, lambda a: m.sin(a) + 1, x)


@program
def overlapping_places(m):
    return replaced(m, lambda x: m.neg(m.neg(m.neg(x))), lambda a: m.neg(m.neg(a)), lambda a: m.abs(a), m.ones(2))


@program
def what_is_used_elsewhere_stays(m):
    def fn(x):
        y = m.sin(x)
        return m.cos(y) + y

    return replaced(m, fn, lambda a: m.cos(m.sin(a)), lambda a: a * 2, m.ones(2))


@program
def constants_have_to_be_equal(m):
    def fn(x):
        return m.sum(x + 1, dim=0) + m.sum(x + 2, dim=0) + m.sum(x + 1.0, dim=0) + m.sum(x + 1)

    return replaced(m, fn, lambda a: m.sum(a + 1, dim=0), lambda a: m.mean(a, dim=0), m.ones(2))


@program
def arguments_stand_for_constants_too(m):
    return replaced(m, lambda x: m.add(x, 3), lambda a, b: m.add(a, b), lambda a, b: m.mul(a, b), m.ones(2))


@program
def one_argument_in_two_places(m):
    def fn(x, y):
        return m.mul(x, x) + m.mul(x, y)

    return replaced(m, fn, lambda a: m.mul(a, a), lambda a: m.square(a) * 10, m.ones(2), m.ones(2))


@program
def several_results(m):
    def fn(x, y):
        a, b = m.sin(x), m.cos(x)
        return a + b * y

    return replaced(m, fn, lambda x: (m.sin(x), m.cos(x)), lambda x: (x * 2, x * 3), m.ones(2), m.ones(2))


@program
def methods_and_the_end_of_the_graph(m):
    return replaced(m, lambda x: (x + 1).view(2, 1), lambda a: a.view(2, 1), lambda a: a.reshape(1, 2).t(), m.ones(2))


@program
def nothing_found(m):
    return replaced(m, lambda x: m.sin(x), lambda a: m.cos(a), lambda a: m.tan(a), m.ones(2))


@program
def modules(m):
    class Net(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.act, self.scale = m.nn.ReLU(), m.nn.Parameter(m.tensor(2.0))

        def forward(self, x):
            return self.act(x) * self.scale

    class New(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.other, self.shift = m.nn.Tanh(), m.nn.Parameter(m.tensor(0.5))

        def forward(self, x):
            return self.other(x) + self.shift

    class Act(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = m.nn.ReLU()

        def forward(self, x):
            return self.act(x)

    gm = m.fx.symbolic_trace(Net())
    found = m.fx.replace_pattern(gm, m.fx.symbolic_trace(Act()), m.fx.symbolic_trace(New()))
    names = sorted(n for n, _ in gm.named_parameters()), sorted(n for n, _ in gm.named_children())
    return len(found), names, gm(m.tensor([-1.0, 2.0])).detach()


@program
def filters_and_callbacks(m):
    def make(match, graph, pattern):
        g = m.fx.Graph()
        x = g.placeholder("x")
        g.output(g.call_function(m.add, (x, len(match.placeholder_nodes))))
        return g

    def fn(x):
        return m.mul(m.relu(x), 2) + m.mul(m.sin(x), 3)

    r, counts, values = rewriter(m), [], []
    only_relu = [lambda match, graph, pattern: match.placeholder_nodes[0].target is m.relu]
    options = (
        {"replacement": lambda a: a * 5, "match_filters": only_relu},
        {"replacement": lambda a: a * 5, "ignore_literals": True},
        {"replacement_callback": make},
    )
    for given in options:
        gm = m.fx.symbolic_trace(fn)
        found = r.replace_pattern_with_filters(gm, lambda a: m.mul(a, 2), **given)
        counts.append([[n.name for n in f.replacements] for f in found])
        values.append(gm(m.tensor([1.0, 2.0])))
    return counts, values


@program
def errors(m):
    gm = m.fx.symbolic_trace(lambda x, y: m.relu(x) + y)
    r = rewriter(m)
    calls = (
        lambda: m.fx.replace_pattern(gm, lambda a, b: m.relu(a), lambda a, b: a),
        lambda: m.fx.replace_pattern(gm, lambda a: m.relu(a), lambda a, b: a + b),
        lambda: m.fx.replace_pattern(gm, lambda a: m.relu(a), lambda a: (a * 2, a * 3)),
        lambda: r.replace_pattern_with_filters(gm, lambda a: m.relu(a)),
        lambda: m.fx.replace_pattern(gm, m.fx.Graph(), lambda a: a),
    )
    return [complaint(call) for call in calls], gm(m.ones(1), m.ones(1))


def test_a_pattern_without_calls_is_refused():
    gm = tg.fx.symbolic_trace(lambda x: tg.relu(x))
    with pytest.raises(AssertionError, match="returns an argument as it is"):
        tg.fx.replace_pattern(gm, lambda a: a, lambda a: a)
    assert gm.code.count("relu") > 0
