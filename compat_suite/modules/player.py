"""What playing layers and playing optimizers have in common."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from ..libs import Lib, live_torch, ours
from ..opinfo.results import Comparison, Different, attempt, where
from ..opinfo.runner import Score
from ..opinfo.translate import Translator, Untranslatable


class Objects(Translator):
    """Says modules, parameters and classes again, beside tensors and functions."""

    def value(self, x: Any) -> Any:
        torch = self.torch.module
        if isinstance(x, torch.nn.Parameter):
            if id(x) not in self.memo:
                plain = self.tensor(x.detach())
                self.memo[id(x)] = self.target.module.nn.Parameter(plain, x.requires_grad)
                self.kept.append(x)
            return self.memo[id(x)]
        if isinstance(x, torch.nn.utils.rnn.PackedSequence):
            return self.target.module.nn.utils.rnn.PackedSequence(*(self.value(v) for v in x))
        if inspect.isclass(x) and x.__module__.startswith("torch."):
            return self.type(x)
        return super().value(x)

    def type(self, cls: Any) -> Any:
        """The class of the same name."""
        for home in ("nn", "optim", "optim.lr_scheduler", ""):
            path = f"{home}.{cls.__name__}".lstrip(".")
            if self.torch.has(path) and self.torch.resolve(path) is cls:
                return self.target.resolve(path)
        raise Untranslatable(f"class {cls.__name__}")

    def name(self, value: Any) -> Any:
        if inspect.isclass(value) and value.__module__.startswith("torch."):
            return self.type(value)
        return super().name(value)

    def module(self, x: Any) -> Any:
        """A module with the same attributes, parameters and submodules."""
        if id(x) not in self.memo:
            cls = self.type(type(x))
            self.memo[id(x)] = out = cls.__new__(cls)
            self.kept.append(x)
            out.__dict__.update({k: self.value(v) for k, v in x.__dict__.items()})
        return self.memo[id(x)]


class Player:
    """Plays rows of one table; subclasses say what a row is."""

    checks: tuple[str, ...] = ()

    def __init__(self, samples: int, seed: int) -> None:
        self.torch, self.mine = live_torch(), ours()
        self.translate = Objects(self.torch, self.mine)
        self.samples, self.seed = samples, seed
        self.compare = Comparison(self.torch, self.mine, "")

    def run(self, info: Any) -> dict[str, Score]:
        """All checks of one row."""
        self.scores = {c: Score() for c in self.checks}
        self.play(info)
        return self.scores

    def play(self, info: Any) -> None:
        """The samples of a row."""
        raise NotImplementedError

    def spread(self, pool: list[Any]) -> list[tuple[int, Any]]:
        """Some of the samples, the first among them; all where there is no limit."""
        step = max(1, len(pool) // self.samples) if self.samples else 1
        numbers = range(0, len(pool), step)
        return [(i, pool[i]) for i in (numbers[: self.samples] if self.samples else numbers)]

    def one(self, check: str, label: str, action: Callable[[], Any]) -> Any:
        """Run a check and count how it ended; its result, or None."""
        score = self.scores[check]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                out = action()
            except Untranslatable as reason:
                score.skipped += 1
                score.reasons.setdefault(f"skipped: {reason}", 0)
            except Different as reason:
                score.fail(f"{label} | {reason}")
            except Exception as error:
                said = f"{type(error).__name__}: {str(error)[:300]} [{where(error)}]"
                score.fail(f"{label} | {said}")
            else:
                score.passed += 1
                return out
        return None

    def seeded(self, lib: Lib, action: Callable[[], Any]) -> Any:
        """A result or an exception, with the library's random numbers at their start."""
        lib.module.manual_seed(self.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return attempt(action)

    def same(self, got: Any, want: Any, what: str) -> None:
        """Two plain values are equal."""
        if got != want:
            raise Different(f"{what}: got {got!r}, want {want!r}")

    def state(self, got: Any, want: Any, what: str) -> None:
        """Nested states: kinds, keys, tensors and numbers."""
        if isinstance(want, dict):
            self.same(list(got), list(want), f"{what} keys")
            for k, v in want.items():
                self.state(got[k], v, f"{what}[{k!r}]")
        elif isinstance(want, list | tuple):
            self.same((type(got), len(got)), (type(want), len(want)), f"{what} kind and length")
            for i, (g, w) in enumerate(zip(got, want)):
                self.state(g, w, f"{what}[{i}]")
        else:
            self.compare.equal(got, want, what=f"{what}: ")
