"""Nodes that public code makes or looks for by name, as in torch._C._functions."""

from __future__ import annotations

from typing import Any

from .._core.errors.messages import missing as _missing
from .._engine.entry.bind import ops
from .._engine.graph.history import edge_of, requires_grad_of
from .._engine.graph.node import AccumulateGrad as AccumulateGrad
from .._engine.graph.record import no_grad
from .._engine.memory.tensor import Tensor
from .._engine.passes.custom import PyNode
from .._engine.tensor.attributes import share

__all__ = ["AccumulateGrad", "DelayedError", "UndefinedGrad"]


class Error(PyNode):
    """Raises when a backward pass comes to it."""

    __slots__ = ("message",)
    message: str

    def name(self) -> str:
        return "torch::autograd::Error"

    def backward_tensors(self, tensors: Any) -> list[Any]:
        raise RuntimeError(self.message)


class UndefinedGradBackward(PyNode):
    """Lets no gradient through."""

    __slots__ = ()

    def name(self) -> str:
        return "torch::autograd::UndefinedGradBackward"

    def backward_tensors(self, tensors: Any) -> list[Any]:
        return [None] * len(self.edges)


for _cls in (Error, UndefinedGradBackward):
    _cls.__module__ = "builtins"  # as torch's classes of nodes; their repr shows it
    _cls.__repr__ = lambda self: f"<{type(self).__name__} object at {id(self):#x}>"  # type: ignore[method-assign]


def _checked(tensors: tuple[Any, ...]) -> None:
    for i, t in enumerate(tensors):
        if t is not None and not isinstance(t, Tensor):
            raise TypeError(f"argument {i} is not a Variable")


def _attach(node: PyNode, inputs: tuple[Any, ...], outputs: list[Any]) -> None:
    """Make `node` the one that computed `outputs` from `inputs`, recording or not."""
    if not any(t is not None and requires_grad_of(t) for t in inputs):
        return
    node.edges = tuple(edge_of(t) if t is not None and requires_grad_of(t) else None for t in inputs)
    node._ins = (True,) * len(inputs)
    node.outs = tuple(None if t is None else t._m for t in outputs)
    for nr, t in enumerate(outputs):
        if t is not None:
            t._fn, t._onr, t._rg = node, nr, True


class DelayedError:
    """Called with tensors, gives tensors on their storage whose backward raises.

    Args:
        msg: what the RuntimeError says.
        num_inputs: how many tensors it will be called with.
    """

    def __init__(self, *args: Any) -> None:
        if len(args) != 2:
            raise RuntimeError(f"Requires two arguments, got {len(args)}")
        self._message, self._count = args

    def name(self) -> str:
        """The name of the class in C++."""
        return "torch::autograd::DelayedError"

    def __call__(self, *tensors: Any) -> Any:
        if len(tensors) != self._count:
            raise TypeError(f"expected {self._count} arguments, got {len(tensors)} instead")
        _checked(tensors)
        outputs = [None if t is None else share(t, t._vc) for t in tensors]
        node = Error()
        node.message = self._message
        _attach(node, tensors, outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


class UndefinedGrad:
    """Called with a tensor, gives a copy that no gradient passes through."""

    def __init__(self, *args: Any) -> None:
        if args:
            raise RuntimeError(f"Requires zero arguments, got {len(args)}")

    def name(self) -> str:
        """The name of the class in C++."""
        return "torch::autograd::UndefinedGrad"

    def __call__(self, *tensors: Any) -> Any:
        if len(tensors) != 1:
            raise TypeError(f"expected 1 arguments, got {len(tensors)} instead")
        _checked(tensors)
        with no_grad():
            out = ops.clone(tensors[0])
        _attach(UndefinedGradBackward(), tensors, [out])
        return out


__getattr__ = _missing(__name__)
