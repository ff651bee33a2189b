"""Names that torch keeps for old programs, or has twice: removed functions, aliases."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NoReturn

from .._core.arrays.formats import memory_format, strides_in
from .._core.arrays.shapes import contiguous_strides
from .._core.errors import warn
from .._engine.entry.bind import METHODS, NAMESPACES, composite, ops
from .._engine.memory.tensor import Tensor
from .._engine.tensor import attributes

torch = NAMESPACES[""]
_top = functools.partial(composite, method=False)
_method = functools.partial(composite, function=False)

_REMOVED = {
    "eig": "`torch.linalg.eig`, which gives complex results",
    "symeig": "`torch.linalg.eigh`, which reads the lower triangle by default",
    "solve": "`torch.linalg.solve`, which takes its arguments the other way round",
    "lstsq": "`torch.linalg.lstsq`, which takes its arguments the other way round",
    "matrix_rank": "`torch.linalg.matrix_rank`",
}


def _removed(name: str, instead: str) -> None:
    def gone(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "This function was deprecated since version 1.9 and is now removed. "
            f"`torch.{name}` is replaced by {instead}."
        )

    gone.__name__ = gone.__qualname__ = name
    gone.__doc__ = f"Removed from torch; use {instead}."
    torch[name] = gone
    if name != "matrix_rank":
        METHODS[name] = gone


for _name, _instead in _REMOVED.items():
    _removed(_name, _instead)


# --- detaching ------------------------------------------------------------------------------------


@_top
def detach(input: Tensor) -> Tensor:
    """A tensor on the same storage, outside of the graph."""
    return attributes.detach(input)


@_top
def detach_(input: Tensor) -> Tensor:
    """Cut the tensor itself from the graph."""
    return attributes.detach_(input)


torch["addmv_"] = METHODS["addmv_"]


@_top
def view_as_real_copy(input: Tensor) -> Tensor:
    """A copy as pairs of real numbers."""
    return ops.clone_contiguous(torch["view_as_real"](input))


@_top
def view_as_complex_copy(input: Tensor) -> Tensor:
    """A copy of pairs of real numbers as complex ones."""
    return ops.clone_contiguous(torch["view_as_complex"](input))


# --- shapes ---------------------------------------------------------------------------------------


@_method
def resize(self: Tensor, *sizes: Any) -> Tensor:
    """`view`, for tensors whose size stays the same; deprecated."""
    warn.to_user("non-inplace resize is deprecated")
    return METHODS["reshape"](self, *sizes)


@_method
def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """`view` to another tensor's shape; deprecated."""
    warn.to_user("non-inplace resize_as is deprecated")
    return torch["reshape"](self, tensor._m.shape)


@_method
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number to the main diagonal; `wrap` starts again below the end of a tall matrix."""
    m = self._m
    if m.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if m.ndim > 2 and len(set(m.shape)) != 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    height, width = m.shape[:2]
    size, step = min(height, width), sum(m.strides)
    at = self.storage_offset()
    torch["as_strided"](self, (size,), (step,), at).fill_(fill_value)
    if wrap and m.ndim == 2 and height > width + 1:
        period = width + 1
        rest = (m.numel + period - 1) // period - size
        again = at + m.strides[0] * period
        torch["as_strided"](self, (rest,), (step,), again).fill_(fill_value)
    return self


_AMBIGUOUS = "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."


@_method
def dim_order(self: Tensor, *, ambiguity_check: bool | Sequence[memory_format] = False) -> tuple[int, ...]:
    """Dimensions from the outermost to the innermost in memory."""
    m = self._m
    listed = isinstance(ambiguity_check, list | tuple) and all(isinstance(f, memory_format) for f in ambiguity_check)
    if not isinstance(ambiguity_check, bool) and not listed:
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    order = tuple(sorted(range(m.ndim), key=lambda d: -m.strides[d]))
    formats = ambiguity_check if listed else ()
    matching = sum(_strides(f, m.shape) == m.strides for f in formats)  # type: ignore[union-attr]
    unclear = m.numel and (1 in m.shape or len(set(m.strides)) < m.ndim)
    if (ambiguity_check is True and unclear) or (listed and matching != 1):
        raise RuntimeError(_AMBIGUOUS)
    return order


def _strides(kind: memory_format, shape: tuple[int, ...]) -> tuple[int, ...]:
    return strides_in(kind, shape) or contiguous_strides(shape)


# --- dense tensors seen as tensors of any layout --------------------------------------------------


@_method
def dense_dim(self: Tensor) -> int:
    """Return how many dimensions are dense: all of them."""
    return self._m.ndim


@_method
def sparse_dim(self: Tensor) -> int:
    """Return how many dimensions are sparse: none."""
    return 0


@_method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself, which is dense, or a copy of another dtype."""
    return self if dtype is None or dtype is self._m.dtype else self.to(dtype)


# --- attributes -----------------------------------------------------------------------------------

for _name in ("is_ipu", "is_maia", "is_mtia", "is_vulkan", "is_xpu"):
    attributes.PROPERTIES.setdefault(_name, property(lambda self: False))
attributes.PROPERTIES.setdefault("name", property(lambda self: None))


@_method(name="_is_zerotensor")
def _is_zero_tensor(self: Tensor) -> bool:
    """Return whether the tensor is one of torch's immutable zeros; here none is."""
    return False
