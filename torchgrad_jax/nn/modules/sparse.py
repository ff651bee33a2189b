"""Tables of vectors."""

from __future__ import annotations

from typing import Any

from ..._engine.memory.tensor import Tensor
from ...autograd.grad_mode import no_grad
from .. import functional as F, init
from .._top import torch
from ..parameter import Parameter
from .module import Module

__all__ = ["Embedding", "EmbeddingBag"]


def _padding_index(given: int | None, size: int, shown: str) -> int | None:
    if given is None:
        return None
    if not -size <= given < size:
        raise AssertionError(f"{shown} must be within num_embeddings")
    return given + size if given < 0 else given


class _Table(Module):
    """A weight with one row per index, of which one may stay zero."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    weight: Any

    def _make_weight(self, given: Tensor | None, frozen: bool, device: Any, dtype: Any) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        if given is None:
            empty = torch.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(empty, requires_grad=not frozen)
            self.reset_parameters()
            return
        if tuple(given.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(given, requires_grad=not frozen)

    def reset_parameters(self) -> None:
        """Draw new initial values, normally distributed."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def _norm_repr(self) -> str:
        text = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text


def _check_pretrained(embeddings: Tensor) -> None:
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")


class Embedding(_Table):
    """Rows of a table, by index.

    Args:
        num_embeddings: number of rows.
        embedding_dim: their size.
        padding_idx: a row that is zero to begin with and gets no gradient.
        max_norm: the largest norm that a row may have; larger ones are scaled down when used.
        norm_type: which norm that is.
        scale_grad_by_freq: whether gradients are divided by how often a row occurs.
        sparse: accepted, with a warning: the gradient is dense.
        device: where the table lives.
        dtype: its dtype.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.nn.Embedding(10, 3)(torch.tensor([[1, 2]])).shape
        torch.Size([1, 2, 3])
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    ]
    sparse: bool

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _padding_index(padding_idx, num_embeddings, "Padding_idx")
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self._make_weight(_weight, _freeze, device, dtype)
        self.sparse = sparse

    def forward(self, input: Tensor) -> Tensor:
        """The rows that the input names."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        """Sizes, and what differs from the default."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        text += self._norm_repr()
        return text + (", sparse=True" if self.sparse is not False else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A table with given rows.

        Args:
            embeddings: the rows.
            freeze: whether they stay as they are in training.
            padding_idx: see the class.
            max_norm: see the class.
            norm_type: see the class.
            scale_grad_by_freq: see the class.
            sparse: see the class.
        """
        _check_pretrained(embeddings)
        rows, columns = embeddings.shape
        return cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_Table):
    """Sums, means or maxima of rows of a table.

    Args:
        num_embeddings: number of rows.
        embedding_dim: their size.
        max_norm: the largest norm that a row may have; larger ones are scaled down when used.
        norm_type: which norm that is.
        scale_grad_by_freq: whether gradients are divided by how often a row occurs.
        mode: "sum", "mean" or "max".
        sparse: accepted, with a warning: the gradient is dense.
        include_last_offset: whether the offsets end with the end of the last bag.
        padding_idx: a row that does not count.
        device: where the table lives.
        dtype: its dtype.
    """

    __constants__ = [
        "num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse",
        "include_last_offset", "padding_idx",
    ]  # fmt: skip
    mode: str
    sparse: bool
    include_last_offset: bool

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = _padding_index(padding_idx, num_embeddings, "padding_idx")
        self._make_weight(_weight, False, device, dtype)
        self.mode, self.sparse = mode, sparse
        self.include_last_offset = include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """One vector per bag; bags are rows of the input, or begin at the offsets."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Sizes, and what differs from the default."""
        text = f"{self.num_embeddings}, {self.embedding_dim}{self._norm_repr()}, mode={self.mode!r}"
        return text + ("" if self.padding_idx is None else f", padding_idx={self.padding_idx}")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A table with given rows.

        Args:
            embeddings: the rows.
            freeze: whether they stay as they are in training.
            max_norm: see the class.
            norm_type: see the class.
            scale_grad_by_freq: see the class.
            mode: see the class.
            sparse: see the class.
            include_last_offset: see the class.
            padding_idx: see the class.
        """
        _check_pretrained(embeddings)
        rows, columns = embeddings.shape
        out = cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        out.weight.requires_grad = not freeze
        return out
