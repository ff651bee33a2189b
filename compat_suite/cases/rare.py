"""Copies of views, segments, masked reductions, windows, short-time transforms and other rarer operators."""

from __future__ import annotations

from typing import Any

from ..case import BOOL, COMPLEX, FLOATS, INTS, D, b, case, e, et, i, s, t

ANY = (*FLOATS, *INTS, *BOOL, *COMPLEX)
RANGE = et(t(2, 3), 2)


def _product(result: Any) -> Any:
    """The matrix that singular vectors and values make up; the vectors alone are not unique."""
    u, values, v = result
    return (u * values) @ v.mH


COPIES = (
    case("torch.alias_copy", s(t(2, 3)), s(t(2, 3, layout="transposed")), dtypes=ANY),
    case(
        "torch.as_strided_copy", s(t(6), (2, 2), (1, 2)), s(t(2, 3), (2,), (3,), 1), errors=(et(t(2, 3), (9,), (1,)),)
    ),
    case(
        "torch.diagonal_copy",
        s(t(2, 3)),
        s(t(3, 3), 1),
        s(t(2, 3, 2), -1, 0, 2),
        errors=(et(t(2, 3), 0, 0, 0), et(t(3), 0)),
    ),
    case("torch.expand_copy", s(t(3), (2, 3)), s(t(2, 1), (2, 3)), errors=(et(t(3), (2, 4)),)),
    case("torch.narrow_copy", s(t(2, 3), 1, 1, 2), s(t(3), 0, -2, 1), errors=(et(t(2, 3), 1, 2, 2), et(t(), 0, 0, 1))),
    case("torch.permute_copy", s(t(2, 3, 2), (2, 0, 1)), errors=(e(t(2, 3), (0, 0)),)),
    case("torch.select_copy", s(t(2, 3), 1, -1), errors=(et(t(2, 3), 0, 2),)),
    case("torch.slice_copy", s(t(5, 2), 0, 1, None, 2), s(t(5), 0, -2), errors=(e(t(), 0),)),
    case("torch.split_copy", s(t(5, 2), 2), s(t(2, 3), 2, 1), errors=(et(t(2, 3), -1),)),
    case("torch.split_with_sizes_copy", s(t(5, 2), (2, 3)), errors=(et(t(5, 2), (2, 2)),)),
    case("torch.unsafe_split_with_sizes", s(t(5, 2), (2, 3)), strides=True),
    case("torch.squeeze_copy", s(t(1, 3, 1)), s(t(1, 3, 1), 0), s(t(1, 3, 1), (0, 2)), errors=(RANGE,)),
    case("torch.t_copy", s(t(2, 3)), s(t(3)), errors=(et(t(2, 3, 2)),)),
    case("torch.transpose_copy", s(t(2, 3), 0, 1), errors=(et(t(2, 3), 0, 2),)),
    case("torch.unbind_copy", s(t(2, 3)), s(t(2, 3), 1), errors=(RANGE,)),
    case("torch.unfold_copy", s(t(5), 0, 2, 1), s(t(2, 5), 1, 3, 2), errors=(et(t(3), 0, 4, 1),)),
    case("torch.unsqueeze_copy", s(t(2, 3), 1), errors=(et(t(2, 3), 4),)),
    case(
        "torch.view_copy",
        s(t(2, 3), (3, 2)),
        s(t(2, 3, layout="transposed"), (6,), grads=False),
        errors=(et(t(2, 3), (4,)),),
    ),
    case("torch.as_strided_scatter", s(t(6), t(2), (2,), (2,), 1, grads=False), errors=(et(t(4), t(3), (2,), (1,)),)),
)

SELECTIONS = (
    case(
        "torch.combinations",
        s(t(4)),
        s(t(3), 3),
        s(t(3), 2, True),
        s(t(3), 1),
        dtypes=ANY,
        errors=(et(t(2, 3)), et(t(3), -1)),
    ),
    case(
        "torch.gradient",
        s(t(5)),
        s(t(3, 4), dim=1, edge_order=2),
        s(t(4), spacing=2.0),
        s(t(3, 3), spacing=[1.0, 2.0], dim=(0, 1)),
        errors=(et(t(2), edge_order=2), et(t(3), edge_order=3), et(t(2, 3), spacing=[1.0])),
    ),
    case(
        "torch.nonzero_static",
        s(b(2, 3), size=4),
        s(t(4, special=(0, 1, 0, 2)), size=1),
        errors=(et(t(3), size=-1),),
        derivatives=0,
    ),
    case(
        "torch.unravel_index",
        s(i(2, 3, high=12), (3, 4)),
        s(i(4, high=6), 6),
        errors=(et(t(3), (3,)), et(i(2, high=2), (2, -1))),
        derivatives=0,
    ),
    case(
        "torch._chunk_cat",
        s([t(2, 3), t(3, 3)], 0, 2, grads=False),
        s([t(2, 3)], 1, 2, grads=False),
        errors=(et([t(2), t(2, 3)], -1, 2), et([t(2)], 0, 0)),
        derivatives=0,
    ),
    case(
        "torch._unsafe_masked_index",
        s(t(3, 4), b(2), [i(2, high=3), i(2, high=4)], 2.5),
        s(t(4), b(3), [i(3, high=4)], 0),
    ),
    case("torch._unsafe_masked_index_put_accumulate", s(t(4), b(3), [i(3, high=4)], t(3))),
    case(
        "torch.segment_reduce",
        s(t(4, 2), "sum", lengths=i(2, low=2, high=3)),
        s(t(4, 2), "mean", lengths=i(2, low=2, high=3), initial=1),
        s(t(4), "max", lengths=i(2, low=2, high=3)),
        s(t(4), "min", lengths=i(2, low=2, high=3)),
        s(t(4), "prod", lengths=i(2, low=2, high=3)),
        errors=(
            et(t(4), "sum"),
            et(t(4), "sum", lengths=i(2, low=1, high=2)),
            e(t(4), "median", lengths=i(2, low=2, high=3)),
        ),
        derivatives=1,
        jvp=False,
    ),
    case(
        "Tensor.fill_diagonal_",
        s(t(3, 3, grad=False), 2.0),
        s(t(5, 2, grad=False), 1, True),
        errors=(et(t(3, grad=False), 1),),
        derivatives=0,
    ),
    case("Tensor.dim_order", s(t(2, 3, 4)), s(t(2, 3, layout="transposed")), derivatives=0),
)

REDUCTIONS = (
    case(
        "torch.renorm",
        s(t(3, 4), 2, 0, 1.0),
        s(t(3, 4), 1, 1, 0.5),
        errors=(et(t(3), 2, 0, 1.0), et(t(2, 3), 0, 0, 1.0), et(t(2, 3), 2, 0, -1.0)),
        inplace=True,
    ),
    case(
        "torch.hash_tensor",
        s(t(2, 3)),
        s(t(2, 3), 1, keepdim=True),
        dtypes=("float32", "int64", "bool"),
        errors=(et(t(2), mode=1),),
        derivatives=0,
    ),
    case(
        "torch.histogramdd",
        s(t(6, 2), 2),
        s(t(6, 2), [2, 3], range=[-2.0, 2.0, -1.0, 1.0], density=True),
        errors=(et(t(3), 2), et(t(6, 2), [2])),
        derivatives=0,
    ),
    *(
        case(
            f"torch.masked.{name}",
            s(t(2, 3), *args, mask=b(2, 3, special=(True, False, True, False, True))),
            s(t(2, 3), *args),
        )
        for name, args in {
            "sum": (1,),
            "prod": (1,),
            "amax": (1,),
            "amin": (1,),
            "mean": (1,),
            "median": (1,),
            "var": (1,),
            "std": (1,),
            "norm": (2.0, 1),
            "logsumexp": (1,),
        }.items()
    ),
    *(
        case(f"torch.masked.{name}", s(t(2, 3), 1, mask=b(2, 3, special=(True, False, True))), derivatives=0)
        for name in ("argmax", "argmin")
    ),
)

TRANSFORMS = (
    case(
        "torch.stft",
        s(t(10), 4, window=t(4, low=0.5, grad=False), return_complex=True),
        s(t(2, 12), 4, 2, return_complex=True, center=True, normalized=True),
        errors=(e(t(10), 4), e(t(10), 4, 0, return_complex=True)),
    ),
    case("torch.istft", s(t(3, 6, dtype="complex128"), 4, window=t(4, low=0.5, grad=False)), errors=(e(t(3, 6), 4),)),
    case(
        "torch.svd_lowrank",
        s(t(5, 3), 2, grads=False),
        process=_product,
        strides=False,
        cause="singular vectors are unique up to their signs",
        derivatives=0,
    ),
    case(
        "torch.pca_lowrank",
        s(t(5, 3), 2, grads=False),
        process=_product,
        strides=False,
        cause="singular vectors are unique up to their signs",
        derivatives=0,
        errors=(et(t(3, 3), 4),),
    ),
)

LAYERS = (
    case("torch.ops.aten.slice", s(t(5, 2), 0, 1, None, 2), core="slice"),
    case("torch._softmax_backward_data", s(t(2, 3), t(2, 3), 1, D("float64"))),
    case(
        "torch.nn.functional.linear_cross_entropy",
        s(t(4, 3), t(2, 3), i(4, high=2)),
        s(t(4, 3), t(2, 3), t(4, 2, low=0.1), reduction="sum", linear_bias=t(2)),
        errors=(et(t(2, 3, 4), t(2, 4), i(2, high=2)), et(t(2, 3), t(2, 4), i(2, high=2))),
    ),
)

CASES = (*COPIES, *SELECTIONS, *REDUCTIONS, *TRANSFORMS, *LAYERS)
