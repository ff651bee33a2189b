"""peft: a few new parameters in a model of transformers. accelerate: a model of transformers in its loop."""

from __future__ import annotations

import functools
from typing import Any

from .words import LEFT_TO_RIGHT, MASKED, training


def adapted(config: str, options: dict[str, Any]) -> Any:
    """A llama with adapters."""
    import peft

    found = training(LEFT_TO_RIGHT["llama"])
    found.model = peft.get_peft_model(found.model, getattr(peft, config)(**options))
    return found


ATTENTION = ["q_proj", "v_proj"]
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "LoRA": ("LoraConfig", {"r": 4, "target_modules": ATTENTION, "lora_dropout": 0.1}),
    "DoRA": ("LoraConfig", {"r": 4, "target_modules": ATTENTION, "use_dora": True}),
    "IA3": ("IA3Config", {"target_modules": [*ATTENTION, "down_proj"], "feedforward_modules": ["down_proj"]}),
}


def prepared(library_compiles: bool) -> Any:
    """A small BERT in accelerate's loop."""
    from .accelerated import Prepared

    found = training(MASKED["bert"])
    return Prepared(found.model, found.batch, library_compiles=library_compiles)


MODELS = {
    **{f"peft {name} on llama": functools.partial(adapted, *kind) for name, kind in KINDS.items()},
    "accelerate bert, compiled, then prepared": functools.partial(prepared, False),
    "accelerate bert, dynamo_backend": functools.partial(prepared, True),
}
