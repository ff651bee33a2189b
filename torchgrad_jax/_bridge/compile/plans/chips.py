"""What the makers say of their chips: memory, and the speeds that no program exceeds.

A TPU's names are those of `Target`: "v5e" of "v5e:4x4". Speeds are per chip, of dense products in bfloat16.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...._core.jax.target import Target, chips_of


class Chip(NamedTuple):
    """One device."""

    name: str
    memory: int
    """Bytes."""
    flops: float
    """Most operations of bfloat16 products in a second."""
    bandwidth: float
    """Most bytes read and written in a second."""
    emulates: bool
    """Whether 64-bit numbers are made of smaller ones, in many instructions each."""


_GIB, _TERA, _GIGA = 1 << 30, 1e12, 1e9

CHIPS = {
    "v4": Chip("TPU v4", 32 * _GIB, 275 * _TERA, 1228 * _GIGA, True),
    "v5e": Chip("TPU v5e", 16 * _GIB, 197 * _TERA, 819 * _GIGA, True),
    "v5p": Chip("TPU v5p", 95 * _GIB, 459 * _TERA, 2765 * _GIGA, True),
    "v6e": Chip("TPU v6e", 32 * _GIB, 918 * _TERA, 1640 * _GIGA, True),
    "tpu7x": Chip("TPU7x", 192 * _GIB, 2307 * _TERA, 7380 * _GIGA, True),
    "a100": Chip("NVIDIA A100 80GB", 85_094_825_984, 312 * _TERA, 2039 * _GIGA, False),
    "h100": Chip("NVIDIA H100 80GB", 84_978_434_048, 989 * _TERA, 3352 * _GIGA, False),
    "h200": Chip("NVIDIA H200", 150_754_820_096, 989 * _TERA, 4800 * _GIGA, False),
    "b200": Chip("NVIDIA B200", 191_514_148_864, 2250 * _TERA, 7700 * _GIGA, False),
}


def device_of(target: Target) -> Chip:
    """Return what one device of a target is: a chip, or a part of one where JAX sees several devices in it."""
    chip, chips = CHIPS[target.chip], math.prod(chips_of(target.name)) if target.platform == "tpu" else 0
    parts = len(target.devices) // chips if chips else 1
    if parts == 1:
        return chip
    return Chip(
        f"1/{parts} {chip.name}", chip.memory // parts, chip.flops / parts, chip.bandwidth / parts, chip.emulates
    )
