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

from .._bridge.vmap import batch_outside, vmap
from .._core import tree
from .._core.meta import meta
from .._core.shapes import preserve_strides
from .._core.state import MODES
from .._engine.dual import open_tangent
from .._engine.lift import Lift
from .._engine.tensor import Tensor, make
from .._functions.shape import movedim, sum_to_size

_MORE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """What a Function's `vmap` is told about the batch."""

    batch_size: int
    randomness: str


def check_rule(cls: Any, own: bool) -> None:
    """Complain about a Function with no rule for batches, or with two."""
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


def apply_batched(cls: Any, lift: Lift, args: tuple[Any, ...], own: bool, base: Any) -> Any:
    """What the Function gives for one example, computed for all of them outside."""
    flat, spec = tree.flatten(args)
    at = [i for i, v in enumerate(flat) if isinstance(v, Tensor) and lift.touches((v,))]
    wholes = {i: found for i in at if own and (found := lift.origin_of(flat[i])) is not None}
    rest = [i for i in at if i not in wholes]
    dims: list[int | None] = [None] * len(flat)
    for i, t in zip(rest, batch_outside(lift, [flat[i] for i in rest])):
        flat[i], dims[i] = t, 0
    for i, (whole, dim) in wholes.items():
        flat[i], dims[i] = whole, dim
    assert lift.size is not None
    if own and cls.jvp is base.jvp and any(open_tangent(v) is not None for v in args):
        cls.jvp(None)  # complains that there is none
    with lift.outside(users=True):
        batch, in_dims = tree.unflatten(flat, spec), tree.unflatten(dims, spec)
        if own:
            info = VmapInfo(lift.size, lift.randomness)
            out, out_dims = _pair(cls.vmap(info, in_dims, *batch))
        else:
            out = _generated(cls, in_dims, lift.randomness, base).apply(*batch)
            out_dims = 0
        outs, out_spec = tree.flatten(out)
        places = _fitting(out_dims, out_spec)
        fronts = [
            movedim(t, d, 0) if isinstance(t, Tensor) and d is not None and d % t._m.ndim else t
            for t, d in zip(outs, places)
        ]
        slopes = [open_tangent(t) for t in fronts]
    examples = []
    for t, slope, d in zip(fronts, slopes, places):
        if isinstance(t, Tensor):
            inner = _entered(lift, t, d)
            if slope is not None:
                MODES.tangents.set_tangent(inner, _entered(lift, slope, d))
            t = inner
        examples.append(t)
    return tree.unflatten(examples, out_spec)


def _entered(lift: Lift, t: Tensor, d: Any) -> Tensor:
    """An outside tensor as one of the run: a row of it, or all of it for every example."""
    if d is None:
        return make(lift.array_of(t), t._m)
    m = t._m
    kept = preserve_strides(m.shape[1:], m.strides[1:])
    one = meta(m.shape[1:], m.dtype, m.device, kept)
    return make(lift.capture(t, one, mapped=True), one)


def _pair(result: Any) -> tuple[Any, Any]:
    told = (
        "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible "
        "with the output. "
    )
    if not isinstance(result, tuple):
        raise RuntimeError(f"{told}Got a {type(result)} instead")
    if len(result) != 2:
        raise RuntimeError(f"{told}Got {len(result)} returns instead")
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
        self.shapes: list[Any] = []
        """Of the inputs that are tensors; None for the others."""


class _Slot(NamedTuple):
    """A tensor that a context held: which of the batched tensors it is, and along which dimension."""

    index: int
    dim: int | None


def _generated(cls: Any, in_dims: tuple[Any, ...], randomness: str, base: Any) -> Any:
    """A subclass of `base` over the batch whose methods are the methods of `cls`, batched."""
    batched = functools.partial(vmap, randomness=randomness)

    def forward(*args: Any) -> Any:
        return batched(cls.forward, in_dims)(*args)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _setup(cls, ctx, inputs, output, in_dims, batched)

    def backward(ctx: Any, *grads: Any) -> Any:
        kept: _Kept = ctx.kept

        def one(saved: Any, given: Any) -> Any:
            inner = _restored(cls, kept, saved, "saved")
            inner.needs_input_grad = ctx.needs_input_grad
            given = list(given)
            out = inner.apply_boxed(given)
            out = out if isinstance(out, tuple) else (out,)
            return _noted(_summed(out, kept.shapes, in_dims), told)

        told: list[Any] = []
        out = _over(one, ctx.saved_tensors, kept.dims, grads, batched)
        whole = _filled(out, told[-1])
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
            return _noted(out if isinstance(out, tuple) else (out,), told)

        told: list[Any] = []
        single: list[bool] = []
        dims = [0 if d == 0 and isinstance(d, int) else None for d in in_dims]
        out = _over(one, ctx.saved_tensors, kept.dims, tangents, batched, dims)
        whole = _filled(out, told[-1])
        return whole[0] if single[-1] else whole

    space = {
        "forward": staticmethod(forward), "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward), "jvp": staticmethod(jvp), "generate_vmap_rule": True,
    }  # fmt: skip
    return type(f"Vmapped{cls.__name__}", (base,), space)


def _summed(grads: tuple[Any, ...], shapes: Sequence[Any], dims: Sequence[Any]) -> tuple[Any, ...]:
    """Gradients of one example without the dimensions along which inputs with an example each were expanded."""
    return tuple(
        g
        if not isinstance(g, Tensor) or shape in (None, g._m.shape) or dim is None
        else sum_to_size(g, shape)
        for g, shape, dim in itertools.zip_longest(grads, shapes[: len(grads)], dims[: len(grads)])
    )


def _setup(
    cls: Any, ctx: Any, inputs: tuple[Any, ...], output: Any, in_dims: tuple[Any, ...], batched: Any
) -> None:
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
            f"vmap over {cls.__name__}: a rule cannot be generated for a Function that marks inputs as dirty"
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


def _noted(outs: Sequence[Any], told: list[Any]) -> tuple[Tensor, ...]:
    """The tensors among results; the rest is put aside."""
    told.append([None if isinstance(t, Tensor) else (t,) for t in outs])
    return tuple(t for t in outs if isinstance(t, Tensor))


def _filled(tensors: Sequence[Tensor], told: Sequence[Any]) -> tuple[Any, ...]:
    it = iter(tensors)
    return tuple(next(it) if t is None else t[0] for t in told)


def _over(
    one: Any, saved: Sequence[Any], saved_dims: Sequence[Any], given: Sequence[Any], batched: Any,
    given_dims: Sequence[Any] | None = None,
) -> Any:  # fmt: skip
    """`one` over the batch of what was saved and of what is given."""
    dims = [0] * len(given) if given_dims is None else list(given_dims)
    dims = [d if isinstance(t, Tensor) else None for t, d in zip(given, dims)]
    return batched(one, (tuple(saved_dims), tuple(dims)))(tuple(saved), tuple(given))


__all__ = ["VmapInfo", "apply_batched", "check_rule"]
