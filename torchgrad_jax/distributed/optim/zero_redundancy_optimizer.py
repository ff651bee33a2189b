"""ZeroRedundancyOptimizer: an optimizer whose state is split over processes.

With two processes and Adam, each process has the averages of about half of the elements: it makes the step of its own
parameters, and sends them to the other process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..._engine.memory.tensor import Tensor
from ...optim.optimizer import Optimizer
from .._collectives import spread
from .._groups import get_global_rank, member_of
from .._objects import gather_object

Groups = list[dict[str, Any]]
_EMPTY = "ZeroRedundancyOptimizer got an empty parameter list"
_NO_KEY = "Each parameter group passed-in via `params` must have a 'params' key mapping to the parameters in the group"
_NOT_GATHERED = (
    "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to={})` on all ranks "
    "beforehand if you meant to save the global state."
)


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer of which each process makes the steps, and keeps the state, of some parameters.

    The largest parameter goes to rank 0, and each further one to the process that has the fewest elements so far.

    Args:
        params: tensors, or dicts of them with options; the same in all processes.
        optimizer_class: makes the steps.
        process_group: which processes; all of them if it is None.
        parameters_as_bucket_view: must be False.
        overlap_with_ddp: must be False.
        defaults: options of `optimizer_class`.

    Raises:
        ValueError: there are no parameters, or `torch.distributed.init_process_group` has not been called.
        TypeError: the parameters are neither all tensors nor all dicts.
        NotImplementedError: an option is set that is not implemented.
    """

    functional_optim_map: ClassVar[dict[Any, Any]] = {}

    def __init__(
        self,
        params: Any,
        optimizer_class: Any,
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        listed = _checked(params)
        for name, on in (
            ("parameters_as_bucket_view", parameters_as_bucket_view),
            ("overlap_with_ddp", overlap_with_ddp),
        ):
            if on:
                raise NotImplementedError(f"torch.distributed.optim.ZeroRedundancyOptimizer with {name}")
        self.process_group = member_of(process_group)
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self._sizes, self._shares = [0] * self.world_size, list[list[list[Tensor]]]()
        self._gathered: list[dict[str, Any]] = []
        self.initialized = False
        super().__init__(listed, defaults)
        self.optim: Optimizer = optimizer_class(list(map(self._own, self.param_groups)), **defaults)
        _copy_options(self.optim.param_groups, self.param_groups)
        self.initialized = True

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize further parameters; all processes call this.

        Args:
            param_group: ``"params"`` and options.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        self._shares.append(self._shared_out(group["params"]))
        if self.initialized:
            _copy_options(self.param_groups, self.optim.param_groups)
            self.optim.add_param_group(self._own(group))
            _copy_options(self.optim.param_groups, self.param_groups)

    def _shared_out(self, params: Sequence[Tensor]) -> list[list[Tensor]]:
        """Return which parameters of a group each process has."""
        shares: list[list[Tensor]] = [[] for _ in range(self.world_size)]
        for p in sorted(params, key=lambda p: p.numel(), reverse=True):
            rank = self._sizes.index(min(self._sizes))
            shares[rank].append(p)
            self._sizes[rank] += p.numel()
        return shares

    def _own(self, group: dict[str, Any]) -> dict[str, Any]:
        number = next(i for i, g in enumerate(self.param_groups) if g is group)
        return {**group, "params": list(self._shares[number][self.rank])}

    def step(self, closure: Any = None, **kwargs: Any) -> Any:
        """Make the steps of this process's parameters, and get the others from their processes.

        Args:
            closure: computes the loss again, gradients included, and returns it.
            kwargs: for the `step` of the optimizer.
        """
        _copy_options(self.param_groups, self.optim.param_groups)
        given = {} if closure is None else {"closure": closure}
        loss = self.optim.step(**given, **kwargs)
        _copy_options(self.optim.param_groups, self.param_groups)
        for rank in range(self.world_size):
            own = [p for shares in self._shares for p in shares[rank]]
            spread(self.process_group, own, rank, "a step")
        return loss

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all processes to one of them, where `state_dict` gives it; all processes call this.

        Args:
            to: the rank of that process.
        """
        _copy_options(self.param_groups, self.optim.param_groups)
        found: list[Any] = [None] * self.world_size
        there = get_global_rank(self.process_group, to)
        mine = self.rank == to
        gather_object(self.optim.state_dict(), found if mine else None, there, self.process_group)
        self._gathered = found if mine else []

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters, as it was when `consolidate_state_dict` brought it here.

        Raises:
            RuntimeError: it has not.
        """
        if not self._gathered:
            raise RuntimeError(_NOT_GATHERED.format(self.rank))
        out = super().state_dict()
        numbers = self._numbers()
        for rank, local in enumerate(self._gathered):
            for i, p in enumerate(self._of(rank)):
                if i in local["state"]:
                    out["state"][numbers[id(p)]] = local["state"][i]
        out["state"] = dict(sorted(out["state"].items()))
        return out

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over this process's part of what a `state_dict` says.

        Args:
            state_dict: of an optimizer with groups of the same sizes, of any number of processes.
        """
        numbers, local = self._numbers(), self.optim.state_dict()
        saved = state_dict["state"]
        own = [numbers[id(p)] for p in self._of(self.rank)]
        super().load_state_dict({**state_dict, "state": dict.fromkeys(saved)})
        local["state"] = {i: saved[n] for i, n in enumerate(own) if n in saved}
        self.optim.load_state_dict(local)
        self._gathered = []
        _copy_options(self.param_groups, self.optim.param_groups)

    def _of(self, rank: int) -> list[Tensor]:
        """The parameters of a process, as its optimizer counts them."""
        return [p for shares in self._shares for p in shares[rank]]

    def _numbers(self) -> dict[int, int]:
        every = [p for group in self.param_groups for p in group["params"]]
        return {id(p): i for i, p in enumerate(every)}

    def join_hook(self, **kwargs: Any) -> Any:
        """Refused: processes with different numbers of batches.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("torch.distributed.optim.ZeroRedundancyOptimizer.join_hook")


def _checked(params: Any) -> list[Any]:
    """The parameters, or dicts of them, as a list."""
    said = "`params` argument should be an iterable of Tensors"
    if isinstance(params, Tensor):
        raise TypeError(f"{said}, but got torch.{type(params).__name__}")
    try:
        found = list(params)
    except TypeError as e:
        raise TypeError(f"{said} or dicts, but got {type(params).__name__}") from e
    if not found:
        raise ValueError(_EMPTY)
    kinds = [isinstance(p, dict) for p in found]
    if not all(kinds) and not all(isinstance(p, Tensor) for p in found):
        raise TypeError(f"{said} or dicts")
    if any(kinds) and any("params" not in p for p in found):
        raise ValueError(_NO_KEY)
    return found


def _copy_options(source: Groups, target: Groups) -> None:
    """Let groups have the options of others, such as a learning rate that a scheduler has changed."""
    for a, b in zip(source, target):
        b.update({name: value for name, value in a.items() if name not in ("params", "param_names")})


__all__ = ["ZeroRedundancyOptimizer"]
