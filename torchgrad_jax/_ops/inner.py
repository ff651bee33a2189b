"""Rows of the table that users do not call: other functions apply them."""

from __future__ import annotations

from typing import Any

from .registry import op


def inner_op(**row: Any) -> Any:
    """`op` for a row that is no function of `torch`, no method, and takes no `out=`."""
    return op(function=False, method=False, out=False, **row)
