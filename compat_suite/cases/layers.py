"""Functions behind layers: linear, convolutions, pooling, norms, embeddings, images, attention."""

from __future__ import annotations

from ..case import FLOATS, Case, case, e, et, s, t

F = "torch.nn.functional"
ROWS = t(3, dtype="int64", special=(1, 0, 1))
BAGS = t(2, 2, dtype="int64", special=(1, 0, 2, 1))
OFFSETS = t(2, dtype="int64", special=(0, 2))
IMAGE = t(1, 2, 4, 4)
BYTES = t(1, 2, 4, 5, dtype="uint8", low=0, high=255)
GRID = t(1, 2, 2, 2, low=-1.2, high=1.2)
BIG = t(1, 2, 4, 4, make="distinct")

CONVOLUTIONS = (
    case(
        f"{F}.linear",
        s(t(2, 3), t(2, 3), t(2)),
        s(t(2, 3), t(2, 3)),
        s(t(3), t(2, 3), t(2), second=False),
        s(t(2, 2, 3), t(2, 3), second=False),
        s(t(2, 3), t(3), second=False),
        s(t(3), t(2, 3), t(2, layout="sliced"), second=False),
        s(t(2, 2, 3), t(2, 3), t(2, layout="expanded"), second=False),
        s(t(0, 2, 3), t(2, 3), t(2), second=False),
        dtypes=FLOATS,
        errors=(et(t(2, 3), t(2, 2)), e(t(2, 3), t(2, 3, dtype="float32"))),
    ),
    case(
        f"{F}.conv1d",
        s(t(1, 2, 5), t(3, 2, 2), t(3)),
        s(t(1, 2, 5), t(2, 1, 3), stride=2, padding=1, groups=2),
        s(t(2, 5), t(3, 2, 2), second=False),
        s(t(1, 2, 6), t(3, 2, 2), dilation=2, second=False),
        s(t(1, 2, 5), t(3, 2, 3), padding="same", second=False),
        s(t(1, 2, 5, dtype="complex128"), t(3, 2, 2, dtype="complex128"), t(3, dtype="complex128"), second=False),
        dtypes=("float32",),
        errors=(
            e(t(1, 3, 5), t(3, 2, 2)),
            e(t(1, 2, 1), t(3, 2, 2)),
            e(t(1, 2, 5), t(3, 2, 2), t(2)),
            e(t(1, 2, 5), t(3, 2, 2), stride=0),
        ),
    ),
    case(
        f"{F}.conv2d",
        s(IMAGE, t(3, 2, 2, 2), t(3)),
        s(IMAGE, t(2, 1, 3, 3), stride=2, padding=1, groups=2),
        s(IMAGE, t(2, 2, 2, 2), dilation=(1, 2), second=False),
        s(t(2, 4, 4), t(3, 2, 2, 2), second=False),
        s(IMAGE, t(2, 2, 3, 3), padding="same", second=False),
        errors=(e(t(1, 3, 4, 4), t(3, 2, 2, 2)), e(t(1, 2, 1, 1), t(3, 2, 2, 2)), e(t(4, 4), t(3, 2, 2, 2))),
    ),
    case(
        f"{F}.conv_transpose1d",
        s(t(1, 2, 3), t(2, 3, 2), t(3)),
        s(t(1, 2, 3), t(2, 1, 3), stride=2, padding=1, output_padding=1, groups=2),
        errors=(e(t(1, 3, 3), t(2, 3, 2)), e(t(1, 2, 3), t(2, 3, 2), output_padding=1)),
    ),
    case(
        f"{F}.conv_transpose2d",
        s(t(1, 2, 3, 3), t(2, 2, 2, 2), t(2)),
        s(t(1, 2, 2, 2), t(2, 1, 3, 3), stride=2, padding=1, output_padding=1, groups=2),
        s(t(1, 2, 2, 2), t(2, 2, 2, 2), dilation=2, second=False),
        errors=(e(t(1, 3, 3, 3), t(2, 2, 2, 2)),),
    ),
)

POOLING = (
    case(
        f"{F}.max_pool1d",
        s(t(1, 2, 5, make="distinct"), 2),
        s(t(1, 2, 5, make="distinct"), 3, 2, 1),
        s(t(1, 1, 4, special=(1.0, 1.0, 0.0, 0.0)), 2),
        s(t(2, 5, make="distinct"), 2, ceil_mode=True, second=False),
        errors=(e(t(1, 2, 5), 2, padding=2), e(t(1, 2, 1), 2), e(t(5), 2)),
    ),
    case(
        f"{F}.max_pool2d",
        s(BIG, 2),
        s(BIG, (2, 3), 1, (1, 1)),
        s(t(1, 1, 2, 2, special=(1.0, 1.0, 1.0, 1.0)), 2),
        s(BIG, 2, return_indices=True, second=False),
        s(BIG, 2, dilation=2, ceil_mode=True, second=False),
        dtypes=("float32",),
        errors=(e(BIG, 2, padding=2), e(t(1, 2, 1, 1), 2), e(t(4, 4), 2)),
    ),
    case(
        f"{F}.avg_pool2d",
        s(IMAGE, 2),
        s(IMAGE, (2, 3), 1, (1, 1)),
        s(IMAGE, 2, 1, 1, count_include_pad=False, second=False),
        s(IMAGE, 3, 2, ceil_mode=True, second=False),
        s(IMAGE, 2, divisor_override=3, second=False),
        dtypes=("float32",),
        errors=(e(IMAGE, 2, padding=2), e(t(1, 2, 1, 1), 2), e(IMAGE, 2, divisor_override=0)),
    ),
    case(
        f"{F}.adaptive_avg_pool2d",
        s(IMAGE, 2),
        s(IMAGE, (3, 1)),
        s(t(2, 4, 4), (None, 3), second=False),
        dtypes=("float32",),
        errors=(e(t(4, 4), 2), e(IMAGE, (2, 2, 2))),
    ),
)

STATS = (t(2, grad=False), t(2, low=0.5, grad=False))
NORMS = (
    case(
        f"{F}.batch_norm",
        s(t(3, 2), *STATS, t(2), t(2)),
        s(t(3, 2), *STATS, t(2), t(2), True),
        s(t(2, 2, 3), None, None, training=True),
        s(t(3, 2), *STATS, momentum=0.3, training=True, second=False),
        s(t(2, 2, 2, 2), *STATS, eps=1e-2, second=False),
        dtypes=("float32",),
        errors=(e(t(3, 2), None, None), e(t(3, 2), t(3), t(3)), e(t(1, 2), *STATS, training=True)),
    ),
    case(
        f"{F}.layer_norm",
        s(t(2, 3), (3,), t(3), t(3)),
        s(t(2, 2, 3), (2, 3)),
        s(t(2, 3), (3,), t(3), second=False),
        s(t(2, 3), (3,), eps=1e-2, second=False),
        dtypes=FLOATS,
        errors=(et(t(2, 3), (2,)), e(t(2, 3), (3,), t(2))),
    ),
    case(
        f"{F}.group_norm",
        s(t(2, 4), 2, t(4), t(4)),
        s(t(2, 4, 3), 2),
        s(t(1, 2, 2, 2), 1, t(2), second=False),
        dtypes=("float32",),
        errors=(et(t(2, 3), 2), e(t(2, 4), 2, t(3))),
    ),
    case(
        f"{F}.instance_norm",
        s(t(2, 2, 3)),
        s(t(2, 2, 3), weight=t(2), bias=t(2)),
        s(t(2, 2, 3), *STATS, use_input_stats=False, second=False),
        s(t(1, 2, 2, 2), second=False),
        errors=(e(t(2, 2, 1)),),
    ),
    case(
        f"{F}.rms_norm",
        s(t(2, 3), (3,), t(3)),
        s(t(2, 2, 3), (2, 3)),
        s(t(2, 3), (3,), eps=1e-2, second=False),
        dtypes=FLOATS,
        errors=(e(t(2, 3), (2,)),),
    ),
    case(
        f"{F}.normalize",
        s(t(2, 3)),
        s(t(2, 3), 1, 0),
        s(t(2, 3), 3.0, 1, second=False),
        s(t(2, 2, special=(0.0, 0.0, 1.0, 2.0))),
        dtypes=FLOATS,
        errors=(et(t(2, 3), 2.0, 2),),
    ),
    case(
        f"{F}.cosine_similarity",
        s(t(2, 3), t(2, 3)),
        s(t(2, 3), t(3), 1),
        s(t(2, 3), t(2, 3), 0, second=False),
        s(t(2, special=(0.0, 0.0)), t(2), 0, second=True),
        dtypes=("float32",),
        errors=(e(t(2, 3), t(2, 2)), e(t(2, 3), t(2, 3), 2)),
    ),
)

EMBEDDINGS = (
    case(
        f"{F}.embedding",
        s(ROWS, t(3, 2)),
        s(BAGS, t(3, 2), second=False),
        s(ROWS, t(3, 2), 1),
        s(ROWS, t(3, 2), scale_grad_by_freq=True, second=False),
        dtypes=FLOATS,
        errors=(e(t(1, dtype="int64", special=(5,)), t(3, 2)), e(t(2), t(3, 2)), e(ROWS, t(3))),
    ),
    case(
        f"{F}.embedding_bag",
        s(BAGS, t(3, 2)),
        s(BAGS, t(3, 2), mode="sum"),
        s(BAGS, t(3, 2), mode="max", second=False),
        s(ROWS, t(3, 2), OFFSETS, second=False),
        s(BAGS, t(3, 2), mode="sum", per_sample_weights=t(2, 2), second=True),
        errors=(e(ROWS, t(3, 2)), e(BAGS, t(3, 2), mode="prod")),
    ),
    case(
        f"{F}.one_hot",
        s(ROWS),
        s(ROWS, 4),
        s(BAGS, 3),
        errors=(e(ROWS, 1), e(t(2)), e(t(1, dtype="int64", special=(-1,)))),
        derivatives=0,
        jvp=False,
    ),
)

IMAGES = (
    case(
        f"{F}.pad",
        s(t(2, 3), (1, 2)),
        s(t(2, 3), (1, 0, 0, 2), value=1.5),
        s(t(2, 3), (-1, 1), second=False),
        *(s(t(1, 2, 3), (1, 2), mode=m, second=m != "constant") for m in ("reflect", "replicate", "circular")),
        s(t(1, 1, 2, 3), (1, 1, 1, 0), mode="reflect", second=False),
        dtypes=("float32",),
        errors=(
            e(t(2, 3), (1,)),
            e(t(1, 2, 3), (3, 3), mode="reflect"),
            e(t(2, 3), (1, 1, 1, 1, 1, 1)),
            e(t(2, 3), (-2, -2)),
            e(t(3), (1, 1), mode="reflect"),
        ),
    ),
    case(
        f"{F}.unfold",
        s(IMAGE, 2),
        s(IMAGE, (2, 3), padding=1, stride=2),
        s(IMAGE, 2, dilation=2, second=False),
        errors=(e(t(4, 4), 2), e(t(1, 1, 1, 1), 2)),
    ),
    case(
        f"{F}.pixel_shuffle",
        s(t(1, 4, 2, 2), 2),
        s(t(4, 1, 2), 2, second=False),
        errors=(e(t(1, 3, 2, 2), 2), e(t(2, 2), 2)),
    ),
    case(
        f"{F}.interpolate",
        s(IMAGE, scale_factor=2),
        s(IMAGE, size=(3, 5), mode="bilinear", second=True),
        s(IMAGE, size=3, mode="bilinear", align_corners=True),
        s(t(1, 2, 3), size=5, mode="linear", second=False),
        s(IMAGE, size=(6, 6), mode="bicubic", second=False),
        s(IMAGE, size=3, mode="area", second=False),
        s(t(1, 1, 2, 2, 2), scale_factor=2, mode="trilinear", second=False),
        s(IMAGE, size=3, mode="nearest-exact", second=False),
        s(BYTES, size=(3, 7), mode="bilinear"),
        s(BYTES, size=(6, 3), mode="bilinear", align_corners=True),
        s(BYTES, size=(9, 2), mode="bicubic"),
        s(BYTES, size=(2, 9), mode="bicubic", antialias=True),
        s(BYTES, scale_factor=(0.6, 1.7), mode="bilinear", antialias=True),
        dtypes=("float32",),
        errors=(
            e(IMAGE),
            e(IMAGE, size=3, scale_factor=2),
            e(t(1, 2, 3), size=5, mode="bilinear"),
            e(IMAGE, size=3, mode="cubic"),
        ),
    ),
    case(
        f"{F}.grid_sample",
        s(IMAGE, GRID, align_corners=False),
        s(IMAGE, GRID, align_corners=True, second=True),
        s(IMAGE, GRID, mode="nearest", align_corners=False, second=False),
        s(IMAGE, GRID, padding_mode="border", align_corners=False, second=False),
        s(IMAGE, GRID, padding_mode="reflection", align_corners=False, second=False),
        s(IMAGE, GRID, mode="bicubic", align_corners=False, second=False),
        errors=(
            e(IMAGE, t(1, 2, 2, 3), align_corners=False),
            e(IMAGE, t(2, 2, 2, 2), align_corners=False),
            e(t(4, 4), GRID, align_corners=False),
        ),
    ),
)

ATTENTION = (
    case(
        f"{F}.scaled_dot_product_attention",
        s(t(1, 2, 3), t(1, 4, 3), t(1, 4, 3)),
        s(t(1, 2, 3), t(1, 2, 3), t(1, 2, 3), is_causal=True),
        s(t(1, 2, 3), t(1, 4, 3), t(1, 4, 3), t(2, 4), second=False),
        s(t(1, 2, 3), t(1, 4, 3), t(1, 4, 3), t(2, 4, dtype="bool", special=(True,) * 5), second=False),
        s(t(1, 2, 3), t(1, 4, 3), t(1, 4, 3), scale=0.5, second=False),
        s(t(1, 2, 2, 3), t(1, 2, 4, 3), t(1, 2, 4, 3), second=False),
        dtypes=("float32",),
        errors=(
            e(t(1, 2, 3), t(1, 4, 2), t(1, 4, 3)),
            e(t(3), t(3), t(3)),
            e(t(1, 2, 3), t(1, 2, 3), t(1, 2, 3), t(2, 2), is_causal=True),
        ),
    ),
)

UNPOOLED = t(1, 1, 2, 2, dtype="int64", special=(0, 3, 9, 14))
RARER = (
    *[
        case(
            f"{F}.{name}",
            s(t(1, 2, *[4] * n, make="distinct"), 2),
            s(t(2, *[5] * n, make="distinct"), 3, return_indices=True, second=False),
            s(t(1, 1, *[4] * n, make="distinct"), 1, grads=False),
            errors=(e(t(4), 2),),
        )
        for n, name in ((1, "adaptive_max_pool1d"), (2, "adaptive_max_pool2d"), (3, "adaptive_max_pool3d"))
    ],
    case(
        f"{F}.avg_pool3d",
        s(t(1, 2, 4, 4, 4), 2),
        s(t(2, 3, 3, 3), 2, 1, 1, ceil_mode=True, count_include_pad=False, second=False),
        s(t(1, 1, 3, 3, 3), 2, divisor_override=3, grads=False),
        errors=(e(t(4, 4), 2), e(t(1, 2, 4, 4, 4), 2, 1, 2)),
    ),
    case(
        f"{F}.max_pool3d",
        s(t(1, 2, 4, 4, 4, make="distinct"), 2),
        s(t(2, 3, 3, 3, make="distinct"), 2, 1, 1, second=False),
        errors=(e(t(4, 4), 2), e(t(1, 2, 4, 4, 4), 2, 1, 2)),
    ),
    case("torch.channel_shuffle", s(t(1, 4, 2, 2), 2), errors=(e(t(1, 4, 2), 3), e(t(2), 1))),
    case("torch.native_channel_shuffle", s(t(1, 4, 2, 2), 2, grads=False), errors=(e(t(1, 4, 2), 3),)),
    case(
        "torch.pixel_unshuffle",
        s(t(1, 2, 4, 4), 2),
        s(t(1, 4, 2), 2),
        errors=(et(t(1, 3, 3), 2), e(t(2, 2), 2), e(t(1, 2, 2), 0)),
    ),
    case(
        "torch.native_group_norm",
        s(t(2, 4, 3), t(4), t(4), 2, 4, 3, 2, 1e-5),
        s(t(2, 4, 3), None, None, 2, 4, 3, 1, 1e-5, second=False),
    ),
    case(
        "torch.grid_sampler_2d",
        s(t(1, 2, 3, 3), t(1, 2, 2, 2, low=-0.9, high=0.9), 0, 0, False),
        s(t(1, 1, 3, 3), t(1, 2, 2, 2, low=-1.5, high=1.5), 1, 1, True, second=False),
        s(t(1, 1, 4, 4), t(1, 2, 2, 2, low=-1.5, high=1.5), 2, 2, True, second=False),
        errors=(e(t(2, 3, 3), t(2, 2, 2), 0, 0, False),),
    ),
    case(
        "torch.grid_sampler_3d",
        s(t(1, 1, 2, 3, 3), t(1, 1, 2, 2, 3, low=-0.9, high=0.9), 0, 0, False, second=False),
        s(t(1, 1, 2, 3, 3), t(1, 1, 2, 2, 3, low=-1.5, high=1.5), 1, 1, True, second=False),
        errors=(e(t(1, 1, 2, 2, 2), t(1, 1, 2, 2, 3), 2, 0, False),),
    ),
    case(
        "torch.affine_grid_generator",
        s(t(1, 2, 3), (1, 1, 2, 3), False),
        s(t(1, 3, 4), (1, 1, 2, 2, 2), True, second=False),
        errors=(e(t(1, 2, 3), (1, 1, 2), False),),
    ),
    case(
        "torch.conv_tbc",
        s(t(4, 2, 3), t(2, 3, 2), t(2)),
        s(t(4, 2, 3), t(2, 3, 2), t(2), 1, second=False),
        errors=(e(t(4, 2), t(2, 3, 2), t(2)),),
    ),
    case(
        "torch.convolution",
        s(t(1, 2, 4), t(2, 2, 3), t(2), (1,), (0,), (1,), False, (0,), 1),
        s(t(1, 2, 4, 5), t(2, 1, 2, 2), None, (2, 1), (1, 0), (1, 2), False, (0, 0), 2, second=False),
        s(t(1, 2, 3), t(2, 1, 2), t(2), (2,), (0,), (1,), True, (1,), 2, second=False),
    ),
    case(
        "torch.constant_pad_nd",
        s(t(2, 3), (1, 2)),
        s(t(2, 3), (1, -1, 0, 2), 0.5),
        errors=(e(t(2, 3), (1,)), e(t(2), (1, 1, 1, 1))),
    ),
    case(
        f"{F}.conv3d",
        s(t(1, 2, 3, 3, 3), t(2, 2, 2, 2, 2), t(2)),
        s(t(2, 3, 4, 3), t(2, 1, 1, 2, 2), None, (1, 2, 1), (0, 1, 1), (1, 1, 2), 2, second=False),
        errors=(e(t(1, 2, 3), t(2, 2, 2, 2, 2)), e(t(1, 3, 3, 3, 3), t(2, 2, 2, 2, 2))),
    ),
    case(
        f"{F}.conv_transpose3d",
        s(t(1, 2, 2, 2, 2), t(2, 2, 2, 2, 2), t(2)),
        s(t(2, 2, 3, 2), t(2, 1, 1, 2, 2), None, (1, 2, 1), (0, 1, 1), (0, 1, 0), 2, (1, 1, 2), second=False),
        errors=(e(t(1, 2, 3), t(2, 2, 2, 2, 2)),),
    ),
    case(
        f"{F}.conv2d",
        s(t(1, 2, 5, 6), t(2, 2, 3, 2), None, (2, 1), (1, 0), (1, 2), second=False),
        s(t(1, 2, 6, 5), t(4, 1, 2, 3), t(4), (1, 3), (0, 2), (2, 1), 2, second=False),
    ),
    case(
        f"{F}.fold",
        s(t(1, 8, 4), (3, 3), 2),
        s(t(4, 6), (3, 4), (2, 2), padding=0, second=False),
        s(t(1, 4, 4), (3, 4), 2, dilation=2, padding=(0, 1), second=False),
        errors=(e(t(1, 8, 3), (3, 3), 2), e(t(2), (3, 3), 2)),
    ),
    case(
        f"{F}.affine_grid",
        s(t(1, 2, 3), (1, 1, 2, 3)),
        s(t(1, 3, 4), (1, 1, 2, 2, 2), align_corners=True, second=False),
        errors=(e(t(2, 3), (1, 1, 2, 3)),),
    ),
    case(
        f"{F}.avg_pool1d",
        s(t(1, 2, 5), 2),
        s(t(2, 5), 3, 2, 1, True, False, second=False),
        errors=(e(t(4), 2), e(t(1, 2, 4), 2, 1, 2)),
    ),
    case(f"{F}.adaptive_avg_pool1d", s(t(1, 2, 5), 2), s(t(2, 4), 3, second=False), errors=(e(t(4), 2),)),
    case(
        f"{F}.adaptive_avg_pool3d",
        s(t(1, 2, 3, 4, 5), 2),
        s(t(2, 4, 3, 2), (2, None, 1), second=False),
        errors=(e(t(4), 2),),
    ),
    case(f"{F}.lp_pool1d", s(t(1, 2, 5, low=0.1), 2.0, 2), s(t(1, 2, 5, low=0.1), 3.0, 3, 1, True, second=False)),
    case(f"{F}.lp_pool2d", s(t(1, 1, 4, 5, low=0.1), 2.0, 2), s(t(1, 1, 4, 5, low=0.1), 3.0, (2, 3), 1, second=False)),
    case(f"{F}.lp_pool3d", s(t(1, 1, 3, 4, 3, low=0.1), 2.0, 2, second=False)),
    case(
        f"{F}.max_unpool1d",
        s(t(1, 2, 2), t(1, 2, 2, dtype="int64", special=(0, 3, 1, 2)), 2),
        s(t(1, 2), t(1, 2, dtype="int64", special=(0, 4)), 2, output_size=(5,), second=False),
        errors=(e(t(1, 1, 2), t(1, 1, 2, dtype="int64", special=(0, 9)), 2),),
    ),
    case(
        f"{F}.max_unpool2d",
        s(t(1, 1, 2, 2), UNPOOLED, 2),
        s(t(1, 1, 2, 2), UNPOOLED, 2, output_size=(5, 4), second=False),
        errors=(e(t(1, 1, 2, 2), t(1, 1, 2, 1, dtype="int64"), 2),),
    ),
    case(
        f"{F}.max_unpool3d",
        s(t(1, 1, 1, 2, 2), t(1, 1, 1, 2, 2, dtype="int64", special=(0, 3, 9, 14)), 2, second=False),
    ),
    case(
        f"{F}.fractional_max_pool2d",
        s(t(1, 2, 5, 5, make="distinct"), 2, (2, 3), _random_samples=t(1, 2, 2, low=0.1, high=0.9, grad=False)),
        s(
            t(2, 6, 5, make="distinct"),
            (2, 1),
            output_ratio=(0.5, 0.5),
            return_indices=True,
            _random_samples=t(1, 2, 2, low=0.1, high=0.9, grad=False),
            second=False,
        ),
        errors=(e(t(1, 2, 3, 3), 2, (4, 4), _random_samples=t(1, 2, 2, low=0.1, high=0.9)),),
    ),
    case(
        f"{F}.fractional_max_pool3d",
        s(
            t(1, 1, 4, 4, 4, make="distinct"),
            2,
            2,
            _random_samples=t(1, 1, 3, low=0.1, high=0.9, grad=False),
            second=False,
        ),
    ),
    case(
        f"{F}.local_response_norm",
        s(t(1, 4, 3), 2),
        s(t(1, 4, 2, 2), 3, 0.1, 0.5, 2.0, second=False),
        errors=(e(t(3), 2),),
    ),
    case(
        f"{F}.bilinear",
        s(t(2, 3), t(2, 2), t(2, 3, 2), t(2)),
        s(t(3), t(2), t(2, 3, 2), second=False),
        errors=(e(t(2, 3), t(3, 2), t(2, 3, 2)),),
    ),
    case(
        "torch.native_layer_norm",
        s(t(2, 3), (3,), t(3), t(3), 1e-5, smooth=False),
        s(t(2, 3), (2, 3), None, None, 1e-5, second=False, smooth=False),
    ),
    case(
        "torch.native_batch_norm",
        s(t(3, 2), t(2), t(2), None, None, True, 0.1, 1e-5, smooth=False),
        s(t(3, 2, 2), None, None, t(2, grad=False), t(2, low=0.5, grad=False), False, 0.1, 1e-5, second=False),
    ),
    case(
        "torch.gru_cell",
        s(t(2, 3), t(2, 2), t(6, 3), t(6, 2), t(6), t(6)),
        s(t(2, 3), t(2, 2), t(6, 3), t(6, 2), second=False),
        errors=(e(t(2, 3), t(2, 2), t(5, 3), t(6, 2)),),
    ),
    case(
        "torch.lstm_cell",
        s(t(2, 3), (t(2, 2), t(2, 2)), t(8, 3), t(8, 2), t(8), t(8)),
        errors=(e(t(2, 3), (t(2, 2), t(2, 2)), t(7, 3), t(8, 2)),),
    ),
    case("torch.rnn_tanh_cell", s(t(2, 3), t(2, 2), t(2, 3), t(2, 2), t(2), t(2))),
    case("torch.rnn_relu_cell", s(t(2, 3), t(2, 2), t(2, 3), t(2, 2), t(2), t(2), second=False)),
)
CASES: tuple[Case, ...] = (*CONVOLUTIONS, *POOLING, *NORMS, *EMBEDDINGS, *IMAGES, *ATTENTION, *RARER)
