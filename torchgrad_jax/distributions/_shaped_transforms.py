"""Transforms of vectors and matrices, and of the parts of a tensor."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from .. import Size, cat, eye, finfo, nn, stack
from . import constraints
from ._transform import Transform, _clipped_sigmoid
from .utils import _sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix

_F = nn.functional


class IndependentTransform(Transform):
    """Takes dimensions to the left of an event for dimensions of the event."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        slope = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_rightmost(slope, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        inner = f"{self.base_transform!r}, {self.reinterpreted_batch_ndims}"
        return f"{self.__class__.__name__}({inner})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Another shape of the same elements."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _batch(self, x: Any) -> Any:
        return x.shape[: x.dim() - len(self.in_shape)]

    def _call(self, x: Any) -> Any:
        return x.reshape(self._batch(x) + self.out_shape)

    def _inverse(self, y: Any) -> Any:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(self._batch(x))

    def forward_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Any, old: Size, new: Size) -> Any:
    """A shape that ends in `new` instead of `old`."""
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(old)
    if shape[cut:] != old:
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return shape[:cut] + new


class CorrCholeskyTransform(Transform):
    """Any numbers as the Cholesky factor of a correlation matrix."""

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial**2).sqrt().cumprod(-1)
        rows = partial + eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return rows * _F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = 1 - (y * y).cumsum(dim=-1)
        left = _F.pad(left[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        squeezed = -2 * (x + _F.softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return 0.5 * left.log().sum(-1) + squeezed

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        n = shape[-1]
        return Size((*shape[:-2], n * (n - 1) // 2))


class SoftmaxTransform(Transform):
    """Any numbers as probabilities, which do not say how large the numbers were."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    def _call(self, x: Any) -> Any:
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Any n numbers as n + 1 probabilities: each takes a share of what those before it left."""

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    @staticmethod
    def _remaining(x: Any, n: int) -> Any:
        """n, ..., 1: how many parts a stick is still to be broken into."""
        return n + 1 - x.new_ones(n).cumsum(-1)

    def _call(self, x: Any) -> Any:
        share = _clipped_sigmoid(x - self._remaining(x, x.shape[-1]).log())
        left = (1 - share).cumprod(-1)
        return _F.pad(share, [0, 1], value=1) * _F.pad(left, [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        taken = y[..., :-1]
        left = (1 - taken.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return taken.log() - left.log() + self._remaining(y, taken.shape[-1]).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._remaining(x, x.shape[-1]).log()
        return (-x + _F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """A square matrix as a lower triangular one with a positive diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """A square matrix as a positive definite one."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        from .. import linalg

        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class _PartwiseTransform(Transform):
    """Different transforms for the parts of a tensor along `dim`."""

    transforms: list[Transform]
    dim: int

    def _keep(self, tseq: Sequence[Transform], cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        Transform.__init__(self, cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)

    def _check(self, x: Any, name: str, said: str, length: int, what: str) -> None:
        n = x.dim()
        if not -n <= self.dim < n:
            raise AssertionError(f"dim {self.dim} out of range for {said} with {n} dimensions")
        if x.size(self.dim) != length:
            size = x.size(self.dim)
            raise AssertionError(f"{name}.size({self.dim}) = {size} must equal {what} {length}")

    def _parts(self, x: Any, name: str, said: str = "tensor") -> list[Any]:
        raise NotImplementedError

    def _joined(self, parts: list[Any]) -> Any:
        raise NotImplementedError

    def _call(self, x: Any) -> Any:
        return self._joined([t(part) for t, part in zip(self.transforms, self._parts(x, "x"))])

    def _inverse(self, y: Any) -> Any:
        return self._joined([t.inv(part) for t, part in zip(self.transforms, self._parts(y, "y"))])

    def _slopes(self, x: Any, y: Any) -> list[Any]:
        parts = zip(self.transforms, self._parts(x, "x", "x"), self._parts(y, "y", "y"))
        return [t.log_abs_det_jacobian(a, b) for t, a, b in parts]

    @property
    def bijective(self) -> Any:
        return all(t.bijective for t in self.transforms)


class CatTransform(_PartwiseTransform):
    """Transforms of consecutive parts, as `cat` puts them together."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Any = None, cache_size: int = 0) -> None:
        self._keep(tseq, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            counts = f"({len(self.lengths)}) must match transforms ({len(self.transforms)})"
            raise AssertionError(f"lengths {counts}")
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The sum of the lengths."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Any, name: str, said: str = "tensor") -> list[Any]:
        self._check(x, name, said, self.length, "length")
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        return [x.narrow(self.dim, *at) for at in zip(starts, self.lengths)]

    def _joined(self, parts: list[Any]) -> Any:
        return cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        slopes = [
            _sum_rightmost(slope, self.event_dim - t.event_dim) for t, slope in zip(self.transforms, self._slopes(x, y))
        ]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return cat(slopes, dim=dim) if dim < 0 else functools.reduce(operator.add, slopes)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_PartwiseTransform):
    """Transforms of slices, as `stack` puts them together."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        self._keep(tseq, cache_size)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, x: Any, name: str, said: str = "tensor") -> list[Any]:
        self._check(x, name, said, len(self.transforms), "len(transforms)")
        return list(x.unbind(self.dim))

    def _joined(self, parts: list[Any]) -> Any:
        return stack(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self._joined(self._slopes(x, y))

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
