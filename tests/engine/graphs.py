"""Small graphs: `make(m)` gives (roots, gradients of the roots, leaves).

Compared with torch for what accumulation leaves behind (values and strides of each ``.grad``),
and with each other when the engine takes different ways through them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.engine.helpers import leaf

Graph = Callable[[Any], tuple[list[Any], list[Any], list[Any]]]


def one(shape: tuple[int, ...], f: Callable[[Any, Any], Any], seed: bool = False) -> Graph:
    """A function of one leaf; its result is summed unless `seed` gives it a gradient of ones."""

    def make(m: Any) -> Any:
        x = leaf(m, *shape)
        out = f(m, x)
        if seed or out.dim() == 0:
            return [out], [m.ones(out.shape) if out.dim() else None], [x]
        return [out.sum()], [None], [x]

    return make


def two(a: tuple[int, ...], b: tuple[int, ...], f: Callable[[Any, Any, Any], Any], seed: bool = False) -> Graph:
    """The same of two leaves."""

    def make(m: Any) -> Any:
        x, y = leaf(m, *a), leaf(m, *b, start=0.4, stop=1.9)
        out = f(m, x, y)
        if seed:
            return [out], [m.ones(out.shape)], [x, y]
        return [out if out.dim() == 0 else out.sum()], [None], [x, y]

    return make


def _linear(m: Any) -> Any:
    x, w, b = leaf(m, 3, 2), leaf(m, 4, 2), leaf(m, 4)
    return [m.nn.functional.linear(x, w, b).sigmoid().sum()], [None], [x, w, b]


def _transposed_leaf(m: Any) -> Any:
    y = leaf(m, 2, 3, requires_grad=False).t().detach().requires_grad_()
    return [(y * 2).sum()], [None], [y]


def _strided_leaf(m: Any) -> Any:
    y = leaf(m, 3, 4, requires_grad=False)[:, ::2].detach().requires_grad_()
    return [(y * 2).sum()], [None], [y]


def _two_roots(m: Any) -> Any:
    x = leaf(m, 3)
    y = x * 2
    return [y.sum(), (y * x).sum()], [None, None], [x]


def _same_root_twice(m: Any) -> Any:
    x = leaf(m, 3)
    y = (x * x).sum()
    return [y, y], [m.tensor(1.0), m.tensor(10.0)], [x]


def _root_inside_another(m: Any) -> Any:
    x = leaf(m, 3)
    y = x.exp()
    return [y, y.sin().sum()], [m.ones(3), None], [x]


def _leaf_as_root(m: Any) -> Any:
    x = leaf(m, 3)
    return [x, x.sum()], [m.ones(3), None], [x]


def _setitem(m: Any, x: Any) -> Any:
    y = x.clone()
    y[0] = 1
    return y


def _mul_in_place(m: Any, x: Any) -> Any:
    return x.clone().mul_(2)


def _copy_slices(m: Any, x: Any) -> Any:
    y = x * 1
    y[0].mul_(2)
    return y.exp()


def _recurrence(m: Any) -> Any:
    x, w, h = leaf(m, 2, 3), leaf(m, 3, 3), leaf(m, 2, 3)
    state = h
    for _ in range(12):
        state = (state @ w + x).tanh()
    return [state.sum()], [None], [x, w, h]


def _dag(m: Any) -> Any:
    x, y = leaf(m, 4), leaf(m, 4, start=0.5)
    nodes = [x, y]
    for i in range(20):
        a, b = nodes[(i * 7) % len(nodes)], nodes[(i * 5 + 1) % len(nodes)]
        nodes.append([a * b, a + b, a - b.exp() * 0.01, (a * 0.5).sin()][i % 4])
    return [sum(nodes[-5:]).sum()], [None], [x, y]


GRAPHS: dict[str, Graph] = {
    "clone": one((3,), lambda m, x: x.clone(), True),
    "add_sum": two((3,), (3,), lambda m, x, y: x + y),
    "add": two((3,), (3,), lambda m, x, y: x + y, True),
    "mul_add": two((3,), (3,), lambda m, x, y: x * 2 + y * 2, True),
    "sum": one((3,), lambda m, x: x.sum()),
    "mul_sum": one((3,), lambda m, x: x * 2),
    "view_mul": one((3, 2), lambda m, x: x.view(6).mul(2)),
    "view_twice": one((3, 2), lambda m, x: x.view(6) * 2 + x.view(6)),
    "t_mul": one((3, 2), lambda m, x: x.t().mul(leaf(m, 2, 3, requires_grad=False))),
    "t_mul_number": one((3, 2), lambda m, x: x.t() * 2),
    "select": one((3, 2), lambda m, x: x[0]),
    "select_twice": one((3, 2), lambda m, x: x[0] * x[1]),
    "select_seed": one((3, 2), lambda m, x: x.select(0, 1), True),
    "square": one((3, 2), lambda m, x: x * x),
    "double_sum": one((3, 2), lambda m, x: x + x),
    "double": one((3, 2), lambda m, x: x + x, True),
    "late_sum": one((3, 2), lambda m, x: x * 2 + x, True),
    "early_sum": one((3, 2), lambda m, x: x + x * 2, True),
    "difference": one((3, 2), lambda m, x: x - x.exp(), True),
    "expand": one((3, 1), lambda m, x: x.expand(3, 2) * leaf(m, 3, 2, requires_grad=False)),
    "broadcast": one((3, 1), lambda m, x: x * leaf(m, 3, 2, requires_grad=False)),
    "matmul": two((3, 2), (4, 2), lambda m, x, w: x @ w.t()),
    "matmul_exp": two((3, 2), (4, 2), lambda m, x, w: (x @ w.t()).exp()),
    "linear": _linear,
    "permute_exp": one((3, 2), lambda m, x: x.permute(1, 0).exp(), True),
    "reshape_exp": one((3, 2), lambda m, x: x.reshape(2, 3).exp(), True),
    "copying_reshape": one((3, 2), lambda m, x: x.transpose(0, 1).reshape(6).exp(), True),
    "sum_of_a_dim": one((3, 2), lambda m, x: x.sum(0).exp()),
    "mean": one((3, 2), lambda m, x: x.mean()),
    "cat": one((3, 2), lambda m, x: m.cat([x, x]).exp()),
    "stack": one((3, 2), lambda m, x: m.stack([x, x]).exp()),
    "unsqueeze": one((3, 2), lambda m, x: x.unsqueeze(0).exp()),
    "to_double": one((3, 2), lambda m, x: x.double().exp()),
    "index": one((3, 2), lambda m, x: x[m.tensor([0, 1])].exp()),
    "neg": one((3, 2), lambda m, x: x.neg(), True),
    "setitem": one((3, 2), _setitem, True),
    "mul_in_place": one((3, 2), _mul_in_place, True),
    "copy_slices": one((3, 2), _copy_slices, True),
    "chunk": one((3, 2), lambda m, x: (lambda a, b: a * b)(*x.chunk(2, 1))),
    "unbind": one((3, 2), lambda m, x: (lambda a, b, c: a * b * c)(*x)),
    "diagonal": one((3, 2), lambda m, x: x.diagonal() * 2),
    "leaf_itself": one((3, 2), lambda m, x: x, True),
    "outer": two((3, 1), (1, 2), lambda m, x, y: x * y),
    "slices": one((4,), lambda m, x: x[:2] * x[2:]),
    "as_strided": one((4,), lambda m, x: x.as_strided((2,), (2,)) * 2),
    "relu": one((4,), lambda m, x: x.relu()),
    "pow": one((4,), lambda m, x: x.pow(2)),
    "div": one((4,), lambda m, x: x / 2),
    "logsumexp": one((4,), lambda m, x: x.logsumexp(0)),
    "softmax": one((4,), lambda m, x: x.softmax(0) * leaf(m, 4, requires_grad=False)),
    "cumsum": one((4,), lambda m, x: x.cumsum(0)),
    "prod": one((4,), lambda m, x: x.prod()),
    "var": one((4,), lambda m, x: x.var()),
    "gather": one((4,), lambda m, x: x.gather(0, m.tensor([0, 1]))),
    "where": one((4,), lambda m, x: m.where(x > 0, x, 0.0)),
    "clamp": one((4,), lambda m, x: x.clamp(0)),
    "roll": one((4,), lambda m, x: x.roll(1)),
    "flip": one((4,), lambda m, x: x.flip(0)),
    "norm": one((4,), lambda m, x: x.norm() * x),
    "two_outputs": one((2, 3), lambda m, x: (lambda r: r[0] * x[:, 0] + r[1])(m.var_mean(x, 1))),
    "transposed_leaf": _transposed_leaf,
    "strided_leaf": _strided_leaf,
    "two_roots": _two_roots,
    "same_root_twice": _same_root_twice,
    "root_inside_another": _root_inside_another,
    "leaf_as_root": _leaf_as_root,
    "recurrence": _recurrence,
    "dag": _dag,
}
