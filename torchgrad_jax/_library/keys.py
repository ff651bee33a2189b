"""Names of torch's dispatch keys, and sets of them. There is no dispatcher: they only name kernels."""

from __future__ import annotations

import enum
from collections.abc import Iterable

# Kernels that take part in recording themselves: what they call has gradients of its own.
COMPOSITE = "CompositeImplicitAutograd"
# Kernels for every device.
ANY_DEVICE = "CompositeExplicitAutograd"
DEVICE_KEYS = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mps": "MPS", "meta": "Meta", "tpu": "XLA"}
_NAMES = (
    ANY_DEVICE,
    "CompositeExplicitAutogradNonFunctional",
    COMPOSITE,
    "Autograd",
    *(f"{kind}{key}" for kind in ("", "Autograd", "Autocast") for key in DEVICE_KEYS.values()),
)
DISPATCH_KEYS = frozenset(_NAMES)

DispatchKey = enum.Enum("DispatchKey", _NAMES, module="torch._C")
DispatchKey.__doc__ = "What a kernel can be registered for."


class _Named(enum.IntEnum):
    """Numbers that are printed by their names, on all Pythons."""

    __str__ = enum.Enum.__str__


Tag = _Named(
    "Tag",
    "core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace inplace_view "
    "maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides needs_fixed_stride_order "
    "nondeterministic_bitwise nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction view_copy",
    module="torch",
    start=0,
)
Tag.__doc__ = "What may be said of an operator when it is defined; nothing here asks for it."


class DispatchKeySet:
    """A set of keys."""

    def __init__(self, *keys: DispatchKey) -> None:
        self._keys = frozenset(keys)

    @classmethod
    def _of(cls, keys: Iterable[DispatchKey]) -> DispatchKeySet:
        return cls(*keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys - other._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def has(self, key: DispatchKey) -> bool:
        """Is the key in it?"""
        return key in self._keys

    def add(self, key: DispatchKey) -> DispatchKeySet:
        """The set with one key more."""
        return self._of(self._keys | {key})

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        """The set without a key."""
        return self._of(self._keys - {key})

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in DispatchKey if key in self._keys)})"
