"""Programs with what torch showed after each line, for machines without torch."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from ..answers import array_of, is_tensor, read, row_major, text_of, write
from ..libs import Lib, live_torch
from .programs import Outcome, Program, Session
from .search import program_of

FILE = Path(__file__).parent.parent / "recorded" / "fuzz.json"
PROGRAMS = 40
"""How many are recorded, from seed 0 on."""


def _usual(value: np.ndarray, gradient: bool) -> dict[str, Any]:
    """What most tensors with a value say of themselves; the file says what is otherwise."""
    strides = tuple(0 if n == 1 else stride for n, stride in zip(value.shape, row_major(value.shape)))
    facts = {
        "dtype": value.dtype.name,
        "shape": value.shape,
        "stride": strides if value.size else (),
        "requires_grad": False,
        "is_leaf": True,
    }
    return facts if gradient else facts | _OF_TENSORS


_OF_TENSORS: dict[str, Any] = {
    "type": "Tensor",
    "storage_offset": 0,
    "grad_fn": None,
    "output_nr": 0,
    "is_view": False,
    "base": None,
    "shares": None,
    "version": 0,
    "is_inference": False,
    "is_conj": False,
    "retains_grad": False,
    "grad": None,
}


def _written(seen: Any, name: str = "") -> Any:
    """What is seen as JSON: arrays as texts, and of a tensor what is unusual."""
    if isinstance(seen, np.ndarray):
        return text_of(seen)
    if isinstance(seen, list | tuple):
        return [_written(v) for v in seen]
    if not isinstance(seen, dict):
        return seen
    usual = _usual(seen["value"], name == "grad") if "value" in seen else {}
    return {k: _written(v, k) for k, v in seen.items() if k not in usual or v != usual[k]}


def _seen(row: Any, name: str = "") -> Any:
    """What was seen, from JSON."""
    if isinstance(row, str):
        return array_of(row) if is_tensor(row) else row
    if isinstance(row, list):
        return [_seen(v) for v in row]
    if not isinstance(row, dict):
        return row
    seen = {k: _seen(v, k) for k, v in row.items()}
    return _usual(seen["value"], name == "grad") | seen if "value" in seen else seen


def record(path: Path = FILE, count: int = PROGRAMS) -> None:
    """Make the programs and run them on torch."""
    rows = {}
    for seed in range(count):
        program = program_of(seed)
        about = {"functions": program.functions, "watched": program.watched, "lines": program.lines}
        rows[f"{seed:02}"] = {**about, "steps": [*_steps(program, live_torch())]}
    write(path, json.loads(json.dumps(rows)))


def _steps(program: Program, lib: Lib) -> Any:
    """Per line: the exception, and the entries of the state that are new, changed or gone."""
    session = Session(lib, program.functions)
    before: dict[str, str] = {}
    last = len(program.lines) - 1
    for i, line in enumerate(program.lines):
        error = session.run(line)
        step: dict[str, Any] = {"error": error} if error else {}
        if program.watched or i == last:
            state = session.state(i == last)
            texts = {k: json.dumps(v, default=lambda array: array.tobytes().hex()) for k, v in state.items()}
            step["changed"] = {k: _written(state[k]) for k, text in texts.items() if before.get(k) != text}
            step |= {"gone": gone} if (gone := sorted(set(before) - set(texts))) else {}
            before = texts
        yield step


@functools.cache
def load(path: Path = FILE) -> dict[int, tuple[Program, list[Outcome]]]:
    """Programs and outcomes by seed."""
    out = {}
    for seed, row in read(path).items():
        program = Program(tuple(row["lines"]), row["functions"], row["watched"])
        out[int(seed)] = (program, list(_outcomes(row["steps"])))
    return out


def _outcomes(steps: list[dict[str, Any]]) -> Any:
    state: dict[str, Any] = {}
    for step in steps:
        error = tuple(step["error"]) if "error" in step else None
        if "changed" not in step:
            yield Outcome(error, None)
            continue
        state = {k: v for k, v in {**state, **_seen(step["changed"])}.items() if k not in step.get("gone", ())}
        yield Outcome(error, state)
