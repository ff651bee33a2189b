"""Single elements, empty slices, infinities, zeros."""

from __future__ import annotations

from typing import Any

import pytest

from tests.differential import everything
from tests.engine.graph.test_inference_and_forbidden_views import WRITE
from tests.engine.helpers import played

D = "d = torch.autograd.forward_ad; inf, nan = float('inf'), float('nan'); at = torch.tensor([1, 0, 0])"

# Lines that run one by one, whatever the ones before raised; then every tensor is looked at.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "indices_into_empty_slices": (
        D,
        "a = torch.zeros(0, 1)[:, at]; b = torch.zeros(3, 0)[at + 7]; c = torch.zeros(2, 0, 4)[:, :, at + 7]",
        "torch.zeros(2, 0, 4)[at + 7, at]",
        "torch.zeros(0, 2)[at]",
        "e = torch.zeros(2, 0, 4).index_put((at + 7,), torch.zeros(3, 0, 4))",
        "f = torch.zeros(2, 0).index_add(0, at + 7, torch.zeros(3, 0))",
        "g = torch.zeros(2, 0).index_copy(0, at + 7, torch.zeros(3, 0))",
        "h = torch.zeros(2, 0).index_fill(0, at + 7, 1.0); i = torch.zeros(0, 1); i[:, at] = 1.0",
        "torch.zeros(0).take(at)",
        "torch.zeros(0).put(at, torch.ones(3))",
        "torch.zeros(2, 3).index_copy(0, at + 7, torch.zeros(3, 3))",
    ),
    "moments_whose_own_gradient_is_missing": (
        "x = torch.tensor([2.0], requires_grad=True)",
        "torch.var_mean(x)[1].backward()",
        "y = torch.ones(2, 2, requires_grad=True); torch.std_mean(y, 1)[1].sum().backward()",
        "torch.std_mean(y, 1)[0].sum().backward()",
    ),
    "maxima_with_infinite_gradients": (
        D,
        "x = torch.tensor([1.0, nan, -inf], requires_grad=True)",
        "y = torch.tensor([inf, -1.0, 2.0], requires_grad=True)",
        "for f in (torch.max, torch.min, torch.median, torch.nanmedian): (f(x) ** 2 + f(y) ** 2).backward()",
        "x.grad = y.grad = None; (x.amax() ** 2 + y.amax() ** 2 + y.amin()).backward()",
        "z = torch.tensor([3.0, 3.0, 3.0, 1.0], requires_grad=True); (z.amax() + z.max()).backward(torch.tensor(0.7))",
    ),
    "renorm_of_what_is_not_a_number": (
        D,
        "x = torch.tensor([[1.0, 2.0], [nan, 1.0], [0.1, 0.2], [inf, 1.0], [0.0, 0.0]], requires_grad=True)",
        "x.renorm(2, 0, 1.0).backward(torch.arange(1.0, 11.0).view(5, 2))",
        "y = torch.tensor([[1.0, 2.0], [0.3, -0.1]], dtype=torch.float64, requires_grad=True); z = y.renorm(3, 1, 0.5)",
        "torch.autograd.grad(z.square().sum(), y, create_graph=True)[0].sum().backward()",
    ),
    "products_with_zeros": (
        "x = torch.tensor([[1.0, -1.7, -1.0], [-0.9, 1.0, 0.0], [1.0, 0.0, 2.0]], requires_grad=True)",
        "y = x.prod(0); (y * y).sum().backward()",
        "i = x.grad.reciprocal(); x.grad = None; x.prod().backward(); x.grad = None; x[:, :2].prod(1).sum().backward()",
        "h = torch.autograd.grad(torch.autograd.grad(x.prod(1).sum(), x, create_graph=True)[0].sum(), x)[0] * 1",
    ),
    "trigamma": (
        "x = torch.tensor([-3.3, -0.2, 0.0, 0.4, 1.1358, 30.0, -2.0, float('inf')], dtype=torch.float64)",
        "y = torch.polygamma(1, x); z = torch.polygamma(1, x.float())",
        "w = x.clone().requires_grad_(); w.digamma().sum().backward()",
    ),
    "complex_views_of_a_part": (
        "x = torch.arange(5.0, requires_grad=True); a = x * 1",
        "v = torch.view_as_complex(a[:4].view(2, 2)); v.exp_()",
        "a.sum().backward()",
        "b = torch.arange(3, dtype=torch.float32); w = b[:2].view(torch.float64); w.mul_(2.0)",
        "c = torch.arange(7, dtype=torch.uint8); u = c[:4].view(torch.int32); u.add_(1)",
        "c[:6].view(torch.int16).zero_()",
    ),
    "empty_tensors_no_kernel_takes": (
        "x = torch.zeros(0, 3, dtype=torch.complex64); y = x.clone().requires_grad_()",
        "a = x.amin(-1); b = x.cummax(-1)[0]; c = x.mode(-1)[0]; d = x.median(); e = x.softmax(-1)",
        "f = x.log_softmax(0)",
        "y.amin(-1)",
        "y.cummin(-1)",
        "y.mode(-1)",
        "y.median()",
        "x.aminmax()",
        "x.aminmax(dim=-1)",
        "x.median(-1)",
        "x.max(-1)",
        "x.amax()",
        "torch.zeros(3, 0).amin(-1)",
        "torch.zeros(3, 0).nanmedian(-1)",
        "torch.zeros(3, 0, dtype=torch.bool).topk(1)",
        "x.amin(0)",
    ),
    "sums_of_one_negative_zero": (
        "x = -torch.zeros(1, 3, requires_grad=True)",
        "a = 1 / x.sum(0); b = 1 / x.mean(0); c = 1 / x[0, 0].sum(); d = 1 / x.nansum(0); x.sum(0).sum().backward()",
    ),
    "zeros_that_sums_begin_with": (
        "F = torch.nn.functional; z = -torch.zeros(2, 3); i = -torch.zeros(1, 1, 4, 4, requires_grad=True)",
        "w = torch.tensor([1.0, -2.0, 0.5])",
        "a = F.layer_norm(z, (3,)); b = F.layer_norm(z + 2, (3,), w); c = F.batch_norm(z, None, None, training=True)",
        "d = F.batch_norm(z, z[0], -z[0] + 1, w); e = F.group_norm(z.view(1, 2, 3), 2); f = F.instance_norm(z[None])",
        "g = F.avg_pool2d(i, 2); h = F.avg_pool2d(i, 3, padding=1); k = F.adaptive_avg_pool2d(i, 2)",
        "k.sum().backward()",
        "m = F.avg_pool1d(z[None], 2); n = F.fold(F.unfold(i, 2), 4, 2); o = torch.special.i1(z), torch.special.i1e(z)",
        "p = [1 / v for v in (a, b, c, d, e, f, g, h, k, m, n, *o)]",
    ),
    "names_of_types_in_refused_writes": (
        "a = torch.arange(3); f = torch.tensor(1.5)",
        "a.clamp_(1.5)",
        "a.clamp_(f)",
        "a.clip_(max=f)",
        "a.clamp_min_(f)",
        "a.clamp_max_(1.5)",
        "a.add_(f)",
    ),
    "losses_of_classes_that_are_left_out": (
        "F = torch.nn.functional; x = torch.tensor([[0.1, -0.2, 0.3], [1.0, 2.0, -1.0]], requires_grad=True)",
        "t = torch.tensor([-100, 1]); w = torch.tensor([0.5, 0.0, 2.0])",
        "for r in ('mean', 'sum', 'none'): F.nll_loss(x, t, w, reduction=r).sum().backward()",
        "a = 1 / x.grad; x.grad = None; F.nll_loss(x, torch.tensor([-100, -100])).backward()",
        "b = torch.autograd.grad(F.cross_entropy(x, t, w + 1, ignore_index=1), x)[0]",
        "torch.autograd.grad(F.cross_entropy(x, t, w + 1), x, create_graph=True)[0].square().sum().backward()",
    ),
    "copies_of_inference_tensors_that_ask_for_gradients": (
        "import copy; x = torch.ones(3, requires_grad=True)",
        "with torch.inference_mode(): y = copy.deepcopy(x); z = torch.ones(2, 3)",
        "a = y.clone(); b = y.double(); c = a * 2; (c.sum() + b.sum()).backward()",
        "d = torch.select_scatter(z, z[0], 0, 0); e = torch.slice_scatter(z, z[:1], 0, 0, 1)",
    ),
    "gradients_of_elements_that_share_a_place": (
        "x = torch.tensor([0.0, -2.0, 1.0], requires_grad=True)",
        "def of(y, z): return [g.clone(memory_format=torch.contiguous_format) for g in torch.autograd.grad(z, [y, x])]",
        "y = x.as_strided((2, 3), (0, 1)); g, h = of(y, (y.as_strided((2,), (1,), 1) ** 2).sum())",
        "a = x.as_strided((2, 2), (1, 1)); k, n = of(a, (a.as_strided((3,), (1,)) ** 2).sum())",
        "e = x.expand(2, 3); u, v = of(e, (e.as_strided((2,), (1,)) ** 2).sum())",
    ),
    "diagonals_read_nothing_again": (
        "x = torch.ones(2, 2, requires_grad=True); m = torch.arange(6.0).view(2, 3).requires_grad_()",
        "g = torch.autograd.grad(x.diagonal().sum(), x, create_graph=True)[0]",
        "h = torch.autograd.grad(torch.diag(x).sum(), x, create_graph=True)[0]",
        "k = torch.autograd.grad((m.diagonal(1) * m.diagonal(-1)[0]).sum(), m)[0] * 1",
        "e = m.diagonal(5); n = m.diagonal(-1)",
    ),
    "booleans_filled_with_complex_numbers": (
        "b = torch.tensor([False, True]); c = b.masked_fill(b, torch.tensor(1j)); d = b.masked_fill(~b, 1j)",
    ),
    "retained_by_views_of_what_was_tracked_later": (
        "t = torch.tensor(1.0, requires_grad=True); x = torch.ones(3); v = x.expand(2, 3); w = v.view(2, 3); x.add_(t)",
        "w.retain_grad(); kept = w.retains_grad; v.is_leaf; v.retain_grad(); (v.sum() + w.sum()).backward()",
    ),
    "forbidden_views_complain_before_wrong_arguments": (
        "x = torch.ones(3, 3, requires_grad=True); y = x.neg(); a, b, c = y.unbind(); y.add_(1)",
        "c.as_strided((2, 2), (2, 1), 100)",
        "c[torch.tensor([9])]",
        "c.gather(0, torch.tensor([9]))",
        "c.expand(9)",
        "c.transpose(0, 9)",
        "c.unbind(9)",
        "with torch.no_grad(): c.transpose(0, 9)",
    ),
    "writes_to_conjugated_views_that_overlap_themselves": (
        "z = torch.tensor([1 + 2j, 3 - 1j]); c = z.conj().expand(2, 2); f = z.expand(2, 2)",
        "i = z.conj().imag.expand(2, 2)",
        *(
            f"{x}.{call}"
            for x in ("c", "i", "f")
            for call in ("fill_(2.0)", "zero_()", "index_fill_(0, torch.tensor([0]), 1.0)", "__setitem__(0, 4.0)")
        ),
        "c[torch.tensor([True, False])] = 1.0",
        "i[torch.tensor([1])] = 1.0",
    ),
    "dual_tensors_are_plain_in_inference_mode": (
        D,
        "x = torch.ones(2); y = torch.tensor([2.0, 3.0]); e = torch.ones(1).expand(2)",
        "t = []; level = d.dual_level(); level.__enter__()",
        "def what(u, v): t.append((u.primal.tolist(), u.tangent is None, v.is_inference(), v._is_view()))",
        "def of(v): what(d.unpack_dual(v), v)",
        "z = d.make_dual(x, y); i = torch.inference_mode(); i.__enter__()",
        *(
            f"of({v})"
            for v in (
                "z",
                "z * 2",
                "d.make_dual(x, y)",
                "d.make_dual(z, y)",
                "d.make_dual(y, z)",
                "d.make_dual(e, y)",
                "d.make_dual(x, torch.ones(3))",
                "d.make_dual(x, torch.ones(2, dtype=torch.int64))",
            )
        ),
        "w = torch.ones(2); i.__exit__(None, None, None)",
        "of(z); of(d.make_dual(w, y)); of(d.make_dual(y, w))",
        "d.make_dual(e, y)",
        "found = [k for k in t]; level.__exit__(None, None, None)",
    ),
    "values_that_are_read_as_numbers": (
        "def of(v, **k): return torch.tensor(v, **k)",
        "a = torch.ones(3); i = torch.ones(3, dtype=torch.uint8); m = torch.tensor([True, False, True])",
        "a[m] = of(1 + 2j)",
        "a[m] = of(2 + 0j)",
        "a.masked_fill_(m, of(3 + 0j))",
        "a.masked_fill_(m, of(3 + 1j))",
        "a.masked_fill_(m, of(1e300, dtype=torch.float64))",
        "a.masked_fill_(m, of(float('inf'), dtype=torch.float64))",
        "i[m] = of(300)",
        "i[m] = of(float('nan'))",
        "i.masked_fill_(m, of(3.7))",
        "j = i.masked_fill(m, of(-1e9))",
        "i.index_fill_(0, torch.tensor([0]), of(256))",
        "i.index_fill_(0, torch.tensor([0]), of(25.5))",
    ),
    "forbidden_views_complain_before_versions_do": (
        "x = torch.ones(2, 3, requires_grad=True); y = 2.0 - x",
        "with torch.no_grad(): a, b = y.tensor_split(2)",
        "c = a.std(); d = b.exp(); y.mul_(c)",
        "c.backward(retain_graph=True)",
        "d.sum().backward()",
    ),
    "marked_dirty_after_data_was_set": (
        WRITE,
        "x = torch.ones(3, requires_grad=True); y = torch.softmax(x, 0); y.data = torch.ones(3); v = y[:-1]",
        "w = Write.apply(v, torch.ones(2))",
    ),
}
test_program = pytest.mark.long(
    "maxima_with_infinite_gradients",
    "renorm_of_what_is_not_a_number",
    "products_with_zeros",
    "complex_views_of_a_part",
    "zeros_that_sums_begin_with",
)(played(PROGRAMS))

ONE_ELEMENT = (
    "x.sum()",
    "x.reshape(1).sum()",
    "x.prod()",
    "x.mean()",
    "x.amax()",
    "x.clone()",
    "x.expand(x.shape)",
    "x.view(x.shape)",
    "x + 1",
    "x.sum(-1)",
    "x.prod(-1)",
    "x.sum(-1, keepdim=True)",
    "x.cumsum(-1)",
    "x.cumprod(-1)",
)


@pytest.mark.parametrize("how", ONE_ELEMENT)
def test_the_gradient_of_a_single_element(how: str, same: Any) -> None:
    def run(m: Any) -> Any:
        seen = []
        for shape in ((), (1,), (1, 1)):
            for twice in (False, True):
                x = m.full(shape, 3.0).requires_grad_()
                given = {"x": x}
                roots = [eval(how, given) for _ in range(1 + twice)]
                m.autograd.backward(roots, [m.full(y.shape, 2.0) for y in roots])
                seen.append(x.grad.tolist())
        return seen

    same(run, f"single {how}")


@pytest.mark.long
@pytest.mark.parametrize("grad_mode", [True, False])
def test_tangents_lie_as_their_primals_do(grad_mode: bool, same: Any) -> None:
    def run(m: Any) -> Any:
        made = {
            "leaf": lambda: m.ones(3, requires_grad=True),
            "part": lambda: m.ones(3, 3)[1],
            "other part": lambda: m.ones(3, 3)[2],
            "part of a result": lambda: (m.ones(3, 3, requires_grad=True) * 1)[1],
            "unbound": lambda: m.ones(3, 3).unbind()[0],
            "half": lambda: m.ones(6)[3:],
            "steps": lambda: m.ones(6)[::2],
            "whole": lambda: m.ones(1, 3)[0],
            "real": lambda: m.ones(3, dtype=m.complex64).real,
            "imaginary": lambda: m.ones(2, 3, dtype=m.complex64).imag[1],
        }
        seen = {}
        for a, primal in made.items():
            for b, tangent in made.items():
                with m.set_grad_enabled(grad_mode), m.autograd.forward_ad.dual_level():
                    dual = m.autograd.forward_ad.make_dual(primal(), tangent())
                    found = m.autograd.forward_ad.unpack_dual(dual).tangent
                    seen[f"{b} of {a}"] = everything(found)
        return seen

    same(run, f"tangents {grad_mode}")
