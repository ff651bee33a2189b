"""Texts of the errors that people search for and that programs match on."""

import pytest

import torchgrad_jax
from tests.engine.helpers import attempt, leaf

ERRORS = {
    "second_backward": lambda m, x: [y := (x * x).sum(), y.backward(), y.backward()],
    "no_graph": lambda m, x: m.ones(2).sum().backward(),
    "not_scalar": lambda m, x: (x * 2).backward(),
    "wrong_gradient_shape": lambda m, x: (x * 2).backward(m.ones(2)),
    "leaf_in_place": lambda m, x: x.add_(1),
    "view_of_leaf_in_place": lambda m, x: x[0].add_(1),
    "modified": lambda m, x: [y := x.exp(), y.add_(1), y.sum().backward()],
    "modified_view": lambda m, x: [y := x * 1, z := y[0] * y[1], y[0].mul_(2), z.backward()],
    "unused": lambda m, x: m.autograd.grad(x.sum(), leaf(m, 2)),
    "input_without_grad": lambda m, x: m.autograd.grad(x.sum(), m.ones(2)),
    "numpy_of_grad": lambda m, x: x.numpy(),
    "deepcopy_of_non_leaf": lambda m, x: __import__("copy").deepcopy(x * 2),
    "requires_grad_of_integers": lambda m, x: m.tensor([1, 2], requires_grad=True),
    "flag_of_non_leaf": lambda m, x: (x * 2).requires_grad_(False),
    "hook_without_grad": lambda m, x: m.ones(2).register_hook(print),
    "retain_without_grad": lambda m, x: m.ones(2).retain_grad(),
    "grad_of_other_shape": lambda m, x: setattr(x, "grad", m.ones(2)),
    "grad_of_itself": lambda m, x: setattr(x, "grad", x),
    "truth_of_many": lambda m, x: bool(x),
    "truth_of_none": lambda m, x: bool(m.zeros(0)),
    "item_of_many": lambda m, x: x.item(),
    "length_of_a_scalar": lambda m, x: len(m.tensor(1)),
    "iteration_over_a_scalar": lambda m, x: list(m.tensor(1)),
    "index_of_a_float": lambda m, x: [1, 2][m.tensor(1.0)],
    "broadcast": lambda m, x: x + m.ones(2),
    "broadcast_in_place": lambda m, x: m.ones(1).add_(m.ones(2)),
    "cast_in_place": lambda m, x: m.tensor([1]).add_(0.5),
    "matmul_shapes": lambda m, x: m.ones(2, 3) @ m.ones(2, 3),
    "matmul_dtypes": lambda m, x: m.ones(2, 2) @ m.ones(2, 2, dtype=m.float64),
    "view_of_strides": lambda m, x: m.ones(2, 3).t().view(6),
    "view_of_size": lambda m, x: m.ones(2, 3).view(4),
    "reshape_of_size": lambda m, x: m.ones(2, 3).reshape(4, 2),
    "cat_of_shapes": lambda m, x: m.cat([m.ones(2, 2), m.ones(2, 3)]),
    "stack_of_shapes": lambda m, x: m.stack([m.ones(2), m.ones(3)]),
    "dim_range": lambda m, x: x.sum(3),
    "index_range": lambda m, x: x[5],
    "too_many_indices": lambda m, x: x[0, 0],
    "expand": lambda m, x: x.expand(2),
    "squeeze_range": lambda m, x: x.squeeze(4),
    "gather_index_type": lambda m, x: x.gather(0, m.ones(2)),
    "mean_of_integers": lambda m, x: m.tensor([1, 2]).mean(),
    "written_overlap": lambda m, x: m.zeros(1).expand(3).add_(1),
    "out_with_grad": lambda m, x: m.exp(x, out=m.zeros(3)),
    "detach_in_place_of_a_view": lambda m, x: (x * 1)[0].detach_(),
    "multi_view_write": lambda m, x: (x * 1).unbind(0)[0].add_(1),
    "retain_graph_of_saved": lambda m, x: [
        y := x.exp().sum(),
        y.backward(),
        y.grad_fn.next_functions[0][0]._saved_result,
    ],
    "unknown_attribute_of_a_node": lambda m, x: (x * 2).grad_fn.something,
    "backward_of_none_gradient": lambda m, x: m.autograd.backward([x * 2], [None]),
    "grad_with_wrong_count": lambda m, x: m.autograd.grad([x.sum()], [x], [m.tensor(1.0), m.tensor(1.0)]),
    "one_hot_dtype": lambda m, x: m.nn.functional.one_hot(x),
}


@pytest.mark.parametrize("name", ERRORS)
def test_same_text_as_torch(name, same):
    def run(m):
        return attempt(lambda: ERRORS[name](m, leaf(m, 3)) and None)

    same(run, f"error_{name}")


@pytest.mark.parametrize("name", ["no_such_function", "compile_everything"])
def test_what_is_missing_is_named(name):
    with pytest.raises(AttributeError, match=name):
        getattr(torchgrad_jax, name)
    with pytest.raises(AttributeError, match=f"'Tensor' object has no attribute '{name}'"):
        getattr(torchgrad_jax.ones(1), name)


def test_the_chain_of_a_users_error_is_kept():
    x = torchgrad_jax.ones(2, requires_grad=True)
    y = x * 2

    def hook(g):
        raise LookupError("mine") from ValueError("cause")

    y.register_hook(hook)
    with pytest.raises(LookupError, match="mine") as caught:
        y.sum().backward()
    assert isinstance(caught.value.__cause__, ValueError)
