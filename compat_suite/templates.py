"""``python -m compat_suite templates``: which operators are traced once for all sizes, and why the others are not.

Each operator is called as its cases say. What it makes is of four kinds: what it computes, its gradients, its tangents,
and its gradients where they are recorded. An operator whose trace depends on the sizes at hand has an entry in
`BY_SHAPE`, and one without such calls has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torchgrad_jax import clear_caches
from torchgrad_jax._core.arrays.meta import Meta
from torchgrad_jax._engine.run import trace, trace_files
from torchgrad_jax._engine.run.templates import Template

from . import bar
from .cases import CASES
from .execute import run
from .jobs import Job, jobs_of
from .libs import ours
from .pages import table
from .suite import _name, _spread

KINDS = FORWARD, GRADIENTS, TANGENTS, RECORDED = ("forward", "gradients", "tangents", "recorded gradients")
_DERIVED = (GRADIENTS, TANGENTS, RECORDED)
_SEARCH = "a search takes as many rounds as its length has bits"
_SCAN = "JAX differentiates it by an associative scan, which takes as many rounds as the length has bits"
_ROWS = "JAX makes an array of the number of rows"
_LOOP = "a loop over rows has a number of rows as its value"
_RULE = "its tangent is a rule that is Python code and may have sizes in it"
_HALF = "JAX's own rule counts half of the frequencies in an array"
_WINDOWS = "it takes windows apart whose size follows from that of the input"
_PLACES = "NumPy computes the places in a storage from sizes and strides"
BY_SHAPE: dict[str, tuple[Sequence[str], str]] = {
    "bucketize": ([FORWARD], _SEARCH),
    "searchsorted": ([FORWARD], _SEARCH),
    "_convert_indices_from_coo_to_csr": ([FORWARD], _SEARCH),
    "_convert_indices_from_csr_to_coo": ([FORWARD], _SEARCH),
    "histogram_of_points": ([FORWARD], "it counts in an array whose size is computed in Python"),
    "embedding_bag": ([FORWARD, GRADIENTS], "bags that begin at offsets are counted in Python"),
    "linalg_cholesky_ex": (KINDS, _ROWS),
    "linalg_lu": ([GRADIENTS], "NumPy counts the columns that pad a wide matrix"),
    "_linalg_det": ([RECORDED], _ROWS),
    "linalg_ldl_factor_ex": ([FORWARD], _LOOP),
    "linalg_ldl_solve": ([FORWARD], _LOOP),
    "cumprod": (_DERIVED, _SCAN),
    "logcumsumexp": (_DERIVED, _SCAN),
    "prod": ([RECORDED], _SCAN),
    "_fft_c2r": ([GRADIENTS, RECORDED], _HALF),
    "_fft_r2c": ([GRADIENTS, RECORDED], _HALF),
    "index_copy": ([TANGENTS], _RULE),
    "index_put": ([TANGENTS], _RULE),
    "nansum": ([TANGENTS], _RULE),
    "scatter_src": ([TANGENTS], _RULE),
    "segment_reduce_rows": ([GRADIENTS], _RULE),
    "put": ([TANGENTS], _RULE),
    "slice_scatter": (KINDS, _PLACES),
    "diagonal_scatter": (KINDS, _PLACES),
    "adaptive_max_pool2d": ([FORWARD, GRADIENTS], _WINDOWS),
    "adaptive_max_pool3d": ([FORWARD, GRADIENTS], _WINDOWS),
    "pdist": (KINDS, "NumPy lists the pairs of rows"),
    "as_strided": ([RECORDED], _PLACES),
    "as_strided_copy": ([TANGENTS, RECORDED], _PLACES),
}
"""The operators of which some calls are traced by their shape: of what kinds these are, and why."""

_OF_SUFFIX = {"_jvp": "tangents", "_backward": "recorded gradients"}

_MOST = {"value": 2, "grad": 2, "second": 1, "jvp": 1}
"""By check, how many calls of each case are taken."""


class Made(NamedTuple):
    """A plan, or the gradients of one, that a call made."""

    name: str
    """The operator."""
    kind: str
    general: bool
    """Whether it comes from a template."""
    plan: trace.Plan
    grad: Any
    """The gradients; None where they are not what this is about."""


def calls_of_cases() -> Iterator[tuple[str, list[Job]]]:
    """A few calls of each case, forward and with derivatives, and what they are called."""
    for n, case in enumerate(CASES):
        jobs = [*jobs_of(case)]
        chosen = [j for check, most in _MOST.items() for j in _spread([j for j in jobs if j.check == check], most)]
        if chosen:
            yield f"{_name(case, 1)}-{n}", chosen


def made_by(jobs: Sequence[Job]) -> list[Made]:
    """What some jobs make, of arrays with elements; nothing is remembered from before, and nothing read from files."""
    clear_caches()
    folder, trace_files.folder_of_kernels = trace_files.folder_of_kernels, lambda: None
    try:
        for job in jobs:
            run(ours(), job)
    finally:
        trace_files.folder_of_kernels = folder
    plans = [p for cache in [*trace._PLAN_CACHES] for p in cache.young.values() if isinstance(p, trace.Plan)]
    return [m for p in plans if all(k.numel for k in p.keys if isinstance(k, Meta)) for m in _made(p)]


def _made(plan: trace.Plan) -> Iterator[Made]:
    name, kind = plan.call.row.name or plan.call.name, "forward"
    if not plan.call.row.name:
        suffix = next((s for s in _OF_SUFFIX if name.endswith(s)), None)
        if suffix is None and not plan.call.forms:
            return
        name, kind = (name, kind) if suffix is None else (name.removesuffix(suffix), _OF_SUFFIX[suffix])
    if not plan.call.in_place:
        yield Made(name, kind, plan.found is not None, plan, None)
    for grad in plan.grads.values():
        if getattr(grad, "formula", None) is not None:
            general = plan.found is not None and gradients_of(grad, plan.found.template) is not None
            yield Made(name, "gradients" if kind == "forward" else kind, general, plan, grad)


def gradients_of(grad: Any, template: Template) -> Any:
    """Which sizes a template's gradients hold for, and their steps; None where it has none."""
    formula = grad.formula
    entry = template.known.get((formula.inputs, formula.diff))
    return None if entry is None or entry[1] is None else entry


def main(args: Any) -> int:
    """Print how many operators have templates, and those of which some calls have none."""
    calls = [*calls_of_cases()]
    by_kind: dict[str, dict[str, bool]] = {kind: {} for kind in KINDS}
    for n, (_, jobs) in enumerate(calls):
        bar.draw(n, len(calls), 0)
        for m in made_by(jobs):
            by_kind[m.kind][m.name] = m.general and by_kind[m.kind].get(m.name, True)
    bar.clear()
    print(table(["of operators", "all", "with templates", ""], [_row(kind, found) for kind, found in by_kind.items()]))
    found = {(kind, name) for kind, names in by_kind.items() for name, general in names.items() if not general}
    listed = {(kind, name) for name, (kinds, _) in BY_SHAPE.items() for kind in kinds}
    rows = [[f"`{name}`", ", ".join(kinds), reason] for name, (kinds, reason) in sorted(BY_SHAPE.items())]
    print("\n" + table(["operator", "traced by its shape", "because"], rows))
    for kind, name in sorted(found ^ listed):
        print(f"{name}, {kind}: {'not among BY_SHAPE' if (kind, name) in found else 'needs no entry in BY_SHAPE'}")
    return int(found != listed)


def _row(kind: str, found: dict[str, bool]) -> list[str]:
    return [kind, str(len(found)), str(sum(found.values())), f"{sum(found.values()) / max(1, len(found)):.1%}"]
