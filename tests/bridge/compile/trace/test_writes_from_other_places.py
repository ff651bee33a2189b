"""Parts of a tensor that a compiled function overwrites with what it reads from other parts of the same tensor.

XLA would carry out some of these writes in place, and read what it has just written.
"""

import pytest

import torchgrad_jax as torch

WRITES = {
    "a row from the row before": lambda b: b[1:].add_(b[:-1].clone()),
    "a row from the row after": lambda b: b[:-1].add_(b[1:].clone()),
    "a column from the column before": lambda b: b[:, 1:].mul_(b[:, :-1].clone()),
    "rows in the other order": lambda b: b[1:].copy_(b[1:].flip(0)),
    "columns from rows": lambda b: b[:, :-1].add_(b.t()[1:].reshape(3, 3).flip(0)),
    "a range across rows": lambda b: b.view(-1)[2:8].add_(b.view(-1)[4:10].clone()),
    "rows from a range across rows": lambda b: b[:2, :3].mul_(b.view(-1)[3:9].view(2, 3).clone()),
    "in another shape": lambda b: b.view(2, 6)[:, 1:].add_(b.view(2, 6)[:, :-1].clone()),
    "a window": lambda b: b[1:, 1:].sub_(b[:-1, :-1].clone().sin()),
    "by an assignment": lambda b: b.__setitem__(slice(1, None), b[:-1] * 2 + b[1:]),
}
STARTS = {
    "the argument": lambda x: x,
    "a copy": lambda x: x.clone(),
    "a copy in another shape": lambda x: x.reshape(-1).clone().view(3, 4),
    "a result": lambda x: x + 0,
}


def _twice(write, start):
    def f(x):
        b = start(x)
        for _ in range(2):
            write(b)
        return b

    return f


def _given():
    return torch.arange(1.0, 13.0).reshape(3, 4) * 0.1 + 0.3


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("write", WRITES)
def test_values_are_those_of_eager_code(write, start):
    f = _twice(WRITES[write], STARTS[start])
    eager, compiled = _given(), _given()
    expected, found = f(eager), torch.compile(f)(compiled)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(compiled, eager)


@pytest.mark.parametrize("inside", [True, False], ids=["pass inside", "pass outside"])
@pytest.mark.parametrize("write", WRITES)
def test_gradients_are_those_of_eager_code(write, inside):
    f = _twice(WRITES[write], STARTS["a copy in another shape"])

    def gradient(x):
        return torch.autograd.grad(f(x).square().sum(), x)[0]

    x = _given().requires_grad_()
    if inside:
        found = torch.compile(gradient)(x)
    else:
        (found,) = torch.autograd.grad(torch.compile(f)(x).square().sum(), x)
    torch.testing.assert_close(found, gradient(x))


def test_a_write_that_depends_on_no_other_place_is_done_in_place():
    weight = torch.ones(4, 4)

    def f(x):
        x[1:].add_(1)
        x[:, 2].mul_(2)
        x[0] = torch.tanh(x[1] @ weight)
        return x

    program = torch.compile(f).lower(_given()).as_text()
    assert program.count("dynamic_update_slice") == 3
    assert "stablehlo.select" not in program
