"""Do the operators and their gradients compile for a TPU and a GPU that are not here?

Of each row the first call is compiled for each target: forward, gradient and second gradient, in the dtypes of the
row that such a chip is for. A row whose result depends on values has no program anywhere, and counts as such.
`ledger/targets.toml` lists what the compilers themselves cannot do. An entry that matches what compiles fails the run,
as does one that matches nothing where all rows ran.

    python -m compat_suite targets                        # all rows, for v5e:2x2 and h100
    python -m compat_suite targets --sample 40 --seconds 100   # 40 of them by the hash of their names, for so long
    python -m compat_suite targets --op cumsum --on v6e:1x1
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import sys
import time
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from . import bar
from .case import Case
from .cases import CASES
from .execute import Builder, flat, invoke
from .jobs import Job, differentiable
from .ledger import HOME, Entry, parse
from .libs import ours
from .pages import DOCS, table
from .saved_state import SavedState, code_of

TARGETS = ("v5e:2x2", "h100")
CHECKS = {"value": "forward", "grad": "gradient", "second": "second gradient"}
DTYPES = ("float32", "bfloat16", "float16", "int64", "bool", "complex64")
COMPILES, NOWHERE, FAILS = "compiles", "no program anywhere", "does not compile"
LONGEST = 300
"""Seconds that a compiler may take for one call."""
BEGIN, END = "<!-- targets: begin -->", "<!-- targets: end -->"
ABSENT = "the compilers for TPUs and GPUs are not installed (make targets), so nothing was compiled for them"


def all_jobs(ops: Sequence[str] | None = None) -> list[Job]:
    """One job for each row, check and dtype; `ops` are parts of names."""
    found = [job for case in CASES if case.samples and case.family != "points" for job in _jobs_of(case)]
    return [job for job in found if ops is None or any(op in job.case.op for op in ops)]


def _jobs_of(case: Case) -> Iterator[Job]:
    sample = case.samples[0]
    dtypes = ["float32", *(d for d in DTYPES[1:] if d in case.dtypes)]
    for check, order in (("value", 0), ("grad", 1), ("second", 2)):
        for dtype in dtypes:
            if order and (not sample.grads or case.derivatives < order or not differentiable(sample, dtype)):
                continue
            if order < 2 or dtype == "float32":
                yield Job(check, case, sample, dtype)


def sampled(jobs: Sequence[Job], count: int, seed: str) -> list[Job]:
    """So many jobs, drawn by a hash of their ids: the same ones for the same seed."""

    def drawn(job: Job) -> bytes:
        return hashlib.sha256(f"{seed} {job.id}".encode()).digest()

    return sorted(jobs, key=drawn)[:count]


# --- one job ----------------------------------------------------------------------------------------


class Given(Builder):
    """Gives the tensors of a call that were made before, so that they are arguments of a compiled function."""

    def __init__(self, job: Job, tensors: Sequence[Any]) -> None:
        super().__init__(ours(), job, track=job.check != "value")
        self._tensors = iter(tensors)

    def tensor(self, spec: Any) -> Any:
        """The next of them."""
        x = next(self._tensors)
        if self.track and x.dtype.is_floating_point | x.dtype.is_complex and spec.grad:
            x = x.detach().requires_grad_()
            self.leaves.append(x)
        return x


class _Kept(Builder):
    """Keeps the tensors that it makes."""

    def __init__(self, job: Job) -> None:
        super().__init__(ours(), job, track=False)
        self.made: list[Any] = []

    def tensor(self, spec: Any) -> Any:
        """One more tensor."""
        self.made.append(super().tensor(spec))
        return self.made[-1]


def step_of(job: Job) -> Any:
    """What is compiled: the tensors of a call give its results, or their gradients for directions made of `weight`."""
    lib = ours()

    def step(weight: Any, *tensors: Any) -> Any:
        builder = Given(job, tensors)
        args, kwargs = builder.call()
        name = job.case.op.rpartition(".")[2]
        if job.case.op.startswith("Tensor.") and name.endswith("_") and not name.startswith("__"):
            args = [args[0].clone(), *args[1:]]
        out = invoke(lib, job.case, args, kwargs)
        if job.check == "value":
            return [v for v in flat(out) if isinstance(v, lib.tensor_type)]
        roots = [v for v in flat(out) if isinstance(v, lib.tensor_type) and v.requires_grad]
        return _gradients(job, roots, builder.leaves, weight) if roots else []

    return step


def _gradients(job: Job, roots: list[Any], leaves: list[Any], weight: Any) -> list[Any]:
    grad = ours().module.autograd.grad
    again = job.check == "second"
    given = [weight.to(root.dtype).expand(root.shape).detach() for root in roots]
    given = [g.requires_grad_() for g in given] if again else given
    first = grad(roots, leaves, given, create_graph=again, allow_unused=True)
    if again:
        roots = [g for g in first if g is not None and g.requires_grad]
        if not roots:
            return []
        weights = [weight.to(root.dtype).expand(root.shape) for root in roots]
        first = grad(roots, [*leaves, *given], weights, allow_unused=True)
    return [g for g in first if g is not None]


def compiled_for(job: Job, target: Any) -> tuple[str, str]:
    """Whether a job compiles for a target, and what was said if it does not."""
    torch = ours().module
    step = step_of(job)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            maker = _Kept(job)
            maker.call()
            with target:
                low = torch.compile(step).lower(torch.ones(()), *maker.made)
        except Exception as error:
            return NOWHERE, _first_line(error)
        try:
            low.compile()
        except Exception as error:
            return FAILS, _first_line(error)
    return COMPILES, ""


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]


# --- the run ----------------------------------------------------------------------------------------


def targets_of(names: Sequence[str]) -> dict[str, Any] | None:
    """The targets; None where their compilers are not installed, which is said."""
    import jax

    jax.devices()  # before the compilers can be found: JAX would look for their hardware
    compilers = Path(sys.prefix) / "compilers"
    if compilers.is_dir() and str(compilers) not in sys.path:
        sys.path.append(str(compilers))
    found = {}
    for name in names:
        try:
            found[name] = ours().module.interop.target(name)
        except RuntimeError as error:
            if "torchgrad-jax[plan]" not in str(error):
                raise
    return found or None


def entries() -> tuple[Entry, ...]:
    """What is known not to compile."""
    file = HOME / "targets.toml"
    return parse(tomllib.loads(file.read_text(encoding="utf-8")), file.name)


def judged(rows: dict[str, Any], known: Sequence[Entry], *, all_ran: bool) -> list[str]:
    """What is wrong with a run: what fails and is not known, what is known and compiles, entries that match nothing."""
    wrong, used = [], set()
    for name, (state, said) in rows.items():
        entry = next((e for e in known if e.matches(name, "any")), None)
        if entry is not None:
            used.add(entry.id)
        if state == FAILS and entry is None:
            wrong.append(f"{name}: {said}")
        if state == COMPILES and entry is not None:
            wrong.append(f"{name} compiles, and {entry.id!r} says that it does not")
    stale = [entry.id for entry in known if entry.id not in used] if all_ran else []
    return [*wrong, *(f"{name!r} in ledger/targets.toml matches nothing" for name in stale)]


def summary(rows: dict[str, Any]) -> str:
    """A table of the counts by target and check: what compiles, what XLA refuses, what has no program."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for name, (state, _) in rows.items():
        target, check = name.split()[:2]
        counts[target, check, state] += 1
    kinds = dict.fromkeys((target, check) for target, check, _ in counts)
    return table(
        ["target", "check", "compile", "refused by XLA", "no program anywhere"],
        [
            [target, CHECKS[check], *(str(counts[target, check, s]) for s in (COMPILES, FAILS, NOWHERE))]
            for target, check in kinds
        ],
    )


def write_table(rows: dict[str, Any], about: str) -> None:
    """Put the table into docs/accelerators.md."""
    import jax

    file = DOCS / "accelerators.md"
    before, _, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    text = f"{about}, {date.today()}, jax {jax.__version__}.\n\n{summary(rows)}"
    refused = sorted({f"`{name}`: {said}" for name, (state, said) in rows.items() if state == FAILS})
    if refused:
        text += "\n\n" + "\n".join(f"* {row}" for row in refused)
    file.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def run(jobs: Sequence[Job], names: Sequence[str], state: SavedState, seconds: float | None = None) -> None:
    """Compile all jobs for all targets, or as many as fit into a time; `state` gets what comes of each."""
    todo = [(name, job.id) for job in jobs for name in names if f"{name} {job.id}" not in state.rows]
    began, before = time.time(), len(state.rows)
    with Compilers(names) as compilers:
        for name, job in todo:
            if seconds is not None and time.time() - began > seconds:
                break
            state.rows[f"{name} {job}"] = compilers.compiled_for(name, job)
            state.keep()
            failed = sum(row[0] == FAILS for row in state.rows.values())
            bar.draw(len(state.rows), before + len(todo), failed, began=began, before=before)
    bar.clear()
    state.keep(now=True)


class Compilers:
    """A process that compiles, and another one where the compiler has ended the first: its checks abort."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [*names]
        self._process: Any = None

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, *_: Any) -> None:
        self._end()

    def compiled_for(self, name: str, job: str) -> tuple[str, str]:
        """As the function, for a target and a job by their names."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._there, here = context.Pipe()
            self._process = context.Process(target=_serve, args=(here, self._names), daemon=True)
            self._process.start()
            here.close()
        try:
            self._there.send((name, job))
            if self._there.poll(LONGEST):
                return self._there.recv()
            self._process.kill()
            said = f"the compiler takes more than {LONGEST} s"
        except (EOFError, BrokenPipeError, ConnectionResetError):
            said = "the compiler ends the process"
        self._end()
        return FAILS, said

    def _end(self) -> None:
        if self._process is not None:
            self._there.close()
            self._process.join()
            self._process = None


def _serve(pipe: Any, names: Sequence[str]) -> None:
    """Compile what is asked for until nobody asks any more; what compilers print as they end is nobody's concern."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    targets, jobs = targets_of(names), {job.id: job for job in all_jobs()}
    assert targets is not None
    while True:
        try:
            name, job = pipe.recv()
        except EOFError:
            return
        pipe.send(compiled_for(jobs[job], targets[name]))


def main(args: argparse.Namespace) -> int:
    """`python -m compat_suite targets`."""
    targets = targets_of(args.on or TARGETS)
    if targets is None:
        print(ABSENT)
        return 0
    jobs = all_jobs(args.op)
    total = len(jobs)
    if args.sample:
        jobs = sampled(jobs, args.sample, args.seed)
    known = [entry for entry in entries() if entry.id.split()[0] in (*targets, "*")]
    state = SavedState(args.state, f"targets {' '.join(targets)}", code_of("torchgrad_jax", "compat_suite"))
    run(jobs, [*targets], state, args.seconds)
    print(summary(state.rows))
    wrong = judged(state.rows, known, all_ran=not args.op and len(state.rows) == total * len(targets))
    for line in wrong:
        print(line)
    if args.write:
        write_table(state.rows, f"{len(jobs)} of {total} calls" if len(jobs) < total else f"All {total} calls")
    return 1 if wrong else 0


__all__ = ["main"]
