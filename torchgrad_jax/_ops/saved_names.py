"""Under which names torch shows what a node saves: `_saved_dim`, `_saved_self`, ...

The names that nodes have in common, and those nodes (without ``Backward``, which stands before the
number).
"""

from __future__ import annotations

_NUMBERS = {
    "C HxW N eps group": "NativeGroupNorm0",
    "LU_data_sym_argsize_minus_1 LU_data_sym_argsize_minus_2": "LuUnpack0",
    "accumulate": "IndexPut0 IndexPutImpl0 Put0",
    "adjoint left": "LinalgLuSolve0",
    "align_corners interpolation_mode padding_mode": ("GridSampler2D0 GridSampler2DCpuFallback0 GridSampler3D0"),
    "align_corners output_size scales self_sym_sizes": "UpsampleLinear1D0",
    "align_corners output_size scales_d scales_h scales_w self_sym_sizes": "UpsampleTrilinear3D0",
    "align_corners output_size scales_h scales_w self_sym_sizes": (
        "UpsampleBicubic2D0 UpsampleBilinear2DAa0 UpsampleBilinear2D0"
    ),
    "align_corners size": "AffineGridGenerator0",
    "alpha": "Add0 Celu0 Celu1 Rsub0 Rsub1 Sub0",
    "alpha batch1_sym_argsize_0 batch1_sym_argsize_1 batch2_sym_argsize_2 beta": "Addbmm0",
    "alpha beta": "Addmv0 Addr0 Baddbmm0",
    "alpha beta mat1_sym_sizes mat1_sym_strides mat2_sym_sizes mat2_sym_strides": "Addmm0",
    "alpha dim source_dim": "IndexAdd0",
    "alpha input_scale scale": "Elu0 Elu1",
    "approximate": "Gelu0",
    "beta reduction": "SmoothL1Loss0",
    "beta threshold": "Softplus0",
    "bias_sym_sizes_opt dilation groups output_padding padding stride transposed": ("Convolution0 Convolution1"),
    "blank input_lengths target_lengths zero_infinity": "CtcLoss0",
    "blank zero_infinity": "CtcLoss1",
    "ceil_mode count_include_pad divisor_override kernel_size padding stride": ("AvgPool2D0 AvgPool3D0"),
    "ceil_mode dilation kernel_size padding stride": ("MaxPool2D0 MaxPool2DWithIndices0 MaxPool3DWithIndices0"),
    "correction dim keepdim": "Std0 StdMean0 Var0 VarMean0",
    "delta reduction": "HuberLoss0",
    "diagonal": "Tril0 Triu0",
    "dilation kernel_size padding self_sym_argsize_minus_1 self_sym_argsize_minus_2 stride": ("Im2Col0"),
    "dilation kernel_size padding stride": "Col2Im0",
    "dim": (
        "Cat0 Cummax0 Cummin0 Cumprod0 Cumsum0 Glu0 IndexFill0 IndexFill1 LinalgCross0 "
        "LogSoftmax0 Logcumsumexp0 SafeSoftmax0 ScatterAdd0 Scatter0 Scatter1 Softmax0 Stack0 "
        "Unbind0 Unsqueeze0 Unsqueeze1 WeightNormInterface0"
    ),
    "dim end self_sym_sizes start step": "Slice0",
    "dim end start step": "SliceScatter0",
    "dim forward normalization": "FftC2C0",
    "dim include_self reduce": "IndexReduce0 ScatterReduce0",
    "dim index": "SelectScatter0",
    "dim index self_sym_sizes": "Select0",
    "dim keepdim": "Amax0 Amin0 Aminmax0 Logsumexp0 Nansum0 Prod1",
    "dim keepdim ord": "LinalgVectorNorm0",
    "dim keepdim p": "Norm1 Norm3",
    "dim keepdim self_sym_numel self_sym_sizes": "Mean1",
    "dim keepdim self_sym_sizes": "Kthvalue0 Max0 Median1 Min0 Mode0 Nanmedian1 Sum1",
    "dim length self_sym_sizes start": "NarrowCopy0",
    "dim maxnorm p": "Renorm0",
    "dim normalization": "FftC2R0",
    "dim normalization onesided": "FftR2C0",
    "dim self_sym_sizes": "IndexSelect0 Sort0 Sort1 Squeeze1 Squeeze2 Squeeze4 Squeeze5 Topk0",
    "dim self_sym_sizes split_size": "Split0 UnsafeSplit0",
    "dim self_sym_sizes split_sizes": "SplitWithSizes0 UnsafeSplitWithSizes0",
    "dim source_dim": "IndexCopy0",
    "dim sparse_grad": "Gather0",
    "dim0 dim1": "Transpose0 Transpose1",
    "dim1 dim2 offset": "DiagEmbed0 DiagonalScatter0",
    "dim1 dim2 offset self_sym_sizes": "Diagonal0",
    "dimension self_sym_sizes size step": "Unfold0",
    "dims": "Flip0 Permute0",
    "dims k": "Rot900",
    "dims shifts": "Roll0",
    "downscale_factor": "PixelUnshuffle0",
    "eps": "BatchNormWithUpdate0 Logit0 NativeBatchNormLegitNoTraining0",
    "eps training": "NativeBatchNorm0 NativeBatchNormLegit0 NativeBatchNormLegit1",
    "expand1 expand2 expand3 sumdim": "Trilinear0",
    "exponent": "Pow0",
    "full_matrices S_sym_argsize_minus_1": "LinalgSvd0",
    "groups": "ChannelShuffle0",
    "ignore_index reduction": "NllLoss2D0 NllLoss0",
    "kernel_size output_size": "FractionalMaxPool2D0 FractionalMaxPool3D0",
    "lambd": "Hardshrink0 Softshrink0",
    "left": "LinalgSolveEx0",
    "left transpose": "Ormqr0",
    "left unitriangular upper": "LinalgSolveTriangular0",
    "margin p reduction": "MultiMarginLoss0",
    "mat2_sym_sizes mat2_sym_strides self_sym_sizes self_sym_strides": "Mm0",
    "lower training upper": "RreluWithNoise0 RreluWithNoise1",
    "max": "ClampMax0",
    "max min": "Clamp1",
    "max_val min_val": "Hardtanh0",
    "mean_sym_sizes": "Normal1",
    "mean_sym_sizes std_sym_sizes": "Normal3",
    "min": "ClampMin0",
    "mode": "LinalgQr0",
    "mode padding_idx scale_grad_by_freq sparse weight_sym_argsize_0": "EmbeddingBag0",
    "n": "Polygamma0 Polygamma1",
    "negative_slope": "LeakyRelu0 LeakyRelu1",
    "normalized_shape": "NativeLayerNorm0",
    "ord": "ForeachNorm0",
    "other": "Div1 Mul1 SpecialXlog1Py2 Xlogy2",
    "other rounding_mode": "Div3",
    "output_size scales self_sym_sizes": "UpsampleNearest1D0 UpsampleNearestExact1D0",
    "output_size scales_d scales_h scales_w self_sym_sizes": ("UpsampleNearest3D0 UpsampleNearestExact3D0"),
    "output_size scales_h scales_w self_sym_sizes": "UpsampleNearest2D0 UpsampleNearestExact2D0",
    "p": "Cdist0 Dist0 Mvlgamma0 NativeDropout0 Norm0 Norm2 Pdist0",
    "pad": "ConstantPadNd0 ConvTbc0",
    "padding": (
        "ReflectionPad1D0 ReflectionPad2D0 ReflectionPad3D0 ReplicationPad1D0 ReplicationPad2D0 ReplicationPad3D0"
    ),
    "padding_idx scale_grad_by_freq sparse weight_sym_argsize_0": "Embedding0",
    "pivot": "LinalgLu0 LinalgLuFactorEx0",
    "reduction": ("BinaryCrossEntropy0 BinaryCrossEntropyWithLogits0 MseLoss0 MultilabelMarginLoss0 SoftMarginLoss0"),
    "repeats self_sym_sizes": "Repeat0",
    "rounding_mode": "Div2",
    "self": "Pow2 SpecialXlog1Py1 SpecialZeta1 Xlogy1",
    "self_sym_numel self_sym_sizes": "Mean0",
    "self_sym_sizes": (
        "Expand0 Index0 ReshapeAlias0 Squeeze0 Squeeze3 Sum0 Trace0 UnsafeMaskedIndex0 UnsafeView0 View0"
    ),
    "size storage_offset stride": "AsStrided0 AsStrided1 AsStridedScatter0",
    "source_sym_sizes": "MaskedScatter0",
    "std_sym_sizes": "Normal2",
    "threshold": "Threshold0 Threshold1",
    "transpose unitriangular upper": "TriangularSolve0",
    "upper": "Cholesky0 CholeskyInverse0 CholeskySolve0 LinalgCholeskyEx0",
    "upscale_factor": "PixelShuffle0",
    "value": "Addcdiv0 Addcmul0",
    "weight": "Lerp0",
}
_TENSORS = {
    "A LU pivots result": "LinalgDet0 LinalgSolveEx0",
    "A LU pivots sign": "LinalgSlogdet0",
    "A self solution": "TriangularSolve0",
    "L": "LinalgCholeskyEx0",
    "L P U": "LinalgLu0",
    "LU pivots": "LinalgLuFactorEx0",
    "LU pivots result": "LinalgLuSolve0",
    "Q R": "LinalgQr0",
    "S U Vh": "LinalgSvd0",
    "b self solution": "LinalgLstsq0",
    "batch1 batch2": "Addbmm0 Baddbmm0",
    "bias input weight result1 result2": "NativeLayerNorm0",
    "bias self weight": "ConvTbc0",
    "condition": "Where0",
    "eigenvalues eigenvectors": "LinalgEig0 LinalgEigh0",
    "end self weight": "Lerp1",
    "exponent": "Frexp0",
    "exponent result": "Pow2",
    "exponent self result": "Pow1",
    "g v result1": "WeightNormInterface0",
    "grid input": "GridSampler2D0 GridSampler2DCpuFallback0 GridSampler3D0",
    "i1 i2 i3": "Trilinear0",
    "imag real": "Complex0",
    "index": "IndexFill0 IndexFill1 IndexSelect0 ScatterAdd0 Scatter0 Scatter1",
    "index self": "Gather0 Take0",
    "index self source result": "IndexReduce0",
    "index self src result": "ScatterReduce0",
    "index source": "IndexAdd0 IndexCopy0 Put0",
    "indices": (
        "Embedding0 Index0 IndexPut0 IndexPutImpl0 Kthvalue0 Max0 MaxUnpool2D0 MaxUnpool3D0 "
        "Median1 Min0 Mode0 Nanmedian1 Sort0 Sort1 Topk0"
    ),
    "indices mask": "UnsafeMaskedIndex0 UnsafeMaskedIndexPutAccumulate0",
    "indices offsets per_sample_weights weight result1 result2 result3": "EmbeddingBag0",
    "input running_mean running_var weight result1 result2": (
        "NativeBatchNorm0 NativeBatchNormLegit0 NativeBatchNormLegitNoTraining0"
    ),
    "input running_mean running_var weight result1 result2 result3": "BatchNormWithUpdate0",
    "input tau result": "LinalgHouseholderProduct0",
    "input weight": "Convolution0 Convolution1 Linear0",
    "input weight result1 result2": "NativeBatchNormLegit1 NativeGroupNorm0",
    "input2 input3 self result": "Ormqr0",
    "input2 self result": "CholeskySolve0",
    "input_lengths log_probs target_lengths targets result0 result1": "CtcLoss1",
    "inverse": "LinalgInvEx0",
    "log_probs targets result0 result1": "CtcLoss0",
    "mask": "MaskedFill0 MaskedFill1 MaskedScatter0",
    "mask self": "MaskedSelect0",
    "mat vec": "Addmv0",
    "mat1 mat2": "Addmm0",
    "mat2 self": "Bmm0 ForeachMm0 Mm0",
    "max min self": "Clamp0",
    "max self": "ClampMax1",
    "min self": "ClampMin1",
    "other": "SpecialXlog1Py1 SpecialZeta1 Xlogy1",
    "other result": "Ldexp0",
    "other self": (
        "Atan20 Div0 Div2 Fmax0 Fmin0 Fmod1 Igamma0 Igammac0 LinalgCross0 Logaddexp20 "
        "Logaddexp0 Matmul0 Maximum0 Minimum0 Mul0 Nextafter0 Remainder1 SpecialXlog1Py0 "
        "SpecialZeta0 Vdot0 Xlogy0"
    ),
    "other self result": "Dist0 Hypot0",
    "pos_weight self target weight": "BinaryCrossEntropyWithLogits0",
    "result": (
        "Celu1 Cholesky0 Elu1 Exp20 Exp0 Expm10 LeakyRelu1 LogSoftmax0 Polar0 Reciprocal0 "
        "Relu0 Rsqrt0 SafeSoftmax0 Sigmoid0 Softmax0 SpecialNdtri0 Sqrt0 Tan0 Tanh0"
    ),
    "result1": "NativeDropout0",
    "self": (
        "Abs0 Acos0 Acosh0 AdaptiveAvgPool2D0 AdaptiveAvgPool3D0 Angle0 Asin0 Asinh0 Atan0 "
        "Atanh0 AvgPool2D0 AvgPool3D0 Celu0 Clamp1 ClampMax0 ClampMin0 Cos0 Cosh0 Digamma0 "
        "Elu0 Erf0 Erfc0 Erfinv0 FftR2C0 Gelu0 Glu0 Hardshrink0 Hardsigmoid0 Hardswish0 "
        "Hardtanh0 I00 LeakyRelu0 Lgamma0 LinalgMatrixExp0 Log100 Log1P0 Log20 Log0 Logit0 "
        "MaxPool2D0 Mish0 Mvlgamma0 NanToNum0 Nansum0 Polygamma0 Polygamma1 Pow0 "
        "ReflectionPad1D0 ReflectionPad2D0 ReflectionPad3D0 Renorm0 ReplicationPad1D0 "
        "ReplicationPad2D0 ReplicationPad3D0 Silu0 Sin0 Sinc0 Sinh0 Softplus0 Softshrink0 "
        "SpecialEntr0 SpecialXlog1Py2 Threshold0 Threshold1 ToDense0 ToPaddedTensor0 Values0 "
        "Var0 VarMean0 Xlogy2"
    ),
    "self buffer": "LogSigmoid0",
    "self indices": "Cummax0 Cummin0",
    "self max min": "Aminmax0",
    "self result": (
        "Amax0 Amin0 CholeskyInverse0 Copysign0 Copysign1 Cumprod0 ForeachNorm0 LinalgPinv0 "
        "LinalgSolveTriangular0 LinalgVectorNorm0 Logcumsumexp0 Logsumexp0 Max1 Median0 Min1 "
        "Nanmedian0 Norm0 Norm1 Norm2 Norm3 Pdist0 Prod0 Prod1 Sgn0 SpecialErfcx0 SpecialI0E0 "
        "SpecialI10 SpecialI1E0 SpecialLogNdtr0 StandardGamma0 Std0"
    ),
    "self result0": "StdMean0",
    "self result1": (
        "AdaptiveMaxPool2D0 AdaptiveMaxPool3D0 FractionalMaxPool2D0 FractionalMaxPool3D0 "
        "MaxPool2DWithIndices0 MaxPool3DWithIndices0"
    ),
    "self target": "HuberLoss0 MseLoss0 SmoothL1Loss0 SoftMarginLoss0",
    "self target is_target": "MultilabelMarginLoss0",
    "self target weight": "BinaryCrossEntropy0 MultiMarginLoss0",
    "self target weight total_weight": "NllLoss2D0 NllLoss0",
    "self tensor": "Dot0",
    "self vec": "Mv0",
    "self weight": "PreluKernel0",
    "tensor1 tensor2": "Addcdiv0 Addcmul0",
    "vec1 vec2": "Addr0",
    "x1 x2 result": "Cdist0 EuclideanDist0",
}


def _by_node(rows: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {
        f"{node[:-1]}Backward{node[-1]}": tuple(names.split())
        for names, nodes in rows.items()
        for node in nodes.split()
    }


SAVED_NUMBERS = _by_node(_NUMBERS)
"""Arguments that are no tensors, and sizes of tensors."""
SAVED_TENSORS = _by_node(_TENSORS)
"""Tensors: arguments and results."""
