"""Views of complex numbers: conjugates and parts, and functions that carry out lazy conjugation and negation."""

from __future__ import annotations

from .._engine.entry.bind import composite, ops
from .._engine.memory.tensor import Tensor


@composite
def conj(input: Tensor) -> Tensor:
    """The complex conjugate, as a view; real tensors are returned as they are."""
    return ops._conj(input) if input._m.dtype.is_complex else input


@composite
def real(input: Tensor) -> Tensor:
    """The real part, as a view."""
    if not input._m.dtype.is_complex:
        return input
    plain = ops._conj(input) if is_conj(input) else input
    return ops.select(ops.view_as_real(plain), -1, 0)


@composite
def imag(input: Tensor) -> Tensor:
    """The imaginary part, as a view."""
    if not input._m.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    if is_conj(input):
        return ops.select(ops._neg_view(ops.view_as_real(ops._conj(input))), -1, 1)
    return ops.select(ops.view_as_real(input), -1, 1)


@composite(method=False)
def view_as_real(input: Tensor) -> Tensor:
    """Real and imaginary parts as a last dimension of size 2, as a view."""
    if is_conj(input):
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can "
            "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias "
            "the original."
        )
    return ops.view_as_real(input)


@composite
def is_conj(input: Tensor) -> bool:
    """Return whether the tensor is a lazily conjugated view."""
    return input._al is not None and input._al.conj


@composite
def is_neg(input: Tensor) -> bool:
    """Return whether the tensor is a lazily negated view."""
    return input._al is not None and input._al.neg


@composite
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor with its lazy conjugation carried out."""
    return ops.clone(input) if is_conj(input) else input


@composite
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor with its lazy negation carried out."""
    return ops.clone(input) if is_neg(input) else input
