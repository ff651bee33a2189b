"""Gradients as what they are gradients of needs them: their shape, dtype and device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from ..._core.arrays import dtypes
from ..._core.arrays.meta import Meta, meta
from ..._core.jax.caches import CALLS
from ..memory.tensor import UNSET, Tensor
from ..run.trace import Call
from .node import AccumulateGrad, Node
from .record import apply, cast


@CALLS.memo()
def _sum_to_call(shape: tuple[int, ...]) -> Call:
    def run(leaves: Sequence[Any]) -> Any:
        x = leaves[0]
        lead = x.ndim - len(shape)
        dims = (*range(lead), *[lead + i for i, n in enumerate(shape) if n == 1 and x.shape[lead + i] != 1])
        return jax.numpy.sum(x, dims, dtype=x.dtype).reshape(shape)

    return Call("sum_to_size", run, node_name="SumBackward1", argnames=("self",))


def _expands_to(shape: Sequence[int], wider: Sequence[int]) -> bool:
    return len(shape) <= len(wider) and all(n in (1, w) for n, w in zip(reversed(shape), reversed(wider)))


def _returned(name: str) -> str:
    return f"Function {name} returned an " if name else ""


def fitted(name: str, index: int, g: Tensor, m: Meta) -> Tensor:
    """A gradient with the shape and dtype of what it is the gradient of, or an error."""
    if g._m.shape != m.shape:
        if not _expands_to(m.shape, g._m.shape):
            raise RuntimeError(
                f"{_returned(name)}invalid gradient at index {index} - got {list(g._m.shape)} but expected shape "
                f"compatible with {list(m.shape)}"
            )
        g = apply(_sum_to_call(m.shape), (g,))
    if g._m.dtype is not m.dtype:
        given = g._m.dtype.category
        if given != dtypes.FLOATING and (given == dtypes.COMPLEX) != (m.dtype.category == dtypes.COMPLEX):
            raise RuntimeError(
                "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) to be true, "
                "but got false.  (Could this error message be improved?  If so, please report an enhancement request "
                "to PyTorch.)"
            )
        g = cast(g, m.dtype)
    if g._m.device is not m.device:
        raise RuntimeError(
            f"{_returned(name)}invalid gradient at index {index} - expected device {m.device} but got {g._m.device}"
        )
    return g


def leaf_grad_meta(leaf: Tensor, given: dtypes.dtype) -> Meta:
    """Return what a gradient of dtype `given` has to look like at a leaf, whose `grad_dtype` decides."""
    m, x = leaf._m, leaf._x
    if x is None or x.grad_dtype is UNSET:
        return m
    return meta(m.shape, x.grad_dtype or given, m.device, m.strides)


def validated(node: Node, grads: Sequence[Any]) -> list[Any]:
    """Every gradient fitted to the edge along which it goes."""
    out = list(grads)
    for i, (edge, g) in enumerate(zip(node.edges, out)):
        if edge is not None and g is not None:
            m = edge[0].grad_meta(edge[1], g._m.dtype)
            if g._m is not m:
                if isinstance(edge[0], AccumulateGrad):
                    m = leaf_grad_meta(edge[0].variable, g._m.dtype)
                out[i] = fitted(node.name(), i, g, m)
    return out
