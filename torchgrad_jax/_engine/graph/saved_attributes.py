"""The attributes by which users look at what a node saved: `_saved_*` and `_raw_saved_*`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ..._core.arrays import dtypes
from ..._core.arrays.meta import Meta, meta
from ..._core.errors import messages as errors
from ..._ops.saved_names import SAVED_NUMBERS, SAVED_TENSORS
from ..memory.tensor import make
from .grad_plan import grad_plan
from .node import Node
from .record import needed_inputs
from .saved import SavedTensor, unpack_tensors

_NUMBERS = (int, float, complex)
_NONE: Any = object()
"""Stands for what a node does not know."""
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_UNGIVEN = {"alpha": 1, "beta": 1, "value": 1}
"""Factors that were not given."""
_PER_DIM = {"kernel_size", "stride", "padding", "dilation", "output_padding"}
"""Arguments for which one number stands for all dimensions."""


def _name_of(gp: Any, argname: str) -> str:
    """An argument's name as torch's formulas have it: mostly "self" for "input"."""
    plain = argname == "input" and "input" not in SAVED_TENSORS.get(gp.name, ())
    return "self" if plain else argname


def saved_map(gp: Any) -> dict[str, Any]:
    """Names of saved values and their positions in `node.saved`: for a list a tuple of them, None where it has None."""
    call = gp.plan.call
    out: dict[str, Any] = {}
    for pos, leaf in enumerate(gp.saved_in):
        label = call.argnames[leaf] if leaf < len(call.argnames) else f"arg{leaf}"
        stem, _, number = label.rpartition("_")
        if stem and number.isdigit():  # one entry of a list: torch shows the list under one name
            name = _name_of(gp, stem)
            before = out.get(name, ())
            out[name] = (*before, *[None] * (int(number) - len(before)), pos)
        else:
            out[_name_of(gp, label)] = pos
    n_in = len(gp.saved_in)
    for pos, k in enumerate(gp.saved_out):
        fields = getattr(call.result, "_fields", None)
        label = "result" if gp.plan.single else fields[k] if fields else f"result{k}"
        out[label] = n_in + pos
    return out


def saved_names(node: Any) -> list[str]:
    """The attributes of a node, as torch lists them."""
    gp = node.gp
    if not _shows(gp):
        return []
    known = saved_map(gp)
    numbers = [n for n in SAVED_NUMBERS.get(gp.name, ()) if n in known or _known(gp, n) is not _NONE]
    tensors = [n for n in known if n not in numbers and not _is_number(node, known[n])]
    tensors += [n for n in SAVED_TENSORS.get(gp.name, ()) if n not in known and _is_none(gp, n)]
    names = [f"_saved_{n}" for n in (*numbers, *tensors)]
    return [*names, *[f"_raw_saved_{n}" for n in tensors]]


def saved_attribute(node: Any, name: str) -> Any:
    """`node._saved_x` (a tensor or value) or `node._raw_saved_x` (a SavedTensor)."""
    gp = node.gp
    raw, label = name.startswith("_raw"), name.partition("saved_")[2]
    names = saved_map(gp) if _shows(gp) else {}
    if label in names and not (raw and _is_number(node, names[label])):
        return _raw(node, names[label]) if raw else _unpacked(node, names[label])
    if _shows(gp):
        if not raw and label in SAVED_NUMBERS.get(gp.name, ()):
            value = _known(gp, label)
            if value is not _NONE:
                return value
        if label in SAVED_TENSORS.get(gp.name, ()) and _is_none(gp, label):
            return SavedTensor._at(node, None) if raw else None
    raise AttributeError(f"'{type(node).__name__}' object has no attribute '{name}'")


def _shows(gp: Any) -> bool:
    """Return whether the nodes of a plan have such attributes; those around a write to a part have none."""
    return gp is not None and not gp.raises and gp.name != "CopySlices"


def _raw(node: Any, at: Any) -> Any:
    return tuple(SavedTensor._at(node, i) for i in at) if isinstance(at, tuple) else SavedTensor._at(node, at)


def _unpacked(node: Any, at: Any) -> Any:
    if node.saved is None:
        raise RuntimeError(errors.SECOND_BACKWARD)
    if isinstance(at, tuple):
        there = iter(unpack_tensors(node, at=tuple([i for i in at if i is not None])))
        return tuple([None if i is None else next(there) for i in at])
    needed = needed_inputs(node.gp, node.edges)
    if needed is not None and at < len(node.gp.saved_in) and node.gp.saved_in[at] not in needed:
        return None
    return _shown(node.gp, at, unpack_tensors(node, at=(at,))[0])


def _is_number(node: Any, at: Any) -> bool:
    """Return whether a saved value is a number to torch too; one that has an edge is a tensor there."""
    if isinstance(at, tuple):
        return False
    gp, saved = node.gp, node.saved
    return (
        saved is not None
        and isinstance(saved[at], _NUMBERS)
        and not (at < len(gp.saved_in) and gp.saved_in[at] in gp.edge_leaves)
    )


def _shown(gp: Any, at: int, value: Any) -> Any:
    """A saved value; a number that has an edge is one that torch turned into a tensor."""
    if isinstance(value, _NUMBERS) and at < len(gp.saved_in) and gp.saved_in[at] in gp.edge_leaves:
        wide = {float: dtypes.float64, complex: dtypes.complex128}
        dtype = wide.get(type(value)) or dtypes.of_python(type(value))
        return make(jnp.asarray(value, dtype.np), meta((), dtype, gp.plan.device))
    return _unsigned(value)


def _is_none(gp: Any, label: str) -> bool:
    """Return whether a tensor was not given, or would be saved if more of the arguments required a gradient."""
    keys, edges = _keys(gp), [gp.plan.keys[leaf] for leaf in gp.edge_leaves]
    if label in keys and not isinstance(keys[label], Meta):
        return True
    if any(not isinstance(k, Meta) and k is not None for k in edges):
        return label in keys  # a number that torch turned into a tensor, which requires no gradient
    every = sum(1 << leaf for leaf, k in zip(gp.edge_leaves, edges) if k is not None)
    return every != gp.mask and label in saved_map(grad_plan(gp.plan, every))


def _keys(gp: Any) -> dict[str, Any]:
    return {_name_of(gp, n): k for n, k in zip(gp.plan.call.argnames, gp.plan.keys)}


# --- what is no tensor ----------------------------------------------------------------------------


def _known(gp: Any, label: str) -> Any:
    """An argument that is no tensor, as torch shows it on a node."""
    statics, keys = gp.plan.call.statics, _keys(gp)
    arg, sym, what = label.partition("_sym_")
    if sym:
        leaf = next((i for i, n in enumerate(gp.plan.call.argnames) if _name_of(gp, n) == arg), 0)
        if arg not in keys and not (arg == "self" and len(keys) == 1):
            return _NONE
        return _of_tensor(gp.plan.keys[leaf], what, leaf in gp.inputs)
    if label == "end" and "length" in statics:
        return _NONE
    if label.endswith("_dim") and isinstance(keys.get(label[:-4]), Meta):
        return keys[label[:-4]].ndim
    if gp.name == "AsStridedBackward0" and label in ("size", "stride"):
        return gp.plan.outs[0].shape if label == "size" else gp.plan.outs[0].strides
    if label in statics:
        return _as_kept(gp.name, label, statics)
    if label in keys and keys[label] is None:
        return _UNGIVEN.get(label)
    return _NONE


def _of_tensor(m: Any, what: str, wanted: bool) -> Any:
    """Return what torch keeps of a tensor instead of the tensor."""
    if what == "sizes_opt":
        return m.shape if isinstance(m, Meta) else (0,)
    if not isinstance(m, Meta):
        return _NONE
    if what == "strides":
        return m.strides if wanted else ()  # only its own gradient is laid out like it
    if what.startswith("argsize_"):
        return m.shape[int(what[len("argsize_") :].replace("minus_", "-"))]
    return {"sizes": m.shape, "numel": m.numel}.get(what, _NONE)


def _as_kept(node: str, label: str, statics: dict[str, Any]) -> Any:
    """A static argument in the form in which torch's node keeps it."""
    value = statics[label]
    if label == "reduction":
        value = _REDUCTIONS.get(value, value)
    elif label == "correction" and value is None and statics.get("dim") is not None:
        value = 1
    elif label == "padding_idx" and value is None:
        value = -1
    elif label == "dim" and node in ("SqueezeBackward1", "SqueezeBackward4") and value:
        (value,) = value
    elif label in _PER_DIM and (n := {"2D": 2, "3D": 3}.get(_dims(node))):
        value = () if value is None else value * n if isinstance(value, tuple) and len(value) == 1 else value
    return _unsigned(value)


def _dims(node: str) -> str:
    return next((d for d in ("2D", "3D") if d in node), "")


def _unsigned(value: Any) -> Any:
    """torch shows integers as 64 bits without a sign: -1 is 2**64 - 1."""
    if isinstance(value, tuple | list):
        return tuple(_unsigned(v) for v in value)
    return value % 2**64 if type(value) is int else value


# --- on every node --------------------------------------------------------------------------------


def _getattr(node: Node, name: str) -> Any:
    if name.startswith(("_saved_", "_raw_saved_")):
        return saved_attribute(node, name)
    raise AttributeError(f"'{type(node).__name__}' object has no attribute '{name}'")


def _dir(node: Node) -> list[str]:
    return [*object.__dir__(node), *saved_names(node)]


Node.__getattr__ = _getattr
Node.__dir__ = _dir
