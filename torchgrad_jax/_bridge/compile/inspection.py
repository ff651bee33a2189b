"""What the programs of a compiled function are: `step.lower(*args)` and `step.explain()`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import jax

from ..._core.jax.kernel_files import compiled_without_files
from ..._core.jax.own_kernels import PREFIX
from ..._core.jax.target import compiled, like, lower
from ..._core.python_objects import items_of
from ..._core.state import MODES
from ..._engine.memory.tensor import Tensor, placement_of
from . import as_written
from .program.entry import Entry
from .program.program import CompiledProgram
from .trace.traced_program import Source

_COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
)
_COLLECTIVE = re.compile(rf"= (\(.*?\)|\S+) ({'|'.join(_COLLECTIVES)})(?:-start)?\(")


class ProgramInspected(Exception):
    """Ends a call whose program was looked at and not run; all that the call did is undone."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


class Collective(NamedTuple):
    """One exchange between devices in a compiled program."""

    kind: str
    """`all-reduce`, `all-gather`, ..."""
    shape: str
    """What comes out of it, on each device, as XLA writes it."""


def collectives_in(text: str) -> list[Collective]:
    """The exchanges between devices in a program, given as HLO, in its order."""
    matches = _COLLECTIVE.findall(text)
    return [Collective(kind, re.sub(r"\{[^}]*\}", "", shape)) for shape, kind in matches]


class Lowered:
    """A program for some arguments: as it was traced, and as XLA compiles it."""

    def __init__(
        self,
        lowered: jax.stages.Lowered,
        backward: Lowered | None = None,
        inputs: Sequence[tuple[str, Any]] = (),
        jaxpr: Any = None,
        state: Mapping[str, str] | None = None,
    ) -> None:
        self._lowered = lowered
        self.inputs, self.jaxpr = inputs, jaxpr
        """What stands for its inputs, each with what it is for; and its steps as they were traced."""
        self.state: Mapping[str, str] = state or {}
        """What it reads and writes outside, by name: dtype and shape."""
        self._compiled: Any = None
        self.target = MODES.target
        self.backward = backward
        """The program of the backward pass, where the result of the function needs a gradient."""

    def as_text(self, **options: Any) -> str:
        """The program in StableHLO, before XLA optimizes it; options as for `jax.stages.Lowered`."""
        return self._lowered.as_text(**options)

    def as_jax(self) -> jax.stages.Lowered:
        """JAX's own object for the program before it is compiled."""
        return self._lowered

    def compile(self) -> jax.stages.Compiled:
        """The program as XLA compiled it, for those who want JAX's own object."""
        if self._compiled is None:
            self._compiled = compiled(self._lowered, self.target)
        return self._compiled

    def optimized_text(self) -> str:
        """The program in HLO, as XLA optimized it."""
        return self.compile().as_text() or ""

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the work: `flops`, `bytes accessed` and others."""
        analysis: Any = self.compile().cost_analysis()
        return dict(analysis[0] if isinstance(analysis, list) else analysis or {})

    def memory_analysis(self) -> Any:
        """Bytes for arguments, results, what is overwritten in place, and temporary values."""
        return self.compile().memory_analysis()

    def collectives(self) -> list[Collective]:
        """The exchanges between devices in the compiled program, in its order."""
        return collectives_in(self.optimized_text())

    def __repr__(self) -> str:
        return f"<Lowered: {len(self.as_text().splitlines())} lines of StableHLO>"


def compile_together(lows: Sequence[Lowered]) -> None:
    """Compile programs for the target in use, and those of their backward passes, at once."""
    parts = [part for low in lows for part in (low, low.backward) if part is not None]
    for part, program in zip(parts, compiled_without_files([part._lowered for part in parts])):
        part._compiled = program


def lowered(entry: Entry, inputs: Sequence[Any], fn: Any) -> Lowered:
    """The program of an entry for these arguments, which is not run; `fn` is the function that it was made of."""
    program, parts = entry.program, entry.program.parts
    args, sources = program.arguments(inputs), program.traced.sources
    given = [_input(s, args) for s in sources]
    about = [*zip(_purposes(sources, fn), given)], program.traced.jaxpr, _state(sources, fn)
    if parts is None:
        memory = iter([jax.ShapeDtypeStruct(m.shape, m.dtype.np) for _, m in program.inputs.spare])
        xs = [next(memory) if i is None else given[i] for i in program.inputs.positions()]
        joint = program.joint
        if joint is not None and joint.kernel is not None:
            return Lowered(joint.lower(xs))
        return Lowered(program.kernel.lower(*xs), None, *about)
    assert program.backward is not None
    if parts.is_joint:
        return Lowered(lower(parts.forward, *given))
    outs = jax.eval_shape(parts.forward, *like(given))
    saved = outs[parts.n_results : parts.n_results + parts.between]
    slopes = [jax.ShapeDtypeStruct(m.shape, m.dtype.np) for m in program.backward.metas]
    return Lowered(lower(parts.forward, *given), Lowered(lower(parts.backward, saved, slopes)), *about)


def _purposes(sources: Sequence[Source], fn: Any) -> list[str]:
    """What each input of a program is for."""
    names, found = _names(fn), {"arg": "arguments", "grad": "gradients", "draw": "random numbers"}

    def purpose(source: Source) -> str:
        if source.kind != "tensor":
            return found.get(source.kind, "numbers")
        if ".state[" in names.get(id(source.what), ""):
            return "optimizer"
        return "parameters" if getattr(source.of, "_rg", False) else "buffers and others"

    return [purpose(s) for s in sources]


def _state(sources: Sequence[Source], fn: Any) -> dict[str, str]:
    """What a program reads from outside, by the names that the function has for it."""
    names = _names(fn)
    held = [s for s in sources if s.kind == "tensor" and id(s.what) in names]
    return {names[id(s.what)]: _described(s.what.meta) for s in held}


def _input(source: Source, args: Sequence[Any]) -> Any:
    """What a program is given for a source: random numbers by their shape, so that none are drawn."""
    if source.kind == "draw":
        assert source.meta is not None
        return jax.ShapeDtypeStruct(source.meta.shape, source.meta.dtype.np)
    if MODES.target is not None and source.kind in ("tensor", "grad", "arg"):
        st = source.storage(args) if source.kind != "arg" else args[source.what]._st
        return MODES.target.like(source.array(args), placement_of(st))
    return source.array(args)


def operators_of(jaxpr: Any) -> list[str]:
    """The operators of a program, in order and by name: its steps without marks of JAX and of this package."""
    names = [str(eqn.params.get("name", "")) for eqn in jaxpr.eqns]
    return [name for name in names if name.startswith(PREFIX)]


# --- in words -------------------------------------------------------------------------------------


def folded(text: str) -> str:
    """Return lines of text as HTML that shows the first one, and the others on a click."""
    first, _, rest = text.partition("\n")
    return f"<details><summary><code>{escape(first)}</code></summary><pre>{escape(rest)}</pre></details>"


def explanation(compiled: Any, place: str) -> str:
    """What is known of a compiled function, as lines of text."""
    counts = compiled.counts
    programs = [entry for entries in compiled.programs.by_key.values() for entry in entries]
    lines = [
        f"{place}: {_some(len(programs), 'program')}; traced {_times(counts['traced'])}, run {_times(counts['run'])}, "
        f"eager {_times(counts['eager'])}"
    ]
    if compiled.patience.written:
        lines.append("  It is not compiled any more.")
    if counts["eager"] and as_written.saves_starts() and not compiled.patience.is_generator:
        lines.append("  Its eager code runs in windows: what comes between two reads of values is one program.")
    names = _names(compiled.fn)
    for number, entry in enumerate(programs, 1):
        lines.append(f"program {number}")
        lines += [f"  {what:<24}{text}" for what, text in _parts(entry.program, names) if text]
        lines += [f"  {'checked by a trace':<24}{text}" for text in [_checks(entry)] if text]
    if compiled.reasons:
        lines.append("traced again, or given up, because")
        lines += [f"  {reason}" for reason in compiled.reasons[-_SHOWN:]]
    return "\n".join(lines)


_SHOWN = 8


def _parts(program: CompiledProgram, names: dict[int, str]) -> Iterator[tuple[str, str]]:
    traced, sources, constants = program.traced, program.traced.sources, program.body.constants
    overwritten = program.inputs.overwritten
    written = {i for i, _, _ in traced.writes}
    kinds = {kind: [s for s in sources if s.kind == kind] for kind in ("arg", "draw", "grad")}
    tensors = [i for i, s in enumerate(sources) if s.kind == "tensor"]

    def named(positions: Sequence[int]) -> str:
        return _listed([_tensor(sources[i], names) for i in positions])

    yield "arguments", _listed([_described(s.meta) for s in kinds["arg"]])
    yield "numbers in arguments", _count(s.kind == "given" for s in sources)
    yield ("reads", named([i for i in tensors if i not in written and i not in constants]))
    yield "constants", _listed([_described(sources[i].meta) for i in constants])
    yield "updates in place", named([i for i in tensors if i in overwritten])
    yield "replaces", named([i for i in tensors if i in written and i not in overwritten])
    yield "reads gradients of", _listed([_leaf(s.what, names) for s in kinds["grad"]])
    yield ("replaces gradients of", _listed([_leaf(leaf, names) for leaf, _, m, _ in traced.grads if m is not None]))
    yield (
        "removes gradients of",
        _listed([_leaf(leaf, names) for leaf, k, m, _ in traced.grads if m is None and k is None]),
    )
    metas = [s.meta for s in kinds["draw"] if s.meta is not None]
    size = sum(m.numel * m.dtype.itemsize for m in metas)
    yield "random numbers", f"{len(kinds['draw'])} draws, {size} bytes" if kinds["draw"] else ""
    yield "carried numbers", _count(s.kind == "number" for s in sources)
    yield "for certain values of", _listed([f"{c.name} = {c.value!r}" for c in program.conditions.constants])
    if program.checks is not None:
        ahead, late = len(program.checks.ahead_flags), len(program.checks.late)
        yield "checks", f"{ahead} before the program, {late} in it"
    yield "keeps outside", _listed([k.name for k in program.returned.kept_tensors])
    yield "results", _listed([_described(o.meta) for o in program.returned.tensors()])
    if program.parts is not None:
        yield "backward", f"a program of its own; {program.parts.between} values are kept for it"
    yield "steps", str(len(traced.jaxpr.eqns))
    yield "kernels", "" if traced.kernels is None else "those of eager code, whose bits it gives"


def _checks(entry: Entry) -> str:
    """How often a program was checked by itself, and why it is not any more."""
    clock = entry.clock
    often = _times(clock.checks) if clock.checks else ""
    return ", ".join(filter(None, (often, clock.why_not and f"not by itself: {clock.why_not}")))


def _described(m: Any) -> str:
    return f"{str(m.dtype).removeprefix('torch.')} {tuple(m.shape)}"


def _tensor(source: Source, names: dict[int, str]) -> str:
    return f"{names.get(id(source.what), 'a tensor')} {_described(source.what.meta)}"


def _leaf(leaf: Any, names: dict[int, str]) -> str:
    if isinstance(leaf, int):
        return f"argument {leaf}"
    return names.get(id(leaf._st), f"a tensor {tuple(leaf.shape)}")


def _listed(items: Sequence[str]) -> str:
    more = f", and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more


def _some(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _count(flags: Any) -> str:
    n = sum(flags)
    return str(n) if n else ""


def state_of(fn: Any) -> dict[str, str]:
    """What the tensors are like that a function reaches by its variables, modules and optimizers, by their names."""
    return {name: _described(t._m) for name, t in _named_tensors(fn).values()}


def _names(fn: Any) -> dict[int, str]:
    """Names of the storages that a function reaches by its variables, modules and optimizers."""
    return {storage: name for storage, (name, _) in _named_tensors(fn).items()}


def reachable(fn: Any) -> dict[str, Any]:
    """What a function's code names outside of it: its owner, globals, and variables of functions around it."""
    fn, owner = getattr(fn, "__func__", fn), getattr(fn, "__self__", None)
    code = getattr(fn, "__code__", None)
    found: dict[str, Any] = {} if owner is None else {"self": owner}
    if code is not None:
        cells = zip(code.co_freevars, fn.__closure__ or ())
        found.update({n: fn.__globals__[n] for n in code.co_names if n in fn.__globals__})
        for name, cell in cells:
            try:
                found[name] = cell.cell_contents
            except ValueError:  # the variable is not set yet
                continue
    return found


def _named_tensors(fn: Any) -> dict[int, tuple[str, Tensor]]:
    """The tensors that a function reaches, each with its name; by their storages."""
    objects = reachable(fn)
    found: dict[int, tuple[str, Tensor]] = {}
    # An optimizer's state is named after parameters, so these come first.
    for optimizers in (False, True):
        for name, value in objects.items():
            if hasattr(value, "param_groups") is optimizers:
                _name(name, value, found, 2)
    return found


def _name(name: str, value: Any, found: dict[int, tuple[str, Tensor]], depth: int) -> None:
    if isinstance(value, Tensor):
        found.setdefault(id(value._st), (name, value))
    elif hasattr(value, "param_groups"):
        for parameter, state in getattr(value, "state", {}).items():
            of, _ = found.get(id(getattr(parameter, "_st", None)), ("a parameter", None))
            for key, held in state.items():
                _name(f"{name}.state[{of}][{key!r}]", held, found, 0)
    elif hasattr(value, "named_parameters"):
        prefix = "" if name == "self" else f"{name}."
        for key, held in [*value.named_parameters(), *value.named_buffers()]:
            found.setdefault(id(held._st), (prefix + key, held))
    elif depth and issubclass(type(value), list | tuple):
        for i, held in enumerate(items_of(value)):
            _name(f"{name}[{i}]", held, found, depth - 1)
    elif depth and issubclass(type(value), dict):
        for key, held in dict.items(value):
            _name(f"{name}[{key!r}]", held, found, depth - 1)
