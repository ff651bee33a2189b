"""What normalisations save: the order in which pack hooks see it, its place in the graph, who may write to it."""

from __future__ import annotations

import itertools
import math

from tests.engine.helpers import Programs
from tests.programs import complaint

program = Programs()
test_same_as_torch = program.test()


def _tensor(m, *shape, grad=True):
    flat = m.arange(1, 1 + math.prod(shape), dtype=m.float64).sin()
    return flat.reshape(shape).requires_grad_(grad)


def _saved(m, run):
    """What pack hooks see, and the tensors that the node shows."""
    seen = []

    def pack(t):
        seen.append((list(t.shape), t.requires_grad, t.grad_fn and t.grad_fn.name(), t._version))
        return t

    with m.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        node = run().grad_fn
    while node.name().startswith("View"):
        node = node.next_functions[0][0]
    shown = {name: getattr(node, name) for name in dir(node) if name.startswith("_saved_")}
    tensors = {k: (t, t.requires_grad, t.is_leaf) for k, t in shown.items() if isinstance(t, m.Tensor)}
    return seen, sorted(shown), tensors, [k for k, t in shown.items() if t is None]


def _which():
    """Which of input, weight and bias require a gradient, and which there are."""
    yield True, None, None
    yield True, True, None
    yield from (w for w in itertools.product((True, False), repeat=3) if any(w))


def _given(m, n, *flags):
    return [None if f is None else _tensor(m, n, grad=f) for f in flags]


@program
def of_batches(m):
    found = []
    for training in (True, False):
        for x, w, b in _which():
            mean, var = m.zeros(3, dtype=m.float64), m.ones(3, dtype=m.float64)
            given = (_tensor(m, 4, 3, grad=x), mean, var, *_given(m, 3, w, b), training)
            found.append(_saved(m, lambda given=given: m.nn.functional.batch_norm(*given)))
    x = _tensor(m, 4, 3)
    found.append(_saved(m, lambda: m.nn.functional.batch_norm(x, None, None, training=True)))
    return found


@program
def of_instances(m):
    found = []
    for by_input in (True, False):
        for w, b in ((None, None), (True, True)):
            mean, var = m.zeros(3, dtype=m.float64), m.ones(3, dtype=m.float64)
            given = (_tensor(m, 2, 3, 4), mean, var, *_given(m, 3, w, b), by_input)
            found.append(_saved(m, lambda given=given: m.nn.functional.instance_norm(*given)))
    x = _tensor(m, 2, 3, 4)
    found.append(_saved(m, lambda: m.nn.functional.instance_norm(x)))
    return found


@program
def of_layers_and_groups(m):
    found = []
    for x, w, b in _which():
        given = (_tensor(m, 4, 6, grad=x), (6,), *_given(m, 6, w, b))
        found.append(_saved(m, lambda given=given: m.nn.functional.layer_norm(*given)))
        given = (given[0], 2, *given[2:])
        found.append(_saved(m, lambda given=given: m.nn.functional.group_norm(*given)))
    return found


@program
def written_before_the_pass(m):
    found = []
    for training in (True, False):
        for name in ("running_mean", "running_var", "weight", "bias"):
            bn = m.nn.BatchNorm1d(3, dtype=m.float64).train(training)
            y = bn(_tensor(m, 4, 3)).sum()
            with m.no_grad():
                getattr(bn, name).zero_()
            found.append(complaint(y.backward))
    return found


@program
def gradients_and_those_of_gradients(m):
    found = []
    for training in (True, False):
        for x, w, b in _which():
            mean, var = m.zeros(3, dtype=m.float64), m.ones(3, dtype=m.float64)
            given = [_tensor(m, 4, 3, grad=x), mean, var, *_given(m, 3, w, b)]
            inputs = [t for t in given if t is not None and t.requires_grad]
            runs = (
                m.nn.functional.batch_norm(*given, training),
                m.nn.functional.layer_norm(given[0], (3,), *given[3:]),
                m.nn.functional.group_norm(given[0], 1, *given[3:]),
            )
            for y in runs:
                grads = m.autograd.grad((y * y.sin()).sum(), inputs, create_graph=True)
                again = m.autograd.grad(sum((g * g).sum() for g in grads), inputs, allow_unused=True)
                found.append([t if t is None else t.detach() for t in (*grads, *again)])
    return found


@program
def statistics_that_are_returned(m):
    x = _tensor(m, 4, 6)
    mean, var = m.zeros(6, dtype=m.float64), m.ones(6, dtype=m.float64)
    outs = (
        m.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5),
        m.native_batch_norm(x, None, None, mean, var, False, 0.1, 1e-5),
        m.native_layer_norm(x, (6,), None, None, 1e-5),
        m.native_group_norm(x, None, None, 4, 6, 1, 2, 1e-5),
    )
    return [(t, t.requires_grad, t._is_view(), t._version, t.output_nr) for out in outs for t in out]


@program
def hooks_of_the_node(m):
    found = []
    for run in (
        lambda x: m.nn.functional.batch_norm(x, None, None, training=True),
        lambda x: m.nn.functional.layer_norm(x, (3,)),
        lambda x: m.nn.functional.group_norm(x, 1),
    ):
        y = run(_tensor(m, 4, 3))
        y.grad_fn.register_prehook(lambda g: found.append(len(g)))
        y.grad_fn.register_hook(lambda i, o: found.append((len(i), len(o))))
        (y * y).sum().backward()
    return found
