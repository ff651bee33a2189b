"""Passes, in an order that keeps what they ask for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from .pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


def pass_result_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that changes a module, or returns another one, as a pass."""
    if fn is None:
        return None

    @wraps(fn)
    def changed(gm: Any) -> PassResult:
        found = fn(gm)
        if found is None:
            return PassResult(gm, True)
        return found if isinstance(found, PassResult) else PassResult(found, True)

    if not inspect.isfunction(fn):
        changed.__name__ = type(fn).__name__
    return changed


def this_before_that_pass_constraint(this: Callable[..., Any], that: Callable[..., Any]) -> Callable[..., bool]:
    """A constraint that one pass is not after another."""

    def holds(a: Callable[..., Any], b: Callable[..., Any]) -> bool:
        return not (a == that and b == this)

    return holds


class PassManager:
    """Runs passes one after another.

    Args:
        passes: from a module to a `PassResult`.
        constraints: of two passes, whether the first may come before the second.
        steps: how often all of them run at most; they stop when none changes anything.
        run_checks_after_each_pass: whether `check` runs after every pass.
        suppress_check_failures: as in torch.
    """

    def __init__(
        self,
        passes: Any = None,
        constraints: Any = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes: list[Any] = list(passes or [])
        self.constraints: list[Any] = list(constraints or [])
        self.steps = 1 if steps is None else steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Any) -> None:
        """One more pass, at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Any) -> None:
        """One more constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raise if the order of the passes breaks a constraint."""
        if self._validated:
            return
        for constraint in self.constraints:
            for i, this in enumerate(self.passes):
                for j, that in enumerate(self.passes[i + 1 :], i + 1):
                    if not constraint(this, that):
                        raise RuntimeError(
                            f"pass schedule constraint violated. Expected {this} before {that} but found {this} at "
                            f"index {i} and {that} at index{j} in pass list."
                        )
        self._validated = True

    def solve_constraints(self) -> None:
        """Bring the passes into an order that keeps the constraints; passes that may go first stay in their order."""
        left, ordered = list(self.passes), []
        while left:
            free = [p for p in left if all(c(p, q) for c in self.constraints for q in left if q is not p)]
            if not free:
                raise RuntimeError("Circular dependency detected within the following passes")
            ordered.append(free[0])
            left.remove(free[0])
        self.passes, self._validated = ordered, True

    def add_checks(self, check: Callable[..., Any]) -> None:
        """A check of modules: a function of one argument."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check

    def check(self, module: Any) -> None:
        """Nothing, unless `add_checks` gave something."""

    def __call__(self, module: Any) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            modified = False
            for fn in self.passes:
                try:
                    result = fn(module)
                    if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                        raise TypeError(
                            f"The result of the pass {_name(fn)} should be type PassResult."
                            "Please wrap it with pass_result_wrapper()"
                        )
                except Exception as e:
                    names = [_name(p) for p in self.passes[: self.passes.index(fn)]]
                    raise Exception(
                        f"An error occurred when running the '{_name(fn)}' pass after the following passes: {names}"
                    ) from e
                module, modified = result.graph_module, modified or result.modified
                if hasattr(module, "recompile"):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self.check(module)
            changed = changed or modified
            if not modified:
                break
        return PassResult(module, changed)


def _name(fn: Any) -> str:
    return fn.__name__ if inspect.isfunction(fn) else type(fn).__name__
