"""The names that torch's dispatcher has for the rows and functions of this package, such as ``aten::add.Tensor``.

Profilers and selective checkpoints speak of operators by these names.
"""

from __future__ import annotations

_ROWS = {
    "squeeze": ("squeeze_all", "squeeze_dim", "squeeze_dims"), "split": ("split_size",),
    "unsafe_split": ("_unsafe_split",), "clone": ("clone_contiguous",), "_to_copy": ("_to_copy_contiguous",),
    "fill": ("fill_value", "fill_tensor", "fill_value_copy", "fill_tensor_copy"),
    "block_diag": ("block_diag_list",), "pow": ("pow_const", "pow_tensor", "pow_base"),
    "mul": ("mul_number",), "sub": ("sub_number",), "add": ("add_number",),
    "div": ("div_number", "div_mode", "true_divide"),
    "isin": ("isin_tensor",), "_prelu_kernel": ("prelu_kernel",), "elu": ("elu_inplace",),
    "celu": ("celu_inplace",), "leaky_relu": ("leaky_relu_inplace",), "threshold": ("threshold_inplace",),
    "rrelu_with_noise": ("rrelu_with_noise_inplace",), "std": ("std_correction",), "var": ("var_correction",),
    "std_mean": ("std_mean_correction",), "var_mean": ("var_mean_correction",), "max": ("max_full", "max_dim"),
    "min": ("min_full", "min_dim"), "median": ("median_full", "median_dim"),
    "nanmedian": ("nanmedian_full", "nanmedian_dim"),
    "histogram": ("histogram_bin_ct", "histogram_bins_tensor"), "bincount": ("bincount_sized",),
    "_unique": ("_unique_at",), "_unique2": ("_unique2_at",),
    "unique_dim": ("unique_dim_at",), "unique_consecutive": ("unique_consecutive_at",),
    "scatter": ("scatter_src", "scatter_value"), "masked_select": ("masked_select_at",),
    "one_hot": ("one_hot_sized",), "squeeze_": ("squeeze_matmul",), "linalg_cholesky_ex": ("_cholesky_factor",),
    "fractional_max_pool2d": ("fractional_max_pool2d_rows",), "fractional_max_pool3d": ("fractional_max_pool3d_rows",),
    "max_unpool2d": ("max_unpool2d_rows",), "max_unpool3d": ("max_unpool3d_rows",),
    "native_batch_norm": ("_native_batch_norm",), "native_layer_norm": ("_native_layer_norm",),
    "native_dropout": ("_native_dropout",),
    "_scaled_dot_product_flash_attention_for_cpu": ("_flash_attention_rows",),
}  # fmt: skip
_NAMES = {row: name for name, rows in _ROWS.items() for row in rows}

_COMPOSITES = {
    "cross_entropy": "cross_entropy_loss",
    "logsigmoid": "log_sigmoid",
    "affine_grid": "affine_grid_generator",
    "fold": "col2im",
    "grid_sample": "grid_sampler",
    "tensor": "lift_fresh",
    **dict.fromkeys(
        ("bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "double", "float", "half", "int", "long", "short"),
        "to",
    ),
}
# These are Python code in torch, too. The operators that they call have names, and they have none.
_PYTHON_ONLY = frozenset({
    "__invert__", "__ipow__", "__pos__", "__pow__", "__rdiv__", "__rfloordiv__", "__rlshift__", "__rmod__", "__rpow__",
    "__rrshift__", "__rtruediv__", "apply_", "are_deterministic_algorithms_enabled", "as_tensor", "asarray",
    "can_cast", "dropout1d", "dropout2d", "dropout3d", "from_dlpack", "from_numpy", "frombuffer", "gaussian_nll_loss",
    "get_default_device", "get_default_dtype", "get_rng_state", "gumbel_softmax", "initial_seed", "interpolate",
    "is_complex", "is_deterministic_algorithms_warn_only_enabled", "is_floating_point", "is_signed", "is_storage",
    "is_tensor", "is_warn_always_enabled", "local_response_norm", "lp_pool1d", "lp_pool2d", "lp_pool3d", "lu",
    "manual_seed", "map2_", "map_", "max_unpool1d", "multi_head_attention_forward", "multilabel_soft_margin_loss",
    "new", "new_tensor", "normalize", "numel", "promote_types", "result_type", "seed", "set_default_device",
    "set_default_dtype", "set_default_tensor_type", "set_printoptions", "set_rng_state", "set_warn_always",
    "softmin", "softsign", "tanhshrink", "to_dlpack", "triplet_margin_with_distance_loss", "type", "typename",
    "unique", "upsample", "upsample_bilinear", "upsample_nearest", "use_deterministic_algorithms",
})  # fmt: skip


# The overload of a call with tensors, where that is not the default one.
USUAL_OVERLOADS = {
    **dict.fromkeys(
        ("add", "sub", "mul", "div", "remainder", "fmod", "eq", "ne", "lt", "le", "gt", "ge", "index", "bitwise_and",
         "bitwise_or", "bitwise_xor", "slice"), "Tensor"),
    "pow": "Tensor_Scalar", "where": "self", "select": "int", "transpose": "int", "var": "correction",
    "std": "correction",
}  # fmt: skip


def usual_overload(name: str) -> str:
    """torch's name of a row or of its in-place form, with the overload that is usual: ``add_.Tensor``."""
    known = op_name(name)
    overload = USUAL_OVERLOADS.get(known.removesuffix("_"))
    return known if overload is None else f"{known}.{overload}"


def op_name(name: str) -> str:
    """torch's name of a row, or of its in-place form."""
    if name in _NAMES:
        return _NAMES[name]
    stem = name.removesuffix("_")
    return f"{_NAMES[stem]}_" if stem in _NAMES else name


_REFUSING = {
    "nll_loss": "nll_loss_forward",
    "nll_loss2d": "nll_loss2d_forward",
    "rrelu_with_noise_inplace": "rrelu_with_noise_",
    "fractional_max_pool2d_rows": "fractional_max_pool2d",
    "fractional_max_pool3d_rows": "fractional_max_pool3d",
}


def kernel_name(name: str) -> str:
    """torch's name of the kernel of a row in errors about arguments without a derivative."""
    return _REFUSING.get(name) or name.lstrip("_")


def composite_name(name: str) -> str | None:
    """torch's name of a function composed of others; None where torch's operators have none."""
    return None if name in _PYTHON_ONLY else _COMPOSITES.get(name, name)
