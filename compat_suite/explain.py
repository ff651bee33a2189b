"""Show one case of the suite: its program, every answer to it, what the ledger says, and the jaxpr of the call."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from . import ledger as ledgers
from .cases import CASES
from .compare import snippet
from .execute import Builder, Result, Seen, flat, invoke, run
from .jobs import Job, all_jobs
from .judge import judge
from .libs import ours
from .oracles import choose
from .oracles.jax_ref import JaxReference

_SHOWN = 12


def main(args: Any) -> int:
    """`python -m compat_suite explain ID`: 1 if the case differs, 2 if there is no such case, or several."""
    found = matching(args.id)
    if len(found) != 1:
        said = "no case has this id" if not found else f"{len(found)} cases have this in their ids"
        lines = [said, *(f"  {job.id}" for job in found[:_SHOWN])]
        sys.stderr.write("\n".join(lines) + "\n")
        return 2
    verdict = judge(found[0], oracle := choose(args.oracle))
    print("\n\n".join(sections(found[0], oracle, verdict)))
    return 1 if verdict.bad else 0


def matching(text: str) -> list[Job]:
    """The case with this id, or else those whose ids hold the text."""
    jobs = list(all_jobs(CASES))
    return [j for j in jobs if j.id == text] or [j for j in jobs if text in j.id]


def sections(job: Job, oracle: Any, verdict: Any) -> Iterator[str]:
    """What there is to say, under headings."""
    yield f"{job.id}: {verdict.status}" + "".join(f"\n  {t}" for t in verdict.texts)
    yield f"program:\n{_indented(snippet(job))}"
    yield from answers_to(job, oracle)


def answers_to(job: Job, oracle: Any) -> Iterator[str]:
    """The oracle's answer, ours and JAX's, what the ledger says, and the jaxpr of the call."""
    answers = [(oracle.name, oracle.result(job)), (ours().name, run(ours(), job))]
    reference = JaxReference()
    answers.append((reference.name, reference.result(job)))
    for name, result in answers:
        yield f"{name}:\n{_indented(answer(result))}"
    for entry in _entries(job, oracle):
        yield f"ledger ({entry.date}): {entry.reason}"
    if job.check != "error":
        yield f"jaxpr of the call:\n{_indented(jaxpr(job))}"


def answer(result: Result | None) -> str:
    """A result in words."""
    if result is None:
        return "has nothing to say of this"
    if result.error is not None:
        return f"{result.error[0]}: {result.error[1]}"
    groups = ("result", result.parts), ("gradient", result.gradients)
    lines = [f"{what} {i}: {_seen(p)}" for what, parts in groups for i, p in enumerate(parts)]
    return "\n".join([*lines, *([f"saved: {', '.join(result.saved)}"] if result.saved else [])])


def _seen(part: Seen) -> str:
    if part.value is None:
        return part.text or part.type or "None"
    shown = np.array2string(np.asarray(part.value), threshold=_SHOWN, separator=", ")
    kind = f"{part.dtype}{list(part.shape)}" if part.dtype else ""
    return f"{kind} {shown}".strip()


def _entries(job: Job, oracle: Any) -> list[ledgers.Entry]:
    book = ledgers.current()
    found = book.expected_failure(job.id, oracle.kind), book.skipped(job.id, oracle.kind)
    return [e for e in found if e is not None]


def jaxpr(job: Job) -> str:
    """What the call computes, as JAX writes it; why not, where it cannot be traced."""
    builder = Builder(ours(), job, track=False)
    args, kwargs = builder.call()
    tensors = [a for a in args if isinstance(a, ours().tensor_type)]

    def call(*given: Any) -> Any:
        rest = iter(given)
        mixed = [next(rest) if isinstance(a, ours().tensor_type) else a for a in args]
        return [x for x in flat(invoke(ours(), job.case, mixed, kwargs)) if x is not None]

    try:
        return str(jax.make_jaxpr(call)(*tensors))
    except Exception as e:
        return f"none: {type(e).__name__}: {(str(e).splitlines() or [''])[0]}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
