"""What torch calls the last step of its gradient formulas.

With `create_graph=True` a gradient here is one recorded operator, in torch the steps of a formula. What a
user sees of it first is the `grad_fn` of the gradient, which is the last of those steps: by the name
of the node and the number of its edge. Where a gradient is summed to a broadcast shape or cast, that step
comes last instead; see `last_step`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from .._core import shapes

SUMMED = "summed"
"""Stands for the name of a sum over what was broadcast."""
EACH = -2
"""Stands for each edge of a node that takes a list."""
RESHAPED = "reshaped"
"""Stands for the name of a reshape, which depends on how the gradient is laid out."""


Step: TypeAlias = str | dict[tuple[int, ...], str] | Callable[[dict[str, Any]], Any]
"""A name, or one per set of results that have a gradient, or a function of the static arguments, of the `shape` and
`strides` of what the gradient is of, of whether it was `broadcast` or `cast`, and of the arguments that are `given`."""


def _averaged(statics: dict[str, Any]) -> str:
    """A mean divides last."""
    return "DivBackward1" if statics.get("reduction") == "mean" else "MulBackward0"


def _reduced(statics: dict[str, Any], of_product: str, of_sum: str = "MulBackward0") -> str:
    """An extremum masks last, a mean divides."""
    names = {"prod": of_product, "mean": "DivBackward0", "sum": of_sum}
    return names.get(statics["reduce"], "MulBackward0")


def _kept_out(last: str, of_product: str) -> Step:
    """The same of what results are put into: where it does not count, its places are cleared last."""
    return lambda about: _reduced(about, of_product) if about.get("include_self", True) else last


def _times(alpha_one: str) -> Step:
    """Of an operand that a number may stand before; a cast comes after it."""

    def named(about: dict[str, Any]) -> str:
        if about["cast"]:
            return "ToCopyBackward0"
        return "MulBackward1" if "alpha" in about["given"] else alpha_one

    return named


def _product(name: str, axes: int = 0) -> Step:
    """Of a factor of a product that a number may stand before; of a matrix in column-major order, the transpose."""

    def named(about: dict[str, Any]) -> str:
        if about.get("alpha", 1) != 1:
            return "MulBackward1"
        rows = about["shape"][0]
        return "TBackward0" if axes == 2 and about["strides"] == (1, rows) else name

    return named


def _addend(about: dict[str, Any]) -> str:
    """Of what is added to a product: a broadcast one is summed last, before that it may be multiplied."""
    return SUMMED if about["broadcast"] else "MulBackward1"


def _matrix(about: dict[str, Any]) -> str:
    """A product of matrices, or of many of them."""
    return "MmBackward0" if len(about["shape"]) == 2 else "UnsafeViewBackward0"


def _solved(about: dict[str, Any]) -> str:
    """A vector is solved for as a matrix."""
    return "SqueezeBackward1" if len(about["shape"]) == 1 else "LinalgSolveExBackward0"


def _halved(about: dict[str, Any]) -> str:
    """What stands for two equal frequencies is doubled in place."""
    size = about["last_dim_size"]
    return "torch::autograd::CopySlices" if size > size // 2 + 1 else "FftR2CBackward0"


def _block(about: dict[str, Any]) -> str:
    """A block is cut out, and made a vector or number again."""
    return ("SqueezeBackward1", "ViewBackward0", "SliceBackward0")[len(about["shape"])]


def _tall(about: dict[str, Any]) -> bool:
    return about["shape"][-2] > about["shape"][-1]


def _wide(about: dict[str, Any]) -> bool:
    return about["shape"][-2] < about["shape"][-1]


_WIDE: Step = {(0, 1): "AddBackward0", (0,): "CatBackward0", (1,): "AddBackward0"}
_MOMENTS = {(0, 1): "AddBackward0", (0,): "MulBackward0", (1,): "DivBackward1"}
"""By the results that have a gradient."""
LAST_STEPS: dict[str, dict[int, Step]] = {
    "AbsBackward0": {0: "MulBackward0"},
    "AcosBackward0": {0: "MulBackward0"},
    "AcoshBackward0": {0: "MulBackward0"},
    "AddBackward0": {0: "ToCopyBackward0", 1: _times("ToCopyBackward0")},
    "AddbmmBackward0": {0: _addend, 1: _product("BmmBackward0"), 2: _product("BmmBackward0")},
    "AddcdivBackward0": {1: "MulBackward0", 2: "MulBackward0"},
    "AddcmulBackward0": {1: "MulBackward0", 2: "MulBackward0"},
    "AddmmBackward0": {0: _addend, 1: _product("MmBackward0", 2), 2: _product("MmBackward0", 2)},
    "AddmvBackward0": {0: _addend, 1: _product("MulBackward0"), 2: _product("MvBackward0")},
    "AddrBackward0": {0: _addend, 1: _product("MvBackward0"), 2: _product("MvBackward0")},
    "AffineGridGeneratorBackward0": {0: "TransposeBackward0"},
    "AmaxBackward0": {0: "MulBackward0"},
    "AminBackward0": {0: "MulBackward0"},
    "AminmaxBackward0": {0: {(0, 1): "AddBackward0", (0,): "MulBackward0", (1,): "MulBackward0"}},
    "AngleBackward0": {0: "WhereBackward0"},
    "AsStridedBackward0": {0: "AsStridedBackward0"},
    "AsStridedScatterBackward0": {0: "AsStridedBackward0", 1: "AsStridedBackward0"},
    "AsinBackward0": {0: "MulBackward0"},
    "AsinhBackward0": {0: "MulBackward0"},
    "Atan2Backward0": {0: "MulBackward0", 1: "MulBackward0"},
    "AtanBackward0": {0: "DivBackward0"},
    "AtanhBackward0": {0: "DivBackward0"},
    "BaddbmmBackward0": {0: _addend, 1: _product("BmmBackward0"), 2: _product("BmmBackward0")},
    "BinaryCrossEntropyBackward0": {1: _averaged},
    "BinaryCrossEntropyWithLogitsBackward0": {0: _averaged, 1: _averaged},
    "BlockDiagBackward0": {EACH: _block},
    "BmmBackward0": {0: "BmmBackward0", 1: "BmmBackward0"},
    "CatBackward0": {EACH: "SliceBackward0"},
    "CeluBackward0": {0: "EluBackwardBackward0"},
    "CholeskyBackward0": {0: "LinalgSolveTriangularBackward0"},
    "CholeskyInverseBackward0": {0: "NegBackward0"},
    "CholeskySolveBackward0": {0: "CholeskySolveBackward0", 1: "NegBackward0"},
    "ClampBackward0": {0: "WhereBackward0", 1: "WhereBackward0", 2: "WhereBackward0"},
    "ClampBackward1": {0: "WhereBackward0"},
    "ClampMaxBackward0": {0: "WhereBackward0"},
    "ClampMaxBackward1": {0: "WhereBackward0", 1: "WhereBackward0"},
    "ClampMinBackward0": {0: "WhereBackward0"},
    "ClampMinBackward1": {0: "WhereBackward0", 1: "WhereBackward0"},
    "Col2ImBackward0": {0: "Im2ColBackward0"},
    "ConjBackward0": {0: "ConjBackward0"},
    "ConstantPadNdBackward0": {0: "ConstantPadNdBackward0"},
    "CopysignBackward0": {0: "MulBackward0"},
    "CopysignBackward1": {0: "MulBackward0"},
    "CosBackward0": {0: "MulBackward0"},
    "CoshBackward0": {0: "MulBackward0"},
    "CummaxBackward0": {0: "ScatterAddBackward0"},
    "CumminBackward0": {0: "ScatterAddBackward0"},
    "CumprodBackward0": {0: "DivBackward0"},
    "CumprodBackward0*": {0: "CopySlices"},
    "CumsumBackward0": {0: "FlipBackward0"},
    "Deg2RadBackward0": {0: "MulBackward1"},
    "DiagEmbedBackward0": {0: "DiagonalBackward0"},
    "DiagonalBackward0_copy": {0: "DiagonalBackwardBackward0"},
    "DiagonalScatterBackward0": {0: "DiagonalScatterBackward0", 1: "DiagonalBackward0"},
    "DigammaBackward0": {0: "MulBackward0"},
    "DistBackward0": {0: "MulBackward0", 1: "NegBackward0"},
    "DivBackward0": {0: "DivBackward0", 1: "MulBackward0"},
    "DotBackward0": {0: "MulBackward0", 1: "MulBackward0"},
    "EmbeddingBackward0": {0: "EmbeddingDenseBackwardBackward0"},
    "ErfBackward0": {0: "MulBackward0"},
    "ErfcBackward0": {0: "MulBackward0"},
    "ErfinvBackward0": {0: "MulBackward0"},
    "Exp2Backward0": {0: "MulBackward1"},
    "ExpBackward0": {0: "MulBackward0"},
    "ExpandBackward0": {0: SUMMED},
    "Expm1Backward0": {0: "MulBackward0"},
    "FftC2RBackward0": {0: _halved},
    "FftC2CBackward0": {0: "FftC2CBackward0"},
    "FftR2CBackward0": {0: "SelectBackward0"},
    "FillBackward1": {1: "SumBackward0"},
    "FlipBackward0": {0: "FlipBackward0"},
    "FmaxBackward0": {0: "MaskedFillBackward0", 1: "MaskedFillBackward0"},
    "FminBackward0": {0: "MaskedFillBackward0", 1: "MaskedFillBackward0"},
    "FmodBackward1": {1: "MulBackward0"},
    "FrexpBackward0": {0: "DivBackward0"},
    "GatherBackward0": {0: "ScatterAddBackward0"},
    "HypotBackward0": {0: "DivBackward0", 1: "DivBackward0"},
    "I0Backward0": {0: "MulBackward0"},
    "IgammaBackward0": {1: "MulBackward0"},
    "IgammacBackward0": {1: "MulBackward0"},
    "Im2ColBackward0": {0: "Col2ImBackward0"},
    "IndexAddBackward0": {1: "ExpandBackward0"},
    "IndexBackward0": {0: "IndexPutImplBackward0"},
    "IndexCopyBackward0": {0: "IndexFillBackward0", 1: "ExpandBackward0"},
    "IndexFillBackward0": {0: "IndexFillBackward0"},
    "IndexFillBackward1": {0: "IndexFillBackward0", 1: "SumBackward0"},
    "IndexPutBackward0": {0: "IndexPutBackward0", 1: "IndexBackward0"},
    "IndexReduceBackward0": {
        0: _kept_out("IndexFillBackward0", "DivBackward0"),
        1: lambda statics: _reduced(statics, "WhereBackward0"),
    },
    "IndexSelectBackward0": {0: "IndexAddBackward0"},
    "KthvalueBackward0": {0: "ScatterBackward0"},
    "LdexpBackward0": {0: "MulBackward0", 1: "MulBackward1"},
    "LerpBackward0": {0: "MulBackward1", 1: "MulBackward1"},
    "LerpBackward1": {0: "MulBackward0", 1: "MulBackward0", 2: "MulBackward0"},
    "LgammaBackward0": {0: "MulBackward0"},
    "LinalgCholeskyExBackward0": {0: "LinalgSolveTriangularBackward0"},
    "LinalgCrossBackward0": {0: "LinalgCrossBackward0", 1: "LinalgCrossBackward0"},
    "LinalgDetBackward0": {0: "LinalgSolveExBackward0"},
    "LinalgEighBackward0": {0: _matrix},
    "LinalgHouseholderProductBackward0": {0: "TrilBackward0", 1: "torch::autograd::CopySlices"},
    "LinalgInvExBackward0": {0: "NegBackward0"},
    "LinalgLstsqBackward0": {0: "SubBackward0", 1: _matrix},
    "LinalgLuFactorExBackward0": {0: _matrix},
    "LinalgLuBackward0": {0: _matrix},
    "LinalgMatrixExpBackward0": {0: "SliceBackward0"},
    "LinalgPinvBackward0": {0: lambda about: "SubBackward0" if _tall(about) else "AddBackward0"},
    "LinalgQrBackward0": {
        0: lambda about: _WIDE if _wide(about) else "LinalgSolveTriangularBackward0"
    },
    "LinalgSlogdetBackward0": {0: "LinalgSolveExBackward0"},
    "LinalgLuSolveBackward0": {0: _matrix, 1: "LinalgLuSolveBackward0"},
    "LinalgSolveExBackward0": {0: "NegBackward0", 1: _solved},
    "LinalgSolveTriangularBackward0": {0: "TriuBackward0", 1: "LinalgSolveTriangularBackward0"},
    "LinalgSvdBackward0": {0: _matrix},
    "LinalgVectorNormBackward0": {0: "MulBackward0"},
    "ModeBackward0": {0: "ScatterBackward0"},
    "MulBackward1": {0: "MulBackward1"},
    "MvlgammaBackward0": {0: "MulBackward0"},
    "NanmedianBackward0": {0: "MaskedFillBackward1"},
    "NanmedianBackward1": {0: "ScatterBackward0"},
    "NextafterBackward0": {0: "WhereBackward0"},
    "NormBackward1": {0: "MulBackward0"},
    "Log10Backward0": {0: "DivBackward0"},
    "Log1PBackward0": {0: "DivBackward0"},
    "Log2Backward0": {0: "DivBackward0"},
    "LogBackward0": {0: "DivBackward0"},
    "LogSoftmaxBackward0": {0: "LogSoftmaxBackwardDataBackward0"},
    "Logaddexp2Backward0": {0: "DivBackward0", 1: "DivBackward0"},
    "LogaddexpBackward0": {0: "DivBackward0", 1: "DivBackward0"},
    "LogcumsumexpBackward0": {0: "SubBackward0"},
    "LogitBackward0": {0: "WhereBackward0"},
    "LogsumexpBackward0": {0: "MulBackward0"},
    "MaskedFillBackward0": {0: "MaskedFillBackward0"},
    "MaskedFillBackward1": {0: "MaskedFillBackward0", 1: "SumBackward0"},
    "MaskedScatterBackward0": {0: "MaskedFillBackward0"},
    "MaskedSelectBackward0": {0: "MaskedScatterBackward0"},
    "MaxBackward0": {0: "ScatterBackward0"},
    "MaxBackward1": {0: "MaskedFillBackward1"},
    "MaximumBackward0": {0: "MaskedFillBackward0", 1: "MaskedFillBackward0"},
    "MeanBackward0": {0: "DivBackward1"},
    "MeanBackward1": {0: "DivBackward1"},
    "MedianBackward0": {0: "MaskedFillBackward1"},
    "MedianBackward1": {0: "ScatterBackward0"},
    "MinBackward0": {0: "ScatterBackward0"},
    "MinBackward1": {0: "MaskedFillBackward1"},
    "MinimumBackward0": {0: "MaskedFillBackward0", 1: "MaskedFillBackward0"},
    "MishBackward0": {0: "MulBackward0"},
    "MmBackward0": {0: _product("MmBackward0", 2), 1: _product("MmBackward0", 2)},
    "MulBackward0": {0: "MulBackward0", 1: "MulBackward0"},
    "MvBackward0": {0: "MulBackward0", 1: "MvBackward0"},
    "NanToNumBackward0": {0: "MulBackward0"},
    "NansumBackward0": {0: "MulBackward0"},
    "NativeGroupNormBackward0": {0: "ViewBackward0", 1: "ViewBackward0", 2: "ViewBackward0"},
    "NegBackward0": {0: "NegBackward0"},
    "PermuteBackward0": {0: "PermuteBackward0"},
    "PixelShuffleBackward0": {0: "PixelUnshuffleBackward0"},
    "PolygammaBackward0": {0: "MulBackward0"},
    "PowBackward0": {0: "MulBackward0"},
    "PowBackward1": {0: "WhereBackward0", 1: "MulBackward0"},
    "PowBackward2": {0: "MulBackward0"},
    "PreluKernelBackward0": {1: "SumBackward1"},
    "ProdBackward0": {0: "MulBackward0"},
    "ProdBackward0*": {0: "ViewBackward0"},
    "ProdBackward1": {0: "MulBackward0"},
    "ProdBackward1*": {0: "MulBackward0"},
    "PutBackward0": {0: "PutBackward0", 1: "ViewBackward0"},
    "Rad2DegBackward0": {0: "MulBackward1"},
    "ReciprocalBackward0": {0: "MulBackward0"},
    "ReluBackward0": {0: "ThresholdBackwardBackward0"},
    "RemainderBackward1": {1: "MulBackward0"},
    "RenormBackward0": {0: "WhereBackward0"},
    "RepeatBackward0": {0: "SumBackward1"},
    "RollBackward0": {0: "RollBackward0"},
    "Rot90Backward0": {0: "Rot90Backward0"},
    "RsqrtBackward0": {0: "MulBackward0"},
    "RsubBackward0": {0: _times("NegBackward0")},
    "RsubBackward1": {0: _times("NegBackward0")},
    "ScatterAddBackward0": {1: "GatherBackward0"},
    "ScatterBackward0": {0: "ScatterBackward1", 1: "GatherBackward0"},
    "ScatterBackward1": {0: "ScatterBackward1"},
    "ScatterReduceBackward0": {
        0: _kept_out("ScatterBackward1", "DivBackward0"),
        1: lambda statics: _reduced(statics, "WhereBackward0", "GatherBackward0"),
    },
    "SelectScatterBackward0": {0: "SelectScatterBackward0", 1: "SelectBackward0"},
    "SgnBackward0": {0: "MaskedFillBackward0"},
    "SiluBackward0": {0: "MulBackward0"},
    "SinBackward0": {0: "MulBackward0"},
    "SincBackward0": {0: "WhereBackward0"},
    "SinhBackward0": {0: "MulBackward0"},
    "SliceScatterBackward0": {0: "SliceScatterBackward0", 1: "SliceBackward0"},
    "SoftmaxBackward0": {0: "SoftmaxBackwardDataBackward0"},
    "SortBackward0": {0: "ScatterBackward0"},
    "SortBackward1": {0: "ScatterBackward0"},
    "SpecialEntrBackward0": {0: "MulBackward0"},
    "SpecialErfcxBackward0": {0: "MulBackward0"},
    "SpecialI0EBackward0": {0: "MulBackward0"},
    "SpecialI1Backward0": {0: "MulBackward0"},
    "SpecialI1EBackward0": {0: "MulBackward0"},
    "SpecialLogNdtrBackward0": {0: "MulBackward0"},
    "SpecialNdtriBackward0": {0: "MulBackward0"},
    "SpecialZetaBackward0": {1: "MulBackward0"},
    "SpecialZetaBackward1": {0: "MulBackward0"},
    "SplitBackward0": {0: "CatBackward0"},
    "SplitWithSizesBackward0": {0: "CatBackward0"},
    "SqrtBackward0": {0: "DivBackward0"},
    "SpecialXlog1PyBackward0": {0: "MaskedFillBackward0", 1: "DivBackward0"},
    "SqueezeBackward0": {0: "UnsqueezeBackward0"},
    "SqueezeBackward1": {0: "UnsqueezeBackward0"},
    "SqueezeBackward2": {0: "UnsqueezeBackward0"},
    "StackBackward0": {EACH: "SelectBackward0"},
    "StdBackward0": {0: "MulBackward0"},
    "StdMeanBackward0": {0: _MOMENTS},
    "SubBackward0": {0: "ToCopyBackward0", 1: _times("NegBackward0")},
    "SumBackward0": {0: "ExpandBackward0"},
    "SumBackward1": {0: "ExpandBackward0"},
    "TBackward0": {0: "TBackward0"},
    "TakeBackward0": {0: "PutBackward0"},
    "TanBackward0": {0: "MulBackward0"},
    "ToCopyBackward0": {0: "ToCopyBackward0"},
    "TopkBackward0": {0: "ScatterBackward0"},
    "TraceBackward0": {0: "ViewBackward0"},
    "TransposeBackward0": {0: "TransposeBackward0"},
    "TrilBackward0": {0: "TrilBackward0"},
    "TrilinearBackward0": {1: "TrilinearBackward0"},
    "TriuBackward0": {0: "TriuBackward0"},
    "UnbindBackward0": {0: "StackBackward0"},
    "UnsqueezeBackward0": {0: "SqueezeBackward1"},
    "VarBackward0": {0: "MulBackward0"},
    "VarMeanBackward0": {0: _MOMENTS},
    "VdotBackward0": {0: "MulBackward0", 1: "MulBackward0"},
    "ViewAsComplexBackward0": {0: "ViewAsRealBackward0"},
    "ViewAsRealBackward0": {0: "ViewAsComplexBackward0"},
    "ReshapeAliasBackward0": {0: RESHAPED},
    "StandardGammaBackward0": {0: "MulBackward0"},
    "UnsafeViewBackward0": {0: RESHAPED},
    "ViewBackward0": {0: RESHAPED},
    "WeightNormInterfaceBackward0": {0: "MulBackward0", 1: "DivBackward0"},
    "WhereBackward0": {0: "WhereBackward0", 1: "WhereBackward0"},
    "XlogyBackward0": {0: "MaskedFillBackward0", 1: "DivBackward0"},
    "XlogyBackward1": {0: "DivBackward0"},
    "XlogyBackward2": {0: "XlogyBackward2"},
}


CAST_INSIDE = frozenset(f"{n}Backward0" for n in ("Cumsum", "MseLoss", "Nansum", "SmoothL1Loss"))
"""Nodes whose formula gives a gradient in the dtype of the input: no cast is the last step."""


def reshaped(shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> str:
    """How torch reshapes: as a plain view, a view of a layout with gaps, or a copy."""
    if shapes.is_contiguous(shape, strides):
        return "ViewBackward0"
    viewable = shapes.view_strides(shape, strides, new) is not None
    return "ReshapeAliasBackward0" if viewable else "UnsafeViewBackward0"


def summed(shape: tuple[int, ...], to: tuple[int, ...]) -> str | None:
    """The last step of summing a gradient to a broadcast operand's shape."""
    if shape == to:
        return None
    if not to:
        return "SumBackward0"
    return "ViewBackward0" if len(shape) > len(to) else "SumBackward1"


def last_step(node: str, edge: int) -> Step:
    """The name of a recorded gradient: torch's last step, or the node's own name once more."""
    steps = LAST_STEPS.get(node, {})
    found = steps.get(edge, steps.get(EACH))
    if found is not None:
        return found
    stem = node.rstrip("0123456789")
    return f"{stem}Backward0" if stem.endswith("Backward") else f"{stem}BackwardBackward0"


Names: TypeAlias = dict[str, tuple[str, ...]]


def _alike(first: str, second: str, *names: str) -> Names:
    return dict.fromkeys((first, second), names or (first, second))


JOINT = frozenset(
    f"{n}Backward0" for n in ("Convolution", "NativeBatchNorm", "NativeLayerNorm", "PreluKernel")
)
"""Nodes all of whose gradients are recorded by one step in torch, which saves what they save but the bias."""


def _largest(p: Any) -> bool:
    """Whether a norm is the largest or the smallest number."""
    return isinstance(p, float) and math.isinf(p)


_INPUT: Names = {"input": ("input",)}
_GRAD: Names = {"input": ("grad",)}
_BOTH: Names = {"input": ("input", "grad")}
_RESULT: Names = {"input": ("result",)}
_ALL_BUT_GRAD: Names = {"input": ("input", "result")}
KEPT_AGAIN: dict[str, Names | Callable[[dict[str, Any]], Names]] = {
    "AbsBackward0": _BOTH,
    "DistBackward0": lambda statics: (
        _alike("input", "other", "grad") if statics.get("p") == 1 else {}
    ),
    "FmodBackward1": {"input": ("input",), "other": ("input", "other")},
    "IndexSelectBackward0": {"grad": ("grad",)},
    "LinalgVectorNormBackward0": lambda statics: (
        _BOTH if statics.get("ord") == 1 else _INPUT if _largest(statics.get("ord")) else {}
    ),
    "MseLossBackward0": _alike("input", "target"),
    "PowBackward0": lambda statics: _BOTH if statics.get("exponent") == 1 else {},
    "RemainderBackward1": {"other": ("input", "other")},
    "RreluWithNoiseBackward0": _INPUT,
    "TakeBackward0": {"grad": ("grad",)},
    **{
        f"{n}Backward0": _INPUT
        for n in ("Hardshrink", "Hardtanh", "LeakyRelu", "Softshrink", "Threshold")
    },
}

_TAKEN: dict[str, Names | Callable[[dict[str, Any]], Names]] = {
    "AddcdivBackward0": {"tensor2": ("tensor1", "grad")},
    "AddcmulBackward0": {"tensor1": ("tensor2",), "tensor2": ("tensor1",)},
    "AtanhBackward0": _GRAD,
    "BinaryCrossEntropyWithLogitsBackward0": {"input": ("input", "target")},
    "CumprodBackward0": {"input": ("result alone",)},
    "DistBackward0": lambda statics: _alike(
        "input", "other", "input", "other", *(("compared",) if _largest(statics.get("p")) else ())
    ),
    "DivBackward0": {"other": ("grad",)},
    "Expm1Backward0": _RESULT,
    "IndexReduceBackward0": _INPUT,
    "LerpBackward1": {"input": ("weight",), "weight": ("input", "end")},
    "LinalgMatrixExpBackward0": _BOTH,
    "LinalgSolveExBackward0": _alike("A", "B", "grad"),
    "LinalgSolveTriangularBackward0": _alike("input", "B", "grad"),
    "LinalgVectorNormBackward0": lambda statics: (
        {"input": ("compared",)} if _largest(statics.get("ord")) else {}
    ),
    "Log10Backward0": _INPUT,
    "Log1PBackward0": _INPUT,
    "Log2Backward0": _INPUT,
    "LogaddexpBackward0": _alike("input", "other"),
    "Logaddexp2Backward0": _alike("input", "other"),
    "LogcumsumexpBackward0": _ALL_BUT_GRAD,
    "LogsumexpBackward0": _ALL_BUT_GRAD,
    "PowBackward2": {"exponent": ("result",)},
    "ReciprocalBackward0": _GRAD,
    "RsqrtBackward0": _GRAD,
    "ProdBackward0*": _INPUT,
    "ProdBackward1*": _INPUT,
    "ScatterReduceBackward0": _INPUT,
    "SpecialLogNdtrBackward0": _GRAD,
    "SpecialNdtriBackward0": _GRAD,
    "SpecialXlog1PyBackward0": {"other": ("other",)},
    "SqrtBackward0": _RESULT,
    "StdBackward0": _ALL_BUT_GRAD,
    "StdMeanBackward0": _ALL_BUT_GRAD,
    "VarBackward0": _BOTH,
    "VarMeanBackward0": _BOTH,
}


ASKED = frozenset({"CumprodBackward0"})
"""Nodes of which `alone` decides what is computed with."""


def kept_again(node: str, statics: dict[str, Any]) -> Names:
    """What recorded gradients save for the gradients of these inputs although none reads it: torch's steps do so."""
    found = KEPT_AGAIN.get(node, {})
    return found if isinstance(found, dict) else found(statics)


def taken_again(node: str, statics: dict[str, Any]) -> Names:
    """What torch's steps compute with before they save it, for the gradients of these inputs.

    Later writes to it do not matter. A result is computed with (`alone`: where the incoming gradient does not require
    one, which would read it), or only compared.
    """
    found = _TAKEN.get(node, {})
    return found if isinstance(found, dict) else found(statics)


def _running(shape: tuple[int, ...], dim: int) -> dict[str, int]:
    """torch goes through a running product with a zero number by number."""
    n = shape[dim]
    return {"input": 2 * n - 3, "grad": n - 1}


_ADDED: dict[str, dict[str, dict[str, int] | Callable[..., dict[str, int]]]] = {
    **{
        f"{n}Backward0": {"input": {"input": 1}}
        for n in ("Acos", "Acosh", "Asin", "Atan", "Logit", "Silu", "Var")
    },
    **{f"{n}Backward0": {"input": {"input": 2}} for n in ("Sinc", "Mish")},
    **{
        f"{n}Backward0": {"input": {"grad": 1}, "other": {"grad": 1}}
        for n in ("Maximum", "Minimum")
    },
    "AddcdivBackward0": {"tensor2": {"tensor2": 1}},
    "Atan2Backward0": {"input": {"input": 1, "other": 2}, "other": {"input": 2, "other": 1}},
    "CumprodBackward0*": {"input": _running},
    "DivBackward0": {"other": {"other": 1}},
    "HuberLossBackward0": {"input": {"input": 1}, "target": {"target": 1}},
    "LogcumsumexpBackward0": {"input": {"input": 1}},
    "MseLossBackward0": {"input": {"input": 1}, "target": {"target": 1}},
    "NativeLayerNormBackward0": {"input": {"input": 3}, "weight": {"input": 2}},
    "PowBackward1": {"input": {"exponent": 1}},
    **{f"ProdBackward{n}*": {"input": {"input": 1}} for n in (0, 1)},
    "RenormBackward0": {"input": {"input": 2, "grad": 2}},
    "SmoothL1LossBackward0": {"input": {"input": 1}, "target": {"target": 1}},
    "SpecialI0EBackward0": {"input": {"input": 1}},
    "StdBackward0": {"input": {"input": 1}},
    "StdMeanBackward0": {"input": {"input": 1}},
    "VarMeanBackward0": {"input": {"input": 1}},
}


SCALED = frozenset({"AddcdivBackward0", "AddcmulBackward0", "Atan2Backward0"})
"""Formulas of broadcasting operators that compute with a factor before it meets what is larger."""


def added_up(node: str, of: str, shape: tuple[int, ...], statics: dict[str, Any]) -> dict[str, int]:
    """How often torch adds to the gradients of this gradient, by input: its formula has several steps that read it."""
    found = _ADDED.get(node, {}).get(of, {})
    return found if isinstance(found, dict) else found(shape, statics["dim"])
