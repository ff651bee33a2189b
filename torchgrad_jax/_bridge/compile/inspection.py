"""What the programs of a compiled function are: `step.lower(*args)` and `step.explain()`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax

from ..._engine.memory.tensor import Tensor
from .program.entry import Entry
from .program.own_values import ForwardOverMesh
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


class Lowered:
    """A program for some arguments: as it was traced, and as XLA compiles it."""

    def __init__(self, lowered: jax.stages.Lowered, backward: Lowered | None = None) -> None:
        self._lowered = lowered
        self._compiled: Any = None
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
            self._compiled = self._lowered.compile()
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
        matches = _COLLECTIVE.findall(self.optimized_text())
        return [Collective(kind, re.sub(r"\{[^}]*\}", "", shape)) for shape, kind in matches]

    def __repr__(self) -> str:
        return f"<Lowered: {len(self.as_text().splitlines())} lines of StableHLO>"


def lowered(entry: Entry, inputs: Sequence[Any]) -> Lowered:
    """The program of an entry for these arguments, which is not run."""
    args = [inputs[i] for i in entry.args] if entry.repeats_a_tensor else inputs
    sources = entry.program.sources
    if entry.parts is None:
        xs = [_input(sources[i], args) for i in entry.order]
        memory = [jax.ShapeDtypeStruct(m.shape, m.dtype.np) for _, m in entry.spare]
        n = len(entry.donated)
        xs = [*xs[:n], *memory, *xs[n:]]
        over = entry.over_processes
        if over is not None and over.kernel is not None:
            return Lowered(over.lower(xs))
        return Lowered(entry.program_kernel.lower(*xs))
    assert entry.backward is not None
    forward = entry.parts.forward
    xs = [_input(s, args) for s in sources]
    if isinstance(forward, ForwardOverMesh):
        return Lowered(forward.lower(*xs))
    outs = jax.eval_shape(forward, *xs)
    saved = outs[entry.parts.n_results : entry.parts.n_results + entry.parts.between]
    slopes = [jax.ShapeDtypeStruct(m.shape, m.dtype.np) for m in entry.backward.metas]
    return Lowered(forward.lower(*xs), Lowered(entry.parts.backward.lower(saved, slopes)))


def _input(source: Source, args: Sequence[Any]) -> Any:
    """What a program is given for a source: random numbers by their shape, so that none are drawn."""
    if source.kind == "draw":
        assert source.meta is not None
        return jax.ShapeDtypeStruct(source.meta.shape, source.meta.dtype.np)
    return source.array(args)


# --- in words -------------------------------------------------------------------------------------


def explanation(compiled: Any, place: str) -> str:
    """What is known of a compiled function, as lines of text."""
    counts = compiled.counts
    programs = [entry for entries in compiled.entries.values() for entry in entries]
    lines = [
        f"{place}: {_some(len(programs), 'program')}; traced {_times(counts['traced'])}, run {_times(counts['run'])}, "
        f"as it is written {_times(counts['eager'])}"
    ]
    if compiled.written:
        lines.append("  It is not compiled any more.")
    names = _names(compiled.fn)
    for number, entry in enumerate(programs, 1):
        lines.append(f"program {number}")
        lines += [f"  {what:<24}{text}" for what, text in _parts(entry, names) if text]
    if compiled.reasons:
        lines.append("traced again, or given up, because")
        lines += [f"  {reason}" for reason in compiled.reasons[-_SHOWN:]]
    return "\n".join(lines)


_SHOWN = 8


def _parts(entry: Entry, names: dict[int, str]) -> Iterator[tuple[str, str]]:
    program, sources = entry.program, entry.program.sources
    written = {i for i, _, _ in program.writes}
    kinds = {kind: [s for s in sources if s.kind == kind] for kind in ("arg", "draw", "grad")}
    tensors = [i for i, s in enumerate(sources) if s.kind == "tensor"]

    def named(positions: Sequence[int]) -> str:
        return _listed([_tensor(sources[i], names) for i in positions])

    yield "arguments", _listed([_described(s.meta) for s in kinds["arg"]])
    yield "numbers in arguments", _count(s.kind == "given" for s in sources)
    yield ("reads", named([i for i in tensors if i not in written and i not in entry.constant_tensors]))
    yield "constants", _listed([_described(sources[i].meta) for i in entry.constant_tensors])
    yield "updates in place", named([i for i in tensors if i in entry.donated])
    yield "replaces", named([i for i in tensors if i in written and i not in entry.donated])
    yield "reads gradients of", _listed([_leaf(s.what, names) for s in kinds["grad"]])
    yield ("replaces gradients of", _listed([_leaf(leaf, names) for leaf, _, m, _ in program.grads if m is not None]))
    yield (
        "removes gradients of",
        _listed([_leaf(leaf, names) for leaf, k, m, _ in program.grads if m is None and k is None]),
    )
    metas = [s.meta for s in kinds["draw"] if s.meta is not None]
    size = sum(m.numel * m.dtype.itemsize for m in metas)
    yield "random numbers", f"{len(kinds['draw'])} draws, {size} bytes" if kinds["draw"] else ""
    yield "carried numbers", _count(s.kind == "number" for s in sources)
    yield "for certain values of", _listed([f"{c.name} = {c.value!r}" for c in entry.constants])
    if entry.checks is not None:
        ahead, late = len(entry.checks.ahead_flags), len(entry.late)
        yield "checks", f"{ahead} before the program, {late} in it"
    yield "keeps outside", _listed([k.name for k in entry.kept_tensors])
    yield "results", _listed([_described(o.meta) for o in entry.results()])
    if entry.backward is not None:
        yield "backward", f"a program of its own; {entry.parts.between} values are kept for it"  # type: ignore[union-attr]
    yield "steps", str(len(program.jaxpr.eqns))


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


def _names(fn: Any) -> dict[int, str]:
    """Names of the storages that a function reaches by its variables, modules and optimizers."""
    fn, owner = getattr(fn, "__func__", fn), getattr(fn, "__self__", None)
    code = getattr(fn, "__code__", None)
    reachable: dict[str, Any] = {} if owner is None else {"self": owner}
    if code is not None:
        cells = zip(code.co_freevars, fn.__closure__ or ())
        reachable.update({n: fn.__globals__[n] for n in code.co_names if n in fn.__globals__})
        for name, cell in cells:
            try:
                reachable[name] = cell.cell_contents
            except ValueError:  # the variable is not set yet
                continue
    names: dict[int, str] = {}
    # An optimizer's state is named after parameters, so these come first.
    for optimizers in (False, True):
        for name, value in reachable.items():
            if hasattr(value, "param_groups") is optimizers:
                _name(name, value, names, 2)
    return names


def _name(name: str, value: Any, names: dict[int, str], depth: int) -> None:
    if isinstance(value, Tensor):
        names.setdefault(id(value._st), name)
    elif hasattr(value, "param_groups"):
        for parameter, state in getattr(value, "state", {}).items():
            of = names.get(id(getattr(parameter, "_st", None)), "a parameter")
            for key, held in state.items():
                _name(f"{name}.state[{of}][{key!r}]", held, names, 0)
    elif hasattr(value, "named_parameters"):
        prefix = "" if name == "self" else f"{name}."
        for key, held in [*value.named_parameters(), *value.named_buffers()]:
            names.setdefault(id(held._st), prefix + key)
    elif depth and isinstance(value, list | tuple):
        for i, held in enumerate(value):
            _name(f"{name}[{i}]", held, names, depth - 1)
    elif depth and isinstance(value, dict):
        for key, held in value.items():
            _name(f"{name}[{key!r}]", held, names, depth - 1)
