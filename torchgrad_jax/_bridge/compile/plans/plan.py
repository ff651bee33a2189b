"""The plan of a compiled step for hardware that is not here.

    with interop.target("v5e:2x2"):
        plan = step.plan(x, y)
    plan.fits, plan.memory["parameters"], plan.seconds
    print(plan)

All figures are the compiler's, of the program that would run, for one device; none depends on this machine.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import jax
import numpy as np

from ...._core.jax.private import cost_of_module
from ...._core.jax.target import Target
from ..inspection import Collective, Lowered
from ..trace.equal_steps import lines_of_users
from .chips import Chip, device_of
from .convolutions import flops_of_convolutions

_WIDE = ("float64", "int64", "uint64", "complex128")
_MOVES = frozenset((
    "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "copy_p", "dynamic_slice",
    "outside_value", "stop_cotangent",
    "dynamic_update_slice", "iota", "pad", "pjit", "jit", "reshape", "rev", "select_n", "slice", "squeeze",
    "stop_gradient", "transpose", "while", "scan", "cond", "custom_jvp_call", "custom_vjp_call", "unsplit",
))  # fmt: skip
"""Steps that compute nothing themselves."""
_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s16": 2, "u16": 2, "f32": 4, "s32": 4, "u32": 4,
          "f64": 8, "s64": 8, "u64": 8, "c64": 8, "c128": 16}  # fmt: skip
_SHAPE = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")
_STEP = re.compile(r"^ +(?:ROOT )?%?\S+ = (?:\(.*?\)|\S+) ([a-z][\w-]*)\(", re.MULTILINE)
_NO_KERNELS = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "copy-start"))
"""What names memory, and what moves it beside other steps."""


@dataclass(frozen=True)
class Exchange:
    """Exchanges between devices of one kind and one shape."""

    kind: str
    shape: str
    times: int
    bytes: int
    """What each device gets, in all of them together."""


@dataclass(frozen=True)
class Emulated:
    """Arithmetic with 64-bit numbers in one line of the program, which a TPU makes of many instructions."""

    operator: str
    dtype: str
    line: str
    times: int
    elements: int


@dataclass(frozen=True)
class Held:
    """Values of one line of the program that are held where the program holds most: saved for a backward pass, say."""

    line: str
    times: int
    bytes: int
    """Of all devices together, and before the compiler joins steps, which leaves out some of them."""


@dataclass(frozen=True)
class Plan:
    """What a step needs on each device of a target."""

    target: str
    chip: str
    devices: int
    memory: dict[str, int]
    """Bytes by what they are for; "temporary" is what the program holds while it runs, saved values among it."""
    memory_of_chip: int
    flops: float
    bytes: float
    """What the program reads and writes, in all its kernels together."""
    seconds: float
    """No step takes less: the longer of arithmetic and memory traffic at the speeds that the maker names."""
    limited_by: str
    """"arithmetic" or "memory"."""
    held: list[Held]
    """Values between inputs and results where these are most, by the line that computes them."""
    exchanges: list[Exchange]
    emulates: bool
    """Whether the chip makes 64-bit numbers of smaller ones, in many instructions each."""
    emulated: list[Emulated]
    host: list[str]
    """Steps that are done by the machine to which the devices belong."""
    programs: int = 1
    """How many programs a call starts: one more for a backward pass of its own."""
    kernels: int = 0
    """How many steps these programs have on each device, one after the other; a loop counts once."""
    layers: str | None = None
    """Which of a model's equal layers were compiled, where the plan of the others follows from these."""
    batch: int | None = None
    """How many samples the arguments have, and with how many the step fits; None where nobody has asked."""
    largest_batch: int | None = None

    @property
    def total(self) -> int:
        """All bytes together, while the program runs."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        """Whether a device has so much memory."""
        return self.total <= self.memory_of_chip

    def to_json(self) -> str:
        """The plan as JSON."""
        return json.dumps({**asdict(self), "total": self.total, "fits": self.fits}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote."""
        found = json.loads(text)
        found["held"] = [Held(**row) for row in found["held"]]
        found["exchanges"] = [Exchange(**row) for row in found["exchanges"]]
        found["emulated"] = [Emulated(**row) for row in found["emulated"]]
        return cls(**{field.name: found[field.name] for field in fields(cls)})

    def __str__(self) -> str:
        return "\n".join(report([self]))


def plan_of(target: Target, low: Lowered) -> Plan:
    """Compile a program that was lowered for a target, and describe it."""
    chip = device_of(target)
    parts = [low, low.backward] if low.backward is not None else [low]
    costs = [_cost(part.compile()) for part in parts]
    flops, moved = (sum(cost.get(key, 0.0) for cost in costs) for key in ("flops", "bytes accessed"))
    seconds, limited_by = least_time(flops, moved, chip)
    return Plan(
        target=target.name,
        chip=chip.name,
        devices=len(target.devices),
        memory=_memory(max((p.memory_analysis() for p in parts), key=_peak), low.inputs),
        memory_of_chip=chip.memory,
        flops=flops,
        bytes=moved,
        seconds=seconds,
        limited_by=limited_by,
        held=max((_held(part.jaxpr) for part in parts), key=_bytes_of),
        exchanges=_exchanges([c for part in parts for c in part.collectives()]),
        emulates=chip.emulates,
        emulated=_emulated(low.jaxpr) if chip.emulates else [],
        host=_on_host(low.jaxpr),
        programs=len(parts),
        kernels=sum(kernels_in(part.optimized_text()) for part in parts),
    )


def least_time(flops: float, moved: float, chip: Chip) -> tuple[float, str]:
    """The seconds below which no step falls that does so much, and what they go to."""
    of_flops, of_bytes = flops / chip.flops, moved / chip.bandwidth
    return max(of_flops, of_bytes), "arithmetic" if of_flops > of_bytes else "memory"


def _cost(compiled: jax.stages.Compiled) -> dict[str, float]:
    """The compiler's count of operations and bytes; where it has none, that of the program which it has made."""
    found: Any = compiled.cost_analysis()
    if found is None:
        found = cost_of_module(compiled)
        found["flops"] = found.get("flops", 0.0) + flops_of_convolutions(compiled.as_text() or "")
    return dict(found[0] if isinstance(found, list) else found or {})


def _peak(memory: Any) -> int:
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    return held + memory.temp_size_in_bytes + memory.generated_code_size_in_bytes


def _memory(memory: Any, inputs: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """By what they are for, the bytes that a device holds while the program runs."""
    found: Counter[str] = Counter()
    for what, x in inputs:
        if not hasattr(x, "shape"):  # a number of Python
            found[what] += 8
            continue
        shape = x.shape if getattr(x, "sharding", None) is None else x.sharding.shard_shape(x.shape)
        found[what] += math.prod(shape) * np.dtype(x.dtype).itemsize
    padding = memory.argument_size_in_bytes - sum(found.values())
    if padding > 0:
        found["padding of inputs"] += padding
    found["results"] += memory.output_size_in_bytes - memory.alias_size_in_bytes
    found["temporary"] += memory.temp_size_in_bytes
    found["code"] += memory.generated_code_size_in_bytes
    return {what: size for what, size in found.items() if size > 0}


def kernels_in(text: str) -> int:
    """Return how many steps a program has as XLA compiled it, those that only name memory left out."""
    entry = re.search(r"^ENTRY .*?^}", text, re.MULTILINE | re.DOTALL)
    steps = _STEP.findall(entry[0]) if entry else []
    return sum(kind not in _NO_KERNELS and not kind.endswith("-done") for kind in steps)


def _exchanges(found: Sequence[Collective]) -> list[Exchange]:
    times = Counter((c.kind, _result(c.shape)) for c in found)
    rows = [Exchange(kind, shape, n, n * _size(shape)) for (kind, shape), n in times.items()]
    return sorted(rows, key=lambda row: -row.bytes)


def _result(shape: str) -> str:
    """What comes out of an exchange. XLA writes "((inputs), (results))" for one that is started and awaited later."""
    shape = re.sub(r"/\*.*?\*/", "", shape)
    pair = re.fullmatch(r"\(\(.*?\), (\(.*?\))\)", shape)
    return shape if pair is None else pair[1]


def _size(shape: str) -> int:
    """The bytes of a shape as XLA writes it: "(bf16[8,128], f32[])"."""
    parts = _SHAPE.findall(shape)
    return sum(_BYTES.get(kind, 4) * math.prod(int(n) for n in sizes.split(",") if n) for kind, sizes in parts)


# --- what the steps are -----------------------------------------------------------------------------


def _line_of(eqn: Any) -> str:
    return lines_of_users().summarize(eqn.source_info) or "a line that is not known"


def _steps(jaxpr: Any, line: str = "") -> Iterator[tuple[Any, str]]:
    """All steps, those of inner programs among them, each with the line of the user's program that takes it."""
    for eqn in jaxpr.eqns:
        here = line or _line_of(eqn)
        yield eqn, here
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _steps(inner, here)


def _held(jaxpr: Any) -> list[Held]:
    """What lies between inputs and results at the step of a program where that is most, in the order of the program.

    Inputs begin as `outside_value`, or are those of the program; `stop_gradient` gives what it is given.
    """
    from jax.extend.core import Literal  # which takes a while to import

    same: dict[Any, Any] = {}
    last: dict[Any, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        inputs = [same.get(v, v) for v in eqn.invars if not isinstance(v, Literal)]
        last |= dict.fromkeys(inputs, i)
        if eqn.primitive.name == "stop_gradient":
            same[eqn.outvars[0]] = inputs[0]
    given = [v for eqn in jaxpr.eqns if eqn.primitive.name == "outside_value" for v in eqn.outvars]
    for v in (*jaxpr.invars, *jaxpr.constvars, *given, *jaxpr.outvars):
        if not isinstance(v, Literal):
            last.pop(same.get(v, v), None)
    ending: defaultdict[int, list[Any]] = defaultdict(list)
    for v, i in last.items():
        ending[i].append(v)
    live: dict[Any, tuple[int, Any]] = {}
    fullest = dict(live)
    now = most = 0
    for i, eqn in enumerate(jaxpr.eqns):
        live |= {v: (_bytes_of_value(v.aval), eqn) for v in eqn.outvars if v in last}
        now += sum(live[v][0] for v in eqn.outvars if v in live)
        if now > most:
            most, fullest = now, dict(live)
        now -= sum(live.pop(v)[0] for v in ending[i] if v in live)
    times: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for held, eqn in fullest.values():
        line = _line_of(eqn)
        times[line] += 1
        sizes[line] += held
    return sorted((Held(line, times[line], n) for line, n in sizes.items()), key=lambda row: -row.bytes)


def _bytes_of(held: Sequence[Held]) -> int:
    return sum(row.bytes for row in held)


def _bytes_of_value(aval: Any) -> int:
    dtype = getattr(aval, "dtype", None)
    return math.prod(aval.shape) * getattr(dtype, "itemsize", 4) if dtype is not None else 0


def _emulated(jaxpr: Any) -> list[Emulated]:
    times: Counter[tuple[str, str, str]] = Counter()
    elements: Counter[tuple[str, str, str]] = Counter()
    for eqn, line in _steps(jaxpr):
        for aval in [v.aval for v in eqn.outvars[:1]]:
            if str(getattr(aval, "dtype", "")) in _WIDE and eqn.primitive.name not in _MOVES:
                key = eqn.primitive.name, str(aval.dtype), line
                times[key] += 1
                elements[key] += math.prod(aval.shape)
    rows = [Emulated(*key, times=n, elements=elements[key]) for key, n in times.items()]
    return sorted(rows, key=lambda row: (-row.elements, -row.times))


def _on_host(jaxpr: Any) -> list[str]:
    found = Counter(
        f"{eqn.primitive.name} ({line})"
        for eqn, line in _steps(jaxpr)
        if "callback" in eqn.primitive.name or eqn.primitive.name in ("infeed", "outfeed")
    )
    return [name if n == 1 else f"{name}, {n} times" for name, n in found.items()]


# --- in words ---------------------------------------------------------------------------------------

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SHOWN, _LONGEST = 6, 72


def size(n: float) -> str:
    """A number of bytes."""
    unit = 0
    while n >= 1024 and unit < len(_UNITS) - 1:
        n, unit = n / 1024, unit + 1
    return f"{n:.0f} {_UNITS[unit]}" if unit == 0 or n >= 100 else f"{n:.3g} {_UNITS[unit]}"


def count(n: float) -> str:
    """A number of operations."""
    for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if n >= scale:
            return f"{n / scale:.3g} {unit}"
    return f"{n:.0f} "


def time(seconds: float) -> str:
    """A time."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def rows(plans: Sequence[Plan]) -> list[tuple[str, list[str]]]:
    """The figures of several plans, side by side: a name, and a text for each."""
    kinds = dict.fromkeys(what for plan in plans for what in plan.memory)
    chips = [f"{plan.chip} x {plan.devices}" for plan in plans]
    fits = [
        f"{'yes' if plan.fits else 'NO'}, {plan.total / plan.memory_of_chip:.1%} of {size(plan.memory_of_chip)}"
        for plan in plans
    ]
    found = [("chip", chips), ("fits", fits), ("memory of each device", [size(plan.total) for plan in plans])]
    found += [(f"  {what}", [size(plan.memory.get(what, 0)) for plan in plans]) for what in kinds]
    found += [
        ("arithmetic", [f"{count(plan.flops)}flop" for plan in plans]),
        ("memory traffic", [size(plan.bytes) for plan in plans]),
        ("a step takes at least", [f"{time(plan.seconds)}, by {plan.limited_by}" for plan in plans]),
        ("kernels", [_of_kernels(plan) for plan in plans]),
        ("exchanges", [_summed(plan.exchanges) for plan in plans]),
        ("64-bit arithmetic", [_of_wide(plan) for plan in plans]),
        *(
            [("equal layers", [plan.layers or "all compiled" for plan in plans])]
            if any(p.layers for p in plans)
            else []
        ),
        *([("largest batch", [_of_batch(plan) for plan in plans])] if any(p.batch for p in plans) else []),
        ("steps of the host", [str(len(plan.host)) if plan.host else "none" for plan in plans]),
    ]
    return found


def _summed(exchanges: Sequence[Exchange]) -> str:
    return f"{sum(e.times for e in exchanges)}, {size(sum(e.bytes for e in exchanges))}" if exchanges else "none"


def _of_kernels(plan: Plan) -> str:
    return f"{plan.kernels} in {plan.programs} program" + ("s" if plan.programs > 1 else "")


def _of_batch(plan: Plan) -> str:
    return f"{plan.largest_batch} samples ({plan.batch} here)" if plan.batch else ""


def _of_wide(plan: Plan) -> str:
    if not plan.emulates:
        return "the chip's own"
    return f"{sum(e.times for e in plan.emulated)} steps, emulated" if plan.emulated else "none"


def report(plans: Sequence[Plan]) -> Iterator[str]:
    """Several plans as lines of text, side by side."""
    table = [("", [plan.target for plan in plans]), *rows(plans)]
    widths = [max(len(texts[i]) for _, texts in table) for i in range(len(plans))]
    first = max(len(name) for name, _ in table)
    for name, texts in table:
        yield "  ".join([name.ljust(first), *[text.ljust(w) for text, w in zip(texts, widths)]]).rstrip()
    for plan in plans:
        yield from _details(plan)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _details(plan: Plan) -> Iterator[str]:
    if plan.held:
        yield f"held where {plan.target} is fullest, on all devices together:"
        yield from (f"  {size(h.bytes)} in {h.times} of {h.line}" for h in plan.held[:_SHOWN])
    if plan.exchanges:
        yield f"exchanges on {plan.target}:"
        yield from (f"  {e.times} x {e.kind} of {_short(e.shape)}, {size(e.bytes)}" for e in plan.exchanges[:_SHOWN])
    if plan.emulated:
        yield f"64-bit arithmetic that {plan.chip} emulates:"
        yield from (
            f"  {e.times} x {e.operator} in {e.dtype}, {e.elements} elements, {e.line}" for e in plan.emulated[:_SHOWN]
        )
    if plan.host:
        yield f"steps of the host on {plan.target}:"
        yield from (f"  {name}" for name in plan.host[:_SHOWN])


__all__ = ["Emulated", "Exchange", "Held", "Plan", "plan_of", "report"]
