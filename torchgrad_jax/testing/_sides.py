"""One side of a comparison: a function over tensors, in torch or in this package."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._paths import map_with_path, walk
from ._tolerances import Move, inexact, random_like

KINDS = ("value", "state", "gradient", "forward", "second")
STEPS = "steps"
"""A kind that is compared when an optimizer is given."""
_IN_PLACE_ON_LEAF = "leaf Variable that requires grad is being used in an in-place operation"


@dataclass(frozen=True)
class Array:
    """What is compared of a tensor or array: its numbers, and facts that both sides know."""

    values: np.ndarray | None
    dtype: str
    shape: tuple[int, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


class Missing(Exception):
    """A side does not have this derivative; the text says why."""


@dataclass(frozen=True)
class Given:
    """Inputs as they were given, and by name the arrays that stand in them."""

    tree: tuple[Any, ...]
    arrays: Mapping[str, Any]

    def fill(self, convert: Callable[[str], Any]) -> list[Any]:
        """The inputs with `convert(name)` in place of each array."""

        def one(name: str, leaf: Any) -> Any:
            return convert(name) if name in self.arrays else leaf

        return [map_with_path(one, x, f"input {i}") for i, x in enumerate(self.tree)]


def array_of(x: Any) -> np.ndarray:
    """The numbers of a tensor of either library; bfloat16 as float32, which NumPy has."""
    x = x.detach()
    if "strided" not in str(x.layout):
        x = x.to_dense()
    if "bfloat16" in str(x.dtype):
        x = x.float()
    return np.array(x.resolve_conj().resolve_neg().cpu().numpy())


def tensor_of(lib: Any, array: Any) -> Any:
    """A tensor with the numbers and dtype of an array; NumPy's bfloat16 is unknown to torch."""
    array = np.asarray(array)
    if array.dtype.name == "bfloat16":
        return lib.tensor(array.astype(np.float32)).to(lib.bfloat16)
    return lib.tensor(array)


def describe(x: Any, lib: Any) -> Any:
    """A leaf of a result as it is compared."""
    if not isinstance(x, lib.Tensor):
        return plain(x)
    dtype = str(x.dtype).rpartition(".")[2]
    facts: dict[str, Any] = {"requires_grad": x.requires_grad}
    if "strided" in str(x.layout):
        facts["stride"] = tuple(x.stride())
    return Array(None if x.is_meta else array_of(x), dtype, tuple(x.shape), facts)


def plain(x: Any) -> Any:
    """An array of NumPy or JAX, or a value of Python, as it is compared."""
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return Array(np.asarray(x), np.dtype(x.dtype).name, tuple(x.shape))
    return x


@contextlib.contextmanager
def modules_made(lib: Any) -> Iterator[list[Any]]:
    """The modules that are made meanwhile, in their order."""
    made: list[Any] = []
    plain_init = lib.nn.Module.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain_init(self, *args, **kwargs)
        if not any(m is self for m in made):
            made.append(self)

    lib.nn.Module.__init__ = init
    try:
        yield made
    finally:
        lib.nn.Module.__init__ = plain_init


@contextlib.contextmanager
def seeded(lib: Any, seed: int) -> Iterator[None]:
    """Random numbers of a seed, and afterwards again those of before."""
    # What runs in between may use NumPy's global generator, which only its old interface reaches.
    states = lib.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    lib.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        yield
    finally:
        lib.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])


@dataclass
class _Call:
    """A function that was called: its tensors by name, its modules and its result."""

    leaves: dict[str, Any]
    given: list[Any]
    modules: list[tuple[str, Any]]
    result: Any

    def differentiable(self) -> dict[str, Any]:
        found = {k: v for k, v in self.leaves.items() if v.requires_grad}
        for prefix, module in self.modules:
            parameters = module.named_parameters()
            found |= {f"{prefix}parameter {k!r}": p for k, p in parameters if p.requires_grad}
        return found


class TensorSide:
    """A function over tensors of `lib`, called as `fn(lib, *inputs)` or as `fn(*inputs)`.

    With `module`, a function that makes a module given `lib`, the module comes before the inputs.
    """

    def __init__(
        self, name: str, lib: Any, fn: Callable[..., Any], *, seed: int,
        with_lib: bool = False, module: Callable[[Any], Any] | None = None, gradients: bool = True,
    ) -> None:  # fmt: skip
        self.name, self.lib, self.fn, self.seed = name, lib, fn, seed
        self.with_lib, self.module, self.gradients = with_lib, module, gradients
        self.clones = False
        self.optimizer: Callable[[Any], Any] | None = None
        self.count = 0
        self.move: Move = (0.0, 0)

    def module_state(self) -> dict[str, np.ndarray]:
        """Parameters and buffers of the module, by name."""
        if self.module is None:
            return {}
        with seeded(self.lib, self.seed):
            return {k: array_of(v) for k, v in self._named(self.module(self.lib))}

    @staticmethod
    def _named(module: Any) -> list[tuple[str, Any]]:
        named = [(f"parameter {k!r}", p) for k, p in module.named_parameters()]
        return named + [(f"buffer {k!r}", b) for k, b in module.named_buffers()]

    def _tensor(self, array: Any, requires_grad: bool) -> Any:
        t = tensor_of(self.lib, array)
        return t.requires_grad_() if requires_grad and inexact(array) else t

    def call(
        self, given: Given, arrays: Mapping[str, Any], tangents: Any = None, grad: bool = True
    ) -> _Call:
        """Call the function on tensors of the arrays; `tangents` makes dual numbers of the inputs."""
        lib, grad = self.lib, grad and self.gradients
        leaves = {k: self._tensor(arrays[k], grad) for k in given.arrays}
        handed = dict(leaves)
        for name, t in (tangents or {}).items():
            dual = lib.autograd.forward_ad.make_dual
            handed[name] = dual(leaves[name], self._tensor(t, False))
        if self.clones:
            handed = {k: t.clone() for k, t in handed.items()}
        inputs = given.fill(handed.__getitem__)
        with seeded(lib, self.seed), modules_made(lib) as made:
            first: list[Any] = [self.lib] if self.with_lib else []
            modules = self._modules(arrays)
            own = [m for module in modules for m in module.modules()]
            result = self.fn(*first, *modules, *inputs)
        given_tensors = [handed[k] for k in leaves]
        named = [("", m) for m in modules] + _roots(made, own)
        return _Call(leaves, given_tensors, named, result)

    def _modules(self, arrays: Mapping[str, Any]) -> list[Any]:
        if self.module is None:
            return []
        module = self.module(self.lib)
        with self.lib.no_grad():
            for name, t in self._named(module):
                if name in arrays:
                    t.copy_(tensor_of(self.lib, arrays[name]))
        return [module]

    def run(self, kind: str, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        """What is compared of one kind, by name; raises Missing where this side does not have it."""
        with warnings.catch_warnings():
            # torch itself calls what it deprecates, when it first takes a forward derivative.
            warnings.simplefilter("ignore", DeprecationWarning)
            return getattr(self, f"_{kind}")(given, arrays, draw)

    def _value(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        try:
            call = self.call(given, arrays)
        except RuntimeError as e:
            if self.clones or _IN_PLACE_ON_LEAF not in str(e):
                raise
            self.clones = True  # A function that writes to its inputs gets copies of the leaves.
            call = self.call(given, arrays)
        return {k: describe(v, self.lib) for k, v in walk(call.result, "output")}

    def _state(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        call = self.call(given, arrays)
        found = dict(zip(given.arrays, (describe(t, self.lib) for t in call.given), strict=True))
        for prefix, module in call.modules:
            found |= {prefix + k: describe(t, self.lib) for k, t in self._named(module)}
            found[f"{prefix}training"] = module.training
        return {f"{k} after the call": v for k, v in found.items()}

    def _live(self, call: _Call) -> dict[str, Any]:
        found = {k: v for k, v in walk(call.result, "output") if isinstance(v, self.lib.Tensor)}
        return {k: v for k, v in found.items() if v.requires_grad}

    def _cotangents(self, live: Mapping[str, Any], draw: int) -> list[Any]:
        return [self._draw(v, draw, k) for k, v in live.items()]

    def _draw(self, t: Any, draw: int, name: str) -> Any:
        values = random_like(array_of(t), self.seed, draw, name, self.move)
        return self.lib.tensor(values, dtype=t.dtype)

    def _gradient(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        call = self.call(given, arrays)
        live = self._live(call)
        if live:
            self.lib.autograd.backward(list(live.values()), self._cotangents(live, draw))
        return {
            k: t.grad if t.grad is None else plain_tensor(t.grad)
            for k, t in call.differentiable().items()
        }

    def _forward(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        moving = {
            k: random_like(arrays[k], self.seed, draw, k, self.move)
            for k in given.arrays
            if inexact(arrays[k])
        }
        ad = self.lib.autograd.forward_ad
        try:
            with ad.dual_level():
                call = self.call(given, arrays, moving, grad=False)
                return {
                    k: plain_tensor(_tangent(ad, v))
                    for k, v in walk(call.result, "output")
                    if isinstance(v, self.lib.Tensor) and (v.is_floating_point() or v.is_complex())
                }
        except (RuntimeError, NotImplementedError) as e:
            raise Missing(first_line(e)) from e

    def _steps(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        """Parameters (of a function, its inputs) after steps of an optimizer down a weighted sum of the results."""
        assert self.optimizer is not None
        leaves = {k: self._tensor(arrays[k], True) for k in given.arrays}
        modules = self._modules(arrays)
        trained = {
            f"parameter {k!r}": p
            for m in modules
            for k, p in m.named_parameters()
            if p.requires_grad
        }
        trained = trained or {k: t for k, t in leaves.items() if t.requires_grad}
        optimizer = self.optimizer(list(trained.values()))
        for _ in range(self.count):
            optimizer.zero_grad()
            with seeded(self.lib, self.seed):
                result = self.fn(*modules, *given.fill(leaves.__getitem__))
            found = {
                k: v
                for k, v in walk(result, "output")
                if isinstance(v, self.lib.Tensor) and v.requires_grad
            }
            self.lib.autograd.backward(list(found.values()), self._cotangents(found, draw))
            optimizer.step()
        return {k: plain_tensor(t) for k, t in trained.items()}

    def _second(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        call = self.call(given, arrays)
        live, leaves = self._live(call), call.differentiable()
        if not live or not leaves:
            return {}
        cotangents = [c.requires_grad_() for c in self._cotangents(live, draw)]
        points = [*leaves.values(), *cotangents]
        grad = self.lib.autograd.grad
        try:
            first = grad(
                list(live.values()), list(leaves.values()), cotangents, create_graph=True, allow_unused=True,
            )  # fmt: skip
            on = [
                (g, self._draw(g, draw, k))
                for k, g in zip(leaves, first)
                if g is not None and g.requires_grad
            ]
            second = (
                grad([g for g, _ in on], points, [t for _, t in on], allow_unused=True)
                if on
                else [None] * len(points)
            )
        except (RuntimeError, NotImplementedError) as e:
            raise Missing(first_line(e)) from e
        names = [*leaves, *(f"the cotangent of {k}" for k in live)]
        return {
            k: plain_tensor(self.lib.zeros_like(p) if g is None else g)
            for k, p, g in zip(names, points, second, strict=True)
        }


def _tangent(ad: Any, t: Any) -> Any:
    tangent = ad.unpack_dual(t).tangent
    return t.detach() * 0 if tangent is None else tangent


def _roots(made: Sequence[Any], known: Sequence[Any]) -> list[tuple[str, Any]]:
    """The modules that were made and are no part of another, with a prefix for their names."""
    parts = {id(c) for m in made for c in m.modules() if c is not m} | {id(m) for m in known}
    roots = [m for m in made if id(m) not in parts]
    return [(f"module {i} ({type(m).__name__}): ", m) for i, m in enumerate(roots)]


def plain_tensor(t: Any) -> Array:
    """A tensor of which only dtype, shape and numbers are promised."""
    return Array(array_of(t), str(t.dtype).rpartition(".")[2], tuple(t.shape))


def first_line(e: BaseException) -> str:
    """Type and first line of an exception, alike in both libraries."""
    text = (str(e).splitlines() or [""])[0]
    return f"{type(e).__name__}: {text.replace('torchgrad_jax.', 'torch.')}"


__all__ = [
    "KINDS",
    "STEPS",
    "Array",
    "Given",
    "Missing",
    "TensorSide",
    "array_of",
    "describe",
    "first_line",
    "plain",
    "tensor_of",
]
