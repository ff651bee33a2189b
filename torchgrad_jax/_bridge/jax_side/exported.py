"""Programs of files that `interop.export` wrote, which may compute and nothing else."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import jax.export
import jax.numpy as jnp
import numpy as np
from jax.extend.mlir import ir

from ..._core.arrays import dtypes
from ..._core.files.archive import Archive
from .container_forms import is_form

# Custom calls that JAX guarantees to be stable and that are routines of numerical libraries or facts about placement.
# Those that run what the file brings along (kernels of Pallas, graphs of TensorFlow) are not among them.
_TARGETS = re.compile(
    r"lapack_[sdcz](potrf|geqrf|orgqr|ungqr|syevd|heevd|geev|gesdd|getrf|sytrd|hetrd|gehrd|gees|trsm|gtsv)_ffi"
    r"|(cusolver|hipsolver)_(getrf|geqrf|orgqr|potrf|syevd|gesvd|gesvdj|gesdd|sytrd)_ffi|cusparse_gtsv2_ffi"
    r"|(cu|hip)_lu_pivots_to_permutation|(cu|hip)_threefry2x32_ffi"
    r"|Sharding|SPMDFullToShardShape|SPMDShardToFullShape|annotate_device_placement|AllocateBuffer|shape_assertion"
    r"|Eigh|Qr|ProductOfElementaryHouseholderReflectors|LuDecomposition|ApproxTopK"
    r"|stablehlo\.dynamic_(approx_top_k|reduce_window|rng_bit_generator|top_k)"
)
_DIALECTS = {"builtin", "func", "stablehlo", "chlo", "sdy"}
_TALK = {"stablehlo.infeed", "stablehlo.outfeed", "stablehlo.send", "stablehlo.recv"}
_DTYPES = {d.np.name: d.np for d in dtypes.ALL}
_FACTS, _PROGRAM, _ARRAY = 16 << 20, 1 << 31, 1 << 46


def is_of_numpy(dtype: np.dtype) -> bool:
    """Whether NumPy itself knows a dtype, so that its files can say so; others are stored as unsigned integers."""
    return np.dtype(dtype.type).isbuiltin == 1  # copies of a dtype of NumPy say 0


def needs_flatbuffers(name: str) -> None:
    """Say what to install where JAX could not write or read its format of programs."""
    if importlib.util.find_spec("flatbuffers") is None:
        raise ModuleNotFoundError(
            f"{name}: JAX writes and reads exported programs with the package flatbuffers, which is not installed: "
            "pip install flatbuffers, or the extra torchgrad-jax[export]"
        )


def read_exported(file: Any) -> tuple[Any, list[Any], dict[str, Any], Any]:
    """Program, state, facts and the program of the gradients (or None) of a file, each checked.

    Raises:
        RuntimeError: the file is damaged, or its program does more than to compute.
    """
    archive = Archive(file, "load_exported")
    try:
        program = jax.export.deserialize(bytearray(archive.read("program", _PROGRAM)))
        check_program(program)
        gradient = None
        if "gradient" in archive.names():
            gradient = jax.export.deserialize(bytearray(archive.read("gradient", _PROGRAM)))
            check_program(gradient)
        facts = json.loads(archive.read("told.json", _FACTS))
        names = json.loads(archive.read("dtypes.json", _FACTS))
        _check_facts(program, facts, names)
        _check_forms(facts)
        if gradient is not None:
            _check_gradient(program, gradient, facts)
        state = [jnp.asarray(_array(archive.read(f"state/{i}.npy", _ARRAY), name)) for i, name in enumerate(names)]
        _check_state(program, state)
    except RuntimeError:
        raise
    except Exception as e:  # a damaged program raises anything
        raise RuntimeError(f"load_exported: the file is damaged ({type(e).__name__})") from e
    kept = ("shapes", "writes", "results", "form", "out", "key", "gradient")
    return program, state, {k: facts[k] for k in kept if k in facts}, gradient


# --- the program ----------------------------------------------------------------------------------


def check_program(program: Any) -> None:
    """Refuse a program that could run code of its own, and talk to anybody, by the name of what it does."""
    for _ in range(4):
        if program.ordered_effects or program.unordered_effects:
            raise RuntimeError("load_exported: the program has effects")
        for said in _refused(program.mlir_module()):
            raise RuntimeError(f"load_exported: the program has {said}, which it may not have")
        if not program.has_vjp():
            return
        program = program.vjp()
    raise RuntimeError("load_exported: the program has too many derivatives")


def _refused(text: str) -> Iterator[str]:
    """Yield what a module may not have."""
    from jax.interpreters.mlir import make_ir_context

    found: list[str] = []

    def look(op: Any) -> Any:
        name = op.operation.name
        if name == "stablehlo.custom_call":
            target = ir.StringAttr(op.operation.attributes["call_target_name"]).value
            if not _TARGETS.fullmatch(target):
                found.append(f"the custom call {target[:200]!r}")
        elif name.partition(".")[0] not in _DIALECTS or name in _TALK:
            found.append(f"the operation {name[:200]!r}")
        return ir.WalkResult.ADVANCE

    with make_ir_context():
        ir.Module.parse(text).operation.walk(look)
    yield from found


# --- what is said of it ---------------------------------------------------------------------------


def _is_natural(n: Any, below: float = math.inf) -> bool:
    return type(n) is int and 0 <= n < below


def _check_facts(program: Any, facts: Any, names: Any) -> None:
    inputs, outputs = len(program.in_avals), len(program.out_avals)
    shapes, writes, n = facts["shapes"], facts["writes"], facts["state"]
    right = (
        type(names) is list
        and all(type(name) is str and name in _DTYPES for name in names)
        and n == len(names)
        and n + len(shapes) == inputs
        and all(_is_natural(i, n) and _is_natural(k, outputs) for i, k in writes)
        and _is_natural(facts["results"], outputs + 1)
        and all(type(size) in (int, str) for s in shapes for size in s)
        and [tuple(map(str, s)) for s in shapes] == [tuple(map(str, a.shape)) for a in program.in_avals[n:]]
    )
    if not right:
        raise RuntimeError("load_exported: what the file says of its program is not so")
    for i, k in writes:
        if not _same(program.in_avals[i], program.out_avals[k]):
            raise RuntimeError("load_exported: the program writes another shape than its state has")


def _check_forms(facts: Any) -> None:
    form, key = facts["form"], facts["key"]
    both = type(form) is list and len(form) == 2 and form[0] == "tuple" and len(form[1]) == 2
    n = len(facts["shapes"]) - (key is not None)
    right = (
        both
        and form[1][0][0] == "list"
        and form[1][1][0] == "dict"
        and (key is None or type(key) is str)
        and is_form(form, n)
        and is_form(facts["out"], facts["results"])
    )
    if not right:
        raise RuntimeError("load_exported: what the file says of its arguments is not so")


def _check_gradient(program: Any, gradient: Any, facts: Any) -> None:
    about, n = facts["gradient"], facts["state"]
    shapes = program.in_avals[n:]
    right = (
        all(_is_natural(i, n) for i in about["state"])
        and all(_is_natural(k, facts["results"]) for k in about["results"])
        and all(_is_natural(i, len(shapes)) for i in about["wanted"])
    )
    if right:
        given = [*[program.in_avals[i] for i in about["state"]], *shapes]
        given += [program.out_avals[k] for k in about["results"]]
        right = _all_same(given, gradient.in_avals)
        right = right and _all_same([shapes[i] for i in about["wanted"]], gradient.out_avals)
    if not right:
        raise RuntimeError("load_exported: what the file says of its gradients is not so")


def _all_same(a: Any, b: Any) -> bool:
    shown = [[(tuple(map(str, x.shape)), x.dtype) for x in avals] for avals in (a, b)]
    return shown[0] == shown[1]


def _check_state(program: Any, state: list[Any]) -> None:
    if not all(map(_same, state, program.in_avals)):
        raise RuntimeError("load_exported: the state is not what the program reads")


def _same(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def _array(raw: bytes, name: str) -> np.ndarray:
    """An array of NumPy's file format, of which nothing is made before its size is known to be right."""
    file, kind = io.BytesIO(raw), _DTYPES[name]
    if np.lib.format.read_magic(file) != (1, 0):
        raise RuntimeError("load_exported: an array in an unknown format")
    shape, by_columns, stored = np.lib.format.read_array_header_1_0(file)
    size = len(raw) - file.tell()
    plain = stored.kind in "biufcV" and stored.fields is None and stored.subdtype is None
    if not plain or stored.itemsize != kind.itemsize or math.prod(shape) * kind.itemsize != size:
        raise RuntimeError("load_exported: an array has another size than it says")
    if stored != kind and (is_of_numpy(kind) or stored.kind not in "uV"):
        raise RuntimeError("load_exported: an array has another dtype than it says")
    flat = np.frombuffer(raw, kind, offset=file.tell())
    return flat.reshape(shape, order="F" if by_columns else "C")
