"""Shapes, views and copies of another shape."""

from __future__ import annotations

from ..case import BOOL, COMPLEX, FLOATS, INTS, Attr, Case, D, b, case, e, et, i, s, t

ANY = (*FLOATS, *INTS, *BOOL, *COMPLEX)
RANGE = et(t(2, 3), 2)

VIEWS = (
    case("Tensor.view", s(t(2, 3), 3, 2), s(t(2, 3), (-1,)), s(t(2, 3), -1, 1, 3, second=False), s(t(), 1, second=False), s(t(0, 3), 3, 0, second=False), s(t(2, 3), D("int64")),
         s(t(2, 3, layout="transposed"), 2, 3), s(t(2, 2, dtype="float32"), D("int32")), dtypes=ANY,
         errors=(et(t(2, 3), 4), et(t(2, 3, layout="transposed"), 6), et(t(2, 3), -1, -1), et(t(0, 3), -1, 0))),
    case("Tensor.view_as", s(t(2, 3), t(3, 2)), errors=(et(t(2, 3), t(4)),)),
    case("torch.reshape", s(t(2, 3), (3, 2)), s(t(2, 3, layout="transposed"), (6,)), s(t(2, 3), (-1,), second=False), s(t(), (1, 1), second=False), s(t(0, 2), (4, 0), second=False), dtypes=ANY,
         errors=(et(t(2, 3), (4,)), et(t(2, 3), (-1, -1)), et(t(0, 3), (-1, 0))), jax="jax.numpy.reshape"),
    case("Tensor.reshape_as", s(t(2, 3), t(3, 2)), errors=(et(t(2, 3), t(4)),)),
    case("torch.flatten", s(t(2, 3)), s(t(2, 3, 2), 1), s(t(2, 3, 2), 0, 1, second=False), s(t(), second=False), s(t(2, 3, layout="transposed")), errors=(e(t(2, 3), 1, 0), RANGE)),
    case("torch.unflatten", s(t(2, 6), 1, (2, 3)), s(t(2, 6), -1, (-1, 2)), errors=(e(t(2, 6), 1, (4, 2)), e(t(2, 6), 5, (2, 3)))),
    case("torch.squeeze", s(t(1, 3, 1)), s(t(1, 3, 1), 0), s(t(1, 3, 1), (0, 2), second=False), s(t(2, 3), 0, second=False), s(t(), second=False), errors=(RANGE,)),
    case("torch.unsqueeze", s(t(2, 3), 0), s(t(2, 3), -1), s(t(2, 3), 1, second=False), s(t(), 0, second=False), dtypes=ANY, errors=(et(t(2, 3), 3), e(t(2, 3), -4))),
    case("torch.transpose", s(t(2, 3), 0, 1), s(t(2, 3, 2), 0, -1), s(t(), 0, 0, second=False), dtypes=ANY, errors=(et(t(2, 3), 0, 2),)),
    case("torch.t", s(t(2, 3)), s(t(3), second=False), s(t(), second=False), errors=(et(t(2, 3, 2)),)),
    case("torch.permute", s(t(2, 3, 2), (2, 0, 1)), s(t(2, 3), (-1, 0)), s(t(), (), second=False), errors=(e(t(2, 3), (0, 0)), e(t(2, 3), (0,)), e(t(2, 3), (0, 2)))),
    case("torch.movedim", s(t(2, 3, 2), 0, -1), s(t(2, 3, 2), (0, 1), (2, 0)), errors=(e(t(2, 3), (0, 1), (0,)), e(t(2, 3), (0, 0), (0, 1)))),
    case("Tensor.T", s(t(2, 3)), s(t(3), second=False), errors=()),
    case("Tensor.mT", s(t(2, 3)), s(t(2, 3, 2), second=False), errors=(e(t(3)),)),
    case("Tensor.mH", s(t(2, 3, dtype="complex128")), s(t(2, 3), second=False), errors=(e(t(3)),)),
    case("Tensor.expand", s(t(3), 2, 3), s(t(2, 1), 2, 3), s(t(2, 1), -1, 3, second=False), s(t(), 2, second=False), s(t(3), 0, 3, second=False), dtypes=ANY,
         errors=(et(t(3), 2, 4), et(t(2, 3), 3), et(t(3), -1, 3))),
    case("Tensor.expand_as", s(t(3), t(2, 3)), errors=(et(t(3), t(2, 4)),)),
    case("torch.broadcast_to", s(t(3), (2, 3)), s(t(2, 1), (2, 3)), errors=(et(t(3), (2, 4)),), jax="jax.numpy.broadcast_to"),
    case("torch.broadcast_tensors", s(t(3), t(2, 1)), s(t(2, 3), t()), errors=(e(t(2), t(3)),)),
    case("torch.narrow", s(t(2, 3), 1, 1, 2), s(t(3), 0, -2, 1), s(t(3), 0, 3, 0, second=False), s(t(3), 0, i(high=1), 1, second=False), dtypes=ANY,
         errors=(et(t(2, 3), 1, 2, 2), et(t(2, 3), 1, 4, 0), e(t(), 0, 0, 1), et(t(2, 3), 2, 0, 1), e(t(2, 3), 1, 0, -1))),
    case("torch.select", s(t(2, 3), 0, 1), s(t(2, 3), -1, -1), dtypes=ANY, errors=(et(t(2, 3), 0, 2), et(t(2, 3), 2, 0), et(t(), 0, 0))),
    case("torch.split", s(t(3, 2), 2), s(t(2, 3), (1, 2), 1), s(t(3), 5, second=False), s(t(0, 2), 2, second=False), errors=(e(t(3), -1), et(t(3), (1, 1)), e(t(), 1))),
    case("Tensor.split_with_sizes", s(t(3, 2), (1, 2)), s(t(2, 3), (1, 0, 2), 1), core="split_with_sizes", errors=(et(t(3), (1, 1)),)),
    case("torch.chunk", s(t(3, 2), 2), s(t(2, 3), 3, 1), s(t(3), 5, second=False), errors=(e(t(3), 0), e(t(), 1))),
    case("torch.unbind", s(t(2, 3)), s(t(2, 3), 1), s(t(0, 3), second=False), errors=(e(t()), RANGE)),
    case("torch.diagonal", s(t(3, 3)), s(t(2, 3), 1), s(t(2, 3), -1), s(t(2, 3, 3), 0, 1, 2, second=False), s(t(2, 2), 4, second=False), errors=(e(t(3)), e(t(2, 3), 0, 0, 0)), jax="jax.numpy.diagonal"),
    case("torch.as_strided", s(t(6), (2, 2), (2, 1)), s(t(6), (2, 3), (1, 1), 1), s(t(2, 3), (3,), (2,)), s(t(3), (2, 3), (0, 1)), errors=(et(t(3), (4,), (1,)), e(t(3), (2,), (1, 1)), e(t(3), (2,), (-1,)))),
    case("Tensor.unfold", s(t(5), 0, 2, 1), s(t(2, 4), 1, 2, 2), s(t(3), 0, 3, 1, second=False), errors=(e(t(3), 0, 4, 1), e(t(3), 0, 2, 0), et(t(3), 1, 2, 1))),
    case("Tensor.contiguous", s(t(2, 3)), s(t(2, 3, layout="transposed")), s(t(2, 3, layout="expanded"), second=False)),
)  # fmt: skip

COPIES = (
    case("Tensor.repeat", s(t(2, 3), 2, 1), s(t(3), 2, 2), s(t(2), 0, second=False), s(t(), 3, second=False), dtypes=ANY, errors=(et(t(2, 3), 2), et(t(3), -1))),
    case("torch.tile", s(t(2, 3), (2,)), s(t(3), (2, 2)), dtypes=ANY, jax="jax.numpy.tile"),
    case("torch.repeat_interleave", s(t(3), 2), s(t(2, 3), 2, 1), s(t(3), i(3, high=3)), s(t(2, 3), t(2, dtype="int64", special=(2, 1)), 0, second=False), s(t(3, dtype="int64", special=(1, 0, 2))),
         errors=(e(t(3), -1), e(t(3), i(2, high=3)), e(t(2, 3), t(3)))),
    case("torch.diag", s(t(3)), s(t(3, 3)), s(t(3), 1), s(t(2, 3), -1, second=False), errors=(e(t(2, 2, 2)), e(t()))),
    case("torch.diag_embed", s(t(3)), s(t(2, 3)), s(t(2, 3), 1, 0, 2, second=False), errors=(e(t(3), 0, 0, 0),)),
    case("torch.cat", s([t(2, 3), t(1, 3)]), s([t(2, 1), t(2, 2)], 1), s([t(2), t(0), t(1)], second=False), s([t(2), i(2, high=3)]), s([t(2, dtype="float32"), t(1)], second=False), dtypes=ANY,
         errors=(et([t(2, 3), t(2, 2)]), et([t(), t()]), e([]), et([t(2), t(2)], 1), e([t(2), 3])), jax="jax.numpy.concatenate"),
    case("torch.stack", s([t(2, 3), t(2, 3)]), s([t(3), t(3)], -1), s([t(), t()], second=False), s([t(2), i(2, high=3)], second=False), dtypes=ANY, errors=(et([t(2), t(3)]), e([]), et([t(2), t(2)], 3)), jax="jax.numpy.stack"),
    case("torch.hstack", s([t(2, 3), t(2, 1)]), s([t(2), t(3)]), s([t(), t()], second=False), errors=(e([t(2, 3), t(3, 3)]), e([])), jax="jax.numpy.hstack"),
    case("torch.vstack", s([t(2, 3), t(1, 3)]), s([t(3), t(3)]), errors=(e([t(2, 3), t(2, 2)]), e([])), jax="jax.numpy.vstack"),
    case("torch.flip", s(t(2, 3), (0,)), s(t(2, 3), (0, 1)), s(t(2, 3, layout="transposed"), (-1,), second=False), s(t(0, 3), (0,), second=False), dtypes=ANY, errors=(e(t(2, 3), (0, 0)), et(t(2, 3), (2,))), jax="jax.numpy.flip"),
    case("torch.roll", s(t(2, 3), 1), s(t(2, 3), (1, -1), (0, 1)), s(t(3), 5, 0, second=False), s(t(0, 3), 1, second=False), errors=(e(t(2, 3), (1, 2), (0,)), e(t(2, 3), 1, 2)), jax="jax.numpy.roll"),
    case("torch.tril", s(t(3, 3)), s(t(2, 3), 1), s(t(2, 3, 3), -1, second=False), dtypes=ANY, errors=(e(t(3)),), inplace=True, jax="jax.numpy.tril"),
    case("torch.triu", s(t(3, 3)), s(t(2, 3), 1), s(t(2, 3, 3), -1, second=False), dtypes=ANY, errors=(e(t(3)),), inplace=True, jax="jax.numpy.triu"),
    case("torch.clone", s(t(2, 3)), s(t(2, 3, layout="transposed")), s(t(2, 3, layout="expanded")), s(t(2, 3, layout="transposed"), memory_format=Attr("contiguous_format"), second=False), dtypes=ANY),
    case("torch.meshgrid", s(t(2), t(3), indexing="ij"), s(t(2), t(3), indexing="xy"), s([t(2), t(3)], indexing="ij", second=False), errors=(e(t(2, 2), t(3), indexing="ij"), e(t(2), t(3), indexing="zz"))),
    case("torch.trace", s(t(3, 3)), s(t(2, 3)), s(i(2, 2, high=3)), dtypes=FLOATS, errors=(e(t(3)),), jax="jax.numpy.trace"),
    case("Tensor.to", s(t(2, 3), D("float32")), s(t(2, 3), D("int64")), s(i(3, high=3), D("float64")), s(t(2, 3), "cpu"), s(t(2), t(2, dtype="float32")), s(t(2, 3, layout="transposed"), D("float32"), second=False),
         s(t(2), D("float64"), copy=True), errors=(e(t(2), "nowhere"),)),
)  # fmt: skip

CONVERSIONS = tuple(
    case(f"Tensor.{name}", s(t(2, 3), smooth=name == "double"), s(i(3, high=3)), s(b(2)), s(t(2, 3, layout="transposed"), smooth=False, second=False)) for name in ("float", "double", "long", "bool")
) + (case("Tensor.item", s(t()), s(t(1, 1)), s(i(high=3)), s(b()), s(t(dtype="complex128")), s(t(dtype="float32")), errors=(et(t(2)), et(t(0)))),)  # fmt: skip

CASES: tuple[Case, ...] = (*VIEWS, *COPIES, *CONVERSIONS)
