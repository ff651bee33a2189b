"""Calls with unusual arguments beside torch, and entry points of what is out of scope."""

import pytest

import torchgrad_jax as tg
from tests.expressions import table
from torchgrad_jax._functions import unsupported

test_as_torch_does = pytest.mark.long(
    "strides of dimensions of size 1 beside a number, which is an operand of another shape",
    "nodes and layouts of norms made of singular values",
    "a tensor stands for a number if it has no dimension and no gradient is asked of it",
    "copies of views are copies",
    "selections, segments and histograms of unusual arguments",
    "functions that draw numbers inside take as many as torch's",
)(table(__file__, "calls.txt"))


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


@pytest.mark.long
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
