"""What a run changes in a program: nothing, numbers by a rounding, the dtype, the placement, or how modules run."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import rounding
from .digest import numbers_of


class Change:
    """Runs the program as it is, and remembers which parameters and modules it saw.

    Args:
        torch: the library that the program uses.
        eager: whether `torch.compile` leaves functions as they are.
    """

    def __init__(self, torch: Any, eager: bool = False) -> None:
        self.torch, self.eager = torch, eager
        self.seen: dict[int, Any] = {}

    def note(self, thing: Any) -> bool:
        """Remember a thing; True if it is seen for the first time."""
        if id(thing) in self.seen:
            return False
        self.seen[id(thing)] = thing
        return True

    def parameter(self, p: Any) -> None:
        """A parameter, before it is used."""

    def stepped(self, p: Any) -> None:
        """A parameter after a step."""

    def given(self, arguments: Any) -> list[np.ndarray]:
        """The numbers that a function of the library is given, where `results` asks for them."""
        return []

    def results(self, given: list[np.ndarray], outs: list[Any]) -> None:
        """Tensors that the function computed from these."""

    def gradient(self, g: Any) -> Any:
        """What arrives as a gradient in place of `g`, or None."""
        return None

    @property
    def moves(self) -> bool:
        """Whether `results` and `gradient` do something."""
        return False

    def module(self, module: Any) -> None:
        """A module that the program calls by itself, before its first call."""

    def arguments(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments of such a call."""
        return args, kwargs

    def compiled(self, module: Any, plain: Any) -> Any:
        """What is called in place of such a module, or None."""
        return None

    def compile(self, plain: Any, model: Any, kwargs: Any) -> Any:
        """What `torch.compile` gives."""
        return model if self.eager else plain(model, **kwargs)

    def map(self, x: Any, f: Any) -> Any:
        """Arguments with `f` of their tensors."""
        if isinstance(x, self.torch.Tensor):
            return f(x)
        if type(x) in (list, tuple):
            return type(x)(self.map(v, f) for v in x)
        return {k: self.map(v, f) for k, v in x.items()} if type(x) is dict else x


class Nudge(Change):
    """Moves numbers by a rounding: parameters before the first use and after each step, results, and gradients.

    Where results move far, the program is chaotic there, and no two libraries can agree on them.
    """

    def __init__(self, torch: Any, seed: int, eager: bool = False) -> None:
        super().__init__(torch, eager)
        self.seed, self.random = seed, np.random.default_rng(seed)

    @property
    def moves(self) -> bool:
        return True

    def parameter(self, p: Any) -> None:
        if self.note(p):
            self.stepped(p)

    def module(self, module: Any) -> None:
        for p in module.parameters():
            self.parameter(p)

    def stepped(self, p: Any) -> None:
        if not (p.is_floating_point() or p.is_complex()) or p.is_meta:
            return
        size = float(self.torch.finfo(p.dtype).eps)
        with self.torch.no_grad():
            signs = self.random.choice([-1.0, 1.0], tuple(p.shape))
            factor = self.torch.tensor(np.asarray(1 + size * signs), device=p.device)
            p.data.copy_(p.detach() * factor)

    def given(self, arguments: Any) -> list[np.ndarray]:
        found = []
        for x in arguments:
            if isinstance(x, self.torch.Tensor):
                values = self._numbers(x)
                found += [] if values is None else [values]
            elif isinstance(x, list | tuple):
                found += self.given(x)
            elif isinstance(x, float | np.ndarray | np.generic):
                found.append(np.asarray(x))
        return found

    def results(self, given: list[np.ndarray], outs: list[Any]) -> None:
        for t in outs:
            values = self._numbers(t)
            if values is not None and not rounding.exact(values, given):
                t.data.mul_(self._factor(t, values))

    def gradient(self, g: Any) -> Any:
        values = self._numbers(g)
        return None if values is None else g * self._factor(g, values)

    def _factor(self, t: Any, values: np.ndarray) -> Any:
        factor = rounding.factor(values, self.seed)
        return self.torch.tensor(factor, device=t.device)

    def _numbers(self, t: Any) -> np.ndarray | None:
        """The numbers of a tensor in single or double precision; half precisions are judged by themselves."""
        if not (t.is_floating_point() or t.is_complex()) or t.is_meta or t.is_sparse:
            return None
        if float(self.torch.finfo(t.dtype).eps) > rounding.COARSEST:
            return None
        return numbers_of(t)


class Double(Change):
    """Computes in double precision with the same random numbers: modules, parameters and their inputs."""

    def _wide(self, t: Any) -> Any:
        return t.double() if t.is_floating_point() else t

    def parameter(self, p: Any) -> None:
        if p.is_floating_point():
            p.data = p.data.double()

    def module(self, module: Any) -> None:
        module.double()

    def arguments(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return self.map(args, self._wide), self.map(kwargs, self._wide)


class Whole(Change):
    """Compiles each module that the program calls by itself, in a mode of `torch.compile`."""

    def __init__(self, torch: Any, mode: str | None = None) -> None:
        super().__init__(torch)
        self.mode = mode
        self.programs: dict[int, Any] = {}

    def compiled(self, module: Any, plain: Any) -> Any:
        if id(module) not in self.programs:
            made = self.torch.compile.__wrapped__(lambda *a, **k: plain(module, *a, **k), mode=self.mode)
            self.programs[id(module)] = made
        return self.programs[id(module)]


class Split(Change):
    """Splits the batch of each module over devices, along the first dimension."""

    def __init__(self, torch: Any, count: int) -> None:
        super().__init__(torch)
        import jax

        devices = jax.devices()
        if len(devices) < count:
            raise RuntimeError(f"{count} devices are asked for, and there are {len(devices)}")
        self.mesh = jax.sharding.Mesh(np.array(devices[:count]), ("batch",))
        self.count = count

    def _sharding(self, *spec: Any) -> Any:
        import jax

        return jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(*spec))

    def _over(self, t: Any) -> Any:
        whole = t.ndim > 0 and t.shape[0] % self.count == 0 and t.shape[0] > 0
        return t.to(self._sharding("batch") if whole else self._sharding())

    def module(self, module: Any) -> None:
        module.to(self._sharding())

    def parameter(self, p: Any) -> None:
        p.data = p.data.to(self._sharding())

    def arguments(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return self.map(args, self._over), self.map(kwargs, self._over)


def change_of(torch: Any, settings: dict[str, Any]) -> Change:
    """The change that the settings of a run ask for."""
    variant, nudge = settings["variant"], settings["nudge"]
    if variant == "float64":
        return Double(torch)
    if variant in ("compiled", "exact"):
        return Whole(torch, "exact" if variant == "exact" else None)
    if variant == "devices":
        return Split(torch, settings["devices"])
    eager = variant == "eager" or settings["library"] == "torch"
    return Nudge(torch, nudge, eager) if nudge else Change(torch, eager)
