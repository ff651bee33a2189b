"""Copies of views, segments, masked reductions, windows, short-time transforms and other rarer operators."""

from __future__ import annotations

from typing import Any

from ..case import BOOL, COMPLEX, FLOATS, INTS, Attr, D, T, b, case, e, et, i, s, t
from .pointwise import INF

ANY = (*FLOATS, *INTS, *BOOL, *COMPLEX)
RANGE = et(t(2, 3), 2)
PLACES = t(4, special=(0.0, 1.0, 3.0, 4.0), grad=False)
WINDOW = t(4, low=0.5, grad=False)
COMPLEX_WINDOW = t(4, low=0.5, dtype="complex128", grad=False)
NONE = b(3, special=(False,) * 3)


def whole(*values: int) -> T:
    """A row of whole numbers."""
    return t(len(values), dtype="int64", special=values)


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
        s(t(3), 0, grads=False),
        dtypes=ANY,
        errors=(et(t(2, 3)), et(t(3), -1)),
    ),
    case(
        "torch.gradient",
        s(t(5)),
        s(t(3, 4), dim=1, edge_order=2),
        s(t(4), spacing=2.0),
        s(t(3, 3), spacing=[1.0, 2.0], dim=(0, 1)),
        s(t(), second=False),
        s(t(4), spacing=(PLACES,)),
        s(t(4), spacing=(PLACES,), edge_order=2),
        s(i(4, high=8)),
        errors=(
            et(t(2), edge_order=2),
            et(t(3), edge_order=3),
            et(t(2, 3), spacing=[1.0]),
            et(t(2, 3), dim=0, spacing=[1.0, 2.0]),
            et(t(2, 3), dim=(0, 0)),
            et(t(2, dtype="uint8")),
        ),
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
        s(whole(6, -1), (2, 3)),
        errors=(et(t(3), (3,)), et(i(2, high=2), (2, -1)), et(i(2, high=2), "a")),
        derivatives=0,
    ),
    case(
        "torch._chunk_cat",
        s([t(2, 3), t(3, 3)], 0, 2, grads=False),
        s([t(2, 3)], 1, 2, grads=False),
        errors=(et([t(2), t(2, 3)], -1, 2), et([t(2)], 0, 0), et([], 0, 2)),
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
        s(t(5), "amax", lengths=whole(2, 0, 3)),
        s(t(4), "amin", lengths=i(2, low=2, high=3), initial=0.5),
        s(t(5), "mean", lengths=whole(2, 0, 3)),
        s(t(5), "max", lengths=whole(2, 0, 3), initial=2),
        s(t(5), "sum", offsets=whole(0, 2, 4)),
        s(t(2, 2), "prod", lengths=t(2, 2, dtype="int64", special=(1, 1, 2, 0)), axis=1),
        errors=(
            et(t(5), "sum", lengths=whole(-2, 7)),
            et(t(5), "sum", lengths=t(2, special=(2.0, 3.0))),
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
        s(i(2, 2, high=3), 1.7),
        errors=(et(t(3, grad=False), 1), et(t(3, 2, 3, grad=False), 1)),
        derivatives=0,
    ),
    case(
        "Tensor.dim_order",
        s(t(2, 3, 4)),
        s(t(2, 3, layout="transposed")),
        s(t(2, 3, 4, 5), ambiguity_check=[Attr("contiguous_format"), Attr("channels_last")]),
        derivatives=0,
        errors=(et(t(1, 2), ambiguity_check=True),),
    ),
    case(
        "torch._convert_indices_from_coo_to_csr",
        s(whole(0, 0, 2, 2, 2, 4), 6),
        s(t(3, dtype="int32", special=(1, 1, 3)), 4),
        s(whole(1, 1, 3), 4, out_int32=True),
        s(whole(), 3),
        s(whole(), 0),
        errors=(et(t(1, 1, dtype="int64", special=(0,)), 3), et(t(1), 3)),
    ),
    case(
        "torch._convert_indices_from_csr_to_coo",
        s(whole(0, 2, 2, 5, 5, 6), whole(4, 1, 0, 3, 2, 5)),
        s(whole(0, 2, 2, 3), whole(4, 1, 0), out_int32=True, transpose=True),
        s(whole(0, 0), whole()),
    ),
    case("torch.rot90", s(t(3, 2), 3)),
)

REDUCTIONS = (
    case(
        "torch.renorm",
        s(t(3, 4), 2, 0, 1.0),
        s(t(3, 4), 1, 1, 0.5),
        s(t(2, 3), INF, 0, 1.0),
        errors=(et(t(3), 2, 0, 1.0), et(t(2, 3), 0, 0, 1.0), et(t(2, 3), 2, 0, -1.0)),
        inplace=True,
    ),
    case(
        "torch.hash_tensor",
        s(t(2, 3)),
        s(t(2, 3), 1, keepdim=True),
        s(i(2, 3, low=-1, high=4), 1, keepdim=True),
        dtypes=("float32", "int64", "bool"),
        errors=(et(t(2), mode=1),),
        derivatives=0,
    ),
    case(
        "torch.histogramdd",
        s(t(6, 2), 2),
        s(t(6, 2), [2, 3], range=[-2.0, 2.0, -1.0, 1.0], density=True),
        s(t(3, 2), 2, weight=t(3, low=1.0, high=3.0), density=True),
        s(t(2, 2), (t(3, special=(0.0, 1.0, 2.0)), t(2, special=(0.0, 2.0)))),
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
            "softmax": (1,),
            "log_softmax": (1,),
            "softmin": (1,),
            "normalize": (2.0, 1),
            "cumsum": (1,),
            "cumprod": (1,),
        }.items()
    ),
    *(
        case(f"torch.masked.{name}", s(t(2, 3), 1, mask=b(2, 3, special=(True, False, True))), derivatives=0)
        for name in ("argmax", "argmin")
    ),
    case(
        "torch.masked.logaddexp",
        s(t(3), t(3), input_mask=b(3, special=(True, False, True))),
        s(t(3), t(3), other_mask=b(3, special=(True, False, True)), dtype=D("float32"), second=False),
        s(t(3), t(3)),
    ),
)

MASKED = (
    case(
        "torch.masked.mean", s(t(2, 3), 1, mask=b(2, 3, special=(True, False, True, False, False, False)), second=False)
    ),
    case("torch.masked.median", errors=(et(i(3, high=3), 0, mask=NONE),)),
    case("torch.masked.amax", s(b(2), 0)),
    case("torch.masked.sum", errors=(et(t(2), 0, mask=b(1, 1, 2)),)),
    case("torch.masked.var", errors=(et(i(3, high=3), 0, True, correction=2),)),
    case("torch.masked.cumsum", s(i(2, 3, high=5), 0, dtype=D("float64"), mask=b(3))),
    case("torch.masked.softmax", s(t(2, 3), 1, mask=b(3, special=(False,) * 3)), errors=(e(b(2), 0, mask=b(2)),)),
    case("torch.masked.normalize", s(t(2, 3), 1.0, 0, eps=10.0, mask=b(2, 1)), errors=(e(t(2), 2.0, 1),)),
)

TRANSFORMS = (
    case(
        "torch.stft",
        s(t(10), 4, window=t(4, low=0.5, grad=False), return_complex=True),
        s(t(2, 12), 4, 2, return_complex=True, center=True, normalized=True),
        s(t(10), 4, window=t(2, grad=False), win_length=2, return_complex=True, second=False),
        s(
            t(10),
            4,
            window=t(2, grad=False),
            win_length=2,
            center=False,
            align_to_window=True,
            return_complex=True,
            second=False,
        ),
        errors=(
            e(t(10), 4),
            e(t(10), 4, 0, return_complex=True),
            et(t(10), 4, window=WINDOW),
            et(t(10), 4, window=WINDOW, win_length=2, return_complex=True),
        ),
    ),
    case(
        "torch.istft",
        s(t(3, 6, dtype="complex128"), 4, window=WINDOW),
        s(t(3, 11, dtype="complex128"), 4, window=WINDOW, length=8, second=False),
        s(t(3, 4, dtype="complex64"), 4, second=False),
        s(t(4, 6, dtype="complex128"), 4, window=COMPLEX_WINDOW, return_complex=True),
        errors=(
            et(t(3, 6), 4),
            et(t(4, 6, dtype="complex128"), 4, window=COMPLEX_WINDOW),
            et(t(3, 6, dtype="complex128"), 4, window=WINDOW, return_complex=True),
        ),
    ),
    *(
        case(
            f"torch.signal.windows.{name}",
            s(5, **own),
            s(6, sym=False, dtype=D("float64"), **own),
            s(1, **own),
            s(0, **own),
            errors=(e(-1, **own), e(5, dtype=D("int64"), **own), et(5, out=1, **own)),
            derivatives=0,
        )
        for name, own in {
            "bartlett": {},
            "blackman": {},
            "cosine": {},
            "exponential": {},
            "gaussian": {"std": 2.0},
            "general_cosine": {"a": [0.5, 0.3, 0.2]},
            "general_hamming": {"alpha": 0.6},
            "hamming": {},
            "hann": {},
            "kaiser": {"beta": 8.0},
            "nuttall": {},
        }.items()
    ),
    case(
        "torch.signal.windows.exponential",
        s(5, center=1.0, sym=False, tau=2.0),
        errors=(e(5, center=1.0), e(5, tau=0.0)),
        derivatives=0,
    ),
    case("torch.signal.windows.general_cosine", errors=(et(5, a=[]), et(5, a=1), et(5)), derivatives=0),
    case("torch.signal.windows.gaussian", errors=(e(5, std=-1),), derivatives=0),
    case("torch.signal.windows.kaiser", errors=(e(4, beta=-1),), derivatives=0),
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
        "torch.ops.aten.native_dropout_backward",
        s(t(2, 3), b(2, 3), 2.0),
        s(i(2, 3, high=5), b(2, 3), 2.0),
        core="native_dropout_backward",
        jvp=False,
    ),
    case(
        "torch.ops.aten.max_pool2d_with_indices_backward",
        s(t(1, 2, 2, 1), t(1, 2, 4, 3), [2, 2], [2, 2], [0, 0], [1, 1], False, i(1, 2, 2, 1, high=12)),
        core="max_pool2d_with_indices_backward",
    ),
    case(
        "torch._native_batch_norm_legit",
        # The statistics are results too, without a gradient in torch.
        s(t(3, 2), t(2), t(2), True, 0.1, 1e-5, smooth=False),
        s(t(3, 2), t(2), t(2), t(2, grad=False), t(2, low=0.5, grad=False), False, 0.1, 1e-5),
        errors=(e(t(3, 2), None),),
    ),
    case(
        "torch.ops.aten._batch_norm_with_update",
        s(t(3, 2), t(2), t(2), t(2, grad=False), t(2, low=0.5, grad=False), 0.1, 1e-5, smooth=False),
        core="_batch_norm_with_update",
    ),
    case(
        "torch.ops.aten._upsample_bilinear2d_aa",
        s(t(1, 1, 4, 4), [2, 3], False),
        s(t(1, 1, 4, 4), None, True, [0.5, 0.75], second=False),
        core="_upsample_bilinear2d_aa",
    ),
    case(
        "torch.nn.functional.linear_cross_entropy",
        s(t(4, 3), t(2, 3), i(4, high=2)),
        s(t(4, 3), t(2, 3), t(4, 2, low=0.1), reduction="sum", linear_bias=t(2)),
        errors=(et(t(2, 3, 4), t(2, 4), i(2, high=2)), et(t(2, 3), t(2, 4), i(2, high=2))),
    ),
)

CASES = (*COPIES, *SELECTIONS, *REDUCTIONS, *MASKED, *TRANSFORMS, *LAYERS)
