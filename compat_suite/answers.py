"""Files of recorded answers: JSON with an answer under each name, written so that a person can read a change of it.

A tensor is one text, `"float32[2,2] -.25 3*0"`: dtype, shape and the numbers in row-major order, each with as few
digits as comparisons of its dtype can tell apart; `3*0` stands for `0 0 0`. In a list `{"3 times": x}` stands for equal
elements one after another. What stands in other places of a file, too, has a name such as "#3fa9", which is a digest of
it, so that it stays the same when something else is recorded. A long text stands in pieces, `{"joined": [...]}`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from torchgrad_jax.testing._tolerances import TOLERANCES

from .case import dtype_of

WIDTH, LONG = 120, 300
"""Letters on a line, and of a text from which on it gets several of them."""
SHARED_FROM = 40
"""Letters of what is written once where it stands twice."""
ROUNDING = {dtype: min(t.rtol, t.atol) / 10 for dtype, t in TOLERANCES.items()}
"""How far a number may be from the one that stands for it, as a share of it, or of 1 if it is smaller: a tenth of what
comparisons allow."""
_TIMES = re.compile(r"(\d+) times")
_TENSOR = re.compile(r"(bool|(u?int|b?float|complex)\d+\w*)\[[\d,]*\]( |$)")

# --- numbers --------------------------------------------------------------------------------------


def shortest(value: float, within: float) -> float:
    """The number with the fewest digits that is so close to a value."""
    return float(_digits(value, within))


def _digits(value: float, within: float) -> str:
    texts = (f"{value:.{n}g}" for n in range(1, 18))
    text = next(t for t in texts if not math.isfinite(value) or abs(float(t) - value) <= within)
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def _word(value: bool | float | complex, rounding: float) -> str:
    if isinstance(value, bool):
        return "T" if value else "F"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, complex):
        real, imaginary = _word(value.real, rounding), _word(value.imag, rounding)
        return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    return _digits(value, rounding * max(abs(value), 1.0))


def tensor_text(dtype: str, shape: Sequence[int], values: Iterable[Any]) -> str:
    """A tensor as text; its numbers come in row-major order."""
    words = (_word(v, ROUNDING.get(dtype, 0.0)) for v in values)
    runs = ((word, len([*run])) for word, run in itertools.groupby(words))
    numbers = [f"{n}*{word}" if n > 2 else " ".join([word] * n) for word, n in runs]
    text = " ".join([f"{dtype}[{','.join(map(str, shape))}]", *numbers])
    assert is_tensor(text), f"this would not be read as a tensor: {text}"
    return text


def is_tensor(text: str) -> bool:
    """Whether a text is that of a tensor."""
    return _TENSOR.match(text) is not None


def tensor_of(text: str) -> tuple[str, tuple[int, ...], list[Any]]:
    """Dtype, shape and numbers of a tensor."""
    head, *words = text.split(" ")
    dtype, _, shape = head.removesuffix("]").partition("[")
    read = _READ.get(dtype.rstrip("0123456789"), float)
    values: list[Any] = []
    for word in words:
        count, _, value = word.rpartition("*")
        values += [read(value)] * int(count or 1)
    return dtype, tuple(int(n) for n in shape.split(",") if n), values


def text_of(array: np.ndarray) -> str:
    """An array as text."""
    return tensor_text(array.dtype.name, array.shape, array.reshape(-1).tolist())


def array_of(text: str) -> np.ndarray:
    """The array of a text."""
    dtype, shape, values = tensor_of(text)
    return np.array(values, dtype_of(dtype)).reshape(shape)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    return tuple(math.prod(max(n, 1) for n in shape[i + 1 :]) for i in range(len(shape)))


_READ = {"bool": "T".__eq__, "int": int, "uint": int, "complex": complex}

# --- files ----------------------------------------------------------------------------------------


def write(path: Path, answers: dict[str, Any]) -> None:
    """Write a file of answers, which are what JSON can hold."""
    texts = _Shared(answers).texts()
    lines = (f"{_compact(name)}: {_laid_out(value)}" for name, value in sorted(texts.items()))
    path.parent.mkdir(exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    assert _compact(read(path)) == _compact(dict(sorted(answers.items()))), f"{path} does not read as it was written"


def read(path: Path) -> dict[str, Any]:
    """The answers of a file by name."""
    rows = json.loads(path.read_text(encoding="utf-8"), object_hook=_joined)
    shared = {name: value for name, value in rows.items() if name.startswith("#")}

    def named(value: Any) -> Any:
        return shared.get(value, value) if isinstance(value, str) else value

    def whole(value: Any) -> Any:
        value = named(value)
        if isinstance(value, list):
            return [whole(v) for part in value for v in _repeated(named(part))]
        return {k: whole(v) for k, v in value.items()} if isinstance(value, dict) else value

    return {name: whole(value) for name, value in rows.items() if name not in shared}


def _repeated(part: Any) -> list[Any]:
    """The elements of a list that a part of its written form stands for."""
    (key, value), *others = part.items() if isinstance(part, dict) and part else (("", None),)
    count = _TIMES.fullmatch(key)
    return [value] * int(count[1]) if count and not others else [part]


def _with_repeats(value: Any) -> Any:
    """A value with one part for equal elements of a list that follow one another."""
    if isinstance(value, dict):
        return {k: _with_repeats(v) for k, v in value.items()}
    if not isinstance(value, list):
        return value
    out: list[Any] = []
    for text, run in itertools.groupby(map(_with_repeats, value), _compact):
        same = [*run]
        worth = len(same) > 1 and len(same) * len(text) >= SHARED_FROM
        out += [{f"{len(same)} times": same[0]}] if worth else same
    return out


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


class _Shared:
    """The answers of a file, with names in place of what stands there more than once."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = {name: _with_repeats(value) for name, value in answers.items()}
        self.count: Counter[str] = Counter()
        self.named: dict[str, Any] = {}
        self._count(self.answers.values())

    def texts(self) -> dict[str, Any]:
        """What is to be written: answers, and what they share."""
        rows = {name: self._put(value) for name, value in sorted(self.answers.items())}
        return rows | self.named

    def _count(self, values: Iterable[Any]) -> None:
        for value in values:
            if len(text := _compact(value)) >= SHARED_FROM:
                self.count[text] += 1
                if self.count[text] == 1:
                    self._count(_parts(value))

    def _put(self, value: Any) -> Any:
        text = _compact(value)
        if self.count[text] < 2:
            return self._within(value)
        digest = hashlib.sha256(text.encode()).hexdigest()
        inside = self._within(value)
        names = (f"#{digest[:n]}" for n in range(4, len(digest)))
        name = next(n for n in names if self.named.get(n, inside) == inside)
        self.named[name] = inside
        return name

    def _within(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._put(v) for v in value]
        return {k: self._put(v) for k, v in value.items()} if isinstance(value, dict) else value


def _parts(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()


def _laid_out(value: Any, depth: int = 1) -> str:
    """JSON whose lines are not much longer than WIDTH."""
    text = _compact(value)
    if len(text) <= WIDTH:
        return text
    if isinstance(value, str):
        pieces = [*_pieces(value)] if len(text) > LONG else [value]
        return _laid_out({"joined": pieces}, depth) if len(pieces) > 1 else text
    if isinstance(value, list):
        return f"[{_filled([_laid_out(v, depth + 1) for v in value], depth)}]"
    if isinstance(value, dict):
        items = [f"{_compact(k)}:{_laid_out(v, depth + 1)}" for k, v in sorted(value.items())]
        return f"{{{_filled(items, depth)}}}"
    return text


def _filled(items: list[str], depth: int) -> str:
    """The items in lines; what has lines of its own shares none with others."""
    lines: list[str] = []
    for item in items:
        if lines and "\n" not in lines[-1] + item and len(lines[-1]) + len(item) < WIDTH:
            lines[-1] += f",{item}"
        else:
            lines.append(item)
    return (",\n" + " " * depth).join(lines)


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces for one line each, which end where a word or a line does."""
    piece = ""
    for word in re.findall(r"[^ \n]*[ \n]?", text):
        if piece and (piece.endswith("\n") or len(piece) + len(word) > WIDTH - 10):
            yield piece
            piece = ""
        piece += word
    if piece:
        yield piece


def _joined(row: dict[str, Any]) -> Any:
    return "".join(row["joined"]) if [*row] == ["joined"] else row
