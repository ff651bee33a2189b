"""Runs a job on a library and writes down what there is to see, as plain data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from torchgrad_jax.testing._described import facts_of

from .case import VIEWS, Attr, Case, D, Sample, T, dtype_of, numbers, seed_of, uniform
from .jobs import Job, tracked
from .libs import Lib, dtype_name


@dataclass(frozen=True)
class Seen:
    """One result: a tensor, or something else shown as text."""

    type: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    requires_grad: bool = False
    grad_fn: str | None = None
    is_view: bool = False
    value: np.ndarray | None = None
    text: str = ""


@dataclass(frozen=True)
class Result:
    """Everything that a job shows on a library."""

    kind: str = ""
    """``tensor``, ``tuple``, ``list``, or the field names of a named tuple."""
    parts: tuple[Seen, ...] = ()
    gradients: tuple[Seen, ...] = ()
    saved: tuple[str, ...] = ()
    """Names of the tensors that the first result's node saved."""
    error: tuple[str, str] | None = None


# --- building arguments ---------------------------------------------------------------------------


class Builder:
    """Makes a call's arguments on a library; the same numbers for every library."""

    def __init__(self, lib: Lib, job: Job, track: bool) -> None:
        self.lib, self.job, self.track = lib, job, track
        self.leaves: list[Any] = []
        self.count = 0

    def call(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments."""
        sample = self.job.sample
        return [self.value(a) for a in sample.args], {k: self.value(v) for k, v in sample.kwargs}

    def value(self, x: Any) -> Any:
        """An argument of the library's own types."""
        if isinstance(x, T):
            return self.tensor(x)
        if isinstance(x, D):
            return self.lib.dtype(x.name)
        if isinstance(x, Attr):
            return self.lib.resolve(x.path)
        if isinstance(x, list | tuple):
            return type(x)(map(self.value, x))
        return x

    def array(self, spec: T) -> np.ndarray:
        """The numbers of the next tensor."""
        self.count += 1
        return numbers(spec, self.job.dtype, seed_of(f"{self.job.call}#{self.count}"))

    def tensor(self, spec: T) -> Any:
        """A leaf with the spec's values and strides."""
        x = self.lib.from_array(self.array(spec))
        if spec.layout == "expanded":
            x = x.expand(*spec.shape).detach()
        elif spec.layout != "contiguous":
            x = eval(f"x{VIEWS[spec.layout]}", {"x": x}).detach()
        if self.track and tracked(spec, self.job.dtype):
            x.requires_grad_()
            self.leaves.append(x)
        return x


class DualBuilder(Builder):
    """Gives every differentiable tensor a tangent."""

    def tensor(self, spec: T) -> Any:
        """A dual tensor."""
        x = super().tensor(spec)
        if not tracked(spec, self.job.dtype):
            return x
        tangent = direction(self.lib, x, f"{self.job.call}#tangent{self.count}", _moves(self.job))
        return self.lib.module.autograd.forward_ad.make_dual(x, tangent)


def _moves(job: Job) -> tuple[float, ...]:
    """The values of directions where a sample says which: of gradients its own, and else 1."""
    incoming = job.sample.incoming if isinstance(job.sample, Sample) else ()
    return incoming if job.check == "grad" or not incoming else (1.0,)


def direction(lib: Lib, like: Any, text: str, given: tuple[float, ...] = ()) -> Any:
    """Fixed numbers of the shape and dtype of a tensor, of order 1 and never 0; or those given, again and again."""
    name, shape = dtype_name(like), tuple(like.shape)
    if given:
        return lib.from_array(np.resize(given, shape).astype(dtype_of(name)))
    count = int(np.prod(shape))
    seed = seed_of(text)
    values = (uniform(seed, count) + 0.5) * np.where(uniform(seed + count + 3, count) < 0.5, -1.0, 1.0)
    if name.startswith("complex"):
        values = values + 1j * (uniform(seed + 2 * count + 5, count) + 0.5)
    return lib.from_array(values.reshape(shape).astype(dtype_of(name)))


# --- calling --------------------------------------------------------------------------------------


def invoke(lib: Lib, case: Case, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call an operator by its path; a path of `Tensor` is a method or an attribute."""
    if case.prepare is not None:
        args = [case.prepare(args[0]), *args[1:]]
    head, _, name = case.op.rpartition(".")
    if head == "Tensor":
        found = getattr(args[0], name)
        return found(*args[1:], **kwargs) if callable(found) else found
    return lib.resolve(case.op)(*args, **kwargs)


def _writable(case: Case, args: list[Any]) -> list[Any]:
    """In-place operators get a copy that is not a leaf."""
    name = case.op.rpartition(".")[2]
    inplace = case.op.startswith("Tensor.") and name.endswith("_") and not name.startswith("__")
    return [args[0].clone(), *args[1:]] if inplace else args


def run(lib: Lib, job: Job) -> Result:
    """What a job shows on a library; an exception is a result."""
    if lib.has("manual_seed"):
        lib.module.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return RUNNERS[job.check](lib, job)
        except Exception as error:
            return Result(error=(type(error).__name__, str(error)))


def _value(lib: Lib, job: Job) -> Result:
    builder = Builder(lib, job, track=False)
    args, kwargs = builder.call()
    out = invoke(lib, job.case, _writable(job.case, args), kwargs)
    return Result(kind(out), _parts(lib, job, out))


def _out(lib: Lib, job: Job) -> Result:
    """The call with `out=`: results of the right shape and dtype, which come back."""
    args, kwargs = Builder(lib, job, track=False).call()
    plain = invoke(lib, job.case, args, kwargs)
    targets = [lib.module.zeros_like(v) for v in flat(plain) if isinstance(v, lib.tensor_type)]
    out = targets[0] if kind(plain) == "one" and targets else tuple(targets)
    args, kwargs = Builder(lib, job, track=False).call()
    if "dtype" in kwargs:
        kwargs.pop("dtype")  # some operators take one or the other
    got = invoke(lib, job.case, args, {**kwargs, "out": out})
    same = all(g is t for g, t in zip(flat(got), targets))
    return Result(f"{kind(got)}, {'the given' if same else 'other'} tensors", _parts(lib, job, got))


def _parts(lib: Lib, job: Job, out: Any) -> tuple[Seen, ...]:
    """The results; where they are not unique, their processed form is what has values."""
    process = job.case.process
    if process is None:
        return tuple(see(lib, job.case, v) for v in flat(out))
    raw = tuple(replace(see(lib, job.case, v), value=None) for v in flat(out))
    shown = tuple(replace(see(lib, job.case, v), stride=(), grad_fn=None, is_view=False) for v in flat(process(out)))
    return raw + shown


def _called(lib: Lib, job: Job) -> tuple[Builder, Any, list[Any]]:
    """A recorded call: its result, and the tensors of it that can be differentiated."""
    builder = Builder(lib, job, track=True)
    args, kwargs = builder.call()
    out = invoke(lib, job.case, _writable(job.case, args), kwargs)
    shown = job.case.process(out) if job.case.process else out
    roots = [v for v in flat(shown) if isinstance(v, lib.tensor_type) and v.requires_grad]
    return builder, out, roots


def _cotangents(lib: Lib, job: Job, roots: list[Any], what: str, track: bool) -> list[Any]:
    given = [direction(lib, r, f"{job.call}#{what}{n}", _moves(job)) for n, r in enumerate(roots)]
    return [g.requires_grad_() for g in given] if track else given


def recorded_call(lib: Lib, job: Job) -> Result:
    """A call and what its node saved, without a backward pass."""
    _, out, _ = _called(lib, job)
    return Result(kind(out), _parts(lib, job, out), saved=_saved(lib, flat(out)))


def _grad(lib: Lib, job: Job) -> Result:
    builder, out, roots = _called(lib, job)
    found: tuple[Any, ...] = ()
    saved = _saved(lib, flat(out))
    parts = _parts(lib, job, out)
    if roots:
        given = _cotangents(lib, job, roots, "cotangent", False)
        found = lib.module.autograd.grad(roots, builder.leaves, given, allow_unused=True)
    return Result(kind(out), parts, tuple(_gradient(lib, g) for g in found), saved)


def _second(lib: Lib, job: Job) -> Result:
    builder, _, roots = _called(lib, job)
    if not roots:
        return Result()
    given = _cotangents(lib, job, roots, "cotangent", True)
    grad = lib.module.autograd.grad
    first = grad(roots, builder.leaves, given, create_graph=True, allow_unused=True)
    again = [g for g in first if g is not None and g.requires_grad]
    if not again:
        return Result()
    weights = _cotangents(lib, job, again, "second", False)
    found = grad(again, [*builder.leaves, *given], weights, allow_unused=True)
    return Result(gradients=tuple(_gradient(lib, g) for g in found))


def _jvp(lib: Lib, job: Job) -> Result:
    ad = lib.module.autograd.forward_ad
    with ad.dual_level():
        builder = DualBuilder(lib, job, track=False)
        args, kwargs = builder.call()
        out = invoke(lib, job.case, _writable(job.case, args), kwargs)
        shown = job.case.process(out) if job.case.process else out
        duals = [ad.unpack_dual(v) for v in flat(shown) if isinstance(v, lib.tensor_type)]
        return Result(gradients=tuple(_gradient(lib, d.tangent) for d in duals))


def _error(lib: Lib, job: Job) -> Result:
    builder = Builder(lib, job, track=False)
    args, kwargs = builder.call()
    out = invoke(lib, job.case, args, kwargs)
    return Result(kind(out))


def _refused(lib: Lib, job: Job) -> Result:
    args, kwargs = Builder(lib, job, track=False).call()
    invoke(lib, job.case, args, kwargs)
    return TAKEN


TAKEN = Result("taken")
"""What a dtype shows in which a call raises nothing. It is not recorded: most calls are taken in most dtypes."""

RUNNERS: dict[str, Callable[[Lib, Job], Result]] = {
    "value": _value,
    "out": _out,
    "grad": _grad,
    "second": _second,
    "jvp": _jvp,
    "error": _error,
    "refused": _refused,
}


# --- looking --------------------------------------------------------------------------------------


def kind(out: Any) -> str:
    """What holds the results."""
    if isinstance(out, tuple) and type(out) is not tuple:
        names = getattr(out, "_fields", None)
        if names is None and type(out).__module__ == "torch.return_types":
            names = sorted(
                (n for n in dir(out) if not n.startswith(("_", "n_")) and n not in ("count", "index")),
                key=lambda n: next(k for k, v in enumerate(out) if getattr(out, n) is v),
            )
        return f"({', '.join(names)})" if names else "tuple"
    return type(out).__name__ if isinstance(out, list | tuple) else "one"


def flat(out: Any) -> Iterator[Any]:
    """Results in order."""
    if isinstance(out, list | tuple) and type(out).__name__ != "Size":
        for v in out:
            yield from flat(v)
    else:
        yield out


def see(lib: Lib, case: Case, v: Any) -> Seen:
    """One result."""
    if not isinstance(v, lib.tensor_type):
        text = repr(v).replace(lib.name + ".", "torch.")
        if isinstance(v, bool | int | float | complex):
            return Seen(type(v).__name__, value=np.asarray(v))
        return Seen(type(v).__name__, text=text)
    seen = facts_of(
        v, ("dtype", "shape", "requires_grad", "grad_fn", "is_view", *(("stride",) if case.strides else ()))
    )
    return Seen("Tensor", **seen, value=lib.array(v) if case.values else None)


def _gradient(lib: Lib, g: Any) -> Seen:
    """A gradient or tangent; how its formula lays it out is not looked at."""
    if g is None:
        return Seen("None")
    return Seen("Tensor", **facts_of(g, ("dtype", "shape")), value=lib.array(g))


def _saved(lib: Lib, outs: Iterator[Any]) -> tuple[str, ...]:
    """The tensors that the node of the first differentiable result saved."""
    fn = next((v.grad_fn for v in outs if isinstance(v, lib.tensor_type) and v.grad_fn is not None), None)
    return () if fn is None else saved_tensors(lib, fn)


def saved_tensors(lib: Lib, fn: Any) -> tuple[str, ...]:
    """Names of a node's `_saved_*` attributes that are tensors or hold some."""
    found = []
    for name in dir(fn):
        if name.startswith("_saved_"):
            value = getattr(fn, name)
            if any(isinstance(v, lib.tensor_type) for v in flat(value)):
                found.append(name.removeprefix("_saved_"))
    return tuple(sorted(found))
