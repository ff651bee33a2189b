"""Losses: every reduction, weights, ignored targets."""

from __future__ import annotations

from typing import Any

from ..case import FLOATS, Case, case, e, et, i, s, t

F = "torch.nn.functional"
LABELS = t(3, dtype="int64", special=(1, 0, 1))
IGNORED = t(3, dtype="int64", special=(1, -100, 0))
GRID = t(2, 2, dtype="int64", special=(1, 0, 0, 1))


def pointwise(name: str, *extra: Any, **options: Any) -> Case:
    """A loss of two tensors of one shape."""
    return case(
        f"{F}.{name}",
        s(t(2, 3), t(2, 3)),
        s(t(2, 3), t(2, 3), reduction="none"),
        s(t(2, 3), t(2, 3), reduction="sum", second=False),
        s(t(3, special=(1.0, 0.0, 2.0)), t(3, special=(1.0, 1.0, 0.0)), second=True),
        s(t(), t(), second=False),
        s(t(0), t(0), second=False),
        *extra,
        dtypes=FLOATS,
        errors=(e(t(2), t(3)), e(t(2), t(2), reduction="average")),
        **options,
    )


LENGTHS_OF_5, LENGTHS_OF_2 = t(2, dtype="int64", special=(5, 4)), t(2, dtype="int64", special=(2, 1))
SIGNS = t(4, special=(1.0, -1.0, -1.0, 1.0), grad=False)
LABEL_SETS = t(2, 3, dtype="int64", special=(2, 0, -1, 1, -1, 0))

CASES: tuple[Case, ...] = (
    pointwise("mse_loss"),
    pointwise("l1_loss"),
    pointwise("smooth_l1_loss", s(t(3), t(3), beta=0.5), s(t(3), t(3), beta=0.0, smooth=False)),
    pointwise("huber_loss", s(t(3), t(3), delta=0.5)),
    case(
        f"{F}.cross_entropy",
        s(t(3, 2), LABELS),
        s(t(3, 2), LABELS, reduction="none"),
        s(t(3, 2), IGNORED, t(2, low=0.5, grad=False), second=False),
        s(t(3, 2), LABELS, label_smoothing=0.2, second=True),
        s(t(3, 2), t(3, 2, make="probabilities")),
        s(t(2), i(high=2), second=False),
        s(t(2, 2, 2), GRID, second=False),
        s(t(3, 2), LABELS, reduction="sum", second=False),
        dtypes=FLOATS,
        errors=(
            e(t(3, 2), t(2, dtype="int64", special=(0, 1))),
            e(t(3, 2), t(3, dtype="int64", special=(0, 1, 5))),
            e(t(3, 2), t(3)),
        ),
    ),
    case(
        f"{F}.nll_loss",
        s(t(3, 2), LABELS),
        s(t(3, 2), LABELS, reduction="none"),
        s(t(3, 2), IGNORED, t(2, low=0.5, grad=False), second=False),
        s(t(2, 2, 2), GRID, second=False),
        s(t(3, 2), IGNORED, reduction="sum", second=False),
        s(t(2), i(high=2), second=False),
        dtypes=FLOATS,
        errors=(
            e(t(3, 2), t(2, dtype="int64", special=(0, 1))),
            e(t(3, 2), t(3, dtype="int64", special=(0, 1, 5))),
            e(t(3, 2), LABELS, t(3)),
        ),
    ),
    case(
        f"{F}.binary_cross_entropy",
        s(t(2, 3, low=0.1, high=0.9), t(2, 3, low=0.0, high=1.0)),
        s(t(3, low=0.1, high=0.9), t(3, low=0.0, high=1.0), t(3, low=0.5, grad=False), reduction="none"),
        s(t(3, special=(0.0, 1.0, 0.5)), t(3, special=(0.0, 0.0, 1.0), grad=False)),
        s(t(3, low=0.1, high=0.9), t(3, low=0.0, high=1.0, grad=False), reduction="sum"),
        dtypes=FLOATS,
        errors=(e(t(2, low=0.1, high=0.9), t(3)), e(t(2, special=(1.5, 0.5)), t(2, low=0.0, high=1.0))),
        tolerance=1e3,
        cause="torch's backward divides by at least 1e-12 rounded to float32",
    ),
    case(
        f"{F}.binary_cross_entropy_with_logits",
        s(t(2, 3), t(2, 3, low=0.0, high=1.0)),
        s(t(3), t(3, low=0.0, high=1.0), t(3, low=0.5, grad=False), reduction="none"),
        s(t(2, 3), t(2, 3, low=0.0, high=1.0), pos_weight=t(3, low=0.5, grad=False), second=True),
        s(t(3, special=(0.0, 50.0, -50.0)), t(3, special=(0.0, 1.0, 1.0), grad=False)),
        dtypes=FLOATS,
        errors=(e(t(2), t(3)),),
    ),
    case(
        f"{F}.kl_div",
        s(t(2, 3, low=-2.0, high=-0.1), t(2, 3, low=0.1, high=0.9)),
        s(t(2, 3), t(2, 3), reduction="batchmean", log_target=True),
        s(t(3, low=-2.0, high=-0.1), t(3, special=(0.0, 0.5, 0.5)), reduction="sum", second=True),
        s(t(3), t(3, low=0.1, high=0.9), reduction="none", second=False),
        dtypes=FLOATS,
        errors=(et(t(2), t(3)),),
    ),
    case(
        f"{F}.cosine_embedding_loss",
        s(t(2, 3), t(2, 3), t(2, special=(1.0, -1.0), grad=False)),
        s(t(2, 3), t(2, 3), t(2, special=(-1.0, -1.0), grad=False), margin=0.3, reduction="none"),
        s(t(3), t(3), t(special=(1.0,), grad=False), second=False),
        dtypes=("float32",),
        errors=(e(t(2, 3), t(2, 2), t(2)), e(t(2, 3), t(2, 3), t(3))),
    ),
    case(
        f"{F}.triplet_margin_loss",
        s(t(2, 3), t(2, 3), t(2, 3)),
        s(t(2, 3), t(2, 3), t(2, 3), margin=0.5, swap=True, reduction="none"),
        s(t(2, 3), t(2, 3), t(2, 3), p=1, reduction="sum", second=False),
        dtypes=("float32",),
        errors=(e(t(2, 3), t(2, 2), t(2, 3)),),
    ),
    case(
        f"{F}.ctc_loss",
        s(t(5, 2, 3), i(2, 2, low=1, high=3), LENGTHS_OF_5, LENGTHS_OF_2),
        *[
            s(t(5, 2, 3), i(2, 2, low=1, high=3), (5, 4), (2, 1), reduction=r, zero_infinity=True, second=False)
            for r in ("none", "sum")
        ],
        s(t(5, 3), i(2, low=1, high=3), t(dtype="int64", special=(5,)), t(dtype="int64", special=(2,)), second=False),
        dtypes=("float32",),
        derivatives=1,
        errors=(e(t(5, 2, 3), i(2, 2, low=1, high=3), (5,), (2, 1)), e(t(2, 2, 3), i(2, 2, high=3), (5, 5), (2, 1))),
    ),
    case(
        f"{F}.gaussian_nll_loss",
        s(t(3), t(3), t(3, low=0.5)),
        s(t(2, 3), t(2, 3), t(2, low=0.5), full=True, reduction="sum", second=False),
        s(t(2), t(2), t(2, special=(0.0, 1.0)), reduction="none", second=False),
        errors=(e(t(3), t(3), t(2)), e(t(1), t(1), t(1, special=(-1.0,)))),
    ),
    case(
        f"{F}.hinge_embedding_loss",
        s(t(4), SIGNS),
        s(t(4), SIGNS, 0.5, reduction="sum", second=False),
        s(t(4), SIGNS, reduction="none", second=False),
    ),
    case(
        f"{F}.margin_ranking_loss",
        s(t(4), t(4), SIGNS),
        s(t(4), t(4), SIGNS, 0.5, reduction="none", second=False),
        errors=(e(t(4), t(2, 2), SIGNS),),
    ),
    case(
        f"{F}.multi_margin_loss",
        s(t(3, 4), i(3, high=4)),
        s(t(4), i(high=4), 2, 0.5, reduction="sum", second=False),
        s(t(3, 4), i(3, high=4), weight=t(4, low=0.1, grad=False), reduction="none", second=False),
        errors=(e(t(3, 4), i(3, low=4, high=5)), e(t(3, 4), i(2, high=4)), e(t(3, 4), i(3, high=4), 3)),
        dtypes=("float32",),
    ),
    case(
        f"{F}.multilabel_margin_loss",
        s(t(2, 3), LABEL_SETS),
        s(t(2, 3), LABEL_SETS, reduction="none", second=False),
        s(t(2, 3), LABEL_SETS, reduction="sum", second=False),
        errors=(e(t(2, 3), i(2, 2, high=2)),),
        dtypes=("float32",),
    ),
    case(
        f"{F}.multilabel_soft_margin_loss",
        s(t(2, 3), t(2, 3, low=0.0, high=1.0, grad=False)),
        s(t(2, 3), t(2, 3, low=0.0, high=1.0, grad=False), weight=t(3, grad=False), reduction="none", second=False),
        errors=(e(t(2, 3), t(2, 2)),),
    ),
    case(
        f"{F}.triplet_margin_with_distance_loss",
        s(t(2, 3), t(2, 3), t(2, 3)),
        s(t(2, 3), t(2, 3), t(2, 3), margin=0.5, swap=True, reduction="none", second=False),
    ),
)
