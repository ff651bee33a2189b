"""Handles of hooks and the machinery of module hooks, as in torch.utils.hooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._core.errors import warn
from .._core.errors.messages import HOOK_UNDER_JAX
from .._core.state import GRAD, MODES
from .._engine.graph.history import requires_grad_of
from .._engine.graph.hooks import RemovableHandle as RemovableHandle, warn_if_has_hooks as warn_if_has_hooks
from .._engine.memory.derivative_stops import is_traced
from .._engine.memory.tensor import Tensor
from ..autograd.function import Function


def unserializable_hook(f: Any) -> Any:
    """Mark a hook as one that may be lost silently when its tensor is serialised.

    Args:
        f: the hook.

    Returns:
        The same hook.
    """
    f.__torch_unserializable__ = True
    return f


class BackwardHookFunction(Function):
    """The identity on several tensors: one node through which all their gradients go."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """The arguments, those without gradients marked as such."""
        ctx.mark_non_differentiable(*[t for t in args if not t.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *args: Any) -> Any:
        """The gradients as they are."""
        return args


class BackwardHook:
    """Calls a module's backward hooks once the gradients of its outputs and inputs are both there.

    Args:
        module: what the hooks are told to be called for.
        user_hooks: ``hook(module, grad_input, grad_output)``; may return new gradients of the inputs.
        user_pre_hooks: ``hook(module, grad_output)``; may return new gradients of the outputs.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> hook = BackwardHook("layer", [lambda layer, gi, go: print(layer, gi)], [])
        >>> (inside,) = hook.setup_input_hook((x,))
        >>> out = hook.setup_output_hook(inside * 3)
        >>> out.sum().backward()
        layer (tensor([3., 3.]),)
    """

    def __init__(self, module: Any, user_hooks: Any, user_pre_hooks: Any) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: Any = None
        self.n_outputs = self.n_inputs = -1
        self.output_tensors_index: Any = None
        self.input_tensors_index: Any = None

    def setup_input_hook(self, args: Any) -> Any:
        """The module's arguments, watched."""
        watched, self.input_tensors_index = _watch(args, self._watch_inputs)
        self.n_inputs = len(args)
        return watched

    def setup_output_hook(self, args: Any) -> Any:
        """The module's result, watched."""
        several = isinstance(args, tuple)
        args = args if several else (args,)
        watched, self.output_tensors_index = _watch(args, self._watch_outputs)
        self.n_outputs = len(args)
        return watched if several else watched[0]

    def _watch_inputs(self, node: Any) -> None:
        def after(grad_input: Any, grad_output: Any) -> Any:
            if self.grad_outputs is None:  # reached another way than through the module's outputs
                return None
            grads = _spread(self.input_tensors_index, grad_input, self.n_inputs)
            for hook in self.user_hooks:
                new = hook(self.module, grads, self.grad_outputs)
                if new is None:
                    continue
                if len(new) != len(grads):
                    raise RuntimeError(
                        f"Backward hook returned an invalid number of grad_input, got {len(new)}, but expected "
                        f"{len(grads)}"
                    )
                grads = new
            self.grad_outputs = None
            return tuple(grads[i] for i in self.input_tensors_index)

        node.register_hook(after)

    def _watch_outputs(self, node: Any) -> None:
        def after(grad_input: Any, grad_output: Any) -> Any:
            self.grad_outputs = _spread(self.output_tensors_index, grad_output, self.n_outputs)
            self._call_pre_hooks()
            grads = self.grad_outputs
            if self.input_tensors_index is None:
                self._call_without_inputs()
            if grads is None:
                return None
            return tuple(grads[i] for i in self.output_tensors_index)

        node.register_hook(after)

    def _call_pre_hooks(self) -> None:
        expected = len(self.grad_outputs)
        for hook in self.user_pre_hooks or ():
            new = hook(self.module, self.grad_outputs)
            if new is None:
                continue
            if len(new) != expected:
                raise RuntimeError(
                    f"Backward pre hook returned an invalid number of grad_output, got {len(new)}, but expected "
                    f"{expected}"
                )
            self.grad_outputs = new

    def _call_without_inputs(self) -> None:
        """No input needs a gradient: nothing will come to call the hooks later."""
        warn.to_user(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no "
            "inputs require gradients. See "
            "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook "
            "for more details."
        )
        for hook in self.user_hooks:
            new = hook(self.module, (None,) * self.n_inputs, self.grad_outputs)
            if new is not None and not (isinstance(new, tuple) and all(g is None for g in new)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )
        self.grad_outputs = None


def _watch(args: Any, attach: Callable[[Any], None]) -> tuple[Any, Any]:
    """The arguments with their tensors sent through one node, and where the tensors are."""
    where = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    if not (MODES.bits & GRAD and any(requires_grad_of(args[i]) for i in where)):
        return args, None
    if any(is_traced(args[i]) for i in where):
        raise RuntimeError(HOOK_UNDER_JAX.format("a module has hooks on its gradients"))
    outs = BackwardHookFunction.apply(*(args[i] for i in where))
    outs = outs if isinstance(outs, tuple) else (outs,)
    node = next(t.grad_fn for t in outs if t.grad_fn is not None)
    attach(node)
    new = list(args)
    for i, t in zip(where, outs):
        new[i] = t
    return (tuple(new) if type(args) is tuple else type(args)(*new)), where


def _spread(where: Sequence[int], values: Sequence[Any], size: int) -> tuple[Any, ...]:
    """Values at their places among `size`; None elsewhere."""
    out: list[Any] = [None] * size
    for i, value in zip(where, values):
        out[i] = value
    return tuple(out)


__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]
