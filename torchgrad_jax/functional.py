"""torch.functional: functions that torch itself has written in Python, all of them in torch too."""

from __future__ import annotations

from ._core.errors.messages import missing as _missing
from ._engine.entry.bind import NAMESPACES as _NAMESPACES
from ._engine.entry.published import FUNCTIONAL as _NAMES

_ELSEWHERE = ("istft", "pca_lowrank", "svd_lowrank")
globals().update({n: _NAMESPACES[""][n] for n in _NAMES})
for _n in _NAMES:
    if _n not in _ELSEWHERE:
        _NAMESPACES[""][_n].__module__ = __name__  # by which they are known, in generated code too
__all__ = list(_NAMES)  # type: ignore[reportUnsupportedDunderAll]

__getattr__ = _missing(__name__)
