"""What a `DebugMode` wrote down: calls as text, numbers that stand for values, and two runs compared by them."""

from __future__ import annotations

import abc
import json
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from .._core.arrays import dtypes, tree
from .._engine.graph.record import no_grad
from .._engine.memory.tensor import Tensor
from .._engine.surface import METHODS, ops
from . import _pytree


class TensorIdTracker:
    """Gives tensors numbers, in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[Any, int]] = {}
        self.next_tensor_id = 0

    def _id(self, tensor: Tensor) -> int:
        known = self._numbers.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._numbers[id(tensor)] = weakref.ref(tensor), self.next_tensor_id
            self.next_tensor_id += 1
        return known[1]


@dataclass
class Style:
    """How tensors are written: which attributes are added, and whether they are numbered."""

    attributes: Sequence[str] = ()
    ids: TensorIdTracker | None = None

    def text(self, value: Any) -> str:
        """A value as text, with `t: f32[2, 3]` for a tensor."""
        return str(tree.map_leaves(self._leaf, value))

    def _leaf(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        number = "" if self.ids is None else f"${self.ids._id(x)}"
        more = ", ".join(f"{a}={getattr(x, a)}" for a in self.attributes if hasattr(x, a))
        kind = "ft" if getattr(x._m.device, "fake", False) else "t"
        return f"{kind}{number}: {x._m.dtype.abbr}{list(x._m.shape)}{f'{{{more}}}' if more else ''}"


@dataclass
class _DebugCall(abc.ABC):
    """One line of the log. `log` and `record` are what hooks gave; `log` is shown."""

    call_depth: int
    record: dict[str, Any] | None = field(default=None, kw_only=True)
    log: dict[str, Any] | None = field(default=None, kw_only=True)
    output_str: str | None = field(default=None, kw_only=True)
    stack_trace: str | None = field(default=None, kw_only=True)

    @abc.abstractmethod
    def name(self) -> str:
        """Return what was called."""

    @abc.abstractmethod
    def render(self, attributes: Sequence[str] = ()) -> str:
        """The line."""

    def __repr__(self) -> str:
        return self.render()


@dataclass(repr=False)
class _OpCall(_DebugCall):
    """A call of an operator or of a public function, or a node that ran in a backward pass."""

    op: str
    args_str: str
    kwargs_str: str = ""
    args: Any = field(default=None, kw_only=True)
    kwargs: Any = field(default=None, kw_only=True)

    def name(self) -> str:
        return self.op

    def __iter__(self) -> Iterator[Any]:
        given = (self.args_str, self.kwargs_str) if self.args is None else (self.args, self.kwargs)
        return iter((self.op, *given, self.call_depth))

    def render(self, attributes: Sequence[str] = ()) -> str:
        given = ", ".join(filter(None, (self.args_str, self.kwargs_str)))
        return f"{self.op}({given}){self.output_str or ''}" + (f"  # {self.log}" if self.log else "")


@dataclass(repr=False)
class _AnnotateCall(_DebugCall):
    """A label: that of a module, of a stretch of `record_function`, or of `DebugMode._annotate`."""

    tag: Any
    header: str = "annotate"

    def name(self) -> str:
        return str(self.tag)

    def render(self, attributes: Sequence[str] = ()) -> str:
        return f"[{self.header}] {self.tag}"


# --- numbers that stand for values ----------------------------------------------------------------


def norm_hash_fn(t: Tensor, use_scalar: bool = False) -> Any:
    """The sum of the absolute values, in float64."""
    with no_grad():
        wide = t.to(dtype=_wide(t))
        out = METHODS["sum"](METHODS["abs"](wide))
    return out.item() if use_scalar else out


def hash_tensor_fn(t: Tensor, use_scalar: bool = False) -> Any:
    """All bits of the values as one number, by exclusive or."""
    with no_grad():
        wide = t.to(dtype=_wide(t, integers=True))
        out = METHODS["hash_tensor"](_view_as_real(wide))
    return out.item() if use_scalar else out


def _wide(t: Tensor, integers: bool = False) -> Any:
    if t.is_complex():
        return dtypes.complex128
    return dtypes.float64 if t.is_floating_point() or not integers else dtypes.int64


def _view_as_real(t: Tensor) -> Tensor:
    return ops.view_as_real(t) if t.is_complex() else t


HASHES: dict[str, Callable[..., Any]] = {"norm": norm_hash_fn, "hash_tensor": hash_tensor_fn}


def hash_function(given: Any) -> Callable[[Tensor], Any]:
    """The function of tensors that an argument `hash_fn` says."""
    names = given if isinstance(given, list) else [given] if isinstance(given, str) else None
    if names is not None:
        for name in names:
            if name not in HASHES:
                raise AssertionError(f"hash_type must be 'norm' or 'hash_tensor', got {name!r}")
        if isinstance(given, str):
            return lambda t: HASHES[given](t, use_scalar=True)
        return lambda t: tuple(HASHES[name](t, use_scalar=True) for name in names)
    if callable(given):
        return given
    raise NotImplementedError(
        f"log_tensor_hashes() expected hash_fn to be callable, str, or list[str], but found {type(given)}"
    )


# --- two runs -------------------------------------------------------------------------------------


def check_hash_mismatches(logs1: list[Any], logs2: list[Any], compare_inputs: bool) -> list[dict[str, Any]]:
    """Where the hashes of two runs differ; see `DebugMode.check_hash_mismatches`."""
    if len(logs1) != len(logs2):
        raise ValueError(f"Log lengths don't match: {len(logs1)} vs {len(logs2)}")
    found: list[dict[str, Any]] = []
    for i, (a, b) in enumerate(zip(logs1, logs2)):
        kind = type(a).__name__
        for what, one, other in (
            ("Call types", kind, type(b).__name__),
            ("Operators", f"{kind}[{a.name()}]", f"{type(b).__name__}[{b.name()}]"),
            (f"Call depths for {kind}[{a.name()}]", a.call_depth, b.call_depth),
        ):
            if one != other:
                raise ValueError(f"{what} don't match at index {i}: {one} vs {other}")
        if isinstance(a, _OpCall):
            for key in ("hash", "input_hash")[: 2 if compare_inputs else 1]:
                found += _mismatches(a, b, key, i)
    return found


def _mismatches(a: _OpCall, b: _OpCall, key: str, index: int) -> list[dict[str, Any]]:
    there = [c.log is not None and key in c.log for c in (a, b)]
    if there[0] != there[1]:
        raise ValueError(
            f"{'Output' if key == 'hash' else 'Input'} hash presence inconsistent for {a.name()} at index {index}: "
            f"log1 has {key}={there[0]}, log2 has {key}={there[1]}"
        )
    if not there[0]:
        return []
    assert a.log is not None
    assert b.log is not None
    pairs = zip(_pytree.tree_leaves_with_path(a.log[key]), _pytree.tree_leaves_with_path(b.log[key]), strict=True)
    return [
        {
            "call_type": "torch op",
            "call": a.name(),
            "arg_name": None,
            "pytree_path": _pytree.keystr(path),
            "hash1": one,
            "hash2": other,
            "rel_diff": abs(one - other) / max(abs(one), abs(other), 1e-10),
            "is_input_hash": key == "input_hash",
        }
        for (path, one), (_, other) in pairs
        if one != other
    ]


# --- files ----------------------------------------------------------------------------------------

_FORMAT, _VERSION = "torch.utils._debug_mode.logs", 1
_KINDS: dict[str, type[_DebugCall]] = {"op": _OpCall, "annotate": _AnnotateCall}
_FIELDS = {
    "op": ("call_depth", "op", "args_str", "kwargs_str", "output_str", "log"),
    "annotate": ("call_depth", "tag", "header"),
}


def _plain(value: Any) -> Any:
    """Something as JSON has it, with tuples told apart from lists and dicts."""
    if isinstance(value, tuple):
        return {"tuple": [_plain(v) for v in value]}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {"dict": {str(k): _plain(v) for k, v in value.items()}}
    if isinstance(value, Tensor):
        return _plain(value.item() if value.numel() == 1 else value.tolist())
    if isinstance(value, float) and not abs(value) < float("inf"):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"DebugMode.save_logs: a log holds {value!r}, which has no place in JSON; hash_fn gives numbers")


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_plain(v) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "tuple":
        return tuple(_from_plain(v) for v in inner)
    return float(inner) if kind == "float" else {k: _from_plain(v) for k, v in inner.items()}


def save_logs(logs: Sequence[_DebugCall], destination: str | os.PathLike[str] | IO[str]) -> None:
    """Write logs; see `DebugMode.save_logs`."""
    lines = []
    for call in logs:
        kind = "op" if isinstance(call, _OpCall) else "annotate"
        lines.append({"kind": kind, **{name: _plain(getattr(call, name)) for name in _FIELDS[kind]}})
    text = json.dumps({"format": _FORMAT, "version": _VERSION, "logs": lines}, allow_nan=False) + "\n"
    if isinstance(destination, str | os.PathLike):
        with open(destination, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        destination.write(text)


def load_logs(source: str | os.PathLike[str] | IO[str]) -> list[_DebugCall]:
    """Read what `save_logs` wrote."""
    if isinstance(source, str | os.PathLike):
        with open(source, encoding="utf-8") as file:
            data = json.load(file)
    else:
        data = json.load(source)
    if not isinstance(data, dict) or data.get("format") != _FORMAT or data.get("version") != _VERSION:
        raise ValueError("DebugMode.load_logs: this is no log of DebugMode.save_logs, or one of another version")
    out = []
    for line in data["logs"]:
        given = {name: _from_plain(line[name]) for name in _FIELDS[line["kind"]]}
        out.append(_KINDS[line["kind"]](**given))
    return out
