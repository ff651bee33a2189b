"""What was read, as it was before: places with their values, names that were missing, and copies of containers.

    record.places[id(vars(model)), "scale"]  # (vars(model), "scale", 2.0)
    record.absent[id(vars(model))]           # (vars(model), {"shift"}): code asked for `model.shift`
    record.containers[id(sizes)]             # (sizes, [3, 4])

`reads.py` finds what belongs here, `guards.py` compares it before each run.
"""

from __future__ import annotations

import gc
import types
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from ...._engine.memory.tensor import Tensor
from .ages import Ages
from .code_that_reads import Code
from .places import MISSING, Attributes, Cell


class Record:
    """Places, containers and other things that a function can have read, as they were before."""

    def __init__(self, ages: Ages) -> None:
        self.ages = ages
        self.places: dict[tuple[int, Any], Any] = {}
        """(holder, key, value) by the identity of the holder and the key."""
        self.absent: dict[int, tuple[Any, set[str]]] = {}
        """Dicts and classes, and names that are not in them."""
        self.containers: dict[int, Any] = {}
        """Dicts, lists, sets and deques, and copies of them."""
        self.arrays: dict[int, Any] = {}
        """Arrays of NumPy and others, and what was in them."""
        self.types: dict[int, Any] = {}
        """Objects, and their classes."""
        self.weak: dict[int, Any] = {}
        """Weak references, and the classes of what they lead to, which no guard keeps alive."""
        self.gradients: dict[int, Tensor | None] = {}
        """The gradients of tensors that are reached by a place, by the identity of the tensor."""
        self.forms: dict[int, Tensor] = {}
        """Those whose shape or dtype the code may look at."""
        self.flags: dict[int, Tensor] = {}
        """Those of which it may ask whether they require a gradient."""
        self.functions: dict[int, list[types.FunctionType]] = {}
        """Functions by the identity of their code."""
        self.cells: dict[int, list[tuple[Any, Any, Any]]] = {}
        """What functions are made of, by their identity."""
        self.caches: list[tuple[Any, frozenset[Any]]] = []
        """Functions whose results are kept (`functools.lru_cache`), and for what they are."""
        self.owners: dict[int, Any] = {}
        """Objects by the identity of the dicts of their attributes."""
        self.optimizers: dict[int, Any] = {}
        self.states: dict[int, list[tuple[Any, Any]]] = {}
        """Dicts and lists in the state of optimizers, and copies of them, by the identity of the optimizer."""
        self.absorbed: list[Any] = []
        """Guards of operators that were made of functions of JAX, which ran before."""
        self.outside: dict[int, Any] = {}
        """Where paths begin, by identity: what is called, and its arguments."""
        self.leads_to: dict[int, tuple[Any, dict[int, Any]]] = {}
        """Objects, and what they led to before the function changed anything, by the identity of each."""
        self._kept: list[Any] = []
        self._count = 0

    def forget(self) -> None:
        """Keep nothing of the function's alive."""
        for rows in vars(self).values():
            if isinstance(rows, dict | list | set):
                rows.clear()

    def settle(self) -> None:
        """What was read up to here has been taken over: keep nothing alive that the function made."""
        tables: Any = (self.places, self.containers, self.types, self.weak, self.arrays)
        for rows in tables:
            rows.update(dict.fromkeys(rows))
        old = self.ages.was_there
        owner = {key: self.owners.get(key, row[0]) for key, row in self.absent.items()}
        self.absent = {key: row for key, row in self.absent.items() if type(owner[key]) is dict or old(owner[key])}
        self.owners = {key: x for key, x in self.owners.items() if old(x)}
        self.forms = {key: x for key, x in self.forms.items() if old(x)}
        self.flags = {key: x for key, x in self.flags.items() if old(x)}
        self.gradients = {key: g for key, g in self.gradients.items() if g is not None and old(g)}
        self.functions = {key: kept for key, fns in self.functions.items() if (kept := [fn for fn in fns if old(fn)])}
        here = {id(fn) for fns in self.functions.values() for fn in fns}
        self.cells = {key: parts for key, parts in self.cells.items() if key in here}
        self.leads_to = {}
        self._kept.clear()
        self.absorbed.clear()
        self.ages.forget()

    def functions_of(self, ran: Iterable[Code]) -> list[tuple[Any, list[tuple[Any, Any, Any]]]]:
        """The functions that ran, and what each is made of, if need be by what the collector of garbage knows."""
        found: list[types.FunctionType] = []
        rest = []
        inner: set[int] = set()
        for code in ran:
            of = code.of()
            if of is None:
                continue
            inner.update(id(part) for part in of.co_consts if isinstance(part, types.CodeType))
            known = self.functions.get(id(of))
            if known is not None:
                found += known
            elif of.co_freevars:
                rest.append(of)
        rest = [of for of in rest if id(of) not in inner]
        if rest:
            found += [
                fn for fn in gc.get_referrers(*rest) if isinstance(fn, types.FunctionType) and fn.__code__ in rest
            ]
        return [(fn, self._parts(fn)) for fn in {id(fn): fn for fn in found}.values()]

    def _parts(self, fn: types.FunctionType) -> list[tuple[Any, Any, Any]]:
        """What a function was made of when it was met first."""
        parts = self.cells.get(id(fn))
        if parts is None:
            parts = self.cells[id(fn)] = parts_of_function(fn)
            for _, _, value in parts:
                self._lead(fn, value)
        return parts

    def absorb(self, guards: Any) -> None:
        """What some guards compare is read, too."""
        if not any(guards is known for known in self.absorbed):
            self.absorbed.append(guards)

    def _was_absent(self, of: Any, key: Any) -> bool:
        """Whether something was missing when it was looked for first."""
        row = self.absent.get(id(of))
        return row is not None and isinstance(key, str) and key in row[1]

    def _note(self, holder: Any, of: Any, key: Any, value: Any) -> None:
        """A place with the value that it has; `of` is the object that it is a place of."""
        at = (id(of), key)
        if at not in self.places and not self._was_absent(of, key):
            self.places[at] = (holder, key, value)
            self._lead(of, value)
            self._keep(of)
            self._count += 1

    def _lead(self, of: Any, value: Any) -> None:
        """An object has led to another one from the beginning: if it is from outside, so is that one."""
        row = self.leads_to.get(id(of))
        if row is None:
            row = self.leads_to[id(of)] = (of, {})
        row[1][id(value)] = value

    def _absent(self, of: Any, names: Iterable[str]) -> None:
        """Names that a dict, or a class of itself, does not have."""
        row = self.absent.get(id(of))
        if row is None:
            row = self.absent[id(of)] = (of, set())
            self._keep(of)
        known = len(row[1])
        row[1].update(n for n in names if (id(of), n) not in self.places)
        self._count += len(row[1]) - known

    def _keep(self, x: Any) -> None:
        self._kept.append(x)


def copy_of_dict(x: dict[Any, Any]) -> dict[Any, Any]:
    """The entries of a dict in its order, without asking its class."""
    return dict(OrderedDict.items(x) if isinstance(x, OrderedDict) else dict.items(x))


def containers_in(x: Any) -> Iterator[tuple[Any, Any]]:
    """A dict or list and those in it, with copies of them."""
    if isinstance(x, dict):
        yield x, copy_of_dict(x)
    elif isinstance(x, list):
        yield x, list(x)
    for part in x.values() if isinstance(x, dict) else x if isinstance(x, list | tuple) else ():
        if isinstance(part, dict | list | tuple):
            yield from containers_in(part)


def content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def parts_of_function(fn: types.FunctionType) -> list[tuple[Any, Any, Any]]:
    """The variables from outside of a function, and what it is made of."""
    found: list[tuple[Any, Any, Any]] = [
        (Attributes(fn), key, getattr(fn, key)) for key in ("__code__", "__defaults__", "__kwdefaults__")
    ]
    return found + [(Cell(cell), "cell_contents", content(cell)) for cell in fn.__closure__ or ()]
