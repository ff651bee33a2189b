"""torch.fx against torch: the nodes, the code, what happens when a graph is changed."""

import copy
import operator
import pickle

import pytest

import torchgrad_jax as tg
from tests.engine.helpers import Programs, attempt

PROGRAMS = Programs()


def listed(graph):
    """A graph as data: what each node does, on what, and for whom."""
    return [
        (
            n.op,
            n.name,
            n.target if isinstance(n.target, str) else n.target.__name__,
            str(n.args),
            str(n.kwargs),
            [u.name for u in n.users],
        )
        for n in graph.nodes
    ]


def network(m):
    class Inner(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.line = m.nn.Linear(4, 4)
            self.w = m.nn.Parameter(m.ones(4))

        def forward(self, x):
            return m.relu(self.line(x)) * self.w

    class Net(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()
            self.rest = m.nn.Sequential(m.nn.Linear(4, 3), m.nn.ReLU())
            self.register_buffer("b", m.arange(3.0))
            self.t = m.ones(3)

        def forward(self, x, scale=1.5, *, flag=True):
            y = self.inner(x)
            y = y.view(y.shape[0], -1).contiguous()
            z = self.rest(y) + self.b * scale + self.t
            z = m.nn.functional.relu(z, inplace=False)
            a, b = m.max(z, 1)[0], z.sum(dim=1)
            c = 2 * (m.cat([a, b]) if flag else a) - 1
            c = (-c)[0:2].clamp(min=0.1) ** 2
            return {"out": c, "rest": (z.mean(), ~(y > 0), y[:, None, ...], m.ones(2) * 3 @ b)}

    m.manual_seed(0)
    return Net()


@PROGRAMS
def values_that_are_unpacked(m):
    def pairs(x):
        a, (b, c, d) = x.chunk(2)
        for part in ():
            a = part
        return a + b * c - d

    def rest(x):
        a, *b = x
        return a, b

    def loop(x):
        return [m.sin(y) for y in x]

    traced = m.fx.symbolic_trace(pairs)
    return (
        listed(traced.graph),
        traced.code,
        attempt(lambda: m.fx.symbolic_trace(rest)),
        attempt(lambda: m.fx.symbolic_trace(loop)),
        attempt(lambda: m.fx.symbolic_trace(lambda x: m.add(*x))),
    )


@PROGRAMS
def functions_that_torch_has_in_python(m):
    def f(x):
        return m.einsum("ij,ij->i", x, x) + m.functional.atleast_1d(m.istft(x, 4)).sum()

    graph = m.fx.symbolic_trace(f).graph
    homes = [getattr(m, n).__module__.split(".")[1:] for n in ("einsum", "norm", "unique", "split", "istft")]
    return m.fx.symbolic_trace(f).code, [n.format_node() for n in graph.nodes], homes


@PROGRAMS
def a_module(m):
    net = network(m)
    traced = m.fx.symbolic_trace(net, concrete_args={"flag": True})
    x = m.ones(2, 4)
    want, got = net(x), traced(x)
    return [
        listed(traced.graph),
        traced.code,
        str(traced.graph),
        str(traced),
        type(traced).__name__,
        sorted(traced.state_dict()),
        m.equal(want["out"], got["out"]),
        m.equal(want["rest"][2], got["rest"][2]),
        traced.training,
        isinstance(traced, m.fx.GraphModule),
        attempt(lambda: traced(x, 1.5, False)),
    ]


@PROGRAMS
def leaves_of_a_users_choice(m):
    class Tracer(m.fx.Tracer):
        def is_leaf_module(self, module, name):
            return name == "inner" or super().is_leaf_module(module, name)

    graph = Tracer().trace(network(m), {"flag": False})
    return listed(graph), m.fx.symbolic_trace(m.nn.Sequential(m.nn.ReLU(), m.nn.Sequential(m.nn.Tanh()))).code


@PROGRAMS
def a_function(m):
    def f(x: m.Tensor, n: int = 3) -> m.Tensor:  # type: ignore[valid-type]
        return m.sin(x.mul(n)).T.to(m.float64) + x.size(0)

    traced = m.fx.symbolic_trace(f)
    return traced.code, traced(m.ones(2, 2)), type(traced).__name__


@PROGRAMS
def any_number_of_arguments(m):
    def f(x, *args, k=2, **kw):
        return m.cat([x, args[0]]) * k + kw["b"]

    return listed(m.fx.symbolic_trace(f).graph)


@PROGRAMS
def changing_a_graph(m):
    traced = m.fx.symbolic_trace(lambda x, y: m.sin(x) + y.cos().sum(-1, keepdim=True))
    graph = traced.graph
    for node in graph.nodes:
        if node.target is m.sin:
            node.target = m.cos
        if node.op == "call_method" and node.target == "cos":
            with graph.inserting_after(node):
                new = graph.call_function(m.tanh, (node,))
            users = node.replace_all_uses_with(new)
            new.args = (node,)
    with graph.inserting_before(graph.output_node()):
        graph.call_function(m.neg, (new,))
    before = len(graph.nodes)
    dead = graph.eliminate_dead_code()
    graph.lint()
    traced.recompile()
    x = m.ones(2, 2)
    refused = attempt(lambda: graph.erase_node(next(iter(graph.nodes))))
    return ([u.name for u in users], before, dead, len(graph.nodes), traced.code, traced(x, x), refused)


@PROGRAMS
def places_of_new_nodes(m):
    def order(how):
        graph = m.fx.Graph()
        x = graph.placeholder("x")
        out = graph.output(graph.call_function(m.sin, (x,)))
        how(graph, x, out)
        return [n.name for n in graph.nodes]

    def two(graph, x):
        graph.call_function(m.cos, (x,))
        graph.call_function(m.tan, (x,))

    def inside(place, at):
        def how(graph, x, out):
            with getattr(graph, place)({"x": x, "out": out, "none": None}[at]):
                two(graph, x)
            graph.call_function(m.exp, (x,))

        return how

    def without_with(graph, x, out):
        graph.inserting_after(x)
        two(graph, x)

    def of_another_graph(graph, x, out):
        graph.inserting_before(m.fx.Graph().placeholder("y"))

    return [
        order(inside(place, at)) for place in ("inserting_before", "inserting_after") for at in ("x", "out", "none")
    ] + [order(without_with), attempt(lambda: order(of_another_graph))]


@PROGRAMS
def a_graph_by_hand(m):
    graph = m.fx.Graph()
    a = graph.placeholder("a")
    added = graph.call_function(operator.add, (a, graph.get_attr("w")))
    graph.output(graph.call_module("line", (added,)))
    root = m.nn.Module()
    root.w, root.line = m.nn.Parameter(m.ones(3)), m.nn.Linear(3, 2)
    made = m.fx.GraphModule(root, graph, "Mine")
    other = m.fx.Graph()
    x = other.placeholder("x")
    y = other.call_function(m.sin, (x,))
    other.output(y)
    proxy = m.fx.Proxy(x)
    with other.inserting_before(y):
        z = (proxy + 1).relu()
    y.args = (z.node,)
    return [
        made.code,
        str(made),
        made(m.ones(3)).shape,
        str(graph),
        str(other),
        str(z),
        y.all_input_nodes[0].name,
        y.next.op,
        y.prev.name,
        attempt(lambda: m.fx.GraphModule({}, graph)),
        attempt(lambda: graph.create_node("no", "x")),
        attempt(lambda: graph.call_function("x")),
    ]


@PROGRAMS
def names(m):
    graph = m.fx.Graph()
    wanted = ("a", "a", "a_1", "a_1", "a_5", "a_5", "a", "sum", "sum_1", "1x", "x.y", "for", "torch", "x y", "seq_0",
              "seq_0", "", "_", "relu_", "relu_", "a_01", "a_01", "input", "b_3", "b", "b", "b")  # fmt: skip
    found = [graph.create_node("call_function", m.sin, name=n).name for n in wanted]
    found += [graph.call_method(n, ()).name for n in ("relu_", "__add__", "view")]
    found += [graph.placeholder(n).name for n in ("X", "*args", "**kw", "inputBatch")]
    return found + [graph.get_attr(n).name for n in ("l1.weight", "Conv2d")]


@PROGRAMS
def functions_of_namespaces_carry_their_names(m):
    def f(x):
        y = m.linalg.norm(x) + m.special.expit(x) + m.special.erf(x) + m.erf(x) + m.linalg.matmul(x, x)
        return m.fft.fft(y), m.fft.fftn(y), m.linalg.vector_norm(x, ord=2), m.special.softmax(y, 0)

    traced = m.fx.symbolic_trace(f)
    functions = (m.linalg.norm, m.fft.fft, m.special.expit, m.special.gammaln, m.linalg.inv, m.fft.fftfreq)
    return (
        listed(traced.graph),
        traced.code,
        [(fn.__name__, fn.__qualname__.rpartition(".")[2], fn.__module__.partition(".")[2]) for fn in functions],
        [m.overrides.resolve_name(fn) for fn in functions[:-1]],
        [pickle.loads(pickle.dumps(fn)) is fn for fn in functions],
        traced(m.eye(2))[2],
    )


@PROGRAMS
def what_cannot_be_recorded(m):
    def branch(x):
        return x if x.sum() > 0 else -x

    return [attempt(lambda f=f: m.fx.symbolic_trace(f)) for f in (branch, lambda x: list(x), lambda x: len(x))]


@PROGRAMS
def node_by_node(m):
    traced = m.fx.symbolic_trace(lambda x, y: m.sin(x) + y.shape[0])
    seen = []

    class Watch(m.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            seen.append(target.__name__)
            return super().call_function(target, args, kwargs)

    class Swap(m.fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(m.cos if target is m.sin else target, args, kwargs)

    x = m.ones(2)
    return [Watch(traced).run(x, x), seen, Swap(traced).transform().code, Swap(traced).transform()(x, x)]


@PROGRAMS
def copies_and_submodules(m):
    traced = m.fx.symbolic_trace(network(m), concrete_args={"flag": True})
    again = copy.deepcopy(traced)
    again.add_submodule("extra.relu", m.nn.ReLU())
    there = hasattr(again, "extra")
    again.delete_all_unused_submodules()
    line = again.graph.find_nodes(op="call_module", target="inner.line")[0]
    line.replace_all_uses_with(line.args[0])
    again.graph.erase_node(line)
    again.recompile()
    return (again.code == traced.code, there, hasattr(again, "extra"), str(again), again(m.ones(2, 4))["out"])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_torch(program, same):
    same(program)


def doubled(x):
    return x + x if x.sum() > 0 else x


tg.fx.wrap("doubled")


def test_a_wrapped_function_is_a_node():
    traced = tg.fx.symbolic_trace(lambda x: doubled(x) * 2)
    assert [n.name for n in traced.graph.nodes] == ["x", "doubled", "mul", "output"]
    assert traced(tg.ones(2)).tolist() == [4.0, 4.0]
    assert doubled(tg.ones(1)).item() == 2.0  # as it was, outside of tracing


def test_pickles():
    traced = tg.fx.symbolic_trace(tg.nn.Sequential(tg.nn.Linear(2, 3), tg.nn.ReLU()))
    again = pickle.loads(pickle.dumps(traced))
    x = tg.ones(1, 2)
    assert again.code == traced.code
    assert tg.equal(again(x), traced(x))


def test_gradients_through_a_traced_module():
    net = tg.nn.Linear(2, 1)
    tg.fx.symbolic_trace(net)(tg.ones(1, 2)).sum().backward()
    assert net.weight.grad.tolist() == [[1.0, 1.0]]


def test_what_is_missing_says_so():
    with pytest.raises(AttributeError, match=r"does not implement torch\.fx\.compatibility"):
        tg.fx.compatibility
