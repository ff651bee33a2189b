"""How the steps of torch's gradient formulas lay out what they make.

A gradient that torch computes elementwise has the strides that its TensorIterator allocates, which
the order of the operands decides, and one that is filled or masked into a copy is row-major. Where
neither is what a gradient here gets by itself (from the incoming gradient first and then from the
saved tensors that it reads), the formula stands in this table, by the name of the node and the
argument that the gradient is for; so does it where a gradient comes out of LAPACK, column by column.
A tuple is a step, with its operands in torch's order: `GRAD`, `RESULT`, an argument by its number, a
row-major tensor, a number, or another step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core.shapes import contiguous_strides

GRAD, RESULT, ROW_MAJOR, NUMBER = "grad", "result", "row-major", "number"
CAST = "cast"  # an operand that is none: the incoming gradient has another dtype, and is cast first
COLUMN_MAJOR = "column-major"

Formula = str | tuple[Any, ...] | Callable[[dict[str, Any], Any], Any]
"""A step, or what to choose one by: a function of the static arguments and the argument's meta, which
can also give a list of strides."""


def _from_the_left(statics: dict[str, Any], key: Any) -> Any:
    return COLUMN_MAJOR if statics.get("left", True) else None


def _real(statics: dict[str, Any], key: Any) -> Any:
    return None if key.dtype.is_complex else COLUMN_MAJOR


def _block(statics: dict[str, Any], key: Any) -> Any:
    """A quarter of a matrix with twice the rows and columns."""
    n = key.shape[-1]
    blocks = contiguous_strides((*key.shape[:-2], 2 * n, 2 * n))
    return list(blocks) if n else None


def _tall(statics: dict[str, Any], key: Any) -> Any:
    return COLUMN_MAJOR if key.shape[-2] >= key.shape[-1] else None


def _norm(statics: dict[str, Any], key: Any) -> Any:
    """The norms whose slope is the input over the norm."""
    ord = statics.get("ord", statics.get("p"))
    if ord is not None and ord != 2:
        return None
    return ((GRAD,), (0, RESULT), CAST) if key.dtype.is_complex else (GRAD, (0, RESULT))


def _magnitude(statics: dict[str, Any], key: Any) -> Any:
    return _CAST_FIRST if key.dtype.is_complex else _SLOPE_LAST


def _sign(statics: dict[str, Any], key: Any) -> Any:
    """Of complex numbers a difference of two quotients, of real ones zeros."""
    if not key.dtype.is_complex:
        return ROW_MAJOR
    return (GRAD, (0,)), (((GRAD, RESULT), (0,)), RESULT)


def _angle(statics: dict[str, Any], key: Any) -> Any:
    """Of complex numbers a choice between 0 and the slope, of real ones zeros laid out as they are."""
    if key.dtype.is_complex:
        return ((0, NUMBER), NUMBER, (GRAD, 0), CAST)
    return list(key.strides) if key.dense else _SLOPE_FIRST


_SLOPE_FIRST, _SLOPE_LAST, _CAST_FIRST = ((0,), GRAD), (GRAD, (0,)), ((GRAD,), (0,), CAST)
_MASK_OF_TWO = ((0, 1), GRAD)
_SIGN_FIRST, _OF_RESULT = ((GRAD,), (0,)), ((GRAD,), (RESULT,))
_LARGER = ((0, 1), (GRAD,), GRAD)

_OF_THE_ARGUMENT = ("Sin", "Cos", "Sinh", "Cosh", "Asin", "Acos", "Atan", "Asinh", "Acosh")

GRADIENT_STEPS: dict[str, dict[int, Formula]] = {
    **{f"{n}Backward0": {0: _SLOPE_LAST} for n in _OF_THE_ARGUMENT},
    "AbsBackward0": {0: _magnitude},
    "AddcdivBackward0": {2: ((GRAD,), ((1,), (2,)))},
    "AmaxBackward0": {0: ((GRAD,), (0, RESULT))},
    "AminBackward0": {0: ((GRAD,), (0, RESULT))},
    "AminmaxBackward0": {0: (GRAD, 0)},
    "AngleBackward0": {0: _angle},
    "Atan2Backward0": {0: (GRAD, 1), 1: (GRAD, 0)},
    "AtanhBackward0": {0: _SIGN_FIRST},
    "BernoulliBackward0": {0: (GRAD,)},
    "CholeskySolveBackward0": {0: COLUMN_MAJOR},
    "ClampBackward0": {0: _MASK_OF_TWO, 1: _MASK_OF_TWO, 2: _MASK_OF_TWO},
    "ClampBackward1": {0: _SLOPE_FIRST},
    "ClampMaxBackward0": {0: _SLOPE_FIRST},
    "ClampMaxBackward1": {0: _MASK_OF_TWO, 1: _MASK_OF_TWO},
    "ClampMinBackward0": {0: _SLOPE_FIRST},
    "ClampMinBackward1": {0: _MASK_OF_TWO, 1: _MASK_OF_TWO},
    "CopyBackwards": {0: ROW_MAJOR},
    "CopysignBackward0": {1: ROW_MAJOR},
    "DistBackward0": {0: (0, 1), 1: (0, 1)},
    "DivBackward0": {1: ((GRAD,), ((0, 1), 1))},
    "ErfBackward0": {0: _SLOPE_FIRST},
    "ErfcBackward0": {0: _SLOPE_FIRST},
    "ErfinvBackward0": {0: _SLOPE_FIRST},
    **{f"FillBackward{n}": {0: (GRAD,)} for n in range(4)},
    "FmaxBackward0": {0: ROW_MAJOR, 1: ROW_MAJOR},
    "FminBackward0": {0: ROW_MAJOR, 1: ROW_MAJOR},
    "FmodBackward1": {1: ((GRAD,), (0, 1))},
    "HuberLossBackward0": {0: ROW_MAJOR, 1: ROW_MAJOR},
    "HypotBackward0": {0: (GRAD, (0, RESULT)), 1: (GRAD, (1, RESULT))},
    "IndexCopyBackward0": {0: (GRAD,)},
    "IndexPutBackward0": dict.fromkeys(range(1, 66), ROW_MAJOR),  # the values, after the indices
    "LeakyReluBackward0": {0: (0, GRAD)},
    "LeakyReluBackward1": {0: (RESULT, GRAD)},
    "LinalgCrossBackward0": {0: ROW_MAJOR, 1: ROW_MAJOR},
    "LinalgCholeskyExBackward0": {0: COLUMN_MAJOR},
    "LinalgDetBackward0": {0: COLUMN_MAJOR},
    "LinalgEigBackward0": {0: COLUMN_MAJOR},
    "LinalgLstsqBackward0": {0: COLUMN_MAJOR},
    "LinalgLuSolveBackward0": {2: _from_the_left},
    "LinalgMatrixExpBackward0": {0: _block},
    "LinalgPinvBackward0": {0: COLUMN_MAJOR},
    "LinalgQrBackward0": {0: _tall},
    "LinalgSlogdetBackward0": {0: COLUMN_MAJOR},
    "LinalgSolveExBackward0": {1: _from_the_left},
    "LinalgSolveTriangularBackward0": {1: _real},
    "LinalgVectorNormBackward0": {0: _norm},
    "LogSigmoidBackward0": {0: (GRAD,)},
    "Logaddexp2Backward0": {0: (GRAD, ROW_MAJOR), 1: (GRAD, ROW_MAJOR)},
    "LogaddexpBackward0": {0: (GRAD, (1, 0)), 1: (GRAD, (0, 1))},
    "LogsumexpBackward0": {0: (GRAD, (0, RESULT))},
    "MaximumBackward0": {0: _LARGER, 1: _LARGER},
    "MinimumBackward0": {0: _LARGER, 1: _LARGER},
    "MseLossBackward0": {0: ROW_MAJOR, 1: ROW_MAJOR},
    "MvlgammaBackward0": {0: (GRAD, ROW_MAJOR)},
    "NansumBackward0": {0: (GRAD, 0)},
    "NextafterBackward0": {0: _MASK_OF_TWO, 1: ROW_MAJOR},
    "NormBackward0": {0: _norm},
    "NormBackward1": {0: _norm},
    "OrmqrBackward0": {2: COLUMN_MAJOR},
    "PolarBackward0": {0: ((GRAD,), (RESULT,)), 1: ((GRAD,), (RESULT,))},
    "PowBackward0": {
        0: lambda statics, _: ROW_MAJOR if statics.get("exponent") == 0 else _SLOPE_LAST
    },
    "PowBackward1": {0: ((1,), (GRAD, (1, (0, (1,))))), 1: (GRAD, (RESULT, (0,)))},
    "PreluKernelBackward0": {0: (0, 1, GRAD), 1: (0, 1, GRAD)},
    "ProdBackward1": {0: ((GRAD, RESULT), 0)},
    "ReciprocalBackward0": {0: _OF_RESULT},
    "ReluBackward0": {0: (RESULT, GRAD)},
    "RemainderBackward1": {1: ((GRAD,), (0, 1))},
    "RenormBackward0": {0: (GRAD, 0)},
    "RreluWithNoiseBackward0": {0: lambda statics, _: None if statics["training"] else (0, GRAD)},
    "RsqrtBackward0": {0: _OF_RESULT},
    "SgnBackward0": {0: _sign},
    "SincBackward0": {0: ((0,), (GRAD, (0,)))},
    "SmoothL1LossBackward0": {0: ROW_MAJOR, 1: ROW_MAJOR},
    "SoftMarginLossBackward0": {0: (1, 0, GRAD)},
    "SpecialErfcxBackward0": {0: (((0,), RESULT), GRAD)},
    "SpecialLogNdtrBackward0": {0: _SIGN_FIRST},
    "SpecialNdtriBackward0": {0: _OF_RESULT},
    "SpecialXlog1PyBackward0": {0: ROW_MAJOR, 1: ((GRAD, 0), (1,))},
    "StdBackward0": {0: (((GRAD, RESULT),), 0, CAST)},
    "ThresholdBackward0": {0: (0, GRAD)},
    "TriangularSolveBackward0": {0: COLUMN_MAJOR},
    "VarBackward0": {0: ((GRAD,), 0, CAST)},
    "WhereBackward0": {1: (0, GRAD, NUMBER), 2: (0, NUMBER, GRAD)},
    "XlogyBackward0": {0: ROW_MAJOR, 1: ((GRAD, 0), 1)},
    "ZeroBackward0": {0: (GRAD,)},
}
