"""torch.utils.module_tracker: in which modules of a model a program is, forward and backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .._core.arrays import tree
from .._core.signals import restore, uninterrupted
from .._engine.memory.tensor import Tensor
from ..autograd.graph import _current_graph_task_id, register_multi_grad_hook
from ..autograd.variable import Variable
from ..nn.modules._hooks import remove_module_hooks
from ..nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook


def _differentiable(values: Any) -> list[Tensor]:
    return [t for t in tree.flatten(values)[0] if isinstance(t, Tensor) and t.requires_grad]


class ModuleTracker:
    """Within it, `parents` holds the names of the modules that are being run, and "Global".

    A module is called by its class, and its children by their attributes: "Model.encoder.0". In a
    backward pass, a module is entered when a gradient reaches its output, and left when all those of its
    inputs are there.

    Example:
        >>> import torchgrad_jax as torch
        >>> class Model(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.act = torch.nn.Tanh()
        ...         self.act.register_forward_pre_hook(lambda *args: print(sorted(tracker.parents)))
        ...     def forward(self, x):
        ...         return self.act(x)
        >>> with torch.utils.module_tracker.ModuleTracker() as tracker:
        ...     _ = Model()(torch.ones(2))
        ['Global', 'Model', 'Model.act']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakSet[Module] = weakref.WeakSet()
        self._hooks: list[Any] = []
        self._resets = False

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is running."""
        return _current_graph_task_id() != -1

    def __enter__(self) -> ModuleTracker:
        try:
            register_module_forward_pre_hook(self._before)
            register_module_forward_hook(self._after)
        except BaseException:  # a signal's, say
            restore(self._unhook)
            raise
        return self

    def _unhook(self) -> None:
        # Not by their handles: a signal may come when a hook is there and its handle is not yet returned.
        remove_module_hooks(self._before, self._after)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        restore(self._unhook)

    def _name_of(self, module: Module) -> str:
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._seen:
            self._seen.add(module)
            for child_name, child in module.named_children():
                if child not in self._seen:
                    self._names[child] = f"{name}.{child_name}"
        return name

    def _before(self, module: Module, inputs: Any) -> None:
        name = self._name_of(module)
        self.parents.add(name)
        tensors = _differentiable(inputs)
        if tensors:
            self._hooks.append(register_multi_grad_hook(tensors, self._leaving(name)))

    def _after(self, module: Module, inputs: Any, output: Any) -> None:
        name = self._name_of(module)
        self.parents.discard(name)
        tensors = _differentiable(output)
        if tensors:
            entering = self._entering(name)
            self._hooks.append(register_multi_grad_hook(tensors, entering, mode="any"))

    def _entering(self, name: str) -> Callable[..., None]:
        return lambda grads: self._enter(name)

    def _leaving(self, name: str) -> Callable[..., None]:
        return lambda grads: self.parents.discard(name)

    def _enter(self, name: str) -> None:
        """Be in a module in the backward pass."""
        if not self._resets:
            # What no gradient of an input ends is left when the pass is done.
            Variable._execution_engine.queue_callback(self._reset)
            self._resets = True
        self.parents.add(name)

    def _reset(self) -> None:
        self.parents = {"Global"}
        self._resets = False


__all__ = ["ModuleTracker"]
