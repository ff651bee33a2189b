"""What playing layers and playing optimizers have in common."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any

from ..libs import Lib, live_torch, ours
from ..opinfo.results import Comparison, Different, attempt
from ..opinfo.runner import Gradients, Score, expect_exception
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


class Player(Gradients):
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
        return self.scores[check].count(label, action)

    def seeded(self, lib: Lib, action: Callable[[], Any]) -> Any:
        """A result or an exception, with the library's random numbers at their start."""
        lib.module.manual_seed(self.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return attempt(action)

    def refused(self, got: Any, want: Any, case: Any, message: bool) -> None:
        """An exception of the same type as torch's; with `message` one whose text is as the case says."""
        if not isinstance(want, Exception):
            raise Untranslatable("torch does not raise")
        if not message:
            expect_exception(got, want)
        elif not isinstance(got, Exception) or not re.search(case.error_regex, str(got)):
            raise Different(f"got {str(got)[:160]!r}, want {case.error_regex!r}")

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
