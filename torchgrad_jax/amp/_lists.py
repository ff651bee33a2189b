"""What autocast does to which function, by device; names without their namespaces."""

from __future__ import annotations

from typing import Any

_PRODUCTS = """
    linear matmul __matmul__ __rmatmul__ mm bmm addmm addbmm baddbmm chain_matmul multi_dot vecdot
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc prelu
    scaled_dot_product_attention rnn_tanh rnn_relu lstm rnn_tanh_cell rnn_relu_cell
"""
_LOSSES = """
    mse_loss l1_loss smooth_l1_loss huber_loss nll_loss cross_entropy kl_div binary_cross_entropy_with_logits
    cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss
    poisson_nll_loss soft_margin_loss triplet_margin_loss
"""
_FACTORISATIONS = """
    cholesky cholesky_ex eig eigh eigvals eigvalsh householder_product inv inv_ex inverse lstsq lu_factor matrix_rank
    pinv pinverse qr solve svd svdvals tensorinv tensorsolve cholesky_inverse cholesky_solve orgqr ormqr lu_solve
"""
_FOURIER = """
    fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft stft
"""

LOWER = {
    "cpu": frozenset(_PRODUCTS.split()),
    "cuda": frozenset((_PRODUCTS + " mv addmv addr gru gru_cell lstm_cell").split()),
}
"""In lower precision."""
AS_STATES = {"cpu": frozenset(("gru", "gru_cell", "lstm_cell")), "cuda": frozenset[str]()}
"""In the dtype of their states, which torch adds lower products to."""
FLOAT32 = {
    "cpu": frozenset(
        f"""{_LOSSES} {_FACTORISATIONS} {_FOURIER} binary_cross_entropy ctc_loss avg_pool3d grid_sample polar prod
        quantile nanquantile cdist trace view_as_complex renorm max_pool3d max_pool3d_with_indices adaptive_avg_pool3d
        adaptive_max_pool3d adaptive_max_pool3d_with_indices fractional_max_pool2d fractional_max_pool2d_with_indices
        fractional_max_pool3d fractional_max_pool3d_with_indices max_unpool2d max_unpool3d""".split()
    ),
    "cuda": frozenset(
        f"""{_LOSSES} __pow__ __rpow__ __rdiv__ acos asin cosh erfinv exp expm1 log log10 log2 log1p pow reciprocal
        rsqrt sinh tan softplus layer_norm group_norm norm nuclear_norm cosine_similarity cumprod cumsum dist pdist
        cdist renorm logsumexp prod softmax log_softmax softmin sum interpolate upsample""".split()
    ),
}
"""In float32."""
WIDEST = {
    "cpu": frozenset(("stack", "cat", "concat", "concatenate", "index_copy")),
    "cuda": frozenset(
        ("addcdiv", "addcmul", "atan2", "bilinear", "cat", "concat", "concatenate", "cross", "dot", "grid_sample",
         "index_put", "scatter_add", "stack", "vdot")
    ),
}  # fmt: skip
"""In the widest of the arguments' dtypes."""
REFUSED = {"cpu": frozenset[str](), "cuda": frozenset(("binary_cross_entropy",))}

for _table in (LOWER, AS_STATES, FLOAT32, WIDEST, REFUSED):
    _table["tpu"] = _table["cuda"]


def pads_in_float32(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> bool:
    """Return whether this call of `pad` runs in float32 on CPUs."""
    return mode == "replicate" or (mode == "reflect" and len(pad) <= 4)
