"""Looking for programs on which the libraries differ, and making them small."""

from __future__ import annotations

import contextlib
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..libs import Lib, live_torch, ours
from . import kernels, observe, ways
from .omitted import Refused
from .precision import CENTRED, NAME, Precision, spelled
from .programs import PLAIN, InvalidProgram, Kind, Mismatch, Program, Session, make

LENGTH = 14
SWARM = 50
"""How many seeds in a row make programs of the same few choices, which share kernels."""
SHORT = 2
"""Numbers move to the next one of fewer digits."""
_STEPS = (1e-14, 3e-7, 1e-3, 1e-2)
"""By how much numbers are moved, per format: of double precision by much less than is told apart,
of single precision by the four or five roundings that kernels are apart (`tanh`)."""
_MADE = re.compile(r"(?:with .*: )?(?:(v\d+(?:, v\d+)*),? = |(v\d+)\.\w+_\()")
_SUMS = re.compile(
    r"@|mm\(|mv\(|dot|matmul|outer|inner|kron|einsum|addr|linear|conv|attention|fft|cdist|cov\(|vander|maximum|"
    r"minimum|amax|amin|max\(|min\(|norm|func\.|functional\.|vmap|grads\(|backward\("
)
"""Lines whose zeros have the sign that their kernel's order of additions leaves, which no two kernels share: torch's
own differ with the number of elements."""
_ADDS = re.compile(r"sum\(|mean\(|trace\(|dot\(")
"""Lines that add up what a centred function may have made to be 0."""
_SATURATES = re.compile(r"tanh|sigmoid|erfc?\b|ndtr|softmax|cosh?\b|expit")
"""Functions that many numbers lead close to 1: what comes from the rest to 1 has the rounding of their kernels, which
moving their arguments does not move."""
_CANCELS = re.compile(r"(?:tanhshrink|sinc)\((v\d+)|(v\d+)\.sinc")
"""Lines with a difference of nearly equal numbers inside."""
_BY_SIZE = re.compile(
    r"functional\.(?:softshrink|hardshrink|hardtanh_?|relu6|elu_?|selu|celu|hardswish|gelu)\((v\d+)"
    r"|copysign\(v\d+, (v\d+)|logit\((v\d+)"
)
"""Functions in which torch's loops for vectors and for the rest of a tensor have different gradients for NaN, and
`logit` for the two zeros; and gelu, which is NaN for an infinite number of single precision among others. NaN has the
sign that a processor gives it."""
_NEGATED = re.compile(r"(v\d+)\.neg_?\(")
"""Negatives of complex numbers: a vector's zeros stay what they are, the rest of a tensor's change their sign."""


@dataclass(frozen=True)
class Finding:
    """A program that tells the libraries apart."""

    seed: int
    program: Program
    mismatch: Mismatch

    def report(self) -> str:
        """The program as a file to run, with what differs below it."""
        i = self.mismatch.line
        if self.program.way != "lines":
            text = ways.source(self.program, live_torch())
            return f"# seed {self.seed}, {self.program.way}\n{text}# {self.mismatch.text}\n"
        return (
            f"# seed {self.seed}, {'watched' if self.program.watched else 'looked at only at the end'}\n"
            f"{self.program.source()}"
            f"# after line {i + 1}: {self.program.lines[i]}\n# {self.mismatch.text}\n"
        )


def judge(program: Program, got: Lib, want: Lib) -> Mismatch | None:
    """The first difference that is not an ill-conditioned number, and does not come of one."""
    found = ways.compare_in_its_way(program, got, want)
    if found is None:
        return None
    if program.way in ("compile", "vmap"):
        if found.kind == "exception":
            return found
        parts = [_moved_apart(p, want)[0] for p in ways.one_by_one(program, want)]
        return None if any(parts) else found
    if not found.kind.endswith(("value", "shape*", "exception")) and not found.kind.startswith("log*"):
        return found
    cut = replace(program, lines=program.lines[: found.line + 1])
    values, errors = _moved_apart(cut, want)
    if found.kind == "exception":
        return None if errors else found
    return None if values or _rounded_apart(cut, want, found.attribute) else found


def _moved_apart(program: Program, lib: Lib) -> tuple[bool, bool]:
    """Whether the oracle's own numbers, and what its last line raises, change when numbers move by a few roundings.

    Rounding then decides the result (0/0 after a cancellation, or the floor of a whole number, say), which no two
    libraries share: they are moved up, in another run down, and in a last one to the next short number. The zeros
    that a Fourier transform gives are the rounding of its kernel, so its results move too; those of sums of products
    and of gradients change their sign.
    """
    states, raised = [], []
    precision = Precision()
    for moved in (0, 1, -1, SHORT):
        session = Session(lib, program.functions)
        centred = False
        for line in program.lines:
            centred |= bool(CENTRED.search(line))
            by_size = _BY_SIZE.search(line)
            if by_size:
                x = session.env[by_size[1] or by_size[2] or by_size[3]]
                if not lib.module.isfinite(x).all() or (by_size[3] and (x == 0).any()):
                    return True, False
            nudged = _nudged(line, precision, moved) if moved in (1, -1) else line
            error = session.run(nudged)
            if moved == SHORT:
                made = _MADE.match(line)
                _shorten(session, (made[1] or made[2]).split(", ") if made else [])
            elif moved:
                made = _MADE.match(line)
                names = (made[1] or made[2]).split(", ") if made else []
                _move_large(session, names)
                for name in names:
                    session.run(_moved(name, line, precision.of.get(name, 0), moved))
                negated = _NEGATED.search(line)
                if negated and session.env[negated[1]].is_complex():
                    _turn_zeros(session, names or [negated[1]], 0.0)
                if made and (CENTRED.search(line) or (centred and _ADDS.search(line))):
                    _turn_zeros(session, names, moved * 1e-16)
                elif _SUMS.search(line):
                    shift = 1e-16 if centred and ("grads(" in line or "backward(" in line) else 0.0
                    _turn_zeros(session, names, moved * shift)
        states.append(session.state(False))
        raised.append(error)
        if not moved:
            last = len(program.lines) - 1
            for k, line in enumerate(program.lines):
                precision.after(line, states[0] if k == last else None)
    found = [d for other in states[1:] for d in observe.differences(states[0], other, precision)]
    values = any(re.search("value|log|shape", where) for where, _ in found)
    return values, any(error != raised[0] for error in raised)


def _rounded_apart(program: Program, lib: Lib, attribute: str) -> bool:
    """Whether an attribute of the oracle's own changes with the last places of its functions.

    1 - tanh(x)**2 of a large x is made of them, and no x next to it has another tanh.
    """
    states = []
    for way in (0, 1, -1, -2):
        session = Session(lib, program.functions)
        precision = Precision()
        last = len(program.lines) - 1
        for k, line in enumerate(program.lines):
            with kernels.moved(lib, way) if way else contextlib.nullcontext():
                session.run(line)
            if k == last:
                states.append(session.state(False))
            precision.after(line, states[0] if k == last else None)
    return any(
        where == attribute for other in states[1:] for where, _ in observe.differences(states[0], other, precision)
    )


def _nudged(line: str, precision: Precision, way: int) -> str:
    """The line with its numbers moved, and what was saved moved where it is unpacked, by the coarsest rounding.

    Numbers move by the rounding of the coarsest tensor that the line mentions: others would leave it as it is.

    The gradient of `logcumsumexp` takes the logarithm of what comes in, and NaN falls out there: the definition
    stands in for it.
    """
    ranks = [precision.of.get(name, 0) for name in NAME.findall(line)]
    step = way * _STEPS[max([spelled(line), *ranks])]
    line = re.sub(r"-?\d+\.\d+", lambda m: repr(float(m[0]) * (1 + step)), line)
    line = re.sub(r"lambda t: t( / 2)?\): v", rf"lambda t: t\1 * {1 + way * _STEPS[precision.lowest]!r}): v", line)
    return line.replace(".logcumsumexp(0)", ".exp().cumsum(0).log()")


def _moved(name: str, line: str, rank: int, way: int) -> str:
    """A line that moves the tensor just made: by the rounding of its format, if that is a coarse one."""
    if cancels := _CANCELS.search(line):
        return f"{name}.data.add_({cancels[1] or cancels[2]}.detach(), alpha={_STEPS[rank] if rank else 1e-15})"
    if not rank and _SATURATES.search(line):
        return f"{name}.data.mul_({1 + way * 2.3e-16!r})"
    # Of complex numbers no two kernels round alike.
    if not rank and ("/" in line or "reciprocal" in line):
        return f"{name}.is_complex() and {name}.data.mul_({1 + way * 2.3e-16!r})"
    if "fft." in line:
        step = f"1e-15 + 1e-15j if {name}.is_complex() else 1e-15"
        return f"{name}.data.add_({name}.detach().abs().max(), alpha={step})"
    return f"{name}.data.mul_({1 + way * _STEPS[rank]!r})" if rank else ""


def _shorten(session: Session, made: Iterable[str]) -> None:
    """Round these tensors to some digits less than they have: what is nearly equal gets equal."""
    torch = session.lib.module
    for t in map(session.env.get, made):
        if not isinstance(t, session.lib.tensor_type) or t.is_inference():
            continue
        digits = {torch.float64: 12, torch.complex128: 12, torch.float32: 5, torch.complex64: 5}.get(t.dtype)
        if digits is None:
            continue
        with contextlib.suppress(RuntimeError):  # a view that may not be written to, say
            size = t.detach().abs().double()
            known = torch.isfinite(size) & (size > 0)
            unit = 10.0 ** (digits - torch.where(known, size, 1.0).log10().floor())
            parts = torch.view_as_real(t.detach()) if t.is_complex() else t.detach()
            if t.is_complex():
                known, unit = known.unsqueeze(-1), unit.unsqueeze(-1)
            short = torch.where(known, (parts * unit).round() / unit, parts.double()).to(parts.dtype)
            t.data.copy_(torch.view_as_complex(short) if t.is_complex() else short)


def _move_large(session: Session, made: Iterable[str]) -> None:
    """Move large numbers by some roundings, whatever they come from: sines of them are anybody's guess."""
    for t in map(session.env.get, made):
        if isinstance(t, session.lib.tensor_type) and t.is_floating_point() and not t.is_inference():
            with contextlib.suppress(RuntimeError):  # a view that may not be written to, say
                t.data.mul_(1 + 1e-15 * (t.detach().abs() > 1e6).to(t.dtype))


def _turn_zeros(session: Session, made: Iterable[str], shift: float) -> None:
    """Change the signs of the zeros in these tensors and in all gradients; with a `shift` of all that is nearly 0.

    With one downwards that is 0: where torch's kernels leave a rounding, others may leave nothing.
    """
    torch = session.lib.module

    def turned(t: Any) -> Any:
        if t.is_complex():
            return torch.complex(turned(t.real), turned(t.imag))
        if not shift:
            return torch.where(t == 0, -t, t)
        step = shift * 1e7 if t.dtype is torch.float32 else shift
        moved = torch.where(t == 0, -t - step, torch.zeros_like(t)) if step < 0 else -t - step
        return torch.where(t.abs() < 1e4 * abs(step), moved, t)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for t in [*map(session.env.get, made), *map(_gradient, session.env.values())]:
            if isinstance(t, session.lib.tensor_type) and (t.is_floating_point() or t.is_complex()):
                with contextlib.suppress(RuntimeError):  # a view that may not be written to, say
                    t.data.copy_(turned(t.detach()))


def _gradient(value: Any) -> Any:
    """What a leaf has in `.grad`, if this is one; a view that must not be used any more says nothing."""
    try:
        return value.grad if value.is_leaf else None
    except (AttributeError, RuntimeError):
        return None


def shrink(finding: Finding, got: Lib, want: Lib, budget: int = 150) -> Finding:
    """Drop lines, and turn the rest simpler, as long as the same kind of difference remains."""
    best = finding
    for _ in range(4):
        before = best
        for candidate in _smaller(best):
            budget -= 1
            if budget < 0:
                return best
            best = _keep(candidate(best), best, got, want)
        if best is before:
            break
    return best


def _keep(candidate: Program, best: Finding, got: Lib, want: Lib) -> Finding:
    if candidate == best.program or not candidate.lines:
        return best
    try:
        found = judge(candidate, got, want)
    except (InvalidProgram, Refused):
        return best
    if found is None or found.kind != best.mismatch.kind:
        return best
    return Finding(best.seed, replace(candidate, lines=candidate.lines[: found.line + 1]), found)


def _smaller(finding: Finding) -> Iterator[Callable[[Finding], Program]]:
    """Steps towards a smaller program; each is applied to the best one so far."""

    def without(text: str) -> Callable[[Finding], Program]:
        return lambda f: replace(f.program, lines=tuple(x for x in f.program.lines if x != text))

    def with_line(old: str, new: str) -> Callable[[Finding], Program]:
        return lambda f: replace(f.program, lines=tuple(new if x == old else x for x in f.program.lines))

    lines = finding.program.lines[: finding.mismatch.line + 1]
    for text in reversed(lines):
        yield without(text)
    for text in lines:
        if text.startswith("with "):
            yield with_line(text, text.partition(": ")[2])
        for pattern, new in (
            (r"\[:, 1:\]|\[1:\]", "[0]"),
            (r", (retain|create)_graph=True", ""),
            (r"-?\d+\.\d\d", "1.0"),
        ):
            simpler = re.sub(pattern, new, text)
            if simpler != text:
                yield with_line(text, simpler)


def program_of(seed: int, length: int = LENGTH, available: Lib | None = None, kind: Kind = PLAIN) -> Program:
    """The program of a seed."""
    if kind.swarm is not None:
        kind = replace(kind, swarm=seed // SWARM)
    return make(random.Random(seed), live_torch(), available or ours(), length, kind)


def search(
    seeds: Iterator[int] | range,
    length: int = LENGTH,
    shrinking: bool = True,
    kind: Kind = PLAIN,
    refused: Counter[str] | None = None,
) -> Iterator[Finding | None]:
    """Per seed, None or a small program that tells the libraries apart; `refused` counts what the ledger lets pass."""
    got, want = ours(), live_torch()
    for seed in seeds:
        program = program_of(seed, length, kind=kind)
        mismatch = None
        if program.lines:
            try:
                mismatch = judge(program, got, want)
            except InvalidProgram:
                pass
            except Refused as why:
                if refused is not None:
                    refused[str(why)] += 1
        if mismatch is None:
            yield None
            continue
        finding = Finding(seed, replace(program, lines=program.lines[: mismatch.line + 1]), mismatch)
        yield shrink(finding, got, want) if shrinking else finding
