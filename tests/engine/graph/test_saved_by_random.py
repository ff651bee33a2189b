"""What random layers save: their factors, as often written to as torch does, and the numbers they were drawn with."""

from __future__ import annotations

from tests.engine.helpers import Programs

program = Programs()
test_same_as_torch = program.test()


def _nodes(m, node):
    """Names and saved values of a node and of its first ancestors."""
    found = []
    for _ in range(3):
        if node is None or node.name().endswith("AccumulateGrad"):
            break
        shown = {k: getattr(node, k) for k in sorted(dir(node)) if k.startswith("_saved_")}
        found.append(
            (node.name(), {k: (list(v.shape), v._version) if isinstance(v, m.Tensor) else v for k, v in shown.items()})
        )
        node = node.next_functions[0][0]
    return found


def _input(m):
    return m.arange(-6.0, 6.0).reshape(4, 3).requires_grad_() * 1


@program
def factors_of_dropout(m):
    fn, found = m.nn.functional, []
    for p in (0.3, 1.0):
        for inplace in (False, True):
            runs = (fn.dropout, fn.alpha_dropout, fn.feature_alpha_dropout)
            found += [_nodes(m, run(_input(m), p, True, inplace).grad_fn) for run in runs]
        found.append(_nodes(m, fn.dropout2d(_input(m)[None, None], p).grad_fn))
    return found


def _rectified(m):
    """Inputs and results of `rrelu`, in place and not, with slopes that are drawn and with their mean."""
    for run in (m.nn.functional.rrelu, m.nn.functional.rrelu_):
        for training in (True, False):
            m.manual_seed(3)
            x = m.arange(-6.0, 6.0).reshape(4, 3).requires_grad_()
            yield x, run(x * 1, 0.2, 0.6, training)


@program
def slopes_of_rrelu(m):
    found = []
    for x, y in _rectified(m):
        found.append(_nodes(m, y.grad_fn)[0])
        (y * y).sum().backward()
        found.append((y, x.grad))
    return found


@program
def slopes_of_rrelu_twice(m):
    found = []
    for x, y in _rectified(m):
        (g,) = m.autograd.grad((y * y * y).sum(), x, create_graph=True)
        found.append((g.detach(), m.autograd.grad(g.sum(), x)))
    return found
