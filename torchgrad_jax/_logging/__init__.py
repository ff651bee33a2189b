"""torch._logging: which messages of this package are shown, by the names that torch has for its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from .._core.errors import warn
from .._core.errors.messages import missing as _missing
from .._core.jax import compiling as _compiling
from .._core.jax.caches import remember

_COMPONENTS = {
    "all": ("torchgrad_jax", "torch"),
    "dynamo": ("torchgrad_jax.compile",),
    "autograd": ("torch.autograd.graph",),
    **dict.fromkeys(("distributed", "c10d", "ddp", "fsdp", "dtensor"), ("torchgrad_jax.distributed",)),
    **dict.fromkeys(("aot", "dynamic", "inductor", "onnx", "export"), ()),
}
"""Components of torch, and the loggers here that say something of the same."""

_ARTIFACTS = {
    **dict.fromkeys(("recompiles", "recompiles_verbose", "graph_breaks", "guards"), "recompiles"),
    **dict.fromkeys(("output_code", "kernel_code", "inductor_metrics", "benchmarking", "perf_hints"), "kernels"),
    **dict.fromkeys(
        (
            "bytecode", "aot_graphs", "aot_joint_graph", "ddp_graphs", "graph", "graph_code", "graph_code_verbose",
            "side_effects", "graph_sizes", "trace_source", "trace_call", "trace_bytecode", "schedule",
            "pre_grad_graphs", "post_grad_graphs", "ir_pre_fusion", "ir_post_fusion", "onnx_diagnostics", "fusion",
            "overlap", "cudagraphs", "sym_node", "compiled_autograd", "compiled_autograd_verbose",
            "cudagraph_static_inputs", "autotuning", "incremental", "graph_region_expansion", "hierarchical_compile",
            "compute_dependencies", "caching",
        ),
        "",
    ),
}  # fmt: skip
"""Kinds of messages of torch, and the name in `TORCHGRAD_JAX_LOGS` that shows the same here; "" for none."""

_LEVELS = tuple(sorted((50, 40, 30, 20, 10, 0), reverse=True))


def set_logs(*, modules: Mapping[str, Any] | None = None, **names: Any) -> None:
    """Say which messages are shown. What an earlier call asked for and this one does not is shown no longer.

    For example, `set_logs(recompiles=True)` prints why compiled functions are traced again, as
    `TORCHGRAD_JAX_LOGS=recompiles` does, and `set_logs(output_code=True)` lists the kernels that are compiled.

    Args:
        modules: loggers by name, or names as below, as a dict.
        names: levels by component: `all`, `dynamo` (the logger `torchgrad_jax.compile`), `autograd`, `distributed`;
            True by kind of message: `recompiles`, `graph_breaks` and `guards` show traces; `output_code` and
            `kernel_code` show kernels. Other names of torch have no messages here, which is said once for each.

    Raises:
        ValueError: a level is no level of `logging`, or a kind of messages got no bool.
        TypeError: torch has no such name.
    """
    given = {**names}
    for name in given:
        if name not in _COMPONENTS and name not in _ARTIFACTS:
            raise TypeError(f"set_logs() got an unexpected keyword argument '{name}'")
    loggers: dict[str, Any] = {}
    for name, value in (modules or {}).items():
        (given if name in _COMPONENTS or name in _ARTIFACTS else loggers)[name] = value
    for name, value in {**given, **loggers}.items():
        _check(name, value)
    _reset()
    for name, value in given.items():
        if name in _COMPONENTS:
            _set_component(name, value)
        else:
            _show(name, value)
    for name, value in loggers.items():
        _set_level(name, value)


def _check(name: str, value: Any) -> None:
    if name in _ARTIFACTS:
        if not isinstance(value, bool):
            raise ValueError(f"Expected bool to enable artifact {name}, received {value}")
    elif value is not None and (isinstance(value, bool) or value not in _LEVELS):
        shown = "torch" if name == "all" else name
        raise ValueError(
            f"Unrecognized log level for log {shown}: {value}, valid level values are: {','.join(map(str, _LEVELS))}"
        )


def _set_component(name: str, level: Any) -> None:
    if level is None:
        return
    if not _COMPONENTS[name]:
        _say_there_is_nothing(name)
    for logger in _COMPONENTS[name]:
        _set_level(logger, level)


def _show(name: str, wanted: bool) -> None:
    if not wanted:
        return
    here = _ARTIFACTS[name]
    if not here:
        _say_there_is_nothing(name)
        return
    _compiling.ASKED.add(here)
    if here == "kernels":
        _compiling.list_kernels()


_changed: dict[str, int] = {}
"""Levels of loggers before they were set here."""


def _set_level(name: str, level: int) -> None:
    logger = logging.getLogger(name)
    _changed.setdefault(name, logger.level)
    logger.setLevel(level)


def _reset() -> None:
    """Undo what earlier calls asked for."""
    _compiling.ASKED.clear()
    while _changed:
        name, level = _changed.popitem()
        logging.getLogger(name).setLevel(level)


@remember()
def _say_there_is_nothing(name: str) -> None:
    warn.to_user(
        f"torch._logging.set_logs({name}=...) shows nothing here: XLA compiles functions whole, without torch's passes "
        "over graphs; recompiles=True says why functions are traced again, and output_code=True lists kernels"
    )


@remember()
def warning_once(logger_obj: logging.Logger, *args: Any) -> None:
    """Log a warning, the first time that it comes from this logger."""
    logger_obj.warning(*args)


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """The logger of a module for one kind of messages."""
    return logging.getLogger(f"{module_qname}.__{artifact_name}")


__getattr__ = _missing(__name__)
