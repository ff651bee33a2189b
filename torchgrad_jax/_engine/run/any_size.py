"""Steps whose sizes are symbols, and the same steps for given sizes.

    (s0, 3) -> mul, broadcast_in_dim[shape=(s0, 3)], ...   # traced once
    AnySize(sizes, steps).at((7,))                         # the steps that a trace of (7, 3) gives

All shapes and all parameters with symbols in them are one compiled function of the sizes, so that `at` evaluates
nothing but that. A step that gives one number made of sizes alone (the `n` that a mean divides by) is such a number
afterwards, as it is in a trace of given shapes. Jaxprs among parameters, such as the body of a loop, are steps of
their own.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import jax
import numpy as np

from ..._core.host.code import No, silently, takes
from ..._core.host.general import Aval, Changed, Program
from ..._core.host.inline import Unsure
from ..._core.host.steps import MOVES, STEPS
from ..._core.jax.sizes import NotGeneral, Size, Sizes
from .steps import Closed, Const, Equation, Literal, Steps, Var

MOST = 4
"""Templates of a call for the same dtypes. A call that needs more decides by its sizes what to do."""
_NUMBERS = frozenset((int, bool, float, complex, str, type(None)))
_PLAIN = (*_NUMBERS, np.dtype, type, enum.Enum, np.generic)
_WITHOUT_SIZES = frozenset((
    "GatherDimensionNumbers", "ScatterDimensionNumbers", "ConvDimensionNumbers", "DotAlgorithm", "NamedSharding",
    "SingleDeviceSharding", "PrngKeyImpl", "PRNGImpl", "AbstractMesh", "FTTuple", "FTPyTree",
))  # fmt: skip
"""Classes of parameters that hold numbers of dimensions, or nothing that has to do with shapes.

The last two are trees of None that say which inputs of a loop are constants, from JAX 0.12 on.
"""


class AnySize:
    """Steps whose sizes are symbols."""

    def __init__(self, sizes: Sizes, steps: Steps) -> None:
        if steps.effects:
            raise NotGeneral("it has effects")
        self.sizes, self.steps = sizes, steps
        texts = _Texts(sizes)
        kinds: dict[Any, int] = {}
        self.kinds = [kinds.setdefault(texts.aval(aval), len(kinds)) for aval in steps.avals]
        """Of each value, which of the few kinds of shape and dtype it has."""
        self.dtypes = [key[1:] for key in kinds]
        self._moves = ["s" in key[0] for key in kinds]
        moving: list[str] = []
        self.params = [self._step(sizes, texts, eqn, moving) for eqn, _, _ in steps.steps]
        """Of each step its parameters without sizes, and the number of those with sizes or None."""
        self.bodies: dict[int, dict[str, _Body]] = {}
        """By step, the jaxprs among its parameters that sizes are in."""
        for i, (eqn, _, _) in enumerate(steps.steps):
            if found := {k: texts.bodies[id(v)] for k, v in eqn.params.items() if id(v) in texts.bodies}:
                self.bodies[i] = found
        text = f"lambda s: (({''.join(k[0] + ',' for k in kinds)}), ({''.join(m + ',' for m in moving)}))"
        self._numbers = eval(text, texts.space)
        self.exact = texts.exact and not steps.lost_rules
        """Whether JAX differentiates these steps as it does the function that they come from."""
        self.folds = dict.fromkeys(self._folded())
        folded = {outs[0]: Const(None, outs[0]) for i, (_, _, outs) in enumerate(steps.steps) if i in self.folds}
        self.out: list[Any] = [folded.get(r, r) if r.__class__ is int else r for r in steps.out]
        """The results; numbers that are made of sizes are constants without a value."""
        self.slices: dict[Any, Any] = {}
        """What parts of the steps need and read."""
        self._programs: dict[Any, list[Program]] = {}
        self._without: set[Any] = set()
        """The keys of what has no NumPy code for any sizes."""
        self._last: AtSizes | None = None
        """Several parts of the steps are asked for with the same sizes, one after the other."""

    def _step(self, sizes: Sizes, texts: _Texts, eqn: Any, moving: list[str]) -> tuple[Any, int | None]:
        if eqn.primitive.name == "reshape":  # whose numbers of elements JAX compares for shapes of numbers alone
            sizes.require(eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape)
        params = eqn.params
        if eqn.primitive.name == "from_sizes":
            params = {"sizes": params["sizes"]}
        found = {name: None if texts.is_body(value) else texts.text(value) for name, value in params.items()}
        given = ", ".join([f"{name!r}: {text}" for name, text in found.items() if text is not None])
        if given:
            moving.append(f"{{{given}}}")
        fixed = {name: params[name] for name, text in found.items() if text is None}
        return fixed, len(moving) - 1 if given else None

    def _folded(self) -> Any:
        """The steps that make one number of sizes and of numbers alone."""
        known: set[int] = set()
        for i, (eqn, refs, outs) in enumerate(self.steps.steps):
            if len(outs) > 1 or (self.steps.avals[outs[0]].shape and eqn.primitive.name != "from_sizes"):
                continue
            if all(r in known or (r.__class__ is Const and not np.shape(r.value)) for r in refs) and _can_fold(eqn):
                known.add(outs[0])
                yield i

    def moves(self, value: int) -> bool:
        """Whether the shape of a value depends on sizes."""
        return self._moves[self.kinds[value]]

    def at(self, numbers: Sequence[int]) -> Steps:
        """The steps for these sizes."""
        now = self.now(numbers)
        kinds = [jax.core.ShapedArray(shape, *more) for shape, more in zip(now.shapes, self.dtypes)]
        out = object.__new__(Steps)
        out.avals, out.n_in, out.effects = [kinds[k] for k in self.kinds], self.steps.n_in, self.steps.effects
        out.real_parts = self.steps.real_parts
        known = {o: Const(value, o) for o, value in now.numbers.items()}
        names: list[Any] = [Var(aval) for aval in out.avals]
        out.steps = []
        for i, (eqn, refs, outs) in enumerate(self.steps.steps):
            if i in self.folds:
                continue
            values = [r if r.__class__ is Const else known.get(r) for r in refs]
            ins = [
                names[r] if c is None else Literal(v.aval if c is r else out.avals[r], c.value, c.id)
                for r, c, v in zip(refs, values, eqn.invars)
            ]
            refs = [r if c is None else c for r, c in zip(refs, values)]
            made = Equation(eqn.primitive, now.whole_params(i), ins, [names[o] for o in outs], (), i)
            out.steps.append((made, refs, outs))
        out.out = [known.get(r, r) for r in self.steps.out]
        return out

    def in_numpy(self, key: Any, numbers: Sequence[int], closed: Callable[[], Any], kernel: Any, form: Any) -> Any:
        """NumPy code for these sizes, or None where XLA has to do it; `Changed` where there is no telling.

        Args:
            key: what of the steps it is; its first part says whether it gives one result.
            numbers: the sizes.
            closed: gives these steps for these sizes.
            kernel: the compiled function.
            form: the same, written by hand, or None.
        """
        single, key = key[0], (key, form is not None)
        now, found = self.now(numbers), self._programs.setdefault(key, [])
        with suppress(Changed, Unsure):
            for program in found:
                if program.holds(numbers):
                    return program.at(now, kernel, form)
        if key in self._without:
            raise Changed
        try:
            program = Program(self, closed(), single, form is not None)
            made = program.at(now, kernel, form)
        except (No, Unsure, Changed):
            self._without.add(key)
            raise Changed from None
        found.append(program)
        if len(found) >= MOST:
            self._without.add(key)
        return made

    def fits(self, key: Any, numbers: Sequence[int]) -> bool | None:
        """Whether NumPy would compute what has no code written by hand; None where only making its code tells."""
        with suppress(Changed, Unsure):
            for program in self._programs.get((key, False), ()):
                if program.holds(numbers):
                    return program.fits(self.now(numbers))
        return None

    def now(self, numbers: Sequence[int]) -> AtSizes:
        """What these sizes make of shapes, parameters and numbers."""
        last = self._last
        if last is None or last.given != numbers:
            last = self._last = AtSizes(self, numbers)
        return last

    def closed(self, numbers: Sequence[int]) -> Any:
        """The steps for these sizes as a function of their arguments."""
        steps = self.at(numbers)
        return steps.closed(range(steps.n_in), steps.out, frozenset(), steps.steps)


class AtSizes:
    """Shapes, parameters and numbers of steps for given sizes."""

    __slots__ = ("_avals", "_moving", "_of", "given", "numbers", "shapes")

    def __init__(self, of: AnySize, numbers: Sequence[int]) -> None:
        self._of, self.given = of, numbers
        self.shapes, self._moving = of._numbers(numbers)
        """Shapes by kind of value."""
        self._avals: list[Any] = [None] * len(self.shapes)
        self.numbers: dict[int, Any] = {}
        """By value, the numbers that are made of sizes."""
        for i in of.folds:
            eqn, refs, outs = of.steps.steps[i]
            values = [r.value if r.__class__ is Const else self.numbers[r] for r in refs]
            self.numbers[outs[0]] = _value(eqn, self.params(i), values, self.aval(outs[0]))

    def aval(self, value: int) -> Aval:
        """What is known of a value."""
        kind = self._of.kinds[value]
        found = self._avals[kind]
        if found is None:
            found = self._avals[kind] = Aval(self.shapes[kind], *self._of.dtypes[kind])
        return found

    def elements(self, value: int) -> int:
        """How many elements a value has."""
        return self.aval(value).size

    def params(self, step: int) -> dict[str, Any]:
        """The parameters of a step."""
        fixed, at = self._of.params[step]
        return fixed if at is None else {**fixed, **self._moving[at]}

    def whole_params(self, step: int) -> dict[str, Any]:
        """The same, with the jaxprs among them."""
        params, bodies = self.params(step), self._of.bodies.get(step)
        return params if bodies is None else {**params, **{name: body(self.given) for name, body in bodies.items()}}


class _Body:
    """A jaxpr among the parameters of a step; all that it calls is a part of it."""

    def __init__(self, sizes: Sizes, jaxpr: Any) -> None:
        self._like, steps = jaxpr, Steps(_closed(jaxpr), whole=True)
        if any(r.__class__ is Const and np.shape(r.value) for _, refs, _ in steps.steps for r in refs):
            raise NotGeneral("a loop has arrays of its own")
        self.steps = AnySize(sizes, steps)
        self.exact = self.steps.exact

    def __call__(self, numbers: Sequence[int]) -> Any:
        """The same for these sizes."""
        from jax.extend.core import ClosedJaxpr, Literal, Var, new_jaxpr_eqn

        steps = self.steps.closed(numbers).jaxpr
        names: dict[Any, Any] = {}

        def named(values: Sequence[Any]) -> list[Any]:
            return [
                Literal(np.asarray(v.val, v.aval.dtype), v.aval)
                if hasattr(v, "val")
                else names.get(v) or names.setdefault(v, Var(v.aval))
                for v in values
            ]

        ins = named(steps.invars)
        eqns = [
            new_jaxpr_eqn(named(e.invars), named(e.outvars), e.primitive, e.params, frozenset()) for e in steps.eqns
        ]
        like = getattr(self._like, "jaxpr", self._like)
        made = like.replace(constvars=[], invars=ins, outvars=named(steps.outvars), eqns=eqns)
        return made if like is self._like else ClosedJaxpr(made, ())


class _Texts:
    """Parameters as expressions in `s`; what is no number goes by a name."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self.space: dict[str, Any] = {}
        self.bodies: dict[int, _Body] = {}
        self.exact = True
        """Whether no jaxpr among the parameters has lost a rule for its derivative."""

    def aval(self, aval: Any) -> tuple[str, Any, bool]:
        """What tells one kind of value from others."""
        if not isinstance(aval.dtype, np.dtype):
            raise NotGeneral(f"values of type {aval.dtype}")
        return f"({''.join([self._sizes.text(n) + ',' for n in aval.shape])})", aval.dtype, bool(aval.weak_type)

    def text(self, x: Any) -> str | None:
        """The expression of a parameter that has sizes in it, or None."""
        kind = x.__class__
        if kind is Size:
            return self._sizes.text(x)
        if kind in _NUMBERS or (kind is tuple and _NUMBERS.issuperset([v.__class__ for v in x])):
            return None
        if isinstance(x, _PLAIN) or x.__class__.__name__ in _WITHOUT_SIZES:
            return None
        if x.__class__ in (tuple, list) or hasattr(x, "_fields"):
            parts = [self.text(v) for v in x]
            if all(part is None for part in parts):
                return None
            full = [self._name(v) if part is None else part for v, part in zip(x, parts)]
            listed = "".join([part + "," for part in full])
            if x.__class__ is list:
                return f"[{listed}]"
            return f"({listed})" if x.__class__ is tuple else f"{self._name(x.__class__)}({listed})"
        if x.__class__ in (frozenset, set, dict) and not x:
            return None
        if _of_numbers(getattr(x, "jaxpr", x)):
            return None
        if self.is_body(x):
            return f"{self._name(self.bodies[id(x)])}(s)"
        raise NotGeneral(f"a parameter of {x.__class__}")

    def is_body(self, x: Any) -> bool:
        """Whether this is a jaxpr with sizes in it, which is then among `bodies`."""
        if not hasattr(getattr(x, "jaxpr", x), "eqns") or _of_numbers(getattr(x, "jaxpr", x)):
            return False
        if id(x) not in self.bodies:
            self.bodies[id(x)] = body = _Body(self._sizes, x)
            self.exact &= body.exact
        return True

    def _name(self, x: Any) -> str:
        name = f"k{len(self.space)}"
        self.space[name] = x
        return name


def _of_numbers(jaxpr: Any) -> bool:
    """Whether this is a jaxpr that computes with single numbers, as that of a scatter does."""
    eqns = getattr(jaxpr, "eqns", None)
    if eqns is None:
        return False
    values = [*jaxpr.invars, *jaxpr.outvars, *[v for e in eqns for v in e.outvars]]
    return all(v.aval.shape == () for v in values) and all(
        isinstance(p, _PLAIN) for e in eqns for p in e.params.values()
    )


def _closed(jaxpr: Any) -> Any:
    return jaxpr if hasattr(jaxpr, "consts") else Closed(jaxpr)


def _can_fold(eqn: Any) -> bool:
    name = eqn.primitive.name
    if name == "from_sizes":
        return True
    if name not in STEPS or eqn.primitive.multiple_results:
        return False
    plain = all(takes(v.aval.dtype, name in MOVES) for v in (*eqn.invars, *eqn.outvars))
    return plain and _step_of(eqn, eqn.params) is not None


def _step_of(eqn: Any, params: Any) -> Any:
    return STEPS[eqn.primitive.name].make(params, [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars])


def _value(eqn: Any, params: Any, values: Sequence[Any], aval: Any) -> Any:
    """The number that a step gives."""
    if eqn.primitive.name == "from_sizes":
        return np.asarray(eqn.params["fn"](*params["sizes"]), aval.dtype)
    given = [np.asarray(x, v.aval.dtype) for x, v in zip(values, eqn.invars)]
    return np.asarray(silently(_step_of(eqn, params))(*given), aval.dtype)
