"""linalg.polar and linalg.matrix_sqrth, which torch 2.14 has: values, derivatives at equal singular values, errors."""

import pytest

import torchgrad_jax as torch

DTYPES = (torch.float32, torch.complex128)


def definite(b):
    return b.mH @ b + 0.5 * torch.eye(b.shape[-1], dtype=b.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_root_times_itself_is_the_matrix(dtype):
    a = definite(torch.randn(2, 3, 4, 4, dtype=dtype))
    x = torch.linalg.matrix_sqrth(a)
    assert torch.allclose(x @ x, a, atol=1e-5)
    assert torch.allclose(x, x.mH, atol=1e-5)
    above = a + torch.triu(torch.ones(4, 4, dtype=dtype), 1)  # which is not read
    assert torch.equal(torch.linalg.matrix_sqrth(above), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_polar_factors(dtype):
    for shape in ((5, 3), (2, 3, 3), (3, 1)):
        a = torch.randn(*shape, dtype=dtype)
        u, h = torch.linalg.polar(a)
        assert torch.allclose(u @ h, a, atol=1e-5)
        assert (u.mH @ u - torch.eye(shape[-1], dtype=dtype)).abs().max() < 1e-5
        assert torch.allclose(h, torch.linalg.matrix_sqrth(a.mH @ a), atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_derivatives(dtype):
    b = torch.randn(4, 3, dtype=dtype, requires_grad=True)
    for fn in (lambda t: torch.linalg.matrix_sqrth(definite(t)), torch.linalg.polar):
        assert torch.autograd.gradcheck(fn, (b,), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(fn, (b,))


def test_derivatives_where_eigenvalues_are_equal():
    eye = torch.eye(3, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(torch.linalg.matrix_sqrth(eye).sum(), eye)
    assert torch.allclose(g, torch.full((3, 3), 0.5, dtype=torch.float64))
    weight = torch.arange(9.0, dtype=torch.float64).reshape(3, 3)
    (g,) = torch.autograd.grad((torch.linalg.polar(eye).U * weight).sum(), eye)
    assert torch.allclose(g, (weight - weight.mT) / 2)
    assert torch.autograd.gradgradcheck(lambda t: torch.linalg.polar(t).U, (eye,))


def test_other_ways():
    a = torch.randn(2, 3, 3)
    u, h = torch.func.vmap(torch.linalg.polar)(a)
    assert torch.allclose(u @ h, a, atol=1e-5)
    out = torch.empty(0), torch.empty(0)
    found = torch.linalg.polar(a, out=out)
    assert found.U is out[0]
    assert torch.allclose(out[0], u, atol=1e-5)
    assert torch.allclose(torch.compile(torch.linalg.matrix_sqrth)(definite(a)), torch.linalg.matrix_sqrth(definite(a)))
    assert torch.linalg.polar(torch.ones(3, 0)).H.shape == (0, 0)
    assert torch.linalg.matrix_sqrth(torch.ones(2, 0, 0)).shape == (2, 0, 0)
    shown = repr(torch.linalg.polar(torch.eye(1)))
    assert shown == "torch.return_types.linalg_polar(\nU=tensor([[1.]]),\nH=tensor([[1.]]))"


@pytest.mark.parametrize("fn", [torch.linalg.matrix_sqrth, torch.linalg.polar], ids=["matrix_sqrth", "polar"])
def test_what_is_refused(fn):
    for x, text in (
        (torch.ones(3), "must have at least 2 dimensions"),
        (torch.ones(2, 2, dtype=torch.int64), "Expected a floating point or complex tensor as input. Got Long"),
        (torch.ones(2, 2).half(), "Low precision dtypes not supported. Got Half"),
        (
            torch.ones(2, 3),
            "square matrices" if fn is torch.linalg.matrix_sqrth else "as many rows as columns, got 2 by 3",
        ),
    ):
        with pytest.raises(RuntimeError, match=text):
            fn(x)
    with pytest.raises(torch.linalg.LinAlgError, match="failed to converge"):
        fn(torch.full((2, 2), float("nan")))
