"""The few names of torch._dynamo that scripts use around torch.compile."""

from __future__ import annotations

from typing import Any

from .._core.errors.messages import missing as _missing
from ..compiler import is_compiling as is_compiling, list_backends as list_backends, reset as reset
from . import compiled_autograd as compiled_autograd, config as config, decorators as decorators, exc as exc
from ._explain import ExplainOutput as ExplainOutput, explain as explain
from .decorators import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    error_on_graph_break as error_on_graph_break,
    graph_break as graph_break,
    mark_dynamic as mark_dynamic,
    mark_static as mark_static,
    mark_static_address as mark_static_address,
    maybe_mark_dynamic as maybe_mark_dynamic,
    nonstrict_trace as nonstrict_trace,
    set_stance as set_stance,
    substitute_in_graph as substitute_in_graph,
)


def is_dynamo_supported() -> bool:
    """True: `torch.compile` works wherever this package does."""
    return True


# `eval_frame` needs nn, which is above this package.
__getattr__: Any = _missing(__name__, OptimizedModule="eval_frame")
