"""What has to hold between calls of one library: no other library is asked.

`torch.cumsum(x, 1)` is a call. Its derivative along v and its gradient from u belong together: ``<Jv, u> = <v, J'u>``.
Its value is the same whether somebody records it or not, and its gradient from ``2 * u`` is twice that from u, to the
bit.
Each relation is a function of a call that gives what differs, as sentences:

    for name in RELATIONS:
        print(name, broken(name, Call(ours(), job)))

They hold for torch, too, with few exceptions.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from torchgrad_jax.testing._tolerances import default, difference

from .by_batch import RANDOM, Collected, Given, call
from .case import T, tensors
from .compare import inner_dtypes
from .execute import direction, flat
from .jobs import Job, tracked
from .libs import Lib, dtype_name

_STEP = 1e-5
"""How far central differences go."""
_EXACT = {True: 1e-8, False: 1e-3}
"""How close two ways to the same derivative are, as a part of the larger of both: in double precision, in others."""
_DIFFERENCES = 2e-4
"""How close differences are to derivatives, as a part of the largest of both."""


class Call:
    """A call as a function of its tensors.

    Args:
        lib: the library that computes it.
        job: the call.
    """

    def __init__(self, lib: Lib, job: Job) -> None:
        self.lib, self.job, self.torch = lib, job, lib.module
        made = Collected(lib, job, (), 0)
        made.call()
        specs = list(tensors((job.sample.args, [v for _, v in job.sample.kwargs])))
        self.given = made.made
        """The tensors of the call, in order; none requires a gradient."""
        self.differentiated = [n for n, spec in enumerate(specs) if tracked(spec, job.dtype)]
        """The places of those that can have a derivative."""
        self._named = named = {*(spec.dtype or job.dtype for spec in specs), *inner_dtypes(job)}
        self.double = not named & {"float32", "float16", "bfloat16", "complex64"}
        """Whether all of it is in double precision."""
        derived = job.sample.grads and job.case.derivatives > 0 and bool(self.differentiated)
        coarse = named & {"float16", "bfloat16"}
        self.smooth = derived and job.sample.smooth and not coarse and job.case.op not in _OTHER_REVERSE
        """Whether it has derivatives that can be found in several ways, and numbers that tell these apart."""

    @functools.cached_property
    def results(self) -> int:
        """How many tensors the call gives; 0 if it raises."""
        try:
            return len(self(*self.leaves))
        except Exception:
            return 0

    @property
    def leaves(self) -> list[Any]:
        """The tensors that can have a derivative."""
        found = [self.given[n] for n in self.differentiated]
        return [x.clone() if 0 in x.stride() else x for x in found]  # in forward mode nothing shares its places

    def __call__(self, *leaves: Any) -> list[Any]:
        """Return the results for other values of `leaves`; what is drawn is always the same."""
        self.torch.manual_seed(0)
        held = list(self.given)
        for n, leaf in zip(self.differentiated, leaves):
            held[n] = leaf
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(self.lib, self.job, held)

    @functools.cached_property
    def _derived(self) -> list[int]:
        """The places of results that have a gradient: of Bessel functions, say, torch has none."""
        outs = self(*[x.clone().requires_grad_() for x in self.leaves])
        return [n for n, v in enumerate(outs) if v.requires_grad]

    def floating(self, *leaves: Any) -> list[Any]:
        """Return the results that have a derivative."""
        places = self._derived
        outs = self(*leaves)
        return [outs[n] for n in places]

    def allowed(self, like: Any) -> Any:
        """Return how far a value may be off that went through the coarsest dtype of the call."""
        own = default(dtype_name(like))
        coarsest = max(own, *map(default, self._named), key=lambda found: found.rtol)
        return coarsest.scaled(self.job.case.tolerance) if own.rtol else own

    def directions(self, like: Sequence[Any], what: str) -> list[Any]:
        """Return fixed numbers of the shapes of some tensors."""
        return [direction(self.lib, v, f"{self.job.call}#{what}{n}") for n, v in enumerate(like)]

    def recorded(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Return new leaves, the results that depend on them, and a gradient for each of these."""
        leaves = [x.clone().requires_grad_() for x in self.leaves]
        outs = [v for v in self.floating(*leaves) if v.requires_grad]
        return leaves, outs, self.directions(outs, "cotangent")

    def gradients(self, *leaves: Any) -> list[Any]:
        """Return the gradients as a function of the leaves, for fixed gradients that come in."""
        outs, pull = self.torch.func.vjp(self.floating, *leaves)
        return list(pull(self.directions(outs, "cotangent")))

    def along(self, fn: Callable[..., list[Any]], leaves: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Return the derivatives of the results of a function along a direction."""
        return list(self.torch.func.jvp(lambda *xs: tuple(fn(*xs)), tuple(leaves), tuple(tangents))[1])


def _inner(lib: Lib, xs: Sequence[Any], ys: Sequence[Any]) -> tuple[float, float]:
    """The real inner product of two lists of tensors, and how large its terms are."""
    terms = [np.real(lib.array(x).astype("complex128") * np.conj(lib.array(y))).ravel() for x, y in zip(xs, ys)]
    every = np.concatenate([np.zeros(1), *terms])
    return float(every.sum()), float(np.abs(every).sum())


def _apart(c: Call, one: Any, other: Any, what: str) -> Iterator[str]:
    """Say whether two inner products differ."""
    if any(sum(v.numel() for v in pair[0]) == 0 for pair in (one, other)):
        return
    (x, large), (y, largest) = (_inner(c.lib, *pair) for pair in (one, other))
    if not abs(x - y) <= _EXACT[c.double] * max(large, largest, 1.0) and np.isfinite([x, y]).any():
        yield f"{what}: {x!r} and {y!r}"


# --- derivatives ------------------------------------------------------------------------------------


_OTHER_REVERSE = {
    "torch.polar": "torch's gradient takes the sign of the result, also where the first argument is negative",
    "torch.triangular_solve": "torch's forward mode moves the whole matrix, its reverse mode the triangle that is read",
    "torch.nn.functional.ctc_loss": "torch's gradient takes the argument for a result of log_softmax",
    "torch.ctc_loss": "the same",
}
"""Operators whose gradient is not the derivative, in torch as well, and why."""
_OTHER_KERNEL = {
    "torch.linalg.svdvals": "singular vectors are computed as well where a gradient may be asked for",
    "torch.linalg.cond": "the same",
}
"""Operators that compute more where they are recorded, as torch does, so that the last bits may differ."""
_BY_MEMORY = ("torch.as_strided", "torch.as_strided_copy")
"""Operators that look at memory, and not at elements."""


def adjoint(c: Call) -> Iterator[str]:
    """Forward and reverse mode: ``<Jv, u> = <v, J'u>``."""
    if not c.smooth or not c.job.case.jvp:
        return
    tangents = c.directions(c.leaves, "tangent")
    outs = c.floating(*c.leaves)
    if not outs:
        return
    forward = c.along(c.floating, c.leaves, tangents)
    yield from _apart(
        c, (forward, c.directions(outs, "cotangent")), (tangents, c.gradients(*c.leaves)), "<Jv, u>, <v, J'u>"
    )


def second_adjoint(c: Call) -> Iterator[str]:
    """The same for the gradient: forward over reverse, reverse over reverse, and a symmetric second derivative."""
    if (
        not c.smooth
        or not c.job.case.jvp
        or c.job.case.derivatives < 2
        or not c.floating(*c.leaves)
        or c.job.sample.second is False
    ):
        return
    v, w = (c.directions(c.leaves, what) for what in ("tangent", "other tangent"))
    along_v, along_w = (c.along(c.gradients, c.leaves, d) for d in (v, w))
    yield from _apart(c, (along_v, w), (along_w, v), "the second derivative along v and w, and along w and v")
    _, pull = c.torch.func.vjp(lambda *xs: tuple(c.gradients(*xs)), *c.leaves)
    yield from _apart(c, (along_v, w), (v, pull(tuple(w))), "forward over reverse, reverse over reverse")


def differences(c: Call) -> Iterator[str]:
    """Central differences of results and of gradients: the first and second derivative along a direction."""
    if not c.smooth or not c.job.case.jvp or c.job.dtype != "float64" or not c.double:
        return
    if not c.floating(*c.leaves):
        return
    v = c.directions(c.leaves, "tangent")
    second = c.job.case.derivatives > 1 and c.job.sample.second is not False
    for what, fn in (("results", c.floating), *([("gradients", c.gradients)] if second else [])):
        up, down = (fn(*[x + s * _STEP * d for x, d in zip(c.leaves, v)]) for s in (1, -1))
        for n, (high, low, mine) in enumerate(zip(up, down, c.along(fn, c.leaves, v))):
            theirs = (c.lib.array(high) - c.lib.array(low)) / (2 * _STEP)
            own = c.lib.array(mine)
            there = np.isfinite(theirs)
            scale = max(np.abs(theirs[there]).max(initial=1.0), np.abs(own[there]).max(initial=1.0))
            if not np.abs(theirs - own)[there].max(initial=0.0) <= _DIFFERENCES * scale:
                yield f"{what} {n}: differences {theirs.ravel()[:4]}, derivative {own.ravel()[:4]}"


# --- who watches ------------------------------------------------------------------------------------


def _facts(lib: Lib, outs: Sequence[Any]) -> list[Any]:
    """What a result shows, to the bit."""
    return [(dtype_name(v), tuple(v.shape), tuple(v.stride()), lib.array(v).tobytes()) for v in outs]


_NO_DERIVATIVE = "no derivative"


def _status(c: Call, run: Callable[[], list[Any]]) -> Any:
    """What a call shows: its results, or its error."""
    try:
        return _facts(c.lib, run())
    except Exception as error:
        return _NO_DERIVATIVE if _says_that_there_is_no_derivative(error) else (type(error).__name__, str(error))


def _says_that_there_is_no_derivative(error: Exception) -> bool:
    return isinstance(error, NotImplementedError) or "does not support automatic differentiation" in str(error)


def _watchers(c: Call) -> Iterator[tuple[str, Callable[[], list[Any]]]]:
    torch = c.torch

    def under(context: Any, recorded: bool = False) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            leaves = [x.clone().requires_grad_() for x in c.leaves] if recorded else c.leaves
            with context():
                return c(*leaves)

        return run

    def dual() -> list[Any]:
        ad = torch.autograd.forward_ad
        with ad.dual_level():
            outs = c(*[ad.make_dual(x, t) for x, t in zip(c.leaves, c.directions(c.leaves, "tangent"))])
            return [ad.unpack_dual(v).primal for v in outs]

    class Passing(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    yield "recorded", under(nullcontext, True)
    yield "under no_grad", under(torch.no_grad, True)
    yield "under inference_mode", under(torch.inference_mode)
    yield "in anomaly mode", under(lambda: torch.autograd.detect_anomaly(check_nan=False), True)
    yield "under a mode that passes calls on", under(Passing, True)
    yield "under hooks of saved values", under(lambda: _identity_hooks(torch), True)
    if c.job.case.jvp and c.job.sample.grads and c.job.case.derivatives and c.leaves:
        yield "with tangents", dual


def _identity_hooks(torch: Any) -> AbstractContextManager[Any]:
    return torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)


def watched(c: Call) -> Iterator[str]:
    """Value, dtype, shape, strides and errors don't depend on who watches."""
    if not c.job.case.values or c.job.case.op in _OTHER_KERNEL:
        return
    plain = _status(c, lambda: c(*c.leaves))
    for who, run in _watchers(c):
        seen = _status(c, run)
        if seen != plain and seen != _NO_DERIVATIVE:
            yield f"{who}: {_shown(seen)}, plain: {_shown(plain)}"


def _shown(status: Any) -> str:
    return str([(*v[:3], v[3][:16].hex()) for v in status] if isinstance(status, list) else status)


# --- backward passes --------------------------------------------------------------------------------


def passes(c: Call) -> Iterator[str]:
    """Backward passes that have to give the same bits: from twice the gradient, twice, under hooks, checkpointed."""
    if not c.job.sample.grads or not c.job.case.derivatives or not c.differentiated:
        return
    torch, grad = c.torch, c.torch.autograd.grad

    def by(run: Callable[..., Any], context: Any = nullcontext) -> list[Any]:
        with context():
            leaves, outs, given = c.recorded()
        if not outs:
            return []
        with context():
            found = run(leaves, outs, given)
        return [None if g is None else c.lib.array(g) for g in found]

    plain = by(lambda xs, ys, us: grad(ys, xs, us, allow_unused=True))
    if not plain:
        return
    again: dict[str, Callable[[], list[Any]]] = {
        "twice from a kept graph": lambda: by(
            lambda xs, ys, us: (
                grad(ys, xs, us, allow_unused=True, retain_graph=True),
                grad(ys, xs, us, allow_unused=True),
            )[1]
        ),
        "into .grad": lambda: by(lambda xs, ys, us: (torch.autograd.backward(ys, us), [x.grad for x in xs])[1]),
        "in anomaly mode": lambda: by(
            lambda xs, ys, us: grad(ys, xs, us, allow_unused=True),
            lambda: torch.autograd.detect_anomaly(check_nan=False),
        ),
        "under hooks of saved values": lambda: by(
            lambda xs, ys, us: grad(ys, xs, us, allow_unused=True), lambda: _identity_hooks(torch)
        ),
        "with values saved on the CPU": lambda: by(
            lambda xs, ys, us: grad(ys, xs, us, allow_unused=True), torch.autograd.graph.save_on_cpu
        ),
        "with hooks that change nothing": lambda: by(
            lambda xs, ys, us: (
                [v.register_hook(lambda g: g.clone()) for v in (*ys, *xs)],
                grad(ys, xs, us, allow_unused=True),
            )[1]
        ),
        "from twice the gradient, halved": lambda: [
            g if g is None else g / 2
            for g in by(lambda xs, ys, us: grad(ys, xs, [2 * u for u in us], allow_unused=True))
        ],
        "checkpointed": lambda: _checkpointed(c),
    }
    if c.job.case.op in RANDOM:
        del again["checkpointed"]
    for how, run in again.items():
        for n, (mine, theirs) in enumerate(zip(run(), plain)):
            if (mine is None) != (theirs is None) or (mine is not None and not _same(mine, theirs)):
                yield f"gradient {n} {how}: {_first(mine)}, plain: {_first(theirs)}"
                break


def _same(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two arrays have the same numbers; any two NaN are."""
    return x.shape == y.shape and x.dtype == y.dtype and bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"))


def _first(x: Any) -> str:
    return "None" if x is None else f"{x.dtype}{list(x.shape)} {x.ravel()[:3]}"


def _checkpointed(c: Call) -> list[Any]:
    leaves = [x.clone().requires_grad_() for x in c.leaves]
    run = c.torch.utils.checkpoint.checkpoint
    outs = [v for v in run(lambda *xs: tuple(c.floating(*xs)), *leaves, use_reentrant=False) if v.requires_grad]
    given = c.directions(outs, "cotangent")
    found = c.torch.autograd.grad(outs, leaves, given, allow_unused=True)
    return [None if g is None else c.lib.array(g) for g in found]


def batched(c: Call) -> Iterator[str]:
    """`is_grads_batched`, a recorded pass and one leaf at a time: what one plain pass gives, to rounding."""
    if not c.job.sample.grads or not c.job.case.derivatives or not c.differentiated:
        return
    leaves, outs, given = c.recorded()
    if not outs:
        return
    torch, keep = c.torch, {"allow_unused": True, "retain_graph": True}
    one = torch.autograd.grad(outs, leaves, given, **keep)
    both = [torch.stack([u, 3 * u]) for u in given]
    ways = {
        "batched": [
            None if g is None else g[0] for g in torch.autograd.grad(outs, leaves, both, is_grads_batched=True, **keep)
        ]
    }
    ways["one leaf at a time"] = [torch.autograd.grad(outs, [x], given, **keep)[0] for x in leaves]
    if c.job.case.derivatives > 1:
        ways["recorded"] = torch.autograd.grad(outs, leaves, given, create_graph=True, allow_unused=True)
    for how, found in ways.items():
        for n, (mine, theirs) in enumerate(zip(found, one)):
            if (mine is None) != (theirs is None):
                yield f"gradient {n} {how}: {'None' if mine is None else 'there'}, one by one: the other way round"
            elif mine is not None:
                x, y = (c.lib.array(g) for g in (mine, theirs))
                if said := difference(x, y, c.allowed(theirs)):
                    yield f"gradient {n} {how}: {said}"


# --- forms of one operator --------------------------------------------------------------------------


def _both(c: Call, run: Callable[..., Any], leaves: Sequence[Any]) -> list[Any]:
    """The results of a form, and the gradients of those that have some."""
    c.torch.manual_seed(0)
    leaves = [x.detach().requires_grad_() for x in leaves]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outs = [v for v in flat(run(*leaves)) if isinstance(v, c.lib.tensor_type)]
    ends = [v for v in outs if v.requires_grad]
    given = c.directions(ends, "cotangent")
    grads = c.torch.autograd.grad(ends, leaves, given, allow_unused=True) if ends else ()
    return [*outs, *grads]


def _equal(c: Call, mine: Sequence[Any], theirs: Sequence[Any], how: str) -> Iterator[str]:
    """Say what differs between two forms, but for rounding."""
    if len(mine) != len(theirs):
        yield f"{how}: {len(mine)} results, {len(theirs)}"
        return
    for n, (x, y) in enumerate(zip(mine, theirs)):
        if (x is None) != (y is None):
            yield f"{how}: value {n} is {'missing' if x is None else 'there'}"
        elif x is not None and (dtype_name(x), tuple(x.shape)) != (dtype_name(y), tuple(y.shape)):
            yield f"{how}: value {n} is {dtype_name(x)}{list(x.shape)}, not {dtype_name(y)}{list(y.shape)}"
        elif x is not None and (said := difference(c.lib.array(x), c.lib.array(y), c.allowed(y))):
            yield f"{how}: value {n}: {said}"


_OTHER_METHODS = {"where": "the condition comes second"}
"""Functions whose methods take their arguments in another order."""


def forms(c: Call) -> Iterator[str]:
    """The method, the form with `out=` and the one in place give what the function gives, gradients included."""
    case, sample = c.job.case, c.job.sample
    space, _, name = case.op.rpartition(".")
    if space != "torch" or not case.values or not sample.args or not isinstance(sample.args[0], T) or case.prepare:
        return
    leaves = [x.clone() for x in c.leaves] if sample.grads and case.derivatives else []
    places = c.differentiated if leaves else []

    def form(run: Callable[..., Any]) -> Callable[..., Any]:
        def called(*xs: Any) -> Any:
            held = list(c.given)
            for n, x in zip(places, xs):
                held[n] = x
            args, kwargs = Given(c.lib, c.job, held).call()
            out = run(args, kwargs)
            return case.process(out) if case.process else out

        return called

    fn = c.lib.resolve(case.op)
    plain = _both(c, form(lambda args, kwargs: fn(*args, **kwargs)), leaves)
    if callable(getattr(c.lib.tensor_type, name, None)) and name not in _OTHER_METHODS:
        method = form(lambda args, kwargs: getattr(args[0], name)(*args[1:], **kwargs))
        yield from _equal(c, _both(c, method, leaves), plain, "the method")
    # Comparisons in place give their answer in the argument's dtype.
    if case.inplace and plain and hasattr(c.lib.tensor_type, f"{name}_") and plain[0].dtype == c.given[0].dtype:
        write = form(lambda args, kwargs: getattr(args[0].clone(), f"{name}_")(*args[1:], **kwargs))
        try:
            written = _both(c, write, leaves)
        except RuntimeError:  # a result of another shape or dtype cannot be written to the argument
            return
        yield from _equal(c, written, plain, "in place")


def layouts(c: Call) -> Iterator[str]:
    """Where the elements lie in memory changes no number: the same call with each tensor stored in another order."""
    if not c.job.case.values or c.job.case.op in {*RANDOM, *_BY_MEMORY}:
        return
    moved = {n for n, x in enumerate(c.given) if x.dim() > 1}
    if not moved:
        return

    def other(n: int, x: Any) -> Any:
        return x.transpose(0, -1).contiguous().transpose(0, -1) if n in moved else x

    def run(given: Sequence[Any]) -> Callable[..., Any]:
        def called(*xs: Any) -> Any:
            held = list(given)
            for n, x in zip(c.differentiated, xs):
                held[n] = x
            return call(c.lib, c.job, held)

        return called

    wanted = c.differentiated if c.job.sample.grads and c.job.case.derivatives else []
    there = [other(n, x) for n, x in enumerate(c.given)]
    plain = _both(c, run(c.given), [c.given[n] for n in wanted])
    try:
        moved_too = _both(c, run(there), [there[n] for n in wanted])
    except RuntimeError:  # `view` and its like ask for an order
        return
    yield from _equal(c, moved_too, plain, "stored in another order")


def broken(name: str, c: Call) -> list[str]:
    """Return what breaks a relation; a derivative that there is not breaks none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(RELATIONS[name](c)) if name == "watched" or c.results else []
        except Exception as error:
            if _says_that_there_is_no_derivative(error):
                return []
            raise


RELATIONS: dict[str, Callable[[Call], Iterator[str]]] = {
    "adjoint": adjoint,
    "second adjoint": second_adjoint,
    "differences": differences,
    "watched": watched,
    "passes": passes,
    "batched": batched,
    "forms": forms,
    "layouts": layouts,
}
"""Each relation by its name."""
