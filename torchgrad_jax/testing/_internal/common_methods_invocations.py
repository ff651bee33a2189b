"""The table of operators that `@ops(op_db)` runs tests over, and lists of its kinds.

It is a table of our own, shorter than torch's: sparse, nested and quantized operators, those behind the
dispatcher, and variants that differ in one argument are not in it.
"""

from __future__ import annotations

from typing import Any

import torchgrad_jax as torch

from ._helpers import mask_not_all_zeros as mask_not_all_zeros
from ._missing import missing_in
from ._op_tests import wrapper_set_seed as wrapper_set_seed
from .opinfo import core as _core
from .opinfo._calls import Draw, call_rows
from .opinfo._rows import binary_rows, dtypes, knows, unary_rows
from .opinfo.core import (
    XS as XS,
    BinaryUfuncInfo as BinaryUfuncInfo,
    DecorateInfo as DecorateInfo,
    ErrorInput as ErrorInput,
    ForeachFuncInfo as ForeachFuncInfo,
    L as L,
    M as M,
    NumericsFilter as NumericsFilter,
    OpInfo as OpInfo,
    ReductionOpInfo as ReductionOpInfo,
    S as S,
    SampleInput as SampleInput,
    ShapeFuncInfo as ShapeFuncInfo,
    SpectralFuncInfo as SpectralFuncInfo,
    SpectralFuncType as SpectralFuncType,
    UnaryUfuncInfo as UnaryUfuncInfo,
    generate_elementwise_binary_broadcasting_tensors as generate_elementwise_binary_broadcasting_tensors,
    generate_elementwise_binary_extremal_value_tensors as generate_elementwise_binary_extremal_value_tensors,
    generate_elementwise_binary_large_value_tensors as generate_elementwise_binary_large_value_tensors,
    generate_elementwise_binary_noncontiguous_tensors as generate_elementwise_binary_noncontiguous_tensors,
    generate_elementwise_binary_small_value_tensors as generate_elementwise_binary_small_value_tensors,
    generate_elementwise_binary_tensors as generate_elementwise_binary_tensors,
    generate_elementwise_binary_with_scalar_samples as generate_elementwise_binary_with_scalar_samples,
    generate_elementwise_unary_extremal_value_tensors as generate_elementwise_unary_extremal_value_tensors,
    generate_elementwise_unary_large_value_tensors as generate_elementwise_unary_large_value_tensors,
    generate_elementwise_unary_noncontiguous_tensors as generate_elementwise_unary_noncontiguous_tensors,
    generate_elementwise_unary_small_value_tensors as generate_elementwise_unary_small_value_tensors,
    generate_elementwise_unary_tensors as generate_elementwise_unary_tensors,
)

_NOTHING = _core._NOTHING


def _sorted(rows: list[OpInfo]) -> list[OpInfo]:
    return sorted(rows, key=lambda r: (r.name, r.variant_test_name))


op_db: list[OpInfo] = _sorted([*unary_rows(), *binary_rows(), *call_rows()])


def _of(kind: type) -> list[Any]:
    return [r for r in op_db if isinstance(r, kind)]


unary_ufuncs = _of(UnaryUfuncInfo)
binary_ufuncs = _of(BinaryUfuncInfo)
reduction_ops = _of(ReductionOpInfo)
shape_funcs = _of(ShapeFuncInfo)
spectral_funcs = _of(SpectralFuncInfo)
reference_filtered_ops = [r for r in reduction_ops if r.ref is not None]
reference_masked_ops: list[OpInfo] = []
sparse_unary_ufuncs: list[OpInfo] = []
sparse_reduction_ops: list[OpInfo] = []
python_ref_db: list[OpInfo] = []
"""torch._refs, functions in Python of torch's operators, do not exist here."""
ops_and_refs = op_db + python_ref_db
unary_ufuncs_and_refs = unary_ufuncs
binary_ufuncs_and_refs = binary_ufuncs


def _lists(arguments: int) -> Any:
    def samples(op: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Any:
        del op, kwargs
        d = Draw(device, dtype, requires_grad)
        for shapes in (((2, 3),), ((2, 3), (1,), (3, 1, 2))):
            lists = [[d(*shape, low=1, high=3) for shape in shapes] for _ in range(arguments)]
            yield SampleInput(lists[0], args=tuple(lists[1:]))

    return samples


def _foreach(names: str, arguments: int, letters: str) -> list[ForeachFuncInfo]:
    return [
        ForeachFuncInfo(n, sample_inputs_func=_lists(arguments), dtypes=dtypes(letters), **knows("agfw"))
        for n in names.split()
        if hasattr(torch, f"_foreach_{n}")
    ]


foreach_unary_op_db = _foreach(
    "exp acos asin atan cos cosh log log10 log2 tan tanh sin sinh neg sqrt rsqrt ceil erf erfc expm1 floor log1p "
    "round frac reciprocal sigmoid trunc abs sign lgamma",
    1,
    "F",
)
foreach_binary_op_db = _foreach("add sub mul div clamp_min clamp_max minimum maximum pow", 2, "F")
foreach_pointwise_op_db = _foreach("addcmul addcdiv", 3, "F")
foreach_reduce_op_db = _foreach("norm max", 1, "F")
foreach_other_op_db = _foreach("lerp", 3, "F")

__getattr__ = missing_in("common_methods_invocations")
