"""What the older arguments `size_average` and `reduce` of losses mean."""

from __future__ import annotations

from .._core.errors import warn

_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number that kernels know a reduction by.

    Args:
        reduction: "none", "mean" or "sum".
    """
    if reduction == "elementwise_mean":
        warn.to_user("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        return 1
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction that the older arguments name.

    Args:
        size_average: whether the mean is taken rather than the sum.
        reduce: whether anything is taken.
        emit_warning: whether to say what to write instead.
    """
    if reduce is False:
        out = "none"
    else:
        out = "sum" if size_average is False else "mean"
    if emit_warning:
        warn.to_user(f"size_average and reduce args will be deprecated, please use reduction='{out}' instead.")
    return out


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The number of the reduction that the older arguments name; see `legacy_get_string`."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
