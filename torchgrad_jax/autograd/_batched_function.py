"""Custom Functions inside of `vmap`: their own rule for batches, or one derived from their methods.

A Function's derivative is the user's code, which no traced program knows of. So the traced run is left at
this point: what led to the arguments is evaluated for the whole batch and recorded as one operator, the
Function's rule runs outside, on the ordinary graph, and its results enter the run as tensors with a row
per example.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from .._bridge.vmap import batch_outside, require_gradient_as, vmap
from .._core.arrays import tree
from .._core.arrays.meta import Meta, meta
from .._core.arrays.shapes import preserve_strides
from .._core.state import GRAD, MODES
from .._engine.graph.history import requires_grad_of
from .._engine.memory import strided
from .._engine.memory.tensor import Tensor, make
from .._engine.modes.runs import TracedRun
from .._engine.passes.custom import NOT_RETURNED, SAVED_AS_IS
from .._engine.tensor.dual import open_tangent
from .._functions.shape import movedim, sum_to_size
from .._functions.strides import as_strided
from .grad_mode import enable_grad, no_grad

_MORE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """What a Function's `vmap` is told about the batch."""

    batch_size: int
    randomness: str


def check_rule(cls: Any, base: Any) -> None:
    """Complain about a Function, a subclass of `base`, with no rule for batches, or with two."""
    own = cls.vmap is not base.vmap
    if cls.generate_vmap_rule and own:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid "
            f"ambiguity. {_MORE}"
        )
    if not (cls.generate_vmap_rule or own):
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
            f"the vmap staticmethod or set generate_vmap_rule=True. {_MORE}"
        )


class Batched(NamedTuple):
    """What a rule made of all examples, as seen from one of them."""

    output: Any
    written: list[tuple[Tensor, Tensor, Tensor | None]]
    """Arguments that the rule wrote to, what they are now, and their tangents."""
    recorded: bool

    def write(self) -> None:
        """Do to the arguments for one example what the rule did to those for all of them."""
        with enable_grad() if self.recorded else no_grad():
            for t, values, slope in self.written:
                strided.write(t, strided.read(values))
                if slope is not None:
                    MODES.tangents.write_tangent(t, slope)


def apply_batched(cls: Any, run: TracedRun, args: tuple[Any, ...], base: Any) -> Batched:
    """Return what the Function gives for one example, computed for all of them outside."""
    own = cls.vmap is not base.vmap
    given, spec = tree.flatten(args)
    flat, dims = _for_all(run, given, own)
    assert run.batch is not None
    stamps = [0 if d is None else t._st.stamp for t, d in zip(flat, dims)]
    with run.outside(users=True):
        batch, in_dims = tree.unflatten(flat, spec), tree.unflatten(dims, spec)
        if own:
            info = VmapInfo(run.batch.size, run.randomness)
            out, out_dims = _pair(cls.vmap(info, in_dims, *batch))
        else:
            out, out_dims = _generated(cls, in_dims, run.randomness, base).apply(*batch), 0
        outs, out_spec = tree.flatten(out)
        places = _fitting(out_dims, out_spec)
        written = [i for i, d in enumerate(dims) if d is not None and flat[i]._st.stamp != stamps[i]]
        everything = [*zip(outs, places), *[(flat[i], dims[i]) for i in written]]
        fronts = [_in_front(t, d) for t, d in everything]
        slopes = [open_tangent(t) for t in fronts]
    inner = [_entered(run, t, d) for t, (_, d) in zip(fronts, everything)]
    along = [_tangent_entered(run, s, d) for s, (_, d) in zip(slopes, everything)]
    arguments = {id(flat[i]): given[i] for i in written}
    varying = [(v, t, d) for v, t, d in zip(given, flat, dims) if d is not None]
    for k, t in enumerate(outs):
        if id(t) in arguments:
            inner[k] = arguments[id(t)]
        elif (seen := _seen_in(varying, t, places[k], slopes[k])) is not None:
            inner[k] = seen
        elif along[k] is not None:
            MODES.tangents.set_tangent(inner[k], along[k])
    writes = [(given[i], inner[k], along[k]) for k, i in enumerate(written, len(outs))]
    output = tree.unflatten(inner[: len(outs)], out_spec)
    return Batched(output, writes, bool(MODES.bits & GRAD))


def _seen_in(varying: Sequence[Any], t: Any, place: Any, slope: Any) -> Tensor | None:
    """Where a result is a view of an argument, or that one itself: the same view of the argument for one example.

    A result that has a gradient is a tensor of its own, as its place in the graph goes with its elements.
    """
    if not isinstance(t, Tensor) or place is None or slope is not None or requires_grad_of(t):
        return None
    for one, whole, dim in varying:
        if whole._st is not t._st or requires_grad_of(one):
            continue
        if t._m.dtype is not whole._m.dtype or t.is_conj() or t.is_neg():
            return None
        if whole is t and place == dim:
            return one
        shape, strides = _row(t._m, place)
        if _row(whole._m, dim) != (one._m.shape, one._m.strides):
            return None
        offsets = [strided.storage_offset(v) for v in (one, t, whole)]
        with no_grad():
            return as_strided(one, shape, strides, offsets[0] + offsets[1] - offsets[2])
    return None


def _row(m: Meta, dim: int) -> tuple[Any, Any]:
    """Shape and strides of one example of a batch."""
    dim %= len(m.shape)
    return m.shape[:dim] + m.shape[dim + 1 :], m.strides[:dim] + m.strides[dim + 1 :]


def _for_all(run: TracedRun, given: Sequence[Any], own: bool) -> tuple[list[Any], list[int | None]]:
    """The arguments for all examples, and which dimension of each counts them; the rule may write to them."""
    flat = list(given)
    dims: list[int | None] = [None] * len(given)
    rest = []
    for i, v in enumerate(given):
        if isinstance(v, Tensor) and run.touches((v,)):
            origin = run.batch.origin_of(v) if own and run.batch is not None else None
            if origin is None:
                rest.append(i)
            else:  # as it lies in memory, which user's rules may look at
                flat[i], dims[i] = run.copy_for_rule(origin[0]), origin[1]
    for i, t in zip(rest, batch_outside(run, [given[i] for i in rest])):
        flat[i], dims[i] = t, 0
    return flat, dims


def _in_front(t: Any, d: int | None) -> Any:
    return movedim(t, d, 0) if isinstance(t, Tensor) and d is not None and d % t._m.ndim else t


def _entered(run: TracedRun, t: Any, d: Any) -> Any:
    """An outside tensor as one of the run: a row of it, or itself where it is the same for every example."""
    if not isinstance(t, Tensor) or d is None:
        return t
    m = t._m
    kept = preserve_strides(m.shape[1:], m.strides[1:])
    one = meta(m.shape[1:], m.dtype, m.device, kept)
    return make(run.capture(t, one, mapped=True), one)


def _tangent_entered(run: TracedRun, t: Tensor | None, d: Any) -> Tensor | None:
    """The same for a tangent; a gradient of it that is wanted outside passes."""
    inner = _entered(run, t, d)
    if t is not None:
        require_gradient_as(inner, t)
    return inner


def _pair(result: Any) -> tuple[Any, Any]:
    complaint = (
        "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible "
        "with the output. "
    )
    if not isinstance(result, tuple):
        raise RuntimeError(f"{complaint}Got a {type(result)} instead")
    if len(result) != 2:
        raise RuntimeError(f"{complaint}Got {len(result)} returns instead")
    return result


def _fitting(out_dims: Any, spec: tree.Spec) -> list[Any]:
    dims = tree.broadcast(out_dims, spec)
    if dims is None:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={out_dims} to be compatible with the structure of `output`. out_dims has structure "
            f"{tree.flatten(out_dims)[1]!r} but output has structure {spec!r}. {_MORE}"
        )
    return dims


# --- a rule derived from the Function's methods ---------------------------------------------------


class _Kept:
    """What `setup_context` left behind for one example, as data about the whole batch."""

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}
        self.materialize = True
        self.dims: list[int | None] = []
        self.order: list[int] = []
        """Which of the inputs, outputs, and others, in this order, each kept tensor is."""
        self.shapes: list[Any] = []
        """Of the inputs that are tensors; None for the others."""


class _Slot(NamedTuple):
    """A tensor that a context held: which of the batched tensors it is, and along which dimension."""

    index: int
    dim: int | None


def _generated(cls: Any, in_dims: tuple[Any, ...], randomness: str, base: Any) -> Any:
    """A subclass of `base` over the batch whose methods are the methods of `cls`, batched."""
    batched = functools.partial(vmap, randomness=randomness)

    as_is: set[int] = set()
    """Of the inputs followed by the outputs those that are both."""

    def forward(*args: Any) -> Any:
        def one(*xs: Any) -> Any:
            out = cls.forward(*xs)
            outs = out if isinstance(out, tuple) else (out,)
            both = {id(x) for x in xs if isinstance(x, Tensor)}.intersection(map(id, outs))
            as_is.update(k for k, t in enumerate((*xs, *outs)) if id(t) in both)
            return out

        return batched(one, in_dims)(*args)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _setup(cls, ctx, inputs, output, in_dims, batched)
        saved = (*ctx.kept.attributes["saved"], *ctx.kept.attributes["saved_for_forward"])
        if any(isinstance(s, _Slot) and ctx.kept.order[s.index] in as_is for s in saved):
            raise RuntimeError(SAVED_AS_IS)

    def backward(ctx: Any, *grads: Any) -> Any:
        kept: _Kept = ctx.kept

        def one(saved: Any, given: Any) -> Any:
            inner = _restored(cls, kept, saved, "saved")
            inner.needs_input_grad = ctx.needs_input_grad
            given = list(given)
            out = inner.apply_boxed(given)
            out = out if isinstance(out, tuple) else (out,)
            return _noted(_summed(out, kept.shapes, in_dims), others)

        others: list[Any] = []
        out = _over(one, ctx.saved_tensors, kept.dims, grads, batched)
        whole = _filled(out, others[-1])
        return tuple(
            g.sum(0) if isinstance(g, Tensor) and d is None else g
            for g, d in zip(whole, [*in_dims, *[None] * len(whole)])
        )

    def jvp(ctx: Any, *tangents: Any) -> Any:
        kept: _Kept = ctx.kept

        def one(saved: Any, given: Any, *rest: Any) -> Any:
            inner = _restored(cls, kept, saved, "saved_for_forward")
            out = cls.jvp(inner, *given)
            single.append(not isinstance(out, tuple))
            return _noted(out if isinstance(out, tuple) else (out,), others)

        others: list[Any] = []
        single: list[bool] = []
        dims = [0 if d == 0 and isinstance(d, int) else None for d in in_dims]
        out = _over(one, ctx.saved_tensors, kept.dims, tangents, batched, dims)
        whole = _filled(out, others[-1])
        return whole[0] if single[-1] else whole

    space = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "jvp": staticmethod(jvp),
        "generate_vmap_rule": True,
    }
    return type(f"Vmapped{cls.__name__}", (base,), space)


def _summed(grads: tuple[Any, ...], shapes: Sequence[Any], dims: Sequence[Any]) -> tuple[Any, ...]:
    """Gradients of one example without the dimensions along which inputs with an example each were expanded."""
    return tuple(
        g if not isinstance(g, Tensor) or shape in (None, g._m.shape) or dim is None else sum_to_size(g, shape)
        for g, shape, dim in itertools.zip_longest(grads, shapes[: len(grads)], dims[: len(grads)])
    )


def _setup(cls: Any, ctx: Any, inputs: tuple[Any, ...], output: Any, in_dims: tuple[Any, ...], batched: Any) -> None:
    """Run `setup_context` for one example, and keep for the batch what it kept."""
    kept = ctx.kept = _Kept()
    given, _ = tree.flatten((inputs, output))
    out_dims = tree.map_leaves(lambda t: 0 if isinstance(t, Tensor) else None, output)
    dims: list[int | None] = [*tree.flatten(in_dims)[0], *tree.flatten(out_dims)[0]]
    slots: dict[int, _Slot] = {}
    marks: dict[str, list[int]] = {}

    def one(inputs: Any, output: Any) -> Any:
        inner = cls._backward_cls()
        inner.needs_input_grad = ctx.needs_input_grad
        cls.setup_context(inner, inputs, output)
        kept.shapes = [t._m.shape if isinstance(t, Tensor) else None for t in inputs]
        flat = tree.flatten((inputs, output))[0]
        place = {id(t): i for i, t in enumerate(flat) if isinstance(t, Tensor)}
        made: list[Tensor] = []

        def slot(t: Any) -> Any:
            if not isinstance(t, Tensor):
                return t
            if id(t) in place:
                i = place[id(t)]
                slots[i] = _Slot(i, dims[i])
            else:
                i = place[id(t)] = len(flat) + len(made)
                made.append(t)
                slots[i] = _Slot(i, 0)
            return slots[i]

        kept.attributes = {k: tree.map_leaves(slot, v) for k, v in inner.__dict__.items()}
        kept.attributes["saved"] = [slot(t) for t in inner.to_save or ()]
        kept.attributes["saved_for_forward"] = [slot(t) for t in inner.saved_for_forward or ()]
        kept.materialize = inner._materialize
        for name in ("dirty_tensors", "non_differentiable"):
            marks[name] = [place[id(t)] for t in getattr(inner, name) or ()]
        return tuple(made)

    made = batched(one, (in_dims, out_dims))(inputs, output)
    tensors = [*given, *made]
    if marks["dirty_tensors"]:
        raise RuntimeError(
            f"{NOT_RETURNED}\nNo vmap rule can be generated for {cls.__name__}, which marks inputs as dirty: write its "
            "vmap staticmethod."
        )
    ctx.mark_non_differentiable(*[tensors[i] for i in marks["non_differentiable"]])
    ctx.set_materialize_grads(kept.materialize)
    order = sorted(slots)
    ctx.save_for_backward(*[tensors[i] for i in order])
    ctx.save_for_forward(*[tensors[i] for i in order])
    number = {i: _Slot(k, slots[i].dim) for k, i in enumerate(order)}

    def renumbered(v: Any) -> Any:
        return number[v.index] if isinstance(v, _Slot) else v

    kept.attributes = {k: _map_slots(renumbered, v) for k, v in kept.attributes.items()}
    kept.dims = [slots[i].dim for i in order]
    kept.order = order


def _map_slots(fn: Any, value: Any) -> Any:
    """`fn` of every slot in nested containers; a slot is a tuple that is no container."""
    if isinstance(value, _Slot):
        return fn(value)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_map_slots(fn, v) for v in value)
    if isinstance(value, dict):
        return {k: _map_slots(fn, v) for k, v in value.items()}
    return value


def _restored(cls: Any, kept: _Kept, tensors: Sequence[Any], saved: str) -> Any:
    """A context for one example."""
    inner = cls._backward_cls()
    found = _map_slots(lambda s: tensors[s.index], kept.attributes)
    inner.saved_for_forward = tuple(found[saved])  # what `saved_tensors` gives
    inner.__dict__.update({k: v for k, v in found.items() if k not in _SAVED})
    return inner


_SAVED = ("saved", "saved_for_forward")


def _noted(outs: Sequence[Any], others: list[Any]) -> tuple[Tensor, ...]:
    """The tensors among results; the rest is put aside."""
    others.append([None if isinstance(t, Tensor) else (t,) for t in outs])
    return tuple(t for t in outs if isinstance(t, Tensor))


def _filled(tensors: Sequence[Tensor], others: Sequence[Any]) -> tuple[Any, ...]:
    it = iter(tensors)
    return tuple(next(it) if t is None else t[0] for t in others)


def _over(
    one: Any,
    saved: Sequence[Any],
    saved_dims: Sequence[Any],
    given: Sequence[Any],
    batched: Any,
    given_dims: Sequence[Any] | None = None,
) -> Any:
    """`one` over the batch of what was saved and of what is given."""
    dims = [0] * len(given) if given_dims is None else list(given_dims)
    dims = [d if isinstance(t, Tensor) else None for t, d in zip(given, dims)]
    return batched(one, (tuple(saved_dims), tuple(dims)))(tuple(saved), tuple(given))
