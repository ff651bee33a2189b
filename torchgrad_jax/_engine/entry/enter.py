"""`enter`: the way in for every call that a function's own code does not answer.

``x.gather(1, i)`` comes here when it is called with new arguments, and ``x.sum(axis=0)`` because of NumPy's name. There
are two forms of functions: those of a row (`rows.RowForm`), and those that are made of others (`composite.Composed`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jax.sharding import Mesh, NamedSharding, Sharding

from ..._core.arrays.placement import MANY
from ..._core.errors.messages import MESHES
from ..._core.errors.tracebacks import end_at_call
from ..._ops.registry import OpDef, Out
from ..memory.strided import placement_of_tensor
from ..memory.tensor import tensors_in
from ..overrides.looking import begin, foreign
from .out import write_out
from .parser import raise_if_any, torch_complaint

NO_NAMES: Mapping[str, Any] = MappingProxyType({})


class Form(ABC):
    """What a public function does with its arguments, and how it is called in messages."""

    __slots__ = ("out", "overridable", "row", "said", "where")
    out: bool | Out
    """Whether it takes ``out=``, and what may be written there."""
    overridable: bool
    """Whether `__torch_function__` may answer for it."""
    row: OpDef | None
    """The row of the table, if the function is one of a row."""
    said: str
    """The name in messages."""
    where: str | None
    """The full name by which torch's overloads are known, such as `Tensor.add`."""

    @abstractmethod
    def named(self, args: Any, kwargs: Any, more: Any, out: Any) -> tuple[Any, Any, Any]:
        """Arguments, arguments by name and `out`, where some came under other names or in other places."""

    @abstractmethod
    def answer(self, args: Any, kwargs: Any) -> Any:
        """Do what the function does."""

    def given(self, args: Any, kwargs: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """The arguments as the caller gave them, as far as that is known."""
        return args, dict(kwargs)

    def explain(self, args: Any, kwargs: Any, error: Exception) -> None:
        """Raise what torch says of the arguments, if it does; the traceback of another error ends at the call."""
        self.complain_instead(args, kwargs, error)
        end_at_call(error)

    def complain_instead(self, args: Any, kwargs: Any, error: Exception) -> None:
        """Raise what torch says of the arguments, if the error is about them."""
        self.complain(*self.given(args, kwargs))

    def complain(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise what torch says of these arguments, if it does."""
        if MANY:
            raise_if_any(_of_meshes(self.said, (*args, *kwargs.values())))
        spread = any(isinstance(a, Sharding) for a in (*args, *kwargs.values()))  # torch has no such argument
        if self.where and not spread:
            raise_if_any(torch_complaint(self.where, self.said, args, kwargs))

    def into(self, target: Any, args: Any, kwargs: Any) -> tuple[Out, Any, Any]:
        """What may be written into the tensor `target`, and the arguments of the call that computes it."""
        return Out.EXACT if self.out is True else Out(self.out), args, kwargs


def _of_meshes(name: str, args: Sequence[Any]) -> RuntimeError | None:
    """A complaint about tensors over two meshes: JAX lists the arguments of its kernel, or has none if both have the
    same devices in the same order."""
    found = [placement_of_tensor(t) for t in tensors_in(args)]
    meshes = [there.mesh for there in found if isinstance(there, NamedSharding) and isinstance(there.mesh, Mesh)]
    for other in meshes:
        if other != meshes[0]:
            return RuntimeError(MESHES.format(name=name, one=_text_of_mesh(meshes[0]), other=_text_of_mesh(other)))
    return None


def _text_of_mesh(mesh: Mesh) -> str:
    sizes = ", ".join(f"{name}={n}" for name, n in mesh.shape.items())
    return f"({sizes}) over the devices {[d.id for d in mesh.devices.flat]}"


def enter(me: Any, args: Any, kwargs: Any = NO_NAMES, more: Any = (), out: Any = None) -> Any:
    """Answer a call of the public function `me`, whatever its arguments are.

    Of a function of a row `args` are all parameters in the row's order, and `kwargs` and `more` what did not fit in.
    """
    form: Form = me.form
    if kwargs or more:
        args, kwargs, out = form.named(args, kwargs, more, out)
    if form.overridable and foreign((*args, *kwargs.values())):
        return begin(me, *form.given(args, kwargs if out is None else {**kwargs, "out": out}))
    try:
        return form.answer(args, kwargs) if out is None else write_out(form, args, kwargs, out)
    except Exception as error:
        form.explain(args, kwargs if out is None else {**kwargs, "out": out}, error)
        raise
