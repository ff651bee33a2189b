"""Which names torch has for the operators of the cases: functions, methods, in-place forms, Python operators."""

from __future__ import annotations

from pathlib import Path

from .answers import read
from .cases import COVERED
from .libs import Lib

FILE = Path(__file__).parent / "recorded" / "surface.json"
OPERATORS = tuple(
    f"Tensor.__{name}__"
    for name in """
    add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv floordiv rfloordiv
    ifloordiv mod rmod imod pow rpow ipow matmul rmatmul neg pos abs invert and rand iand or ror
    ior xor rxor ixor lshift rshift eq ne lt le gt ge getitem setitem len iter contains bool int
    float complex index array reversed deepcopy format
    """.split()  # noqa: SIM905 - a table, not a column
)


REMOVED = ("Tensor.solve", "Tensor.lstsq")
"""Names that torch keeps only to raise that they are gone."""


def candidates(core: str) -> list[str]:
    """The names under which an operator may stand."""
    name = core.rpartition(".")[2]
    if core.startswith("__"):
        return [f"Tensor.{core}"]
    found = [core, f"Tensor.{name}", f"Tensor.{name}_", f"{name}_", f"nn.functional.{name}_"]
    return [n for n in dict.fromkeys(found) if n not in REMOVED]


def names_of(lib: Lib) -> dict[str, list[str]]:
    """Per operator, the names that a library has."""
    out = {core: [n for n in candidates(core) if lib.has(n)] for core in COVERED}
    out["Python operators"] = [n for n in OPERATORS if lib.has(n)]
    return out


def recorded() -> dict[str, list[str]]:
    """What torch had when it was recorded."""
    return read(FILE)
