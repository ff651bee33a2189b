"""One side of a comparison: a function over tensors, in torch or in this package."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._after import after_call, memory_owner, named_tensors, objects_made, seeded, surroundings
from ._dataflow import Dtypes, watched
from ._described import array_of, describe, dtype_name, first_line, plain_tensor, tensor_of
from ._paths import map_with_path, walk
from ._tolerances import Move, half_name, inexact, random_like

KINDS = ("value", "state", "gradient", "frozen", "forward", "second")
"""What is compared, in this order; "frozen": gradients where only some of the inputs require them."""
STEPS = "steps"
"""A kind that is compared when an optimizer is given."""
_IN_PLACE_ON_LEAF = "leaf Variable that requires grad is being used in an in-place operation"


class Missing(Exception):
    """A side does not have this derivative; the text says why."""


_LACKS = re.compile(
    r"not (been )?implemented|implement the|not support|twice|(does not|doesn't) require grad|no (forward|jvp)"
)


@contextlib.contextmanager
def missing_where_lacking() -> Iterator[None]:
    """Turn the errors by which a library says that it lacks a derivative into `Missing`; others are failures."""
    try:
        yield
    except (RuntimeError, NotImplementedError) as e:
        if isinstance(e, NotImplementedError) or _LACKS.search(str(e)):
            raise Missing(first_line(e)) from e
        raise


def used_outputs(names: Sequence[str], draw: int) -> list[str]:
    """The results that get a cotangent: all in the first draw, then every other one in turn.

    A backward pass may be right as long as all of its results are used.
    """
    if not draw or len(names) < 2:
        return list(names)
    return [k for i, k in enumerate(sorted(names)) if (i + draw) % 2]


def name_of_gradient(name: str, used: Sequence[str], names: Sequence[str]) -> str:
    """The name of a gradient, with the results that it is of where these are not all."""
    return name if len(used) == len(names) else f"{name}, of {', '.join(used)} alone"


def frozen_leaves(names: Sequence[str], draw: int) -> list[str]:
    """The inputs and parameters that need no gradient: every other one in turn, or none of less than two."""
    return [k for i, k in enumerate(sorted(names)) if (i + draw) % 2] if len(names) > 1 and draw < 2 else []


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


@dataclass
class _Call:
    """A function that was called: its tensors by name, its modules and its result."""

    leaves: dict[str, Any]
    given: dict[str, Any]
    inputs: list[Any]
    modules: list[tuple[str, Any]]
    others: list[tuple[str, Any]]
    result: Any
    surroundings: dict[str, Any]
    took_derivatives: bool

    def differentiable(self) -> dict[str, Any]:
        found = {k: v for k, v in self.leaves.items() if v.requires_grad}
        for prefix, module in self.modules:
            parameters = module.named_parameters()
            found |= {f"{prefix}parameter {k!r}": p for k, p in parameters if p.requires_grad}
        return found

    def named(self) -> Iterator[tuple[str, Any]]:
        """Tensors that existed before the results: inputs, parameters and buffers."""
        yield from self.given.items()
        for prefix, module in self.modules:
            yield from ((prefix + k, t) for k, t in named_tensors(module))


class TensorSide:
    """A function over tensors of `lib`, called as `fn(lib, *inputs)` or as `fn(*inputs)`.

    With `module`, a function that makes a module given `lib`, the module comes before the inputs.
    """

    def __init__(
        self,
        name: str,
        lib: Any,
        fn: Callable[..., Any],
        *,
        seed: int,
        with_lib: bool = False,
        module: Callable[[Any], Any] | None = None,
        gradients: bool = True,
    ) -> None:
        self.name, self.lib, self.fn, self.seed = name, lib, fn, seed
        self.with_lib, self.module, self.gradients = with_lib, module, gradients
        self.clones = False
        self.optimizer: Callable[[Any], Any] | None = None
        self.count = 0
        self.move: Move = (0.0, 0)
        self.held_in: str | None = None

    def module_state(self) -> dict[str, np.ndarray]:
        """Parameters and buffers of the module, by name."""
        if self.module is None:
            return {}
        with seeded(self.lib, self.seed):
            return {k: array_of(v) for k, v in named_tensors(self.module(self.lib))}

    def _tensor(self, array: Any, requires_grad: bool) -> Any:
        t = tensor_of(self.lib, array)
        return t.requires_grad_() if requires_grad and inexact(array) else t

    def call(
        self,
        given: Given,
        arrays: Mapping[str, Any],
        tangents: Any = None,
        grad: bool = True,
        frozen: Sequence[str] = (),
    ) -> _Call:
        """Call the function on tensors of the arrays.

        Args:
            given: the inputs.
            arrays: what stands in them, and the state of the module, by name.
            grad: whether inputs require gradients.
            tangents: by name what makes dual numbers of inputs and parameters.
            frozen: inputs and parameters that require none.
        """
        lib, grad = self.lib, grad and self.gradients
        leaves = {k: self._tensor(arrays[k], grad and k not in frozen) for k in given.arrays}
        arguments = {k: self._dual(t, (tangents or {}).get(k)) for k, t in leaves.items()}
        if self.clones:
            arguments = {k: t.clone() for k, t in arguments.items()}
        inputs = given.fill(arguments.__getitem__)
        with seeded(lib, self.seed), objects_made(lib) as made, derivatives_taken(lib) as taken:
            first: list[Any] = [self.lib] if self.with_lib else []
            modules = self._modules(arrays, tangents or {}, frozen)
            own = [m for module in modules for m in module.modules()]
            result = self.fn(*first, *modules, *inputs)
            left = surroundings(lib)
        roots = [("", m) for m in modules] + _roots(made, own, lib)
        others = _others(made, lib)
        return _Call(leaves, arguments, inputs, roots, others, result, left, bool(taken))

    def _dual(self, t: Any, tangent: Any) -> Any:
        if tangent is None:
            return t
        return self.lib.autograd.forward_ad.make_dual(t, self._tensor(tangent, False))

    def _modules(
        self, arrays: Mapping[str, Any], tangents: Mapping[str, Any] = {}, frozen: Sequence[str] = ()
    ) -> list[Any]:
        if self.module is None:
            return []
        module = self.module(self.lib)
        if self.held_in is not None:
            module.float()
        with self.lib.no_grad():
            for name, t in named_tensors(module):
                if name in arrays:
                    t.copy_(tensor_of(self.lib, arrays[name]))
        for name, p in module.named_parameters():
            if f"parameter {name!r}" in frozen:
                p.requires_grad_(False)
        duals = {id(p): self._dual(p.detach(), tangents[k]) for k, p in named_tensors(module) if k in tangents}
        for part in list(module.modules()) if duals else ():
            for name, p in list(part._parameters.items()):
                if id(p) in duals:
                    del part._parameters[name]
                    setattr(part, name, duals[id(p)])
        return [module]

    def dtypes_inside(self, given: Given, arrays: Mapping[str, Any]) -> Dtypes:
        """The dtypes that each result was computed in, and those of what the graph of the whole call saves."""
        found: Dtypes = {"": self._saved_dtypes(given, arrays)}
        # Some tensors have no storage to follow. Their calls are judged by the coarsest dtype of the whole.
        with contextlib.suppress(RuntimeError, NotImplementedError, AttributeError):
            with watched(self.lib) as flow:
                result = self.call(given, arrays).result
            tensors = [(k, v) for k, v in walk(result, "output") if isinstance(v, self.lib.Tensor)]
            found |= {k: flow.of(v) for k, v in tensors}
        return found

    def _saved_dtypes(self, given: Given, arrays: Mapping[str, Any]) -> set[str]:
        found = set()

        def pack(t: Any) -> Any:
            found.add(dtype_name(t))
            return t

        # Transforms of functions refuse these hooks.
        with contextlib.suppress(RuntimeError), self.lib.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            self.call(given, arrays)
        return found

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
        return dict(self._results(call))

    def _results(self, call: _Call) -> Iterator[tuple[str, Any]]:
        """The results, with the earlier tensor that has their memory.

        Memory and strides of gradients are not promised. So results of functions that take some are only compared
        with the memory of what was there before.
        """
        lib, known = self.lib, list(call.named())
        for name, x in walk(call.result, "output"):
            if not isinstance(x, lib.Tensor):
                yield name, describe(x, lib)
                continue
            found = describe(x, lib)
            if call.took_derivatives:
                found.facts.pop("stride", None)
                found.facts.pop("version", None)
            owner = memory_owner(x, lib, known)
            if owner != "its own" or not call.took_derivatives:
                found.facts["memory"] = owner
            if not call.took_derivatives:
                known.append((name, x))
            yield name, found

    def _state(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        call = self.call(given, arrays)
        found = after_call(call.given, call.inputs, [*call.modules, *call.others], self.lib)
        return {f"{k} after the call": v for k, v in (found | call.surroundings).items()}

    def _live(self, call: _Call) -> dict[str, Any]:
        found = {k: v for k, v in walk(call.result, "output") if isinstance(v, self.lib.Tensor)}
        return {k: v for k, v in found.items() if v.requires_grad}

    def _cotangents(self, live: Mapping[str, Any], draw: int) -> list[Any]:
        return [self._draw(v, draw, k) for k, v in live.items()]

    def _draw(self, t: Any, draw: int, name: str) -> Any:
        values = random_like(array_of(t), self.seed, draw, name, self.move, self.held_in or half_name(dtype_name(t)))
        return self.lib.tensor(values, dtype=t.dtype)

    def _gradient(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        call = self.call(given, arrays)
        live = self._live(call)
        names = [k for k, v in walk(call.result, "output") if self._moves(v)]
        used = used_outputs(names, draw)
        again = bool(draw) and self.with_lib
        found = self._pass({k: v for k, v in live.items() if k in used}, call, draw, again)
        return {name_of_gradient(k, used, names): v for k, v in found.items()}

    def _pass(self, live: Mapping[str, Any], call: _Call, draw: int, again: bool) -> dict[str, Any]:
        """Gradients by a backward pass; with `again` also those after a second pass over the same graph."""

        def backward(retain_graph: bool) -> dict[str, Any]:
            if live:
                cotangents = self._cotangents(live, draw)
                with missing_where_lacking():
                    self.lib.autograd.backward(list(live.values()), cotangents, retain_graph=retain_graph)
            leaves = call.differentiable()
            return {k: t.grad if t.grad is None else plain_tensor(t.grad) for k, t in leaves.items()}

        found = backward(again)
        if again:
            try:
                found |= {f"{k} after a second pass": v for k, v in backward(False).items()}
            except RuntimeError as e:  # A graph may serve for one pass only, on both sides then.
                found["a second pass"] = f"raised {first_line(e)}"
        return found

    def _frozen(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        """Gradients where every other input and parameter needs none."""
        frozen = frozen_leaves([k for k in arrays if moving(k, arrays[k])], draw)
        if not frozen or not self.gradients:
            return {}
        try:
            call = self.call(given, arrays, frozen=frozen)
        except RuntimeError as e:
            if self.with_lib:
                return {"the call": f"raised {first_line(e)}"}
            raise Missing(first_line(e)) from e
        found = self._pass(self._live(call), call, draw, False)
        return {k: v for k, v in found.items() if k in arrays}

    def _moves(self, x: Any) -> bool:
        return isinstance(x, self.lib.Tensor) and (x.is_floating_point() or x.is_complex())

    def _forward(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        tangents = {
            k: random_like(x, self.seed, draw, k, self.move, self.held_in) for k, x in arrays.items() if moving(k, x)
        }
        ad = self.lib.autograd.forward_ad
        with missing_where_lacking(), ad.dual_level():
            call = self.call(given, arrays, tangents, grad=False)
            return {k: plain_tensor(_tangent(ad, v)) for k, v in walk(call.result, "output") if self._moves(v)}

    def _steps(self, given: Given, arrays: Mapping[str, Any], draw: int) -> dict[str, Any]:
        """Parameters (of a function, its inputs) after steps of an optimizer down a weighted sum of the results."""
        assert self.optimizer is not None
        leaves = {k: self._tensor(arrays[k], True) for k in given.arrays}
        modules = self._modules(arrays)
        trained = {f"parameter {k!r}": p for m in modules for k, p in m.named_parameters() if p.requires_grad}
        trained = trained or {k: t for k, t in leaves.items() if t.requires_grad}
        optimizer = self.optimizer(list(trained.values()))
        for _ in range(self.count):
            optimizer.zero_grad()
            with seeded(self.lib, self.seed):
                result = self.fn(*modules, *given.fill(leaves.__getitem__))
            found = {k: v for k, v in walk(result, "output") if isinstance(v, self.lib.Tensor) and v.requires_grad}
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
        with missing_where_lacking():
            first = grad(list(live.values()), list(leaves.values()), cotangents, create_graph=True, allow_unused=True)
            on = [(g, self._draw(g, draw, k)) for k, g in zip(leaves, first) if g is not None and g.requires_grad]
            second = (
                grad([g for g, _ in on], points, [t for _, t in on], allow_unused=True) if on else [None] * len(points)
            )
        names = [*leaves, *(f"the cotangent of {k}" for k in live)]
        return {
            k: plain_tensor(self.lib.zeros_like(p) if g is None else g)
            for k, p, g in zip(names, points, second, strict=True)
        }


def _tangent(ad: Any, t: Any) -> Any:
    tangent = ad.unpack_dual(t).tangent
    return t.detach() * 0 if tangent is None else tangent


def moving(name: str, x: Any) -> bool:
    """Return whether an input or a part of a module's state is differentiated by: all floating ones but buffers."""
    return inexact(x) and not name.startswith("buffer")


@contextlib.contextmanager
def derivatives_taken(lib: Any) -> Iterator[list[None]]:
    """A list that is not empty when a derivative was taken meanwhile."""
    taken: list[None] = []

    def watch(plain_call: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            taken.append(None)
            return plain_call(*args, **kwargs)

        return call

    plain_calls = lib.autograd.grad, lib.autograd.backward
    lib.autograd.grad, lib.autograd.backward = map(watch, plain_calls)
    try:
        yield taken
    finally:
        lib.autograd.grad, lib.autograd.backward = plain_calls


def _roots(made: Sequence[Any], known: Sequence[Any], lib: Any) -> list[tuple[str, Any]]:
    """The modules that were made and are no part of another, with a prefix for their names."""
    modules = [m for m in made if isinstance(m, lib.nn.Module)]
    parts = {id(c) for m in modules for c in m.modules() if c is not m} | {id(m) for m in known}
    roots = [m for m in modules if id(m) not in parts]
    return [(f"module {i} ({type(m).__name__}): ", m) for i, m in enumerate(roots)]


def _others(made: Iterable[Any], lib: Any) -> list[tuple[str, Any]]:
    """Optimizers, schedulers and scalers, with a prefix for the names in their state."""
    others = [m for m in made if not isinstance(m, lib.nn.Module)]
    return [(f"object {i} ({type(m).__name__}): ", m) for i, m in enumerate(others)]
