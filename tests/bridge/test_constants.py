"""A compiled function makes tensors of constants and writes to them: each run begins with the same constants."""

import pytest

import torchgrad_jax as torch

MADE = {
    "zeros": lambda: torch.zeros(2),
    "ones": lambda: torch.ones(2),
    "full": lambda: torch.full((2,), 3.0),
    "tensor": lambda: torch.tensor([1.0, 2.0]),
    "arange": lambda: torch.arange(2.0),
    "one element": lambda: torch.zeros(1),
}


def added(a, x):
    a.add_(x)
    return a


def read_before(a, x):
    before = a * x
    a.add_(x)
    return before + a


def through_a_view(a, x):
    a[:1].add_(x[:1])
    return a * 1


def two_names(a, x):
    b = a
    y = a * x
    b += 1
    a.mul_(x)
    return b + y


def two_that_are_equal(a, x):
    b = torch.zeros(1)
    c = torch.zeros(1)
    y = b + c + x
    b.add_(x[0])
    c.sub_(x[0])
    return a + b + c + y


WRITES = [added, read_before, through_a_view, two_names, two_that_are_equal]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("made", MADE)
def test_each_run_begins_anew(made, write):
    def program(x):
        return write(MADE[made](), x)

    compiled = torch.compile(program, fullgraph=True)
    size = MADE[made]().numel()
    inputs = [torch.full((size,), float(i)) for i in range(3)]
    results = [compiled(x) for x in inputs]
    assert [r.tolist() for r in results] == [program(x).tolist() for x in inputs]
    assert compiled.counts["traced"] == 1
