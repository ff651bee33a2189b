"""interop.torch_version: derivatives that torch 2.14 changed, by the formulas of its `derivatives.yaml`."""

import os
import subprocess
import sys

import pytest

import torchgrad_jax as torch
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()

X = (-1.0, 0.0, 1.0, 2.0, 3.0)


@program
def tangents_at_limits_that_are_numbers(m):
    fns = (
        lambda x: x.clamp(min=0.0),
        lambda x: x.clamp(max=2),
        lambda x: x.clamp(0.0, 2.0),
        lambda x: m.clamp_min(x, 0.0),
        lambda x: m.clamp_max(x, 2.0),
        lambda x: x.clamp(m.zeros(5), m.full((5,), 2.0)),
    )
    return [m.func.jvp(fn, (m.tensor(X),), (m.ones(5),))[1] for fn in fns]


def gradients(fn, *values, version="2.14", dtype=torch.float32):
    """Of the sum of the results, in reverse mode, and by forward mode along ones for the first input."""
    with torch.interop.torch_version(version):
        inputs = [torch.tensor(v, dtype=dtype, requires_grad=True) for v in values]
        out = fn(*inputs)
        found = [g.tolist() for g in torch.autograd.grad(out.sum(), inputs)]
        along = [torch.ones(len(values[0])), *[torch.zeros(len(v)) for v in values[1:]]]
        _, tangent = torch.func.jvp(fn, tuple(i.detach() for i in inputs), tuple(along))
    return found, tangent.tolist()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.clamp(0.0, 2.0),
        lambda x: torch.clip(x, 0.0, 2.0),
        lambda x: x.clone().clamp_(0, 2),
        lambda x: x.clamp_min(0.0).clamp_max(2.0),
        lambda x: torch.clamp(x, min=0.0).clamp(max=2),
        lambda x: torch.func.vmap(lambda v: v.clamp(0.0, 2.0))(x),
        torch.compile(lambda x: x.clamp(0.0, 2.0)),
    ],
    ids=["both", "clip", "in-place", "each", "keywords", "vmap", "compiled"],
)
def test_numbers_as_limits(fn):
    for _ in range(2):
        assert gradients(fn, X, version="2.13") == ([[0.0, 1.0, 1.0, 1.0, 0.0]], [0.0, 1.0, 1.0, 1.0, 0.0])
        assert gradients(fn, X) == ([[0.0, 0.0, 1.0, 0.0, 0.0]], [0.0, 0.0, 1.0, 0.0, 0.0])


def test_tensors_as_limits():
    low, high = [0.0] * 5, [2.0] * 5
    found, along = gradients(lambda x, a, b: x.clamp(a, b), X, low, high)
    assert found == [[0.0, 0.5, 1.0, 0.5, 0.0], [1.0, 0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.5, 1.0]]
    assert along == found[0]
    found, along = gradients(lambda x, a: x.clamp(min=a), X, low)
    assert found == [[0.0, 0.5, 1.0, 1.0, 1.0], [1.0, 0.5, 0.0, 0.0, 0.0]]
    assert along == found[0]
    found, along = gradients(torch.clamp_max, X, high)
    assert found == [[1.0, 1.0, 1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.5, 1.0]]
    assert along == found[0]
    found, _ = gradients(lambda x, a, b: x.clamp(a, b), [1.0], [3.0], [2.0])
    assert found == [[0.0], [0.0], [1.0]]
    found, _ = gradients(lambda x, a, b: x.clamp(a, b), X, low, high, version="2.13")
    assert found[0] == [0.0, 1.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(("fn", "sign"), [(torch.fmax, 1), (torch.fmin, -1)], ids=["fmax", "fmin"])
def test_equal_operands(fn, sign):
    x, y = [sign * 1.0, 2.0, sign * 3.0], [sign * 2.0, 2.0, sign * 2.0]
    assert gradients(fn, x, y) == ([[0.0, 0.5, 1.0], [1.0, 0.5, 0.0]], [0.0, 0.5, 1.0])
    assert gradients(fn, x, y, version="2.13")[0] == [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]


def test_tangents_of_operands_that_lose_do_not_count():
    with torch.interop.torch_version("2.14"):
        x, y = torch.tensor([2.0]), torch.tensor([1.0])
        _, t = torch.func.jvp(torch.maximum, (x, y), (torch.ones(1), torch.tensor([float("inf")])))
    assert t.tolist() == [1.0]


def test_second_derivatives():
    with torch.interop.torch_version("2.14"):
        x, y = (torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True) for _ in range(2))
        (g,) = torch.autograd.grad((torch.fmax(x, y) ** 2).sum(), x, create_graph=True)
        assert g.tolist() == [1.0, 2.0, 3.0]
        assert [t.tolist() for t in torch.autograd.grad(g.sum(), (x, y))] == [[0.5] * 3, [0.5] * 3]


def test_a_graph_keeps_the_version_that_it_was_recorded_in():
    x = torch.zeros(2, 3, requires_grad=True)  # of a shape that nothing else here has, so that no kernel is there yet
    with torch.interop.torch_version("2.14"):
        later = (x.clamp(min=0.0) * 2).sum()
    before = (x.clamp(min=0.0) * 2).sum()
    with torch.interop.torch_version("2.14"):
        (old,) = torch.autograd.grad(before, x)
    (new,) = torch.autograd.grad(later, x)
    assert torch.equal(old, torch.full((2, 3), 2.0))
    assert not new.any()


def test_a_compiled_function_follows_the_choice():
    f = torch.compile(lambda x: torch.autograd.grad(x.clamp(min=0.0).sum(), x)[0])
    x = torch.zeros(3, requires_grad=True)
    found = []
    for version in ("2.13", "2.14", "2.13"):
        with torch.interop.torch_version(version):
            found.append(f(x).tolist())
    assert found == [[1.0] * 3, [0.0] * 3, [1.0] * 3]


def test_the_choice_holds_until_another_one():
    x = torch.zeros(1, requires_grad=True)
    try:
        torch.interop.torch_version("2.14")
        assert not torch.autograd.grad(x.clamp(min=0.0).sum(), x)[0].any()
    finally:
        torch.interop.torch_version("2.13")
    assert torch.autograd.grad(x.clamp(min=0.0).sum(), x)[0].all()


def test_other_versions_are_refused():
    with pytest.raises(ValueError, match=r"torch_version: version must be one of '2.13', '2.14', and is '2.15'"):
        torch.interop.torch_version("2.15")


def test_the_environment_chooses_at_the_start():
    code = (
        "import torchgrad_jax as torch; x = torch.zeros(1, requires_grad=True);"
        "print(torch.autograd.grad(x.clamp(min=0.0).sum(), x)[0].item())"
    )

    def run(version):
        env = {**os.environ, "TORCHGRAD_JAX_TORCH_VERSION": version}
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)

    assert run("2.14").stdout == "0.0\n"
    assert run("").stdout == "1.0\n"
    assert "TORCHGRAD_JAX_TORCH_VERSION must be one of '2.13', '2.14', and is '3'" in run("3").stderr
