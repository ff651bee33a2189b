"""What tests of checkpoints share."""

import importlib
from typing import Any

import torchgrad_jax
from tests.autograd.programs import leaf as leaf

tg: Any = torchgrad_jax


def module(m) -> Any:
    return importlib.import_module(f"{m.__name__}.utils.checkpoint")


def error(run):
    """What a call raises, without the advice at the end of a checkpoint's errors."""
    try:
        return run()
    except Exception as e:
        return type(e).__name__, str(e).partition("\n\nTip:")[0]
