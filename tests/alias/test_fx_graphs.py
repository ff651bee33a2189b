"""What graphs of torch.fx guarantee, against torch: fixed arguments, errors with names, side effects that stay."""

import copy
import math
import operator
import pickle

from tests.engine.helpers import Programs, attempt

PROGRAMS = Programs()


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
