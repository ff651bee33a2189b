"""Words that a model goes on with: `generate` with a compiled forward pass, and decoding by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

NEW = 6
"""How many words are generated in a call."""


@dataclass
class Generation:
    """A model, what draws the beginnings of texts, and the kind of cache."""

    model: Any
    batch: Callable[[], torch.Tensor]
    cache: str | None

    def start(self, way: str) -> tuple[Callable[[torch.Tensor], torch.Tensor], Any]:
        """What generates, and what of it is compiled.

        As the documentation of transformers says: `generate` with a compiled `forward`, and for "step" a compiled
        function that goes one word on. A model that `torch.compile` returns would generate without it.
        """
        if way == "step":
            one = torch.compile(self.one_word)
            return lambda batch: self.by_hand(batch, one), one
        if way == "eager":  # gives the words that decoding by hand gives, too
            return self.generate, None
        self.model.forward = torch.compile(self.model.forward)
        return self.generate, self.model.forward

    def generate(self, beginning: torch.Tensor) -> torch.Tensor:
        """Greedily, so many words each time."""
        options = {} if self.cache is None else {"cache_implementation": self.cache}
        return self.model.generate(
            beginning,
            attention_mask=torch.ones_like(beginning),
            max_new_tokens=NEW,
            eos_token_id=None,
            do_sample=False,
            pad_token_id=0,
            **options,
        )

    def one_word(self, word: torch.Tensor, place: torch.Tensor, cache: Any) -> torch.Tensor:
        """The word after this one; the cache is written to."""
        with torch.no_grad():
            out = self.model(word, position_ids=place, past_key_values=cache, return_dict=False, use_cache=True)
        return out[0][:, -1].argmax(-1, keepdim=True)

    def by_hand(self, beginning: torch.Tensor, one_word: Callable[..., torch.Tensor]) -> torch.Tensor:
        """Read the beginning, then go on word by word with a new cache."""
        from transformers import DynamicCache, StaticCache

        config = self.model.config
        cache = StaticCache(config=config, max_cache_len=16) if self.cache else DynamicCache(config=config)
        length = beginning.shape[1]
        words = [beginning, self.one_word(beginning, torch.arange(length)[None], cache)]
        for i in range(NEW - 1):
            words.append(one_word(words[-1], torch.tensor([[length + i]]), cache))
        return torch.cat(words, 1)

    def state(self) -> dict[str, torch.Tensor]:
        """Nothing is trained."""
        return {}
