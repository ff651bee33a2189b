"""Calls with unusual arguments beside torch, and entry points of what is out of scope."""

import pytest

import torchgrad_jax as tg
from tests.expressions import table
from torchgrad_jax._functions import unsupported

PRELUDE = """
WRITES = {
    "full": lambda x, v: torch.full((2,), v, dtype=x.dtype),
    "fill_": lambda x, v: x.fill_(v),
    "full_like": lambda x, v: torch.full_like(x, v),
    "masked_fill": lambda x, v: x.masked_fill(x == 0, v),
    "assignment": lambda x, v: x.__setitem__(0, v) or x,
    "tensor": lambda x, v: torch.tensor(v, dtype=x.dtype),
    "number": lambda x, v: x.masked_fill(x == 0, torch.tensor(v)),
}
def write(how, kind, v):
    return WRITES[how](torch.zeros(2, dtype=kind), v)
def quotients(x, v):
    t = torch.tensor(v)
    rounded = [x.div(v, rounding_mode=mode) for mode in ("floor", "trunc")]
    by = [x // v, *rounded, x.clone().floor_divide_(v), x // t, x / v, x / t, x % v, torch.fmod(x, v)]
    return [*by, v // x, t // x, v / x, t / x]
"""
test_as_torch_does = table(__file__, "calls.txt", prelude=[PRELUDE])


def test_a_compiled_function_refuses_numbers_that_do_not_fit():
    write = tg.compile(lambda x, v: x.masked_fill(x == 0, v))
    for v, kind in ((-0.5, tg.uint8), (255.5, tg.uint8), (127.5, tg.int8)):
        with pytest.raises(RuntimeError, match="without overflow"):
            write(tg.zeros(2, dtype=kind), tg.tensor(v)).tolist()


GRIDS = {
    "counts": lambda x, w: tg.histogramdd(x, [2, 3]),
    "a range": lambda x, w: tg.histogramdd(x, [2, 3], range=[0.0, 4.0, 0.0, 5.0], density=True),
    "edges": lambda x, w: tg.histogramdd(x, [x.new_tensor([0, 2, 4]), x.new_tensor([0, 1, 9])], weight=w),
    "several dimensions": lambda x, w: tg.histogramdd(x[None], 2, weight=w[None]),
}


@pytest.mark.parametrize("name", GRIDS)
def test_points_are_counted_in_a_compiled_function(name):
    x = tg.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [4.0, 1.0], [3.9, 4.9]])
    hist, edges = GRIDS[name](x, x[:, 0] + 1)
    compiled, same_edges = tg.compile(lambda x: GRIDS[name](x, x[:, 0] + 1))(x)
    assert tg.allclose(hist, compiled)
    assert all(tg.allclose(a, b) for a, b in zip(edges, same_edges))


def test_a_compiled_function_refuses_points_at_infinity():
    with pytest.raises(RuntimeError, match="dimension 0's range"):
        tg.compile(lambda x: tg.histogramdd(x, 2)[0])(tg.full((2, 2), float("inf"))).tolist()


def test_a_refused_window_leaves_the_tensor_as_it_is():
    x = tg.ones(4)
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.set_(x.untyped_storage(), 0, (8,), (1,))
    assert x.tolist() == [1.0] * 4


@pytest.mark.parametrize("name", sorted(unsupported.FUNCTIONS))
def test_functions_of_other_layouts_say_that_they_are_out_of_scope(name):
    with pytest.raises(NotImplementedError, match=r"out of scope.*non_goals"):
        getattr(tg, name)(tg.ones(2))


@pytest.mark.parametrize("name", sorted(unsupported.TENSOR_METHODS))
def test_methods_of_other_layouts_say_that_they_are_out_of_scope(name):
    with pytest.raises(tg.UnsupportedLayoutError, match="out of scope"):
        getattr(tg.ones(2), name)()


def test_the_tangent_of_a_tensor_transposed_in_place_is_transposed():
    ad = tg.autograd.forward_ad
    with ad.dual_level():
        x = ad.make_dual(tg.zeros(2, 3), tg.arange(6.0).reshape(2, 3)) * 1
        x.transpose_(0, 1)
        assert ad.unpack_dual(x).tangent.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


def test_an_overlapping_out_tensor_is_refused():
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        tg.index_select(tg.ones(3, 6), 1, tg.tensor([0, 1]), out=tg.ones(6).expand(2, 6))


def test_the_gradient_of_as_strided_scatter_is_that_of_what_is_left_and_of_what_is_written():
    x, src = tg.zeros(3, 3, requires_grad=True), tg.zeros(2, 2, requires_grad=True)
    weight = tg.arange(9.0).reshape(3, 3)
    (tg.as_strided_scatter(x, src, (2, 2), (1, 2)) * weight).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0, 0.0], [0.0, 4.0, 5.0], [6.0, 7.0, 8.0]]
    assert src.grad.tolist() == [[0.0, 2.0], [1.0, 3.0]]


def test_an_operator_of_the_dispatcher_is_one_object_for_all_overloads():
    aten = tg.ops.aten
    assert aten.slice.Tensor is aten.slice.default
    assert aten.slice.Tensor(tg.arange(5), 0, 1, None, 2).tolist() == [1, 3]
    assert aten.sort.stable(tg.tensor([2, 1, 1]), stable=True)[1].tolist() == [1, 2, 0]
    assert str(aten.mm.default) == "aten.mm.default"
    with pytest.raises(AttributeError, match="no_such_operator"):
        aten.no_such_operator


def test_rows_out_of_range_are_refused():
    """PyTorch writes past the end of the result."""
    with pytest.raises(RuntimeError, match=r"a row is not in the range \[0, 4\)"):
        tg._convert_indices_from_coo_to_csr(tg.tensor([0, 9]), 4)
    with pytest.raises(NotImplementedError, match="not batches"):
        tg._convert_indices_from_csr_to_coo(tg.tensor([[0, 1]]), tg.tensor([[0]]))
