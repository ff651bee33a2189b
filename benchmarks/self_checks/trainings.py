"""The trainings, by name: each is given the library, a number of steps, and what is done to its training step."""

from __future__ import annotations

import importlib
import math
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
Training = Callable[[Any, int, Wrap], object]
WAYS = ("often", "verify", "budget")
"""When programs are checked; see `one.py`."""
MARK = "counted: "
"""What the lines of a process begin with that are for the command."""

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD with momentum": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "SGD with dampening": ("SGD", {"momentum": 0.9, "dampening": 0.1}),
    "AdamW with amsgrad": ("AdamW", {"amsgrad": True}),
    "Adam, fused": ("Adam", {"fused": True}),
    "RMSprop, centered": ("RMSprop", {"momentum": 0.1, "centered": True}),
    **{
        name: (name, {})
        for name in (
            *("SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS", "Muon", "NAdam"),
            *("RAdam", "RMSprop", "Rprop"),
        )
    },
}
"""Kinds, and their arguments besides parameters and rate. SparseAdam is none: there are no sparse gradients."""


def cosine(schedules: Any, optimizer: Any, steps: int) -> Any:
    """A rate that falls."""
    return schedules.CosineAnnealingLR(optimizer, steps)


def one_cycle(schedules: Any, optimizer: Any, steps: int) -> Any:
    """A rate that rises and falls, and a momentum against it, if the optimizer has one."""
    cycles = "momentum" in optimizer.defaults or "betas" in optimizer.defaults
    return schedules.OneCycleLR(optimizer, 0.05, total_steps=steps + 2, cycle_momentum=cycles)


def of_optimizer(kind: str, options: dict[str, Any], schedule: Callable[..., Any], *, inside: bool) -> Training:
    """A small network with dropout; the schedule steps inside of the compiled step, or after it."""

    def train(torch: Any, steps: int, wrap: Wrap) -> None:
        nn = torch.nn
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 2, bias=False))
        optimizer = getattr(torch.optim, kind)(net.parameters(), lr=0.02, **options)
        rate = schedule(torch.optim.lr_scheduler, optimizer, steps)

        def loss_of(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            return loss

        def step(x: Any, y: Any) -> Any:
            loss = loss_of(x, y)
            optimizer.step()
            if inside:
                rate.step()
            return loss

        compiled = wrap(loss_of if kind == "LBFGS" else step)
        for _ in range(steps):
            batch = torch.randn(4, 8), torch.randint(0, 2, (4,))
            if kind == "LBFGS":  # decides by values how it goes on: its closure is compiled
                optimizer.step(lambda batch=batch: compiled(*batch))
            else:
                compiled(*batch)
            if not inside or kind == "LBFGS":
                rate.step()

    return train


def optimizers() -> Iterator[tuple[str, Training]]:
    """Each optimizer with two schedules."""
    for name, (kind, options) in OPTIMIZERS.items():
        yield f"{name}, CosineAnnealingLR inside", of_optimizer(kind, options, cosine, inside=True)
        yield f"{name}, OneCycleLR outside", of_optimizer(kind, options, one_cycle, inside=False)


def pairs() -> Iterator[tuple[str, Training]]:
    """The training programs of examples/pairs."""
    folder = ROOT / "examples" / "pairs"
    sys.path.insert(0, str(folder))
    for file in sorted(folder.glob("*.py")):
        if file.stem not in ("__main__", "common"):
            yield file.stem, importlib.import_module(file.stem).in_torch


SCRIPTS = {
    "train_cnn.py": (True, lambda steps: ["--compile", "--epochs", str(math.ceil(steps / 32))]),
    "gpt2.py, with dropout": (True, lambda steps: ["--compile", "--steps", str(math.ceil(steps / 2))]),
    "gpt2.py, without dropout": (
        True,
        lambda steps: ["--compile", "--dropout", "0", "--steps", str(math.ceil(steps / 2))],
    ),
    "flax_in_a_torch_loop.py": (False, lambda steps: []),
    "sharded_training.py": (False, lambda steps: []),
}
"""Scripts of examples/ that compile, whether they are written for PyTorch, and their arguments. The last two have a
number of steps of their own."""


def scripts() -> Iterator[tuple[str, Training]]:
    """The scripts of examples/ that compile something themselves."""
    for name, (_, arguments) in SCRIPTS.items():
        file = ROOT / "examples" / name.partition(",")[0]

        def train(torch: Any, steps: int, wrap: Wrap, file: Any = file, arguments: Any = arguments) -> None:
            sys.argv = [str(file), *arguments(steps)]
            runpy.run_path(str(file), run_name="__main__")

        yield name, train


def models() -> Iterator[tuple[str, Training]]:
    """Published models: the model compiled, and the whole step."""
    from compat_suite.packages.compiled_models import table

    for name, make in table().items():
        for way in ("step", "model"):

            def train(torch: Any, steps: int, wrap: Wrap, make: Any = make, way: str = way) -> None:
                torch.manual_seed(0)
                training = make()
                step, _ = training.start(way)
                step = wrap(step)
                for _ in range(steps):
                    step(training.batch())

            yield f"{name}, {way}", train


GROUPS: dict[str, Callable[[], Iterator[tuple[str, Training]]]] = {
    "optimizers": optimizers,
    "pairs": pairs,
    "scripts": scripts,
    "models": models,
}
COMPILE_THEMSELVES = ("scripts", "models")
"""Groups whose trainings call `torch.compile`."""
