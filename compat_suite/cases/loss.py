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
)
