"""Small programs on a few tensors: hooks, modes, views and writes, compared down to the last stride and version.

They need next to no kernels, so that a thousand take a minute; and since little is computed, nothing has to be
forgiven. torch makes a program and says what it saw in a process of its own, which it may take down with it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from torchgrad_jax.testing._described import differences, facts_of
from torchgrad_jax.testing._tolerances import NUMBER, difference

from ..libs import Lib, live_torch, ours
from .observe import attempt
from .programs import is_incidental, made_of_gradients

START = """
x = torch.tensor([[1., 2., 3.], [4., 5., 6.]], dtype=torch.float64).requires_grad_()
w = torch.tensor([1., -1., .5], dtype=torch.float64).requires_grad_()
z = torch.tensor([[.5, 1., 2.]], dtype=torch.float64)
y = x * 1
"""

PRELUDE = """
import contextlib, importlib
checkpoint = importlib.import_module(torch.__name__ + '.utils.checkpoint').checkpoint
grad = torch.autograd.grad
graph = torch.autograd.graph

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t

    @staticmethod
    def backward(ctx, g):
        t, = ctx.saved_tensors
        return 2 * g * t

class Seen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t.view_as(t)

    @staticmethod
    def backward(ctx, g):
        return g * 2

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.mark_dirty(t)
        return t.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2

class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t

    @staticmethod
    def backward(ctx, g):
        return g * 3

class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        a, b = t * 2, t.detach()
        ctx.mark_non_differentiable(b)
        return a, b

    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h
"""

MADE = (
    "{a} * 2", "{a}.sin()", "{a}[0]", "{a}[:1]", "{a}.view(-1)", "{a}.t()", "{a}.detach()", "{a}.data", "{a}.clone()",
    "{a}.sum(0)", "{a}.expand(2, *{a}.shape)", "{a}.unsqueeze(0)", "{a}.split(1)[0]", "{a}.unbind()[0]",
    "{a}.detach().requires_grad_()", "Square.apply({a})", "Seen.apply({a})", "Same.apply({a})", "Two.apply({a})[0]",
    "Two.apply({a})[1]", "checkpoint(lambda t: t.sin() * t, {a}, use_reentrant=False)",
    "checkpoint(lambda t: t.sin() * t, {a}, use_reentrant=True)", "torch.func.vmap(lambda t: t * 2)({a})",
    "torch.func.grad(lambda t: (t * t).sum())({a})", "torch.func.jvp(lambda t: t * t, ({a},), ({a},))[1]",
    "torch.func.vjp(lambda t: t * t, {a})[0]", "{a}.contiguous()", "{a}.float()", "{a}.relu()", "{a}.exp()",
    "torch.zeros_like({a})", "torch.ones_like({a}, requires_grad=True)", "{a}.squeeze()", "{a}.mT", "{a}.diagonal()",
    "{a}.narrow(0, 0, 1)", "torch.nn.Parameter({a})", "{a}.view_as({a})", "{a}.max()", "{a}.flatten()",
    "{a}.reshape(-1, 1)", "{a}.masked_fill({a} > 1, 0.0)", "{a}.cumsum(0)", "Doubled.apply({a})",
)  # fmt: skip
WRITTEN = (
    "{a}.mul_(2)", "{a}.add_(1)", "{a}.zero_()", "{a}.sin_()", "{a}.detach_()", "{a}.requires_grad_()",
    "{a}.requires_grad_(False)", "{a}[:1].mul_(2)", "{a}.t_()", "{a}.unsqueeze_(0)", "{a}.squeeze_()", "{a}.relu_()",
    "{a}.fill_(2.0)", "{a}.data.mul_(2)", "{a}.detach().add_(1)", "{a}.retain_grad()", "{a}.grad = None",
    "{a}.clamp_(0, 3)", "graph.increment_version({a})", "{a}.masked_fill_({a} > 2, 1.0)", "{a}.resize_({a}.shape)",
    "{a}.exp_()", "{a}.swapaxes_(0, -1)",
)  # fmt: skip
PAIRED = (
    "{a} + {b}",
    "{a} * {b}",
    "{a}.copy_({b})",
    "{a}.add_({b})",
    "{a}.mul_({b})",
    "torch.where({a} > {b}, {a}, {b})",
    "torch.cat([{a}.reshape(-1), {b}.reshape(-1)])",
    "{a} - {b}",
    "torch.stack([{a}, {b}])",
    "torch.maximum({a}, {b})",
    "torch.mul({a}, {b}, out=torch.empty(0, dtype=torch.float64))",
    "({a} * {b}).sum()",
    "torch.lerp({a}, {b}, 0.3)",
    "{a}.addcmul_({b}, {b})",
    "{a}.sub_({b}, alpha=2)",
    "torch.nn.functional.mse_loss({a}, {b})",
)
TRADED = ("{a}.data = {b}", "{a}[0] = {b}", "{a}.grad = {b}")
PASSES = (
    "{a}.sum().backward(retain_graph=True)",
    "({a} * {b}).sum().backward(create_graph=True)",
    "{a}.sum().backward()",
    "{a}.sum().backward(inputs=[{b}], retain_graph=True)",
    "({a}.sum() + {b}.sum()).backward(retain_graph=True)",
)
GRADIENTS = (
    "grad({a}.sum(), {b}, allow_unused=True, retain_graph=True)[0]",
    "grad(({a} * {a}).sum(), {b}, allow_unused=True, create_graph=True)[0]",
    "grad({a}, {b}, torch.ones_like({a}), allow_unused=True, retain_graph=True, create_graph=True)[0]",
)
MODES = (
    "torch.no_grad()",
    "torch.enable_grad()",
    "torch.inference_mode()",
    "torch.set_grad_enabled(False)",
    "graph.save_on_cpu()",
    "graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t)",
    "torch.inference_mode(False)",
    "graph.allow_mutation_on_saved_tensors()",
    "torch.autograd._unsafe_preserve_version_counter(())",
    "graph.disable_saved_tensors_hooks('no')",
    "torch.autograd.detect_anomaly(check_nan=False)",
)
HOOKS = (
    "{a}.register_hook(see('{n}'))",
    "{a}.register_hook(see('{n}', lambda g: g * 2))",
    "{a}.retain_grad()",
    "{a}.register_post_accumulate_grad_hook(lambda t: see('{n}')(t.grad))",
    "{a}.grad_fn.register_hook(lambda given, came: see('{n}')(*given, *came))",
    "{a}.grad_fn.register_prehook(lambda came: see('{n}')(*came))",
    "{a}.grad_fn.register_prehook(lambda came: tuple(None if g is None else g + 1 for g in came))",
    "graph.register_multi_grad_hook([{a}, {b}], lambda gs: see('{n}')(*gs))",
    "graph.register_multi_grad_hook([{a}, {b}], lambda g: see('{n}')(g), mode='any')",
)
KINDS = {
    # (templates, how often, whether the line gives a tensor)
    "modes": (
        (MADE, 45, True),
        (WRITTEN, 20, False),
        (PAIRED, 20, True),
        (TRADED, 3, False),
        (PASSES, 6, False),
        (GRADIENTS, 9, True),
    ),
    "hooks": (
        (MADE[:13] + MADE[15:16] + MADE[-1:], 30, True),
        (WRITTEN[:4] + WRITTEN[7:8], 10, False),
        (HOOKS, 30, False),
        (PAIRED[:7], 10, True),
        (PASSES, 14, False),
        (GRADIENTS, 6, True),
    ),
}
"""What the lines of either kind of program are."""


def _suits(template: str, t: Any) -> bool:
    """Whether a line made of this template is not bound to fail for want of a gradient or for having one."""
    tracked = bool(t.requires_grad)
    if "post_accumulate" in template:
        return tracked and t.is_leaf
    if "grad_fn" in template or "retain_grad" in template:
        return tracked and not t.is_leaf
    if template in HOOKS or template in PASSES or template in GRADIENTS:
        return tracked
    return not (tracked and t.is_leaf) if template in WRITTEN else True


FACTS = (
    "shape", "stride", "requires_grad", "is_leaf", "version", "grad_fn", "output_nr", "is_inference", "retains_grad",
)  # fmt: skip
"""What is looked at, down to the last stride and version."""


def raised(error: Exception) -> str:
    """What is said of an error."""
    return f"raises {str(error)[:40]}"


def numbers(t: Any) -> Any:
    """The first elements of a tensor."""
    return [float(v) for v in t.detach().reshape(-1).tolist()[:4]]


def gradient(g: Any) -> Any:
    """What a gradient shows."""
    if g is None:
        return None
    return [list(g.shape), g.requires_grad, numbers(g)]


def look(t: Any) -> Any:
    """What a tensor shows."""
    found = facts_of(t, FACTS, raised)
    kept = found["is_leaf"] is True or found["retains_grad"] is True
    return found | {"value": numbers(t), "grad": gradient(t.grad) if kept else None}


class Player:
    """One library on a program."""

    def __init__(self, lib: Lib) -> None:
        self.log: list[Any] = []
        self.env: dict[str, Any] = {"torch": lib.module, "see": self._see}
        exec(PRELUDE + START, self.env)

    def _see(self, name: str, give: Any = None) -> Any:
        def hook(*gradients: Any) -> Any:
            self.log.append([name, *[gradient(g) for g in gradients]])
            return None if give is None else give(*gradients)

        return hook

    def tensors(self) -> dict[str, Any]:
        """The live tensors by name."""
        tensor = self.env["torch"].Tensor
        return {k: v for k, v in self.env.items() if isinstance(v, tensor)}

    def play(self, line: str) -> Any:
        """Run a line; what it raised, what hooks saw, and what all tensors show."""
        del self.log[:]
        error = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(line, self.env)
            except Exception as e:
                error = [type(e).__name__, str(e)[:300]]
            return {"error": error, "log": list(self.log), **{k: look(t) for k, t in self.tensors().items()}}


def lines(rng: random.Random, kind: str, player: Player) -> Iterator[str]:
    """The lines of a program, each made when those before it have run."""
    for i in range(rng.randrange(5, 13)):
        table, _, gives = rng.choices(KINDS[kind], [share for _, share, _ in KINDS[kind]])[0]
        template, tensors = rng.choice(table), player.tensors()
        names = [k for k, t in tensors.items() if attempt(partial(_suits, template, t)) is not False]
        names = names if names and rng.random() < 0.9 else list(tensors)
        a, b = (rng.choice(names[-3:] if rng.random() < 0.5 else names) for _ in range(2))
        line = template.format(a=a, b=b, n=f"h{i}")
        if gives:
            line = f"v{i} = {line}"
        if kind == "modes" and rng.random() < 0.25:
            line = f"with {rng.choice(MODES)}: {line}"
        yield line
    if kind == "hooks":
        tensors = player.tensors()
        reached = [k for k, t in tensors.items() if attempt(partial(getattr, t, "requires_grad"))]
        yield " + ".join(f"{k}.sum()" for k in reached[-3:]).join(("(", ").backward()"))


def made(seed: int, kind: str) -> list[tuple[str, Any]]:
    """A program, with what torch shows after each of its lines."""
    player = Player(live_torch())
    return [(line, player.play(line)) for line in lines(random.Random(seed), kind, player)]


def _near(got: Any, want: Any, path: str) -> str | None:
    return difference(got, want, NUMBER)


def apart(got: Any, want: Any) -> list[tuple[str, str]]:
    """Where two looks differ, and how."""
    return [*differences(got, want, _near)]


def compare(program: list[tuple[str, Any]]) -> tuple[int, list[str]] | None:
    """The first line after which this library shows something else, and what."""
    player, lines = Player(ours()), tuple(line for line, _ in program)
    for i, (line, want) in enumerate(program):
        got = json.loads(json.dumps(player.play(line)))
        gradients = made_of_gradients(lines[: i + 1])
        if found := [d for d in apart(got, want) if not is_incidental(d[0], gradients)]:
            return i, [": ".join(d) for d in found]
    return None


def told(seeds: range, kind: str) -> Iterator[tuple[int, list[tuple[str, Any]]]]:
    """Programs from torch; where it crashes, it begins again behind the seed that it crashed on."""
    first = seeds.start
    while first < seeds.stop:
        command = [sys.executable, "-m", __name__, str(first), str(seeds.stop), kind]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            assert child.stdout is not None
            for row in child.stdout:
                with contextlib.suppress(json.JSONDecodeError):  # it died while it wrote
                    seed, program = json.loads(row)
                    first = seed + 1
                    yield seed, program
        if child.returncode:
            first += 1


def main(args: argparse.Namespace) -> int:
    """Play seeded programs; print those that tell the libraries apart."""
    began, kinds, played = time.time(), Counter[str](), 0
    for seed, program in told(range(args.seed, args.seed + args.count), args.kind):
        played += 1
        found = compare(program)
        if found is not None:
            i, differing = found
            kinds[differing[0].partition(":")[0].rpartition(".")[2]] += 1
            text = "\n".join([*[line for line, _ in program[: i + 1]], *[f"# {d}" for d in differing[:4]]])
            print(f"\n# seed {seed}\n{text}", flush=True)
    print(f"{played} programs in {time.time() - began:.0f} s, {kinds.total()} differ: {dict(kinds)}")
    return 1 if kinds else 0


if __name__ == "__main__":
    live_torch().module.set_num_threads(1)
    for each in range(int(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps((each, made(each, sys.argv[3]))), flush=True)
