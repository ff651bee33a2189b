"""Products of matrices and vectors, and the distances built like them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._core.arrays import shapes
from .._core.arrays.kernels import cpp_name, scalar_name, where
from .._core.arrays.matrices import require_not, size_text
from .._core.arrays.meta import Meta
from .._core.jax.custom_jvp import custom_jvp
from .._core.jax.products import precision
from .helpers import is_bool, is_complex, is_float, is_integral
from .inner import inner_op
from .registry import COMMON, Apart, Array, InPlace, Out, Static, TorchKernel, op, with_rule


def _dot(x: Array, y: Array, contract: tuple[int, int], batch: int = 0) -> Array:
    """Contract one dimension of each, sharing the first `batch` dimensions."""
    lead = tuple(range(batch))
    return lax.dot_general(x, y, (((contract[0],), (contract[1],)), (lead, lead)), precision=precision(x.dtype))


def _same_dtype(x: Array, y: Array) -> None:
    if x.dtype != y.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {cpp_name(x)} != {cpp_name(y)}")


def _same_scalar_type(x: Array, y: Array) -> None:
    if x.dtype != y.dtype:
        raise RuntimeError(f"expected scalar type {scalar_name(x)} but found {scalar_name(y)}")


def _coefficient(value: Any, x: Array) -> Any:
    """alpha or beta as a constant of the dtype of `x`."""
    if isinstance(value, complex) and not is_complex(x):
        raise RuntimeError(f"value cannot be converted to type {cpp_name(x)} without overflow")
    return np.asarray(value).astype(x.dtype)


def _affine(input: Array, product: Array, beta: Any, alpha: Any) -> Array:
    """beta * input + alpha * product; a zero beta drops `input`, nan and all."""
    if alpha != 1:
        product = product * _coefficient(alpha, product)
    if beta == 0:
        return _dropped(input, product)
    if beta != 1:
        input = _rounded(input * _coefficient(beta, product))
    return jnp.broadcast_to(input, product.shape) + _rounded(product)


def _rounded(product: Array) -> Array:
    """A product that is added to something; one of half types is rounded before that.

    Some processors multiply and add in one instruction, without rounding in between. A choice keeps them from it.
    """
    if not _is_half(product):
        return product
    return where(product != product, jnp.asarray(jnp.nan, product.dtype), product)


# The gradient of the dropped input is multiplied by 0, which makes NaN of infinities.
_dropped = with_rule(
    lambda input, product: product,
    lambda input, product, out, t, t_product: t_product + jnp.broadcast_to(t * jnp.zeros((), t.dtype), out.shape),
)


def _is_half(x: Array) -> bool:
    return x.dtype in (jnp.float16, jnp.bfloat16)


def _affine_dot(input: Array, x: Array, y: Array, beta: Any, alpha: Any, dims: tuple[Any, Any]) -> Array:
    """beta * input + alpha * (a contraction of x and y)."""
    if _is_half(x):
        # The complaint about complex coefficients names the dtype of the computation.
        for value in (beta, alpha):
            _coefficient(value, jnp.zeros(0, jnp.float32))
        return _affine_dot_half(input, x, y, beta, alpha, dims)
    return _affine(input, lax.dot_general(x, y, dims, precision=precision(x.dtype)), beta, alpha)


@functools.partial(custom_jvp, nondiff_argnums=(3, 4, 5))
def _affine_dot_half(input: Array, x: Array, y: Array, beta: Any, alpha: Any, dims: tuple[Any, Any]) -> Array:
    # torch's kernels for half types compute in float32, coefficients included, and round once
    product = lax.dot_general(x, y, dims, precision=precision(x.dtype), preferred_element_type=jnp.float32)
    return _affine(input.astype(jnp.float32), product, beta, alpha).astype(x.dtype)


@_affine_dot_half.defjvp
def _affine_dot_half_jvp(beta: Any, alpha: Any, dims: tuple[Any, Any], primals: Any, tangents: Any) -> Any:
    # torch's gradients are products of half types, multiplied by alpha afterwards
    (input, x, y), (t_input, t_x, t_y) = primals, tangents
    out = _affine_dot_half(input, x, y, beta, alpha, dims)
    t = lax.dot_general(_scaled(t_x, alpha), y, dims, precision=precision(x.dtype))
    t += lax.dot_general(x, _scaled(t_y, alpha), dims, precision=precision(x.dtype))
    wide = jnp.broadcast_to(t_input.astype(jnp.float32), out.shape)
    return out, t + _scaled(wide.astype(t.dtype), beta)


def _scaled(x: Array, factor: Any) -> Array:
    """x times a factor that is not rounded to the dtype of x."""
    if factor == 1:
        return x
    bits = jnp.finfo(x.dtype)
    wide = x.astype(jnp.float32) * np.float32(factor)
    # in a backward pass this rounds the gradient; XLA would leave out two conversions that undo each other
    wide = lax.reduce_precision(wide, exponent_bits=bits.nexp, mantissa_bits=bits.nmant)
    return wide.astype(x.dtype)


def _size(x: Array, dim: int) -> int:
    """The size along `dim`, or torch's complaint that there is no such dimension."""
    return x.shape[shapes.wrap_dim(dim, x.ndim, scalar=False)]


def _expandable(input: Array, shape: tuple[int, ...]) -> None:
    """torch's complaint when `input` does not expand to the shape of the product."""
    if input.ndim > len(shape):
        kind = f"torch.{scalar_name(input)}Tensor"
        raise RuntimeError(
            f"expand({kind}{{{list(input.shape)}}}, size={list(shape)}): the number of sizes provided "
            f"({len(shape)}) must be greater or equal to the number of dimensions in the tensor ({input.ndim})"
        )
    for k in range(1, input.ndim + 1):
        have, want = input.shape[-k], shape[-k]
        if have not in (1, want):
            raise RuntimeError(
                f"The expanded size of the tensor ({want}) must match the existing size ({have}) at "
                f"non-singleton dimension {len(shape) - k}.  Target sizes: {list(shape)}.  "
                f"Tensor sizes: {list(input.shape)}"
            )


@op
def mm(input: Array, mat2: Array) -> Array:
    """The product of two matrices."""
    if input.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if mat2.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({size_text(input.shape)} and {size_text(mat2.shape)})"
        )
    _same_dtype(input, mat2)
    require_not("addmm_impl_cpu_", input)
    return _dot(input, mat2, (1, 0))


def _check_bmm(x: Array, y: Array) -> None:
    for name, t in (("batch1", x), ("batch2", y)):
        if t.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if x.shape[0] != y.shape[0] or x.shape[2] != y.shape[1]:
        raise RuntimeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{x.shape[0]}, {x.shape[2]}] but got: [{y.shape[0]}, {y.shape[1]}]."
        )


@op
def bmm(input: Array, mat2: Array) -> Array:
    """Products of matrices, batch by batch."""
    _check_bmm(input, mat2)
    _same_scalar_type(input, mat2)
    require_not("bmm", input)
    return _dot(input, mat2, (2, 1), 1)


def _check_mv(input_shape: tuple[int, ...], mat: Array, vec: Array) -> None:
    if mat.ndim != 2 or vec.ndim != 1 or len(input_shape) > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {len(input_shape)}, {mat.ndim}, {vec.ndim}")
    n = input_shape[0] if input_shape else 1
    if mat.shape[1] != vec.shape[0] or n not in (1, mat.shape[0]):
        raise RuntimeError(f"size mismatch, got input ({n}), mat ({size_text(mat.shape)}), vec ({vec.shape[0]})")


@op
def mv(input: Array, vec: Array) -> Array:
    """The product of a matrix and a vector."""
    if not input.ndim:  # torch asks for the first size, and complains
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    _check_mv(input.shape[:1], input, vec)
    _same_addmv(vec, input, vec)
    return _dot(input, vec, (1, 0))


def _same_addmv(input: Array, mat: Array, vec: Array) -> None:
    if not input.dtype == mat.dtype == vec.dtype:
        raise RuntimeError(
            "addmv input tensors must have the same dtype, but got "
            f"{scalar_name(input)}, {scalar_name(mat)}, and {scalar_name(vec)}"
        )
    require_not("addmv_impl_cpu", mat)


def _check_dot(x: Array, y: Array, kernel: str) -> None:
    if x.ndim != 1 or y.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {x.ndim}D and {y.ndim}D tensors")
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {scalar_name(x)} and {scalar_name(y)}"
        )
    if x.shape != y.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{x.shape[0]}] and src [{y.shape[0]}] to have the "
            f"same number of elements, but got {x.shape[0]} and {y.shape[0]} elements respectively"
        )
    require_not(kernel, x)


@op(kernel=TorchKernel(conjugated=(True, True)))
def dot(input: Array, tensor: Array) -> Array:
    """The sum of the products of two vectors."""
    _check_dot(input, tensor, "dot")
    return _dot(input, tensor, (0, 0))


@op(kernel=TorchKernel(conjugated=(False, True)))
def vdot(input: Array, other: Array) -> Array:
    """`dot` with the first vector conjugated."""
    _check_dot(input, other, "vdot")
    return _dot(jnp.conj(input) if is_complex(input) else input, other, (0, 0))


@op(inplace=True)
def addmm(input: Array, mat1: Array, mat2: Array, *, beta: Static = 1, alpha: Static = 1) -> Array:
    """beta * input + alpha * (mat1 @ mat2)."""
    for name, m in (("mat1", mat1), ("mat2", mat2)):
        if m.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {m.ndim}-D tensor")
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({size_text(mat1.shape)} and {size_text(mat2.shape)})"
        )
    _expandable(input, (mat1.shape[0], mat2.shape[1]))
    _same_as_input(input, mat1, mat2)
    require_not("addmm_impl_cpu_", mat1)
    return _affine_dot(input, mat1, mat2, beta, alpha, (((1,), (0,)), ((), ())))


def _same_as_input(input: Array, mat1: Array, mat2: Array) -> None:
    for names, m, n in (("self and mat2", input, mat2), ("mat1 and mat2", mat1, mat2)):
        if m.dtype != n.dtype:
            raise RuntimeError(f"{names} must have the same dtype, but got {scalar_name(m)} and {scalar_name(n)}")


@op(inplace=True)
def addmv(input: Array, mat: Array, vec: Array, *, beta: Static = 1, alpha: Static = 1) -> Array:
    """beta * input + alpha * (mat @ vec)."""
    _check_mv(input.shape, mat, vec)
    _same_addmv(input, mat, vec)
    if not _is_half(input):
        return _affine(input, _dot(mat, vec, (1, 0)), beta, alpha)
    # torch scales the input before it calls the kernel, whose coefficients have the dtype of its arrays
    factors = [float(_coefficient(value, input)) for value in (beta, alpha)]
    scaled = input if beta == 0 else _scaled(input, factors[0])
    return _affine_dot(scaled, mat, vec, int(beta != 0), factors[1], (((1,), (0,)), ((), ())))


def _addr_layout(metas: Sequence[Meta], shape: tuple[int, ...]) -> tuple[int, ...]:
    """One elementwise step over the matrix, a column and a row."""
    me, column, row = metas
    operands = [(me.shape, me.strides), ((*column.shape, 1), (*column.strides, 0)), (row.shape, row.strides)]
    return shapes.elementwise_strides(shape, operands)


@op(inplace=InPlace(apart=Apart.PARTLY), promote=COMMON, layout=_addr_layout, out=Out.CAST)
def addr(input: Array, vec1: Array, vec2: Array, *, beta: Static = 1, alpha: Static = 1) -> Array:
    """beta * input + alpha * the outer product of two vectors."""
    for name, v in (("vec1", vec1), ("vec2", vec2)):
        if v.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {v.ndim}-D")
    shape = (vec1.shape[0], vec2.shape[0])
    _expandable(input, shape)
    if is_integral(input) or is_bool(input):
        for name, value in (("beta", beta), ("alpha", alpha)):
            if isinstance(value, float | complex):
                raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    x, y = lax.broadcast_in_dim(vec1, shape, (0,)), lax.broadcast_in_dim(vec2, shape, (1,))
    if is_bool(input):
        product = x & y if alpha else jnp.zeros(shape, bool)
        return (input | product) if beta else product
    if _is_half(x) and alpha != 1:  # torch rounds in this order
        return _affine(input, _scaled(x, float(_coefficient(alpha, x))) * y, beta, 1)
    return _affine(input, x * y, beta, alpha)


@op(inplace=True)
def addbmm(input: Array, batch1: Array, batch2: Array, *, beta: Static = 1, alpha: Static = 1) -> Array:
    """beta * input + alpha * the sum of the products of a batch."""
    _expandable(input, (_size(batch1, 1), _size(batch2, 2)))
    for name, t in (("batch1", batch1), ("batch2", batch2)):
        if t.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            f"batch1 and batch2 must have same number of batches, got {batch1.shape[0]} and {batch2.shape[0]}"
        )
    if batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for bmm ({size_text(batch1.shape[1:])} and {size_text(batch2.shape[1:])})"
        )
    _same_as_input(input, batch1, batch2)
    require_not("addmm_impl_cpu_", batch1)
    return _affine_dot(input, batch1, batch2, beta, alpha, (((0, 2), (0, 1)), ((), ())))


@op(inplace=True)
def baddbmm(input: Array, batch1: Array, batch2: Array, *, beta: Static = 1, alpha: Static = 1) -> Array:
    """beta * input + alpha * the products of a batch."""
    _expandable(input, (_size(batch1, 0), _size(batch1, 1), _size(batch2, 2)))
    _check_bmm(batch1, batch2)
    if input.dtype != batch1.dtype:
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {cpp_name(input)}, batch1: {cpp_name(batch1)}, "
            f"batch2: {cpp_name(batch2)}"
        )
    _same_scalar_type(batch1, batch2)
    require_not("baddbmm", batch1)
    return _affine_dot(input, batch1, batch2, beta, alpha, (((2,), (1,)), ((0,), (0,))))


@op(out=False)
def trace(input: Array) -> Array:
    """The sum of the diagonal of a matrix."""
    require_not("trace", input)
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return jnp.trace(input, dtype=jnp.int64 if is_integral(input) else input.dtype)


# --- cross products -----------------------------------------------------------------------------


@op(namespace="linalg", method=False)
def linalg_cross(input: Array, other: Array, *, dim: int = -1) -> Array:
    """Cross products of the vectors of length 3 along `dim`."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = shapes.wrap_dim(dim, input.ndim)
    if input.shape[axis] != 3 or other.shape[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[axis]} and {other.shape[axis]}"
        )
    shape = shapes.broadcast_shapes(input.shape, other.shape)
    _same_scalar_type(input, other)
    require_not("cross", input)
    x, y = jnp.broadcast_to(input, shape), jnp.broadcast_to(other, shape)
    x1, y1 = jnp.roll(x, -1, axis), jnp.roll(y, -1, axis)
    x2, y2 = jnp.roll(x, -2, axis), jnp.roll(y, -2, axis)
    return x1 * y2 - x2 * y1


# --- distances ----------------------------------------------------------------------------------


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _norm(diff: Array, p: float) -> Array:
    """The p-norm over the last dimension."""
    size = jnp.abs(diff)
    if p == 0:
        return jnp.sum(jnp.asarray(diff != 0, diff.dtype), -1)
    if p == 1:
        return jnp.sum(size, -1)
    if p == 2:
        return jnp.sqrt(jnp.sum(diff * diff, -1))
    if p == float("inf"):
        return jnp.max(size, -1, initial=0)
    return jnp.sum(size**p, -1) ** (1 / p)


@_norm.defjvp
def _norm_jvp(p: float, primals: Any, tangents: Any) -> Any:
    # torch: the slope is 0 where the distance is 0, and each coordinate that attains the maximum has one
    (diff,), (t,) = primals, tangents
    out = _norm(diff, p)
    if p == 0:
        return out, jnp.zeros_like(out)
    if p == 1:
        return out, jnp.sum(jnp.sign(diff) * t, -1)
    wide = out[..., None]
    if p == float("inf"):
        hit = (jnp.abs(diff) == wide).astype(t.dtype)
        return out, jnp.sum(jnp.sign(diff) * hit * t, -1)
    flat = (wide == 0) if p >= 1 else (wide == 0) | (diff == 0)
    scale = jnp.where(flat, 1, wide)
    if p == 2:
        slope = diff / scale
    else:
        base = jnp.where(diff == 0, 1, jnp.abs(diff)) if p < 2 else jnp.abs(diff)
        slope = jnp.sign(diff) * base ** (p - 1) / scale ** (p - 1)
    return out, jnp.sum(jnp.where(flat, 0, slope * t), -1)


@inner_op(node="CdistBackward0", keeps=("x1", "x2", "result"))
def _cdist_forward(x1: Array, x2: Array, p: float, compute_mode: int | None) -> Array:
    """Distances between every row of one batch of matrices and every row of another."""
    for name, x in (("X1", x1), ("X2", x2)):
        if not is_float(x):
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {scalar_name(x)}")
    _same_scalar_type(x1, x2)
    require_not("cdist", x1, "float16", "bfloat16")
    batch = shapes.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    x1 = jnp.broadcast_to(x1, batch + x1.shape[-2:])
    x2 = jnp.broadcast_to(x2, batch + x2.shape[-2:])
    return _norm(jnp.expand_dims(x1, -2) - jnp.expand_dims(x2, -3), p)


@custom_jvp
def _euclid(x1: Array, x2: Array) -> Array:
    square = jnp.sum(x1 * x1, -1)[..., :, None] + jnp.sum(x2 * x2, -1)[..., None, :]
    cross = jnp.matmul(x1, jnp.swapaxes(x2, -1, -2), precision=lax.Precision.HIGHEST)
    return jnp.sqrt(jnp.maximum(square - 2 * cross, 0))


@_euclid.defjvp
def _euclid_jvp(primals: Any, tangents: Any) -> Any:
    # d|x - y| = <x - y, dx - dy> / |x - y|, written as matrix products; 0 where the distance is 0
    (x1, x2), (t1, t2) = primals, tangents
    out = _euclid(x1, x2)
    inverse = jnp.where(out == 0, 0, 1 / jnp.where(out == 0, 1, out))
    product = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)
    own = jnp.sum(x1 * t1, -1)[..., :, None] + jnp.sum(x2 * t2, -1)[..., None, :]
    cross = product(t1, jnp.swapaxes(x2, -1, -2)) + product(x1, jnp.swapaxes(t2, -1, -2))
    return out, (own - cross) * inverse


@inner_op(node="EuclideanDistBackward0")
def _euclidean_dist(x1: Array, x2: Array) -> Array:
    """Euclidean distances by one matrix product, for many rows."""
    _same_scalar_type(x1, x2)
    return _euclid(x1, x2)


@op(out=False, method=False)
def pdist(input: Array, p: float = 2.0) -> Array:
    """Distances between every two rows of a matrix, as the flattened upper triangle."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not is_float(input):
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    require_not("pdist", input, "float16", "bfloat16")
    i, j = np.triu_indices(input.shape[0], 1)
    return _norm(jnp.take(input, i, axis=0) - jnp.take(input, j, axis=0), p)


@inner_op(node="SqueezeBackward4")
def squeeze_matmul(input: Array, dim: int) -> Array:
    """Drop the dimension that a vector got for a product. torch does that in place, so the result is no view."""
    return lax.squeeze(input, (dim,))
