"""Marks about oneDNN's reduced precision: products of float32 are computed in float32 here."""

from __future__ import annotations

from typing import Any

from .common_cuda import tf32_on_and_off


def reduced_f32_on_and_off(*args: Any, **kwargs: Any) -> Any:
    """A test that torch runs with and without reduced precision; it runs once, without."""
    return tf32_on_and_off(*args, **kwargs)


bf32_on_and_off = reduced_f32_on_and_off
