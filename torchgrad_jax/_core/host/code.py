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
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from ..jax.own_kernels import jit
from ..jax.private import DEBUG_INFS, DEBUG_NANS, ArrayImpl
from . import choice, indexing as host_indexing, inline, shorter, steps as host_steps
from .inline import Step, Unsure

_ALONE = ("dot_general",)
"""Steps of a program with a loop that XLA may do alone, with NumPy doing the rest."""

FEW = 16
"""Arguments of which each says itself what is done when NumPy can't take it: XLA does the call."""


class No(Exception):
    """The kernel has a step that only XLA can do, or too much work for NumPy."""


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
    if closed.effects or not possible():
        return None
    try:
        maker = Maker(closed, kernel, choice.room(closed.jaxpr, limit, 1.0 if form is None else choice.OF_FORM))
        derived = maker.function(single)
    except (No, Unsure):
        return None
    return derived if form is None or len(maker.args) > FEW else maker.with_form(form, derived, single)


def possible() -> bool:
    """Whether NumPy may compute anything."""
    return choice.EXECUTOR != "xla" and jax.default_backend() == "cpu"


class Line(NamedTuple):
    """One line of the code."""

    outs: tuple[str, ...]
    """The values that it makes."""
    text: str
    ins: tuple[str, ...]
    """The values that it reads."""


class _Value(NamedTuple):
    """An operand or a result of a step."""

    aval: Any


class _Step(NamedTuple):
    """A step that takes the place of one of a jaxpr."""

    primitive: Any
    params: dict[str, Any]
    invars: list[Any]
    outvars: list[Any]
    effects = ()


def _of_halves(eqn: Any) -> bool:
    return any(v.aval.dtype in inline.HALVES for v in (*eqn.invars, *eqn.outvars))


def _widened(v: Any) -> _Value:
    """What stands for a value in float32, if it is one of a half type."""
    aval = v.aval
    half = aval.dtype in inline.HALVES
    return _Value(jax.core.ShapedArray(aval.shape, np.float32, weak_type=aval.weak_type) if half else aval)


class Maker:
    """Code in the making."""

    def __init__(self, closed: Any, kernel: Any, room: choice.Room) -> None:
        self.closed, self.room = closed, room
        self.lines: list[Line] = []
        self.made: dict[str, tuple[str, list[str]]] = {}
        """By name, which primitive of which values gave a value."""
        self.done: dict[Any, list[str]] = {}
        """The values that a primitive with these parameters gave for these operands: a step is done once."""
        self.views: dict[str, tuple[str, tuple[int, ...]]] = {}
        """By name, what a value is in another shape, and what shape that has."""
        self.space: dict[str, Any] = {**COMMON, "xla": kernel}
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
        self.spread: dict[str, str] = {}
        """By name, values that were spread."""
        self.count = 0
        for v in closed.jaxpr.invars:
            _check(v.aval, halves=True)
        if max([v.aval.size for v in closed.jaxpr.outvars], default=0) > self.room.largest:
            raise No
        self.args = [f"a{i}" for i in range(len(closed.jaxpr.invars))]
        self.numbers: dict[str, str] = {}
        """By the name of a number as an array, that of the argument."""
        consts = [self._constant(np.asarray(c)) for c in closed.consts]
        self.outs = self._run(closed.jaxpr, consts, [*map(self._given, self.args, closed.jaxpr.invars)])

    def function(self, single: bool) -> Any:
        """What came of it."""
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
        spread = [*map(self._spread, self.outs)]
        outs = [self._owned(name, v.aval) for name, v in zip(spread, self.closed.jaxpr.outvars)]
        result = outs[0] if single else "[" + ", ".join(outs) + "]"
        inner = [*self._text(spread), f"return {result}"]
        body = ["    try:", *[f"        {line}" for line in inner], f"    except unfit: return xla({all_args})"]
        if self.warns:
            lines += ["    for token in quietly:", *[f"    {line}" for line in body], "        finally: loudly(token)"]
        else:
            lines += body
        return self._made(lines)

    def _owned(self, name: str, aval: Any) -> str:
        """A result as an array of its own."""
        if name not in self.fresh:
            return f"own({name})"
        # A ufunc's result has the order of its operands, and is a number where it has no dimensions.
        return f"({name} if {name}.flags.carray else own({name}))" if aval.shape else f"asarray({name})"

    def with_form(self, form: Step | None, derived: Step | None, single: bool) -> Any:
        """A function that calls `form`, and `derived` for values that the form does not take."""
        self.space = {**COMMON, "xla": self.space["xla"], "form": form, "derived": derived}
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
        return self._made(lines)

    def _made(self, lines: list[str]) -> Any:
        """The function `kernel` with this text."""
        return made_of(compiled(without_sizes("\n".join(lines), self.space)), self.space)

    def body(self) -> Step:
        """NumPy code for the body of a loop, which returns a list of results. The caller has checked the arguments."""
        outs = [self._spread(name) for name in self.outs]
        lines = [f"def body({', '.join(self.args)}):", *[f"    {line}" for line in self._text(outs)]]
        return self._made([*lines, f"    return [{', '.join(outs)}]"])

    def _text(self, results: Sequence[str]) -> list[str]:
        """The lines that these results depend on."""
        wanted, kept = {*results}, []
        for line in reversed(self.lines):
            if not wanted.isdisjoint(line.outs):
                wanted.update(line.ins)
                kept.append(line.text)
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

    # -- what is known of steps and values; for code of any sizes more than that

    def _literal(self, v: Any) -> str:
        return self._constant(np.asarray(v.val, v.aval.dtype))

    def _shape(self, v: Any) -> Any:
        """The shape of a value, to be compared with others."""
        return v.aval.shape

    def _like(self, eqn: Any) -> Any:
        """A step with such shapes."""
        return eqn

    def _tuple(self, shape: Any) -> str:
        """A shape as text."""
        return str(shape)

    def _filling(self, v: Any) -> str:
        """The name of a function that spreads a value."""
        return self._called(host_steps.filling(v.aval))

    def _line(
        self, eqn: Any, fn: Any, target: str, ins: Sequence[str], counts: Sequence[Any], known: Sequence[Any]
    ) -> str:
        """The code of a step; `known` are operands that are the same in each call, or what those are spread from."""
        inlined = isinstance(fn, inline.Inline)
        return fn.line(target, ins, counts) if inlined else f"{target} = {self._called(fn)}({', '.join(ins)})"

    def _is_fresh(self, eqn: Any, fn: Any) -> bool:
        """Whether a step gives its result in new memory."""
        return isinstance(fn, np.ufunc) or (isinstance(fn, inline.Inline) and fn.fresh)

    def _folded(self, eqn: Any, fn: Any, ins: Sequence[str]) -> list[str] | None:
        """The result of a step that is the same in each call."""
        if fn is None or eqn.primitive.multiple_results or not all(n in self.known for n in ins):
            return None
        if not self.room.touch(eqn):
            raise No
        with np.errstate(all="ignore"):
            return [self._constant(np.asarray(fn(*[self.known[n] for n in ins])))]

    def _priced(self, eqn: Any, primitive: host_steps.Primitive, fn: Any) -> Any:
        """What does a step, if NumPy is to do it."""
        price = 0.0 if choice.saves(eqn) else host_steps.cost(primitive, eqn)
        if (fn is None or price > choice.ALONE) and self.room.loops and eqn.primitive.name in _ALONE:
            fn, price = _compiled_alone(eqn), choice.ALONE
        if fn is None or not self.room.touch(eqn) or not self.room.spend(price):
            raise No
        return fn

    def _shaped(self, eqn: Any, fn: Any) -> None:
        """Note that a step only gives its operand another shape."""

    def _value(self, name: str) -> Any:
        """What a name stands for, be it spread or not, if that is the same in each call."""
        return self.known.get(name)

    def _loop(self, eqn: Any) -> str:
        """The name of a function that does a loop."""
        inner = eqn.params["jaxpr"]
        body = Maker(inner, None, choice.room(inner.jaxpr, choice.OF_ROUND)).body()
        return self._called(host_steps.loop(eqn.params, body, [v.aval for v in eqn.outvars]))

    def _from_the_start(self, n: str) -> str | None:
        """The name of a function that counts places from the start, of an array with a number of elements."""
        size = self.known.get(n)
        return None if size is None or size.size != 1 else self._called(host_indexing.from_the_start(int(size.item())))

    # -- step by step

    def _run(self, jaxpr: Any, consts: Sequence[str], args: Sequence[str]) -> list[str]:
        env: dict[Any, str] = dict(zip(jaxpr.constvars, consts))
        env.update(zip(jaxpr.invars, args))
        self.room.left += choice.ROUND * sum([e.params["length"] for e in jaxpr.eqns if e.primitive.name == "scan"])

        def name_of(v: Any) -> str:
            return self._literal(v) if hasattr(v, "val") else env[v]

        for eqn in _needed(jaxpr):
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
        if primitive.spreads and eqn.primitive.name not in host_steps.MOVES and _of_halves(eqn):
            return [self._in_float32(eqn, ins)]
        for v in (*eqn.invars, *eqn.outvars):
            _check(v.aval, eqn.primitive.name in host_steps.MOVES)
        avals = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
        fn = primitive.make(eqn.params, *avals)
        if (folded := self._folded(eqn, fn, ins)) is not None:
            return folded
        if eqn.primitive.name == "broadcast_in_dim":
            return [self._broadcast(eqn, *ins)]
        fn = self._priced(eqn, primitive, fn)
        known = [self._value(n) for n in ins]
        if primitive.knowing is not None:
            fn = primitive.knowing(eqn.params, *avals, known) or fn
        self.warns = self.warns or not host_steps.is_silent(eqn)
        if isinstance(fn, inline.Reshape):
            self._shaped(eqn, fn)
            return [self._reshaped(self._spread(ins[0]), self._shape(eqn.invars[0]), self._shape(eqn.outvars[0]))]
        outs = [f"v{self.count + i}" for i in range(len(eqn.outvars))]
        self.count += len(outs)
        self.made[outs[0]] = eqn.primitive.name, ins
        forms: list[Any] = [self._shape(v) for v in eqn.invars]
        if primitive.spreads:
            forms = [self.forms.get(n, form) for n, form in zip(ins, forms)]
            self._stays_compact(outs[0], _together(forms), eqn.outvars[0])
        else:
            ins = [self._spread(n) for n in ins]
        target = f"[{', '.join(outs)}]" if eqn.primitive.multiple_results else outs[0]
        if self._is_fresh(eqn, fn):
            self.fresh.add(target)
        counts = [math.prod(form) for form in (*forms, self._shape(eqn.outvars[0]))]
        self._add(outs, self._line(eqn, fn, target, ins, counts, known), ins)
        return outs

    def _in_float32(self, eqn: Any, ins: Sequence[str]) -> str:
        """The value of an elementwise step of half types, which is done in float32 and rounded.

        Steps that follow have it as it was before, as XLA's have.
        """
        half = next(v.aval for v in (*eqn.outvars, *eqn.invars) if v.aval.dtype in inline.HALVES)
        if not self.room.spend(host_steps.cost_of_rounding(half)):
            raise No
        wide = _Step(eqn.primitive, eqn.params, [*map(_widened, eqn.invars)], [*map(_widened, eqn.outvars)])
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
            self.wide[name] = self._converted(name, v, _widened(v))
        return self.wide[name]

    def _converted(self, name: str, old: Any, new: Any) -> str:
        (out,) = self._once(_Step(lax.convert_element_type_p, {"new_dtype": new.aval.dtype}, [old], [new]), [name])
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
            _check(v.aval)
        if not self.room.touch(eqn):
            raise No
        if eqn.primitive.name == "scan":
            called = self._loop(eqn)
        elif eqn.primitive.name == "cond":
            called = self._called(
                host_steps.chosen([Maker(b, None, self.room).body() for b in choice.branches_of(eqn)])
            )
        else:
            raise No
        outs = [f"v{self.count + i}" for i in range(len(eqn.outvars))]
        self.count += len(outs)
        ins = [*map(self._spread, ins)]
        self._add(outs, f"[{', '.join(outs)}] = {called}({', '.join(ins)})", ins)
        return outs

    def _called(self, fn: Any) -> str:
        """A name for a function."""
        name = f"f{len(self.space)}"
        self.space[name] = fn
        return name

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
        out = self.spread.get(name)
        if out is None:
            out = self.spread[name] = f"v{self.count}"
            self.count += 1
            self._add([out], f"{out} = {self._filling(v)}({name})", [name])
            self.fresh.add(out)
        return out


def made_of(code: Any, space: dict[str, Any]) -> Any:
    """The function of code, `kernel` or the `body` of a loop, with these names."""
    exec(code, space)
    if "body" in space:
        return space["body"]
    made, xla = space["kernel"], space["xla"]
    made.kernel, made.check = getattr(xla, "kernel", xla), _no_check
    if "derived" in space:
        made.derived = space["derived"]
    return made


SIZES = re.compile(r"\((?:\d+, ?)+\d*\)|(?<=[\[: ])\d+(?=[:\],])")


def without_sizes(text: str, space: dict[str, Any]) -> str:
    """The text with names for shapes and for places in slices: kernels that differ in these alone have the same."""

    def named(found: re.Match[str]) -> str:
        name = f"n{len(space)}"
        space[name] = eval(found[0])
        return name

    return SIZES.sub(named, text)


@functools.lru_cache(4096)
def apart(text: str) -> tuple[str, tuple[Any, ...]]:
    """The text without its shapes and places in slices, and these."""
    return SIZES.sub("", text), tuple(map(eval, SIZES.findall(text)))


@functools.lru_cache(2048)
def compiled(text: str) -> Any:
    return compile(text, f"{__file__}:kernel", "exec")


def _together(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """The shape that arrays of these have together, whose sizes may be symbols."""
    out: list[Any] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for d, n in enumerate(shape, len(out) - len(shape)):
            if n != 1:
                out[d] = n
    return tuple(out)


def _narrows(eqn: Any) -> bool:
    """Whether a step makes float32 of float64, which Python's floats become at once."""
    return (eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype) == (np.float64, np.float32)


def _compiled_alone(eqn: Any) -> Step | None:
    """One step as a compiled function of NumPy arrays, such as a large product beside a loop of slow compilation."""
    params = tuple(sorted(eqn.params.items()))
    try:
        kernel = _kernel_of(eqn.primitive, params)
    except TypeError:  # a parameter that cannot be a key
        return None
    return lambda *xs: np.asarray(kernel(*xs))


@functools.lru_cache(64)
def _kernel_of(primitive: Any, params: Any) -> Any:
    def step(*xs: Any) -> Any:
        return primitive.bind(*xs, **dict(params))

    step.__name__ = step.__qualname__ = primitive.name
    return jit(step)


def _needed(jaxpr: Any) -> list[Any]:
    """The equations that the results depend on."""
    wanted = {v for v in jaxpr.outvars if not hasattr(v, "val")}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects:
            raise No
        if not wanted.isdisjoint(eqn.outvars):
            kept.append(eqn)
            wanted.update(v for v in eqn.invars if not hasattr(v, "val"))
    return kept[::-1]


def _check(aval: Any, halves: bool = False) -> None:
    """Leave to XLA what computes in half types, save elementwise, and arrays without a plain shape."""
    shape, dt = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or not all(isinstance(n, int) for n in shape) or not takes(dt, halves):
        raise No


def takes(dt: Any, halves: bool = False) -> bool:
    """Whether steps compute in a type; with `halves` whether they move and convert it."""
    if not isinstance(dt, np.dtype):
        return False
    return halves if dt in inline.HALVES else dt.kind in "biuc" or (dt.kind == "f" and dt.itemsize >= 4)


def _own(x: Any) -> np.ndarray:
    """A result as an array of its own."""
    if x.__class__ is np.ndarray and x.base is None and x.flags.c_contiguous and x.flags.owndata:
        return x
    return np.array(x, order="C")


def silently(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's without its warnings."""

    def call(*args: Any) -> Any:
        for token in _QUIETLY:
            try:
                return fn(*args)
            finally:
                _LOUDLY(token)
        return None  # is not reached, since the loop has no end

    return call


def _no_check(xs: Any) -> None:
    """A kernel without checks: nothing has to hold before its step is recorded."""


def _warnings() -> tuple[Iterator[Any], Callable[[Any], Any]]:
    """What turns NumPy's warnings off, and what sets them as they were.

        for token in quietly:  # turned off, and what was set before is held: no signal comes in between
            try:
                return 1 / zeros
            finally:
                loudly(token)

    After a call and before its result has a name, Python may run a handler of signals; a loop's next round has no such
    point. An errstate costs 1 us, the variable behind it 0.1.
    """
    try:
        from numpy._core.umath import _extobj_contextvar, _make_extobj

        quiet = _make_extobj(all="ignore")
        _extobj_contextvar.reset(_extobj_contextvar.set(quiet))
        return map(_extobj_contextvar.set, repeat(quiet)), _extobj_contextvar.reset
    except (ImportError, AttributeError, TypeError):
        silent: Any = repeat("ignore")
        return map(np.seterr, silent), lambda before: np.seterr(**before)


_QUIETLY, _LOUDLY = _warnings()
COMMON: dict[str, Any] = {
    "ndarray": np.ndarray,
    **inline.NAMES,
    "own": _own,
    "Unsure": Unsure,
    "unfit": (Unsure, OverflowError),
    "untaken": (Unsure, IndexError, OverflowError),
    "numbers": frozenset((bool, int, float, complex)),
    "quietly": _QUIETLY,
    "loudly": _LOUDLY,
    "nans": DEBUG_NANS,
    "infs": DEBUG_INFS,
    "Array": ArrayImpl,
}
