"""Compare a program with itself under torch, with another program, a recording, or itself run in another way."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape

from .._observer.recording import Recording, load, save
from .judge import Judge, Verdict
from .locate import Parting, Point, curve, parting
from .page import page
from .runs import HERE, TORCH, ProgramFailed, Run, has_torch, nudged, record
from .text import text

SELF = ("eager", "compiled", "exact", "float64")


@dataclass(frozen=True)
class ProgramReport:
    """The outcome of a comparison of programs.

    Attributes:
        program: the program, with its arguments.
        names: what the run that is judged is called, and the reference.
        parting: where they part, or None.
        curve: losses and distances, event by event.
        verdicts: everything in the event at which they part.
        compared: how many values were compared.
        unreadable: how many could not be read, inside of transforms.
        notes: what else there is to say.
    """

    program: str
    names: tuple[str, str]
    parting: Parting | None
    curve: list[Point]
    verdicts: list[Verdict] = field(default_factory=list)
    compared: int = 0
    unreadable: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether the runs agree as far as rounding allows."""
        return self.parting is None

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        """Return the page in a frame, which a notebook shows."""
        return f'<iframe width="100%" height="600" srcdoc="{escape(self.html())}"></iframe>'

    def html(self) -> str:
        """Return the report as a page that needs no other file."""
        return page(self)


def compare_program(
    program: str,
    arguments: Sequence[str] = (),
    *,
    against: str = TORCH,
    reference: str | None = None,
    module: bool = False,
    steps: int = 0,
    seed: int = 0,
    nudges: int = 2,
    factor: float = 1.0,
    operators: int = 12,
    python: str | None = None,
) -> ProgramReport:
    """Run a training program twice, watched, and say where the runs part.

    Nothing in the program changes. Compared are parameters, buffers, results of modules, losses, gradients and the
    state of optimizers at each backward pass and step, and near the first difference the results of single operators.
    More runs of the reference, with numbers nudged by a rounding, tell how far apart rounding alone may bring values.

    Args:
        program: a script; the name of a module with `module`.
        arguments: its arguments.
        against: "torch"; a file that `record_program` wrote; or this package itself in another way: "eager" (whatever
            `torch.compile` says), "compiled" (each module that the program calls), "exact" (the same in the mode of
            this name, which has to give eager code's bits: nothing that differs is put down to rounding), "float64",
            "devices=N" (each module's batch over so many devices), "platform=NAME" (of JAX's: "cpu", "gpu", "tpu"),
            "here".
        reference: another script in the reference's place, such as the one that `program` is a port of.
        module: whether `program` is the name of a module.
        steps: stop after so many steps (without an optimizer: backward passes); 0 runs to the end.
        seed: of torch, NumPy and Python, before the program starts. A file brings its own seed, nudges and operators.
        nudges: how many nudged runs.
        factor: widens what is allowed.
        operators: for how many backward passes and steps single operators are recorded. Where the runs part later, both
            run once more.
        python: the interpreter in which torch is installed, if it is another one.

    Returns:
        A report; `str` of it says where the runs part.

    Raises:
        RuntimeError: when torch is needed and not installed, or a process left nothing to compare.

    Example:
        >>> from torchgrad_jax.testing import compare_program
        >>> print(compare_program("train.py", ["--epochs", "1"]))  # doctest: +SKIP
    """
    _check_paths([reference] if module else [program, reference])
    if os.path.isfile(against):
        if reference is not None:
            raise ValueError(f"the reference is {reference} or what {against} holds; it cannot be both")
        return _against_file(program, arguments, against, module, steps, factor)
    left = Run(program, tuple(arguments), module, seed=seed, steps=steps, window=(0, operators))
    left, right = _sides(left, against, python)
    if reference is not None:
        right = replace(right, program=reference, module=False)
    if python is None and right.library == TORCH and not has_torch():
        raise RuntimeError(
            "torch is not installed here: name the interpreter that has it (--python), compare with a recording "
            "that was made where it is (--against FILE), or with this package itself (--against compiled)"
        )
    if against == "exact":
        nudges, factor = 0, 0.0
    if left == right:
        nudges = 0  # two equal runs give the same bits, unless the program itself does not
    recordings = record([left, right, *nudged(right, nudges)])
    report = _judged(left, right, recordings, factor)
    if _needs_operators(report, left.window):
        assert report.parting is not None
        window = (report.parting.event, report.parting.event + 1)
        closer = [replace(r, window=window, steps=report.parting.step) for r in (left, right, *nudged(right, nudges))]
        again = _judged(left, right, record(closer), factor)
        if again.parting is not None:
            report = replace(again, curve=report.curve, compared=report.compared)
    return report


def _check_paths(paths: Sequence[str | None]) -> None:
    for path in paths:
        if path is not None and not os.path.exists(path):
            raise ValueError(f"no such program: {path}")


def _needs_operators(report: ProgramReport, window: tuple[int, int]) -> bool:
    found = report.parting
    return found is not None and found.verdict is not None and not window[0] <= found.event < window[1]


def _sides(left: Run, against: str, python: str | None) -> tuple[Run, Run]:
    """The run that is judged and its reference. What is nudged, the reference, is always plain."""
    name, _, value = against.partition("=")
    if against == TORCH:
        return left, replace(left, library=TORCH, python=python or sys.executable)
    if against == "here":
        return left, left
    if against == "exact":
        left = replace(left, equal_bits=True)
    if against in SELF:
        return replace(left, variant=against), left
    if name == "devices" and value.isdigit() and int(value) > 0:
        return replace(left, variant="devices", devices=int(value)), left
    if name == "platform" and value:
        return replace(left, platform=value), left
    raise ValueError(
        f"against {against!r}: no such file, and none of torch, here, {', '.join(SELF)}, devices=N, platform=NAME"
    )


def _name(run: Run, recording: Recording) -> str:
    how = {"plain": "", "devices": f" on {run.devices} devices", "float64": " in float64"}
    name = f"torch {recording.facts['version']}" if run.library == TORCH else "torchgrad_jax"
    return name + how.get(run.variant, f" {run.variant}") + (f" on {run.platform}" if run.platform else "")


def _judged(left: Run, right: Run, recordings: list[Recording], factor: float) -> ProgramReport:
    names = _name(left, recordings[0]), _name(right, recordings[1])
    if left.program != right.program:
        names = f"{left.program} under {names[0]}", f"{right.program} under {names[1]}"
    return report_of(" ".join([left.program, *left.arguments]), names, recordings, factor)


def report_of(
    program: str, names: tuple[str, str], recordings: Sequence[Recording], factor: float = 1.0
) -> ProgramReport:
    """A report on recordings: of the run that is judged, of the reference, and of nudged references."""
    left, right, *moved = recordings
    _check(left, names[0]), _check(right, names[1])
    judge = Judge(left, right, moved, factor)
    found = parting(judge)
    points = curve(judge)
    verdicts = judge.event(found.event) if found is not None and found.verdict is not None else []
    return ProgramReport(
        program,
        names,
        found,
        points,
        verdicts,
        _compared(judge, found),
        max(left.facts["unreadable"], right.facts["unreadable"]),
        _notes(judge, found, points),
    )


def _compared(judge: Judge, found: Parting | None) -> int:
    """How many values stood beside each other: those until the runs part."""
    last = found.event if found is not None else len(judge.right.events)
    return min(sum(e.event <= last for e in r.entries) for r in (judge.left, judge.right))


def _check(recording: Recording, name: str) -> None:
    """A run in which nothing was seen proves nothing."""
    if len(recording.events) <= 1 and not recording.entries:
        tail = recording.facts.get("tail", "")
        raise ProgramFailed(f"{name}: nothing was seen to compare: no module was called, no backward pass ran\n{tail}")


def _notes(judge: Judge, found: Parting | None, points: list[Point]) -> list[str]:
    notes = []
    chaos = next((p for p in points if p.moved > 0.01), None)
    if chaos is not None and (found is None or chaos.step < found.step):
        notes.append(
            f"from step {chaos.step} on a rounding moves the reference itself by more than 1 %: "
            "what differs later cannot be told from rounding"
        )
    errors = {r.facts["error"] for r in (judge.left, judge.right)} - {""}
    if found is None and errors:
        notes.append(f"both runs ended with {errors.pop()}")
    return notes


def record_program(
    program: str,
    arguments: Sequence[str] = (),
    path: str = "recording.npz",
    *,
    library: str = TORCH,
    module: bool = False,
    steps: int = 0,
    seed: int = 0,
    nudges: int = 2,
    operators: int = 12,
    python: str | None = None,
) -> None:
    """Run a program and keep what was seen, for `compare_program(against=path)` where torch is not installed.

    Args:
        program: a script; the name of a module with `module`.
        arguments: its arguments.
        path: the file that is written.
        library: "torch", or "torchgrad_jax" for a recording of this package.
        module: whether `program` is the name of a module.
        steps: stop after so many steps; 0 runs to the end.
        seed: of torch, NumPy and Python.
        nudges: how many more, nudged runs.
        operators: for how many backward passes and steps single operators are recorded.
        python: the interpreter in which torch is installed, if it is another one.

    Raises:
        RuntimeError: when torch is needed and not installed, or a process left nothing to compare.
    """
    if library not in (HERE, TORCH):
        raise ValueError(f"library {library!r}: only {TORCH} and {HERE} can be recorded")
    _check_paths([] if module else [program])
    if library == TORCH and python is None and not has_torch():
        raise RuntimeError("torch is not installed here: name the interpreter that has it (--python)")
    run = Run(
        program,
        tuple(arguments),
        module,
        library,
        seed=seed,
        steps=steps,
        window=(0, operators),
        python=python or sys.executable,
    )
    recordings = record([run, *nudged(run, nudges)])
    _check(recordings[0], library)
    save(recordings, path)


def _against_file(
    program: str, arguments: Sequence[str], path: str, module: bool, steps: int, factor: float
) -> ProgramReport:
    recordings = load(path)
    facts = recordings[0].facts
    window = tuple(facts["window"])
    run = Run(
        program,
        tuple(arguments),
        module,
        HERE,
        seed=facts["seed"],
        steps=steps or facts["steps"],
        window=(window[0], window[1]),
    )
    (left,) = record([run])
    name = f"{facts['library']} {facts['version']}, recorded" if facts["library"] == TORCH else f"{HERE}, recorded"
    report = report_of(" ".join([program, *arguments]), (HERE, name), [left, *recordings], factor)
    if facts["arguments"] != list(arguments):
        report.notes.append(f"the recording was made with the arguments {facts['arguments']}")
    if _needs_operators(report, run.window):
        report.notes.append("the recording has no operators of this step; record it with a larger --operators")
    return report
