"""vmap: a function of one example, traced once, as one operator over a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax

from .._core.arrays import tree
from .._core.arrays.meta import Meta, meta
from .._core.state import DUAL, MODES
from .._engine.entry.bind import ops
from .._engine.graph import deferred
from .._engine.graph.history import grad_fn_of, requires_grad_of
from .._engine.graph.record import apply, await_tangents, no_grad
from .._engine.graph.views import chain_to
from .._engine.memory.derivative_stops import is_derived
from .._engine.memory.strided import storage_offset
from .._engine.memory.tape import aval_of
from .._engine.memory.tensor import Alias, Tensor, count_like, extras, is_plain, make, uncounted
from .._engine.modes.batch import Batch, Move
from .._engine.modes.begin import write_on_tape
from .._engine.modes.runs import TracedRun
from .._engine.modes.written_steps import TapedSteps
from .._engine.run.trace import Call
from .._engine.tensor.dual import open_tangent
from .._functions import random
from .._functions.shape import movedim
from .._functions.splitting import narrow
from .compile.trace.outside_results import is_plain_view_of, rebuild_view

_KEPT = 512
_CALLS: dict[Any, Call] = {}
_FIXED = 3
"""So many versions of a program that differ in numbers alone are compiled before one takes them as arguments."""
_MET: dict[Any, int] = {}


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func` over a batch: it is written for one example and runs for all of them at once.

    Args:
        func: takes and returns tensors, or nested containers of them.
        in_dims: which dimension of each input counts the examples; None where all share an input.
            An int stands for all inputs; containers may stand for the containers of the inputs.
        out_dims: where the examples are to be counted in each output.
        randomness: what a random operation inside does: "error", "same" draws for all examples,
            or "different" ones.
        chunk_size: run so many examples at a time; None runs all of them at once.

    Returns:
        The batched function.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.func.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
        tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flat, dims, spec, size = _inputs(func, in_dims, args)
        if chunk_size is None or size <= chunk_size:
            return _run(func, flat, dims, spec, kwargs, out_dims, randomness, size)
        return _in_chunks(func, flat, dims, spec, kwargs, out_dims, randomness, size, chunk_size)

    return wrapped


def _name(func: Any) -> str:
    if isinstance(func, functools.partial):
        return f"functools.partial({_name(func.func)}, ...)"
    return getattr(func, "__name__", None) or repr(func)


# --- arguments ------------------------------------------------------------------------------------


def _inputs(func: Any, in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], list[int | None], tree.Spec, int]:
    name = _name(func)
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially "
            f"nested) tuple matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over "
            "a function with no inputs. The latter is unsupported."
        )
    flat, spec = tree.flatten(args, _knows_batches)
    dims = tree.broadcast(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of "
            f"`inputs`. in_dims has structure {tree.flatten(in_dims)[1]!r} but inputs has structure {spec!r}."
        )
    if any(map(_knows_batches, flat)):
        flat, dims, spec = _opened(flat, dims, spec)
    sizes = []
    for i, (x, d) in enumerate(zip(flat, dims)):
        if d is None:
            continue
        prefix = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for"
        if not isinstance(d, int):
            raise ValueError(f"{prefix} an input but in_dim must be either an integer dimension or None.")
        if not isinstance(x, Tensor):
            raise ValueError(
                f"{prefix} an input but the input is of type {type(x)}. We cannot vmap over non-Tensor arguments, "
                "please use None as the respective in_dim"
            )
        n = x._m.ndim
        if not -n <= d < n:
            raise ValueError(
                f"{prefix} some input, but that input is a Tensor of dimensionality {n} so expected in_dim to satisfy "
                f"-{n} <= in_dim < {n}."
            )
        dims[i] = d % n
        sizes.append(x._m.shape[dims[i]])
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return flat, dims, spec, sizes[0]


def _knows_batches(x: Any) -> bool:
    """Return whether something is a container that keeps its own account of dimensions, as tensordict's `batch_size`.

    `vmap` tells it when one of them goes, by `_add_batch_dim`, and when it comes back, by `_maybe_remove_batch_dim`.
    """
    return hasattr(type(x), "_add_batch_dim") and not isinstance(x, Tensor)


def _opened(flat: Sequence[Any], dims: Sequence[Any], spec: tree.Spec) -> tuple[list[Any], list[Any], tree.Spec]:
    """The leaves of arguments, where some are such containers, with what they are mapped over, and their structure."""
    parts, at = [], []
    for x, d in zip(flat, dims):
        if _knows_batches(x) and isinstance(d, int) and -x.dim() <= d < x.dim():
            d %= x.dim()
            x = x._add_batch_dim(in_dim=d, vmap_level=0)
        inner = tree.flatten(x)[0]
        parts.append(x)
        at += [d if isinstance(t, Tensor) or not _knows_batches(x) else None for t in inner]
    leaves, opened = tree.flatten(tree.unflatten(parts, spec))
    return leaves, at, opened


def _closed(func: Any, out: Any, outs: Sequence[Any], out_dims: Any, size: int) -> Any:
    """The results for all examples, where some are such containers, from those of one example and their tensors."""
    found = {id(t): whole for t, whole in zip(tree.flatten(out)[0], outs)}
    flat, spec = tree.flatten(out, _knows_batches)
    closed = [
        x._maybe_remove_batch_dim(_name(func), vmap_level=found, batch_size=size, out_dim=d)
        if _knows_batches(x)
        else found[id(x)]
        for x, d in zip(flat, _out_dims(func, out_dims, spec))
    ]
    return tree.unflatten(closed, spec)


def _example(m: Meta, d: int) -> Meta:
    """How one example of a batch looks."""
    shape, strides = m.shape[:d] + m.shape[d + 1 :], m.strides[:d] + m.strides[d + 1 :]
    return meta(shape, m.dtype, m.device, strides)


# --- one run --------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """An output that is a tensor from outside, example by example."""

    tensor: Tensor


class _View(NamedTuple):
    """A view that a run made of an example, as one of what was given for all examples."""

    meta: Meta
    alias: Alias
    """How it reads the memory of what it is a view of, from where that begins."""
    node: str | None
    counted: bool

    def of(self, owner: Tensor) -> Tensor:
        """The view of a tensor for all examples."""
        t = rebuild_view(owner, self.meta, self.alias, self.node, self.counted)
        if self.alias.chain or (owner._al is not None and owner._al.chain):
            t._al.chain = chain_to(owner, self.node or "AsStridedBackward0", t)
        return t


class _Given:
    """An output that shares the memory of an input: the input itself, or a view of it or of another such tensor."""

    __slots__ = ("at", "made", "of", "view")

    def __init__(self, at: int, made: Tensor | None, of: _Given | None = None, view: _View | None = None) -> None:
        self.at = at
        """Which dimension counts the examples."""
        self.made, self.of, self.view = made, of, view

    def tensor(self) -> Tensor:
        """It, for all examples."""
        if self.made is None:
            self.made = self.view.of(self.of.tensor())  # type: ignore[union-attr]
        return self.made


def _given(run: TracedRun, t: Tensor, known: dict[int, _Given | None]) -> _Given | None:
    """What to hand back for a tensor on the memory of an example; None if it is none, or more than a plain view."""
    if id(t) not in known:
        known[id(t)] = _find_given(run, t, known)
    return known[id(t)]


def _find_given(run: TracedRun, t: Tensor, known: dict[int, _Given | None]) -> _Given | None:
    assert run.batch is not None
    found = run.batch.given_as(t)
    if found is None or not is_plain(t):
        return None
    array, whole, dim, inner = found
    requires = requires_grad_of(t)
    if t is inner:
        # What was written to is written back, and requires a gradient from then on.
        if inner._st.array is array and requires is not requires_grad_of(whole):
            return None
        for move in run.batch.moves_of(inner):
            dim = move.place(dim)
        return _Given(dim, whole)
    al = t._al
    tracked = al is not None and al.base is not None
    base: Any = al.base if tracked else inner  # type: ignore[union-attr]
    owner = _given(run, base, known)
    if owner is None or requires is not (tracked and requires_grad_of(base)):
        return None
    node = None
    if requires:
        fn = grad_fn_of(t)  # None of a view that was made while nothing was recorded
        if fn is None or not is_plain_view_of(t, base) or _is_watched(t):
            return None
        node = _over_the_batch(fn.name())
    bytes_apart = whole._m.strides[dim] * whole._m.dtype.itemsize
    if bytes_apart % t._m.dtype.itemsize:
        return None
    # torch detaches a batch as it lies, and moves the dimension of others to the front.
    at = owner.at if not tracked and t._m.shape == base._m.shape else 0
    view = _View(
        _batch_of(t._m, at, run.batch.size, bytes_apart // t._m.dtype.itemsize),
        _alias_within(base, t),
        node,
        getattr(t._vc, "whole", t._vc) is inner._vc,
    )
    return _Given(at, None, owner, view)


def _is_watched(t: Tensor) -> bool:
    """Return whether somebody watches the gradient on its way to a view."""
    fn = grad_fn_of(t)
    while fn is not None:
        if fn.extras is not None:
            return True
        fn = fn.edges[0][0] if fn.edges else None
    return False


def _batch_of(m: Meta, at: int, size: int, step: int) -> Meta:
    """The meta of a batch whose dimension `at` counts examples that lie `step` elements apart."""
    shape, strides = list(m.shape), list(m.strides)
    shape.insert(at, size)
    strides.insert(at, step)
    return meta(tuple(shape), m.dtype, m.device, tuple(strides))


def _alias_within(base: Tensor, t: Tensor) -> Alias:
    """How a view reads its memory, from where its base begins."""
    al, under = t._al, base._al
    before = storage_offset(base) * base._m.dtype.itemsize // t._m.dtype.itemsize
    tracked = al is not None and al.base is not None
    seen = Alias(storage_offset(t) - before, base if tracked else None, 0, 0)
    for a in (al, under):
        if a is not None:
            seen.conj, seen.neg = seen.conj ^ a.conj, seen.neg ^ a.neg
    if al is not None:
        seen.creation, seen.chain = al.creation, al.chain
    return seen


class _Writes(NamedTuple):
    """What a run did to the elements of an example, in all."""

    count: int
    """How many of the writes a version counter has seen."""
    recorded: bool

    def repeat(self, whole: Tensor, values: Tensor) -> None:
        """The same for all examples."""
        with nullcontext() if self.recorded else no_grad():
            ops.copy_(whole, values)
        if not uncounted(whole):
            whole._vc.version += self.count - 1
            if whole._al is not None:
                whole._al.seen += self.count - 1


def _writes(batch: Batch, t: Tensor) -> _Writes:
    recorded = not requires_grad_of(t) or grad_fn_of(t) is not None
    return _Writes(t._vc.version - len(batch.moves_of(t)), recorded)


class _RunRecord:
    """What one trace of the function leaves behind for the outside."""

    def __init__(self) -> None:
        self.spec: Any = None
        self.containers: Any = None
        """What was returned for one example, if there are containers in it that keep account of dimensions."""
        self.outs: list[Any] = []
        """Per output, in order: its number among the traced results, or an outside tensor."""
        self.metas: list[Meta] = []
        self.requires: list[bool] = []
        self.versions: list[int] = []
        self.node = "VmapBackward0"
        self.tangents: dict[int, int] = {}
        self.written: dict[int, tuple[int, _Writes]] = {}
        """By input: which result is its new value, and how it was written."""
        self.moved: dict[int, Sequence[Move]] = {}


def require_gradient_as(one: Tensor, whole: Tensor) -> None:
    """Make one example require a gradient where the batch does, or where JAX follows the batch."""
    one._rg = one._m.dtype.category >= 2 and requires_grad_of(whole)
    if not one._rg and is_derived(whole):
        one._rg = extras(one).followed = True


def _run(
    func: Any,
    flat: Sequence[Any],
    dims: Sequence[int | None],
    spec: tree.Spec,
    kwargs: Any,
    out_dims: Any,
    randomness: str,
    size: int,
) -> Any:
    batched = [i for i, d in enumerate(dims) if d is not None]
    fronts = [_moved(flat[i], dims[i], 0) for i in batched]
    metas = [_example(flat[i]._m, dims[i]) for i in batched]  # type: ignore[arg-type]
    tangents = [open_tangent(flat[i]) for i in batched]
    given = [_moved(t, dims[i], 0) for i, t in zip(batched, tangents) if t is not None]
    record = _RunRecord()
    batch = Batch(size, (*fronts, *given), batch_outside)

    def run(arrays: list[Any]) -> list[Any]:
        examples = list(flat)
        inner = []
        for i, array, m in zip(batched, arrays, metas):
            t = examples[i] = make(array, m)
            if not flat[i].is_inference():
                count_like(t, flat[i])
            require_gradient_as(t, flat[i])
            dim: Any = dims[i]
            batch.begin(t, flat[i], dim)
            inner.append(t)
        it = iter(arrays[len(batched) :])
        for t, tangent in zip(inner, tangents):
            if tangent is not None:
                inside = make(next(it), t._m)
                require_gradient_as(inside, tangent)
                MODES.tangents.set_tangent(t, inside)
        before = [t._st.array for t in inner]
        out = func(*tree.unflatten(examples, spec), **kwargs)
        results = _results(func, out, out_dims, record)
        for k, (t, old) in enumerate(zip(inner, before)):
            if t._st.array is not old:
                record.written[batched[k]] = len(results), _writes(batch, t)
                results.append(t)
                record.requires.append(requires_grad_of(t))
                record.metas.append(batch.batch_meta(t))
        current = MODES.run
        record.moved = {i: moves for i, t in zip(batched, inner) if (moves := batch.moves_of(t))}
        looks[:] = current.tape.looks
        for t in [t for look in looks for t in look.tensors]:
            results.append(t)
            record.requires.append(False)
            record.metas.append(batch.batch_meta(t))
        return [current.array_of(t) for t in results]

    looks: list[deferred.Look] = []
    avals = [aval_of(m) for m in metas]
    avals += [avals[k] for k, t in enumerate(tangents) if t is not None]
    results = _over(
        write_on_tape(run, avals, batch, randomness), batch.inputs, record.metas, record.requires, record.node
    )
    if looks:
        deferred.take(looks, results[-sum(len(look.tensors) for look in looks) :])
    for t, version in zip(results, record.versions):
        if t._fn is None:  # a node may have saved it as it is
            t._st.version = version
    for k, j in record.tangents.items():
        MODES.tangents.set_tangent(results[k], results[j])
    places = {i: _move(flat[i], dims[i], moves) for i, moves in record.moved.items()}
    for i, (k, writes) in record.written.items():
        writes.repeat(flat[i], _moved(results[k], 0, places.get(i, dims[i])))
    return _outputs(func, record, results, out_dims, size)


def _move(whole: Tensor, at: Any, moves: Sequence[Move]) -> int:
    """Do to a batch what was done to the example of it, and say where its dimension is then."""
    for move in moves:
        move.do(whole, at)
        at = move.place(at)
    return at


def _over(
    steps: TapedSteps, inputs: Sequence[Tensor], metas: Sequence[Meta], requires: Sequence[bool], node: str
) -> list[Tensor]:
    """A traced function of one example applied to all of them, as one recorded operator."""
    if not metas:
        return []
    axes = (0,) * len(inputs) + tuple(0 if m else None for m in steps.mapped)
    nondiff = tuple(k for k, r in enumerate(requires) if not r)
    call, numbers = _CALLS.get((steps.key, axes, nondiff, node)), ()
    if call is None:
        call, numbers = _new_call(steps, axes, nondiff, node)
    bits = MODES.bits
    MODES.bits = bits & ~DUAL  # tangents take their own way
    try:
        results = apply(call, (*inputs, *steps.captured, *numbers))
    finally:
        MODES.bits |= bits & DUAL
    outs = [_laid_out(t, m) for t, m in zip(results, metas)]
    if bits & DUAL:
        await_tangents(outs)
    return outs


def batch_outside(run: TracedRun, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of a run that has not ended, for all examples, as tensors of where it was started."""
    tangents = [open_tangent(t) for t in tensors]
    flat = [*tensors, *[t for t in tangents if t is not None]]
    steps = run.so_far([run.array_of(t) for t in flat])
    batch = run.batch
    assert batch is not None
    metas, requires = [batch.batch_meta(t) for t in flat], [requires_grad_of(t) for t in flat]
    with run.outside():
        results = _over(steps, batch.inputs, metas, requires, "VmapBackward0")
        out = results[: len(tensors)]
        slopes = iter(results[len(tensors) :])
        for t, tangent in zip(out, tangents):
            if tangent is not None:
                MODES.tangents.set_tangent(t, next(slopes))
    return out


def _moved(t: Tensor, source: Any, destination: Any) -> Tensor:
    n = t._m.ndim
    same = -n <= destination < n and (source - destination) % n == 0
    return t if same else movedim(t, source, destination)


def _new_call(
    steps: TapedSteps, axes: tuple[Any, ...], nondiff: tuple[int, ...], node: str
) -> tuple[Call, Sequence[Any]]:
    """A call for new steps, and the numbers to give it.

    Numbers are part of a program, which XLA makes use of, until a program comes again and again with others.
    """
    key, numbers, run = steps.loose()
    if numbers:
        shape = (key, axes, nondiff, node)
        met = _MET.get(shape, 0)
        if met >= _FIXED:
            call = _CALLS.get(shape)
            if call is None:
                call = _call(run, (*axes, *[None] * len(numbers)), nondiff, node)
                _keep(_CALLS, shape, call)
            return call, numbers
        _keep(_MET, shape, met + 1)
    call = _call(steps.function(), axes, nondiff, node)
    _keep(_CALLS, (steps.key, axes, nondiff, node), call)
    return call, ()


def _keep(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Put an entry into a table of limited size."""
    if len(table) >= _KEPT and key not in table:
        table.pop(next(iter(table)))
    table[key] = value


# What reduces all dimensions of an example reduces all but one of a batch, which is another node of torch's; and
# what is short for another function, as `t` is, is that function there.
_OVER_THE_REST = {
    "SumBackward0": "SumBackward1",
    "MeanBackward0": "MeanBackward1",
    "ProdBackward0": "ProdBackward1",
    "MedianBackward0": "MedianBackward1",
    "MaxBackward1": "MaxBackward0",
    "MinBackward1": "MinBackward0",
    "MseLossBackward0": "MeanBackward1",
    "TraceBackward0": "SumBackward1",
    "TBackward0": "TransposeBackward0",
    "ReshapeAliasBackward0": "ViewBackward0",
}


def _over_the_batch(node: str) -> str:
    """Return what the node of an example is called in the graph outside."""
    return _OVER_THE_REST.get(node, node)


def _call(run: Callable[..., Any], axes: Any, nondiff: Any, node: str) -> Call:
    batched = jax.vmap(run, in_axes=axes)
    return Call(
        "vmap",
        lambda leaves: tuple(batched(*leaves)),
        node_name=node,
        nondiff=nondiff,
        edges=lambda keys: tuple(i for i, k in enumerate(keys) if isinstance(k, Meta) and k.dtype.category >= 2),
        any_size=True,  # of the batch: the steps of an example are those of its shape
    )


def _results(func: Any, out: Any, out_dims: Any, record: _RunRecord) -> list[Tensor]:
    """The tensors that a run returns; with them what the outside must know of each."""
    current = MODES.run
    flat, record.spec = tree.flatten(out)
    if any(map(_knows_batches, tree.flatten(out, _knows_batches)[0])):
        record.containers = out
    dims = _out_dims(func, out_dims, record.spec)
    results: list[Tensor] = []
    known: dict[int, _Given | None] = {}
    duals = []
    for t, d in zip(flat, dims):
        if not isinstance(t, Tensor):
            if d is None:
                record.outs.append(t)
                continue
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(t)}. Did you "
                "mean to set out_dims= to None for output?"
            )
        if not current.inside(t):
            record.outs.append(t)
            continue
        if d is None:
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
            )
        tangent = open_tangent(t)
        if tangent is None and (rows := current.batch.row_of(t)) is not None:
            record.outs.append(_Rows(rows))
            continue
        if tangent is None and (given := _given(current, t, known)) is not None:
            record.outs.append(given)
            continue
        record.outs.append(len(results))
        results.append(t)
        if tangent is not None:
            duals.append((len(results) - 1, tangent))
    for k, tangent in duals:
        record.tangents[k] = len(results)
        results.append(tangent)
    for t in results:
        record.metas.append(current.batch.batch_meta(t))
        record.versions.append(t._vc.version)
        record.requires.append(requires_grad_of(t))
        if record.requires[-1] and record.node == "VmapBackward0" and grad_fn_of(t) is not None:
            node = grad_fn_of(t).name()
            record.node = _over_the_batch(node)
    return results


def _out_dims(func: Any, out_dims: Any, spec: tree.Spec) -> list[Any]:
    given = tree.flatten(out_dims)[0]
    if any(d is not None and not isinstance(d, int) for d in given):
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection "
            "of ints representing where in the outputs the vmapped dimension should appear."
        )
    if isinstance(out_dims, tuple) and len(out_dims) == 1 and spec.kind is None:
        out_dims = out_dims[0]
    dims = tree.broadcast(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure "
            f"of `outputs`. out_dims has structure {tree.flatten(out_dims)[1]!r} but outputs has structure {spec!r}."
        )
    return dims


def _laid_out(t: Tensor, whole: Meta) -> Tensor:
    """A batch with the strides that it would have in torch."""
    if t._m.shape == whole.shape:
        t._m = t._st.meta = meta(whole.shape, t._m.dtype, t._m.device, whole.strides)
    return t


def _outputs(func: Any, record: _RunRecord, results: Sequence[Tensor], out_dims: Any, size: int) -> Any:
    dims = _out_dims(func, out_dims, record.spec)
    outs = []
    for k, d in zip(record.outs, dims):
        if isinstance(k, int) and not isinstance(k, bool) and d is not None:
            outs.append(_moved(results[k], 0, d))
        elif isinstance(k, _Rows):
            outs.append(_moved(k.tensor, 0, d))
        elif isinstance(k, _Given):
            outs.append(_moved(k.tensor(), k.at, d))
        elif isinstance(k, Tensor) and d is not None:  # the result is the same for every example
            outs.append(_moved(ops.expand(k, (size, *k._m.shape)), 0, d))
        else:
            outs.append(k)
    if record.containers is not None:
        return _closed(func, record.containers, outs, out_dims, size)
    return tree.unflatten(outs, record.spec)


def _in_chunks(
    func: Any,
    flat: Sequence[Any],
    dims: Sequence[int | None],
    spec: tree.Spec,
    kwargs: Any,
    out_dims: Any,
    randomness: str,
    size: int,
    chunk: int,
) -> Any:
    columns: list[list[Any]] = []
    out_spec: Any = None
    state = random.get_rng_state() if randomness == "same" else None
    for start in range(0, size, chunk):
        if state is not None:  # every chunk draws the same numbers
            random.set_rng_state(state)
        n = min(chunk, size - start)
        part = [x if d is None else narrow(x, d, start, n) for x, d in zip(flat, dims)]
        out = _run(func, part, dims, spec, kwargs, out_dims, randomness, n)
        leaves, out_spec = tree.flatten(out)
        columns.append(leaves)
    out_flat = _out_dims(func, out_dims, out_spec)
    joined = [column[0] if d is None else ops.cat(list(column), d) for column, d in zip(zip(*columns), out_flat)]
    return tree.unflatten(joined, out_spec)
