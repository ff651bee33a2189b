"""Tensors where JAX looks at its arguments: as pytrees, and as values with a shape and a dtype.

A tensor is a pytree of one leaf, its array. JAX rebuilds tensors around whatever it puts in the place of
that leaf: tracers, descriptions of shapes, the tensors of a Jacobian.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import jax
import numpy as np

from ..._core.arrays import devices, dtypes
from ..._core.arrays.meta import meta
from ..._core.errors.messages import HOOK_UNDER_JAX
from ..._core.jax import private, x64
from ..._core.jax.running_transforms import HOME_OF_JAX, began, running
from ..._core.state import GRAD, MODES, UNDER_JAX, Modes
from ..._engine.graph.history import grad_fn_of, requires_grad_of
from ..._engine.memory.derivative_stops import is_differentiated, is_traced
from ..._engine.memory.escapes import OF_CONTROL_FLOW, traced_for
from ..._engine.memory.strided import read
from ..._engine.memory.tensor import Tensor, alias_of, born, extras, make_of, wrap_array
from ..._engine.modes.belonging import follow_jax
from ..._engine.tensor.values import GRAPH_LOST, array_for_jax, loses_derivative, value_for_jax
from ..._functions.fresh import own_array
from .lost_gradients import is_taken_in_steps, refuse_as_condition


def _children(t: Tensor) -> tuple[tuple[Any], Any]:
    teach_trees()
    leaf = t._rg and t._fn is None and (t._x is None or not t._x.followed)
    loses = loses_derivative(t)
    if (leaf or loses or requires_grad_of(t)) and is_taken_in_steps(t, loses):
        leaf = False  # a step of a loop gives no leaf, and has to give what it was given
    # Results that come from a closure are refused, too.
    if (loses and isinstance(t._st.array, jax.core.Tracer)) or _is_given_from_outside(t):
        raise RuntimeError(GRAPH_LOST)
    description = (t.__class__, leaf, loses)
    if t._x is not None and (t._x.hooks or t._x.post_acc):
        description = _Hooked(description)
        description.hooks = t._x.hooks, t._x.post_acc
    if t._x is not None and t._x.inner is not None:
        return (t._x.inner,), description
    # JAX has put something of its own in the array's place.
    if not isinstance(t._st.array, jax.Array | np.ndarray):
        return (t._st.array,), description
    if t._m.dtype is dtypes.bool_ and isinstance(t._st.array, jax.core.Tracer):
        refuse_as_condition(t)
    own_array(t)
    return (value_for_jax(t),), description


class _Hooked(tuple):
    """The description of a tensor with hooks on its gradient; it equals that of one without, so that trees agree."""

    hooks: Any = None


def _is_given_from_outside(t: Tensor) -> bool:
    """Return whether a tensor with a graph of its own is given to a function of JAX's in code that JAX traces.

    `jax.jacfwd(f)(h)` looks at `h` once more inside of its own trace, in which `h` was not made.
    """
    if not (MODES.bits & UNDER_JAX and MODES.bits & GRAD) or grad_fn_of(t) is None or is_traced(t):
        return False
    return born(t) < min(map(began, running()), default=0)


def rebuilt(description: Any, children: Any) -> Tensor:
    cls, requires, loses = description
    (leaf,) = children
    if isinstance(leaf, Tensor):
        return as_class(leaf, cls, requires)
    if isinstance(leaf, dict | list | tuple):
        t = make_of(cls, leaf, _described(leaf))
        extras(t).inner = leaf
        return t
    if isinstance(leaf, jax.core.Tracer):
        Modes.traced = True
        if loses or (requires and MODES.bits & GRAD and _of_jax_alone(leaf._trace)):
            raise RuntimeError(GRAPH_LOST)
    t = make_of(cls, leaf, _described(leaf))
    if isinstance(description, _Hooked) and isinstance(leaf, jax.core.Tracer):
        if is_differentiated(t):
            raise RuntimeError(HOOK_UNDER_JAX.format("an argument has a hook on its gradient"))
        extras(t).hooks, extras(t).post_acc = description.hooks
    if t._m.dtype.category >= dtypes.FLOATING:
        t._rg = requires
        if not requires:
            follow_jax(t)
    return t


def as_class(t: Tensor, cls: type[Tensor], requires: bool) -> Tensor:
    """A tensor that a mapped function returned: itself, so that its `.grad` and its graph stay, or a new parameter."""
    if isinstance(t, cls) or requires_grad_of(t):
        return t
    out = alias_of(t, t._m, t._al, cls=cls)
    out._rg = requires and t._m.dtype.category >= dtypes.FLOATING
    return out


def _of_jax_alone(trace: Any) -> bool:
    """Whether what is traced is a function of JAX's own (`jnp.sin`), called by code that JAX does not differentiate."""
    source = getattr(getattr(getattr(trace, "frame", None), "debug_info", None), "func_filename", None)
    around: Any = getattr(trace, "parent_trace", None)
    while traced_for(around) in OF_CONTROL_FLOW:
        around = around.parent_trace
    return str(source).startswith(HOME_OF_JAX) and not began(around)


def _described(leaf: Any) -> Any:
    """Return what is known of a leaf; JAX puts other things than arrays into trees for a while."""
    dtype, shape = getattr(leaf, "dtype", None), getattr(leaf, "shape", None)
    known = isinstance(dtype, np.dtype) and dtype in dtypes.BY_NP
    if known and isinstance(leaf, jax.Array):
        return wrap_array(leaf)._m
    if known and isinstance(shape, tuple):
        return meta(shape, dtypes.from_np(dtype), devices.default_device())
    return meta((), dtypes.float32, devices.default_device())


class _OwnArray:
    """The step in a key path from a tensor to its array: no step at all, see `_teach_key_paths`."""

    def __str__(self) -> str:
        return ""


_OWN_ARRAY = _OwnArray()
_FIRST_CHILD = (jax.tree_util.FlattenedIndexKey(0),)


def _keyed_children(t: Tensor) -> tuple[tuple[Any], Any]:
    (child,), description = _children(t)
    return ((_OWN_ARRAY, child),), description


def register(cls: type[Tensor]) -> None:
    """Make instances of a class pytrees of one leaf, their array."""
    jax.tree_util.register_pytree_with_keys(cls, _keyed_children, rebuilt, _children)


def _new_class(cls: type[Tensor], **kwargs: Any) -> None:
    """New classes of tensors are pytrees as well."""
    super(Tensor, cls).__init_subclass__(**kwargs)
    register(cls)


# --- what JAX asks of values ----------------------------------------------------------------------


def _teach_jax() -> None:
    """Let JAX's own functions take tensors for arrays."""
    private.AVALS[Tensor] = _described_to_jax
    private.CANONICAL[Tensor] = array_for_jax


def _described_to_jax(t: Tensor) -> Any:
    caller = sys._getframe(1).f_back
    if caller is not None and caller.f_code.co_name == "_is_boolean_index":
        raise IndexError(_INDEX)
    return x64.narrowed_type(jax.typeof(read(t)))


_INDEX = (
    "an array of JAX's takes arrays as indices, not tensors: write array[jnp.asarray(index)], or "
    "torch.as_tensor(array)[index]"
)
_taught = False
_TEACHING = threading.Lock()


def teach_trees() -> None:
    """Let trees match where one has a parameter and the other a plain tensor or an array; modules likewise.

    A node of JAX's matches only nodes of its own class, so `flatten_up_to` is replaced, and `jax.grad` begins with an
    array where the function gives a tensor. No program needs either before JAX first takes a tensor apart: until then
    both are JAX's own.
    """
    global _taught
    if _taught:
        return

    def matching(match: Any) -> Any:
        def flatten_up_to(self: Any, tree: Any) -> list[Any]:
            try:
                return match(self, tree)
            except ValueError:
                found = _matched(self, tree, match)
                if found is None:
                    raise
                return found

        return flatten_up_to

    with _TEACHING:
        if not _taught:
            private.MATCH.wrap(matching)
            private.SEED.wrap(lambda seed: lambda x: jax.tree.map(seed, x) if isinstance(x, Tensor) else seed(x))
            _taught = True


def _teach_key_paths() -> None:
    """Have a tensor add no step to the paths of leaves, as a node of JAX's does.

    JAX has the path of a leaf when it first asks a tensor for one, so this cannot wait for that.
    """

    def naming(flatten: Any) -> Any:
        def flatten_with_path(self: Any, *args: Any, **kwargs: Any) -> Any:
            found, treedef = flatten(self, *args, **kwargs)
            if isinstance(args[0], Tensor) and any(map(callable, (*args[1:], *kwargs.values()))):
                # With `is_leaf`, as nnx of flax looks at the children of one node, each of which has a name.
                return [(_FIRST_CHILD, leaf) for _, leaf in found], treedef
            return [(_without_own(path), leaf) for path, leaf in found], treedef

        return flatten_with_path

    private.PATHS.wrap(naming)


def _without_own(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key path without the steps from tensors to their arrays."""
    return tuple([k for k in path if k is not _OWN_ARRAY]) if _OWN_ARRAY in path else path


def _matched(treedef: Any, tree: Any, match: Any) -> list[Any] | None:
    """Return what stands in `tree` for each leaf of `treedef`, or None where neither has tensors.

    Tensors of all classes are alike, and so are modules with tensors of the same names.
    """
    whole = jax.tree.unflatten(treedef, [_Place()] * treedef.num_leaves)
    nodes, outer = jax.tree.flatten(whole, is_leaf=_is_whole)
    if not any(map(_is_whole, nodes)):
        return None
    found: list[Any] = []
    for node, part in zip(nodes, match(outer, tree)):
        if not _is_whole(node):
            found.append(part)
        elif isinstance(node, Tensor):
            found += _in_place_of([node], [part])
        else:
            (names, tensors), (others, parts) = _tensors_of(node), _tensors_of(part)
            if names != others:
                return None
            found += _in_place_of(tensors, parts)
    return found if len(found) == treedef.num_leaves else None


def _in_place_of(tensors: list[Tensor], parts: list[Any]) -> list[Any]:
    """Return what stands in `parts` for each leaf of `tensors`.

    A tensor has one leaf unless a mapped function put a tree in its place: None or `optax.MaskedNode()` have none.
    """
    found: list[Any] = []
    for t, part in zip(tensors, parts):
        within = _children(part)[0][0] if isinstance(part, Tensor) else part
        found += jax.tree.structure(_children(t)[0][0]).flatten_up_to(within)
    return found


MODULES: dict[type, Any] = {}
"""The class of modules, and what gives the names and the tensors of one."""


def _tensors_of(x: Any) -> tuple[Any, list[Tensor]]:
    for cls, parts in MODULES.items():
        if isinstance(x, cls):
            return parts(x)
    return None, []


class _Place:
    """Stands for a leaf."""


def _is_whole(x: Any) -> bool:
    return isinstance(x, (Tensor, *MODULES))


register(Tensor)
_new_class.__name__ = "__init_subclass__"
Tensor.__init_subclass__ = classmethod(_new_class)  # type: ignore[assignment]
_teach_jax()
_teach_key_paths()
