"""Steps that need no code: the value that they give is there already.

`x * 1`, `x - 0` and a choice that always falls on `x` are `x`, and a step with the operands of an earlier one is that
one. Steps that no result depends on are left out. Nothing here changes a bit of a result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .sized import No


def unchanged(eqn: Any, known: list[Any]) -> int | None:
    """Which operand a step gives back as it is; `known` has the values of those that are the same in each call."""
    if len(eqn.outvars) != 1:
        return None
    at = _given_back(eqn, known)
    if at is None:
        return None
    old, new = eqn.invars[at].aval, eqn.outvars[0].aval
    return at if (old.shape, old.dtype) == (new.shape, new.dtype) else None


def _given_back(eqn: Any, known: list[Any]) -> int | None:
    name = eqn.primitive.name
    if name in _PASSING or (name == "reshape" and eqn.params.get("dimensions") is None):
        return 0
    if name == "transpose" and tuple(eqn.params["permutation"]) == (*range(len(eqn.params["permutation"])),):
        return 0
    if name == "select_n" and len(known) == 3 and known[0] is not None and known[0].dtype == np.bool_:
        return 2 if known[0].all() else 1 if not known[0].any() else None
    neutral = _NEUTRAL.get(name)
    if neutral is None or eqn.outvars[0].aval.dtype.kind not in ("iu" if name in ("add", "add_any") else "iuf"):
        return None
    if len(known) == 2 and _is_all(known[1], neutral):
        return 0
    return 1 if name in ("mul", "add", "add_any") and _is_all(known[0], neutral) else None


_PASSING = ("convert_element_type", "squeeze", "copy", "stop_gradient", "stop_cotangent", "unsplit")
_NEUTRAL = {"mul": 1, "div": 1, "divide": 1, "sub": 0, "add": 0, "add_any": 0}
"""What leaves the other operand as it is. In floating point `-0.0 + 0` is 0, so that a sum is left alone."""


def _is_all(value: Any, number: int) -> bool:
    return value is not None and value.size > 0 and not np.signbit(value).any() and bool((value == number).all())


def key_of(eqn: Any, ins: list[str]) -> Any:
    """Return what tells a step from others, or None where that can't be said."""
    params = tuple(eqn.params.items())
    try:
        hash(params)
    except TypeError:
        return None
    # Equal numbers may be different: -0.0 and 0.0, or 1 and True.
    return eqn.primitive.name, tuple(ins), params, repr(params), tuple([str(v.aval) for v in eqn.invars])


def needed(jaxpr: Any) -> list[Any]:
    """Return the steps that the results depend on; `No` where a step does more than to give results."""
    wanted = {v for v in jaxpr.outvars if not hasattr(v, "val")}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects:
            raise No
        if not wanted.isdisjoint(eqn.outvars):
            kept.append(eqn)
            wanted.update(v for v in eqn.invars if not hasattr(v, "val"))
    return kept[::-1]
