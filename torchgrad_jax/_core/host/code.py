"""A kernel's jaxpr as NumPy code, for small arrays on the CPU.

For `x * 2 + 1` of four elements, this makes the function

    def kernel(a0, a1):
        if a0.__class__ is not ndarray:
            if a0.__class__ is not Array or a0.committed: return xla(a0, a1)
            a0 = asarray(a0)
        ...
        v0 = multiply(a0, a1)
        v1 = add(v0, c0)
        return own(v1)

There is nothing to compile, and a call costs what NumPy costs. `choice.py` says for which kernels this is done: a
kernel with a step that the table lacks, or with so much to do that XLA is faster, has no such code. XLA also gets a
call with a traced value, with an array that was put on a device, or under `jax_debug_nans`.

Steps whose sizes are symbols have such text once, and for given sizes only the numbers in it:

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
from jax import lax

from . import blocks, choice, indexing as host_indexing, inline, shorter, steps as host_steps
from .inline import Unsure
from .sized import Changed, Code, Entry, No, SizedStep, check, has_halves, sized, together, widened
from .space import COMMON, SIZES, apart, compiled, without_sizes

_ALONE = ("dot_general",)
"""Steps of a program with a loop that XLA may do alone, with NumPy doing the rest."""

FEW = 16
"""Arguments of which each says itself what is done when NumPy can't take it: XLA does the call."""


_NESTED = frozenset(("while", "cond", "custom_linear_solve"))


def program(
    closed: Any, kernel: Callable[..., Any], single: bool, limit: float = choice.LIMIT, form: Any = None
) -> Any:
    """NumPy code for a closed jaxpr; None where XLA has to do it.

    Args:
        closed: the jaxpr.
        kernel: the compiled function, for calls that NumPy can't do.
        single: whether `kernel` gives its one result, and not a list of results.
        limit: microseconds that it may take; infinite where NumPy is to do it for all but the largest arrays.
        form: a function of NumPy's that was written by hand. It stands for the code, where there is such code and for
            the values that it takes; for others it raises `Unsure`.

    Returns:
        A function of the same arguments as `kernel`, with the same results.
    """
    if closed.effects or not choice.is_possible():
        return None
    try:
        elements = max([v.aval.size for v in closed.jaxpr.outvars], default=0)
        if choice.is_for_blocks(elements) and choice.goes_in_blocks(closed.jaxpr):
            return Maker(closed, choice.OF_BLOCKS).code(single, False).at(None, kernel, None)
        maker = Maker(closed, choice.room(closed.jaxpr, limit, 1.0 if form is None else choice.OF_FORM))
        return maker.code(single, form is not None).at(None, kernel, form)
    except (No, Unsure):
        return None


def general(source: Any, closed: Any, single: bool, form: bool) -> Code:
    """Return NumPy code for steps of any sizes.

    Args:
        source: the steps with symbols, a `Program` of `_engine.run`.
        closed: the same for one choice of sizes. Variables and steps in it say which of the source they are.
        single: whether the result is one, and not a list.
        form: whether there is code that was written by hand.
    """
    with source.sizes.deciding() as holds:
        made = Maker(closed, _ANY_ROOM, source).code(single, form)
        made.holds = holds()
    return made


_ANY_ROOM = choice.Room(math.inf, math.inf, False)


class Line(NamedTuple):
    """One line of the code."""

    outs: tuple[str, ...]
    """The values that it makes."""
    text: str
    ins: tuple[str, ...]
    """The values that it reads."""


class Maker:
    """Code in the making.

    Args:
        closed: the steps, for one choice of sizes.
        room: how much of that NumPy may do.
        source: the same steps with symbols, where there are some: a `Program` of `_engine.run`. Variables and steps of
            `closed` then say which of these they are, and what depends on sizes is looked for.
    """

    def __init__(self, closed: Any, room: choice.Room, source: Any = None) -> None:
        self.closed, self.room, self.source = closed, room, source
        self.loops = any(e.primitive.name == "scan" for e in closed.jaxpr.eqns)
        self.lines: list[Line] = []
        self.made: dict[str, tuple[str, list[str]]] = {}
        """By name, which primitive of which values gave a value."""
        self.done: dict[Any, list[str]] = {}
        """The values that a primitive with these parameters gave for these operands: a step is done once."""
        self.views: dict[str, tuple[str, tuple[int, ...]]] = {}
        """By name, what a value is in another shape, and what shape that has."""
        self.space: dict[str, Any] = {**COMMON}
        self.constants: dict[Any, str] = {}
        """Names of these by what they are, so that steps of equal ones are the same step."""
        self.known: dict[str, Any] = {}
        """The values of names that are the same in each call."""
        self.compact: dict[str, Any] = {}
        """By name, values that are to be spread yet, as variables: a ufunc does that by itself."""
        self.forms: dict[str, Any] = {}
        """The shapes that these have."""
        self.warns = False
        """Whether NumPy may warn of a value."""
        self.wide: dict[str, str] = {}
        """By the name of a value of a half type, that of the value in float32 that it is rounded from, or is."""
        self.fresh: set[str] = set()
        """Names of values in new memory, or of numbers."""
        self.of_ufuncs: set[str] = set()
        """Names of values that a ufunc gives, which can put them anywhere."""
        self.spread: dict[str, str] = {}
        """By name, values that were spread."""
        self.count = 0
        self.entries: list[Entry] = []
        self.work: list[Callable[[Any], tuple[int, float]]] = []
        """Of a loop, and of a step whose price depends on more, the elements that it touches, and its price."""
        self.alike: dict[Any, Counter[tuple[float, float]]] = {}
        """By what steps touch, how many there are of each price."""
        self._of_kind: dict[int, int] = {}
        """By kind of shape and dtype, a value of it."""
        self._varying: set[str] = set()
        """Names that stand for the same in each call, which depends on sizes."""
        self._tuples: dict[str, str] = {}
        """By the text of a tuple of sizes, its name."""
        if source is not None:
            names = {e.primitive.name for e in closed.jaxpr.eqns}
            if closed.effects or not names.isdisjoint(_NESTED) or not names.isdisjoint(choice.EXCEPTIONS):
                raise No
        for v in closed.jaxpr.invars:
            check(v.aval, halves=True)
        if max([v.aval.size for v in closed.jaxpr.outvars], default=0) > self.room.largest:
            raise No
        self.args = [f"a{i}" for i in range(len(closed.jaxpr.invars))]
        self.numbers: dict[str, str] = {}
        """By the name of a number as an array, that of the argument."""
        consts = [self._constant(np.asarray(c)) for c in closed.consts]
        self.outs = self._run(closed.jaxpr, consts, [*map(self._given, self.args, closed.jaxpr.invars)])

    def code(self, single: bool, form: bool) -> Code:
        """Return what came of it; with `form` also for a kernel that has code written by hand."""
        if self.room.blocks:
            if (lines := self._in_blocks(single)) is None:
                raise No
            return Code(self, self._text_of_kernel(lines))
        text = self._text_of_kernel(self._at_once(single))
        formed = self._text_with_form(single) if form and len(self.args) <= FEW else None
        goes = self.source is not None and choice.goes_in_blocks(self.closed.jaxpr)
        lines = self._in_blocks(single) if goes else None
        in_blocks = None if lines is None else self._text_of_kernel(lines)
        return Code(self, text, formed, choice.LIMIT * (choice.OF_FORM if form else 1.0), in_blocks)

    def _text_of_kernel(self, inner: Sequence[str]) -> Any:
        """A function that looks at its arguments, and has these lines."""
        all_args = ", ".join(self.args)
        lines = [f"def kernel({all_args}):", f"    if nans.value or infs.value: return xla({all_args})"]
        few = len(self.args) <= FEW
        otherwise = f"return xla({all_args})" if few else "raise Unsure"
        looks = [
            f"    {line}"
            for name, v in zip(self.args, self.closed.jaxpr.invars)
            for line in self._argument(name, v.aval, otherwise)
        ]
        if not few:  # with many arguments, code that names all of them for each one would be long
            looks = ["    try:", *[f"    {line}" for line in looks]]
            looks += [f"    except Unsure: return xla({all_args})"]
        lines += looks
        body = ["    try:", *[f"        {line}" for line in inner], f"    except unfit: return xla({all_args})"]
        if self.warns:
            lines += ["    for token in quietly:", *[f"    {line}" for line in body], "        finally: loudly(token)"]
        else:
            lines += body
        return compiled(without_sizes("\n".join(lines), self.space))

    def _at_once(self, single: bool) -> list[str]:
        """The lines that compute the results."""
        spread = [*map(self._spread, self.outs)]
        outs = [self._owned(name, v.aval) for name, v in zip(spread, self.closed.jaxpr.outvars)]
        return [*self._text(spread), f"return {_results(outs, single)}"]

    def _in_blocks(self, single: bool) -> list[str] | None:
        """The lines that compute the results block by block; None if a constant has elements."""
        wanted = self._wanted(self.outs)
        if any(np.ndim(self.known.get(name, 0)) for names in (self.outs, *[x.ins for x in wanted]) for name in names):
            return None
        avals = [(self._tuple(self._shape(v)), v.aval.dtype.name) for v in self.closed.jaxpr.outvars]
        arrays = [name for name, v in zip(self.args, self.closed.jaxpr.invars) if v.aval.ndim]
        lines, outs = blocks.lines(wanted, arrays, [*zip(self.outs, avals)], self.of_ufuncs)
        return [*lines, f"return {_results(outs, single)}"]

    def _owned(self, name: str, aval: Any) -> str:
        """A result as an array of its own."""
        if name not in self.fresh:
            return f"own({name})"
        # A ufunc's result has the order of its operands, and is a number where it has no dimensions.
        return f"({name} if {name}.flags.carray else own({name}))" if aval.shape else f"asarray({name})"

    def _text_with_form(self, single: bool) -> Any:
        """A function that calls `form`, and `derived` for values that the form does not take."""
        all_args = ", ".join(self.args)
        outs = [f"v{i}" for i in range(len(self.outs))]
        result = f"own(form({all_args}))" if single else "[" + ", ".join([f"own({v})" for v in outs]) + "]"
        lines = [f"def kernel({all_args}):", f"    if nans.value or infs.value: return xla({all_args})"]
        for name, v in zip(self.args, self.closed.jaxpr.invars):
            lines += [f"    {line}" for line in self._argument(name, v.aval, f"return xla({all_args})")]
        lines += ["    for token in quietly:", "        try:"]
        lines += [] if single else [f"            {', '.join(outs)}, = form({all_args})"]
        lines += [f"            return {result}"]
        lines += [f"        except untaken: return derived({all_args})", "        finally: loudly(token)"]
        return compiled("\n".join(lines))

    def body(self) -> Code:
        """NumPy code for the body of a loop, which returns a list of results. The caller has checked the arguments."""
        outs = [self._spread(name) for name in self.outs]
        lines = [f"def body({', '.join(self.args)}):", *[f"    {line}" for line in self._text(outs)]]
        text = "\n".join([*lines, f"    return [{', '.join(outs)}]"])
        return Code(self, compiled(without_sizes(text, self.space)), limit=choice.OF_ROUND)

    def _text(self, results: Sequence[str]) -> list[str]:
        """The lines that these results depend on."""
        return [line.text for line in self._wanted(results)]

    def _wanted(self, results: Sequence[str]) -> list[Line]:
        wanted, kept = {*results}, []
        for line in reversed(self.lines):
            if not wanted.isdisjoint(line.outs):
                wanted.update(line.ins)
                kept.append(line)
        return kept[::-1]

    def _argument(self, name: str, aval: Any, otherwise: str) -> list[str]:
        if aval.weak_type and not aval.shape:
            return [f"if {name}.__class__ not in numbers: {otherwise}"]
        return [
            f"if {name}.__class__ is not ndarray:",
            f"    if {name}.__class__ is not Array or {name}.committed: {otherwise}",
            f"    {name} = asarray({name})",
        ]

    def _given(self, name: str, v: Any) -> str:
        """The name of an argument as an array."""
        if not v.aval.weak_type or v.aval.shape:
            return name
        out = f"n{name}"
        self.numbers[out] = name
        self.warns = True
        self._add([out], f"{out} = asarray({name}, {v.aval.dtype.name})", [name])
        return out

    def _number_as(self, dt: Any, name: str) -> str:
        out = f"v{self.count}"
        self.count += 1
        self._add([out], f"{out} = asarray({self.numbers[name]}, {dt.name})", [])
        return out

    def _constant(self, value: np.ndarray) -> str:
        if value.size > self.room.largest:
            raise No
        key = (value.dtype, value.shape, value.tobytes()) if value.size <= FEW else len(self.known)
        name = self.constants.setdefault(key, f"c{len(self.known)}")
        self.known[name] = self.space[name] = value
        return name

    def _called(self, fn: Any) -> str:
        """A name for a function."""
        name = self._name("f")
        self.space[name] = fn
        return name

    def _name(self, kind: str) -> str:
        name = f"{kind}{len(self.space)}"
        self.space[name] = None
        return name

    # -- what is known of steps and values

    def _shape(self, v: Any) -> Any:
        """The shape of a value, to be compared with others: with the symbols in it."""
        return v.aval.shape if self.source is None or v.id is None else self.source.vars[v.id].aval.shape

    def _like(self, eqn: Any) -> Any:
        """A step with such shapes."""
        return eqn if self.source is None else self.source.eqns[eqn.at]

    def _fixed(self, eqn: Any) -> bool:
        """Return whether nothing about a step depends on sizes."""
        if self.source is None:
            return True
        values = (*eqn.invars, *eqn.outvars)
        return self.source.params[eqn.at][1] is None and not any(map(self._moves, values))

    def _moves(self, v: Any) -> bool:
        """Return whether the shape of a value depends on sizes."""
        return self.source is not None and v.id is not None and self.source.moves(v.id)

    def _value(self, name: str) -> Any:
        """What a name stands for if that is the same in each call, also if it is to be spread."""
        return self.known.get(self._root(name))

    def _root(self, name: str) -> str:
        """Return what a value is spread from."""
        return self.views[name][0] if name in self.compact and name in self.views else name

    def _literal(self, v: Any) -> str:
        dt = v.aval.dtype
        if self.source is None or v.id is None:
            return self._constant(np.asarray(v.val, dt))
        name = f"k{v.id}_{dt.name}"
        if name not in self.space:
            self.space[name] = None
            self._varying.add(name)
            self.entries.append(lambda now, space: space.__setitem__(name, np.asarray(now.numbers[v.id], dt)))
        return name

    # -- what depends on sizes

    def all_entries(self) -> list[Entry]:
        """Return what depends on sizes."""
        if not self._tuples:
            return self.entries
        names, text = [*self._tuples.values()], "".join([f"{t}," for t in self._tuples])
        tuples = eval(f"lambda s: ({text})")
        return [lambda now, space: space.update(zip(names, tuples(now.given))), *self.entries]

    def _tuple(self, shape: Any) -> str:
        """A shape as text."""
        if all(n.__class__ is int for n in shape):
            return str(shape)
        text = f"({''.join([self.source.sizes.text(n) + ',' for n in shape])})"
        return self._tuples.get(text) or self._tuples.setdefault(text, self._name("t"))

    def _filling(self, v: Any) -> str:
        """The name of a function that spreads a value."""
        if not self._moves(v):
            return self._called(host_steps.filling(v.aval))
        name = self._name("f")
        self.entries.append(lambda now, space: space.__setitem__(name, host_steps.filling(now.aval(v.id))))
        return name

    def _filled(self, v: Any, number: Any) -> str:
        """The name of an array with one number everywhere: it is filled once, and not in each call."""
        out = self._name("k")
        if self._moves(v):
            self.entries.append(lambda now, space: space.__setitem__(out, host_steps.filling(now.aval(v.id))(number)))
        else:
            self.space[out] = host_steps.filling(v.aval)(number)
        return out

    def _from_the_start(self, n: str) -> str | None:
        """The name of a function that counts places from the start, of an array with a number of elements."""
        root = self._root(n)
        if root not in self._varying:
            size = self.known.get(root)
            return (
                None if size is None or size.size != 1 else self._called(host_indexing.from_the_start(int(size.item())))
            )
        name = self._name("f")

        def entry(now: Any, space: dict[str, Any]) -> None:
            space[name] = host_indexing.from_the_start(int(space[root]))

        self.entries.append(entry)
        return name

    def _again(self, eqn: Any, known: Sequence[Any]) -> Callable[[Any], Any]:
        """Make what does a step for given sizes."""
        eqn = eqn._replace(params={})  # those of the choice of sizes that the code is made with

        def make(now: Any) -> Any:
            step, primitive = sized(now, eqn), host_steps.STEPS[eqn.primitive.name]
            avals = [v.aval for v in step.invars], [v.aval for v in step.outvars]
            fn = primitive.make(step.params, *avals)
            if primitive.knowing is not None:
                fn = primitive.knowing(step.params, *avals, known) or fn
            return fn

        return make

    def _line(
        self, eqn: Any, fn: Any, target: str, ins: Sequence[str], counts: Sequence[Any], known: Sequence[Any]
    ) -> str:
        """The code of a step; `known` are operands that are the same in each call, or what those are spread from."""
        as_it_is = self._is_elementwise(eqn, fn) or fn.__class__ in (inline.Choice, inline.Extreme)
        if as_it_is or self._fixed(eqn):
            inlined = isinstance(fn, inline.Inline)
            return fn.line(target, ins, counts) if inlined else f"{target} = {self._called(fn)}({', '.join(ins)})"
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

        text, rest = SIZES.sub(named, fn.text), apart(fn.text)[0]

        def entry(now: Any, space: dict[str, Any]) -> None:
            other = again(now)
            if other.__class__ is not fn.__class__ or other.fresh != fn.fresh:
                raise Changed
            found, numbers = apart(other.text)
            if found != rest:
                raise Changed
            space.update(zip(names, numbers))

        self.entries.append(entry)
        return text

    def _shaped(self, eqn: Any) -> None:
        """Note that a step only gives its operand another shape, and has to for all sizes."""
        if eqn.primitive.name in ("reshape", "squeeze") or self._fixed(eqn):
            return
        again = self._again(eqn, [None] * len(eqn.invars))

        def entry(now: Any, space: dict[str, Any]) -> None:
            if again(now).__class__ is not inline.Reshape:
                raise Changed

        self.entries.append(entry)

    def _is_elementwise(self, eqn: Any, fn: Any) -> bool:
        return host_steps.STEPS[eqn.primitive.name].spreads and fn.__class__ is np.ufunc

    def _is_fresh(self, eqn: Any, fn: Any) -> bool:
        """Return whether a step gives its result in new memory, for all sizes."""
        if isinstance(fn, np.ufunc):
            return self.source is None or self._is_elementwise(eqn, fn)
        return isinstance(fn, inline.Inline) and fn.fresh

    def _folded(self, eqn: Any, fn: Any, ins: Sequence[str]) -> list[str] | None:
        """The result of a step that is the same in each call."""
        if eqn.primitive.multiple_results:
            return None
        if not self._fixed(eqn):
            return self._folded_by_sizes(eqn, ins)
        if fn is None or not all(n in self.known for n in ins):
            return None
        if self.room.blocks and eqn.outvars[0].aval.ndim:
            return None  # a number takes the place of an array of it
        if not self.room.touch(eqn):
            raise No
        with np.errstate(all="ignore"):
            return [self._constant(np.asarray(fn(*[self.known[n] for n in ins])))]

    def _folded_by_sizes(self, eqn: Any, ins: Sequence[str]) -> list[str] | None:
        """The result of a step that is the same in each call for the same sizes."""
        if eqn.primitive.name == "broadcast_in_dim" or not all(n in self.known or n in self._varying for n in ins):
            return None
        name, again = self._name("k"), self._again(eqn, [None] * len(ins))

        def entry(now: Any, space: dict[str, Any]) -> None:
            with np.errstate(all="ignore"):
                space[name] = np.asarray(again(now)(*[space[n] for n in ins]))

        self.entries.append(entry)
        self._varying.add(name)
        return [name]

    def _priced(self, eqn: Any, primitive: host_steps.Primitive, fn: Any) -> Any:
        """What does a step, if NumPy is to do it."""
        if self.source is not None:
            self._note_price(eqn, primitive)
        else:
            price = 0.0 if choice.saves(eqn) else host_steps.cost(primitive, eqn)
            if (fn is None or price > choice.ALONE) and self.room.loops and eqn.primitive.name in _ALONE:
                fn, price = host_steps.compiled_alone(eqn), choice.ALONE
            if not self.room.touch(eqn) or not self.room.spend(price):
                raise No
        if fn is None:
            raise No
        return fn

    def _is_scattered(self, name: str) -> bool:
        """Return whether a value is one that was spread or transposed, which takes another shape by a copy."""
        spread = name in self.compact and any(n != 1 for n in self.forms[name])
        return spread or self.made.get(name, ("",))[0] == "transpose"

    def _note_price(self, eqn: Any, primitive: host_steps.Primitive) -> None:
        """Note what a step will cost for any sizes."""
        fixed = max([v.aval.size for v in choice.touching(eqn) if v.id is None], default=0)
        given = [v.id for v in choice.touching(eqn) if v.id is not None]
        ids = tuple(sorted({self._of_kind.setdefault(self.source.kinds[v], v) for v in given}))
        if primitive.cost is None:
            prices = self.alike.setdefault((ids, fixed), Counter())
            prices[primitive.overhead, primitive.per_element] += 1
            return
        eqn = eqn._replace(params={})

        def work(now: Any) -> tuple[int, float]:
            cost: Any = primitive.cost
            return max([now.elements(v) for v in ids], default=fixed), cost(sized(now, eqn))

        self.work.append(work)

    def _loop(self, eqn: Any) -> str:
        """The name of a function that does a loop."""
        if self.source is not None:
            return self._loop_by_sizes(eqn)
        inner = eqn.params["jaxpr"]
        body = Maker(inner, choice.room(inner.jaxpr, choice.OF_ROUND)).body().made()
        return self._called(host_steps.loop(eqn.params, body, [v.aval for v in eqn.outvars]))

    def _loop_by_sizes(self, eqn: Any) -> str:
        if eqn.at not in self.source.bodies:
            raise No
        source = self.source.bodies[eqn.at]["jaxpr"]
        closed = source.at(source.sizes.hints[: source.sizes.n])
        if any(e.primitive.name == "scan" for e in closed.jaxpr.eqns):
            raise No
        body, name = Maker(closed, _ANY_ROOM, source).body(), self._name("f")

        def work(now: Any) -> tuple[int, float]:
            touched = max([now.elements(v.id) for v in (*eqn.invars, *eqn.outvars) if v.id is not None], default=0)
            return touched, -choice.ROUND * now.params(eqn.at)["length"]

        def entry(now: Any, space: dict[str, Any]) -> None:
            made = body.made(source.now(now.given))
            space[name] = host_steps.loop(now.params(eqn.at), made, [now.aval(v.id) for v in eqn.outvars])

        self.work.insert(0, work)
        self.entries.append(entry)
        return name

    # -- step by step

    def _run(self, jaxpr: Any, consts: Sequence[str], args: Sequence[str]) -> list[str]:
        env: dict[Any, str] = dict(zip(jaxpr.constvars, consts))
        env.update(zip(jaxpr.invars, args))
        self.room.left += choice.ROUND * sum([e.params["length"] for e in jaxpr.eqns if e.primitive.name == "scan"])

        def name_of(v: Any) -> str:
            return self._literal(v) if hasattr(v, "val") else env[v]

        for eqn in shorter.needed(jaxpr):
            ins = [name_of(v) for v in eqn.invars]
            found = self._once(eqn, ins) if not (inner := choice.inner_of(eqn)) else []
            for closed, taken in inner:
                consts = [self._constant(np.asarray(c)) for c in getattr(closed, "consts", ())]
                found = self._run(getattr(closed, "jaxpr", closed), consts, [ins[i] for i in taken])
            env.update(zip(eqn.outvars, found))
        return [name_of(v) for v in jaxpr.outvars]

    def _once(self, eqn: Any, ins: list[str]) -> list[str]:
        """The values of a step, which may be ones that are there already."""
        if eqn.primitive.name == "convert_element_type" and ins[0] in self.numbers and _narrows(eqn):
            return [self._number_as(eqn.outvars[0].aval.dtype, ins[0])]
        like = self._like(eqn)
        given = shorter.unchanged(like, [self._value(n) for n in ins])
        if given is not None:
            return [ins[given]]
        key = shorter.key_of(like, ins)
        found = None if key is None else self.done.get(key)
        if found is None:
            found = self._step(eqn, ins)
            if key is not None:
                self.done[key] = found
        return found

    def _step(self, eqn: Any, ins: list[str]) -> list[str]:
        primitive = host_steps.STEPS.get(eqn.primitive.name)
        if primitive is None:
            return self._bodies(eqn, ins)
        if (moved := self._counted_from_the_end(eqn, ins)) is not None:
            return [moved]
        if (negated := self._sum_of_negatives(eqn, ins)) is not None:
            return [negated]
        if primitive.spreads and eqn.primitive.name not in host_steps.MOVES and has_halves(eqn):
            return [self._in_float32(eqn, ins)]
        for v in (*eqn.invars, *eqn.outvars):
            check(v.aval, eqn.primitive.name in host_steps.MOVES)
        avals = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
        fn = primitive.make(eqn.params, *avals)
        if (folded := self._folded(eqn, fn, ins)) is not None:
            return folded
        if eqn.primitive.name == "broadcast_in_dim":
            return [self._broadcast(eqn, *ins)]
        copies = eqn.primitive.name == "reshape" and self._is_scattered(ins[0])
        fn = self._priced(eqn, primitive._replace(cost=host_steps.cost_of_gathering) if copies else primitive, fn)
        known = [self._value(n) for n in ins]
        if primitive.knowing is not None:
            fn = primitive.knowing(eqn.params, *avals, known) or fn
        self.warns = self.warns or not host_steps.is_silent(eqn)
        if isinstance(fn, inline.Reshape):
            self._shaped(eqn)
            return [self._reshaped(self._spread(ins[0]), self._shape(eqn.invars[0]), self._shape(eqn.outvars[0]))]
        outs = [f"v{self.count + i}" for i in range(len(eqn.outvars))]
        self.count += len(outs)
        self.made[outs[0]] = eqn.primitive.name, ins
        forms: list[Any] = [self._shape(v) for v in eqn.invars]
        if primitive.spreads:
            forms = [self.forms.get(n, form) for n, form in zip(ins, forms)]
            self._stays_compact(outs[0], together(forms), eqn.outvars[0])
        else:
            ins = [self._spread(n) for n in ins]
        target = f"[{', '.join(outs)}]" if eqn.primitive.multiple_results else outs[0]
        if self._is_fresh(eqn, fn):
            self.fresh.add(target)
        if self._is_elementwise(eqn, fn):
            self.of_ufuncs.add(target)
        counts = [math.prod(form) for form in (*forms, self._shape(eqn.outvars[0]))]
        self._add(outs, self._line(eqn, fn, target, ins, counts, known), ins)
        return outs

    def _in_float32(self, eqn: Any, ins: Sequence[str]) -> str:
        """The value of an elementwise step of half types, which is done in float32 and rounded.

        Steps that follow have it as it was before, as XLA's have.
        """
        if self.source is not None:
            raise No  # such code is made for sizes that are given
        half = next(v.aval for v in (*eqn.outvars, *eqn.invars) if v.aval.dtype in inline.HALVES)
        if not self.room.spend(host_steps.cost_of_rounding(half)):
            raise No
        wide = SizedStep(eqn.primitive, eqn.params, [*map(widened, eqn.invars)], [*map(widened, eqn.outvars)])
        given = [self._wide(n, v) if v.aval.dtype in inline.HALVES else n for n, v in zip(ins, eqn.invars)]
        (found,) = self._step(wide, given)
        out = eqn.outvars[0]
        if out.aval.dtype not in inline.HALVES:
            return found
        name = self._converted(found, wide.outvars[0], out)
        self.wide[name] = found
        return name

    def _wide(self, name: str, v: Any) -> str:
        """A value of a half type in float32."""
        if name not in self.wide:
            self.wide[name] = self._converted(name, v, widened(v))
        return self.wide[name]

    def _converted(self, name: str, old: Any, new: Any) -> str:
        (out,) = self._once(SizedStep(lax.convert_element_type_p, {"new_dtype": new.aval.dtype}, [old], [new]), [name])
        return out

    def _stays_compact(self, name: str, form: tuple[Any, ...], v: Any) -> None:
        """Remember a value that has fewer elements yet than it is to have."""
        if form != self._shape(v):
            self.compact[name], self.forms[name] = v, form

    def _add(self, outs: Sequence[str], text: str, ins: Sequence[str]) -> None:
        self.lines.append(Line((*outs,), text, (*ins,)))

    def _counted_from_the_end(self, eqn: Any, ins: list[str]) -> str | None:
        """The places `i` if a step is ``where(i < 0, i + n, i)``, which leaves nearly all places what they are.

        The value that it gives is then made by one look at them.
        """
        if eqn.primitive.name != "select_n" or len(ins) != 3:
            return None
        (_, at, moved), (kind, compared) = ins, self.made.get(ins[0], ("", []))
        moves, added = self.made.get(moved, ("", []))
        if (kind, moves) != ("lt", "add") or compared[0] != at or added[0] != at:
            return None
        zero = self._value(compared[1])
        if zero is None or zero.any() or eqn.outvars[0].aval.dtype.kind != "i":
            return None
        if (counted := self._from_the_start(added[1])) is None:
            return None
        out = f"v{self.count}"
        self.count += 1
        self._add([out], f"{out} = {counted}({at})", [at])
        self._stays_compact(out, self.forms.get(at, self._shape(eqn.outvars[0])), eqn.outvars[0])
        return out

    def _sum_of_negatives(self, eqn: Any, ins: list[str]) -> str | None:
        """Minus a sum if a step adds up what was negated: no bit of it differs, and there is less to negate."""
        kind, negated = self.made.get(ins[0], ("", [])) if eqn.primitive.name == "reduce_sum" else ("", [])
        if kind != "neg" or ins[0] in self.compact or negated[0] in self.compact:
            return None
        (total,) = self._step(eqn, negated)
        out = f"v{self.count}"
        self.count += 1
        self._add([out], f"{out} = {self._called(np.negative)}({total})", [total])
        return out

    def _bodies(self, eqn: Any, ins: list[str]) -> list[str]:
        """A loop with a known number of rounds, or a choice of what to do."""
        self.warns = True
        for v in eqn.outvars:
            check(v.aval)
        if not self.room.touch(eqn):
            raise No
        if eqn.primitive.name == "scan":
            called = self._loop(eqn)
        elif eqn.primitive.name == "cond":
            called = self._called(
                host_steps.chosen([Maker(b, self.room).body().made() for b in choice.branches_of(eqn)])
            )
        else:
            raise No
        outs = [f"v{self.count + i}" for i in range(len(eqn.outvars))]
        self.count += len(outs)
        ins = [*map(self._spread, ins)]
        self._add(outs, f"[{', '.join(outs)}] = {called}({', '.join(ins)})", ins)
        return outs

    def _broadcast(self, eqn: Any, of: str) -> str:
        """A value that is to be spread: only its dimensions of one element are made, and where there is one none."""
        shape, dims, inner = self._shape(eqn.outvars[0]), eqn.params["broadcast_dimensions"], self._shape(eqn.invars[0])
        of = self._spread(of)
        form: list[Any] = [1] * len(shape)
        for d, n in zip(dims, inner):
            form[d] = n
        whole = tuple(form) == shape
        one = all(n.__class__ is int and n == 1 for n in inner)
        spread = () if one and not whole else tuple(form)  # a ufunc begins at once if it need not look at shapes
        out = self._reshaped(of, inner, spread, fresh=not whole)
        self._stays_compact(out, spread, eqn.outvars[0])
        return out

    def _reshaped(self, name: str, old: tuple[int, ...], new: tuple[int, ...], fresh: bool = False) -> str:
        """A value in another shape; with `fresh` under a name of its own."""
        root, shape = self.views.get(name, (name, old))
        if shape == new and not fresh:
            return root
        out = f"v{self.count}"
        self.count += 1
        self.views[out] = root, shape
        self._add([out], f"{out} = {root}.reshape({self._tuple(new)})" if shape != new else f"{out} = {root}", [root])
        return out

    def _spread(self, name: str) -> str:
        """The name of a value with all elements of its broadcast shape."""
        v = self.compact.get(name)
        if v is None:
            return name
        out, number = self.spread.get(name), self._value(name)
        if out is None and number is not None and not number.shape:
            out = self.spread[name] = self._filled(v, number)
        if out is None:
            out = self.spread[name] = f"v{self.count}"
            self.count += 1
            self._add([out], f"{out} = {self._filling(v)}({name})", [name])
            self.fresh.add(out)
        return out


def _results(outs: Sequence[str], single: bool) -> str:
    return outs[0] if single else "[" + ", ".join(outs) + "]"


def _narrows(eqn: Any) -> bool:
    """Return whether a step makes float32 of float64, which Python's floats become at once."""
    return (eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype) == (np.float64, np.float32)
