"""Distributions that are given by probabilities or by log odds of one outcome."""

from __future__ import annotations

from typing import Any

from .. import Size
from .utils import broadcast_all, lazy_property, logits_to_probs, one_of, probs_to_logits


class Odds:
    """`probs` and `logits`, the one that was not given computed from the other."""

    _param: Any

    def _give(self, probs: Any, logits: Any, *others: Any) -> tuple[Any, ...]:
        """Keep what was given, broadcast with `others`, which are returned."""
        name, value = one_of(probs, logits)
        *rest, self._param = broadcast_all(*others, value)
        setattr(self, name, self._param)
        return tuple(rest)

    @lazy_property
    def logits(self) -> Any:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)


class ShapedOdds(Odds):
    """The same, and the shape of what was given."""

    @property
    def param_shape(self) -> Size:
        """The shape of what was given."""
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    def _expanded_odds(self, cls: Any, batch_shape: Any, instance: Any, *names: str, **others: Any) -> Any:
        own, param = (*names, "probs", "logits"), self._param.expand(Size(batch_shape))
        return self._expanded(cls, batch_shape, instance, own, _param=param, **others)
