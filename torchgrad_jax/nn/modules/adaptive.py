"""A softmax over many classes, of which few are common."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..._engine.memory.tensor import Tensor
from .. import functional as F
from .._top import torch
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of classes in clusters, where rarer clusters have smaller projections.

    Args:
        in_features: size of each input vector.
        n_classes: number of classes, the most frequent first.
        cutoffs: where each cluster but the first begins.
        div_value: by how much each cluster's projection is smaller than the one's before.
        head_bias: whether the scores of the first cluster have a bias.
        device: where the parameters live.
        dtype: their dtype.
    """

    in_features: int
    n_classes: int
    cutoffs: list[int]
    div_value: float
    head_bias: bool
    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        bounds = [0, *cutoffs, n_classes]
        if any(a >= b for a, b in pairwise(bounds)) or any(int(c) != c for c in cutoffs):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        kind: Any = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **kind)
        self.tail = ModuleList()
        for i, (start, stop) in enumerate(pairwise(self.cutoffs)):
            hidden = int(in_features // (div_value ** (i + 1)))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **kind), Linear(hidden, stop - start, bias=False, **kind)
                )
            )

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        for module in (self.head, *(layer for pair in self.tail for layer in pair)):  # type: ignore[attr-defined]
            module.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> Any:
        """The log-probability of each target, and the mean of their negatives."""
        self._check(input_, target_)
        batched = target_.dim() > 0
        x, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        head = F.log_softmax(self.head(x), dim=1)
        place, rest = target, None
        # Rows of other clusters are computed and thrown away: their number changes from batch to
        # batch, and XLA would compile again for each.
        for i, (start, stop) in enumerate(pairwise(self.cutoffs)):
            mine = (target >= start) & (target < stop)
            if not mine.any():
                continue
            place = torch.where(mine, self.shortlist_size + i, place)
            scores = F.log_softmax(self.tail[i](x), dim=1)
            own = scores.gather(1, torch.where(mine, target - start, 0).unsqueeze(1)).squeeze(1)
            own = torch.where(mine, own, 0.0)
            rest = own if rest is None else rest + own
        output = head.gather(1, place.unsqueeze(1)).squeeze(1)
        if rest is not None:
            output = rest + output
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _check(self, x: Any, target: Any) -> None:
        ndim = target.dim()
        if ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if ndim == 1 and x.size(0) != target.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if x.dim() != ndim + 1:
            raise RuntimeError(
                f"{ndim}D target tensor expects {ndim + 1}D input tensors, but found inputs with size {x.size()}"
            )
        if target.numel():
            low, high = target.min().item(), target.max().item()
            if low < 0 or high >= self.n_classes:
                raise RuntimeError(
                    f"Target values should be in [0, {self.n_classes - 1}], but values in range [{low}, {high}] were "
                    "found. "
                )

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        n = self.shortlist_size
        parts = [head[:, :n]]
        for i, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, n + i].unsqueeze(1))
        return torch.cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes.

        Args:
            input: a batch of vectors.
        """
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each vector.

        Args:
            input: a batch of vectors.
        """
        scores = self.head(input)
        best = scores.argmax(dim=1)
        if not (best >= self.shortlist_size).any():
            return best
        everywhere = self._get_full_log_prob(input, scores).argmax(dim=1)
        return torch.where(best >= self.shortlist_size, everywhere, best)
