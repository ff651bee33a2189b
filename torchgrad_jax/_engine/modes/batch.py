"""What a run of `vmap` is over: how many examples, what was given for all of them, and how they lie in memory.

torch computes for the whole batch, so that strides of results follow from those of the batch: with ``in_dims=1`` the
examples of a batch of shape (3, 2) begin 1 element apart, and ``x * 2`` leaves them so. Inside of a run there is only
the tensor of one example; what is noted here says how the others lie around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..._core.arrays import shapes
from ..._core.arrays.meta import Meta, meta
from ..._ops.registry import Layout
from ..graph.history import requires_grad_of
from ..memory.derivative_stops import storage_behind
from ..memory.strided import is_direct
from ..memory.tensor import Tensor, is_plain

_MARK = -(1 << 40)
"""The first of the strides by which dimensions are told apart."""


class Move(NamedTuple):
    """What a function such as `transpose_` does to the dimensions of an example."""

    kept: tuple[int | None, ...]
    """Per dimension that comes out, which one it was; None for a new one."""
    before: int

    @classmethod
    def of(cls, call: Any, m: Meta, leaves: Sequence[Any]) -> Move:
        """What a call does to a tensor: strides that are all different tell where its dimensions go.

        A new dimension has the stride of the one behind it times its size: another one than any of these, or the same.
        """
        marks = tuple(range(_MARK, _MARK + m.ndim))
        out = call.geometry(meta(m.shape, m.dtype, m.device, marks), leaves).strides
        kept = [marks.index(s) if s in marks and s not in out[i + 1 :] else None for i, s in enumerate(out)]
        return cls(tuple(kept), m.ndim)

    def place(self, at: int) -> int:
        """Where the batch's dimension is afterwards that stood before dimension `at` of the example."""
        gone = sum(d not in self.kept for d in range(at))
        new = sum(d is None for d in self.kept[: at - gone])
        return at - gone + new

    def do(self, whole: Tensor, at: int) -> None:
        """Move the dimensions of the whole batch, whose own dimension is `at`, as those of an example were moved."""
        added = [i for i, d in enumerate(self.kept) if d is None]
        gone = [d for d in range(self.before) if d not in self.kept]
        swapped = [i for i, d in enumerate(self.kept) if d != i]
        if added:
            whole.unsqueeze_(*[d + (d >= at) for d in added])
        elif gone or not swapped:
            whole.squeeze_(tuple([d + (d >= at) for d in gone]))
        else:
            whole.transpose_(*[d + (d >= at) for d in swapped])


class Batch:
    """The examples that a run of `vmap` is over."""

    __slots__ = ("entered", "example_strides", "inputs", "moves", "origins", "own_leaves", "size", "whole")

    def __init__(self, size: int, inputs: Sequence[Tensor], whole: Callable[[Any, Sequence[Tensor]], Any]) -> None:
        self.size = size
        self.inputs = inputs
        """The outside tensors that the run is over."""
        self.whole = whole
        """Gives tensors of a run for all examples, outside of it."""
        self.own_leaves = False
        """Whether the function made variables of its own by `requires_grad_`."""
        self.entered: dict[int, tuple[Any, Tensor]] = {}
        """Captured tensors with a row per example, by the identity of what stands for a row."""
        self.origins: dict[int, tuple[Any, Tensor, int, Tensor]] = {}
        """By the identity of the storage of an example: what it held at first, what was given for all examples and
        along which dimension, and the tensor of one."""
        self.example_strides: dict[int, tuple[Any, int, int]] = {}
        """By the identity of a storage whose examples do not lie one after the other: the storage, how many elements
        apart they begin, and where the batch's dimension stands among the others."""
        self.moves: dict[int, tuple[Tensor, list[Move]]] = {}
        """By identity: the tensor of an example, and how its dimensions were moved in place."""

    # --- what was given for all examples
    def begin(self, t: Tensor, whole: Tensor, dim: int) -> None:
        """Let a new tensor be the example of `whole`, whose dimension `dim` counts the examples."""
        self.origins[id(t._st)] = t._st.array, whole, dim, t
        self.moves[id(t)] = t, []
        if dim or not whole._m.contiguous:
            self.record_example_stride(t, whole._m.strides[dim], dim)

    def origin_of(self, t: Tensor) -> tuple[Tensor, int] | None:
        """The tensor, and its dimension, that `t` is the unchanged example of; else None."""
        origin = self.origins.get(id(t._st))
        if origin is None or t._st.array is not origin[0] or not is_direct(t) or not is_plain(t):
            return None
        _, whole, dim, _ = origin
        return None if requires_grad_of(whole) is not requires_grad_of(t) else (whole, dim)

    def given_as(self, t: Tensor) -> tuple[Any, Tensor, int, Tensor] | None:
        """For a tensor on the memory of an example: what that held, what was given for all, the dimension, the
        example."""
        return self.origins.get(id(storage_behind(t)))

    def row_of(self, t: Tensor) -> Tensor | None:
        """The outside tensor with a row per example that `t` is a row of, unchanged; else None."""
        _, whole = self.entered.get(id(t._st.array), (None, None))
        if whole is None or not is_direct(t) or (requires_grad_of(whole) and not requires_grad_of(t)):
            return None
        return whole

    def check_not_given(self, t: Tensor, name: str) -> None:
        """Complain about a write to the memory of what was given for all examples: their values are fixed."""
        if any(storage_behind(v) is storage_behind(t) for v in self.inputs):
            raise RuntimeError(
                f"vmap: {name} writes to the memory of a tensor that is being mapped over, from inside of "
                "the function that maps over it. Write to the example that the function was given, or to a clone."
            )

    # --- how the examples lie in memory
    def record_example_stride(self, t: Tensor, step: int, place: int = 0) -> None:
        """Note that examples of the batch that `t` is one of begin `step` elements apart.

        `place` is where its dimension stands among the others for torch, which matters where elements share memory.
        """
        m = t._m
        shape, strides = _inserted(m.shape, place, self.size), _inserted(m.strides, place, step)
        if place or shapes.preserve_strides(shape, strides)[0] != m.numel:
            self.example_strides[id(storage_behind(t))] = (storage_behind(t), step, place)

    def record_move(self, me: Tensor, call: Any, leaves: Sequence[Any]) -> None:
        """Note that dimensions of the tensor of an example are about to be moved, removed or added in place."""
        moved = self.moves.get(id(me))
        if moved is None:
            return
        move = Move.of(call, me._m, leaves)
        moved[1].append(move)
        if (at := self.example_strides.get(id(storage_behind(me)))) is not None:
            self.example_strides[id(storage_behind(me))] = (*at[:2], move.place(at[2]))

    def moves_of(self, t: Tensor) -> Sequence[Move]:
        """Return what happened to the dimensions of the tensor of an example, in order."""
        return self.moves[id(t)][1] if id(t) in self.moves else ()

    def batch_meta(self, t: Tensor) -> Meta:
        """Meta of the batch that `t`, which is no view, is one example of."""
        m, at = t._m, self.example_strides.get(id(storage_behind(t)))
        shape, strides = (self.size, *m.shape), (m.numel if at is None else at[1], *m.strides)
        if not shapes.is_dense(shape, strides):
            strides = shapes.contiguous_strides(shape)
        return meta(shape, m.dtype, m.device, strides)

    def memory_meta(self, t: Tensor) -> Meta:
        """Meta of the batch that `t` is one example of, as it lies in memory; `t` may be a view."""
        shape, strides = self._in_batch(t, t._m.ndim, 0)
        return meta(shape, t._m.dtype, t._m.device, strides)

    def lay_out(
        self, call: Any, leaves: Sequence[Any], outs: Sequence[Tensor], inside: Callable[[Tensor], bool]
    ) -> None:
        """Let the results of an elementwise operator lie as torch's, which computes them for the whole batch.

        `inside` tells the leaves that are examples from those that come from outside.
        """
        if not self.example_strides:
            return
        given = [v for v in leaves if isinstance(v, Tensor)]
        elementwise = Layout.steps(call.row.layout)
        if not (elementwise or call.row.layout is Layout.PRESERVE):
            return
        if any(id(storage_behind(v)) in self.example_strides for v in given):
            # torch leaves the batch where it is for functions of one tensor, and moves it to the front for others.
            alone = sum(v is not None for v in leaves) == 1 and (elementwise or call.row.kernel.copies)
            for t in outs:
                self._lay_out_as(t, given, elementwise, alone, inside)

    def lay_out_like(self, model: Tensor, t: Tensor) -> None:
        """Let a new tensor of the shape of `model` lie as a batch of such would in torch."""
        if self.example_strides:
            self._lay_out_as(t, [model], elementwise=False, alone=True, inside=lambda _: True)

    def _lay_out_as(
        self, t: Tensor, given: Sequence[Tensor], elementwise: bool, alone: bool, inside: Callable[[Tensor], bool]
    ) -> None:
        """Let a new tensor lie as what comes from these, or from the first of them, would for the whole batch."""
        m, first = t._m, given[0]
        if not elementwise and (first._m.shape != m.shape or not inside(first)):
            return
        at = self.example_strides.get(id(storage_behind(first))) if alone and first._al is None else None
        place = 0 if at is None else at[2]
        operands = [self._in_batch(v, m.ndim, place) if inside(v) else (v._m.shape, v._m.strides) for v in given]
        shape = _inserted(m.shape, place, self.size)
        if elementwise:
            strides = list(shapes.elementwise_strides(shape, operands))
        else:
            strides = list(shapes.preserve_strides(*operands[0]))
        step = strides.pop(place)
        t._m = t._st.meta = meta(m.shape, m.dtype, m.device, tuple(strides))
        self.record_example_stride(t, step, place)

    def _in_batch(self, t: Tensor, ndim: int, place: int) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Shape and strides of what an operator reads for all examples where it reads one."""
        m, at = t._m, self.example_strides.get(id(storage_behind(t)))
        step = t._st.meta.extent if at is None else at[1]
        pad = (1,) * (ndim - m.ndim)
        shape, strides = (*pad, *m.shape), (*pad, *m.strides)
        return _inserted(shape, place, self.size), _inserted(strides, place, step)


def _inserted(numbers: tuple[int, ...], place: int, number: int) -> tuple[int, ...]:
    return (*numbers[:place], number, *numbers[place:])
