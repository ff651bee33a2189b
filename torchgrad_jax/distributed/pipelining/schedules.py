"""Schedules: in which order the stages of a pipeline compute and differentiate the parts of a batch.

One process has all stages and tells each what to do next; XLA runs what it is told without being waited for, so that
stages on different devices work at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..._engine.bind import ops
from ..._engine.tensor import Tensor
from ..._functions.splitting import tensor_split
from ...autograd.grad_mode import no_grad
from ...utils import _pytree
from .stage import PipelineStage

Action = tuple[str, int]
"""What a stage does: "F" or "B", and with which microbatch."""


class _Schedule(ABC):
    """A batch in equal parts through all stages, forward and backward."""

    def __init__(
        self, stage: PipelineStage | Sequence[PipelineStage], n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None, args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None, scale_grads: bool = True,
    ) -> None:  # fmt: skip
        stages = [stage] if isinstance(stage, PipelineStage) else list(stage)
        wanted = list(range(stages[0].num_stages))
        if [s.stage_index for s in stages] != wanted:
            raise ValueError(
                f"{type(self).__name__} needs all {len(wanted)} stages of the pipeline in their order, as all are of "
                f"this process; it got {[s.stage_index for s in stages]}"
            )
        if any(x is not None for x in (args_chunk_spec, kwargs_chunk_spec, output_merge_spec)):
            raise NotImplementedError(
                f"{type(self).__name__}(): args_chunk_spec, kwargs_chunk_spec and output_merge_spec; tensors are "
                "split and joined along their first dimension"
            )
        self._stages, self._n = stages, n_microbatches
        self._loss_fn, self._scales = loss_fn, scale_grads

    @abstractmethod
    def _actions(self, stage: int) -> list[Action]:
        """What a stage does, in order."""

    def step(
        self, *args: Any, target: Any = None, losses: list[Any] | None = None, return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Compute and differentiate a batch.

        Args:
            args: what the first stage gets.
            target: what the loss gets besides an output.
            losses: a list to hold the losses of the parts.
            return_outputs: whether to return the output.
            loss_kwargs: what the loss gets besides.
            kwargs: what all stages get.

        Returns:
            The output of the last stage for the whole batch.
        """
        differentiates = self._loss_fn is not None
        if differentiates and target is None:
            raise ValueError(f"{type(self).__name__}.step() needs target= for its loss_fn")
        run = _Batch(self, args, kwargs, target, loss_kwargs or {})
        try:
            run.all([self._actions(i) for i in range(len(self._stages))], differentiates)
        except BaseException:
            for stage in self._stages:
                stage.clear()
            raise
        if differentiates and self._scales:
            self._scale()
        if losses is not None:
            losses[:] = run.losses
        return run.output() if return_outputs else None

    def eval(
        self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any
    ) -> Any:
        """Compute a batch without gradients.

        Args:
            args: what the first stage gets.
            target: what the loss gets besides an output; no losses are computed if None.
            losses: a list to hold the losses of the parts.
            kwargs: what all stages get.

        Returns:
            The output of the last stage for the whole batch.
        """
        with no_grad():
            run = _Batch(self, args, kwargs, target, {})
            try:
                run.all([[("F", i) for i in range(self._n)] for _ in self._stages], False)
            finally:
                for stage in self._stages:
                    stage.clear()
        if losses is not None:
            losses[:] = run.losses
        return run.output()

    def _scale(self) -> None:
        with no_grad():
            for stage in self._stages:
                for p in stage.submod.parameters():
                    if p.grad is not None:
                        p.grad.div_(self._n)


class ScheduleGPipe(_Schedule):
    """All parts forward, then all backward; see `Schedule1F1B` for the arguments."""

    def _actions(self, stage: int) -> list[Action]:
        return [(kind, i) for kind in "FB" for i in range(self._n)]


class Schedule1F1B(_Schedule):
    """As soon as it can, a stage does one part backward after each forward, and so keeps few of them in memory.

    Args:
        stage: all stages of the pipeline, or the only one.
        n_microbatches: into how many parts a batch is split, along its first dimension.
        loss_fn: gets an output and the target, of one part.
        args_chunk_spec: not supported: tensors are split along their first dimension.
        kwargs_chunk_spec: not supported.
        output_merge_spec: not supported: outputs are joined along their first dimension.
        scale_grads: whether gradients are divided by the number of parts, as for a loss that is a mean.
    """

    def _actions(self, stage: int) -> list[Action]:
        ahead = min(self._n, len(self._stages) - stage)
        out: list[Action] = [("F", i) for i in range(ahead)]
        for i in range(self._n):
            out.append(("B", i))
            if ahead + i < self._n:
                out.append(("F", ahead + i))
        return out


class _Batch:
    """One batch on its way through the stages."""

    def __init__(
        self, schedule: _Schedule, args: Any, kwargs: Any, target: Any, loss_kwargs: dict[str, Any]
    ) -> None:
        self.stages, self.n = schedule._stages, schedule._n
        self.loss_fn, self.loss_kwargs = schedule._loss_fn, loss_kwargs
        self.args, self.kwargs = self._parts(args), self._parts(kwargs)
        self.targets = self._parts(target)
        self.has_target = target is not None
        self.results: list[Any] = [None] * self.n
        self.losses: list[Any] = []
        self.ready: dict[tuple[str, int, int], Any] = {
            ("F", 0, i): part for i, part in enumerate(self.args)
        }
        """What is there for a stage to go on with, for each kind of action, stage and microbatch."""

    def _parts(self, tree: Any) -> list[Any]:
        """A batch in equal parts."""
        leaves, spec = _pytree.tree_flatten(tree)
        for x in leaves:
            size: Any = x.shape[0] if isinstance(x, Tensor) else self.n
            if size < self.n:
                raise AssertionError(f"Tensor size {size} is smaller than num_chunks")
        rows = [tensor_split(x, self.n) if isinstance(x, Tensor) else (x,) * self.n for x in leaves]
        return [_pytree.tree_unflatten([row[i] for row in rows], spec) for i in range(self.n)]

    def all(self, plans: list[list[Action]], differentiates: bool) -> None:
        """Let each stage go on with its plan whenever what it needs is there."""
        left = [iter([a for a in plan if differentiates or a[0] == "F"]) for plan in plans]
        following = [next(plan, None) for plan in left]
        while any(following):
            for index in self._able(following):
                kind, number = following[index]  # type: ignore[misc]
                given = self.ready.pop((kind, index, number))
                if kind == "F":
                    self._forward(index, number, given, differentiates)
                else:
                    self._backward(index, number, given)
                following[index] = next(left[index], None)

    def _able(self, following: list[Action | None]) -> Iterator[int]:
        """The stages whose next action has what it needs, the last one first: it frees memory."""
        able = [
            i for i, a in enumerate(following) if a is not None and (a[0], i, a[1]) in self.ready
        ]
        assert able, "each plan waits for another"
        return reversed(able)

    def _forward(
        self, index: int, number: int, given: tuple[Any, ...], differentiates: bool
    ) -> None:
        stage = self.stages[index]
        out = stage.forward(number, given, self.kwargs[number])
        if not stage.is_last:
            self.ready["F", index + 1, number] = out if isinstance(out, tuple) else (out,)
            return
        self.results[number] = out
        if self.loss_fn is not None and self.has_target:
            target = self._target(stage, number)
            loss = self.loss_fn(out, target, **self.loss_kwargs)
            self.losses.append(loss)
            stage.outputs[number] = loss
        if differentiates:
            self.ready["B", index, number] = None

    def _target(self, stage: PipelineStage, number: int) -> Any:
        return _pytree.tree_map(
            lambda x: stage.moved(x.detach()) if isinstance(x, Tensor) else x, self.targets[number]
        )

    def _backward(self, index: int, number: int, given: Any) -> None:
        gradients = self.stages[index].backward(number, given)
        if index:
            self.ready["B", index - 1, number] = gradients

    def output(self) -> Any:
        """What came out for the whole batch."""
        rows = [_pytree.tree_flatten(out) for out in self.results]
        joined = [
            ops.cat(list(column)) for column in zip(*(leaves for leaves, _ in rows), strict=True)
        ]
        return _pytree.tree_unflatten(joined, rows[0][1])
