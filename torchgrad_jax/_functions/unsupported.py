"""Entry points of layouts that are out of scope (docs/non_goals.md): they say so when called."""

from __future__ import annotations

from .._core.errors.absent import refusal
from .._core.errors.messages import UnsupportedLayoutError
from .._engine.entry.bind import METHODS, NAMESPACES

_SPARSE = "sparse layouts are out of scope; only torch.strided is supported"
_QUANTIZED = "quantized tensors are out of scope"
_NESTED = "nested and jagged tensors are out of scope"
_MKLDNN = "mkldnn tensors are out of scope; XLA chooses layouts itself"

FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor",
            "sparse_compressed_tensor", "smm", "spmm", "sspaddmm", "hspmm", "hsmm", "dsmm", "saddmm",
            "resize_as_sparse_", "indices_copy", "values_copy", "crow_indices_copy", "col_indices_copy",
            "ccol_indices_copy", "row_indices_copy",
        ),
        _SPARSE,
    ),
    **dict.fromkeys(
        (
            "quantize_per_tensor", "quantize_per_channel", "quantize_per_tensor_dynamic", "dequantize", "int_repr",
            "q_scale", "q_zero_point", "q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis",
            "empty_quantized",
            "fused_moving_avg_obs_fake_quant", "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine",
            "choose_qparams_optimized", "quantized_batch_norm",
            "quantized_max_pool1d", "quantized_max_pool2d", "quantized_max_pool3d", "quantized_gru",
            "quantized_lstm", "quantized_gru_cell", "quantized_lstm_cell", "quantized_rnn_relu_cell",
            "quantized_rnn_tanh_cell",
        ),
        _QUANTIZED,
    ),
    "_nested_view_from_buffer": _NESTED,
    "_scaled_mm": "products of float8 with scales are out of scope; multiply in bfloat16 and scale the result",
}  # fmt: skip
"""Functions of the top level, and why they are not there."""

TENSOR_METHODS: dict[str, str] = {
    **dict.fromkeys(
        (
            "to_sparse", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc",
            "coalesce", "is_coalesced", "indices", "values", "crow_indices", "col_indices", "ccol_indices",
            "row_indices", "sparse_mask", "sparse_resize_", "sparse_resize_and_clear_", "resize_as_sparse_", "smm",
            "sspaddmm", "_nnz", "_indices", "_values",
        ),
        _SPARSE,
    ),
    **dict.fromkeys(
        (
            "dequantize", "int_repr", "q_scale", "q_zero_point", "q_per_channel_scales",
            "q_per_channel_zero_points", "q_per_channel_axis", "qscheme",
        ),
        _QUANTIZED,
    ),
    "to_padded_tensor": _NESTED,
    "to_mkldnn": _MKLDNN,
}  # fmt: skip
"""Methods of tensors, and why they are not there."""

for _name, _why in FUNCTIONS.items():
    NAMESPACES[""].setdefault(_name, refusal(f"torch.{_name}", _why, UnsupportedLayoutError))
for _name, _why in TENSOR_METHODS.items():
    METHODS.setdefault(_name, refusal(f"Tensor.{_name}", _why, UnsupportedLayoutError))
