"""Samples of families of operators: shapes, values, strides and arguments to try."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torchgrad_jax as torch

from ._samples import ErrorInput, M, S, SampleInput

_SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (S,), (M, S), (S, 0, M), (2, 1, S, 3))
_FLOAT_EXTREMES = (float("inf"), float("-inf"), float("nan"))
_SMALL = {"int": (0, 1, -1, 2, 5, -12, 27), "unsigned": (0, 1, 2, 5, 27, 200), "bool": (False, True)}
_SMALL_FLOATS = (0.0, -0.0, 1e-3, -1e-3, 0.25, -0.25, 1.0, -1.0, 2.5, -2.5, 8.0)
_LARGE = {"int": (-1113, 1113, -10701, 10701), "float": (-501.0, 501.0, -1001.2, 13437.7, -4988429.2)}


def _kind(dtype: Any) -> str:
    if dtype == torch.bool:
        return "bool"
    if dtype == torch.uint8:
        return "unsigned"
    return "float" if dtype.is_floating_point or dtype.is_complex else "int"


def _bounds(op: Any, dtype: Any) -> dict[str, Any]:
    """Where the operator is smooth, a little inside of its domain."""
    low, high = getattr(op, "domain", (None, None))
    if dtype.is_complex or not dtype.is_floating_point:
        step = 0 if dtype == torch.bool else 1
    else:
        step = 1e-2
    return {"low": None if low is None else low + step, "high": None if high is None else high - step}


def _unary_tensor(op: Any, shape: Sequence[int], device: Any, dtype: Any, grad: bool) -> Any:
    limits = _bounds(op, dtype)
    low, high = limits["low"], limits["high"]
    if _kind(dtype) in ("bool", "int", "unsigned"):
        low, high = (None if v is None else int(v) for v in (low, high))
        if low is not None and high is not None and low >= high:
            return torch.full(tuple(shape), low, device=device, dtype=dtype)
    if dtype == torch.uint8:
        low = max(0, low or 0)
    return torch.testing.make_tensor(tuple(shape), device=device, dtype=dtype, requires_grad=grad, low=low, high=high)


def _sample_of(op: Any, x: Any, device: Any, dtype: Any) -> SampleInput:
    return SampleInput(x, kwargs=op.sample_kwargs(device, dtype, x)[0])


def sample_inputs_elementwise_unary(
    op_info: Any, device: Any, dtype: Any, requires_grad: bool, op_kwargs: Any = None, **kwargs: Any
) -> Iterator[SampleInput]:
    """A vector or matrix, a single element, and none."""
    del kwargs
    for shape in ((M, S), (), (0, 3)):
        x = _unary_tensor(op_info, shape, device, dtype, requires_grad)
        own = op_info.sample_kwargs(device, dtype, x)[0]
        yield SampleInput(x, kwargs={**own, **(op_kwargs or {})})


def generate_elementwise_unary_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any
) -> Iterator[SampleInput]:
    """Tensors of many shapes."""
    del kwargs
    for shape in _SHAPES:
        yield _sample_of(op, _unary_tensor(op, shape, device, dtype, requires_grad), device, dtype)


def _values(op: Any, values: Sequence[Any], device: Any, dtype: Any, grad: bool) -> SampleInput:
    if dtype.is_complex:
        values = [complex(a, b) for a, b in itertools.product(values, values)]
    low, high = getattr(op, "domain", (None, None))
    if not dtype.is_complex:
        values = [v for v in values if v != v or ((low is None or v > low) and (high is None or v < high))]
    x = torch.tensor(list(values), device=device, dtype=dtype, requires_grad=grad)
    return _sample_of(op, x, device, dtype)


def generate_elementwise_unary_small_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Iterator[SampleInput]:
    """Zeros of both signs, and numbers around them."""
    yield _values(op, _SMALL.get(_kind(dtype), _SMALL_FLOATS), device, dtype, requires_grad)


def generate_elementwise_unary_large_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Iterator[SampleInput]:
    """Numbers far from zero that the dtype has."""
    kind = _kind(dtype)
    if kind in ("bool", "unsigned") or dtype == torch.int8:
        return
    values = _LARGE["int" if kind == "int" or dtype == torch.float16 else "float"]
    yield _values(op, values, device, dtype, requires_grad)


def generate_elementwise_unary_extremal_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Iterator[SampleInput]:
    """Infinities and NaN."""
    if _kind(dtype) == "float":
        x: Any = _FLOAT_EXTREMES
        if dtype.is_complex:
            x = [complex(a, b) for a, b in itertools.product((*_FLOAT_EXTREMES, 0.0, 1.0), repeat=2)]
        t = torch.tensor(list(x), device=device, dtype=dtype, requires_grad=requires_grad)
        yield _sample_of(op, t, device, dtype)


def _strided(x: Any, how: int) -> Any:
    if how == 0:
        return x.transpose(0, -1)
    return x[..., ::2] if how == 1 else x[:1].expand(x.shape)


def generate_elementwise_unary_noncontiguous_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Iterator[SampleInput]:
    """Transposed, stepped and expanded tensors."""
    for how in range(3):
        x = _strided(_unary_tensor(op, (M, S), device, dtype, False), how)
        yield _sample_of(op, x.requires_grad_(requires_grad), device, dtype)


def reference_inputs_elementwise_unary(
    op: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any
) -> Iterator[SampleInput]:
    """Everything above."""
    yield from op.sample_inputs_func(op, device, dtype, requires_grad, **kwargs)
    options = {"device": device, "dtype": dtype, "requires_grad": requires_grad}
    yield from generate_elementwise_unary_tensors(op, **options)
    yield from generate_elementwise_unary_small_value_tensors(op, **options)
    if op.handles_large_floats or _kind(dtype) != "float":
        yield from generate_elementwise_unary_large_value_tensors(op, **options)
    if op.handles_complex_extremal_values or not dtype.is_complex:
        yield from generate_elementwise_unary_extremal_value_tensors(op, **options)
    yield from generate_elementwise_unary_noncontiguous_tensors(op, **options)


# --- pairs ----------------------------------------------------------------------------------------


def _pair(op: Any, left: Sequence[int], right: Sequence[int], **options: Any) -> tuple[Any, Any]:
    exclude = options.pop("exclude_zero", False)

    def made(shape: Sequence[int], how: dict[str, Any]) -> Any:
        extra = {"exclude_zero": True, **how} if exclude else how
        return torch.testing.make_tensor(tuple(shape), **options, **extra)

    return (
        made(left, getattr(op, "lhs_make_tensor_kwargs", {})),
        made(right, getattr(op, "rhs_make_tensor_kwargs", {})),
    )


def _of_pairs(op: Any, pairs: Any, device: Any, dtype: Any, exclude_zero: bool, grad: bool) -> Iterator[SampleInput]:
    for left, right in pairs:
        x, y = _pair(op, left, right, device=device, dtype=dtype, requires_grad=grad, exclude_zero=exclude_zero)
        larger = torch.broadcast_shapes(left, right) != torch.Size(left)
        own = op.sample_kwargs(device, dtype, x)[0]
        yield SampleInput(x, args=(y,), kwargs=own, broadcasts_input=larger)


def sample_inputs_elementwise_binary(
    op: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any
) -> Iterator[SampleInput]:
    """Operands of equal shapes, and of shapes that one or both are broadcast from."""
    pairs = (
        ((), ()),
        ((S,), ()),
        ((S, 1), (S,)),
        ((M, S), ()),
        ((S, M, S), (M, S)),
        ((S, M, S), (S, M, S)),
        ((M, 1, S), (M, S)),
        ((M, 1, S), (1, M, S)),
        ((0, 1, 3), (0, 10, 3)),
    )
    exclude = kwargs.get("exclude_zero", False)
    yield from _of_pairs(op, pairs, device, dtype, exclude, requires_grad)


def generate_elementwise_binary_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False, exclude_zero: bool = False
) -> Iterator[SampleInput]:
    """Operands of equal shapes."""
    pairs = [(shape, shape) for shape in _SHAPES]
    yield from _of_pairs(op, pairs, device, dtype, exclude_zero, requires_grad)


def generate_elementwise_binary_broadcasting_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False, exclude_zero: bool = False
) -> Iterator[SampleInput]:
    """Operands that are broadcast."""
    pairs = (
        ((1,), ()),
        ((2,), ()),
        ((1,), (2,)),
        ((2, 1), (2,)),
        ((1, 2), (3, 2)),
        ((3, 2), (1, 3, 2)),
        ((3, 1, 2), (1, 3, 2)),
        ((2, 3, 2), ()),
        ((3, 1, 2), (1, 3, 1)),
    )
    yield from _of_pairs(op, pairs, device, dtype, exclude_zero, requires_grad)


def _all_pairs(op: Any, values: Sequence[Any], device: Any, dtype: Any, grad: bool) -> Iterator[SampleInput]:
    if dtype.is_complex:
        values = [complex(a, b) for a, b in itertools.product(values, values)]
    both = list(itertools.product(values, values))
    x, y = (torch.tensor([p[i] for p in both], device=device, dtype=dtype, requires_grad=grad) for i in range(2))
    yield SampleInput(x, args=(y,), kwargs=op.sample_kwargs(device, dtype, x)[0])


def generate_elementwise_binary_small_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False, exclude_zero: Any = None
) -> Iterator[SampleInput]:
    """All pairs of small numbers."""
    values = _SMALL.get(_kind(dtype), _SMALL_FLOATS)
    zero = op.rhs_make_tensor_kwargs.get("exclude_zero", False) if exclude_zero is None else exclude_zero
    values = [v for v in values if v != 0 or not zero]
    yield from _all_pairs(op, values, device, dtype, requires_grad)


def generate_elementwise_binary_large_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Iterator[SampleInput]:
    """All pairs of large numbers."""
    kind = _kind(dtype)
    if kind not in ("bool", "unsigned") and dtype != torch.int8:
        values = _LARGE["int" if kind == "int" or dtype == torch.float16 else "float"]
        yield from _all_pairs(op, values, device, dtype, requires_grad)


def generate_elementwise_binary_extremal_value_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Iterator[SampleInput]:
    """All pairs of infinities, NaN and one."""
    if _kind(dtype) == "float":
        yield from _all_pairs(op, (*_FLOAT_EXTREMES, 1.0), device, dtype, requires_grad)


def generate_elementwise_binary_noncontiguous_tensors(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False, exclude_zero: bool = False
) -> Iterator[SampleInput]:
    """Transposed, stepped and expanded operands."""
    for how in range(3):
        x, y = _pair(op, (M, S), (M, S), device=device, dtype=dtype, exclude_zero=exclude_zero)
        x, y = (_strided(v, how).requires_grad_(requires_grad) for v in (x, y))
        yield SampleInput(x, args=(y,), kwargs=op.sample_kwargs(device, dtype, x)[0])


def generate_elementwise_binary_with_scalar_samples(
    op: Any, *, device: Any, dtype: Any, requires_grad: bool = False
) -> Iterator[SampleInput]:
    """Tensors with a number to their right."""
    if op.supports_rhs_python_scalar:
        for shape in ((), (3,), (5, 3)):
            x, y = _pair(op, shape, (), device=device, dtype=dtype, requires_grad=requires_grad)
            yield SampleInput(x, args=(y.item(),), kwargs=op.sample_kwargs(device, dtype, x)[0])


def reference_inputs_elementwise_binary(
    op: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any
) -> Iterator[SampleInput]:
    """Everything above."""
    yield from op.sample_inputs_func(op, device, dtype, requires_grad, **kwargs)
    options = {"device": device, "dtype": dtype, "requires_grad": requires_grad}
    exclude = kwargs.get("exclude_zero", op.rhs_make_tensor_kwargs.get("exclude_zero", False))
    yield from generate_elementwise_binary_tensors(op, exclude_zero=exclude, **options)
    yield from generate_elementwise_binary_broadcasting_tensors(op, exclude_zero=exclude, **options)
    yield from generate_elementwise_binary_small_value_tensors(op, **options)
    yield from generate_elementwise_binary_extremal_value_tensors(op, **options)
    yield from generate_elementwise_binary_noncontiguous_tensors(op, exclude_zero=exclude, **options)
    yield from generate_elementwise_binary_with_scalar_samples(op, **options)


def error_inputs_elementwise_binary(op: Any, device: Any, **kwargs: Any) -> Iterator[ErrorInput]:
    """Operands that do not fit together."""
    del kwargs
    kinds = op.supported_dtypes(device)
    kind = torch.float32 if torch.float32 in kinds else torch.int64
    x, y = (torch.ones(shape, device=device, dtype=kind) for shape in ((S,), (S + 1,)))
    text = r"The size of tensor a \(5\) must match the size of tensor b \(6\) at non-singleton dimension 0"
    if op.name not in ("isclose", "ldexp"):
        yield ErrorInput(SampleInput(x, args=(y,)), error_regex=text)


# --- reductions and transforms --------------------------------------------------------------------


def _dims(ndim: int, several: bool) -> Iterator[dict[str, Any]]:
    yield {}
    for keepdim in (True, False):
        yield {"dim": 0, "keepdim": keepdim}
        yield {"dim": -1, "keepdim": keepdim}
        if ndim > 2:
            yield {"dim": ndim // 2, "keepdim": keepdim}
        if several:
            yield {"dim": (0, -1) if ndim > 1 else (0,), "keepdim": keepdim}


def sample_inputs_reduction(
    op_info: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any
) -> Iterator[SampleInput]:
    """Tensors of some shapes, reduced over all dimensions, one and several."""
    several = kwargs.get("supports_multiple_dims", getattr(op_info, "supports_multiple_dims", True))
    for shape in ((), (2,), (2, 3), (S, 3, 2)):
        for dims in _dims(len(shape), several):
            x = torch.testing.make_tensor(shape, device=device, dtype=dtype, requires_grad=requires_grad)
            for args, more in op_info.generate_args_kwargs(x, **dims):
                yield SampleInput(x, args=tuple(args), kwargs={**more, **dims})


def sample_inputs_spectral_ops(
    self: Any, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any
) -> Iterator[SampleInput]:
    """Signals with each normalisation, and cut or padded ones."""
    del kwargs
    several = self.ndimensional.value > 1

    def signal(*shape: int) -> Any:
        return torch.testing.make_tensor(shape, device=device, dtype=dtype, requires_grad=requires_grad)

    for norm in (None, "forward", "backward", "ortho"):
        yield SampleInput(signal(4, 6, 3), norm=norm)
    if several:
        yield SampleInput(signal(4, 6), s=(3, 8), dim=(0, 1))
        yield SampleInput(signal(4, 6, 3), dim=(-1, 0))
    else:
        yield SampleInput(signal(7), n=10, dim=0)
        yield SampleInput(signal(4, 6), n=5, dim=0)
