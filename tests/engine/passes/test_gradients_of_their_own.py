"""Gradients: what they depend on, and what refuses them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.helpers import attempt, given, steps, under


def tensors(m: Any) -> dict[str, Any]:
    b = m.tensor([[0.3, 1.2, -0.7], [0.9, -1.1, 0.4]])
    rows = m.tensor([0, 1])
    return {"b": b, "x": b.clone().requires_grad_(), "t": b * 1.1 + 0.2, "z": m.complex(b, b * 2), "rows": rows}


# What a recorded gradient depends on.
RECORDED = {
    "prod": lambda x: x.prod(), "prod of one number": lambda x: x[0, 0].prod(),
    "cumprod of one number": lambda x: x[0, 0].cumprod(0), "cumprod of one element": lambda x: x[0, :1].cumprod(0),
    "prod of one element": lambda x: x[0, :1].prod(0), "nansum": lambda x: x.nansum(),
    "nan_to_num": lambda m, x: m.nan_to_num(x), "lerp": lambda t, x: t.lerp(t, x),
    "xlogy": lambda m, x, t: m.xlogy(x, t), "xlog1py": lambda m, x, t: m.special.xlog1py(x, t),
    "xlog1py by its second": lambda m, x, t: m.special.xlog1py(t, x), "view as it is": lambda x: x.view(2, 3),
    "permute as it is": lambda x: x.permute(0, 1), "unflatten": lambda x: x.unflatten(1, (3,)),
    "cat of one": lambda m, x: m.cat([x]), "repeat once": lambda x: x.repeat(1, 1),
    "mul by complex": lambda x, z: x * z, "sub from complex": lambda x, z: z - x, "add of 1j": lambda x: x + 1j,
    "complex": lambda m, x, t: m.complex(t, x), "to complex": lambda m, x: x.to(m.complex64),
    "fft": lambda m, x: m.fft.fft(x), "var of var_mean": lambda m, x: m.var_mean(x)[0],
    "mean of var_mean": lambda m, x: m.var_mean(x)[1], "std of std_mean": lambda m, x: m.std_mean(x)[0],
    "mean of std_mean": lambda m, x: m.std_mean(x)[1],
    "product with std of std_mean": lambda m, x: m.std_mean(x)[0] * m.ones(1),
    "mse_loss": lambda m, x, t: m.nn.functional.mse_loss(x, t),
    "smooth_l1_loss": lambda m, x, t: m.nn.functional.smooth_l1_loss(x, t),
    "binary_cross_entropy_with_logits": lambda m, x, t: m.nn.functional.binary_cross_entropy_with_logits(x, t),
    "sum of binary_cross_entropy_with_logits":
        lambda m, x, t: m.nn.functional.binary_cross_entropy_with_logits(x, t, reduction="sum"),
    "nll_loss": lambda m, x, rows: m.nn.functional.nll_loss(x, rows),
    "avg_pool1d": lambda m, x: m.nn.functional.avg_pool1d(x, 2, 1),
    "max_pool1d": lambda m, x: m.nn.functional.max_pool1d(x, 2, 1),
    "adaptive_max_pool1d": lambda m, x: m.nn.functional.adaptive_max_pool1d(x, 2),
    "conv1d": lambda m, x, t: m.nn.functional.conv1d(x, t[None]), "acosh": lambda m, x: m.acosh(x + 3),
    "atanh": lambda m, x: m.atanh(x / 4), "polygamma": lambda m, x: m.polygamma(2, x + 3),
    "mvlgamma": lambda m, x: m.mvlgamma(x + 6, 2), "put": lambda x, t, rows: x.put(rows, t[0, :2]),
    "put by its values": lambda x, t, rows: t.put(rows, x[0, :2]), "nanmedian": lambda x: x.nanmedian(),
    "nanmedian of columns": lambda x: x.nanmedian(0)[0], "mode": lambda x: x.mode(-1)[0],
    "min of aminmax": lambda m, x: m.aminmax(x)[0], "both of aminmax": lambda m, x: sum(m.aminmax(x)),
    "rot90": lambda x: x.rot90(), "lu": lambda m, x: m.linalg.lu(x)[2],
    "lu_factor": lambda m, x: m.linalg.lu_factor(x)[0],
    **{f"index_reduce {how}": lambda x, t, rows, how=how: x.index_reduce(0, rows, t, how) for how in ("mean", "amax")},
    **{f"index_reduce {how} by its source": lambda x, t, rows, how=how: t.index_reduce(0, rows, x, how)
       for how in ("mean", "amin")},
    "sgn of complex": lambda m, x, t: m.complex(x, t).sgn().imag,
    "zeta by its shift": lambda m, x: m.special.zeta(2.0, x + 3),
    **{n: lambda m, x, n=n: getattr(m, n)(x) for n in ("asinh", "erfc", "exp2", "sinc", "i0", "celu")},
    **{n: lambda m, x, n=n: getattr(m.special, n)(x) for n in ("erfcx", "i0e", "i1", "i1e", "log_ndtr", "ndtr")},
    "ndtri": lambda m, x: m.special.ndtri(x / 4 + 0.5), "entr": lambda m, x: m.special.entr(x + 2),
    "mul by a number": lambda x: x * 2, "div by a number": lambda x: x / 2,
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_gradient(name: str, same: Any) -> None:
    def run(m: Any) -> Any:
        made = tensors(m)
        x, y = made["x"], given(RECORDED[name], m=m, **made)()
        ones = m.ones_like(y)
        (plain,) = m.autograd.grad(y, x, ones, create_graph=True)
        (g,) = m.autograd.grad(y, x, ones.clone().requires_grad_(), create_graph=True)
        return [plain.requires_grad, g.detach().tolist()]

    same(run, f"recorded {name}", raises=False)


PROGRAMS = {
    "complex frees its graph": lambda m, x, t: (
        y := m.complex(x, t), y.real.sum().backward(), attempt(lambda: y.imag.sum().backward())),
    # Formulas that do not fit their arguments raise when they run.
    "the gradient of addcdiv by its first is refused beside integers": lambda m, b, x: (
        y := m.addcdiv(b, x, m.tensor([1, 2, 3])), attempt(lambda: y.sum().backward())),
    "the gradient of addcdiv by its second is taken beside integers": lambda m, b, x: (
        y := m.addcdiv(b, m.tensor([1, 2, 3]), x), y.sum().backward()),
    "the gradient of a real part of a complex where is refused": lambda m, b, x, z: (
        y := m.where(b > 0, x, z), attempt(lambda: y.abs().sum().backward())),
    "the gradient of a real number that masks complex ones is refused": lambda b, x, z: (
        y := z.masked_fill(b > 0, x[0, 0]), attempt(lambda: y.abs().sum().backward())),
    "the gradient of a real number that fills complex ones is refused": lambda x, z: (
        y := z.clone().fill_(x[0, 0]), attempt(lambda: y.abs().sum().backward())),
    "a node without a derivative raises although nobody waits for its gradients": lambda m: (
        x := m.tensor([[1.0, 1.0], [0.4, 1.0], [-0.1, 1.0]], requires_grad=True),
        parts := under(m.no_grad(), lambda: x.t().unbind()), y := m.heaviside(parts[1], parts[0]),
        attempt(lambda: y.sign().unbind()[1].backward())),
    "zeros of the gradient of a real part are positive": lambda m: (
        z := m.tensor([1 + 2j, 3 - 1j], requires_grad=True), z.real.sum().backward(), g := m.view_as_real(z.grad),
        g.copysign(g).atan2(m.tensor(-1.0))),
    "a gradient that formally depends on its input is zeros with a history": lambda m, x: (
        (g := m.autograd.grad(m.nn.functional.avg_pool1d(x, 2, 1).sum(), x, create_graph=True)[0]).requires_grad,
        m.autograd.grad(g.sum(), x)[0].clone()),
}  # fmt: skip
test_refused = steps(PROGRAMS, tensors).test()


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
            for copied in (False, True):
                x = m.ones(shape, dtype=m.float64, requires_grad=True)
                y, row = fn(x * 1 if copied else x), []
                while y.requires_grad and len(row) < 3:
                    (y,) = m.autograd.grad(((y * y) if row else y).sum(), x, create_graph=True)
                    row.append([y.requires_grad, y.shape])
                found.append(row)
        return found

    same(run, f"nothing {shape}")


PARTS = (
    lambda y: y[0],
    lambda y: y[:1],
    lambda y: y.view(3, 1),
    lambda y: y.unsqueeze(0),
    lambda y: y[1:].view(2, 1),
    lambda y: y[::2],
)


@pytest.mark.parametrize("name", ["exp_", "tanh_", "sigmoid_", "sqrt_", "reciprocal_"])
def test_second_gradient_through_the_saved_result_of_a_write_to_a_part(name: str, same: Any) -> None:
    def run(m: Any) -> Any:
        found = []
        for part in PARTS:
            x = m.tensor([0.5, 1.5, 2.0], dtype=m.float64, requires_grad=True)
            y = x.clone()
            getattr(part(y), name)()
            (g,) = m.autograd.grad((y**2).sum(), x, create_graph=True)
            (h,) = m.autograd.grad((g * m.tensor([2.0, 1.0, 3.0])).sum(), x)
            found.append([g.detach(), h])
        return found

    same(run, f"written part {name}")
