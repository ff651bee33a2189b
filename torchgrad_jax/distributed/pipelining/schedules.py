"""Schedules: in which order the stages of a pipeline compute and differentiate the parts of a batch.

One process may have all stages. It tells each what to do next; XLA runs what it is told without being waited for, so
that stages on different devices work at the same time. Or each of several processes has some, and sends what comes out
of them to its neighbours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..._engine.entry.bind import ops
from ..._engine.memory.tensor import Tensor
from ..._functions.splitting import tensor_split
from ...autograd.grad_mode import no_grad
from ...utils import _pytree
from .. import _groups
from ._neighbours import Neighbours, in_turn, there_and_back
from .stage import PipelineStage

Action = tuple[str, int]
"""What a stage does: "F" or "B", and with which microbatch."""


class _Schedule(ABC):
    """A batch in equal parts through all stages, forward and backward."""

    _place = staticmethod(in_turn)
    """Which process has a stage."""

    def __init__(
        self,
        stage: PipelineStage | Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        stages = [stage] if isinstance(stage, PipelineStage) else list(stage)
        if any(x is not None for x in (args_chunk_spec, kwargs_chunk_spec, output_merge_spec)):
            raise NotImplementedError(
                f"{type(self).__name__}(): args_chunk_spec, kwargs_chunk_spec and output_merge_spec; tensors are "
                "split and joined along their first dimension"
            )
        self._stages = {s.stage_index: s for s in stages}
        self._count, self._group = stages[0].num_stages, stages[0].group
        self._n, self._loss_fn, self._scales = n_microbatches, loss_fn, scale_grads
        self._check_stages([s.stage_index for s in stages])

    def _check_stages(self, given: list[int]) -> None:
        """Complain unless these are all stages in their order, or those that are dealt to this process."""
        size, rank = (1, 0) if len(given) == self._count else (_size(self._group), _rank(self._group))
        wanted = [i for i in range(self._count) if self._place(i, size) == rank]
        if given != wanted:
            those = f"all {len(wanted)} stages" if size == 1 else f"the stages {wanted}"
            where = "the only process" if size == 1 else f"process {rank} of {size}"
            raise ValueError(
                f"{type(self).__name__} needs {those} of the pipeline in their order in {where}; it got {given}"
            )

    @abstractmethod
    def _actions(self, stage: int) -> list[Action]:
        """What a stage does, in order."""

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute and differentiate a batch.

        Args:
            args: what the first stage gets.
            target: what the loss gets besides an output.
            losses: a list to hold the losses of the parts.
            return_outputs: whether to return the output.
            loss_kwargs: what the loss gets besides.
            kwargs: what all stages get.

        Returns:
            The output of the last stage for the whole batch; None in a process that has not the last stage.
        """
        differentiates = self._loss_fn is not None
        if differentiates and target is None and self._has_last():
            raise ValueError(f"{type(self).__name__}.step() needs target= for its loss_fn")
        run = _Batch(self, args, kwargs, target, loss_kwargs or {})
        try:
            run.all([self._actions(i) for i in range(self._count)], differentiates)
        except BaseException:
            for stage in self._stages.values():
                stage.clear()
            raise
        if differentiates and self._scales:
            self._scale()
        return self._results(run, losses, return_outputs)

    def eval(self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any) -> Any:
        """Compute a batch without gradients.

        Args:
            args: what the first stage gets.
            target: what the loss gets besides an output; no losses are computed if None.
            losses: a list to hold the losses of the parts.
            kwargs: what all stages get.

        Returns:
            The output of the last stage for the whole batch; None in a process that has not the last stage.
        """
        with no_grad():
            run = _Batch(self, args, kwargs, target, {})
            try:
                run.all([[("F", i) for i in range(self._n)] for _ in range(self._count)], False)
            finally:
                for stage in self._stages.values():
                    stage.clear()
        return self._results(run, losses, True)

    def _has_last(self) -> bool:
        return self._count - 1 in self._stages

    def _results(self, run: _Batch, losses: list[Any] | None, return_outputs: bool) -> Any:
        if not self._has_last():
            return None
        if losses is not None:
            losses[:] = run.losses
        return run.output() if return_outputs else None

    def _scale(self) -> None:
        with no_grad():
            for stage in self._stages.values():
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
        stage: the stage of this process, or all stages of the pipeline where this process has all.
        n_microbatches: into how many parts a batch is split, along its first dimension.
        loss_fn: gets an output and the target, of one part.
        args_chunk_spec: not supported: tensors are split along their first dimension.
        kwargs_chunk_spec: not supported.
        output_merge_spec: not supported: outputs are joined along their first dimension.
        scale_grads: whether gradients are divided by the number of parts, as for a loss that is a mean.
    """

    def _actions(self, stage: int) -> list[Action]:
        ahead = min(self._n, self._count - stage)
        out: list[Action] = [("F", i) for i in range(ahead)]
        for i in range(self._n):
            out.append(("B", i))
            if ahead + i < self._n:
                out.append(("F", ahead + i))
        return out


class ScheduleLoopedBFS(ScheduleGPipe):
    """`ScheduleGPipe` where a process has several stages."""


class ScheduleInterleaved1F1B(Schedule1F1B):
    """`Schedule1F1B` where a process has several stages."""


class ScheduleInterleavedZeroBubble(ScheduleInterleaved1F1B):
    """The numbers of torch's schedule, which splits a backward pass in two.

    Differs from torch: a backward pass is one, so that processes wait as in `ScheduleInterleaved1F1B`.
    """

    def __init__(self, stages: Sequence[PipelineStage], n_microbatches: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(stages, n_microbatches, *args, **kwargs)
        rounds = max(1, n_microbatches // _size(self._group))
        if n_microbatches % rounds:
            raise ValueError(
                f"Zero bubble requires the number of microbatches to be a multiple of the number of rounds ({rounds}), "
                f"but got {n_microbatches}."
            )


class ScheduleZBVZeroBubble(Schedule1F1B):
    """Each process has one stage on the way there and one on the way back: of four, the first of two has 0 and 3.

    Differs from torch: a backward pass is one, where torch's schedule splits it in two to wait less.
    """

    _place = staticmethod(there_and_back)

    def _check_stages(self, given: list[int]) -> None:
        if len(given) not in (2, self._count):
            raise ValueError(f"ZBV requires exactly 2 stages per rank, but got {len(given)}.")
        super()._check_stages(given)


class ScheduleDualPipeV(ScheduleZBVZeroBubble):
    """The numbers of torch's schedule, with the stages and the order of `ScheduleZBVZeroBubble`."""

    def _check_stages(self, given: list[int]) -> None:
        super()._check_stages(given)
        if self._n < self._count:
            raise ValueError(
                "DualPipeV requires at least as many microbatches as stages, but got "
                f"{self._n} microbatches and {self._count} stages."
            )


_ALL: tuple[type[_Schedule], ...] = (
    Schedule1F1B,
    ScheduleInterleaved1F1B,
    ScheduleGPipe,
    ScheduleLoopedBFS,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
    ScheduleDualPipeV,
)


class _Batch:
    """One batch on its way through the stages."""

    def __init__(self, schedule: _Schedule, args: Any, kwargs: Any, target: Any, loss_kwargs: dict[str, Any]) -> None:
        self.stages, self.n = schedule._stages, schedule._n
        self.loss_fn, self.loss_kwargs = schedule._loss_fn, loss_kwargs
        has_all = len(self.stages) == schedule._count
        self.neighbours = None if has_all else Neighbours(schedule._group, schedule._place)
        first = 0 in self.stages
        self.args, self.kwargs = self._parts(args if first else ()), self._parts(kwargs)
        self.targets = self._parts(target)
        self.has_target = target is not None
        self.results: list[Any] = [None] * self.n
        self.losses: list[Any] = []
        self.ready: dict[tuple[str, int, int], Any] = {("F", 0, i): part for i, part in enumerate(self.args)}
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
        """Let each stage of this process go through its plan, in an order that is the same in all processes."""
        plans = [[a for a in plan if differentiates or a[0] == "F"] for plan in plans]
        for index, (kind, number) in in_order(plans):
            if index not in self.stages:
                continue
            if kind == "F":
                self._forward(index, number, self._given(kind, index, number), differentiates)
            else:
                self._backward(index, number, self._given(kind, index, number))

    def _given(self, kind: str, index: int, number: int) -> Any:
        """Return what a stage goes on with, from here or from the process that has its neighbour."""
        key = (kind, index, number)
        if key in self.ready:
            return self.ready.pop(key)
        assert self.neighbours is not None, "a stage goes on before its neighbour"
        return self.neighbours.take(*key)

    def _give(self, kind: str, index: int, number: int, row: tuple[Any, ...]) -> None:
        if self.neighbours is None or self.neighbours.has(index):
            self.ready[kind, index, number] = row
        else:
            self.neighbours.send(kind, index, number, row)

    def _forward(self, index: int, number: int, given: tuple[Any, ...], differentiates: bool) -> None:
        stage = self.stages[index]
        out = stage.forward(number, given, self.kwargs[number])
        if not stage.is_last:
            self._give("F", index + 1, number, tuple(out) if isinstance(out, tuple | list) else (out,))
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
        return _pytree.tree_map(lambda x: stage.moved(x.detach()) if isinstance(x, Tensor) else x, self.targets[number])

    def _backward(self, index: int, number: int, given: Any) -> None:
        gradients = self.stages[index].backward(number, given)
        if index:
            self._give("B", index - 1, number, gradients)

    def output(self) -> Any:
        """Return what came out for the whole batch."""
        rows = [_pytree.tree_flatten(out) for out in self.results]
        joined = [ops.cat(list(column)) for column in zip(*(leaves for leaves, _ in rows), strict=True)]
        return _pytree.tree_unflatten(joined, rows[0][1])


def in_order(plans: list[list[Action]]) -> Iterator[tuple[int, Action]]:
    """All actions of the plans of all stages, each after what it needs.

    Stages go on together. The last one that can is the first to do so: it frees memory.
    """
    places = [0] * len(plans)
    done: set[tuple[str, int, int]] = set()
    while True:
        following = [(i, plan[places[i]]) for i, plan in enumerate(plans) if places[i] < len(plan)]
        able = [i for i, action in following if _is_able(i, action, len(plans), done)]
        if not able:
            break
        for i in reversed(able):
            kind, number = plans[i][places[i]]
            places[i] += 1
            done.add((kind, i, number))
            yield i, (kind, number)
    assert all(n == len(plan) for n, plan in zip(places, plans, strict=True)), "plans wait for each other"


def _is_able(stage: int, action: Action, stages: int, done: set[tuple[str, int, int]]) -> bool:
    kind, number = action
    if kind == "F":
        return stage == 0 or ("F", stage - 1, number) in done
    before = ("F", stage, number) if stage == stages - 1 else ("B", stage + 1, number)
    return before in done


def _size(group: Any) -> int:
    return _groups.get_world_size(group) if _groups.is_initialized() else 1


def _rank(group: Any) -> int:
    return _groups.get_rank(group) if _groups.is_initialized() else 0


def get_schedule_class(schedule_name: str) -> type[_Schedule]:
    """The schedule with a name, such as "1F1B"; upper and lower case are the same.

    Raises:
        ValueError: there is none with it.
    """
    named = {kind.__name__.removeprefix("Schedule"): kind for kind in _ALL}
    found = {name.lower(): kind for name, kind in named.items()}.get(schedule_name.lower())
    if found is None:
        raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(named)}")
    return found
