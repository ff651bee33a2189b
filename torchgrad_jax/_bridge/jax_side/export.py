"""Functions over tensors as StableHLO: `export` makes an `Exported`, which runs, and saves itself to a file."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import os
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import IO, Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.extend.core import InconclusiveDimensionOperation

from ..._core.arrays import devices
from ..._core.errors.messages import AsWritten, NoDerivative, Unsupported
from ..._core.files.atomic import replacing
from ..._core.homes import home_of
from ..._core.jax.own_kernels import jit
from ..._core.jax.target import platform, traced_for
from ..._core.jax.x64 import of_c
from ..._core.random.keys import checked, drawing_from
from ..._core.state import GRAD, MODES
from ..._engine.graph.history import edge_of, requires_grad_of
from ..._engine.graph.node import accumulator
from ..._engine.graph.record import no_grad
from ..._engine.memory.strided import read
from ..._engine.memory.tensor import Tensor, wrap_array, wrap_beside
from ..._engine.passes.walk import run as run_pass
from ..._functions.create import from_host
from ..compile.trace.traced_program import trace_program
from .any_size import AnySize, SizeMatters, corners
from .container_forms import build, describe, leaves_of
from .exported import is_of_numpy, needs_flatbuffers, read_exported
from .forward_mode import is_inexact, with_tangents
from .interop import operator_of


class Exported:
    """A function as StableHLO, with the tensors that it reads and writes; needs no source to run.

    Calling it runs the function; what the function wrote is kept in `state` for the next call. It was made for certain
    containers of tensors, dtypes and shapes, of which some dimensions may have been left open.
    """

    def __init__(
        self,
        program: Any,
        state: list[Any],
        facts: dict[str, Any],
        gradient: Any = None,
        classes: Mapping[str, type] | None = None,
    ) -> None:
        self.program, self.gradient = program, gradient
        self.state = [wrap_array(a) for a in state]
        self._facts, self._classes = facts, dict(classes or {})
        self._operator = operator_of(_with_gradients(program, gradient, facts.get("gradient")))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(self.state, args, kwargs)

    def run(self, state: Sequence[Tensor], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run the function with other tensors as its state; what it writes is written to them."""
        names: list[str] = []
        leaves = self._leaves(args, kwargs, names)
        self._check(leaves, names)
        recorded = MODES.bits & GRAD and MODES.run.at_once and any(map(requires_grad_of, leaves))
        if recorded and self.gradient is None:  # elsewhere the backward pass raises it
            raise RuntimeError(_WITHOUT_GRADIENTS)
        given = [x._m.device for x in leaves if isinstance(x, Tensor)]
        there = given[0] if given else devices.default_device()
        # Other arrays may be written to the state in the meantime.
        held = [wrap_beside(read(t), there) if MODES.run.at_once else t.detach() for t in state]
        outs = self._operator(held, leaves)
        with no_grad():
            for i, k in self._facts["writes"]:
                state[i].copy_(outs[k])
        results = outs[: self._facts["results"]]
        return build(self._facts["out"], results, self._classes)

    def _leaves(self, args: Any, kwargs: dict[str, Any], names: list[str]) -> list[Any]:
        """The tensors among the arguments, and the words of the key that random numbers come from."""
        by_position, by_name = self._facts["form"][1]
        words = []
        if self._facts["key"] is not None:
            if "rngs" not in kwargs:
                raise TypeError("exported with random numbers from a key, called without rngs=")
            key = checked(_key_of(kwargs.pop("rngs")))
            if str(jax.random.key_impl(key)) != self._facts["key"]:
                raise TypeError(
                    f"exported for a key of {self._facts['key']} as rngs, called with one of {jax.random.key_impl(key)}"
                )
            words = [wrap_array(jax.random.key_data(key))]
        found = leaves_of(by_position, [*args], "args", names)
        found += leaves_of(by_name, kwargs, "kwargs", names)
        names += ["rngs"] * len(words)
        return found + words

    def _check(self, leaves: Sequence[Tensor], names: Sequence[str]) -> None:
        want = [tuple(s) for s in self._facts["shapes"]]
        sizes: dict[str, int] = {}
        kinds = [str(a.dtype) for a in self.program.in_avals[len(self.state) :]]
        for x, shape, kind, name in zip(leaves, want, kinds, names, strict=True):
            if x.device.type == "meta":
                raise RuntimeError(f"exported for tensors with values, called with one on meta as {name}")
            if not _fits(x.shape, shape, sizes):
                called = [tuple(x.shape) for x in leaves]
                raise RuntimeError(
                    f"exported for arguments of shapes {want}, called with {called}: {name} does not fit"
                )
            if x._m.dtype.np.name != kind:
                called = [x._m.dtype.np.name for x in leaves]
                raise RuntimeError(
                    f"exported for arguments of dtypes {kinds}, called with {called}: {name} does not fit"
                )

    def sizes(self, *args: Any, **kwargs: Any) -> dict[str, int]:
        """Return the sizes that the names of dimensions stand for in a call, as far as its arguments fit."""
        found: dict[str, int] = {}
        for x, shape in zip(self._leaves(args, kwargs, []), self._facts["shapes"]):
            _fits(x.shape, shape, found)
        return found

    @property
    def mlir(self) -> str:
        """The program as text."""
        return self.program.mlir_module()

    @property
    def platforms(self) -> tuple[str, ...]:
        """Where it runs: `cpu`, `cuda`, `rocm`, `tpu`."""
        return tuple(self.program.platforms)

    def save(self, path: str | os.PathLike[str] | IO[bytes]) -> None:
        """Write program and state to one file.

        Args:
            path: the file, or an open one of bytes.

        Raises:
            ModuleNotFoundError: the package `flatbuffers` is not installed.
        """
        needs_flatbuffers("save")
        with _opened(path, writing=True) as whole, zipfile.ZipFile(whole, "w") as file:
            file.writestr("program", bytes(self.program.serialize()))
            if self.gradient is not None:
                file.writestr("gradient", bytes(self.gradient.serialize()))
            file.writestr("told.json", json.dumps({**self._facts, "state": len(self.state)}))
            for i, held in enumerate(self.state):
                with file.open(f"state/{i}.npy", "w") as part:
                    kept = np.asarray(read(held))
                    own = is_of_numpy(kept.dtype)
                    np.save(part, kept if own else kept.view(f"u{kept.dtype.itemsize}"))
            file.writestr("dtypes.json", json.dumps([t._m.dtype.np.name for t in self.state]))


def _fits(shape: Sequence[int], want: Sequence[Any], sizes: dict[str, int]) -> bool:
    """Return whether an array has a shape, in which names stand for sizes that must be the same everywhere."""
    if len(shape) != len(want):
        return False
    for n, s in zip(shape, want):
        times, name = (s, None) if isinstance(s, int) else _parsed(s)
        if name is None and n != times:
            return False
        if name is not None and (n % times or sizes.setdefault(name, n // times) != n // times):
            return False
    return True


_WITHOUT_GRADIENTS = (
    "exported without gradients, called with tensors that require them: export(..., gradients=True) "
    "exports them too, and no_grad() or detach() say that none are wanted"
)


def _with_gradients(program: Any, gradient: Any, about: Any) -> Callable[..., Any]:
    """The program as a function of state and arguments, whose backward pass is the other program, if there is one."""

    @jax.custom_jvp
    def gradients(kept: list[Any], given: list[Any]) -> list[Any]:
        return gradient.call(kept, given)

    @gradients.defjvp
    def refuse(*_: Any) -> Any:
        raise RuntimeError("exported programs have gradients of the first order only, and no forward mode")

    def run(state: list[Any], arrays: list[Any]) -> list[Any]:
        n = len(state)

        def forward(*both: Any) -> Any:
            return program.call(list(both[:n]), list(both[n:]))

        def back(both: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
            if gradient is None:
                raise NoDerivative(_WITHOUT_GRADIENTS, RuntimeError)
            of_results = iter(cotangents)
            slopes = [next(of_results) if is_inexact(r) else None for r in program.out_avals]
            kept = [both[i] for i in about["state"]]
            found = gradients(kept, [*both[n:], *[slopes[k] for k in about["results"]]])
            by_argument = dict(zip(about["wanted"], found))
            return [
                by_argument[i - n] if i - n in by_argument else jnp.zeros(a.shape, a.dtype)
                for i, a in enumerate(both)
                if is_inexact(a)
            ]

        return with_tangents(forward, back)(*state, *arrays)

    return run


def _opened(file: Any, writing: bool) -> contextlib.AbstractContextManager[Any]:
    """The file at a path, opened for a block; or one that is open already, and stays so."""
    if not isinstance(file, str | bytes | os.PathLike):
        return contextlib.nullcontext(file)
    return replacing(file) if writing else open(file, "rb")


def load_exported(path: str | os.PathLike[str] | IO[bytes], classes: Sequence[type] = ()) -> Exported:
    """Read what `Exported.save` wrote.

    The file need not be trusted: its programs are looked through before anything of them runs. XLA's reader of
    programs, which is native code, ends the process for a few damaged ones; a service that reads the files of others
    does so in a process of its own.

    Args:
        path: the file, or an open one of bytes that can seek.
        classes: dataclasses and named tuples among the results of the function. Other dataclasses come back as
            `types.SimpleNamespace`, other named tuples as ones with the same fields; arguments may be any objects with
            the right attributes.

    Raises:
        RuntimeError: the file is damaged, or its program does more than to compute, such as to call Python.
        ModuleNotFoundError: the package `flatbuffers` is not installed.
    """
    needs_flatbuffers("load_exported")
    if not all(isinstance(c, type) for c in classes):
        raise TypeError(f"load_exported: classes is a list of classes, got {classes!r}")
    known = {f"{home_of(c)}.{c.__qualname__}": c for c in classes}
    with _opened(path, writing=False) as file:
        return Exported(*read_exported(file), known)


def export(
    f: Callable[..., Any],
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    shapes: Any = None,
    constraints: Sequence[str] = (),
    platforms: Sequence[str] | None = None,
    gradients: bool = False,
    rngs: Any = None,
) -> Exported:
    """Export a function over tensors (or a whole training step) as StableHLO, through jax.export.

    Args:
        f: takes and returns tensors, in dicts, lists, tuples, named tuples and dataclasses, together with numbers and
            strings that are part of the program. What it reads and writes of the outside becomes the state.
        *args: arguments of the shapes and dtypes to export for.
        kwargs: arguments by name.
        shapes: dimensions that may have any size. A list with one entry for each of `args`, or a dict of entries by the
            names of arguments: "b, ..." names the first dimension of a tensor `b`, "b, 8*n" the second one
            a multiple of 8; None leaves a tensor as it is. Containers of tensors have containers of entries. The
            same name means the same size.
        constraints: what holds of these sizes, as `["b >= 2"]`: `x[1:]` needs that.
        platforms: where it is to run, for example `["cpu", "cuda", "tpu"]`; by default where JAX runs now.
            What depends on the platform is chosen for the first of them, unless JAX runs on one of them now.
        gradients: also export the backward pass with respect to the arguments.
        rngs: a key of `jax.random`, for functions that draw random numbers. The program takes them from the key that
            it is called with, as `rngs=`.

    Raises:
        RuntimeError: where `f` draws random numbers without a key, makes new state, sets gradients that remain,
            looks at values, or does something else at another size.

    Example:
        >>> import torchgrad_jax as torch
        >>> exported = torch.interop.export(torch.sin, torch.zeros(2), shapes=["n"])
        >>> exported(torch.zeros(3))
        tensor([0., 0., 0.])
    """
    _check_options(kwargs, shapes, constraints, platforms)
    with _traced_for(platforms):
        return _exported(f, args, dict(kwargs or {}), shapes, constraints, platforms, gradients, rngs)


def _traced_for(platforms: Sequence[str] | None) -> Any:
    """Trace for the first of some platforms, unless the one that JAX has is among them."""
    here = {"gpu": ("cuda", "rocm")}.get(platform(), (platform(),))
    return nullcontext() if not platforms or {*platforms} & {*here} else traced_for(platforms[0])


def _exported(
    f: Any, args: Any, kwargs: dict[str, Any], shapes: Any, constraints: Any, platforms: Any, gradients: bool, rngs: Any
) -> Exported:
    made = _Maker(f, args, kwargs, shapes, constraints, rngs)
    forward = made.traced(False)
    state = [s.storage(forward.leaves[0]).array for s in _inputs(forward)]
    program = made.exported(forward, platforms)
    facts = made.facts(forward, program)
    if not gradients:
        return Exported(program, state, facts, None, made.classes)
    backward = made.traced(True)
    gradient = made.exported(backward, platforms, len(made.wanted))
    places = {id(s.what): i for i, s in enumerate(_inputs(forward))}
    added = [s for s in _inputs(backward) if id(s.what) not in places]
    if added:
        raise RuntimeError("export: the gradients read tensors that the function itself does not")
    facts["gradient"] = {
        "state": [places[id(s.what)] for s in _inputs(backward)],
        "results": made.sloped,
        "wanted": made.wanted,
    }
    return Exported(program, state, facts, gradient, made.classes)


@dataclasses.dataclass
class _Trace:
    """What a function did at each of the sizes that it is traced at."""

    programs: list[Any]
    leaves: list[list[Tensor]]
    """The arguments, for each size."""


def _inputs(trace: _Trace) -> list[Any]:
    """Return what the program reads of the outside; what the function makes again each time is a constant of it."""
    own = trace.programs[0].constants
    both = zip(*[p.sources for p in trace.programs])
    return [
        s[0] for s in both if s[0].kind == "grad" or (s[0].kind == "tensor" and _is_one(s) and id(s[0].what) not in own)
    ]


def _is_one(sources: Sequence[Any]) -> bool:
    return all(s.what is sources[0].what for s in sources)


class _Maker:
    """One call of `export`."""

    def __init__(self, f: Any, args: Any, kwargs: dict[str, Any], shapes: Any, constraints: Any, rngs: Any) -> None:
        self.f, self.classes = f, dict[str, type]()
        self.leaves: list[Tensor] = []
        self.form = describe(([*args], kwargs), self.leaves, self.classes, "the arguments")
        self.key = None if rngs is None else checked(_key_of(rngs))
        """The last one of `leaves` has its words."""
        if self.key is not None:
            if "rngs" in kwargs:
                raise ValueError("export: the function has an argument rngs of its own")
            self.leaves.append(wrap_array(jax.random.key_data(self.key)))
        self.shapes = [list(t.shape) for t in self.leaves]
        """Of numbers, and of texts where a dimension may have any size."""
        if shapes is not None:
            _name_dimensions(_entries(f, self.form[1], shapes), self.shapes)
        names = dict.fromkeys(_parsed(s)[1] for shape in self.shapes for s in shape if isinstance(s, str))
        self.names = [str(name) for name in names]
        self.symbols = _symbols(self.names, constraints)
        self.points = self._points()
        """The sizes to trace at: some that tell, and those of the arguments."""
        self.out: Any = None
        """The form of the results."""
        self.sloped: list[int] = []
        """The results that depend on arguments in a way that has gradients."""
        self.wanted = [i for i, t in enumerate(self.leaves) if t.dtype.is_floating_point or t.dtype.is_complex]

    def _points(self) -> list[tuple[int, ...]]:
        if not self.names:
            return [()]
        own: dict[str, int] = {}
        for t, shape in zip(self.leaves, self.shapes):
            if not _fits(t.shape, shape, own):
                raise ValueError(f"export: the sizes of the arguments do not fit {shape}, {own} so far")
        points = corners(len(self.names))
        given = tuple(own[name] for name in self.names)
        # A dimension of one element may look otherwise in everything.
        telling = min(given) > 1 and given not in points
        return [*points, given] if telling else points

    # --- tracing ----------------------------------------------------------------------------------

    def traced(self, backward: bool) -> _Trace:
        found = [self._at(point, backward) for point in self.points]
        return _Trace([p for p, _ in found], [leaves for _, leaves in found])

    def _at(self, point: Sequence[int], backward: bool) -> tuple[Any, list[Tensor]]:
        leaves = self._arguments(dict(zip(self.names, point)))
        slopes: list[Tensor] = []
        if backward:
            leaves = [t.detach().requires_grad_() if i in self.wanted else t for i, t in enumerate(leaves)]
            slopes = self._slopes(leaves)

        def run() -> tuple[list[Tensor], None]:
            outs = self._call(leaves)
            return (self._gradients(outs, leaves, slopes) if backward else outs), None

        program = _traced(run, [*leaves, *slopes])
        _refuse_what_cannot_be_exported(program)
        return program, [*leaves, *slopes]

    def _arguments(self, sizes: Mapping[str, int]) -> list[Tensor]:
        """Tensors like the arguments at some sizes, each with memory of its own: those of the caller may share it."""
        out = []
        for t, shape in zip(self.leaves, self.shapes):
            if t._m.device.type == "meta":
                t = from_host(np.zeros(t._m.shape, t._m.dtype.np), devices.default_device())
            if all(isinstance(s, int) for s in shape):
                x = t.detach().clone()
            else:
                x = t.new_zeros([_size(s, sizes) for s in shape])
            out.append(x.requires_grad_() if requires_grad_of(t) else x)
        return out

    def _call(self, leaves: Sequence[Tensor]) -> list[Tensor]:
        args, kwargs = build(self.form, leaves, self.classes)
        outs: list[Tensor] = []
        with self._drawing(leaves):
            results = self.f(*args, **kwargs)
        form = describe(results, outs, self.classes, "the results")
        if self.out is not None and form != self.out:
            raise SizeMatters("export: the results have another form at another size")
        self.out = form
        return outs

    def _drawing(self, leaves: Sequence[Tensor]) -> Any:
        """A context in which random numbers come from the key among the arguments, if there is one."""
        if self.key is None:
            return contextlib.nullcontext()
        words = read(leaves[len(self.leaves) - 1])
        return drawing_from(jax.random.wrap_key_data(words, impl=str(jax.random.key_impl(self.key))))

    def _slopes(self, leaves: Sequence[Tensor]) -> list[Tensor]:
        """Return what comes in to the backward pass: like each result that requires a gradient."""
        shapes: list[Any] = []

        def run() -> tuple[list[Tensor], None]:
            outs = self._call(leaves)
            self.sloped = [k for k, t in enumerate(outs) if requires_grad_of(t)]
            shapes[:] = [(tuple(outs[k].shape), outs[k].dtype) for k in self.sloped]
            return outs, None

        _traced(run, list(leaves))
        if not shapes:
            raise RuntimeError("export: no result requires a gradient")
        return [leaves[0].new_zeros(shape, dtype=dtype) for shape, dtype in shapes]

    def _gradients(self, outs: Sequence[Tensor], leaves: Sequence[Tensor], slopes: Sequence[Tensor]) -> list[Tensor]:
        asked = [leaves[i] for i in self.wanted]
        found = run_pass(
            [edge_of(outs[k]) for k in self.sloped],  # type: ignore[misc] - those that require grad have one
            list(slopes),
            keep=False,
            create=False,
            targets=[(accumulator(t), 0) for t in asked],
            accumulate=False,
        )
        return [t.new_zeros(t.shape) if g is None else g for t, g in zip(asked, found)]

    # --- making the program -----------------------------------------------------------------------

    def exported(self, trace: _Trace, platforms: Any, results: int | None = None) -> Any:
        """The program of a trace, of which only so many results may be wanted."""
        state = [s.storage(trace.leaves[0]).array for s in _inputs(trace)]
        try:
            steps = self._one_program(trace)
            avals = [jax.ShapeDtypeStruct(self._shape(i, trace), read(t).dtype) for i, t in enumerate(trace.leaves[0])]

            def run(state: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
                return steps(state, arrays)[:results]

            return jax.export.export(of_c(jit(run)), platforms=platforms)(state, avals)
        except InconclusiveDimensionOperation as e:
            raise RuntimeError(
                f"export: {str(e).splitlines()[0]} Sizes that do not fit are excluded by constraints=[...]"
            ) from None
        except SizeMatters as e:
            names = ", ".join(self.names)
            raise RuntimeError(f"export: the function does something else at another size of {names}: {e}") from None

    def _shape(self, i: int, trace: _Trace) -> tuple[Any, ...]:
        """The shape of an argument, or of what comes in to the backward pass, with names for sizes."""
        if not self.symbols:
            return tuple(trace.leaves[0][i].shape)
        return AnySize(self.symbols, self.points).shape([tuple(leaves[i].shape) for leaves in trace.leaves])

    def _one_program(self, trace: _Trace) -> Callable[..., list[Any]]:
        programs, inputs = trace.programs, _inputs(trace)
        _require_equal_sources(programs)
        where = {id(s): i for i, s in enumerate(inputs)}
        first = programs[0]

        def run(state: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
            any_size = AnySize(self.symbols, self.points)
            values = []
            for each in zip(*[p.sources for p in programs]):
                s = each[0]
                if id(s) in where:
                    values.append(state[where[id(s)]])
                elif s.kind == "tensor":
                    values.append(any_size.constant([e.what.array for e in each]))
                else:
                    values.append(arrays[s.what] if s.kind == "arg" else s.of and s.what[s.of])
            if not self.symbols:
                return first.run(values)
            parts, consts = [p.jaxpr for p in programs], [p.consts for p in programs]
            return any_size.run(parts, (), consts, values)

        return run

    def facts(self, trace: _Trace, made: Any) -> dict[str, Any]:
        """Return what a file says of the program."""
        program, where = trace.programs[0], {id(s): i for i, s in enumerate(_inputs(trace))}
        results = len(made.out_avals) - len(program.writes)
        results -= sum(m is not None for _, _, m, _ in program.grads)
        return {
            "shapes": self.shapes,
            "writes": [(where[id(program.sources[i])], k) for i, k, _ in program.writes],
            "results": results,
            "form": self.form,
            "out": self.out,
            "key": None if self.key is None else str(jax.random.key_impl(self.key)),
        }


def _key_of(key: Any) -> Any:
    """A key of JAX's, of which a tensor may hold the words."""
    return read(key) if isinstance(key, Tensor) else key


def _size(size: int | str, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    times, name = _parsed(size)
    return times * sizes[name]


def _traced(run: Any, leaves: Sequence[Tensor]) -> Any:
    try:
        return trace_program(run, leaves, for_file=True)[0]
    except AsWritten as error:
        raise RuntimeError(f"export: {error}, which no program can do") from None
    except Unsupported as error:
        raise Unsupported(str(error).replace("torch.compile:", "export:")) from None


def _refuse_what_cannot_be_exported(program: Any) -> None:
    if program.new_state:
        raise RuntimeError("export: the function makes state of its own; run it once before it is exported")
    if any(s.kind == "draw" for s in program.sources):
        raise RuntimeError(
            "export: the function draws random numbers; export(..., rngs=jax.random.key(0)) takes them from a key"
        )
    if any(i < 0 for i, _, _ in program.writes):
        raise RuntimeError("export: the function writes to its arguments")


def _require_equal_sources(programs: Sequence[Any]) -> None:
    kinds = [[(s.kind, None if s.kind == "tensor" else s.what) for s in p.sources] for p in programs]
    writes = [[w[:2] for w in p.writes] for p in programs]
    if any(k != kinds[0] for k in kinds) or any(w != writes[0] for w in writes):
        raise SizeMatters("it reads or writes other tensors")
    if not all(_is_one([p.sources[i] for p in programs]) for i, _ in writes[0]):
        raise SizeMatters("it writes to other tensors")


# --- names of dimensions --------------------------------------------------------------------------

_NAMED = re.compile(r"(?:(\d+)\s*\*\s*)?([A-Za-z_]\w*)")


def _parsed(text: str) -> tuple[int, str]:
    """`8*n` is 8 and `n`."""
    match = _NAMED.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"export: {text!r} is no dimension; write a name (b), a multiple of one (8*b), a number, _ or ..."
        )
    return int(match[1] or 1), match[2]


_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def _check_options(kwargs: Any, shapes: Any, constraints: Any, platforms: Any) -> None:
    if not isinstance(kwargs, Mapping | None) or not all(isinstance(k, str) for k in kwargs or ()):
        raise TypeError(f"export: kwargs is a dict of arguments by name, got {kwargs!r}")
    if not isinstance(shapes, list | tuple | Mapping | None):
        raise TypeError(f"export: shapes is a list or dict with an entry for each argument, got {shapes!r}")
    if isinstance(constraints, str) or not all(isinstance(c, str) for c in constraints):
        raise TypeError(f"export: constraints is a list of texts such as 'b >= 2', got {constraints!r}")
    if platforms is None:
        return
    if isinstance(platforms, str) or not platforms or any(p not in _PLATFORMS for p in platforms):
        raise ValueError(f"export: platforms is a list of some of {list(_PLATFORMS)}, got {platforms!r}")


def _symbols(names: Sequence[str], constraints: Sequence[str]) -> list[Any]:
    """JAX's dimensions of these names."""
    for text in constraints:
        for word in re.findall(r"[A-Za-z_]\w*", text):
            if word not in (*names, "mod", "floordiv", "max", "min"):
                raise ValueError(f"export: {text!r} in constraints names {word}, which shapes does not")
    if not names:
        return []
    try:
        return list(jax.export.symbolic_shape(", ".join(names), constraints=tuple(constraints)))
    except ValueError as error:
        raise ValueError(f"export: constraints={list(constraints)}: {error}") from None


def _entries(f: Any, forms: Any, shapes: Any) -> list[tuple[Any, Any]]:
    """The forms of arguments, each with its entry in `shapes`."""
    args, kwargs = list(forms[0][1]), dict(forms[1][1])
    if not isinstance(shapes, Mapping):
        if len(shapes) != len(args):
            raise ValueError(f"export: shapes has {len(shapes)} entries for {len(args)} arguments")
        return list(zip(args, shapes))
    named = {**dict(zip(_names_by_position(f), args)), **kwargs}
    for name in shapes:
        if name not in named:
            raise ValueError(f"export: shapes names the argument {name!r}; there are {list(named)}")
    return [(named[name], entry) for name, entry in shapes.items()]


def _names_by_position(f: Any) -> list[str]:
    try:
        parameters = inspect.signature(getattr(f, "forward", f)).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _name_dimensions(entries: Sequence[tuple[Any, Any]], shapes: list[list[Any]]) -> None:
    """Put the names that entries give to dimensions into the shapes of the tensors."""

    def look(form: Any, entry: Any) -> None:
        kind = form[0]
        if entry is None:
            return
        if kind == "tensor" and isinstance(entry, str):
            shapes[form[1]] = _named_shape(entry, shapes[form[1]])
        elif kind in ("list", "tuple") and isinstance(entry, list | tuple) and len(entry) == len(form[1]):
            for inner, e in zip(form[1], entry):
                look(inner, e)
        elif kind in ("dict", "object") and isinstance(entry, Mapping):
            inner = dict(form[-1])
            for k, e in entry.items():
                if k not in inner:
                    raise ValueError(f"export: shapes names {k!r}, which the argument does not have")
                look(inner[k], e)
        else:
            raise ValueError(f"export: {entry!r} in shapes does not fit a {form[0]} among the arguments")

    for form, entry in entries:
        look(form, entry)


def _named_shape(text: str, shape: list[Any]) -> list[Any]:
    parts = [p.strip() for p in text.split(",") if p.strip()]
    if "..." in parts:
        at = parts.index("...")
        parts[at : at + 1] = ["_"] * (len(shape) - len(parts) + 1)
    if len(parts) != len(shape):
        raise ValueError(f"export: {text!r} names {len(parts)} dimensions of a tensor of shape {tuple(shape)}")
    out: list[Any] = []
    for part, n in zip(parts, shape):
        if part == "_" or part.isdigit():
            if part != "_" and int(part) != n:
                raise ValueError(f"export: {text!r} does not fit a tensor of shape {tuple(shape)}")
            out.append(n)
            continue
        times, name = _parsed(part)
        if n % times:
            raise ValueError(f"export: {text!r} does not fit a tensor of shape {tuple(shape)}")
        out.append(name if times == 1 else f"{times}*{name}")
    return out
