"""torch.functional: functions that torch itself has written in Python, all of them in torch too."""

from __future__ import annotations

from ._core.errors.messages import missing as _missing
from ._engine.entry.bind import NAMESPACES as _NAMESPACES

_NAMES = (
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod",
    "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "pca_lowrank", "split", "stft",
    "svd_lowrank", "tensordot", "unique", "unique_consecutive", "unravel_index",
)  # fmt: skip
_ELSEWHERE = ("istft", "pca_lowrank", "svd_lowrank")
globals().update({n: _NAMESPACES[""][n] for n in _NAMES})
for _n in _NAMES:
    if _n not in _ELSEWHERE:
        _NAMESPACES[""][_n].__module__ = __name__  # by which they are known, in generated code too
__all__ = list(_NAMES)  # type: ignore[reportUnsupportedDunderAll]

__getattr__ = _missing(__name__)
