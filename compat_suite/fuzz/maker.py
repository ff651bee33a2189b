"""What the rules of random programs share: the live tensors and the random choices."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Choose = Callable[["Maker"], str | None]
SHAPES = ((3,), (2, 3), (), (2, 3), (3,), (3, 2), (3, 3), (1, 3), (2, 1, 3), (0, 3))
DTYPES = ("float64",) * 12 + ("float32", "float32", "int64", "bool", "complex128")


KEPT = 6
"""Of how many options a swarm of programs keeps to."""


@functools.cache
def _kept(swarm: int, n: int) -> list[int]:
    return random.Random(f"{swarm}/{n}").sample(range(n), KEPT)


SUBJECTS = ("numbers", "views", "writes", "hooks", "passes", "transforms", "modes", "dtypes")
"""What lines are about; that of `compile` and `devices` are all lines, run another way (`ways.py`)."""
RAREST = 3


@dataclass(frozen=True)
class Rule:
    """A kind of line, what it is about, how often it is tried, how rare it is in programs, and which names it needs."""

    name: str
    subject: str
    weight: float
    rarity: int
    """0: everyday code; 1: what programs in the wild do; 2: any operator of the table; 3: far from everyday code."""
    needs: tuple[str, ...]
    line: Choose


RULES: list[Rule] = []


def rule(subject: str, weight: float, *needs: str, rarity: int = 0) -> Callable[[Choose], Choose]:
    """Register a rule."""
    if subject not in SUBJECTS or not 0 <= rarity <= RAREST:
        raise ValueError(f"a rule about {subject!r} with rarity {rarity}")

    def enter(line: Choose) -> Choose:
        RULES.append(Rule(line.__name__, subject, weight, rarity, needs, line))
        return line

    return enter


class Maker:
    """The live tensors of the program being made, and the random choices about it."""

    def __init__(self, rng: random.Random, torch: Any, has: Callable[[str], bool], swarm: int | None = None) -> None:
        self.rng, self.torch, self.has, self.swarm = rng, torch, has, swarm
        self.env: dict[str, Any] = {}
        self.count = 0

    # --- choices ------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def one(self, *options: Any) -> Any:
        """One of several; of many, one of those that the programs of a swarm share."""
        n = len(options)
        if self.swarm is None or n <= KEPT:
            return options[self.rng.randrange(n)]
        return options[self.rng.choice(_kept(self.swarm, n))]

    def number(self) -> float:
        if self.chance(0.3):
            return float(self.one(-2, -1, 0, 1, 2))
        return round(self.rng.uniform(-2, 2), 2)

    def scalar(self) -> str:
        return str(self.one(2.0, 0.5, -1.0, 2, 3, 1.5))

    # --- tensors ------------------------------------------------------------------------------

    def live(self) -> dict[str, Any]:
        return {k: v for k, v in self.env.items() if isinstance(v, self.torch.Tensor) and k[0] == "v"}

    def pick(self, wanted: Callable[[Any], bool] = lambda t: True, recent: bool = True) -> str | None:
        """A live tensor's name; recent ones more often, so that programs become deep."""
        names = [k for k, v in self.live().items() if _or_raises(wanted, v)]
        if not names:
            return None
        if recent and self.chance(0.5):
            names = names[-3:]
        return self.one(*names)

    def new(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    def news(self, n: int) -> str:
        names = [self.new() for _ in range(n)]
        return names[0] + "," if n == 1 else ", ".join(names)

    def partner(self, name: str, into: bool = False) -> str:
        """Something that broadcasts with a tensor, mostly: another tensor or a number."""
        if self.chance(0.2):
            return self.scalar()
        shape = tuple(self.env[name].shape)

        def fits(t: Any) -> bool:
            try:
                both = tuple(self.torch.broadcast_shapes(shape, tuple(t.shape)))
            except RuntimeError:
                return False
            return not into or both == shape

        loose = not self.chance(0.93)
        me = self.env[name]
        return self.pick(lambda t: (loose or fits(t)) and not (into and races(me, t))) or self.scalar()

    def literal(self, shape: tuple[int, ...], dtype: str) -> str:
        def build(dims: tuple[int, ...]) -> Any:
            if not dims:
                if dtype == "bool":
                    return self.chance(0.5)
                if dtype == "int64":
                    return self.rng.randint(-3, 3)
                return complex(self.number(), self.number()) if dtype == "complex128" else self.number()
            return [build(dims[1:]) for _ in range(dims[0])]

        if 0 in shape:
            return f"torch.zeros({shape}, dtype=torch.{dtype})"
        return f"torch.tensor({build(shape)}, dtype=torch.{dtype})"

    def like(self, name: str) -> str:
        t = self.env[name]
        return self.literal(tuple(t.shape), str(t.dtype).removeprefix("torch."))


def _or_raises(wanted: Callable[[Any], bool], t: Any) -> bool:
    """Whether a tensor is wanted; what refuses to be looked at (a forbidden view) is worth trying."""
    try:
        return wanted(t)
    except RuntimeError:
        return True


def real(t: Any) -> bool:
    return t.is_floating_point()


def inexact(t: Any) -> bool:
    return t.is_floating_point() or t.is_complex()


def tracked(t: Any) -> bool:
    return t.requires_grad


def dims(*counts: int) -> Callable[[Any], bool]:
    return lambda t: t.dim() in counts


def writable(t: Any) -> bool:
    """Whether no two elements share memory, unless by expansion, which torch refuses to write to.

    What a write to a tensor that overlaps itself otherwise leaves behind, and to a part that is not expanded of one
    that is, is up to torch's loops.
    """
    apart = math.prod(size for size, stride in zip(t.shape, t.stride()) if stride)
    return len(places(t)) == apart or not t.numel()


def places(t: Any) -> set[int]:
    """Where the elements of a tensor lie, in bytes from the start of its storage."""
    item = t.element_size()
    out = {t.storage_offset() * item}
    for size, stride in zip(t.shape, t.stride()):
        out = {p + k * stride * item for p in out for k in range(size)}
    return out


def overlaps(t: Any) -> bool:
    """Whether two elements of a tensor are one in memory."""
    return len(places(t)) < t.numel()


def touches(a: Any, b: Any) -> bool:
    """Whether some byte lies in both: the imaginary parts begin where no complex number does."""
    same = a.untyped_storage()._cdata == b.untyped_storage()._cdata
    return same and bool(_bytes(a) & _bytes(b))


def _bytes(t: Any) -> set[int]:
    return {p + k for p in places(t) for k in range(t.element_size())}


def taints(me: Any, other: Any) -> bool:
    """Whether writing `other` into `me` makes a tensor of integers require grad, as torch then says.

    Hardly anything can be done with one: "Autograd not support dtype: Long", or an internal assert.
    """
    return other.requires_grad and not inexact(me)


def _dense(t: Any) -> bool:
    found = places(t)
    return len(found) == t.numel() and max(found) - min(found) == (t.numel() - 1) * t.element_size()


def races(me: Any, other: Any) -> bool:
    """Whether writing to `me` changes what is still to be read of `other`, without torch noticing.

    torch refuses only between tensors without gaps; otherwise the result is up to its loops.
    """
    if taints(me, other):
        return True
    if not me.numel() or not other.numel() or not touches(me, other):
        return False
    same = (me.storage_offset(), me.stride(), me.shape, me.dtype)
    if same == (other.storage_offset(), other.stride(), other.shape, other.dtype):
        return False
    return not (_dense(me) and _dense(other))
