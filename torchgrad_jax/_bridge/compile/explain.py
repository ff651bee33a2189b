"""What compiled functions say of themselves: warnings, log lines, names and places."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Sequence
from typing import Any

from ..._core.errors import warn
from ..._core.jax.compiling import asks_for
from .arguments.keys import name_of
from .stance import POLICY

log = logging.getLogger("torchgrad_jax.compile")
_WAY_OUT = (
    "The results are right, but the steps are taken one by one. Do this outside of the compiled function, return the "
    "value instead, or keep it in a tensor; `torch.compiler.disable` says that it is meant so"
)


def tell(kind: str, text: str) -> None:
    """Log a line, and print it where that is asked for."""
    log.info("%s", text)
    if asks_for("recompiles"):
        print(f"[{kind}] {text}", file=sys.stderr)  # noqa: T201 - asked for


def traced_again(fn: Any, why: str) -> None:
    """Log that a function is traced once more."""
    tell("recompiles", f"{name_of(fn)}: traced again: {why}")


def not_run(fn: Any, why: Any) -> None:
    """Log that a function runs eagerly in this call, although there is a program."""
    tell("recompiles", f"{name_of(fn)}: runs eagerly this time: {why}")


def plain_numbers(fn: Any, why: Any) -> None:
    """Log that numbers among the arguments of a function are constants from now on."""
    cause = "its result may have them in it" if why is None else f"{type(why).__name__}: {why}"
    tell("recompiles", f"{name_of(fn)}: numbers among the arguments are constants: {cause}")


def with_constants(key: Any, constants: Sequence[Any]) -> Any:
    """The key of a program with the values of the numbers among the arguments that are part of it."""
    key = list(key)
    for c in constants:
        value = c.value.hex() if isinstance(c.value, float) else c.value
        key[2 + c.leaf] = (type(c.value), value)
    return tuple(key)


def given_up(fn: Any, why: Any) -> None:
    """Say that a function is no longer compiled."""
    _warn(
        f"torch.compile: {place(fn)} is not compiled from now on, but runs eagerly, since each call does "
        f"something in Python that a program cannot repeat: {why}. {_WAY_OUT}"
    )


def never_compiled(fn: Any, why: Any) -> None:
    """Say that a function is not compiled at all, for something that it asks for."""
    _warn(f"torch.compile: {place(fn)} is not compiled, but runs eagerly: {why}. {_WAY_OUT}")


def stale(text: str) -> None:
    """Say that a program is stale, where a check has found that."""
    _warn(f"{text}. It runs eagerly this time")


def limit_reached(fn: Any, limit: int, keys: Sequence[Any]) -> None:
    """Say that more kinds of calls came than programs are kept, and what differs between them."""
    what = "; ".join(_kinds_that_differ(fn, keys)) or "the same arguments came with other state"
    _warn(
        f"torch.compile: {place(fn)} has reached its recompile_limit of {limit} programs, and forgets the one that "
        f"was not used for longest: {what}. Each shape and each value of an argument is a program of its own: pad or "
        f"cut tensors to a few sizes (compile(..., buckets=...)), pass numbers as tensors, or raise recompile_limit"
    )


def _kinds_that_differ(fn: Any, keys: Sequence[Any]) -> list[str]:
    """For each argument (each leaf of it, in calls with as many) that came in several kinds: which these were."""
    last = keys[-1]
    leaves = [k[2:] for k in keys if k[:2] == last[:2] and len(k) == len(last)]
    found = []
    for i, column in enumerate(zip(*leaves)):
        kinds = list(dict.fromkeys(map(_kind, column)))
        if len(kinds) > 1:
            more = f", and {len(kinds) - _SHOWN} more" if len(kinds) > _SHOWN else ""
            found.append(f"{argument(fn, last[1], i)} was {', '.join(kinds[:_SHOWN])}{more}")
    return found


_SHOWN = 8


def _kind(leaf: Any) -> str:
    """An argument's part of a key, as text."""
    if isinstance(leaf, tuple) and len(leaf) == 4:  # a tensor
        grad = ", requires_grad" if leaf[2] else ""
        return f"{tuple(leaf[1].shape)} {leaf[1].dtype}{grad}"
    if isinstance(leaf, tuple) and len(leaf) == 1:
        return f"any {leaf[0].__name__}"
    if isinstance(leaf, tuple) and len(leaf) == 2:
        value = float.fromhex(leaf[1]) if issubclass(leaf[0], float) else leaf[1]
        return repr(value)
    if isinstance(leaf, tuple) and len(leaf) == 3:
        return f"{leaf[1]} of class {leaf[0].__name__}"
    return "another object" if isinstance(leaf, int) else f"an array {leaf[2]}"


def argument(fn: Any, spec: Any, i: int) -> str:
    """The name of an argument where each positional one is a single value, else its number among all values."""
    alone = spec and all(c is None for c in spec[2][2:]) and i < len(spec[2][2:])
    try:
        names = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        names = []
    if alone and i < len(names) and names[i].kind is not inspect.Parameter.VAR_POSITIONAL:
        return f"argument {names[i].name!r}"
    return f"value {i} among the arguments"


def one_program_per_shape(what: str) -> None:
    """Say, once for each way of asking, that sizes are no inputs of a program."""
    if what not in _TOLD:
        _TOLD.add(what)
        _warn(
            f"{what} has no effect here: XLA compiles each combination of shapes for itself, with the same results. "
            "Pad or cut tensors to a few sizes where their number is large: compile(..., buckets=...) does that"
        )


_TOLD: set[str] = set()
"""What was asked for and told of."""


def unsupported(fn: Any, error: BaseException) -> None:
    """Say that a function cannot be compiled, where that is no error; torch breaks graphs silently."""
    text = f"{name_of(fn)} runs eagerly: {error}"
    if POLICY.graph_breaks:
        tell("graph_breaks", text)
    else:
        _warn(text)


def _warn(text: str) -> None:
    """Warn; programs that run with this package in torch's place get a log line, as torch writes one."""
    if POLICY.graph_breaks:
        log.warning("%s", text)
    else:
        warn.to_user(text)


def place(fn: Any) -> str:
    """A function by name, file and line."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    at = "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"
    return f"{name_of(fn)}{at}"
