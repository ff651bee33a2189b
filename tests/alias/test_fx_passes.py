"""What is done with graphs of torch.fx, against torch: patterns replaced, modules split, passes run in order."""

import copy
import math
import operator
import pickle

from tests.engine.helpers import Programs, attempt

PROGRAMS = Programs()


@PROGRAMS
def patterns_are_replaced(m):
    fx = m.fx

    def twice(x, w1, w2):
        a, b = m.cat([w1, w2]).sum(), m.cat([w1, w2]).sum()
        return x + m.max(a) + m.max(b)

    traced = fx.symbolic_trace(twice)
    found = fx.replace_pattern(traced, lambda a, b: m.cat([a, b]).sum(), lambda a, b: m.stack([a, b]))
    seen = [traced.code, [(str(f.anchor), str(f.nodes_map)) for f in found]]
    cases = [
        (lambda x: m.neg(x) + m.relu(m.neg(x)), lambda x: m.neg(x), lambda x: m.abs(x)),
        (lambda x: m.neg(m.neg(m.neg(x))), lambda x: m.neg(m.neg(x)), lambda x: m.abs(x)),
        (lambda x, y: (x * y + y, x * y), lambda a, b: a * b + b, lambda a, b: m.addcmul(b, a, b)),
        (lambda x: (m.sin(x), m.sin(x) + 1), lambda x: m.sin(x) + 1, lambda x: m.cos(x)),
        (lambda x: m.sum(m.relu(x), dim=1), lambda x, d: m.sum(x, dim=d), lambda x, d: m.mean(x, dim=d)),
        (lambda x: (x + 1) * (x + 2), lambda x: x + 2, lambda x: x - 2),
        (lambda x: m.relu(x) + m.relu(x), lambda x: m.tanh(x), lambda x: x),
        (
            lambda x, y: m.add(x, y) * m.sub(x, y),
            lambda x, y: (m.add(x, y), m.sub(x, y)),
            lambda x, y: (m.mul(x, y), m.div(x, y)),
        ),
    ]
    for program, pattern, replacement in cases:
        traced = fx.symbolic_trace(program)
        found = fx.replace_pattern(traced, pattern, replacement)
        seen += [len(found), traced.code]
    return seen


@PROGRAMS
def submodules_of_a_replacement_come_along(m):
    class Pattern(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.c, self.r = m.nn.Linear(2, 2), m.nn.ReLU()

        def forward(self, x):
            return self.r(self.c(x))

    class Replacement(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.other = m.nn.Linear(2, 2)
            self.w = m.nn.Parameter(m.ones(2))

        def forward(self, x):
            return m.sigmoid(self.other(x)) * self.w

    class Net(Pattern):
        def forward(self, x):
            return self.r(self.c(x)) * 2

    traced = m.fx.symbolic_trace(Net())
    found = m.fx.replace_pattern(traced, Pattern(), Replacement())
    names = [n for n, _ in traced.named_modules()], [n for n, _ in traced.named_parameters()]
    return len(found), traced.code, names, traced(m.ones(1, 2)).shape


@PROGRAMS
def replacements_have_filters(m):
    rewriter = m.fx.subgraph_rewriter
    pattern, replacement = lambda x: m.neg(x), lambda x: m.abs(x)
    seen = []
    for filters in ([lambda match, o, p: False], [lambda match, o, p: len(match.nodes_map) == 2]):
        traced = m.fx.symbolic_trace(lambda x: m.neg(m.sin(m.neg(x))))
        options = {"match_filters": filters}
        found = rewriter.replace_pattern_with_filters(traced, pattern, replacement, **options)
        seen += [len(found), [str(f.replacements) for f in found], traced.code]
    traced = m.fx.symbolic_trace(lambda x: x + 3)
    for ignore in (False, True):
        found = rewriter.replace_pattern_with_filters(traced, lambda x: x + 1, lambda x: x - 1, ignore_literals=ignore)
        seen += [len(found), traced.code]
    return seen


@PROGRAMS
def shapes_are_noted(m):
    from importlib import import_module

    shape_prop = import_module(f"{m.__name__}.fx.passes.shape_prop")
    traced = m.fx.symbolic_trace(lambda x, y: (m.relu(x @ y), x.shape[0], x.t()))
    x = m.ones(2, 3, requires_grad=True)
    shape_prop.ShapeProp(traced).propagate(x, m.ones(3, 4))
    return [(n.name, str(n.meta.get("tensor_meta")), n.meta["type"].__name__) for n in traced.graph.nodes]


@PROGRAMS
def modules_are_split(m):
    from importlib import import_module

    split = import_module(f"{m.__name__}.fx.passes.split_module").split_module

    class Net(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = m.nn.Sequential(m.nn.Linear(2, 2), m.nn.ReLU())
            self.w = m.nn.Parameter(m.ones(2))

        def forward(self, x, y=2.0):
            a = self.inner(x) + self.w
            b, c = a * y, m.sin(a)
            return {"b": b + c, "c": c}

    m.manual_seed(0)
    net = Net()
    seen = []
    for options in ({}, {"partition_affix": "p"}, {"tuple_return": True}, {"keep_original_node_name": True}):
        traced = m.fx.symbolic_trace(net)
        order = {n: i for i, n in enumerate(traced.graph.nodes)}
        names: dict = {}
        made = split(traced, None, lambda n, order=order: min(order[n] // 5, 1), names, **options)
        x = m.ones(1, 2)
        seen += [made.code, [(n, c.code) for n, c in made.named_children() if hasattr(c, "code")], names]
        seen += [bool((made(x)["b"] == net(x)["b"]).all()), sorted(n for n, _ in made.named_parameters())]
    return seen


@PROGRAMS
def a_circle_of_parts_is_refused(m):
    from importlib import import_module

    split = import_module(f"{m.__name__}.fx.passes.split_module").split_module
    traced = m.fx.symbolic_trace(lambda x: m.sin(m.cos(m.sin(x))))
    return attempt(lambda: split(traced, None, lambda n: n.name == "cos"))


@PROGRAMS
def passes_run_in_order(m):
    from importlib import import_module

    base = import_module(f"{m.__name__}.fx.passes.infra.pass_base")
    manager = import_module(f"{m.__name__}.fx.passes.infra.pass_manager")
    said = []

    class Swap(base.PassBase):
        def call(self, graph_module):
            changed = False
            for n in graph_module.graph.nodes:
                if n.target is m.add:
                    n.target, changed = m.mul, True
            return base.PassResult(graph_module, changed)

        def requires(self, graph_module):
            said.append("before")

        def ensures(self, graph_module):
            said.append("after")

    def other(gm):
        said.append("other")

    traced = m.fx.symbolic_trace(lambda x: m.add(x, 3))
    swap = Swap()
    wrapped = manager.pass_result_wrapper(other)
    constraint = manager.this_before_that_pass_constraint(wrapped, swap)
    found = manager.PassManager([swap, wrapped], [constraint], steps=2)(traced)
    late = manager.PassManager([swap, wrapped], [constraint])
    bad = manager.PassManager([lambda gm: 3])
    return [
        said,
        found.modified,
        found.graph_module.code,
        type(attempt(late.validate_constraints)).__name__,
        type(attempt(lambda: bad(traced))).__name__,
    ]


@PROGRAMS
def norms_are_folded_and_dropout_goes(m):
    from importlib import import_module

    optimization = import_module(f"{m.__name__}.fx.experimental.optimization")
    net = m.nn.Sequential(m.nn.Conv2d(1, 2, 3), m.nn.BatchNorm2d(2), m.nn.ReLU(), m.nn.Dropout()).eval()
    x = m.arange(16.0).view(1, 1, 4, 4)
    fused, without = optimization.fuse(net), optimization.remove_dropout(net)
    return [
        fused.code,
        without.code,
        bool((fused(x) - net(x)).abs().max() < 1e-5),
        bool((without(x) == net(x)).all()),
        type(net[1]).__name__,
    ]


@PROGRAMS
def arguments_cannot_be_changed_in_place(m):
    graph = m.fx.symbolic_trace(lambda x: m.cat([x, {"a": x}["a"]], dim=0)).graph
    node = list(graph.nodes)[1]
    held, named = node.args[0], node.kwargs
    copied = copy.deepcopy(node.args[0][:0])
    kinds = type(held).__name__, type(named).__name__, type(copied).__name__
    again = pickle.loads(pickle.dumps(m.fx.immutable_collections.immutable_list([1, 2])))
    return [
        kinds,
        again,
        type(again).__name__,
        isinstance(held, list),
        attempt(lambda: held.append(3)),
        attempt(lambda: named.update(a=1)),
        attempt(lambda: operator.setitem(held, 0, 1)),
    ]


@PROGRAMS
def errors_name_the_node(m):
    traced = m.fx.symbolic_trace(lambda x, y: m.relu(x @ y))

    class Broken(m.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            raise KeyError("nothing")

    quiet = m.fx.Interpreter(traced)
    quiet.extra_traceback = False
    return [
        attempt(lambda: m.fx.Interpreter(traced).run(m.ones(2))),
        attempt(lambda: Broken(traced).run(m.ones(2), m.ones(2))),
        attempt(lambda: quiet.run()),
    ]


@PROGRAMS
def functions_of_math_are_nodes(m):
    traced = m.fx.symbolic_trace(lambda x: abs(math.sqrt(x)) + math.floor(2.5))
    return traced.code, traced(4.0), math.sqrt(9.0), [n.name for n in traced.graph.nodes]


@PROGRAMS
def nodes_with_side_effects_stay(m):
    def note(x):
        return x

    marked = m.fx.node.has_side_effect(note)
    graph = m.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(note, (x,))
    graph.call_function(m.sin, (x,))
    before = attempt(graph.output_node)
    graph.output(x)
    return [marked is note, graph.eliminate_dead_code(), [n.name for n in graph.nodes], str(before)]


test_same_as_torch = PROGRAMS.test()
