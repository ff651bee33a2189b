"""In-place writes: versions, what autograd forbids, rebased histories, and the check at backward time."""

import pytest

import torchgrad_jax
from tests.differential import everything
from tests.engine.helpers import Programs, attempt, leaf, tree

OPERATIONS = {
    "add_": lambda m, y: y.add_(1),
    "add_alpha": lambda m, y: y.add_(m.ones(3), alpha=2),
    "sub_": lambda m, y: y.sub_(m.ones(2, 3)),
    "mul_self": lambda m, y: y.mul_(y),
    "div_": lambda m, y: y.div_(2),
    "iadd": lambda m, y: y.__iadd__(1.5),
    "imul": lambda m, y: y.__imul__(y),
    "exp_": lambda m, y: y.exp_(),
    "tanh_": lambda m, y: y.mul_(0.5).tanh_(),
    "sin_": lambda m, y: y.sin_(),
    "sqrt_of_abs": lambda m, y: y.abs_().sqrt_(),
    "relu_": lambda m, y: y.relu_(),
    "clamp_": lambda m, y: y.clamp_(-0.5, 1.0),
    "pow_": lambda m, y: y.pow_(2),
    "neg_": lambda m, y: y.neg_(),
    "fill_": lambda m, y: y.fill_(4.0),
    "zero_": lambda m, y: y.zero_(),
    "copy_": lambda m, y: y.copy_(m.ones(3)),
    "copy_other_dtype": lambda m, y: y.copy_(m.ones(2, 1, dtype=m.float64)),
    "masked_fill_": lambda m, y: y.masked_fill_(y > 0, 9.0),
    "index_fill_": lambda m, y: y.index_fill_(1, m.tensor([0, 2]), 5.0),
    "index_add_": lambda m, y: y.index_add_(0, m.tensor([1]), m.ones(1, 3)),
    "scatter_": lambda m, y: y.scatter_(1, m.tensor([[0], [2]]), 7.0),
    "index_put_": lambda m, y: y.index_put_((m.tensor([0]), m.tensor([1])), m.tensor(3.0)),
    "addcmul_": lambda m, y: y.addcmul_(m.ones(3), m.ones(2, 1), value=0.5),
    "lerp_": lambda m, y: y.lerp_(m.ones(2, 3), 0.25),
    "cumsum_": lambda m, y: y.cumsum_(1),
    "triu_": lambda m, y: y.triu_(),
    "setitem_number": lambda m, y: (y.__setitem__(0, 5.0), y)[1],
    "setitem_row": lambda m, y: (y.__setitem__((slice(None), 1), m.ones(2)), y)[1],
    "setitem_mask": lambda m, y: (y.__setitem__(y > 0, 0.0), y)[1],
    "gt_number": lambda m, y: y.gt_(0),
    "gt_tensor": lambda m, y: y.gt_(m.zeros(3)),
    "eq_": lambda m, y: y.eq_(1),
}
PROGRAMS = Programs()


@pytest.mark.parametrize("where", ["computed", "view", "plain"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name, where, same):
    def run(m):
        x = leaf(m, 2, 3, requires_grad=where != "plain")
        y = x.repeat(2, 1) if where == "view" else x * 1
        target = y[1:3] if where == "view" else y
        out = OPERATIONS[name](m, target)
        seen = [out is target, everything(target), everything(y), tree(target.grad_fn), tree(y.grad_fn)]
        error = attempt(lambda: y.square().sum().backward() and None) if y.requires_grad else None
        return seen, error, everything(x)

    same(run, f"{name}_{where}")


test_same_as_torch = PROGRAMS.test()


@PROGRAMS
def leaf_is_not_written(m):
    x = leaf(m, 3)
    steps = [
        lambda: x.add_(1),
        lambda: x.mul_(x),
        lambda: x.zero_(),
        lambda: x.__setitem__(0, 1.0),
        lambda: x.copy_(m.ones(3)),
        lambda: x.__iadd__(1),
        lambda: x.fill_(0),
    ]
    errors = [attempt(s) for s in steps]
    with m.no_grad():
        x.add_(1)
        x[0] = 4
    return errors, everything(x)


@PROGRAMS
def leaf_written_without_grad_keeps_being_a_leaf(m):
    x = leaf(m, 3)
    y = (x * x).sum()
    with m.no_grad():
        x.mul_(2)
    return everything(x), attempt(y.backward)


@PROGRAMS
def plain_tensor_comes_to_require_grad(m):
    y = m.zeros(3)
    y.add_(leaf(m, 3))
    return everything(y), tree(y.grad_fn)


@PROGRAMS
def integer_tensor_takes_no_float(m):
    n = m.tensor([1, 2, 3])
    steps = [
        lambda: n.add_(1.5),
        lambda: n.div_(2),
        lambda: n.mul_(m.ones(3)),
        lambda: n.exp_(),
        lambda: n.copy_(m.tensor([1.7, 2.2, -3.9])),
    ]
    return [attempt(s) for s in steps], n


@PROGRAMS
def shape_may_not_grow(m):
    y = m.ones(3)
    steps = [
        lambda: y.add_(m.ones(2, 3)),
        lambda: y.mul_(m.ones(2, 1)),
        lambda: y.copy_(m.ones(2, 3)),
        lambda: m.tensor(1.0).add_(m.ones(1)),
    ]
    return [attempt(s) for s in steps], y


CHECKED = {
    "mul_saves_both": lambda m, x: ((y := x * 2), (y * y).sum(), y.add_(1))[1],
    "exp_saves_its_result": lambda m, x: ((e := x.exp()), e.sum(), e.add_(1))[1],
    "sin_saves_its_input": lambda m, x: ((y := x * 1), y.sin().sum(), y.add_(1))[1],
    "add_saves_nothing": lambda m, x: ((y := x * 1), (y + y).sum(), y.add_(1))[1],
    "sum_saves_nothing": lambda m, x: ((y := x * 1), y.sum(), y.zero_())[1],
    "number_is_saved_by_value": lambda m, x: ((y := x * 3), y.sum(), y.zero_())[1],
    "only_what_is_needed": lambda m, x: ((c := m.ones(3)), (y := x * c), y.sum(), y.zero_())[2],
    "constant_factor_written": lambda m, x: ((c := m.ones(3)), (x * c).sum(), c.add_(1))[1],
    "through_a_view": lambda m, x: ((y := x * 1), y.exp().sin().sum(), y[0].fill_(3), y)[1],
    "saved_by_a_view": lambda m, x: ((y := x * 1), y[:2].sin().sum(), y.add_(1))[1],
    "written_elsewhere_in_the_storage": lambda m, x: ((y := x * 1), y[:2].sin().sum(), y[2:].add_(1))[1],
    "through_detach": lambda m, x: ((y := x * 1), y.sin().sum(), y.detach().add_(1))[1],
    "through_data": lambda m, x: ((y := x * 1), y.sin().sum(), y.data.add_(1))[1],
    "max_saves_indices": lambda m, x: ((y := x * 1), y.max(0)[0].sum(), y.add_(1))[1],
    "two_writes": lambda m, x: ((y := x * 1), y.sin().sum(), y.add_(1), y.add_(1))[1],
    "matmul_operand": lambda m, x: ((w := m.ones(3)), (x @ w), w.add_(1))[1],
    "pow_of_a_number": lambda m, x: ((y := x * 1), (y**3).sum(), y.mul_(2))[1],
}
"""A root whose graph saved something that was, or was not, written to since."""


@pytest.mark.parametrize("name", CHECKED)
def test_check_at_backward_time(name, same):
    def run(m):
        x = leaf(m, 3)
        root = CHECKED[name](m, x)
        return attempt(lambda: root.backward()), x

    same(run, f"checked_{name}")


@pytest.mark.parametrize("name", ["sin_saves_its_input", "exp_saves_its_result"])
def test_check_in_a_recorded_backward(name, same):
    def run(m):
        x = leaf(m, 3)
        root = CHECKED[name](m, x)
        return attempt(lambda: m.autograd.grad(root, x, create_graph=True)), x

    same(run, f"checked_recorded_{name}")


@PROGRAMS
def result_written_by_its_own_operation(m):
    """tanh_ saves what it wrote; the input's old value is gone and not needed."""
    x = leaf(m, 3)
    y = (x * 1).tanh_()
    saved = y.grad_fn._saved_result
    y.sum().backward()
    return everything(x), saved


@PROGRAMS
def operation_that_needs_the_value_it_overwrote(m):
    x = leaf(m, 3)
    y = x * 1
    y.mul_(y)
    return attempt(lambda: y.sum().backward()), everything(x), tree(y.grad_fn)


@PROGRAMS
def overwritten_history_is_gone(m):
    x, w = leaf(m, 3), leaf(m, 3)
    y = x * 2
    y.copy_(w)
    y.sum().backward()
    return everything(x), everything(w), tree(y.grad_fn)


@PROGRAMS
def assignment_of_parts(m):
    x, w = leaf(m, 4), leaf(m, 2)
    y = x * 1
    y[1:3] = w * 3
    y[0] = 5.0
    (y * y).sum().backward()
    return [everything(t) for t in (x, w, y)], tree(y.grad_fn)


@PROGRAMS
def chain_of_writes_to_views(m):
    x = leaf(m, 6)
    y = x.clone()
    for i in range(4):
        y[i : i + 2] *= y[i + 1 : i + 3].detach().clone()
    y.sum().backward()
    return everything(x), everything(y), tree(y.grad_fn, 12)


@PROGRAMS
def swap_through_a_clone(m):
    x = leaf(m, 2, 2)
    y = x * 1
    row = y[0].clone()
    y[0] = y[1]
    y[1] = row
    (y * m.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    return everything(x), y


@PROGRAMS
def versions_count_writes(m):
    y = m.zeros(2, 2)
    v, d = y[0], y.detach()
    seen = [t._version for t in (y, v, d)]
    y.add_(1)
    v.mul_(2)
    d.zero_()
    y[0, 0] = 1
    return seen, [t._version for t in (y, v, d)], y.clone()._version, y.data._version


@PROGRAMS
def write_in_no_grad_to_a_graph_tensor(m):
    x = leaf(m, 3)
    y = x * 2
    with m.no_grad():
        y.add_(100)
    (y * y).sum().backward()
    return everything(x), everything(y)


@PROGRAMS
def writes_that_were_met_before(m):
    found = []
    for _ in range(3):
        w = leaf(m, 4)
        rows = m.zeros(3, 4) * 1
        early, turned = rows[1], rows.t()
        for i in range(3):
            rows[i].add_(w)
            rows[i, 1:].mul_(w[:3])
        turned[2].copy_(w[:3])
        rows[0][:2].clamp_(0.5)
        rows[0].exp_()
        found += [everything(rows), everything(early), tree(early.grad_fn), tree(rows.grad_fn), rows._version]
        rows.square().sum().backward()
        found.append(w.grad)
    return found


@PROGRAMS
def writes_under_hooks_of_saved_tensors(m):
    found = []
    for size in (4, 4, 4, 40_000, 40_000, 40_000):  # of the large one a part is written where it lies
        w = leaf(m, 2)
        packed, kept, rows = [], [], m.zeros(size) * 1

        def pack(t, packed=packed, kept=kept, rows=rows):
            packed.append([tuple(t.shape), t.sum().item()])
            kept.append(rows.clone())
            return t + 0

        with m.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            rows[:2].add_(w)
            rows[1:3].mul_(w)
            rows.index_put_((m.tensor([0, 3]),), w * 2)
            rows.index_put_((m.tensor([1, 2]),), rows[:2] * 3)
            rows[:1].exp_()
        found += [packed, [k[:4] for k in kept], rows[:4].detach().clone(), rows._version]
        rows.sum().backward()
        found.append(w.grad)
    return found


@PROGRAMS
def writes_in_inference_mode(m):
    found, ordinary = [], m.zeros(3, 2)
    for _ in range(3):
        with m.inference_mode():
            inside = m.ones(3, 2)
            for x in (inside, ordinary):
                x.add_(1)
                x[0].mul_(2)
                x.t()[1].copy_(x[:, 0])
                x.clamp_(0, 5)
                x.masked_fill_(x > 4, 0.5)
        found += [inside.clone(), inside.is_inference(), ordinary.clone(), ordinary._version, ordinary.is_inference()]
        found.append(attempt(lambda inside=inside: inside.add_(1)))
    return found


def test_a_failed_write_changes_nothing():
    y = torchgrad_jax.ones(3)
    with pytest.raises(RuntimeError, match="output with shape"):
        y.add_(torchgrad_jax.ones(2, 3))
    assert y._version == 0
    assert y.tolist() == [1, 1, 1]
