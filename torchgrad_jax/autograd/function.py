"""Custom differentiable functions, as in torch.autograd.function."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from .._bridge.jax_side.interop import apply_traced
from .._core.arrays import dtypes as _dtypes, tree
from .._core.errors import warn
from .._core.state import GRAD, MODES
from .._engine.graph.history import requires_grad_of
from .._engine.graph.record import no_grad
from .._engine.memory.derivative_stops import is_traced
from .._engine.memory.tensor import Tensor, alias_of
from .._engine.modes.belonging import running_vmap
from .._engine.passes.custom import SAVED_AS_IS, DelayedError, PyNode, apply_function, keep_returned_marks
from .._engine.tensor.dual import primals_only

_function_ids = itertools.count()


class FunctionCtx:
    """What the methods of a `Function` share: saved tensors, marks, and attributes of your own."""

    _grad_dtypes: Any = None

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors for the backward, once per forward.

        Inputs and outputs saved this way are checked for in-place writes and do not leak.

        Args:
            tensors: what `saved_tensors` will hold; None is allowed.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor) -> None:
        """Keep tensors for `jvp`.

        Args:
            tensors: what `saved_tensors` holds inside of `jvp`; None is allowed.
        """
        for t in tensors:
            if not (t is None or isinstance(t, Tensor)):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes "
                    "on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs the forward modified in place; each must be returned.

        Args:
            args: the inputs that were written to.
        """
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Do nothing but warn: shared storage is tracked anyway."""
        warn.to_user(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. Note that "
            "calls to `set_()` are not tracked",
            FutureWarning,
        )

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs have no gradient.

        Args:
            args: outputs of the forward.
        """
        self.non_differentiable = args

    def set_output_grad_dtype(self, *dtypes: Any) -> None:
        """Say in which dtype the backward gets the gradient of each output, once per forward.

        For example, a Function that returns bfloat16 and adds up its gradient in float32 declares `torch.float32`.

        Args:
            dtypes: one per value that the Function returns: a dtype, or None for a gradient in the dtype that it comes
                in, and for what has no gradient. Without this call each gradient comes in the dtype of its output.
        """
        if self._grad_dtypes is not None:
            raise RuntimeError("set_output_grad_dtype can only be called once")
        for d in dtypes:
            if d is not None and not isinstance(d, _dtypes.dtype):
                raise TypeError(f"set_output_grad_dtype takes dtypes and None, and got {d!r}")
        self._grad_dtypes = dtypes

    def set_materialize_grads(self, value: bool) -> None:
        """Return whether undefined gradients reach the backward as zeros (the default) or as None.

        Args:
            value: False to get None.
        """
        self.materialize_grads = value


_ContextMethodMixin = FunctionCtx
"""The older name of the class, by which torch's documentation has its methods."""


class _HookMixin:
    @staticmethod
    def _register_hook(backward_hooks: Any, hook: Any) -> tuple[Any, Any]:
        from .._engine.graph.hooks import RemovableHandle

        if backward_hooks is None:
            backward_hooks = OrderedDict()
        handle = RemovableHandle(backward_hooks)
        backward_hooks[handle.id] = hook
        return backward_hooks, handle


class BackwardCFunction(PyNode, FunctionCtx, _HookMixin):
    """The node of a custom Function in the graph; the `ctx` of its methods is this object."""

    _forward_cls: Any = None

    def _get_user_fn(self) -> Callable[..., Any]:
        backward, vjp = self._forward_cls.backward, self._forward_cls.vjp
        if backward is not Function.backward and vjp is not Function.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one of them."
            )
        return vjp if vjp is not Function.vjp else backward

    def apply(self, *args: Any) -> Any:
        """Run the user's backward on gradients."""
        return self.apply_boxed(list(args))

    def apply_boxed(self, *args: Any) -> Any:
        """Run the user's backward on gradients handed over in one list."""
        (grads,) = args
        if self._forward_cls.boxed_grads_call:  # the list itself, which the user may empty
            return self._get_user_fn()(self, grads)
        return self._get_user_fn()(self, *grads)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What the forward saved; with `clear_saved_tensors_on_access` it can be had once."""
        found = PyNode.saved_tensors.fget(self)  # type: ignore[attr-defined]
        if self._forward_cls.clear_saved_tensors_on_access:
            if self._cleared:
                raise RuntimeError(
                    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the "
                    "autograd.Function. Either access saved_tensors only once, or set "
                    "clear_saved_tensors_on_access=False."
                )
            self.saved, self.vers, self._cleared = (), (), True
        return found

    def apply_jvp(self, *args: Any) -> Any:
        """Run the user's jvp on tangents."""
        return self._forward_cls.jvp(self, *args)

    def _compiled_autograd_key(self) -> Any:
        return self._forward_cls._compiled_autograd_key(self)


class FunctionMeta(type):
    """Gives every Function class its node class, named ``<Class>Backward``."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        node = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})
        node._autograd_function_id = next(_function_ids)  # type: ignore[attr-defined]
        node.__module__ = _TORCH_MODULE
        cls._backward_cls = node
        super().__init__(name, bases, attrs)


_TORCH_MODULE = "torch.autograd.function"
"""Module that nodes name in their repr, as torch's do."""


class _SingleLevelFunction(PyNode, FunctionCtx, _HookMixin, metaclass=FunctionMeta):
    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs: ``forward(ctx, *args)``, or ``forward(*args)`` beside `setup_context`."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Fill `ctx` from the inputs and outputs of a `forward` that does not take it."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gradients of the inputs, one for each argument of forward, from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    clear_saved_tensors_on_access = False
    boxed_grads_call = False

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Tangents of the outputs from those of the inputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )


class Function(_SingleLevelFunction):
    """Base of operations with a derivative of your own; call them with `apply`.

    Example:
        >>> import torchgrad_jax as torch
        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         return g * 2
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> Double.apply(x).backward()
        >>> x.grad
        tensor(2.)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn.to_user(
            f"{self.__class__} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """How the function behaves under vmap: ``(outputs, out_dims)`` from batched arguments."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run the function and record it.

        Args:
            args: the arguments of `forward` after `ctx`.
            kwargs: more of them, by name.

        Returns:
            What `forward` returned, its tensors attached to a node named ``<Class>Backward``.
        """
        if _is_setup_context_defined(cls.setup_context):
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
            forward = cls._forward_then_setup
            first = 0
        else:
            forward = cls.forward
            first = 1
        if kwargs:
            cls._check_keywords(kwargs)
            args = _positional(cls.forward, first, args, kwargs)
        if MODES.traced and any(isinstance(t, Tensor) and is_traced(t) for t in args):
            return apply_traced(cls.apply, args)  # by one of JAX's transforms
        if MODES.transforms or not MODES.run.at_once:
            return cls._apply_transformed(args, forward)
        return apply_function(cls._backward_cls(), args, forward, BackwardCFunction.apply_jvp)

    @classmethod
    def _apply_transformed(cls, args: tuple[Any, ...], forward: Any) -> Any:
        """`apply` inside of the transforms of `func`."""
        cls._check_setup()
        run = running_vmap()
        jvp = BackwardCFunction.apply_jvp
        if run is not None:
            from ._batched_function import check_rule

            check_rule(cls, Function)
            tensors = [t for t in tree.flatten(args)[0] if isinstance(t, Tensor)]
            if not tensors or not run.touches(tensors):
                with run.outside():
                    return cls.apply(*args)
            if not run.holds_level():
                jvp = None  # tangents go through the rule
            forward = cls._forward_in(run, args, tensors, forward)
        return apply_function(cls._backward_cls(), args, forward, jvp)

    @classmethod
    def _check_setup(cls) -> None:
        """Complain inside of a transform about a forward that takes `ctx`."""
        inside = MODES.transforms or running_vmap() is not None
        if inside and not _is_setup_context_defined(cls.setup_context):
            raise RuntimeError(
                "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it "
                "must override the setup_context staticmethod. For more details, please see "
                "https://pytorch.org/docs/main/notes/extending.func.html"
            )

    @classmethod
    def _check_keywords(cls, kwargs: dict[str, Any]) -> None:
        """Complain inside of a transform about arguments that can only be given by name."""
        cls._check_setup()
        if running_vmap() is not None and any(isinstance(v, Tensor) for v in kwargs.values()):
            raise NotImplementedError(
                "Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass kwarg-only Tensors to "
                f"autograd.Function. Got: {kwargs}"
            )

    @classmethod
    def _forward_in(cls, run: Any, args: tuple[Any, ...], tensors: Sequence[Tensor], forward: Any) -> Any:
        """What computes the outputs in a run of `vmap`, of arguments that are examples of batches."""
        from ._batched_function import apply_batched

        if run.holds_level() and not any(run.inside(t) for t in tensors):  # tangents alone are
            with run.outside():
                outer = running_vmap()
                if outer is not None:
                    forward = cls._forward_in(outer, args, tensors, forward)

            def outside(ctx: Any, *inputs: Any) -> Any:
                with run.outside():
                    return forward(ctx, *inputs)

            return outside
        with primals_only() if run.holds_level() else nullcontext():
            batched = apply_batched(cls, run, args, Function)

        alone = run.runs_alone()

        def known(ctx: Any, *inputs: Any) -> Any:
            batched.write()
            cls.setup_context(ctx, inputs, batched.output)
            if alone:  # the rule recorded what it wrote to
                written = [t for t, _, _ in batched.written]
                keep_returned_marks(ctx, tree.flatten(batched.output)[0], written)
            return batched.output

        return known

    @classmethod
    def _forward_then_setup(cls, ctx: Any, *args: Any) -> Any:
        output = cls.forward(*args)
        cls.setup_context(ctx, args, output)
        _check_saved(ctx, args, output)
        return output

    @staticmethod
    def _compiled_autograd_key(ctx: Any) -> Any:
        return (ctx._autograd_function_id,)


def _check_saved(ctx: Any, args: tuple[Any, ...], output: Any) -> None:
    """Refuse to save a tensor that is both an input and an output: which of the two it would count as is not clear."""
    outputs = output if isinstance(output, tuple) else (output,)
    given = {id(t) for t in args if isinstance(t, Tensor)}
    unclear = given.intersection(map(id, outputs)).difference(map(id, ctx.dirty_tensors or ()))
    saved = (*(ctx.to_save or ()), *(ctx.saved_for_forward or ()))
    if not unclear.isdisjoint(map(id, saved)):
        raise RuntimeError(SAVED_AS_IS)


def _positional(forward: Any, first: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments given by name in their place; a node has one input per position."""
    params = [
        p
        for p in inspect.signature(forward).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ][first:]
    names = [p.name for p in params]
    for name in kwargs:
        if name not in names:
            raise TypeError(f"forward() got an unexpected keyword argument '{name}'")
        if names.index(name) < len(args):
            raise TypeError(f"forward() got multiple values for argument '{name}'")
    out = list(args)
    last = max(names.index(name) for name in kwargs)
    for i in range(len(args), last + 1):
        p = params[i]
        if p.name in kwargs:
            out.append(kwargs[p.name])
        elif p.default is not p.empty:
            out.append(p.default)
        else:
            raise TypeError(f"forward() missing required argument: '{p.name}' (position {i})")
    return tuple(out)


def _is_setup_context_defined(fn: Any) -> bool:
    return fn is not _SingleLevelFunction.setup_context


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a backward that cannot itself be differentiated: doing so raises.

    Args:
        fn: the backward; it runs without recording.

    Returns:
        A backward whose results raise when they are differentiated.
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        if not MODES.bits & GRAD:
            return outputs
        if not any(isinstance(a, Tensor) and requires_grad_of(a) for a in args):
            return outputs
        outs = outputs if isinstance(outputs, tuple) else (outputs,)
        error = DelayedError(
            "trying to differentiate twice a function that was marked with @once_differentiable", len(outs)
        )
        return error(*[_as_if_required(o) for o in outs])

    return wrapper


def _as_if_required(t: Any) -> Any:
    if not isinstance(t, Tensor):
        return t
    out = alias_of(t, t._m, t._al, t._vc)
    out._rg = True
    return out


class InplaceFunction(Function):
    """A Function that remembers whether it was asked to work in place.

    Kept for old code; a plain `Function` does all of it.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


# --- nested arguments -----------------------------------------------------------------------------


def _nested_map(condition: Callable[[Any], bool], fn: Callable[[Any], Any]) -> Any:
    def mapped(obj: Any) -> Any:
        if condition(obj):
            return fn(obj)
        if obj is None:
            return None
        if isinstance(obj, list | tuple):
            parts = (mapped(x) for x in obj)
            return type(obj)(*parts) if hasattr(obj, "_fields") else type(obj)(parts)
        if isinstance(obj, dict):
            return {k: mapped(v) for k, v in obj.items()}
        kind = type(obj).__name__
        raise ValueError(f"Auto nesting doesn't know how to process an input object of type {kind}")

    return mapped


def _iter_tensors(obj: Any) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples and dicts."""
    if isinstance(obj, Tensor):
        yield obj
    elif obj is None:
        return
    elif isinstance(obj, list | tuple):
        for x in obj:
            yield from _iter_tensors(x)
    elif isinstance(obj, dict):
        for x in obj.values():
            yield from _iter_tensors(x)
    else:
        raise ValueError(
            f"Auto nesting doesn't know how to process an input object of type {type(obj).__name__}. Accepted types: "
            "Tensors, or lists/tuples of them"
        )


def _unflatten(values: Sequence[Any], proto: Any) -> Any:
    """`values` in the nesting of `proto`."""
    rest = list(values)
    return _nested_map(lambda x: isinstance(x, Tensor), lambda _: rest.pop(0))(proto)


class NestedIOFunction(Function):
    """A Function of nested arguments, in the old style that torch can no longer run either.

    Calling one raises; the methods remain for code that names them.
    """

    def _do_forward(self, *input: Any) -> Any:
        self._nested_input = input
        flat = super()._do_forward(*_iter_tensors(input))  # type: ignore[misc]
        return _unflatten(flat, self._nested_output)

    def __call__(self, *input: Any) -> Any:
        return self._do_forward(*input)

    def save_for_backward(self, *args: Any) -> None:
        """Remember what to save, nesting included."""
        self.to_save = tuple(_iter_tensors(args))
        self._to_save_nested = args

    @property
    def saved_tensors(self) -> Any:
        """What was saved, in its nesting."""
        return _unflatten(PyNode.saved_tensors.fget(self), self._to_save_nested)  # type: ignore[attr-defined]

    def mark_dirty(self, *args: Any, **kwargs: Any) -> None:
        """Mark nested inputs as modified."""
        self.dirty_tensors = tuple(_iter_tensors((args, kwargs)))

    def mark_non_differentiable(self, *args: Any, **kwargs: Any) -> None:
        """Mark nested outputs as without gradient."""
        self.non_differentiable = tuple(_iter_tensors((args, kwargs)))

    def forward(self, *args: Any) -> Any:
        """Run `forward_extended`."""
        nested = _unflatten(args, self._nested_input)
        return self.forward_extended(*nested)

    def backward(self, *gradients: Any) -> Any:
        """Run `backward_extended`."""
        return self.backward_extended(*gradients)

    def forward_extended(self, *input: Any) -> None:
        """The forward, to be overridden."""
        raise NotImplementedError

    def backward_extended(self, *grad_output: Any) -> None:
        """The backward, to be overridden."""
        raise NotImplementedError


for _cls in (FunctionCtx, BackwardCFunction, Function, InplaceFunction, NestedIOFunction):
    _cls.__module__ = _TORCH_MODULE

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]
