"""torch._dynamo.config: the settings that mean something where functions are compiled whole, by XLA.

`suppress_errors` lets a function that cannot be compiled run eagerly. `recompile_limit` (also
`cache_size_limit`) is how many programs a function keeps. Without `automatic_dynamic_shapes` each size is compiled,
and not only the first eight at once. `assume_static_by_default` may be set either way: results are the same. So may
`verbose`: errors show all of the stack as it is; and what `_WITHOUT_EFFECT` names. Other settings are refused.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .._bridge.compile.stance import POLICY
from .._core.errors.messages import no_such_name
from .._core.signals import restore, uninterrupted


class Config(ModuleType):
    """The module itself: settings are its attributes."""

    def __getattr__(self, name: str) -> Any:
        if name in _NAMES:
            return getattr(POLICY, _NAMES[name])
        if name in _WITHOUT_EFFECT:
            return _WITHOUT_EFFECT[name]
        raise AttributeError(no_such_name(f"torch._dynamo.config.{name}"))

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        elif name in _WITHOUT_EFFECT:
            _check(name, value)
            _WITHOUT_EFFECT[name] = value
        elif name not in _NAMES:
            raise AttributeError(no_such_name(f"torch._dynamo.config.{name}"))
        else:
            _check(name, value)
            setattr(POLICY, _NAMES[name], value)

    def patch(self, *args: Any, **changes: Any) -> _Patch:
        """A context, and a decorator, in which settings are others: by keyword, as a dict, or as a name and a value."""
        if len(args) == 2:
            changes = {args[0]: args[1]}
        elif args:
            changes = dict(args[0])
        return _Patch(self, changes)


class _Patch:
    def __init__(self, config: Config, changes: dict[str, Any]) -> None:
        self._config, self._changes = config, changes
        self._before: Any = None
        """What was set where the block began, and behind it the same of the block around it."""
        for name, value in changes.items():
            getattr(config, name)
            _check(name, value)

    def __enter__(self) -> None:
        before = self._before, {name: getattr(self._config, name) for name in self._changes}
        try:
            self._set(self._changes)
        except BaseException:
            restore(self._set, before[1])
            raise
        self._before = before

    def _set(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self._config, name, value)

    @uninterrupted
    def __exit__(self, *_: object) -> None:
        outer, values = self._before
        restore(self._set, values)
        self._before = outer

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function with these settings."""

        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return inside


def _check(name: str, value: Any) -> None:
    kind = type(_WITHOUT_EFFECT[name]) if name in _WITHOUT_EFFECT else _KINDS.get(name, bool)
    if type(value) is not kind:
        raise TypeError(f"torch._dynamo.config.{name} must be {kind.__name__}, not {type(value).__name__}")


_NAMES = {
    "suppress_errors": "suppress_errors",
    "recompile_limit": "recompile_limit",
    "cache_size_limit": "recompile_limit",
    "automatic_dynamic_shapes": "automatic_dynamic",
    "assume_static_by_default": "assume_static",
    "verbose": "verbose",
}
"""Settings, and what they are called in `POLICY`."""

_KINDS = {"recompile_limit": int, "cache_size_limit": int}

_WITHOUT_EFFECT: dict[str, Any] = {
    "capture_scalar_outputs": False,
    "compiled_autograd": False,
    "optimize_ddp": True,
    "reorderable_logging_functions": set(),
    "skip_fwd_side_effects_in_bwd_under_checkpoint": False,
}
"""Settings of how torch cuts a function into graphs, as programs may set them: functions are compiled whole here."""

sys.modules[__name__].__class__ = Config
