"""The caches of plans, kernels and programs: bounded in one place, counted, and cleared together.

A kernel takes about 0.4 MB of memory once it is compiled, and JAX keeps it for as long as the jitted function
lives. A program whose shapes keep changing makes new ones without end, so each cache here forgets what has not
been used for longest.

A `Pool` is a limit that several caches share. Each `Cache` keeps two dictionaries. What is used is in the young
one, where the engine looks first, with a plain dictionary look-up that writes nothing down. From time to time (once
an eighth of the limit is new, or half of it is young) all young entries become old, as one more *generation*. An old
entry that is used becomes young again. So an entry's generation tells how long nobody has used it, and
the oldest generations are dropped where the limit asks for it. A program whose entries fit the limit loses none.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..homes import home_of
from ..signals import uninterrupted
from .private import LOWERED, TRACED

F = TypeVar("F", bound=Callable[..., Any])

_LOCK = threading.RLock()
"""Held while an entry is added or moved. Finding one among the young needs no lock."""
_PLAN = 0.25
"""What a plan costs that has not compiled anything yet, in kernels: the traces that it and JAX keep."""
_TRACES = 2048
"""How many traces of its own functions and of this package's JAX may keep; they take 10 to 20 KB each."""


class CacheInfo(NamedTuple):
    """How full a cache is, and how it was used so far.

    `size` and `limit` count kernels for "kernels", and entries for all others. `hits` are look-ups that found an
    old entry; look-ups that find a young one are not counted, since counting would cost as much as they do.
    """

    size: int
    limit: int
    hits: int
    misses: int
    evictions: int


class Cache:
    """A dictionary that forgets what was not used lately, and keeps at most as much as its pool allows."""

    __slots__ = ("__weakref__", "_old", "_pool", "young")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.young: dict[Any, Any] = {}
        """Always the same dictionary: generated code holds it."""
        self._old: Any = {}
        """By key: the generation and the entry."""

    def __len__(self) -> int:
        return len(self.young) + len(self._old)

    def get(self, key: Any) -> Any:
        """The entry of a key, or None."""
        found = self.young.get(key)
        return self.older(key) if found is None else found

    def older(self, key: Any) -> Any:
        """The entry of a key among the old ones, which becomes young, or None."""
        pool = self._pool
        with _LOCK:
            found = self._taken(key)
            if found is None:
                pool.misses += 1
                return None
            pool.hits += 1
        pool.turn()
        return found

    def _taken(self, key: Any) -> Any:
        found = self.young.get(key)
        if found is None and key in self._old:
            generation, found = self._old.pop(key)
            self.young[key] = found
            self._pool.rejuvenate(generation, getattr(found, "weight", 1))
        return found

    def put(self, key: Any, value: Any, weight: float = 1) -> Any:
        """Add an entry. Returns it, or the entry that another thread has added in the meantime."""
        with _LOCK:
            found = self._taken(key)
            if found is not None:
                return found
            self.young[key] = value
        self._pool.spend(weight)
        return value

    def replace(self, key: Any, value: Any) -> None:
        """Put something else in the place of an entry."""
        with _LOCK:
            self._old.pop(key, None)
            self.young[key] = value

    def pop(self, key: Any) -> None:
        """Forget one entry."""
        with _LOCK:
            self.young.pop(key, None)
            self._old.pop(key, None)

    def age(self, generation: int) -> None:
        """Make the young entries old."""
        self._old.update({key: (generation, entry) for key, entry in self.young.items()})
        self.young.clear()

    def drop(self, last: int) -> list[Any]:
        """Forget the generations up to `last`; their entries."""
        keys = [key for key, (generation, _) in self._old.items() if generation <= last]
        return [self._old.pop(key)[1] for key in keys]

    def clear(self) -> None:
        """Forget everything."""
        with _LOCK:
            dropped = [*self.young.values(), *[entry for _, entry in self._old.values()]]
            self.young.clear()
            self._old.clear()
        _forget(dropped)


class Shelf:
    """Plans and kernels that are used inside of its `with` blocks alone. Those from outside come back after a block.

    What a tensor without data does is planned for the hardware that is meant, which may be another one in a block.
    """

    def __init__(self) -> None:
        self._held: list[tuple[Cache, dict[Any, Any], dict[Any, Any]]] = []

    def _swap(self) -> None:
        with _LOCK:
            now = [
                (c, dict(c.young), dict(c._old)) for p in POOLS.values() for c in list(p._caches) if type(c) is Cache
            ]
            for cache, _, _ in now:
                cache.young.clear()
                cache._old.clear()
            for cache, young, old in self._held:
                cache.young.update(young)
                cache._old.update(old)
            self._held = now

    def __enter__(self) -> Shelf:
        self._swap()
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        self._swap()


class Interned(Cache):
    """A cache of objects that are compared by identity: none is made twice while anybody still holds the first."""

    __slots__ = ()

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self._old = weakref.WeakValueDictionary()

    def _taken(self, key: Any) -> Any:
        found = self.young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is not None:
                self.young[key] = found
                self._pool.rejuvenate(-1, 1)
        return found

    def age(self, generation: int) -> None:
        """From now on hold the young entries only as long as somebody else does."""
        self._old.update(self.young)
        self.young.clear()

    def drop(self, last: int) -> list[Any]:
        """Does nothing, because entries that nobody holds are gone already."""
        return []

    def clear(self) -> None:
        """Forget what nobody holds."""
        with _LOCK:
            self.age(0)


class Pool:
    """A limit that several caches share, and what happened in them."""

    def __init__(self, name: str, limit: int) -> None:
        self.name, self.limit = name, limit
        self.hits = self.misses = self.evictions = 0
        self._begin()
        self._caches: weakref.WeakSet[Cache] = weakref.WeakSet()
        POOLS[name] = self

    def _begin(self) -> None:
        self._generation, self._new = 0, 0.0
        self._weights = {0: 0.0}
        """By generation, the oldest first: what its entries cost. The last one is that of the young entries."""

    def cache(self, kind: type[Cache] = Cache) -> Cache:
        """A new cache under this limit, which counts for as long as somebody holds it."""
        made = kind(self)
        with _LOCK:
            self._caches.add(made)
        return made

    def memo(self, weight: float = 1) -> Callable[[F], F]:
        """A decorator: keep the results of a function of hashable positional arguments."""

        def decorate(fn: F) -> F:
            cache = self.cache()
            young = cache.young

            @functools.wraps(fn)
            def look(*key: Any) -> Any:
                found = young.get(key)
                if found is None:
                    found = cache.older(key)
                if found is None:
                    found = cache.put(key, fn(*key), weight)
                return found

            look.cache = cache  # type: ignore[attr-defined]
            return look  # type: ignore[return-value]

        return decorate

    def spend(self, weight: float) -> None:
        """Count what was added to the young entries, and make room where that is needed."""
        with _LOCK:
            self._weights[self._generation] += weight
            self._new += weight
        self.turn()

    def rejuvenate(self, generation: int, weight: float) -> None:
        """Count an old entry that became young again. The caller holds the lock."""
        moved = min(weight, self._weights.get(generation, 0.0))
        if generation in self._weights:
            self._weights[generation] -= moved
        self._weights[self._generation] += moved

    def turn(self) -> None:
        """Begin a new generation if it is time to, and drop the oldest ones where all take too much."""
        young = self._weights[self._generation]
        if self._new < self.limit / 8 and young < self.limit / 2:
            return
        with _LOCK:
            for cache in list(self._caches):
                cache.age(self._generation)
            self._generation, self._new = self._generation + 1, 0.0
            self._weights[self._generation] = 0.0
            last = self._too_old()
            dropped = [] if last < 0 else [e for c in list(self._caches) for e in c.drop(last)]
            self.evictions += len(dropped)
        if last >= 0:
            _forget(dropped)
            self.dropped()

    def _too_old(self) -> int:
        """The last generation for which there is no room, or -1; there is always room for the newest entries."""
        last, kept = -1, sum(self._weights.values())
        for generation in list(self._weights)[:-2]:
            if self._weights[generation] <= 0:  # what is left of it is dropped with the next one
                del self._weights[generation]
            elif kept > self.limit * 7 / 8:
                last = generation
                kept -= self._weights.pop(generation)
        return last

    def dropped(self) -> None:
        """Called after entries have been dropped; small entries need no more work."""

    def clear(self) -> None:
        """Forget everything."""
        with _LOCK:
            caches = list(self._caches)
            self._begin()
        for cache in caches:
            cache.clear()
        self.dropped()

    def info(self) -> CacheInfo:
        """How full it is."""
        with _LOCK:
            size = sum(map(len, self._caches))
        return CacheInfo(size, self.limit, self.hits, self.misses, self.evictions)


def _forget(dropped: list[Any]) -> None:
    """Let go of entries. Those that refer to themselves break that cycle, or they would wait for the collector."""
    for entry in dropped:
        forget = getattr(entry, "forget", None)
        if forget is not None:
            forget()
    dropped.clear()


class _Kernels(Pool):
    """The pool of what holds compiled kernels: its unit is a kernel, whose memory XLA has."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(name, limit)
        self._since_lowerings = self._since_collection = self._since_traces = 0.0
        self._programs_dropped = 0
        self._shared: list[Any] = []

    def shared(self, jitted: Any) -> Any:
        """A jitted function of any shapes, whose kernels are dropped whenever entries are."""
        self._shared.append(jitted)
        return jitted

    def plan(self, cache: Cache, key: Any, plan: Any) -> Any:
        """Add a plan that has compiled nothing so far."""
        return cache.put(key, plan, _PLAN)

    def compiled(self, owner: Any = None) -> None:
        """Count a kernel that is compiled now; `owner` is the entry that it will go with."""
        if owner is not None:
            owner.weight += 1
        self._since_lowerings += 1
        self._since_collection += 1
        if self._since_lowerings >= 16:
            self._since_lowerings = 0
            drop_lowerings()
        self.spend(1)

    def spend(self, weight: float) -> None:
        """Count a plan or a kernel, each of which JAX has traced."""
        self._since_traces += weight
        if self._since_traces >= 32:
            self._since_traces = 0
            drop_traces()
        super().spend(weight)

    def program(self) -> None:
        """Count a whole program that is compiled now, and that its function keeps."""
        drop_lowerings()
        drop_traces()

    def program_dropped(self) -> None:
        """Count a program that its function has forgotten; programs refer to themselves."""
        self._programs_dropped += 1
        if self._programs_dropped >= 16:
            self._programs_dropped = 0
            gc.collect()
            _trim()

    def dropped(self) -> None:
        """Give memory back, also that of objects that refer to themselves and of kernels that belong to no entry."""
        for jitted in self._shared:
            jitted.clear_cache()
        drop_lowerings()
        if self._since_collection >= 256:
            self._since_collection = 0
            gc.collect()
        _trim()

    def info(self) -> CacheInfo:
        return super().info()._replace(size=round(sum(self._weights.values())))


_PACKAGE = str(Path(__file__).resolve().parents[2])


def drop_lowerings() -> None:
    """Let JAX forget the MLIR modules of this package's kernels: 1 MB each, of no use once they are compiled."""
    for cache in LOWERED:
        for key in cache.cache_keys():
            traced = key[0]()
            if traced is not None and _is_ours(traced):
                cache.evict_weakref(traced)


def drop_traces(most: int | None = None) -> None:
    """Let JAX forget its traces of its own functions (`jnp.where`) and of this package's, once there are so many.

    JAX keeps one for each shape for as long as the function lives, without a limit. What needs one again makes it
    again; traces of the user's functions stay.
    """
    if TRACED.cache_info().currsize < (_TRACES if most is None else most):
        return
    homes = ("jax.", f"{__name__.partition('.')[0]}.")
    functions = {id(fn): fn for key in TRACED.cache_keys() if (fn := key[0]()) is not None}
    for fn in functions.values():
        if str(home_of(fn)).startswith(homes):
            TRACED.evict_weakref(fn)


def _is_ours(traced: Any) -> bool:
    """Return whether this package defines the function of a trace."""
    where = traced.jaxpr.debug_info.func_src_info
    return where is not None and _PACKAGE in where


@functools.cache
def _allocator() -> Any:
    """`malloc_trim`, where the C library has it."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def _trim() -> None:
    """Give free memory back to the system; glibc keeps what lies between pieces that are in use."""
    trim = _allocator()
    if trim is not None:
        trim(0)


POOLS: dict[str, Pool] = {}
KERNELS = _Kernels("kernels", 1024)
CALLS = Pool("calls", 8192)
VIEWS = Pool("views", 16384)
LAYOUTS = Pool("layouts", 16384)
TEMPLATES = Pool("templates", 2048)
_FUNCTIONS: dict[str, Any] = {}
"""Results of small functions that are kept, by name of the function."""
OTHERS: dict[str, tuple[Callable[[], CacheInfo], Callable[[], None]]] = {}
"""Caches with limits of their own: how full they are, and how to clear them."""


def remember(limit: int = 4096) -> Callable[[F], F]:
    """A decorator like `functools.lru_cache`, of results that hold no kernels, listed by `cache_info`."""

    def decorate(fn: F) -> F:
        kept = functools.lru_cache(limit)(fn)
        home = fn.__module__.removeprefix("torchgrad_jax.")
        _FUNCTIONS[f"{home}.{fn.__name__}"] = kept
        return kept  # type: ignore[return-value]

    return decorate


def cache_info() -> dict[str, CacheInfo]:
    """How full the package's caches are: what holds compiled kernels first, then smaller things.

    Returns:
        By name: `size`, `limit`, `hits`, `misses` and `evictions`. Look-ups on the fast path are not counted.

    Example:
        >>> import torchgrad_jax as torch
        >>> info = torch.cache_info()["kernels"]
        >>> info.size <= info.limit
        True
    """
    found = {name: pool.info() for name, pool in POOLS.items()}
    found |= {name: info() for name, (info, _) in OTHERS.items()}
    for name, kept in _FUNCTIONS.items():
        hits, misses, limit, size = kept.cache_info()
        found[name] = CacheInfo(size, limit, hits, misses, max(misses - size, 0))
    return found


def clear_caches() -> None:
    """Forget every plan, kernel and compiled program; what is needed again is compiled again.

    Graphs that are there stay as they are, and so does what `jax.jit` has compiled for you; `jax.clear_caches`
    empties JAX's own caches.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.clear_caches()
    """
    for _, clear in OTHERS.values():
        clear()
    for kept in _FUNCTIONS.values():
        kept.cache_clear()
    for pool in POOLS.values():
        pool.clear()
    drop_traces(0)
    gc.collect()
    _trim()


def set_cache_limits(**limits: int) -> None:
    """Say how much the caches may keep: ``set_cache_limits(kernels=4096)``.

    Args:
        limits: by the name that `cache_info` gives: ``kernels`` (1024; about 0.4 MB each), ``calls``, ``views``,
            ``layouts``, ``templates``. The number of programs per compiled function is `compile`'s `recompile_limit`.

    Raises:
        ValueError: for other names, and for numbers less than 1.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.set_cache_limits(kernels=1024)
    """
    for name, limit in limits.items():
        if name not in POOLS:
            raise ValueError(f"there is no cache {name!r} with a limit; there are {[*POOLS]}")
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"the limit of {name!r} must be a positive int, not {limit!r}")
    for name, limit in limits.items():
        POOLS[name].limit = limit
        POOLS[name].spend(0)
