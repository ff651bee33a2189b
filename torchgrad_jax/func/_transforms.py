"""grad, vjp and jvp on the ordinary graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from .._core.arrays import dtypes, tree
from .._core.signals import contextmanager
from .._core.state import DUAL, GRAD, MODES
from .._engine.entry.bind import ops
from .._engine.graph.history import requires_grad_of
from .._engine.graph.record import zeros_for
from .._engine.memory.tensor import Tensor
from .._engine.modes.belonging import as_batch
from .._engine.overrides.asking import overrides
from .._engine.tensor.dual import primals_only
from ..autograd import forward_ad, grad as autograd_grad
from ._levels import (
    Function,
    Level,
    check_argnums,
    detached,
    differentiating,
    only_tensors,
    outputs_of,
    pick,
    put,
    recording,
    transforming,
    transposed,
)

_UNSUPPORTED = "Expected tensors, got unsupported type"
_AUX = "output of function f should be a tuple: (output, aux) if has_aux is True"


def grad(func: Function, argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a function with a scalar result.

    Args:
        func: returns a tensor of one element; with `has_aux`, a pair of that and anything else.
        argnums: which arguments to differentiate with respect to: a number, or a tuple of them.
        has_aux: whether `func` returns such a pair; then the result is a pair too.

    Returns:
        A function of the same arguments that returns the gradients, structured like the arguments.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.func.grad(torch.sin)(torch.tensor(0.0))
        tensor(1.)
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradients, value = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return wrapper


def grad_and_value(func: Function, argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Like `grad`, but the result is a pair of the gradients and what `func` returned.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.func.grad_and_value(torch.sin)(torch.tensor(0.0))
        (tensor(1.), tensor(0.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _grad_and_value(func, argnums, has_aux, args, kwargs)

    return wrapper


def _grad_and_value(
    func: Function, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    check_argnums(args, argnums)
    level = Level()
    with recording(level=level):
        inputs = level.variables(pick(args, argnums))
        given = put(args, argnums, inputs)
        with differentiating(given, kwargs):
            out = func(*given, **kwargs)
        aux = None
        if has_aux:
            if not (isinstance(out, tuple) and len(out) == 2):
                raise RuntimeError(f"grad_and_value(f)(*args): {_AUX}")
            out, aux = out
        if not isinstance(out, Tensor):
            raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(out)}")
        if out._m.ndim:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{out._m.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        if has_aux:
            only_tensors(aux, _UNSUPPORTED)
        leaves, spec = tree.flatten(inputs)
        level.refuse_unrecorded([out], leaves)
        found = _gradients([out], leaves, None, level.matters_outside([out]), False)
        gradients = tree.unflatten(found, spec)
    gradients, out, aux = level.free((gradients, out, aux))
    return gradients, (out, aux) if has_aux else out


def _gradients(outs: Sequence[Tensor], inputs: Sequence[Tensor], given: Any, create: bool, keep: bool) -> list[Any]:
    """Gradients of the inputs, zeros where the outputs do not depend on them."""
    at = [i for i, t in enumerate(outs) if requires_grad_of(t)]
    found: Sequence[Any] = [None] * len(inputs)
    if at:
        found = autograd_grad(
            [outs[i] for i in at],
            list(inputs),
            None if given is None else [given[i] for i in at],
            retain_graph=create or keep,
            create_graph=create,
            allow_unused=True,
        )
    if not create:  # torch records each pass inside of a transform, and adds nothing in place
        kept = [] if given is None else [v._st for v in given]
        for g in found:
            if g is not None and g._vc is g._st and not any(g._st is st for st in kept):
                g._st.version = 0
    seeds = outs if given is None else given
    return [as_batch(zeros_for(t._m), [t]) if g is None else as_batch(g, seeds) for t, g in zip(inputs, found)]


# --- reverse mode ---------------------------------------------------------------------------------


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Return what `func` returns, and a function from gradients of that to gradients of the inputs.

    Args:
        func: takes the primals; returns tensors, in containers if need be.
        *primals: where to evaluate it.
        has_aux: `func` returns a pair of its result and anything else, which is returned as a third part.

    Example:
        >>> import torchgrad_jax as torch
        >>> out, pull = torch.func.vjp(torch.sin, torch.zeros(2))
        >>> pull(torch.ones(2))
        (tensor([1., 1.]),)
    """
    value, pull, aux = pullback(func, primals, None, has_aux)
    return (value, pull, aux) if has_aux else (value, pull)


def pullback(
    func: Function, primals: tuple[Any, ...], argnums: Any, has_aux: bool, kwargs: Any = None
) -> tuple[Any, Callable[..., Any], Any]:
    """`vjp` with respect to some arguments (all of them: None)."""
    level = Level()
    with recording(level=level):
        if argnums is None:
            inputs = level.variables(primals)
            given = inputs
        else:
            check_argnums(primals, argnums)
            inputs = level.variables(pick(primals, argnums))
            given = put(primals, argnums, inputs)
        with differentiating(given, kwargs):
            out = func(*given, **(kwargs or {}))
        aux = None
        if has_aux:
            if not (isinstance(out, tuple) and len(out) == 2):
                raise RuntimeError(f"vjp(f, *primals): {_AUX}")
            out, aux = out
            only_tensors(aux, _UNSUPPORTED)
    leaves, in_spec = tree.flatten(inputs)
    outs, out_spec = outputs_of(out, "vjp(f, *primals)")
    level.refuse_unrecorded(outs, leaves)
    for t in outs:
        if t._m.dtype.category < dtypes.FLOATING:
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                f"{t._m.dtype}"
            )

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        here = Level()
        here.own, here.kept = level.own, level.kept
        given, spec = tree.flatten(cotangents)
        if spec != out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {spec.pretty()}, primal output: {out_spec.pretty()}"
            )
        record = here.recording if create_graph is None else create_graph
        with recording(record, here):
            create = record and here.matters_outside([*outs, *given])
            found = _gradients(outs, leaves, given, create, retain_graph)
        return here.free(tree.unflatten(found, in_spec))

    value, aux = level.free((out, aux))
    return value, pull, aux


# --- forward mode ---------------------------------------------------------------------------------


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Return what `func` returns, and its derivative along the tangents.

    Args:
        func: takes the primals; returns tensors, in containers if need be.
        primals: a tuple of arguments.
        tangents: a direction for each, structured alike.
        strict: raise where the result does not depend on the inputs, instead of giving zeros.
        has_aux: `func` returns a pair of its result and anything else, which is returned as a third part.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
        (tensor(0.), tensor(2.))
    """
    return pushforward(func, primals, tangents, None, strict, has_aux)


def pushforward(
    func: Function, primals: Any, tangents: Any, argnums: Any, strict: bool, has_aux: bool, kwargs: Any = None
) -> Any:
    """`jvp` with respect to some arguments (all of them: None)."""
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    if argnums is not None:
        check_argnums(primals, argnums)
    chosen = primals if argnums is None else pick(primals, argnums)
    flat, spec = tree.flatten(chosen)
    flat_tangents, tangent_spec = tree.flatten(tangents)
    if spec != tangent_spec:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, "
            "if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure "
            f"{spec!r} and tangents with structure {tangent_spec!r}"
        )
    for what, values in (("primals", flat), ("tangents", flat_tangents)):
        for t in values:
            if not isinstance(t, Tensor):
                raise RuntimeError(f"jvp(f, primals, tangents): Expected {what} to only contain Tensors, got {type(t)}")
        if not values:
            raise RuntimeError(f"jvp(f, primals, tangents): Expected {what} to contain at least one Tensor.")

    def run(inputs: list[Any]) -> tuple[Any, Any]:
        given = tree.unflatten(inputs, spec)
        args = given if argnums is None else put(primals, argnums, given)
        with transforming(args, kwargs):
            out = func(*args, **(kwargs or {}))
        if not has_aux:
            return out, None
        if not (isinstance(out, tuple) and len(out) == 2):
            raise RuntimeError(f"jvp(f, primals, tangents): {_AUX}")
        only_tensors(out[1], _UNSUPPORTED)
        return out

    kind = _nested if MODES.bits & DUAL else _dual
    around = nullcontext() if MODES.forward_grad else primals_only()
    with around, _tangents_flow():
        out, slopes, aux, out_spec = kind(run, flat, flat_tangents)
    for i, (t, s) in enumerate(zip(out, slopes)):
        if s is None:
            if strict:
                raise RuntimeError(
                    "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not "
                    "allowed with strict=True."
                )
            slopes[i] = as_batch(zeros_for(t._m), [t])
    result = (tree.unflatten(out, out_spec), tree.unflatten(slopes, out_spec))
    return (*result, aux) if has_aux else result


@contextmanager
def _tangents_flow() -> Iterator[None]:
    """Inside, operations pass tangents on, whatever `_set_fwd_grad_enabled` said outside."""
    before = MODES.forward_grad
    MODES.forward_grad = True
    try:
        yield
    finally:
        MODES.forward_grad = before


_JVP = "jvp(f, primals, tangents)"


def _dual(run: Any, primals: list[Any], tangents: list[Any]) -> Any:
    """With dual numbers: one run of the function, no graph."""
    with recording(bool(MODES.bits & GRAD)), forward_ad.dual_level():
        inputs = [forward_ad.make_dual(_plain(p), t) for p, t in zip(primals, tangents)]
        out, aux = run(inputs)
        flat, spec = outputs_of(out, _JVP)
        slopes = [forward_ad.unpack_dual(t).tangent for t in flat]
        slopes = [s if s is None or not overrides(type(s)) else ops.alias(s) for s in slopes]  # as torch gives them
    return [ops.alias(t) for t in flat], slopes, aux, spec


def _plain(t: Tensor) -> Tensor:
    """A tensor of inference mode as one that operations are differentiated for."""
    return detached(t) if t._x is not None and t._x.inference else t


def _nested(run: Any, primals: list[Any], tangents: list[Any]) -> Any:
    """Inside of another forward-mode level: the transpose of the transpose.

    A vector-Jacobian product is linear in its vector; its own gradient along the tangents is the
    Jacobian-vector product, and every step of it carries the enclosing level's tangents.
    """
    level = Level()
    with recording(level=level):
        inputs = [level.variable(p) for p in primals]
        with transposed(level):
            out, aux = run(inputs)
            flat, spec = outputs_of(out, _JVP)
            level.refuse_unrecorded(flat, inputs)
        slopes = transposed_twice(level, flat, inputs, tangents)
    freed = level.free([flat, slopes, aux])
    return freed[0], freed[1], freed[2], spec


def transposed_twice(
    level: Level, outs: Sequence[Tensor], inputs: Sequence[Tensor], tangents: Sequence[Tensor]
) -> list[Any]:
    """Derivatives of the outputs along the tangents of the inputs, None where independent."""
    before, MODES.transposing = MODES.transposing, True
    try:
        return _transposed_twice(level, outs, inputs, tangents)
    finally:
        MODES.transposing = before


def _transposed_twice(
    level: Level, outs: Sequence[Tensor], inputs: Sequence[Tensor], tangents: Sequence[Tensor]
) -> list[Any]:
    at = [i for i, t in enumerate(outs) if requires_grad_of(t)]
    slopes: list[Any] = [None] * len(outs)
    if not at:
        return slopes
    dummies = [level.variable(zeros_for(outs[i]._m)) for i in at]
    pulled = autograd_grad([outs[i] for i in at], list(inputs), dummies, create_graph=True, allow_unused=True)
    pairs = [(g, t) for g, t in zip(pulled, tangents) if g is not None and requires_grad_of(g)]
    if not pairs:
        return slopes
    found = autograd_grad([g for g, _ in pairs], dummies, [t for _, t in pairs], create_graph=True, allow_unused=True)
    for i, g in zip(at, found):
        slopes[i] = g
    return slopes
