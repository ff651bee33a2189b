"""Results of torch, recorded by `record.py` for machines without it."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..answers import array_of, read, row_major, tensor_of, tensor_text, text_of
from ..case import BASE
from ..execute import TAKEN, Result, Seen
from ..jobs import Job

HOME = Path(__file__).parent.parent / "recorded"


class NotRecorded(LookupError):
    """A job without a recorded result."""


class RecordedTorch:
    """Looks results up by job id."""

    kind = "torch"
    attributes = True

    def __init__(self, home: Path = HOME) -> None:
        self.home = home
        version = json.loads((home / "about.json").read_text(encoding="utf-8"))["torch"]
        self.name = f"recorded torch {version}"

    @functools.cache  # noqa: B019 - one instance lives as long as the process
    def family(self, name: str) -> dict[str, Any]:
        """The results of one family."""
        return read(self.home / f"{name}.json")

    def result(self, job: Job) -> Result | None:
        """What torch showed."""
        if not recorded(job):
            return None
        row = self.family(job.case.family).get(job.id)
        if row is None and job.check == "refused":
            return TAKEN
        if row is None:
            raise NotRecorded(f"{job.id!r}: remake recorded/ with `python -m compat_suite record` (needs torch)")
        return decode(row, self.family(job.case.family).get(value_of(job), {}))


def recorded(job: Job) -> bool:
    """Whether there is an answer: the points in single precision are judged by live torch alone."""
    return not getattr(job.sample, "incoming", ()) or job.dtype == BASE


def value_of(job: Job) -> str:
    """The id of the job that has the results of a job's call and nothing else."""
    return replace(job, check="value").id


def encode(result: Result, value: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """A result as JSON; what is as it mostly is, or as the call's `value` job has it, goes without saying."""
    parts = [_encode(p, row_major(p.shape)) for p in result.parts]
    row = {
        "kind": None if result.kind == _kind(result.parts) else result.kind,
        "results": [_shortened(p, known) for p, known in zip_longest(parts, _tensors(value)[: len(parts)])],
        "gradients": [_encode(g, ()) for g in result.gradients],
        "saved": list(result.saved),
        "error": result.error and list(result.error),
    }
    return {k: v for k, v in row.items() if v not in (None, [])}


def decode(row: dict[str, Any], value: Mapping[str, Any] = MappingProxyType({})) -> Result:
    """The inverse of `encode`."""
    found = row.get("results", ())
    rows = (_lengthened(p, known) for p, known in zip_longest(found, _tensors(value)[: len(found)]))
    parts = tuple(_decode(p, laid_out=True) for p in rows)
    return Result(
        row.get("kind", _kind(parts)),
        parts,
        tuple(_decode(g, laid_out=False) for g in row.get("gradients", ())),
        tuple(row.get("saved", ())),
        (row["error"][0], row["error"][1]) if "error" in row else None,
    )


def _tensors(row: Mapping[str, Any]) -> list[str | None]:
    """The texts of the results of a row."""
    return [p if isinstance(p, str) else p.get("tensor") for p in row.get("results", ())]


def _shortened(part: Any, known: str | None) -> Any:
    if known is None:
        return part
    if isinstance(part, str):
        return _AS_IN_VALUE if part == known else part
    return part | {"tensor": _AS_IN_VALUE} if part.get("tensor") == known else part


def _lengthened(part: Any, known: str | None) -> Any:
    if isinstance(part, str):
        return known if part == _AS_IN_VALUE else part
    return part | {"tensor": known} if part.get("tensor") == _AS_IN_VALUE else part


_AS_IN_VALUE = "="
"""Stands for the tensor that the same call without derivatives has."""


def _kind(parts: tuple[Seen, ...]) -> str:
    return "one" if len(parts) == 1 else ""


def _encode(x: Seen, strides: tuple[int, ...]) -> Any:
    row = {
        "type": None if x.type == "Tensor" else x.type,
        "tensor": _tensor(x),
        "strides": None if x.stride == strides else list(x.stride),
        "grad_fn": x.grad_fn,
        "requires_grad": None if x.requires_grad == (x.grad_fn is not None) else x.requires_grad,
        "view": x.is_view or None,
        "text": x.text or None,
    }
    row = {k: v for k, v in row.items() if v is not None}
    return row["tensor"] if [*row] == ["tensor"] else row


def _tensor(x: Seen) -> str | None:
    if x.value is not None:
        return text_of(x.value)
    return f"{tensor_text(x.dtype, x.shape, ())} {_NOT_COMPARED}" if x.dtype else None


_NOT_COMPARED = "?"
"""Stands for numbers that are not compared."""


def _decode(row: Any, laid_out: bool) -> Seen:
    row = {"tensor": row} if isinstance(row, str) else row
    kind, text = row.get("type", "Tensor"), row.get("tensor", _NOT_COMPARED)
    known = text.removesuffix(_NOT_COMPARED).rstrip()
    dtype, shape, _ = tensor_of(known) if known else ("", (), [])
    return Seen(
        kind,
        dtype if kind == "Tensor" else "",
        shape,
        tuple(row.get("strides", row_major(shape) if laid_out else ())),
        row.get("requires_grad", "grad_fn" in row),
        row.get("grad_fn"),
        row.get("view", False),
        array_of(text) if text == known else None,
        row.get("text", ""),
    )
