"""Results of torch, recorded by `record.py` for machines without it."""

from __future__ import annotations

import base64
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from ..case import dtype_of
from ..execute import Result, Seen
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
        return json.loads((self.home / f"{name}.json").read_text(encoding="utf-8"))

    def result(self, job: Job) -> Result:
        """What torch showed."""
        row = self.family(job.case.family).get(job.id)
        if row is None:
            raise NotRecorded(f"{job.id!r}: remake recorded/ with `python -m compat_suite record` (needs torch)")
        return decode(row)


def encode(result: Result) -> dict[str, Any]:
    """A result as JSON; what is empty is left out."""
    row = {
        "kind": result.kind,
        "parts": [_encode(p) for p in result.parts],
        "grads": [_encode(g) for g in result.gradients],
        "saved": list(result.saved),
        "error": list(result.error) if result.error else None,
    }
    return {k: v for k, v in row.items() if v}


def decode(row: dict[str, Any]) -> Result:
    """The inverse of `encode`."""
    error = row.get("error")
    return Result(
        row.get("kind", ""),
        tuple(map(_decode, row.get("parts", ()))),
        tuple(map(_decode, row.get("grads", ()))),
        tuple(row.get("saved", ())),
        (error[0], error[1]) if error else None,
    )


def _encode(x: Seen) -> dict[str, Any]:
    row: dict[str, Any] = {
        "t": "" if x.type == "Tensor" else x.type,
        "d": x.dtype,
        "s": list(x.shape),
        "st": list(x.stride),
        "rg": x.requires_grad,
        "fn": x.grad_fn,
        "vw": x.is_view,
        "tx": x.text,
    }
    row = {k: v for k, v in row.items() if v}
    if x.value is not None:
        row["v"] = base64.b64encode(np.ascontiguousarray(x.value).tobytes()).decode()
        if x.value.dtype.name != x.dtype:
            row["vd"] = x.value.dtype.name
    return row


def _decode(row: dict[str, Any]) -> Seen:
    value = None
    if "v" in row:
        dtype = dtype_of(row.get("vd", row.get("d", "")))
        value = np.frombuffer(base64.b64decode(row["v"]), dtype).reshape(row.get("s", ()))
    return Seen(
        row.get("t", "Tensor"),
        row.get("d", ""),
        tuple(row.get("s", ())),
        tuple(row.get("st", ())),
        row.get("rg", False),
        row.get("fn"),
        row.get("vw", False),
        value,
        row.get("tx", ""),
    )
