"""Torch's table of optimizers: steps, states, flags, schedules and errors."""

from __future__ import annotations

import warnings
from typing import Any

from ..libs import Lib
from ..opinfo.results import attempt
from ..opinfo.runner import expect_exception
from ..opinfo.translate import Untranslatable, cotangent
from .player import Player

CHECKS = ("steps", "optim state", "flags", "schedule", "optim error", "optim text")
FACTORS = {
    "LBFGS": 1e2,  # steps divide by differences of gradients that have all but converged
    "Muon": 3e4,  # iterates are bfloat16 whatever the dtype: a rounding may go the other way
}
"""How much wider than the default an optimizer is judged in double precision, and why."""
SCRATCH = ("al",)
"""State that is left over from inside of a step (L-BFGS) and read by nothing."""
STEPS = 5
SHAPES = ((3, 2), (2, 2))


class Optimizers(Player):
    """Plays rows of `optim_db`."""

    checks = CHECKS

    def play(self, info: Any) -> None:
        self.info = info
        for i, sample in self.spread(list(info.optim_inputs_func(device="cpu"))):
            label = ""
            for dtype in self.dtypes():
                label = f"{dtype} #{i} {sample.desc} {sample.kwargs}"
                self.translate.forget()
                self.one("steps", label, lambda s=sample, d=dtype: self.steps(s.kwargs, d))
            self.one("optim state", label, lambda s=sample: self.states(s.kwargs))
            for flag in info.supported_impls:
                given = {**sample.kwargs, flag: True}
                # Several tensors at once keep some scalars in single precision (ASGD).
                self.one("flags", f"{label} {flag}", lambda g=given: self.steps(g, "float32"))
        for i, schedulers in enumerate(info.scheduler_inputs):
            label = f"schedulers {i}"
            self.one("schedule", label, lambda s=schedulers: self.scheduled(s))
        if info.optim_error_inputs_func is not None:
            self.failures()

    def dtypes(self) -> tuple[str, ...]:
        """What parameters are made of.

        L-BFGS follows the last bit of its inner products, which torch leaves to a BLAS that sums in an
        order of each processor: its float32 paths are not comparable.
        """
        return ("float64",) if self.info.step_requires_closure else ("float64", "float32")

    def make(self, lib: Lib, kwargs: Any, dtype: str) -> tuple[Any, list[Any]]:
        """An optimizer over two parameters."""
        values = [cotangent(s, dtype, n).astype(dtype) for n, s in enumerate(SHAPES)]
        params = [lib.module.nn.Parameter(lib.from_array(v)) for v in values]
        cls = lib.resolve(f"optim.{self.info.optim_cls.__name__}")
        given = kwargs if lib is self.torch else self.translate.value(kwargs)
        return cls(params, **given), params

    def closure(self, lib: Lib, opt: Any, params: list[Any], step: int) -> Any:
        """A loss whose gradients are other ones at each step."""

        def loss() -> Any:
            opt.zero_grad()
            total = 0.0
            for n, p in enumerate(params):
                weights = cotangent(tuple(p.shape), "float64", 10 * step + n)
                total = total + (p * p * lib.from_array(abs(weights)).to(p.dtype)).sum() + p.sin().sum()
            total.backward()
            return total

        return loss

    def step(self, lib: Lib, opt: Any, params: list[Any], step: int) -> None:
        loss = self.closure(lib, opt, params, step)
        if self.info.only_supports_sparse_grads:
            raise Untranslatable("sparse gradients")
        if self.info.step_requires_closure:
            opt.step(loss)
        else:
            loss()
            opt.step()

    def trained(self, lib: Lib, kwargs: Any, dtype: str) -> Any:
        """Parameters after each step, and the optimizer."""
        opt, params = self.make(lib, kwargs, dtype)
        seen = []
        for n in range(STEPS):
            self.step(lib, opt, params, n)
            seen.append([p.detach().clone() for p in params])
        return seen, opt, params

    def both(self, kwargs: Any, dtype: str) -> Any:
        """Training on both libraries; torch's exceptions come first."""
        want = self.seeded(self.torch, lambda: self.trained(self.torch, kwargs, dtype))
        got = self.seeded(self.mine, lambda: self.trained(self.mine, kwargs, dtype))
        if isinstance(want, Exception):
            expect_exception(got, want)
            raise want if isinstance(want, Untranslatable) else Untranslatable("both raise")
        if isinstance(got, Exception):
            raise got
        return got, want

    def steps(self, kwargs: Any, dtype: str) -> None:
        self.widen(dtype)
        got, want = self.both(kwargs, dtype)
        for n, (g, w) in enumerate(zip(got[0], want[0])):
            self.compare.equal(g, w, what=f"step {n}: ")
        self.state(_plain(got[1].state_dict()), _plain(want[1].state_dict()), "state")
        self.same(repr(got[1]), repr(want[1]), "repr")
        self.same(list(got[1].defaults), list(want[1].defaults), "defaults")

    def widen(self, dtype: str) -> None:
        """The tolerance for a dtype."""
        self.compare.factor = FACTORS.get(self.info.name, 1.0) if dtype == "float64" else 1.0

    def states(self, kwargs: Any) -> None:
        """A state that another optimizer takes over goes on as it would have."""
        self.widen("float64")
        results = [self.seeded(lib, lambda lib=lib: self.resumed(lib, kwargs)) for lib in (self.mine, self.torch)]
        if isinstance(results[1], Exception):
            raise Untranslatable("torch raises")
        if isinstance(results[0], Exception):
            raise results[0]
        self.state(results[0], results[1], "state")

    def resumed(self, lib: Lib, kwargs: Any) -> Any:
        _, opt, params = self.trained(lib, kwargs, "float64")
        fresh, others = self.make(lib, kwargs, "float64")
        with lib.module.no_grad():
            for p, q in zip(others, params):
                p.copy_(q)
        fresh.load_state_dict(opt.state_dict())
        self.step(lib, fresh, others, STEPS)
        return [_plain(fresh.state_dict()), [p.detach() for p in others]]

    # --- schedules ----------------------------------------------------------------------------

    def scheduled(self, schedulers: Any) -> None:
        """Learning rates over some epochs under each set of schedulers."""
        mine = self.seeded(self.mine, lambda: self.rates(self.mine, schedulers))
        theirs = self.seeded(self.torch, lambda: self.rates(self.torch, schedulers))
        if isinstance(theirs, Exception):
            raise Untranslatable("torch raises")
        if isinstance(mine, Exception):
            raise mine
        self.state(mine, theirs, "rates")

    def rates(self, lib: Lib, schedulers: Any) -> Any:
        opt, params = self.make(lib, {"lr": 0.01}, "float64")
        say = (lambda f: f) if lib is self.torch else self.translate.callable
        made = [say(s)(opt) for s in schedulers]
        seen = []
        for n in range(12):
            self.step(lib, opt, params, n)
            for s in made:
                if type(s).__name__ == "ReduceLROnPlateau":
                    s.step(1.0)
                else:
                    s.step()
            seen.append([float(g["lr"]) for g in opt.param_groups])
        return seen + [{k: v for k, v in s.state_dict().items() if not callable(v)} for s in made]

    # --- errors -------------------------------------------------------------------------------

    def failures(self) -> None:
        """Wrong constructions."""
        made = self.info.optim_error_inputs_func(device="cpu", dtype=self.torch.module.float64)
        for i, case in enumerate(made):
            self.translate.forget()
            label = f"error {i} {case.optimizer_error_input.desc}"
            self.one("optim error", label, lambda c=case: self.failure(c, False))
            self.one("optim text", label, lambda c=case: self.failure(c, True))

    def failure(self, case: Any, message: bool) -> None:
        sample = case.optimizer_error_input
        results = []
        for lib in (self.torch, self.mine):
            say = (lambda v: v) if lib is self.torch else self.translate.value
            cls = lib.resolve(f"optim.{self.info.optim_cls.__name__}")
            params = sample.params
            if params is None:
                params = [self.torch.module.nn.Parameter(self.torch.module.ones(2, 2))]

            def build(cls: Any = cls, say: Any = say, params: Any = params) -> Any:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    return cls(say(params), **say(sample.kwargs))

            results.append(attempt(build))
        want, got = results
        self.refused(got, want, case, message)


def _plain(x: Any) -> Any:
    """A state without scratch."""
    if isinstance(x, dict):
        return {k: None if k in SCRATCH else _plain(v) for k, v in x.items()}
    return x
