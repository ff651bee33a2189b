"""Which public functions are builtin functions, as torch's are, and which are functions of Python.

It shows where a class has one as an attribute: ``act = torch.relu`` does not bind `self`, and ``act = F.relu`` does.
torch's operators are builtin; what torch itself wrote in Python is not. Here that is one rule, which `publish` applies.
A module of this package that defines such a function, and calls it itself, calls the one of Python.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from ..._core.builtin_functions import builtin, parameters_text
from ..surface import NAMESPACES

FUNCTIONAL = (
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod",
    "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "pca_lowrank", "split", "stft",
    "svd_lowrank", "tensordot", "unique", "unique_consecutive", "unravel_index",
)  # fmt: skip
"""What is in `torch.functional`; all but `istft` is written in Python."""
_PYTHON = frozenset(FUNCTIONAL).difference(["istft"]).union([
    "_assert", "_check", "_check_index", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with",
    "_check_type", "_check_value", "_check_with", "are_deterministic_algorithms_enabled", "cond", "eig",
    "from_dlpack", "get_default_device", "get_rng_state", "initial_seed",
    "is_deterministic_algorithms_warn_only_enabled", "is_storage", "is_tensor", "is_warn_always_enabled", "lstsq",
    "manual_seed", "matrix_rank", "seed", "set_default_device", "set_default_dtype", "set_default_tensor_type",
    "set_printoptions", "set_rng_state", "set_warn_always", "solve", "sym_float", "sym_int", "sym_ite", "sym_max",
    "sym_min", "sym_not", "sym_sqrt", "sym_sum", "symeig", "typename", "use_deterministic_algorithms", "while_loop",
])  # fmt: skip
"""Functions of `torch` itself that are written in Python."""
_LAYERS = frozenset([
    "avg_pool2d", "avg_pool3d", "celu_", "cosine_similarity", "elu_", "gelu", "hardshrink", "hardtanh_",
    "leaky_relu_", "linear", "logsigmoid", "one_hot", "pairwise_distance", "prelu", "rrelu_",
    "scaled_dot_product_attention", "selu_", "softplus", "softshrink", "threshold_",
])  # fmt: skip
"""Functions of `torch.nn.functional` that are builtin, beside those that `torch` has, too."""


def is_builtin(namespace: str, name: str) -> bool:
    """Return whether a function of `NAMESPACES` is a builtin function in torch."""
    if namespace == "nn.functional":
        top = NAMESPACES[""]
        return name in _LAYERS or (name in top and top[name] is NAMESPACES[namespace][name])
    return namespace in ("fft", "linalg", "special") or (not namespace and name not in _PYTHON)


def publish() -> None:
    """Put builtin functions into `NAMESPACES`, once all functions are there."""
    chosen = {space: [n for n in names if is_builtin(space, n)] for space, names in NAMESPACES.items()}
    for space, names in chosen.items():
        for name in names:
            fn = NAMESPACES[space][name]
            if isinstance(fn, FunctionType):
                NAMESPACES[space][name] = builtin(fn, _parameters(fn))


def _parameters(fn: Any) -> str | None:
    """Return the parameters of a function that was made from a row, whose own say nothing."""
    binding = getattr(fn, "binding", None)
    if binding is None:
        return None
    positional = [(p.name, p.default) for p in binding.params if not p.kwonly]
    named = [(p.name, p.default) for p in binding.params if p.kwonly]
    return parameters_text(positional, [*named, ("out", None)] if binding.row.out else named)
