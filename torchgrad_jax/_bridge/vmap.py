"""vmap: a function of one example, traced once, as one operator over a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from .._core import tree
from .._core.meta import Meta, meta
from .._core.state import DUAL, MODES
from .._engine import deferred, lift
from .._engine.bind import ops
from .._engine.dual import open_tangent
from .._engine.history import grad_fn_of, requires_grad_of
from .._engine.record import apply
from .._engine.tape import aval_of
from .._engine.tensor import Alias, Tensor, count_like, make
from .._engine.trace import Call
from .._functions import random
from .._functions.shape import movedim
from .._functions.splitting import narrow
from .handed import reaches, view_again

_KEPT = 512
_CALLS: dict[Any, Call] = {}
_FIXED = 3
"""So many versions of a program that differ in numbers alone are compiled before one takes them as arguments."""
_MET: dict[Any, int] = {}


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error",
    *, chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
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
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
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


def _inputs(
    func: Any, in_dims: Any, args: tuple[Any, ...]
) -> tuple[list[Any], list[int | None], tree.Spec, int]:
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
    flat, spec = tree.flatten(args)
    dims = tree.broadcast(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of "
            f"`inputs`. in_dims has structure {tree.flatten(in_dims)[1]!r} but inputs has structure {spec!r}."
        )
    sizes = []
    for i, (x, d) in enumerate(zip(flat, dims)):
        if d is None:
            continue
        told = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for"
        if not isinstance(d, int):
            raise ValueError(
                f"{told} an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(x, Tensor):
            raise ValueError(
                f"{told} an input but the input is of type {type(x)}. We cannot vmap over non-Tensor arguments, "
                "please use None as the respective in_dim"
            )
        n = x._m.ndim
        if not -n <= d < n:
            raise ValueError(
                f"{told} some input, but that input is a Tensor of dimensionality {n} so expected in_dim to satisfy "
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


def _example(m: Meta, d: int) -> Meta:
    """How one example of a batch looks."""
    shape, strides = m.shape[:d] + m.shape[d + 1 :], m.strides[:d] + m.strides[d + 1 :]
    return meta(shape, m.dtype, m.device, strides)


# --- one run --------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """An output that is a tensor from outside, example by example."""

    tensor: Tensor


class _Given(NamedTuple):
    """An output that is an input, or a view of one: it shares its memory."""

    whole: Tensor
    dim: int
    example: Meta
    alias: Alias | None
    node: str | None

    def tensor(self, size: int) -> Tensor:
        """The view for all examples, which its first dimension counts."""
        m, own = self.example, self.whole._m
        whole = meta((size, *m.shape), m.dtype, m.device, (own.strides[self.dim], *m.strides))
        return view_again(self.whole, whole, self.alias, self.node)


def _given(run: lift.Lift, t: Tensor) -> _Given | None:
    """What to hand back for a tensor that is an example of an input, or a plain view of one."""
    found = run.given_as(t)
    if found is None:
        return None
    whole, dim, inner = found
    for move in run.moves_of(inner):
        dim = move.place(dim)
    requires, al = requires_grad_of(t), t._al
    if t._x is not None or inner._x is not None or requires is not requires_grad_of(whole):
        return None
    if t is inner:
        return _Given(whole, dim, t._m, None, None)
    if al is None or al.chain or al.conj or al.neg or al.base is not inner:
        return None
    if not requires:
        return _Given(whole, dim, t._m, al, None)
    if not reaches(t, inner):
        return None
    fn = grad_fn_of(t)
    while fn is not None:
        if fn.extras is not None:  # somebody watches the gradient on its way
            return None
        fn = fn.edges[0][0] if fn.edges else None
    return _Given(whole, dim, t._m, al, _over_the_batch(grad_fn_of(t).name()))


class _Run:
    """What one trace of the function leaves behind for the outside."""

    def __init__(self) -> None:
        self.spec: Any = None
        self.outs: list[Any] = []
        """Per output, in order: its number among the traced results, or an outside tensor."""
        self.metas: list[Meta] = []
        self.requires: list[bool] = []
        self.versions: list[int] = []
        self.node = "VmapBackward0"
        self.tangents: dict[int, int] = {}
        self.written: dict[int, int] = {}
        self.moved: dict[int, Sequence[lift.Move]] = {}


def _run(
    func: Any, flat: Sequence[Any], dims: Sequence[int | None], spec: tree.Spec, kwargs: Any,
    out_dims: Any, randomness: str, size: int,
) -> Any:  # fmt: skip
    batched = [i for i, d in enumerate(dims) if d is not None]
    fronts = [_moved(flat[i], dims[i], 0) for i in batched]
    metas = [_example(flat[i]._m, dims[i]) for i in batched]  # type: ignore[arg-type]
    tangents = [open_tangent(flat[i]) for i in batched]
    given = [_moved(t, dims[i], 0) for i, t in zip(batched, tangents) if t is not None]
    told = _Run()

    def run(arrays: list[Any]) -> list[Any]:
        examples = list(flat)
        inner = []
        for i, array, m in zip(batched, arrays, metas):
            t = examples[i] = make(array, m)
            if not flat[i].is_inference():
                count_like(t, flat[i])
            t._rg = m.dtype.category >= 2 and requires_grad_of(flat[i])
            MODES.lifts[-1].origins[id(array)] = array, flat[i], dims[i], t
            MODES.lifts[-1].moves[id(t)] = t, []
            if dims[i] or not flat[i]._m.contiguous:
                MODES.lifts[-1].lies(t, flat[i]._m.strides[dims[i]], dims[i])
            inner.append(t)
        it = iter(arrays[len(batched) :])
        for t, tangent in zip(inner, tangents):
            if tangent is not None:
                MODES.tangents.set_tangent(t, make(next(it), t._m))
        before = [t._st.array for t in inner]
        out = func(*tree.unflatten(examples, spec), **kwargs)
        results = _results(func, out, out_dims, told)
        for k, (t, old) in enumerate(zip(inner, before)):
            if t._st.array is not old:
                told.written[batched[k]] = len(results)
                results.append(t)
                told.requires.append(requires_grad_of(t))
                told.metas.append(MODES.lifts[-1].batch_meta(t))
        current = MODES.lifts[-1]
        told.moved = {i: moves for i, t in zip(batched, inner) if (moves := current.moves_of(t))}
        looks[:] = current.tape.looks
        for t in [t for look in looks for t in look.tensors]:
            results.append(t)
            told.requires.append(False)
            told.metas.append(current.batch_meta(t))
        return [current.array_of(t) for t in results]

    looks: list[deferred.Look] = []
    avals = [aval_of(m) for m in metas]
    avals += [avals[k] for k, t in enumerate(tangents) if t is not None]
    inputs = (*fronts, *given)
    lifted = lift.taped(
        run, avals, randomness=randomness, size=size, inputs=inputs, rows=batch_outside
    )
    results = _over(lifted, inputs, told.metas, told.requires, told.node)
    if looks:
        deferred.take(looks, results[-sum(len(look.tensors) for look in looks) :])
    for t, version in zip(results, told.versions):
        if t._fn is None:  # a node may have saved it as it is
            t._st.version = version
    for k, j in told.tangents.items():
        MODES.tangents.set_tangent(results[k], results[j])
    places = {i: _move(flat[i], dims[i], moves) for i, moves in told.moved.items()}
    for i, k in told.written.items():
        ops.copy_(flat[i], _moved(results[k], 0, places.get(i, dims[i])))
    return _outputs(func, told, results, out_dims, size)


def _move(whole: Tensor, at: Any, moves: Sequence[lift.Move]) -> int:
    """Do to a batch what was done to the example of it, and say where its dimension is then."""
    for move in moves:
        move.do(whole, at)
        at = move.place(at)
    return at


def _over(
    lifted: lift.Lifted, inputs: Sequence[Tensor], metas: Sequence[Meta], requires: Sequence[bool],
    node: str,
) -> list[Tensor]:  # fmt: skip
    """A traced function of one example applied to all of them, as one recorded operator."""
    if not metas:
        return []
    axes = (0,) * len(inputs) + tuple(0 if m else None for m in lifted.mapped)
    nondiff = tuple(k for k, r in enumerate(requires) if not r)
    call, numbers = _CALLS.get((lifted.key, axes, nondiff, node)), ()
    if call is None:
        call, numbers = _new_call(lifted, axes, nondiff, node)
    bits = MODES.bits
    MODES.bits = bits & ~DUAL  # tangents go through on their own
    try:
        results = apply(call, (*inputs, *lifted.captured, *numbers))
    finally:
        MODES.bits |= bits & DUAL
    return [_laid_out(t, m) for t, m in zip(results, metas)]


def batch_outside(run: lift.Lift, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of a run that has not ended, for all examples, as tensors of where it was started."""
    tangents = [open_tangent(t) for t in tensors]
    flat = [*tensors, *[t for t in tangents if t is not None]]
    lifted = run.so_far([run.array_of(t) for t in flat])
    metas, requires = [run.batch_meta(t) for t in flat], [requires_grad_of(t) for t in flat]
    with run.outside():
        results = _over(lifted, run.inputs, metas, requires, "VmapBackward0")
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
    lifted: lift.Lifted, axes: tuple[Any, ...], nondiff: tuple[int, ...], node: str
) -> tuple[Call, Sequence[Any]]:
    """A call for steps that were not met before, and the numbers to give it.

    Numbers are part of a program, which XLA makes use of, until a program comes again and again with others.
    """
    key, numbers, run = lifted.loose()
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
    call = _call(lifted.function(), axes, nondiff, node)
    _keep(_CALLS, (lifted.key, axes, nondiff, node), call)
    return call, ()


def _keep(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Put an entry into a table of limited size."""
    if len(table) >= _KEPT and key not in table:
        table.pop(next(iter(table)))
    table[key] = value


# What reduces all dimensions of an example reduces all but one of a batch, which is another node of torch's; and
# what is short for another function, as `t` is, is that function there.
_OVER_THE_REST = {
    "SumBackward0": "SumBackward1", "MeanBackward0": "MeanBackward1", "ProdBackward0": "ProdBackward1",
    "MedianBackward0": "MedianBackward1", "MaxBackward1": "MaxBackward0", "MinBackward1": "MinBackward0",
    "MseLossBackward0": "MeanBackward1", "TraceBackward0": "SumBackward1", "TBackward0": "TransposeBackward0",
    "ReshapeAliasBackward0": "ViewBackward0",
}  # fmt: skip


def _over_the_batch(node: str) -> str:
    """What the node of an example is called in the graph outside."""
    return _OVER_THE_REST.get(node, node)


def _call(run: Callable[..., Any], axes: Any, nondiff: Any, node: str) -> Call:
    batched = jax.vmap(run, in_axes=axes)
    return Call(
        "vmap", lambda leaves: tuple(batched(*leaves)), node_name=node, nondiff=nondiff,
        edges=lambda keys: tuple(
            i for i, k in enumerate(keys) if isinstance(k, Meta) and k.dtype.category >= 2
        ),
    )  # fmt: skip


def _results(func: Any, out: Any, out_dims: Any, told: _Run) -> list[Tensor]:
    """The tensors that a run returns; with them what the outside must know of each."""
    current = MODES.lifts[-1]
    flat, told.spec = tree.flatten(out)
    dims = _out_dims(func, out_dims, told.spec)
    results: list[Tensor] = []
    duals = []
    for t, d in zip(flat, dims):
        if not isinstance(t, Tensor):
            if d is None:
                told.outs.append(t)
                continue
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(t)}. Did you "
                "mean to set out_dims= to None for output?"
            )
        if not current.inside(t):
            told.outs.append(t)
            continue
        if d is None:
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
            )
        tangent = open_tangent(t)
        if tangent is None and (rows := current.row_of(t)) is not None:
            told.outs.append(_Rows(rows))
            continue
        if tangent is None and (given := _given(current, t)) is not None:
            told.outs.append(given)
            continue
        told.outs.append(len(results))
        results.append(t)
        if tangent is not None:
            duals.append((len(results) - 1, tangent))
    for k, tangent in duals:
        told.tangents[k] = len(results)
        results.append(tangent)
    for t in results:
        told.metas.append(current.batch_meta(t))
        told.versions.append(t._vc.version)
        told.requires.append(requires_grad_of(t))
        if told.requires[-1] and told.node == "VmapBackward0" and grad_fn_of(t) is not None:
            node = grad_fn_of(t).name()
            told.node = _over_the_batch(node)
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


def _outputs(func: Any, told: _Run, results: Sequence[Tensor], out_dims: Any, size: int) -> Any:
    dims = _out_dims(func, out_dims, told.spec)
    outs = []
    for k, d in zip(told.outs, dims):
        if isinstance(k, int) and not isinstance(k, bool) and d is not None:
            outs.append(_moved(results[k], 0, d))
        elif isinstance(k, _Rows):
            outs.append(_moved(k.tensor, 0, d))
        elif isinstance(k, _Given):
            outs.append(
                _moved(k.whole, k.dim, d) if k.alias is None else _moved(k.tensor(size), 0, d)
            )
        elif isinstance(k, Tensor) and d is not None:  # the same for every example
            outs.append(_moved(ops.expand(k, (size, *k._m.shape)), 0, d))
        else:
            outs.append(k)
    return tree.unflatten(outs, told.spec)


def _in_chunks(
    func: Any, flat: Sequence[Any], dims: Sequence[int | None], spec: tree.Spec, kwargs: Any,
    out_dims: Any, randomness: str, size: int, chunk: int,
) -> Any:  # fmt: skip
    columns: list[list[Any]] = []
    out_spec: Any = None
    state = random.get_rng_state() if randomness == "same" else None
    for start in range(0, size, chunk):
        if state is not None:  # every chunk draws the same
            random.set_rng_state(state)
        n = min(chunk, size - start)
        part = [x if d is None else narrow(x, d, start, n) for x, d in zip(flat, dims)]
        out = _run(func, part, dims, spec, kwargs, out_dims, randomness, n)
        leaves, out_spec = tree.flatten(out)
        columns.append(leaves)
    out_flat = _out_dims(func, out_dims, out_spec)
    joined = [
        column[0] if d is None else ops.cat(list(column), d)
        for column, d in zip(zip(*columns), out_flat)
    ]
    return tree.unflatten(joined, out_spec)


__all__ = ["vmap"]
