"""Tensors of constants that a compiled function makes: each run begins with the same ones.

They are part of the program, unless somebody holds them, who may write to them.
"""

import functools
import re

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


def inputs_of(compiled, *args):
    """The types of the arrays that the program takes."""
    (signature,) = re.findall(r"func.func public @main\((.*)\) -> ", compiled.lower(*args).as_text())
    return re.findall(r"tensor<([^>]*)>", signature)


def a_mask(x):
    return x * torch.ones(4, 4).tril()


def a_table(x):
    return x + torch.tensor([1.0, 2.0, 3.0, 4.0]) * torch.arange(4)


def many_elements(x):
    return x + torch.zeros(64, 64, 4).sum(0)[:4]


def a_gradient(x):
    x = x.detach().requires_grad_()
    (x**2).sum().backward()
    return x.grad


def a_hessian(x):
    return torch.func.hessian(lambda x: (x**3).sum())(x[0])


def in_bfloat16(x):
    return x + torch.full((4,), -0.0, dtype=torch.bfloat16)


@pytest.mark.parametrize("fn", [a_mask, a_table, many_elements, a_gradient, a_hessian, in_bfloat16])
def test_constants_are_no_inputs_of_the_program(fn):
    x = torch.arange(16.0).reshape(4, 4) - 3
    compiled = torch.compile(fn, fullgraph=True)
    for y in (x, x + 1):
        torch.testing.assert_close(compiled(y), fn(y))
    assert inputs_of(compiled, x) == ["4x4xf32"]


def test_a_step_reads_nothing_but_its_batch_and_its_parameters():
    model = torch.nn.Linear(3, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile
    def step(x):
        opt.zero_grad()
        loss = (model(x) * torch.ones(2)).mean()
        loss.backward()
        opt.step()
        return loss

    x = torch.ones(5, 3)
    step(x)
    floats = sorted(t for t in inputs_of(step, x) if t.endswith("xf32"))
    assert floats == ["2x3xf32", "2xf32", "5x3xf32"]


@functools.lru_cache
def cached_mask(n):
    return torch.ones(n)


class Holder:
    def __init__(self):
        self.table = None
        self.tables = {}


def in_a_cache(holder, x):
    return x * cached_mask(3)


def in_an_attribute(holder, x):
    if holder.table is None:
        holder.table = torch.ones(3)
    return x * holder.table


def in_a_dict(holder, x):
    if 3 not in holder.tables:
        holder.tables[3] = torch.ones(3)[:]
    return x * holder.tables[3]


HELD = {
    in_a_cache: lambda holder: cached_mask(3),
    in_an_attribute: lambda holder: holder.table,
    in_a_dict: lambda holder: holder.tables[3],
}


@pytest.mark.parametrize("fn", HELD)
def test_a_constant_that_somebody_holds_is_read_in_each_call(fn):
    cached_mask.cache_clear()
    holder = Holder()
    compiled = torch.compile(lambda x: fn(holder, x))
    x = torch.tensor([1.0, 2.0, 3.0])
    results = []
    for _ in range(4):
        results.append(compiled(x).tolist())
        with torch.no_grad():
            HELD[fn](holder).mul_(2)
    assert results == [[k, 2 * k, 3 * k] for k in (1.0, 2.0, 4.0, 8.0)]


def test_a_check_that_fails_in_the_program_reads_constants():
    weights = torch.zeros(3)

    def pick(x):
        table = torch.tensor([0, 1, 2])
        weights.add_(1)
        return torch.arange(3.0)[(table + x.cumsum(0).to(torch.int64))]

    compiled = torch.compile(pick)
    compiled(torch.zeros(3))
    compiled(torch.zeros(3))
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(torch.ones(3))
    assert weights.tolist() == [2.0, 2.0, 2.0]


def test_many_steps_and_a_backward_pass_from_outside():
    weights = torch.ones(3)

    @torch.compile
    def step(x):
        weights.add_(torch.ones(3) * x)
        return weights * torch.tensor([1.0, 2.0, 3.0])

    rows = step.many(torch.tensor([1.0, 2.0, 3.0]))
    assert rows.tolist() == [[k, 2 * k, 3 * k] for k in (2.0, 4.0, 7.0)]

    scaled = torch.compile(lambda x: x * torch.tensor([1.0, 2.0, 3.0]))
    for _ in range(2):
        x = torch.ones(3, requires_grad=True)
        scaled(x).sum().backward()
        assert x.grad.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("size", [2, 1000, 1200, 5000])
@pytest.mark.parametrize("differentiated", [False, True])
def test_a_constant_of_any_size_is_no_tensor_from_outside(size, differentiated):
    """A large one is an input of the program, which nothing that the function reads leads to."""

    def function(x):
        weights = torch.arange(size, dtype=torch.float32).sin()
        if not differentiated:
            return (x * weights).sum()
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x * weights).sum(), x)[0].sum()

    compiled, x = torch.compile(function), torch.ones(size)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)
    assert compiled.counts == {"traced": 1, "run": 3, "eager": 0}, compiled.reasons
