"""NumPy code for steps of any sizes: text made once, and for given sizes only the numbers in it.

    s0 -> v0 = multiply(a0, a1); v1 = f0(v0)     # f0 sums over a dimension of s0 elements
    7  -> the same code, with another f0

The maker of code runs over the steps for one choice of sizes. Wherever it compares shapes, it compares those with
symbols in them, so that each answer is a guard. What depends on sizes is an `Entry`: a name in the code, and how to
make what it stands for. Whether NumPy is to do it at all is asked for each choice of sizes, as for any kernel.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import choice, code, indexing, inline, steps as host_steps


class Aval:
    """A shape and a dtype, which is what NumPy code is made by."""

    __slots__ = ("dtype", "ndim", "shape", "size", "weak_type")

    def __init__(self, shape: tuple[int, ...], dtype: Any, weak_type: bool = False) -> None:
        self.shape, self.dtype, self.weak_type = shape, dtype, weak_type
        self.ndim, self.size = len(shape), math.prod(shape)


class Value(NamedTuple):
    """An operand or a result of a step for given sizes."""

    aval: Aval


class Sized(NamedTuple):
    """A step for given sizes."""

    primitive: Any
    params: dict[str, Any]
    invars: list[Value]
    outvars: list[Value]


class Changed(Exception):
    """For these sizes the code is another one."""


Entry = Callable[[Any, dict[str, Any]], None]
"""Is given the sizes and the names of the code, and adds to these."""
_NESTED = frozenset(("while", "cond", "custom_linear_solve"))


class GeneralCode:
    """NumPy code of steps of any sizes.

    Args:
        source: the steps with symbols, a `Program` of `_engine.run`.
        closed: the same for one choice of sizes. Variables and steps in it say which of the source they are.
        single: whether the result is one, and not a list.
        form: whether there is code that was written by hand.
    """

    def __init__(self, source: Any, closed: Any, single: bool, form: bool) -> None:
        self._more = choice.OF_FORM if form else 1.0
        self._loops = any(e.primitive.name == "scan" for e in closed.jaxpr.eqns)
        with source.sizes.deciding() as holds:
            maker = _Maker(source, closed)
            self._main = _Text(maker, maker.function(single))
            few = len(maker.args) <= code.FEW
            self._formed = maker.with_form(None, None, single) if form and few else None
            self.holds = holds()
        """Whether the code holds for some sizes."""

    def _room(self) -> choice.Room:
        return choice.room_for(self._loops, 0.0, choice.LIMIT * self._more)

    def fits(self, now: Any) -> bool:
        """Whether these sizes are not too much for NumPy; `Changed` where there is no telling."""
        try:
            self._main.check(now, self._room())
        except code.No:
            return False
        return True

    def at(self, now: Any, kernel: Any, form: Any) -> Any:
        """The function for these sizes, or None where XLA has to do it; `Changed` where the code is another one.

        Args:
            now: the sizes, as the `AtSizes` of that program has them.
            kernel: the compiled function, for calls that NumPy can't do.
            form: the code that was written by hand, or None.
        """
        try:
            made = self._main.at(now, self._room(), kernel)
        except code.No:
            return None
        if form is None or self._formed is None:
            return made
        return code.made_of(self._formed, {**code.COMMON, "xla": kernel, "form": form, "derived": made})


class _Text:
    """Code, and what its names stand for."""

    def __init__(self, maker: _Maker, text: Any) -> None:
        self._code, self._space, self._entries, self._work = text, maker.space, maker.all_entries(), maker.work
        self._given = [v.id for v in maker.closed.jaxpr.outvars if not hasattr(v, "val")]
        self._alike = [(ids, fixed, [*prices.items()]) for (ids, fixed), prices in maker.alike.items()]

    def check(self, now: Any, room: choice.Room) -> None:
        """Raise `No` where these sizes are too much for NumPy."""
        if max([now.elements(v) for v in self._given], default=0) > room.largest:
            raise code.No
        for work in self._work:
            self._spend(*work(now), 1, room)
        for ids, fixed, prices in self._alike:
            touched = max([now.elements(v) for v in ids], default=fixed)
            for (overhead, per_element), times in prices:
                self._spend(touched, host_steps.price(overhead, per_element, touched), times, room)

    def _spend(self, touched: int, price: float, times: int, room: choice.Room) -> None:
        if touched > room.largest or not room.spend(price * times):
            raise code.No
        if room.loops and price > choice.ALONE:
            raise Changed

    def at(self, now: Any, room: choice.Room, kernel: Any) -> Any:
        """The function for these sizes; `No` where it would be too much for NumPy."""
        self.check(now, room)
        space = {**self._space, "xla": kernel}
        for entry in self._entries:
            entry(now, space)
        return code.made_of(self._code, space)


class _Maker(code.Maker):
    """Code in the making whose sizes may be any."""

    def __init__(self, source: Any, closed: Any) -> None:
        self._source = source
        self.entries: list[Entry] = []
        self.work: list[Callable[[Any], tuple[int, float]]] = []
        """Of a loop, and of a step whose price depends on more, the elements that it touches, and its price."""
        self.alike: dict[Any, Counter[tuple[float, float]]] = {}
        """Of all other steps, by what they touch, how many there are of each price."""
        self._of_kind: dict[int, int] = {}
        """By kind of shape and dtype, a value of it."""
        self._varying: set[str] = set()
        """Names that stand for the same in each call, which depends on sizes."""
        self._tuples: dict[str, str] = {}
        """By the text of a tuple of sizes, its name."""
        names = {e.primitive.name for e in closed.jaxpr.eqns}
        if closed.effects or not names.isdisjoint(_NESTED) or not names.isdisjoint(choice.EXCEPTIONS):
            raise code.No
        super().__init__(closed, None, choice.Room(math.inf, math.inf, False))

    def all_entries(self) -> list[Entry]:
        """What depends on sizes."""
        names, text = [*self._tuples.values()], "".join([f"{t}," for t in self._tuples])
        tuples = eval(f"lambda s: ({text})")
        return [lambda now, space: space.update(zip(names, tuples(now.given))), *self.entries]

    def _made(self, lines: list[str]) -> Any:
        return code.compiled(code.without_sizes("\n".join(lines), self.space))

    def _name(self, kind: str) -> str:
        name = f"{kind}{len(self.space)}"
        self.space[name] = None
        return name

    # -- what is known of steps and values

    def _shape(self, v: Any) -> Any:
        return v.aval.shape if v.id is None else self._source.vars[v.id].aval.shape

    def _like(self, eqn: Any) -> Any:
        return self._source.eqns[eqn.at]

    def _fixed(self, eqn: Any) -> bool:
        """Whether nothing about a step depends on sizes."""
        moves = self._source.moves
        values = (*eqn.invars, *eqn.outvars)
        return self._source.params[eqn.at][1] is None and not any(v.id is not None and moves(v.id) for v in values)

    def _value(self, name: str) -> Any:
        return self.known.get(self._root(name))

    def _root(self, name: str) -> str:
        """What a value is spread from."""
        return self.views[name][0] if name in self.compact and name in self.views else name

    def _literal(self, v: Any) -> str:
        if v.id is None:
            return super()._literal(v)
        name, dt = f"k{v.id}_{v.aval.dtype.name}", v.aval.dtype
        if name not in self.space:
            self.space[name] = None
            self._varying.add(name)
            self.entries.append(lambda now, space: space.__setitem__(name, np.asarray(now.numbers[v.id], dt)))
        return name

    # -- what depends on sizes

    def _tuple(self, shape: Any) -> str:
        if all(n.__class__ is int for n in shape):
            return str(shape)
        text = f"({''.join([self._source.sizes.text(n) + ',' for n in shape])})"
        return self._tuples.get(text) or self._tuples.setdefault(text, self._name("t"))

    def _filling(self, v: Any) -> str:
        name = self._name("f")
        self.entries.append(lambda now, space: space.__setitem__(name, host_steps.filling(now.aval(v.id))))
        return name

    def _spread(self, name: str) -> str:
        v, number = self.compact.get(name), self._value(name)
        if v is None or number is None or number.shape or name in self.spread:
            return super()._spread(name)
        out = self.spread[name] = self._name("k")  # it is filled once, and not in each call
        self.entries.append(lambda now, space: space.__setitem__(out, host_steps.filling(now.aval(v.id))(number)))
        return out

    def _from_the_start(self, n: str) -> str | None:
        root = self._root(n)
        if root not in self._varying:
            return super()._from_the_start(root)
        name = self._name("f")

        def entry(now: Any, space: dict[str, Any]) -> None:
            space[name] = indexing.from_the_start(int(space[root]))

        self.entries.append(entry)
        return name

    def _again(self, eqn: Any, known: Sequence[Any]) -> Callable[[Any], Any]:
        """Makes what does a step for given sizes."""
        primitive = host_steps.STEPS[eqn.primitive.name]

        def make(now: Any) -> Any:
            step = _sized(now, eqn)
            avals = [v.aval for v in step.invars], [v.aval for v in step.outvars]
            fn = primitive.make(step.params, *avals)
            if primitive.knowing is not None:
                fn = primitive.knowing(step.params, *avals, known) or fn
            return fn

        return make

    def _folded(self, eqn: Any, fn: Any, ins: Sequence[str]) -> list[str] | None:
        if self._fixed(eqn):
            return super()._folded(eqn, fn, ins)
        if eqn.primitive.multiple_results or eqn.primitive.name == "broadcast_in_dim":
            return None
        if not all(n in self.known or n in self._varying for n in ins):
            return None
        name, again = self._name("k"), self._again(eqn, [None] * len(ins))

        def entry(now: Any, space: dict[str, Any]) -> None:
            with np.errstate(all="ignore"):
                space[name] = np.asarray(again(now)(*[space[n] for n in ins]))

        self.entries.append(entry)
        self._varying.add(name)
        return [name]

    def _priced(self, eqn: Any, primitive: host_steps.Primitive, fn: Any) -> Any:
        fixed = max([v.aval.size for v in choice.touching(eqn) if v.id is None], default=0)
        given = [v.id for v in choice.touching(eqn) if v.id is not None]
        ids = tuple(sorted({self._of_kind.setdefault(self._source.kinds[v], v) for v in given}))
        cost = primitive.cost
        if cost is None:
            prices = self.alike.setdefault((ids, fixed), Counter())
            prices[primitive.overhead, primitive.per_element] += 1
        else:
            self.work.append(lambda now: (max([now.elements(v) for v in ids], default=fixed), cost(_sized(now, eqn))))
        if fn is None:
            raise code.No
        return fn

    def _in_float32(self, eqn: Any, ins: Sequence[str]) -> str:
        raise code.No  # such code is made for sizes that are given

    def _loop(self, eqn: Any) -> str:
        if eqn.at not in self._source.bodies:
            raise code.No
        source = self._source.bodies[eqn.at]["jaxpr"]
        closed = source.at(source.sizes.hints[: source.sizes.n])
        if any(e.primitive.name == "scan" for e in closed.jaxpr.eqns):
            raise code.No
        maker, name = _Maker(source, closed), self._name("f")
        body = _Text(maker, maker.body())

        def work(now: Any) -> tuple[int, float]:
            touched = max([now.elements(v.id) for v in (*eqn.invars, *eqn.outvars) if v.id is not None], default=0)
            return touched, -choice.ROUND * now.params(eqn.at)["length"]

        def entry(now: Any, space: dict[str, Any]) -> None:
            made = body.at(source.now(now.given), choice.room_for(False, 0.0, choice.OF_ROUND), None)
            space[name] = host_steps.loop(now.params(eqn.at), made, [now.aval(v.id) for v in eqn.outvars])

        self.work.insert(0, work)
        self.entries.append(entry)
        return name

    def _is_fresh(self, eqn: Any, fn: Any) -> bool:
        return super()._is_fresh(eqn, fn) and (fn.__class__ is not np.ufunc or self._elementwise(eqn, fn))

    def _elementwise(self, eqn: Any, fn: Any) -> bool:
        return host_steps.STEPS[eqn.primitive.name].spreads and fn.__class__ is np.ufunc

    def _line(
        self, eqn: Any, fn: Any, target: str, ins: Sequence[str], counts: Sequence[Any], known: Sequence[Any]
    ) -> str:
        if self._elementwise(eqn, fn) or self._fixed(eqn) or fn.__class__ in (inline.Choice, inline.Extreme):
            return super()._line(eqn, fn, target, ins, counts, known)
        again = self._again(eqn, known)
        if isinstance(fn, inline.Inline):
            return f"{target} = {self._inlined(fn, again).format(*ins)}"
        name = self._name("f")

        def entry(now: Any, space: dict[str, Any]) -> None:
            other = again(now)
            if other is None or isinstance(other, inline.Inline):
                raise Changed
            space[name] = other

        self.entries.append(entry)
        return f"{target} = {name}({', '.join(ins)})"

    def _inlined(self, fn: Any, again: Callable[[Any], Any]) -> str:
        """An expression with names for its numbers."""
        names: list[str] = []

        def named(found: Any) -> str:
            names.append(self._name("n"))
            return names[-1]

        text, rest = code.SIZES.sub(named, fn.text), code.apart(fn.text)[0]

        def entry(now: Any, space: dict[str, Any]) -> None:
            other = again(now)
            if other.__class__ is not fn.__class__ or other.fresh != fn.fresh:
                raise Changed
            found, numbers = code.apart(other.text)
            if found != rest:
                raise Changed
            space.update(zip(names, numbers))

        self.entries.append(entry)
        return text

    def _shaped(self, eqn: Any, fn: Any) -> None:
        if eqn.primitive.name in ("reshape", "squeeze") or self._fixed(eqn):
            return
        again = self._again(eqn, [None] * len(eqn.invars))

        def entry(now: Any, space: dict[str, Any]) -> None:
            if again(now).__class__ is not inline.Reshape:
                raise Changed

        self.entries.append(entry)


def _sized(now: Any, eqn: Any) -> Sized:
    """A step for given sizes."""
    ins, outs = ([Value(v.aval if v.id is None else now.aval(v.id)) for v in vs] for vs in (eqn.invars, eqn.outvars))
    return Sized(eqn.primitive, now.params(eqn.at), ins, outs)
