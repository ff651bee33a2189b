"""The core list: the operators that the suite has to cover, by the name of torch's own test table.

Aliases, reflected operators and `Tensor` methods stand under their own names.
"""

CORE_OPS: tuple[str, ...] = tuple(
    """
    add sub mul div floor_divide fmod remainder neg abs sign reciprocal square
    pow float_power sqrt rsqrt exp expm1 log log2 log10 log1p logaddexp xlogy
    sin cos tan asin acos atan atan2 sinh cosh tanh
    ceil floor round trunc clamp clamp_min clamp_max maximum minimum
    erf erfinv lgamma digamma sigmoid logit lerp addcmul addcdiv nan_to_num
    __radd__ __rmul__ __rsub__ __rdiv__ __rpow__ __rmatmul__
    real imag conj angle view_as_real view_as_complex
    eq ne lt le gt ge isclose allclose equal isnan isinf isfinite
    logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not
    sum mean prod std var std_mean var_mean amax amin max min argmax argmin all any
    logsumexp norm median count_nonzero linalg.norm linalg.vector_norm nansum
    cumsum cumprod cummax logcumsumexp diff
    matmul mm bmm mv dot addmm addbmm addmv addr baddbmm outer inner tensordot einsum kron
    linalg.multi_dot cdist
    view view_as reshape reshape_as flatten unflatten squeeze unsqueeze transpose t permute movedim
    T mT mH expand expand_as broadcast_to broadcast_tensors repeat tile repeat_interleave
    narrow select split split_with_sizes chunk unbind diagonal diag diag_embed
    cat stack hstack vstack flip roll tril triu as_strided unfold contiguous clone meshgrid trace to
    __getitem__ index_select index_add index_copy index_fill index_put gather scatter scatter_add
    scatter_reduce take take_along_dim masked_fill masked_select masked_scatter where nonzero
    select_scatter slice_scatter sort argsort topk kthvalue unique searchsorted bucketize bincount
    zeros_like ones_like full_like empty_like rand_like randn_like zeros ones full eye
    arange linspace empty randn randint new_zeros new_ones new_full
    bernoulli multinomial normal uniform float double long bool item zero_ fill
    nn.functional.relu nn.functional.relu6 nn.functional.leaky_relu nn.functional.elu
    nn.functional.selu nn.functional.gelu nn.functional.silu nn.functional.mish
    nn.functional.hardtanh nn.functional.hardswish nn.functional.hardsigmoid nn.functional.softplus
    nn.functional.logsigmoid nn.functional.prelu nn.functional.glu softmax log_softmax
    nn.functional.mse_loss nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.huber_loss
    nn.functional.cross_entropy nn.functional.nll_loss nn.functional.binary_cross_entropy
    nn.functional.binary_cross_entropy_with_logits nn.functional.kl_div
    nn.functional.cosine_embedding_loss nn.functional.triplet_margin_loss
    nn.functional.linear nn.functional.conv1d nn.functional.conv2d
    nn.functional.conv_transpose1d nn.functional.conv_transpose2d
    nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.avg_pool2d
    nn.functional.adaptive_avg_pool2d
    nn.functional.batch_norm nn.functional.layer_norm nn.functional.group_norm
    nn.functional.instance_norm nn.functional.rms_norm nn.functional.normalize
    nn.functional.cosine_similarity nn.functional.dropout nn.functional.embedding
    nn.functional.embedding_bag nn.functional.one_hot nn.functional.pad nn.functional.unfold
    nn.functional.pixel_shuffle nn.functional.interpolate nn.functional.grid_sample
    nn.functional.scaled_dot_product_attention
    linalg.inv linalg.solve linalg.solve_triangular linalg.det linalg.slogdet linalg.cholesky
    linalg.qr linalg.svd linalg.eigh linalg.pinv linalg.matrix_power linalg.lstsq matrix_exp
    fft.fft fft.ifft fft.rfft fft.irfft fft.fft2 fft.fftn
    """.split()  # noqa: SIM905 - a table, not a column
)
