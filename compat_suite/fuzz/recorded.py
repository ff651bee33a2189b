"""Programs with what torch showed after each line, for machines without torch."""

from __future__ import annotations

import base64
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from ..case import dtype_of
from ..libs import Lib, live_torch
from .programs import Outcome, Program, Session
from .search import program_of

FILE = Path(__file__).parent.parent / "recorded" / "fuzz.json"
PROGRAMS = 40
"""How many are recorded, from seed 0 on."""


_USUAL: dict[str, Any] = {
    "type": "Tensor",
    "storage_offset": 0,
    "grad_fn": None,
    "requires_grad": False,
    "is_leaf": True,
    "output_nr": 0,
    "is_view": False,
    "base": None,
    "shares": None,
    "version": 0,
    "is_inference": False,
    "is_conj": False,
    "retains_grad": False,
}
"""What most tensors say of themselves; the file says what is otherwise."""


def _unusual(seen: Any) -> Any:
    if not isinstance(seen, dict) or not {*_USUAL} <= {*seen}:
        return seen
    return {k: v for k, v in seen.items() if k not in _USUAL or v != _USUAL[k]}


def _whole(seen: Any) -> Any:
    return {**_USUAL, **seen} if isinstance(seen, dict) and "stride" in seen else seen


def record(path: Path = FILE, count: int = PROGRAMS) -> None:
    """Make the programs and run them on torch."""
    rows = []
    for seed in range(count):
        program = program_of(seed)
        steps = list(_steps(program, live_torch()))
        about = {"seed": seed, "functions": program.functions, "watched": program.watched, "lines": program.lines}
        rows.append(json.dumps({**about, "steps": steps}, separators=(",", ":"), default=_array))
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


def _steps(program: Program, lib: Lib) -> Any:
    """Per line: the exception, and the entries of the state that are new, changed or gone."""
    session = Session(lib, program.functions)
    before: dict[str, str] = {}
    last = len(program.lines) - 1
    for i, line in enumerate(program.lines):
        error = session.run(line)
        if not (program.watched or i == last):
            yield {"error": error} if error else {}
            continue
        state = session.state(i == last)
        texts = {k: json.dumps(v, default=_array) for k, v in state.items()}
        changed = {k: _unusual(state[k]) for k, text in texts.items() if before.get(k) != text}
        gone = sorted(set(before) - set(texts))
        before = texts
        yield {"error": error, "changed": changed, "gone": gone}


def _array(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return {
            "dtype": x.dtype.name,
            "shape": x.shape,
            "data": base64.b64encode(np.ascontiguousarray(x).tobytes()).decode(),
        }
    raise TypeError(f"not JSON: {type(x)}")


def _object(row: dict[str, Any]) -> Any:
    if set(row) == {"dtype", "shape", "data"}:
        data = base64.b64decode(row["data"])
        return np.frombuffer(data, dtype_of(row["dtype"])).reshape(row["shape"])
    return row


@functools.cache
def load(path: Path = FILE) -> dict[int, tuple[Program, list[Outcome]]]:
    """Programs and outcomes by seed."""
    rows = json.loads(path.read_text(encoding="utf-8"), object_hook=_object)
    out = {}
    for row in rows:
        program = Program(tuple(row["lines"]), row["functions"], row["watched"])
        out[row["seed"]] = (program, list(_outcomes(row["steps"])))
    return out


def _outcomes(steps: list[dict[str, Any]]) -> Any:
    state: dict[str, Any] = {}
    for step in steps:
        error = tuple(step["error"]) if step.get("error") else None
        if "changed" not in step:
            yield Outcome(error, None)
            continue
        changed = {k: _whole(v) for k, v in step["changed"].items()}
        state = {k: v for k, v in {**state, **changed}.items() if k not in step["gone"]}
        yield Outcome(error, state)
