"""What a trace becomes: flat steps over numbered values, whose sizes may be symbols.

    (s0, 3) -> mul, broadcast_in_dim[shape=(s0, 3)], ...   # traced once
    program.at((7,))                                       # the steps that a trace of (7, 3) gives
    program.slice([5], [0, 3])                             # value 5, computed from the values 0 and 3

A program without symbols is a trace of given shapes, or a slice of one. It is a closed jaxpr and the jaxpr inside at
once: `eqns` lead from `invars` to `outvars`.

With symbols, all shapes and all parameters with sizes in them are one compiled function of the sizes, so that `at`
evaluates nothing but that. A step that gives one number made of sizes alone (the `n` that a mean divides by) is such a
number afterwards, as it is in a trace of given shapes. Jaxprs among parameters, such as the body of a loop, are
programs of their own.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.host import choice, code as host
from ..._core.host.inline import Unsure
from ..._core.host.sized import Aval, Changed, Code, No, takes
from ..._core.host.space import silently
from ..._core.host.steps import MOVES, STEPS
from ..._core.jax.evaluate import evaluate
from ..._core.jax.private import CORE, ClosedJaxpr
from ..._core.jax.sizes import NotGeneral, Size, Sizes, written

_WITHOUT = "no code"
"""Stands for code in a file where there is none for any sizes."""
MOST = 4
"""Templates of a call for the same dtypes. A call that needs more decides by its sizes what to do."""
_INLINED = {"pjit", "jit", "closed_call", "core_call", "core_closed_call"}
_NUMBERS = frozenset((int, bool, float, complex, str, type(None)))
_PLAIN = (*_NUMBERS, np.dtype, type, enum.Enum, np.generic)
_WITHOUT_SIZES = frozenset((
    "GatherDimensionNumbers", "ScatterDimensionNumbers", "ConvDimensionNumbers", "DotAlgorithm", "NamedSharding",
    "SingleDeviceSharding", "PrngKeyImpl", "PRNGImpl", "AbstractMesh", "FTTuple", "FTPyTree",
))  # fmt: skip
"""Classes of parameters that hold numbers of dimensions, or nothing that has to do with shapes.

The last two are trees of None that say which inputs of a loop are constants, from JAX 0.12 on.
"""


class Var:
    """A value of a step, known by its identity; `aval` says what JAX knows of it."""

    __slots__ = ("aval", "id")

    def __init__(self, aval: Any, id: int) -> None:
        self.aval = aval
        self.id = id
        """Its number among the values of the program."""


class Literal:
    """A value of a step that is the same in each call."""

    __slots__ = ("aval", "id", "val")

    def __init__(self, aval: Any, val: Any, id: int | None = None) -> None:
        self.aval, self.val = aval, val
        self.id = id
        """Of a number that is made of sizes: its number among the values of the program."""


Ref = int | Literal
"""How the results of a program are given: as the number of a value, or as what is the same in each call."""


class Equation(NamedTuple):
    """One step, with as much of JAX's equations as is needed to evaluate it and to make NumPy code of it."""

    primitive: Any
    params: dict[str, Any]
    invars: list[Any]
    outvars: list[Any]
    effects: Any
    at: int
    """Which step of its program it is."""


class Program:
    """Flat steps over numbered values: a jaxpr whose nested calls are inlined.

    Args:
        closed: the jaxpr.
        sizes: the symbols in its shapes; None where there are none.
        whole: whether calls are inlined as well that have a rule of their own for derivatives, which is lost. They are
            in a program with symbols: a rule is Python code, and may have sizes in it.
    """

    constvars: Any = ()
    consts: Any = ()
    sizes: Sizes | None = None
    folds: Any = ()
    """The steps that give one number made of sizes."""
    place: Any = None
    """Where it is kept for other processes: a `Place` of `trace_files.py`."""
    number = 0
    """Which program of those that are kept there it is."""

    def __init__(self, closed: Any, sizes: Sizes | None = None, whole: bool = False) -> None:
        self._whole, self.exact = whole or sizes is not None, True
        self.closed = hasattr(closed, "jaxpr")
        """Whether it comes from a closed jaxpr, or from one without values of its own."""
        self.vars: list[Var] = []
        """By number."""
        jaxpr = getattr(closed, "jaxpr", closed)
        self._begin([], [self._new(v.aval) for v in jaxpr.invars], [], closed.effects)
        self.outvars = self._inline(jaxpr, getattr(closed, "consts", ()), self.invars, {})
        if sizes is not None:
            self._generalize(sizes)
        self.out: tuple[Ref, ...] = tuple([self._ref(v) for v in self.outvars])
        """The results. Numbers that are made of sizes are literals without a value."""

    def _begin(self, eqns: list[Equation], invars: list[Var], outvars: list[Any], effects: Any) -> None:
        self.eqns, self.invars, self.outvars, self.effects = eqns, invars, outvars, effects
        self.n_in = len(invars)
        self._needs: dict[Any, Any] = {}

    # -- from a jaxpr

    def _new(self, aval: Any) -> Var:
        made = Var(aval, len(self.vars))
        self.vars.append(made)
        return made

    def _inline(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], conjugates: dict[Any, Any]) -> list[Any]:
        env: dict[Any, Any] = {v: Literal(v.aval, c) for v, c in zip(jaxpr.constvars, consts)}
        env.update(zip(jaxpr.invars, args))

        def named(v: Any) -> Any:
            # Only literals have a value; their class is in jax.extend, which is slow to import.
            return Literal(v.aval, v.val) if hasattr(v, "val") else env[v]

        for eqn in jaxpr.eqns:
            ins, name = [named(v) for v in eqn.invars], eqn.primitive.name
            if name in _INLINED or (self._whole and name in choice.INNER):
                self.exact = self.exact and name in _INLINED
                sub = eqn.params.get("jaxpr") or eqn.params[choice.INNER.get(name, "call_jaxpr")]
                inner = getattr(sub, "jaxpr", sub)
                outs = self._inline(inner, getattr(sub, "consts", ()), ins, conjugates)
            elif name == "conj" and (undone := conjugates.get(ins[0])) is not None:
                outs = [undone]
            else:
                outs = [self._new(v.aval) for v in eqn.outvars]
                self.eqns.append(Equation(eqn.primitive, eqn.params, ins, outs, eqn.effects, len(self.eqns)))
                if name == "conj" and ins[0].__class__ is Var:
                    conjugates[outs[0]] = ins[0]
            env.update(zip(eqn.outvars, outs))
        return [named(v) for v in jaxpr.outvars]

    def _ref(self, v: Any) -> Ref:
        if v.__class__ is Literal:
            return v
        made_of_sizes = self.sizes is not None and v.id in self._made_of_sizes
        return Literal(v.aval, None, v.id) if made_of_sizes else v.id

    # -- as a jaxpr

    @property
    def jaxpr(self) -> Program:
        """The steps."""
        return self

    @property
    def out_avals(self) -> list[Any]:
        """What JAX knows of the results."""
        return [v.aval for v in self.outvars]

    def run(self, *args: Any) -> list[Any]:
        """Evaluate the steps."""
        return evaluate(self, args)

    # -- parts

    def needs(self, wanted: Sequence[Ref], cuts: frozenset[int]) -> tuple[list[int], set[int]]:
        """The steps to `wanted` when the values in `cuts` are given, and the numbers of what they read."""
        key = tuple(wanted), cuts
        found = self._needs.get(key)
        if found is None:
            need = {r for r in wanted if isinstance(r, int)}
            made = {*[v.id for v in self.invars], *cuts}
            kept = []
            for i, eqn in zip(reversed(range(len(self.eqns))), reversed(self.eqns)):
                outs = [v.id for v in eqn.outvars]
                if any(o in need and o not in cuts for o in outs):
                    kept.append(i)
                    need.update(v.id for v in eqn.invars if v.__class__ is Var)
                    made.update(outs)
            assert need <= made
            read = {r for r in need if r in cuts or r < self.n_in}
            found = self._needs[key] = kept[::-1], read
        return found

    def slice(
        self,
        wanted: Sequence[Ref],
        given: Sequence[int],
        cuts: frozenset[int] = frozenset(),
        numbers: Sequence[int] = (),
    ) -> Program:
        """`wanted` as a function of the values `given`, of which those in `cuts` are not computed again.

        `numbers` are what the symbols stand for. The slice has none, and its values keep their numbers.
        """
        now, hidden = self.now(numbers), cuts.intersection(given)
        eqns = [now.equation(i) for i in self.needs(wanted, cuts)[0] if i not in self.folds]
        if hidden:
            eqns = [_without(e, hidden) for e in eqns]
        out = object.__new__(Program)
        out._begin(eqns, [now.value(r) for r in given], [now.value(r) for r in wanted], self.effects)
        return out

    def at(self, numbers: Sequence[int]) -> Program:
        """The program for these sizes."""
        return self.slice(self.out, range(self.n_in), numbers=numbers)

    def all(self, single: bool, numbers: Sequence[int] = ()) -> Slice:
        """All results as one kernel."""
        return Slice(self, single, self.out, tuple(range(self.n_in)), frozenset(), tuple(numbers))

    def lift(self, moves: Callable[[Any, Equation], bool]) -> tuple[list[np.ndarray], Program]:
        """The literals of steps that `moves` picks, and the program with these as its first arguments."""
        numbers: list[np.ndarray] = []
        names: list[Var] = []

        def lifted(v: Any, eqn: Equation) -> Any:
            if v.__class__ is not Literal or not moves(v, eqn):
                return v
            numbers.append(np.asarray(v.val, v.aval.dtype))
            names.append(Var(v.aval, -len(numbers)))
            return names[-1]

        out = object.__new__(Program)
        eqns = [eqn._replace(invars=[lifted(v, eqn) for v in eqn.invars]) for eqn in self.eqns]
        out._begin(eqns, [*names, *self.invars], self.outvars, self.effects)
        return numbers, out

    def computed(self, refs: Sequence[Ref]) -> frozenset[int]:
        """The numbers of those values that steps give: they are no arguments, and not the same in each call."""
        return frozenset([r for r in refs if isinstance(r, int) and r >= self.n_in])

    def flows(self, wanted: Sequence[Ref], cuts: frozenset[int]) -> set[int]:
        """The ids that the numbers of `wanted` come from: what is only compared decides, and ends there."""
        need = {r for r in wanted if isinstance(r, int)}
        for eqn in reversed(self.eqns):
            if any(v.id in need and v.id not in cuts for v in eqn.outvars):
                need.update(
                    v.id for v in eqn.invars if v.__class__ is Var and jnp.issubdtype(v.aval.dtype, jnp.inexact)
                )
        return need

    def equation(self, step: int) -> Equation:
        """A step."""
        return self.eqns[step]

    def value(self, ref: Ref) -> Any:
        """A value as a step has it."""
        return ref if isinstance(ref, Literal) else self.vars[ref]

    # -- with symbols

    def _generalize(self, sizes: Sizes) -> None:
        if self.effects:
            raise NotGeneral("it has effects")
        self.sizes = sizes
        texts = _Texts(sizes)
        kinds: dict[Any, int] = {}
        self.kinds = [kinds.setdefault(texts.aval(v.aval), len(kinds)) for v in self.vars]
        """Of each value, which of the few kinds of shape and dtype it has."""
        self.dtypes = [key[1:] for key in kinds]
        self._moves = ["s" in key[0] for key in kinds]
        moving: list[str] = []
        self.params = [_parameters(sizes, texts, eqn, moving) for eqn in self.eqns]
        """Of each step its parameters without sizes, and the number of those with sizes or None."""
        self.bodies: dict[int, dict[str, Program]] = {}
        """By step, the jaxprs among its parameters that sizes are in."""
        for eqn in self.eqns:
            if found := {k: texts.bodies[id(v)] for k, v in eqn.params.items() if id(v) in texts.bodies}:
                self.bodies[eqn.at] = found
        text = f"lambda s: (({''.join(k[0] + ',' for k in kinds)}), ({''.join(m + ',' for m in moving)}))"
        self.numbers_at = written(text, texts.space)
        """From sizes, the shapes by kind of value, and parameters."""
        self.exact = self.exact and texts.exact
        """Whether JAX differentiates these steps as it does the function that they come from."""
        self._made_of_sizes: set[int] = set()
        self.folds = dict.fromkeys(self._folded(self._made_of_sizes))
        self._with_no_slices()

    def _with_no_slices(self) -> None:
        self.codes: dict[Any, list[Code]] = {}
        """By slice, NumPy code for any sizes."""
        self.without: set[Any] = set()
        """The slices that have no NumPy code for any sizes."""
        self._last: AtSizes | None = None
        """Several parts of the steps are asked for with the same sizes, one after the other."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process makes the program of; see `trace_files.py`."""
        if self.effects:
            raise NotGeneral("it has effects")
        return {k: v for k, v in vars(self).items() if k not in ("_needs", "codes", "without", "_last")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self._needs = {}
        self._with_no_slices()

    def _folded(self, known: set[int]) -> Iterator[int]:
        """The steps that make one number of sizes and of numbers alone."""
        for eqn in self.eqns:
            out = eqn.outvars[0] if len(eqn.outvars) == 1 else None
            if out is None or (out.aval.shape and eqn.primitive.name != "from_sizes"):
                continue
            of_numbers = [not np.shape(v.val) if v.__class__ is Literal else v.id in known for v in eqn.invars]
            if all(of_numbers) and _can_fold(eqn):
                known.add(out.id)
                yield eqn.at

    def moves(self, value: int) -> bool:
        """Whether the shape of a value depends on sizes."""
        return self._moves[self.kinds[value]]

    def now(self, numbers: Sequence[int]) -> Any:
        """What these sizes make of steps and values; without symbols the program itself."""
        if self.sizes is None:
            return self
        last = self._last
        if last is None or last.given != numbers:
            last = self._last = AtSizes(self, numbers)
        return last


class Slice(NamedTuple):
    """Some of a program's results for given sizes, as a kernel: a function of arrays that may be NumPy's."""

    program: Program
    single: bool
    """Whether there is one result, and not a list."""
    wanted: tuple[Ref, ...]
    given: tuple[int, ...]
    cuts: frozenset[int]
    numbers: tuple[int, ...]

    @property
    def by_shape(self) -> bool:
        """Whether it comes from a trace without symbols."""
        return self.program.sizes is None

    @property
    def exact(self) -> bool:
        """Whether JAX differentiates it as it does the function that it comes from."""
        return self.program.exact

    @property
    def _key(self) -> Any:
        return self.single, self.wanted, self.given, self.cuts

    def closed(self) -> Program:
        """The steps as a program of their own."""
        return self.program.slice(self.wanted, self.given, self.cuts, self.numbers)

    def fits(self) -> bool | None:
        """Whether NumPy would compute what has no code written by hand; None where only making its code tells."""
        if self.by_shape or not choice.is_possible():
            return None
        with suppress(Changed, Unsure):
            for code in self.program.codes.get((self._key, False), ()):
                if code.holds(self.numbers):
                    return code.fits(self.program.now(self.numbers))
        return None

    def in_numpy(self, kernel: Any, form: Any = None) -> Any:
        """NumPy code, or None where XLA has to do it.

        Args:
            kernel: the compiled function.
            form: the same, written by hand, or None.
        """
        if not choice.is_possible():
            return None
        if not self.by_shape:
            with suppress(Changed):
                return self.in_general(kernel, form)
        return host.program(self.closed(), kernel, self.single, form=form)

    def in_general(self, kernel: Any, form: Any) -> Any:
        """NumPy code that is made once for any sizes; `Changed` where there is none."""
        program, numbers, key = self.program, self.numbers, (self._key, form is not None)
        now, found = program.now(numbers), program.codes.get(key)
        if found is None:
            found = program.codes[key] = self._codes_in_file(key)
        with suppress(Changed, Unsure):
            for code in found:
                if code.holds(numbers):
                    return code.at(now, kernel, form)
        if key in program.without:
            raise Changed
        try:
            code = host.general(program, self.closed(), self.single, form is not None)
            made = code.at(now, kernel, form)
        except (No, Unsure, Changed):
            program.without.add(key)
            self._keep(key, len(found), _WITHOUT)
            raise Changed from None
        self._keep(key, len(found), code)
        found.append(code)
        if len(found) >= MOST:
            program.without.add(key)
        return made

    def _codes_in_file(self, key: Any) -> list[Code]:
        """Return the code that another process has made of it."""
        program = self.program
        kept = [*program.place.codes(program, key)] if self._is_kept else []
        found = [code for code in kept if code != _WITHOUT]
        if len(found) < len(kept) or len(found) >= MOST:
            program.without.add(key)
        return found

    def _keep(self, key: Any, i: int, code: Any) -> None:
        if self._is_kept:
            self.program.place.add(self.program, key, i, code)

    @property
    def _is_kept(self) -> bool:
        """Whether its program is kept for other processes, and names all that is wanted in the same way there."""
        return self.program.place is not None and not any(ref.__class__ is Literal for ref in self.wanted)


class AtSizes:
    """Values, parameters and steps of a program for given sizes."""

    __slots__ = ("_avals", "_moving", "_of", "_steps", "_vars", "given", "numbers", "shapes")

    def __init__(self, of: Program, numbers: Sequence[int]) -> None:
        self._of, self.given = of, numbers
        self.shapes, self._moving = of.numbers_at(numbers)
        """Shapes by kind of value."""
        self._avals: list[Any] = [None] * len(self.shapes)
        self._vars: dict[int, Any] = {}
        self._steps: dict[int, Equation] = {}
        self.numbers: dict[int, Any] = {}
        """By value, the numbers that are made of sizes."""
        for i in of.folds:
            eqn = of.eqns[i]
            values = [v.val if v.__class__ is Literal else self.numbers[v.id] for v in eqn.invars]
            out = eqn.outvars[0].id
            self.numbers[out] = _number(eqn, self.params(i), values, self.aval(out))

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
        """The parameters of a step, without the jaxprs among them that sizes are in."""
        fixed, at = self._of.params[step]
        return fixed if at is None else {**fixed, **self._moving[at]}

    def value(self, ref: Ref) -> Any:
        """A value as a step has it."""
        if isinstance(ref, Literal):
            return ref if ref.id is None else self.value(ref.id)
        found = self._vars.get(ref)
        if found is None:
            kind = self._of.kinds[ref]
            aval = jax.core.ShapedArray(self.shapes[kind], *self._of.dtypes[kind])
            made = Literal(aval, self.numbers[ref], ref) if ref in self.numbers else Var(aval, ref)
            found = self._vars.setdefault(ref, made)  # two threads have to name a value alike
        return found

    def equation(self, step: int) -> Equation:
        """A step."""
        found = self._steps.get(step)
        if found is None:
            eqn, params, bodies = self._of.eqns[step], self.params(step), self._of.bodies.get(step)
            if bodies is not None:
                params = {**params, **{k: jaxpr_of(body, self.given) for k, body in bodies.items()}}
            ins = [v if v.__class__ is Literal else self.value(v.id) for v in eqn.invars]
            outs = [self.value(v.id) for v in eqn.outvars]
            found = self._steps[step] = Equation(eqn.primitive, params, ins, outs, (), step)
        return found


class _Texts:
    """Parameters as expressions in `s`; what is no number goes by a name."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self.space: dict[str, Any] = {}
        self.bodies: dict[int, Program] = {}
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
            return f"{self._name(functools.partial(jaxpr_of, self.bodies[id(x)]))}(s)"
        raise NotGeneral(f"a parameter of {x.__class__}")

    def is_body(self, x: Any) -> bool:
        """Whether this is a jaxpr with sizes in it, which is then among `bodies`."""
        if not hasattr(getattr(x, "jaxpr", x), "eqns") or _of_numbers(getattr(x, "jaxpr", x)):
            return False
        if id(x) not in self.bodies:
            self.bodies[id(x)] = body = Program(x, self._sizes)
            if any(v.__class__ is Literal and np.shape(v.val) for eqn in body.eqns for v in eqn.invars):
                raise NotGeneral("a loop has arrays of its own")
            self.exact &= body.exact
        return True

    def _name(self, x: Any) -> str:
        name = f"k{len(self.space)}"
        self.space[name] = x
        return name


def jaxpr_of(program: Program, numbers: Sequence[int] = ()) -> Any:
    """Return steps as a jaxpr of JAX's, such as the body of a loop, for these sizes."""
    steps = program.at(numbers)
    names: dict[Any, Any] = {}

    def named(values: Sequence[Any]) -> list[Any]:
        return [
            CORE.Literal(np.asarray(v.val, v.aval.dtype), v.aval)
            if hasattr(v, "val")
            else names.get(v) or names.setdefault(v, CORE.Var(v.aval))
            for v in values
        ]

    ins = named(steps.invars)
    eqns = [
        CORE.new_jaxpr_eqn(named(e.invars), named(e.outvars), e.primitive, e.params, frozenset()) for e in steps.eqns
    ]
    made = _empty().replace(invars=ins, outvars=named(steps.outvars), eqns=eqns)
    return ClosedJaxpr(made, ()) if program.closed else made


@functools.cache
def _empty() -> Any:
    """A jaxpr of JAX's without steps, from which others are made."""
    made = jax.make_jaxpr(lambda: ())().jaxpr
    return made.replace(debug_info=made.debug_info._replace(arg_names=None, result_paths=None))


def _parameters(sizes: Sizes, texts: _Texts, eqn: Any, moving: list[str]) -> tuple[Any, int | None]:
    """The parameters of a step without sizes, and the number of those with sizes, which are added to `moving`."""
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


def _of_numbers(jaxpr: Any) -> bool:
    """Whether this is a jaxpr that computes with single numbers, as that of a scatter does."""
    eqns = getattr(jaxpr, "eqns", None)
    if eqns is None:
        return False
    values = [*jaxpr.invars, *jaxpr.outvars, *[v for e in eqns for v in e.outvars]]
    return all(v.aval.shape == () for v in values) and all(
        isinstance(p, _PLAIN) for e in eqns for p in e.params.values()
    )


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


def _number(eqn: Any, params: Any, values: Sequence[Any], aval: Any) -> Any:
    """The number that a step gives."""
    if eqn.primitive.name == "from_sizes":
        return np.asarray(eqn.params["fn"](*params["sizes"]), aval.dtype)
    given = [np.asarray(x, v.aval.dtype) for x, v in zip(values, eqn.invars)]
    return np.asarray(silently(_step_of(eqn, params))(*given), aval.dtype)


def _without(eqn: Equation, hidden: frozenset[int]) -> Equation:
    """A step that gives none of these values, which are given."""
    if all(v.id not in hidden for v in eqn.outvars):
        return eqn
    return eqn._replace(outvars=[Var(v.aval, v.id) if v.id in hidden else v for v in eqn.outvars])
