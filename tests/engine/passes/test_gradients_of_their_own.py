"""Gradients: what they depend on, and what refuses them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.helpers import played

DATA = (
    "b = torch.tensor([[0.3, 1.2, -0.7], [0.9, -1.1, 0.4]]); x = b.clone().requires_grad_(); "
    "t = b * 1.1 + 0.2; z = torch.complex(b, b * 2); mask = b > 0; "
    "rows = torch.tensor([0, 1]); places = torch.tensor([[0, 1, 1]])"
)

# What a recorded gradient depends on.
RECORDED = (
    "x.prod()", "x[0, 0].prod()", "x[0, 0].cumprod(0)", "x[0, :1].cumprod(0)", "x[0, :1].prod(0)", "x.nansum()",
    "torch.nan_to_num(x)", "t.lerp(t, x)", "torch.xlogy(x, t)", "torch.special.xlog1py(x, t)",
    "torch.special.xlog1py(t, x)", "x.view(2, 3)",
    "x.permute(0, 1)", "x.unflatten(1, (3,))", "torch.cat([x])", "x.repeat(1, 1)", "x * z", "z - x", "x + 1j",
    "torch.complex(t, x)", "x.to(torch.complex64)", "torch.fft.fft(x)", "torch.var_mean(x)[0]",
    "torch.var_mean(x)[1]", "torch.std_mean(x)[0]", "torch.std_mean(x)[1]", "torch.std_mean(x)[0] * torch.ones(1)",
    "torch.nn.functional.mse_loss(x, t)", "torch.nn.functional.smooth_l1_loss(x, t)",
    "torch.nn.functional.binary_cross_entropy_with_logits(x, t)",
    "torch.nn.functional.binary_cross_entropy_with_logits(x, t, reduction='sum')",
    "torch.nn.functional.nll_loss(x, rows)", "torch.nn.functional.avg_pool1d(x, 2, 1)",
    "torch.nn.functional.max_pool1d(x, 2, 1)", "torch.nn.functional.adaptive_max_pool1d(x, 2)",
    "torch.nn.functional.conv1d(x, t[None])", "torch.acosh(x + 3)", "torch.asinh(x)", "torch.atanh(x / 4)",
    "torch.erfc(x)", "torch.exp2(x)", "torch.sinc(x)", "torch.i0(x)", "torch.celu(x)", "torch.polygamma(2, x + 3)",
    "torch.mvlgamma(x + 6, 2)", "x.put(rows, t[0, :2])", "t.put(rows, x[0, :2])", "x.nanmedian()", "x.nanmedian(0)[0]",
    "x.mode(-1)[0]", "torch.aminmax(x)[0]", "sum(torch.aminmax(x))", "x.rot90()", "torch.linalg.lu(x)[2]",
    "torch.linalg.lu_factor(x)[0]", "x.index_reduce(0, rows, t, 'mean')", "x.index_reduce(0, rows, t, 'amax')",
    "t.index_reduce(0, rows, x, 'mean')",
    "t.index_reduce(0, rows, x, 'amin')", "torch.complex(x, t).sgn().imag", "torch.special.zeta(x + 3, t + 3)",
    "torch.special.zeta(2.0, x + 3)", *(f"torch.special.{n}(x)" for n in ("erfcx", "i0e", "i1", "i1e", "log_ndtr")),
    "torch.special.ndtr(x)", "torch.special.ndtri(x / 4 + 0.5)", "torch.special.entr(x + 2)", "x * 2", "x / 2",
)  # fmt: skip

PROGRAMS: dict[str, tuple[str, ...]] = {
    # torch saves these although no gradient reads them, and so refuses what comes after.
    "kept_gather": (DATA, "a = x * 1", "y = a.gather(0, places)", "a.mul_(2)", "y.sum().backward()"),
    "kept_take": (DATA, "a = x * 1", "y = a.take(rows)", "a.mul_(2)", "y.sum().backward()"),
    "kept_index_copy": (DATA, "s = (x * 1)[:1]", "y = t.index_copy(0, rows[:1], s)", "s.mul_(2)", "y.sum().backward()"),
    "kept_index_add": (DATA, "s = (x * 1)[:1]", "y = t.index_add(0, rows[:1], s)", "s.mul_(2)", "y.sum().backward()"),
    "kept_complex": (DATA, "a = x * 1", "y = torch.complex(a, t)", "a.mul_(2)", "y.real.sum().backward()"),
    "kept_prod": (DATA, "a = x[0, 0] * 1", "y = a.prod()", "a.mul_(2)", "y.backward()"),
    "freed_complex": (DATA, "y = torch.complex(x, t)", "y.real.sum().backward()", "y.imag.sum().backward()"),
    # Formulas that do not fit their arguments raise when they run.
    "addcdiv_integers": (DATA, "y = torch.addcdiv(b, x, torch.tensor([1, 2, 3]))", "y.sum().backward()"),
    "addcdiv_integers_elsewhere": (DATA, "y = torch.addcdiv(b, torch.tensor([1, 2, 3]), x)", "y.sum().backward()"),
    "where_complex": (DATA, "y = torch.where(mask, x, z)", "y.abs().sum().backward()"),
    "masked_fill_complex": (DATA, "y = z.masked_fill(mask, x[0, 0])", "y.abs().sum().backward()"),
    "fill_complex": (DATA, "y = z.clone().fill_(x[0, 0])", "y.abs().sum().backward()"),
    # A node without a derivative raises although nobody waits for its gradients.
    "no_derivative": (
        "x = torch.tensor([[1.0, 1.0], [0.4, 1.0], [-0.1, 1.0]], requires_grad=True)",
        "with torch.no_grad(): a, b = x.t().unbind()",
        "y = torch.heaviside(b, a)",
        "y.sign().unbind()[1].backward()",
    ),
    # The zeros of these are positive.
    "real_zeros": (
        "z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)",
        "z.real.sum().backward()",
        "g = torch.view_as_real(z.grad).copysign(torch.view_as_real(z.grad)).atan2(torch.tensor(-1.0))",
    ),
    # A gradient that is formally one of the input is zeros with a history.
    "second_of_pooling": (
        DATA,
        "first = lambda: torch.autograd.grad(torch.nn.functional.avg_pool1d(x, 2, 1).sum(), x, create_graph=True)[0]",
        "h = torch.autograd.grad(first().sum(), x)[0].clone()",
    ),
}

test_program = played(PROGRAMS)


def _env(m: Any, how: str) -> dict[str, Any]:
    env: dict[str, Any] = {"torch": m}
    exec(f"{DATA}; y = {how}", env)
    return env


@pytest.mark.long(
    "x.prod()",
    "torch.special.xlog1py(x, t)",
    "torch.polygamma(2, x + 3)",
    "torch.linalg.lu(x)[2]",
    "torch.linalg.lu_factor(x)[0]",
    "torch.special.zeta(x + 3, t + 3)",
    "torch.special.zeta(2.0, x + 3)",
    "torch.special.log_ndtr(x)",
)
@pytest.mark.parametrize("how", RECORDED)
def test_recorded_gradient(how: str, same: Any) -> None:
    def run(m: Any) -> Any:
        env = _env(m, how)
        x, y = env["x"], env["y"]
        ones = m.ones_like(y)
        (plain,) = m.autograd.grad(y, x, ones, create_graph=True)
        (g,) = m.autograd.grad(y, x, ones.clone().requires_grad_(), create_graph=True)
        return [plain.requires_grad, g.detach().tolist()]

    same(run, f"recorded {how}")


@pytest.mark.long
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_recorded_gradients_of_nothing(shape: tuple[int, ...], same: Any) -> None:
    """They depend on what they do for tensors that are not empty."""

    def run(m: Any) -> Any:
        found = []
        for fn in (
            m.abs,
            m.sgn,
            m.relu,
            m.sin,
            m.square,
            lambda x: m.remainder(x, x + 1),
            lambda x: m.fmod(x, x + 1),
            m.sqrt,
            lambda x: x.clamp(0, 1),
            lambda x: m.lerp(x, x * 2, 0.3),
            lambda x: m.where(x > 0, x, x * 2),
            m.trapezoid,
            m.nn.functional.mish,
            m.nn.functional.leaky_relu,
            lambda x: m.maximum(x, x),
            lambda x: x.norm(),
        ):
            for steps in (0, 1):
                x = m.ones(shape, dtype=m.float64, requires_grad=True)
                y, row = fn(x * 1 if steps else x), []
                while y.requires_grad and len(row) < 3:
                    (y,) = m.autograd.grad(((y * y) if row else y).sum(), x, create_graph=True)
                    row.append([y.requires_grad, y.shape])
                found.append(row)
        return found

    same(run, f"nothing {shape}")


PARTS = ("y[0]", "y[:1]", "y.view(3, 1)", "y.unsqueeze(0)", "y[1:].view(2, 1)", "y[::2]")


@pytest.mark.long
@pytest.mark.parametrize("name", ["exp_", "tanh_", "sigmoid_", "sqrt_", "reciprocal_"])
def test_second_gradient_through_the_saved_result_of_a_write_to_a_part(name: str, same: Any) -> None:
    def run(m: Any) -> Any:
        found = []
        for part in PARTS:
            x = m.tensor([0.5, 1.5, 2.0], dtype=m.float64, requires_grad=True)
            y = x.clone()
            getattr(eval(part, {"y": y}), name)()
            (g,) = m.autograd.grad((y**2).sum(), x, create_graph=True)
            (h,) = m.autograd.grad((g * m.tensor([2.0, 1.0, 3.0])).sum(), x)
            found.append([g.detach(), h])
        return found

    same(run, f"written part {name}")
