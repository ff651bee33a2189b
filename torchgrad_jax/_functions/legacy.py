"""Names that torch keeps for old programs, or has twice: removed functions, losses by number, aliases."""

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
from .loss import divergence

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


@_method
def reinforce(self: Tensor, reward: Any) -> NoReturn:
    """Removed from torch; its distributions have `log_prob`."""
    raise RuntimeError("reinforce() was removed.\nUse torch.distributions instead.")


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
    """How many dimensions are dense: all of them."""
    return self._m.ndim


@_method
def sparse_dim(self: Tensor) -> int:
    """How many dimensions are sparse: none."""
    return 0


@_method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself, which is dense, or a copy of another dtype."""
    return self if dtype is None or dtype is self._m.dtype else self.to(dtype)


@_method
def const_data_ptr(self: Tensor) -> int:
    """`data_ptr` for those who only read."""
    return self.data_ptr()


# --- losses by the number of their reduction ------------------------------------------------------

_REDUCTIONS = {1: "mean", 2: "sum"}


def _reduction(number: int) -> str:
    """Numbers other than those of mean and sum leave the losses as they are, also torch's default."""
    return _REDUCTIONS.get(number, "none")


def _loss(name: str) -> Any:
    return NAMESPACES["nn.functional"][name]


@_top
def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div` with a number for the reduction."""
    return divergence(input, target, _reduction(reduction), log_target)


@_top
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """`nn.functional.hinge_embedding_loss` with a number for the reduction."""
    return _loss("hinge_embedding_loss")(input, target, margin, reduction=_reduction(reduction))


@_top
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.margin_ranking_loss` with a number for the reduction."""
    return _loss("margin_ranking_loss")(input1, input2, target, margin, reduction=_reduction(reduction))


@_top
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.cosine_embedding_loss` with a number for the reduction."""
    return _loss("cosine_embedding_loss")(input1, input2, target, margin, reduction=_reduction(reduction))


@_top
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Tensor:
    """`nn.functional.triplet_margin_loss` with a number for the reduction."""
    return _loss("triplet_margin_loss")(
        anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction)
    )


@_top
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss` with a number for the reduction."""
    return _loss("poisson_nll_loss")(
        input, target, log_input=log_input, full=full, eps=eps, reduction=_reduction(reduction)
    )


@_top
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 0
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits` with a number for the reduction."""
    return _loss("binary_cross_entropy_with_logits")(
        input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight
    )


@_top
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """`nn.functional.ctc_loss` with a number for the reduction."""
    return _loss("ctc_loss")(
        log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction), zero_infinity
    )


# --- attributes -----------------------------------------------------------------------------------

for _name in ("is_ipu", "is_maia", "is_mtia", "is_vulkan", "is_xpu"):
    attributes.PROPERTIES.setdefault(_name, property(lambda self: False))
attributes.PROPERTIES.setdefault("name", property(lambda self: None))


def _volatile(self: Tensor) -> bool:
    warn.to_user("volatile was removed (Variable.volatile is always False)")
    return False


attributes.PROPERTIES.setdefault("volatile", property(_volatile))
METHODS.setdefault("__nonzero__", lambda self: bool(self))
METHODS.setdefault("__long__", lambda self: int(self))


@_method(name="_is_zerotensor")
def _is_zero_tensor(self: Tensor) -> bool:
    """Whether the tensor is one of torch's immutable zeros; here none is."""
    return False
