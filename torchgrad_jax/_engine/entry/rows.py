"""The functions of a row: ``add``, ``Tensor.add_``, ``Tensor.__radd__``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.errors.messages import LinAlgError
from ..._ops import registry as reg
from ..graph.inplace import apply_inplace
from ..graph.record import NUMBERS, apply
from ..graph.views import apply_view, apply_view_inplace
from ..memory.tensor import Tensor, wrap_beside
from ..modes.belonging import tensor_of_jax
from ..run.row_calls import inplace_view
from .arguments import EMPTY, MISSING, NUMPY_NAMES, bad_argument, tensor_of
from .binding import Binding
from .enter import Form
from .parser import NUMBERS_AS_TENSORS, by_overload, no_tensor, torch_complaint


def spreading(b: Binding) -> reg.Param | None:
    """The size that may come as so many arguments: one that comes last."""
    plain = [p for p in b.params if not p.kwonly]
    last = next((p for p in plain if p.kind is reg.Size and p.default is EMPTY), None)
    return last if last is not None and last is plain[-1] else None


class RowForm(Form):
    """A function of a row: it writes its result into the first argument, or is an operator, or neither.

    Its arguments are a tuple of all parameters, in the row's order.
    """

    __slots__ = ("binding", "inplace", "operator", "spread")

    def __init__(
        self, b: Binding, said: str, inplace: bool, operator: bool, spread: bool, where: str | None, overridable: bool
    ) -> None:
        self.binding, self.row, self.said, self.where, self.out = b, b.row, said, where, b.row.out
        self.overridable = overridable
        self.inplace, self.operator, self.spread = inplace, operator, spreading(b) if spread else None

    @property
    def method(self) -> bool:
        """Whether this is a method of Tensor."""
        return self.where is not None and self.where.startswith("Tensor.")

    # --- what it does

    def answer(self, args: Any, kwargs: Any) -> Any:
        """Find the call of the row and run it; `kwargs` are none."""
        b, row = self.binding, self.binding.row
        if self.operator and (args := self._operands(args)) is NotImplemented:
            return args
        if self.inplace:
            if not isinstance(args[0], Tensor):
                raise bad_argument(f"{b.public}_", b.params[0], 1, args[0])
            call, leaves = b.general(args)
            return apply_view_inplace(inplace_view(call), leaves) if row.view else apply_inplace(call, leaves)
        if not self.method and self.said in NUMBERS_AS_TENSORS and all(a.__class__ in NUMBERS for a in args[:2]):
            args = (tensor_of(args[0]), *args[1:])
        call, leaves = b.general(args)
        if not row.view:
            return apply(call, leaves)
        out = apply_view(call, leaves)
        b.remember(call, leaves, args)
        return out

    def _operands(self, args: Sequence[Any]) -> Any:
        """The operands, arrays as tensors; NotImplemented if one is somebody else's business."""
        if not isinstance(args[0], Tensor):
            raise no_tensor(self.said, args[0])
        for a in args[1:2]:
            if isinstance(a, jax.Array):
                return (args[0], tensor_of_jax(a, args[0]), *args[2:])
            if isinstance(a, np.ndarray) and self.said == "__eq__":  # Python would compare identities
                return (args[0], wrap_beside(jnp.asarray(a), args[0]._m.device), *args[2:])
            foreign = not isinstance(a, (Tensor, *NUMBERS, np.generic, list, tuple)) and a is not None
            if foreign and not hasattr(type(a), "__torch_function__"):
                return NotImplemented
            if isinstance(a, list | tuple | type(None)) and self.binding.params[1].kind is reg.Array:
                return NotImplemented
        return args

    # --- which argument is which

    def named(self, args: Any, kwargs: Any, more: Any, out: Any) -> tuple[Any, Any, Any]:
        """All parameters, of which some came under numpy's names, or in the order of another overload."""
        params = self.binding.params
        if more:
            return self._by_overload(args, kwargs, more, out)
        found: dict[str, Any] = dict(zip([p.name for p in params], args))
        default = {p.name: p.default for p in params}
        for k, v in kwargs.items():
            name = NUMPY_NAMES.get(k, k)
            taken = name in found and found[name] is not MISSING and found[name] is not default[name]
            if name not in found or taken or (v is None and name in self.binding.row.numbers.left_out):
                self._refuse(*self._given(args, kwargs, out), f"got an unexpected keyword argument '{k}'")
            found[name] = v
        return tuple(found.values()), {}, out

    def _by_overload(self, args: Any, kwargs: Any, more: Any, out: Any) -> tuple[Any, Any, Any]:
        """All parameters, by the overload of torch's that takes so many arguments."""
        params, positional = self.binding.params, [p for p in self.binding.params if not p.kwonly]
        _, named = self._given([p.default for p in positional] + list(args[len(positional) :]), kwargs, out)
        given = [*args[: len(positional)], *more]
        found = self.where and by_overload(self.where, self.said, given[self.method :], named)
        if self.method and found:
            found = {params[0].name: given[0], **found}
        names = {p.name for p in params}
        if not found or not names.issuperset({*found} - {"out"}):
            plural = "" if len(positional) == 1 else "s"
            takes = f"takes {len(positional)} positional argument{plural} but {len(given)} were given"
            self._refuse(given, named, takes)
        default = (MISSING if p.default is EMPTY else p.default for p in params)
        return tuple(found.get(p.name, d) for p, d in zip(params, default)), {}, found.get("out")

    def _refuse(self, positional: Any, named: Any, otherwise: str) -> NoReturn:
        # Under a name, the error would keep this frame, which its traceback leads to, and all tensors of the call.
        raise (self.where and torch_complaint(self.where, self.said, positional, named)) or TypeError(
            f"{self.said}() {otherwise}"
        )

    def given(self, args: Any, kwargs: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """The arguments by position and by name; those that are their default count as left out."""
        return self._given(args, kwargs, None)

    def _given(self, args: Any, kwargs: Any, out: Any) -> tuple[list[Any], dict[str, Any]]:
        named, positional, params = {}, [], self.binding.params
        there = [value is not MISSING and value is not p.default for p, value in zip(params, args)]
        last = max((i for i, p in enumerate(params) if there[i] and not p.kwonly), default=-1)
        by_name = False
        for i, (p, value) in enumerate(zip(params, args)):
            by_name |= p.kwonly or value is MISSING  # arguments after a missing one came by name
            if by_name and there[i]:
                named[p.name] = value
            elif not by_name and i <= last:
                spread = p is self.spread and self.method and isinstance(value, list | tuple) and value
                positional += value if spread else [value]
        named |= {**kwargs, **({} if out is None else {"out": out})}
        following = params[len(positional)] if len(positional) < len(params) else None
        if following is not None and not following.kwonly and following.name in kwargs:
            positional.append(named.pop(following.name))  # None, where something else was expected
        return positional, named

    def into(self, target: Any, args: Any, kwargs: Any) -> tuple[reg.Out, Any, Any]:
        """What may be written into the tensor `target`, and the arguments of the call that computes it."""
        rule: Any = self.out
        if rule is True:
            rule = reg.Out.CAST if reg.Layout.steps(self.binding.row.layout) else reg.Out.EXACT
        at = self.binding.position.get("dtype", 0) - 1
        if at >= 0 and args[at] is not None:
            rule = reg.Out.EXACT
        elif rule is reg.Out.COMPUTED and at >= 0:
            args = (*args[:at], target._m.dtype, *args[at + 1 :])
        return rule, args, kwargs

    def complain_instead(self, args: Any, kwargs: Any, error: Exception) -> None:
        """Raise what torch says of the arguments, unless the error is about the values of a matrix."""
        if not isinstance(error, LinAlgError):
            self.complain(*self.given(args, kwargs))
