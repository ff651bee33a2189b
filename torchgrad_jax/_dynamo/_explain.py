"""torch._dynamo.explain: what becomes of a function when it is compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .._bridge.compile.compile import compile
from .._bridge.compile.explain import place
from .._bridge.compile.inspection import explanation, operators_of
from .._core.errors.messages import Unsupported


@dataclass
class BreakReason:
    """Why a function, or a call of it, runs eagerly."""

    reason: str
    user_stack: list[Any] = field(default_factory=list)
    """Empty: the reason names the line where there is one."""
    graph_break: bool = True


@dataclass
class ExplainOutput:
    """What `explain` found.

    `graph_count` is how many programs there are, 1 for one call that could be compiled; `graph_break_count` is always
    0, since a function is compiled whole or not at all, and `break_reasons` then says why not. `op_count` is how many
    operators the program has, and `ops_per_graph` what they are. `graphs` is empty, since a program is no graph of
    torch's operators, and `out_guards` is None. `compile_times` is what the compiled function's `explain()` prints.
    """

    graphs: list[Any]
    graph_count: int
    graph_break_count: int
    break_reasons: list[BreakReason]
    op_count: int
    ops_per_graph: list[list[str]] | None = None
    out_guards: list[Any] | None = None
    compile_times: str | None = None

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for i, found in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {i}:", f"    Reason: {found.reason}"]
        lines.append("Ops per Graph:")
        for i, ops in enumerate(self.ops_per_graph or [], 1):
            lines += [f"  Ops {i}:", *[f"    {op}" for op in ops]]
        return "\n".join([*lines, f"Compile Times: {self.compile_times}", ""])


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """A function that takes the arguments of another one, compiles and calls it, and says what became of it.

    Args:
        f: a function or a module.
        extra_args, extra_kwargs: the arguments; with them the result is the `ExplainOutput`, as in older versions.

    Example:
        >>> import torchgrad_jax as torch
        >>> found = torch._dynamo.explain(lambda x: x.sin() + 1)(torch.ones(2))
        >>> found.graph_count, found.graph_break_count, found.break_reasons
        (1, 0, [])
    """
    if not callable(f):
        raise AssertionError(f"explain takes a function, and got {type(f)}")

    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        compiled: Any = compile(_called(f))
        reasons: list[str] = []
        try:
            compiled(*args, **kwargs)
        except Unsupported as error:
            reasons.append(str(error))
        reasons += [r for r in compiled.reasons if r not in reasons]
        programs = [entry.program for entries in compiled.programs.by_key.values() for entry in entries]
        ops = [operators_of(p.traced.jaxpr) for p in programs]
        return ExplainOutput(
            [], len(programs), 0, [BreakReason(r) for r in reasons], sum(map(len, ops)), ops, None,
            explanation(compiled, place(compiled.fn)),
        )  # fmt: skip

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


def _called(f: Any) -> Any:
    """A module by the function that calls it, so that one kind of object compiles both."""
    if not hasattr(f, "named_parameters") or isinstance(f, type):
        return f

    def call(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    call.__qualname__ = type(f).__qualname__
    return call
