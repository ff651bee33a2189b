"""The generator: torch's CPU stream of random words, its state, and plain numbers made of words."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors.messages import AsWritten, Unsupported
from ..signals import contextmanager
from ..state import MODES
from .rejection import Draw
from .rounding import Array, normal_pair, normal_pairs


def _not_compiled(what: str) -> None:
    """Raise inside of a compiled function, whose random numbers are drawn only when its program runs."""
    if MODES.run is not None and MODES.run.may_write_outside:
        raise Unsupported(
            f"torch.compile: a compiled function may not {what}: its random numbers are drawn all at once, before its "
            "program runs; do it outside of the function"
        )


def among_draws(step: Callable[[], object]) -> None:
    """Do something to a generator: now, or in each run of a program that is being traced, between the draws around it.

    Args:
        step: what to do. It must not depend on when it runs.
    """
    for run in MODES.runs:
        if run.may_write_outside:
            run.uses.among_draws(step)
            return
    step()


_N = 624
"""Words in the state of MT19937."""

# torch's byte layout: the part that older versions wrote, then a float32 normal kept for later,
# which the CPU never leaves behind.
_LEGACY_LAYOUT = np.dtype(
    [
        ("seed", "<u8"),
        ("left", "<i4"),
        ("seeded", "<i4"),
        ("next", "<u8"),
        ("state", "<u8", _N),
        ("normal_x", "<f8"),
        ("normal_y", "<f8"),
        ("normal_rho", "<f8"),
        ("normal_is_valid", "<i4"),
        ("padding", "<i4"),
    ]
)
_LAYOUT = np.dtype([("legacy", _LEGACY_LAYOUT), ("float_normal", "<f4"), ("float_is_valid", "<i4")])

_WORD, _MANTISSA = np.uint64(32), np.uint64(2**53 - 1)
_LAST_OF_FLOAT, _LAST_OF_DOUBLE = np.float32(2.0**-24), np.float64(2.0**-53)

DEFAULT_SEED = 67280421310721
"""Seed of a generator that nobody seeded, as in torch."""


class Generator:
    """A source of random numbers that produces the stream of torch's CPU generator.

    Args:
        device: what `device` reports; the numbers come from the host whatever it is.

    Example:
        >>> Generator().manual_seed(0).floats(3)
        array([0.4962566 , 0.7682218 , 0.08847743], dtype=float32)
    """

    __slots__ = ("_bits", "_bulk", "_kept", "_seed", "_spare", "device", "lock")

    _seed: int
    _spare: float | None
    """The second normal of the last pair, when only the first was asked for."""
    _kept: tuple[Any, ...] | None
    """A snapshot of the present state, if one was made."""

    def __init__(self, device: Any = "cpu") -> None:
        self.device = device
        self.lock = threading.RLock()
        self._bits = np.random.MT19937()
        # RandomState, unlike numpy's Generator, promises never to change its stream.
        self._bulk = np.random.RandomState(self._bits)
        self._seed, self._spare, self._kept = DEFAULT_SEED, None, None
        self.manual_seed(DEFAULT_SEED)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} device='{self.device}' initial_seed={self._seed}>"

    def manual_seed(self, seed: int | np.integer) -> Self:
        """Restart the stream at `seed` and return the generator.

        Args:
            seed: from -2**63 to 2**64 - 1; a negative one counts as `seed + 2**64`.
        """
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError("Overflow when unpacking long long")
        among_draws(lambda: self._restart(seed))
        return self

    def _restart(self, seed: int) -> None:
        with self.lock:
            self._changes()
            self._seed = seed % 2**64
            self._bulk.seed(seed % 2**32)
            self._spare = None

    def seed(self) -> int:
        """Restart the stream at a seed from the operating system and return that seed."""
        _not_compiled("seed a generator with a number that nobody knows")
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """The seed that the stream started at."""
        if MODES.run is not None and MODES.run.may_write_outside:
            raise AsWritten("it asks for the seed of a generator", lasting=True)
        return self._seed

    def get_state(self) -> NDArray[np.uint8]:
        """The state as the 5056 bytes that torch's `Generator.get_state` gives."""
        _not_compiled("ask for the state of a generator")
        record = np.zeros((), _LAYOUT)
        with self.lock:
            words, used = self._words(), self._used()
            # torch counts a fresh seed as no word used, numpy as all of a block.
            if used == _N and np.array_equal(words, _seeded_words(self._seed)):
                used = 0
            spare = self._spare
            seed = self._seed
        left = _N + 1 - used if used else 1
        kept = (0.0, 0.0 if spare is None else spare, 0.0, spare is not None)
        record["legacy"] = (seed, left, 1, used, words, *kept, 0)
        return np.frombuffer(record.tobytes(), np.uint8).copy()

    def set_state(self, new_state: Array) -> Self:
        """Continue from a state that `get_state` of this class or of torch returned."""
        state = np.asarray(new_state)
        if state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if state.size == _LAYOUT.itemsize:
            state = state.reshape(-1)[: _LEGACY_LAYOUT.itemsize]
        if state.size != _LEGACY_LAYOUT.itemsize:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {_LAYOUT.itemsize} but found the input "
                f"RNG state size to be {state.size}"
            )
        record = np.frombuffer(state.tobytes(), _LEGACY_LAYOUT)[0]
        left, used = int(record["left"]), int(record["next"])
        # A block is renewed when `left` comes down to 1: after its last word, and before the first.
        consistent = left == _N + 1 - used or (left == 1 and used == 0)
        if record["seeded"] != 1 or not (1 <= left <= _N and consistent):
            raise RuntimeError("Invalid mt19937 state")
        _not_compiled("set the state of a generator")
        with self.lock:
            self._restore(record["state"].astype(np.uint32), _N if left == 1 else used)
            self._seed = int(record["seed"])
            self._spare = float(record["normal_y"]) if record["normal_is_valid"] else None
        return self

    def snapshot(self) -> tuple[Any, ...]:
        """The state for `resume`, in no particular form; making one again costs nothing until something is drawn."""
        with self.lock:
            if self._kept is None:
                self._kept = (self._bits.state, self._seed, self._spare)
            return self._kept

    def resume(self, snapshot: tuple[Any, ...]) -> None:
        """Continue from a state that `snapshot` of this generator gave."""
        with self.lock:
            if self._kept is not snapshot:
                self._changes()
                self._bits.state, self._seed, self._spare = snapshot
                self._kept = snapshot

    def _changes(self) -> None:
        """Numbers are about to be drawn, say, after which the last snapshot is no longer the present state."""
        if OWN.states is not None and self not in OWN.states:
            OWN.states[self] = self.snapshot()
        self._kept = None

    def clone_state(self) -> Self:
        """A new generator that continues from the present state of this one."""
        return type(self)(self.device).set_state(self.get_state())

    def get_offset(self) -> int:
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Self:
        raise RuntimeError("CPU Generator does not use offset")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.device, self.get_state())

    def _words(self) -> NDArray[np.uint32]:
        return self._bits.state["state"]["key"]

    def _used(self) -> int:
        return self._bits.state["state"]["pos"]

    def _restore(self, words: NDArray[np.uint32], used: int) -> None:
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": used}}
        self._kept = None

    def _next_words(self, count: int) -> NDArray[Any]:
        """The next `count` words of the stream, few of them in the 64 bits each that numpy gives."""
        self._changes()
        # Both give the same words: one of them starts faster, the other runs faster.
        if count < 2048:
            return self._bits.random_raw(count)
        return self._bulk.randint(0, 2**32, size=count, dtype=np.uint32)

    def random32(self, count: int) -> NDArray[np.uint32]:
        """The next `count` words of the stream."""
        return self._next_words(count).astype(np.uint32, copy=False)

    def random64(self, count: int) -> NDArray[np.uint64]:
        """The next `count` pairs of words, the first of a pair as its high half."""
        words = self._next_words(2 * count)
        pairs = words[0::2].astype(np.uint64)
        pairs <<= _WORD
        pairs |= words[1::2]
        return pairs

    def floats(self, count: int) -> NDArray[np.float32]:
        """Multiples of 2**-24 in [0, 1): one word each."""
        words = self._next_words(count)
        words &= 2**24 - 1
        out = words.astype(np.float32)
        out *= _LAST_OF_FLOAT
        return out

    def doubles(self, count: int) -> NDArray[np.float64]:
        """Multiples of 2**-53 in [0, 1): two words each."""
        pairs = self.random64(count)
        pairs &= _MANTISSA
        return pairs * _LAST_OF_DOUBLE

    def _few_doubles(self, count: int) -> list[float]:
        """The same as numbers of Python, which has less to prepare than numpy."""
        words = iter(self._next_words(2 * count).tolist())
        return [((high << 32 | low) & (2**53 - 1)) * 2.0**-53 for high, low in zip(words, words)]

    @contextmanager
    def one_by_one(self, expected: int) -> Iterator[Draw]:
        """Doubles for a loop that does not know how many it needs. It consumes only those that it uses."""
        size = min(max(expected, 16), 8192)
        ahead: list[float] = []
        at = size
        start = self._bits.state

        def draw() -> float:
            nonlocal ahead, at, start
            if at == size:
                start = self._bits.state
                ahead, at = self.doubles(size).tolist(), 0
            at += 1
            return ahead[at - 1]

        with self.lock:
            try:
                yield draw
            finally:
                if at < size:
                    self._bits.state = start
                    self.random32(2 * at)

    def serial_normals(self, count: int) -> NDArray[np.float64]:
        """Standard normals made in pairs; an odd one out is kept for the next call."""
        with self.lock:
            self._changes()
            spare = self._spare
            wanted = max(count + (spare is None), 0) // 2 * 2
            out = normal_pairs(self._few_doubles(wanted) if wanted <= 16 else self.doubles(wanted))
            if spare is not None:
                out = np.concatenate([[spare], out])
            if count:
                self._spare = float(out[-1]) if len(out) > count else None
        return out[:count]

    def next_normal(self, draw: Draw) -> float:
        """`serial_normals(1)` from the doubles that `draw` gives."""
        self._changes()
        if self._spare is not None:
            normal, self._spare = self._spare, None
            return normal
        normal, self._spare = normal_pair(draw(), draw())
        return normal


@functools.lru_cache(maxsize=16)
def _seeded_words(seed: int) -> NDArray[np.uint32]:
    bits = np.random.MT19937()
    np.random.RandomState(bits).seed(seed % 2**32)
    return bits.state["state"]["key"]


def _rebuild(cls: type[Generator], device: Any, state: Array) -> Generator:
    return cls(device).set_state(state)


class _Own(threading.local):
    generator: Generator | None = None
    states: dict[Generator, tuple[Any, ...]] | None = None
    """Where snapshots of the generators go that something is drawn from; see `restorable`."""


OWN = _Own()
"""The generator that stands for the default one in threads that have their own, and what else belongs to a thread."""

default_generator = Generator()
"""The generator of draws that name none; like torch's it starts at an unpredictable seed."""
default_generator.seed()


@contextmanager
def restorable(states: dict[Generator, tuple[Any, ...]]) -> Iterator[None]:
    """A context that puts a snapshot of every generator that something is drawn from into `states`."""
    before, OWN.states = OWN.states, states
    try:
        yield
    finally:
        OWN.states = before


def current() -> Generator:
    """The generator of draws of this thread that name none."""
    return default_generator if OWN.generator is None else OWN.generator
