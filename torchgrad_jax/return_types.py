"""torch.return_types: the named tuples that some functions return."""

from __future__ import annotations

from ._engine.entry.return_types import RETURN_TYPES, return_type

_OWN = ("_lu_with_info", "linalg_ldl_factor", "linalg_ldl_factor_ex")
for _name, _kind in list(RETURN_TYPES.items()):
    if _name not in _OWN and not _name.endswith("_out"):
        return_type(f"{_name}_out", _kind._fields)
globals().update(RETURN_TYPES)
__all__ = sorted(RETURN_TYPES)
