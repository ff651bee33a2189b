"""Contexts around recording: a function that sees each node that is made. torch 2.13 lacks it; 2.14 documents it."""

import pytest

import torchgrad_jax as torch
from torchgrad_jax.autograd.graph import node_creation_hook
from torchgrad_jax.utils.checkpoint import checkpoint


def names_of(run):
    names = []
    with node_creation_hook(lambda node: names.append(node.name().rpartition("::")[2])):
        run()
    return names


def test_nodes_come_once_and_complete():
    x, seen = torch.ones(2, requires_grad=True), []
    with node_creation_hook(seen.append):
        y = (x * 2).sin().sum()
    assert [n.name().rpartition("::")[2] for n in seen] == [
        "AccumulateGrad",
        "MulBackward0",
        "SinBackward0",
        "SumBackward0",
    ]
    assert seen[-1] is y.grad_fn
    assert seen[2].next_functions == ((seen[1], 0),)
    assert torch.equal(seen[2]._saved_self, torch.full((2,), 2.0))
    y.backward()
    assert x.grad is not None
    assert torch.equal(x.grad, 2 * torch.full((2,), 2.0).cos())


def test_views_and_writes_to_them():
    x = torch.ones(2, requires_grad=True)

    def run():
        y = x.clone()
        y[0].add_(1)

    assert names_of(run) == ["AccumulateGrad", "CloneBackward0", "SelectBackward0", "AddBackward0", "CopySlices"]


def test_passes_that_record_and_recomputations():
    x = torch.ones(2, requires_grad=True)
    y = x.sin().sum()
    assert "SinBackwardBackward0" in names_of(lambda: torch.autograd.grad(y, x, create_graph=True))
    z = checkpoint(lambda t: t.exp().sin(), x, use_reentrant=False).sum()
    assert "ExpBackward0" in names_of(z.backward)
    assert names_of(lambda: torch.ones(2) * 2) == []
    with torch.no_grad():
        assert names_of(lambda: x * 2) == []


def test_functions_of_users():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    kept = []

    def look(node):
        if node.name() == "TwiceBackward":
            kept.append(len(node.saved_tensors))

    x = torch.ones(2, requires_grad=True)
    with node_creation_hook(look):
        Twice.apply(x)
    assert kept == [1]


def test_hooks_and_metadata_stay_with_the_node():
    x, ran = torch.ones(2, requires_grad=True), []

    def mark(node):
        node.metadata["region"] = "encoder"
        node.register_hook(lambda gi, go: ran.append(node.metadata["region"]))

    with node_creation_hook(mark):
        y = x.exp()
    y.sum().backward()
    assert ran == ["encoder", "encoder"]


def test_contexts_inside_of_each_other_are_called_from_outside_in():
    x, order = torch.ones(2, requires_grad=True), []
    with node_creation_hook(lambda n: order.append("outer")), node_creation_hook(lambda n: order.append("inner")):
        x.exp()
    assert order == ["outer", "inner"] * 2
    x.exp()
    assert len(order) == 4


def test_compiled_functions_run_op_by_op():
    x = torch.ones(2, requires_grad=True)
    compiled = torch.compile(lambda t: t.sin().exp())
    compiled(x)
    assert names_of(lambda: compiled(x))[-2:] == ["SinBackward0", "ExpBackward0"]


def test_a_function_that_makes_nodes_is_refused_and_what_it_raises_reaches_the_caller():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="the hook made a node"), node_creation_hook(lambda node: (x * 2, None)[1]):
        x.exp()
    with pytest.raises(ValueError, match="no"), node_creation_hook(lambda node: (int("no"), None)[1]):
        x.exp()
    assert names_of(lambda: x.exp())[-1] == "ExpBackward0"


# --- dtypes of gradients of Functions --------------------------------------------------------------


def half_and_double(*declared):
    """A Function with a bfloat16 and a float32 output, and a list of what its backward got."""
    got = []

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if declared:
                ctx.set_output_grad_dtype(*declared)
            return x.bfloat16(), x * 2, "a text"

        @staticmethod
        def backward(ctx, a, b, _):
            got.append((a.dtype, b.dtype, a.double()))
            return a.float() + 2 * b.float()

    return Both.apply, got


FINE = 1 + 2**-12
"""Bfloat16 rounds it to 1."""


@pytest.mark.parametrize(
    ("declared", "dtypes"),
    [
        ((), (torch.bfloat16, torch.float32)),
        ((torch.float32, torch.float64, None), (torch.float32, torch.float64)),
        ((torch.bfloat16, None, None), (torch.bfloat16, torch.float32)),
        ((None, None, None), (torch.bfloat16, torch.float32)),
    ],
)
def test_the_backward_gets_the_declared_dtypes(declared, dtypes):
    x = torch.ones(2, requires_grad=True)
    apply, got = half_and_double(*declared)
    a, b, _ = apply(x)
    ((a * 3).float() + b).sum().backward()
    assert got[0][:2] == dtypes
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((2,), 5.0))


def test_a_gradient_is_not_rounded_on_its_way():
    class Wide(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.float()

        @staticmethod
        def backward(ctx, g):
            return g * FINE

    x = torch.ones(2, requires_grad=True)
    for declared in ((torch.float32, None, None), (None, None, None)):
        apply, got = half_and_double(*declared)
        Wide.apply(apply(x)[0]).sum().backward()
        assert got[0][0] is torch.float32
        assert torch.equal(got[0][2], torch.full((2,), FINE, dtype=torch.float64))
    apply, got = half_and_double(torch.float32, None, None)
    apply(x)[0].backward(torch.full((2,), FINE))
    assert torch.equal(got[0][2], torch.full((2,), FINE, dtype=torch.float64))
    apply, got = half_and_double()
    Wide.apply(apply(x)[0]).sum().backward()
    assert torch.equal(got[0][2], torch.ones(2, dtype=torch.float64))


def test_gradients_from_several_sides_are_added_in_the_declared_dtype():
    x = torch.ones(2, requires_grad=True)
    apply, got = half_and_double(torch.float32, None, None)
    a, *_ = apply(x)
    small = a * 2.0**-9
    (a + small).sum().backward()
    assert torch.equal(got[0][2], torch.full((2,), 1 + 2.0**-9, dtype=torch.float64))


def test_outputs_that_nobody_used_are_zeros_of_the_declared_dtype():
    x = torch.ones(2, requires_grad=True)
    apply, got = half_and_double(torch.float64, torch.float64, None)
    apply(x)[1].sum().backward()
    assert got[0][:2] == (torch.float64, torch.float64)


def test_wrong_declarations():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="got 1 dtypes, and the Function returned 3 values"):
        half_and_double(torch.float32)[0](x)
    with pytest.raises(RuntimeError, match="for output 2, which has no gradient"):
        half_and_double(None, None, torch.float32)[0](x)
    with pytest.raises(TypeError, match="takes dtypes and None"):
        half_and_double(None, None, 3)[0](x)

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_output_grad_dtype(None)
            ctx.set_output_grad_dtype(None)
            return x.clone()

    with pytest.raises(RuntimeError, match="set_output_grad_dtype can only be called once"):
        Again.apply(x)
