"""Through which precision the numbers of a program went: how close to torch's they have to be."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from torchgrad_jax.testing._tolerances import Tolerance, default

FORMATS = ("float64", "float32", "float16", "bfloat16")
"""From the finest to the coarsest; a value is judged like the coarsest that it went through."""
_OF_DTYPE = {"float32": 1, "complex64": 1, "float16": 2, "complex32": 2, "chalf": 2, "half": 2, "bfloat16": 3}
_SPELLED = (
    re.compile(r"float32|float\(\)|full\(\(|arange\(\d\.|linspace|new_tensor|complex\(1j|\+ 1j|complex64"),
    re.compile(r"(?<!b)float16|half\(|complex32"),
    re.compile("bfloat16"),
)
CENTRED = re.compile(r"norm\(|softm|log_softmax|cosine|std|var|cov\(|logsumexp|cross_entropy|_loss")
"""Functions whose gradients add up to 0, but for rounding."""
NAME = re.compile(r"\bv\d+\b")


def spelled(line: str) -> int:
    """The coarsest format that the text of a line brings in."""
    return max((k + 1 for k, text in enumerate(_SPELLED) if text.search(line)), default=0)


def tolerance(array: np.ndarray, rank: int) -> Tolerance:
    """How close an array must come that went through the format with that rank."""
    own = _OF_DTYPE.get(array.dtype.name, 0)
    return default(array.dtype.name if own >= rank or array.dtype.kind in "biu" else FORMATS[rank])


class Precision:
    """What is known of each tensor of a program that runs line by line.

    The result of a line, and whatever it changes, is as coarse as the coarsest tensor it mentions. Gradients
    and what hooks log come from anywhere: the coarsest of the program counts.
    """

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self.lowest = 0
        self.cancels = False
        self.largest = 1.0
        self._values: dict[str, Any] = {}
        self._lines: list[str] = []

    def after(self, line: str, state: dict[str, Any] | None) -> None:
        """Take in a line, and what the tensors show after it, if anybody looked."""
        self._lines.append(line)
        self.cancels |= bool(CENTRED.search(line))
        self.lowest = max(self.lowest, spelled(line))
        if state is None:
            return
        tensors = {k: v for k, v in state.items() if isinstance(v, dict) and "dtype" in v}
        own = {k: _OF_DTYPE.get(v["dtype"], 0) for k, v in tensors.items()}
        self.lowest = max([self.lowest, *own.values()])
        for text in self._lines:
            named = set(NAME.findall(text))
            coarsest = max([spelled(text), *[self.of.get(n, 0) for n in named]])
            if ".grad" in text:
                coarsest = max(coarsest, self.lowest)
            for name, seen in tensors.items():
                group = {name, *[k for k, v in tensors.items() if _root(k, v) == _root(name, seen)]}
                known = name in self.of
                if group & named and (not known or len(self._lines) > 1 or self._changed(name, seen)):
                    self.of[name] = max(own[name], coarsest)
                elif known and self._changed(name, seen):
                    self.of[name] = self.lowest
        for name, rank in own.items():
            self.of[name] = max(self.of.get(name, self.lowest), rank)
        for name, seen in state.items():
            if isinstance(seen, dict) and str(seen.get("type")).startswith("is v"):
                self.of[name] = self.of.get(seen["type"][3:], self.lowest)
        self._values = {k: v["value"] for k, v in tensors.items()}
        for value in self._values.values():
            if isinstance(value, np.ndarray) and value.dtype.kind in "fc" and value.size:
                finite = np.abs(value[np.isfinite(value)])
                self.largest = max(self.largest, float(finite.max(initial=0)))
        self._lines = []

    def tolerance(self, array: np.ndarray, path: str) -> Tolerance:
        """How close an entry of a state must come.

        The gradients of functions that are centred (norms, softmax) add up to 0 but for rounding, which is measured
        by the largest number of the program where that is not in double precision.
        """
        found = tolerance(array, self.rank(path))
        if self.cancels and self.lowest and path.endswith("grad.value"):
            return Tolerance(found.rtol, found.atol * min(self.largest, 1e3))
        return found

    def rank(self, path: str) -> int:
        """That of an entry of a state."""
        name, _, rest = path.partition(".")
        return self.of.get(name, self.lowest) if rest == "value" else self.lowest

    def _changed(self, name: str, seen: dict[str, Any]) -> bool:
        before = self._values.get(name)
        if not isinstance(before, np.ndarray) or not isinstance(seen["value"], np.ndarray):
            return True
        return before.shape != seen["value"].shape or not np.array_equal(
            before, seen["value"], equal_nan=before.dtype.kind in "fc"
        )


def _root(name: str, seen: dict[str, Any]) -> str:
    return str(seen.get("shares") or name)
