"""Random programs in other ways than line by line: as one compiled function, for each row of a batch, over two devices.

torch, eager, is the oracle of each: a compiled function gives what its lines give one by one, also when it is called
again with other numbers; `vmap` gives what a loop over the rows gives; a tensor that lies on two devices holds what it
would hold on one, and stays where it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..libs import Lib
from . import observe, prelude
from .omitted import Refused, compared, left_out, refusal
from .precision import NAME, Precision
from .programs import BUG, InvalidProgram, Mismatch, Program, Session, compare, compare_errors

MADE = re.compile(r"(v\d+) = torch\.(?:tensor|zeros|ones|full|arange|eye|linspace)\((?!.*\bv\d)[^;]*$")
"""A line that makes a tensor of numbers alone: an argument of the function that the other lines are."""
_FLAG = re.compile(r"\.requires_grad_\(\)$|, requires_grad=True")
_NUMBER = re.compile(r"-?\d+\.\d+")


@dataclass(frozen=True)
class Whole:
    """A program as a function of the tensors that its first lines make."""

    head: tuple[str, ...]
    body: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The arguments."""
        return [m[1] for m in map(MADE.match, self.head) if m]

    def source(self) -> str:
        """The function: what it returns are all tensors that have a name at its end."""
        lines = "".join(f"    {line}\n" for line in self.body)
        kept = "k[0] == 'v' and k[1:].isdigit() and isinstance(t, torch.Tensor)"
        return (
            f"def step({', '.join(self.names)}):\n{lines}    return {{k: t for k, t in locals().items() if {kept}}}\n"
        )

    def program(self, functions: bool = True) -> Program:
        """Its lines again, to be run one by one."""
        return Program((*self.head, *self.body), functions, watched=False)

    def elsewhere(self, names: Iterable[str] | None = None) -> Whole:
        """The same function of other numbers, in all arguments or in some."""
        changed = set(self.names if names is None else names)
        head = (other_numbers(x) if n in changed else x for n, x in zip(self.names, self.head))
        return replace(self, head=tuple(head))


def other_numbers(line: str) -> str:
    """A line with its broken numbers changed, some of them in sign."""

    def other(m: re.Match[str]) -> str:
        number = round(0.8 * float(m[0]) + 0.17, 3)
        return f"{number:+}" if m[0][0] == "-" else repr(number)  # -1-0.1j is a sum

    return _NUMBER.sub(other, line)


def whole(program: Program, way: str, torch: Lib) -> Whole:
    """The program as a function: what raises, what its way leaves out, and what needs either, is dropped."""
    head = tuple(x for x in program.lines if MADE.fullmatch(x) and "." in x)
    if way == "vmap":
        head = tuple(_FLAG.sub("", x) for x in head)
    session = Session(torch, program.functions)
    head = tuple(line for line in head if session.run(line) is None)
    known = {m[1] for m in map(MADE.match, head) if m}
    body: list[str] = []
    for line in (x for x in program.lines if x not in head and _FLAG.sub("", x) not in head):
        made = _bound(line)
        if left_out(line, way) or (_used(line) - made) - known:
            known -= made
            continue
        error = session.run(line)
        if error is not None:
            if not line.startswith(tuple(f"{n} = " for n in made)) or "; " in line:
                break  # what it has left behind is anybody's guess
            continue
        body.append(line)
        known |= made
        known -= _gone(line)
    return Whole(head, tuple(body))


def _bound(line: str) -> set[str]:
    """The variables that a line gives a value, as far as the names before `=` tell."""
    plain = line.partition(": ")[2] if line.startswith("with ") else line
    found: set[str] = set()
    for part in plain.split("; "):
        left, equals, _ = part.partition(" = ")
        if equals and re.fullmatch(r"v\d+(, v\d+)*,?", left):
            found.update(NAME.findall(left))
    return found


def _used(line: str) -> set[str]:
    return {*NAME.findall(line)}


def _gone(line: str) -> set[str]:
    return {*NAME.findall(line)} if line.startswith("del ") else set()


# --- compiled -----------------------------------------------------------------------------------------


def compare_compiled(program: Program, got: Lib, want: Lib) -> Mismatch | None:
    """The function three times, the last time with other numbers, then its gradients."""
    function = whole(program, "compile", want)
    if not function.body or not function.names:
        raise InvalidProgram("nothing to compile")
    mine, theirs = _Called(got, program, function, True), _Called(want, program, function, False)
    last = len(program.lines) - 1
    for call, made in enumerate((function, None, function.elsewhere()), 1):
        precision = Precision()
        error = theirs.call(made)
        if error is not None and (call == 1 or BUG.search(error[1])):
            raise InvalidProgram(error[1])
        mine_error = mine.call(made)
        if mine_error is not None and mine_error != error and (why := refusal(mine_error, "compile")):
            raise Refused(why)
        if found := compare_errors(mine_error, error):
            return Mismatch(last, "exception", f"call {call}: {found}")
        if error is not None:
            return None
        for where, text in _apart(mine, theirs, function, precision):
            return Mismatch(last, where, f"call {call}: {where}: {text}")
    return _gradients_apart(mine, theirs, last)


class _Called:
    """A library that calls the function of a program, compiled where it is not the oracle."""

    def __init__(self, lib: Lib, program: Program, function: Whole, compiled: bool) -> None:
        self.session = Session(lib, program.functions)
        exec(compile(function.source(), "<program>", "exec"), self.session.env)
        self.step = self.session.env["step"]
        if compiled:
            self.step = lib.module.compile(self.step)
        self.arguments: list[Any] = []

    def call(self, made: Whole | None) -> tuple[str, str] | None:
        """Call it with new arguments, or with the last ones again."""
        env = self.session.env
        if made is not None:
            for line in made.head:
                self.session.run(line)
            self.arguments = [env[name] for name in made.names]
        env.update(step=self.step, given=self.arguments, results=None)
        for name in [k for k in env if k[0] == "v" and k[1:].isdigit()]:
            del env[name]
        if made is not None:
            self.names = made.names
        error = self.session.run("results = step(*given)")
        if error is None:
            env.update(env["results"])
            env.update({f"v{1000 + i}": t for i, t in enumerate(self.arguments)})
        return error


def _apart(mine: _Called, theirs: _Called, function: Whole, precision: Precision) -> Iterable[tuple[str, str]]:
    want, got = theirs.session.state(False), mine.session.state(False)
    for line in (*function.head, *function.body):
        precision.after(line, None)
    precision.after("", want)
    for name, seen in want.items():
        if not isinstance(seen, dict):
            continue
        by_itself = seen.get("is_view") and not seen.get("shares")  # a view of what is not returned
        for each in (seen, got.get(name)):
            if isinstance(each, dict) and (by_itself or 0 in each.get("shape", ())):
                each.update(stride=(), storage_offset=0)
            elif isinstance(each, dict):
                each["stride"] = _steps(each)
    for where, text in observe.differences(got, want, precision):
        if not where.startswith("log") and all(compared(a.partition("[")[0], "compile") for a in where.split(".")[1:2]):
            yield where, text


def _steps(seen: dict[str, Any]) -> tuple[int, ...]:
    """Strides of the dimensions in which there is somewhere to go."""
    return tuple(s for size, s in zip(seen.get("shape", ()), seen.get("stride", ())) if size > 1)


def _gradients_apart(mine: _Called, theirs: _Called, last: int) -> Mismatch | None:
    """What a backward pass through all results leaves in the arguments."""
    line = (
        "sum((t.real if t.is_complex() else t).double().sum() for t in results.values() if t.requires_grad "
        "and (t.is_floating_point() or t.is_complex())).backward()"
    )
    if theirs.session.run(line) is not None:
        return None
    error = mine.session.run(line)
    if error is not None:
        why = refusal(error, "compile")
        if why:
            raise Refused(why)
        return Mismatch(last, "exception", f"backward pass: got {error[0]}({error[1][:200]!r}), want no exception")
    precision = Precision()
    precision.lowest = max(
        [
            0,
            *[
                {"float32": 1, "complex64": 1, "float16": 2, "bfloat16": 3}.get(str(t.dtype).rpartition(".")[2], 0)
                for t in theirs.session.env["results"].values()
            ],
        ]
    )
    for i, (m, t) in enumerate(zip(mine.arguments, theirs.arguments)):
        for name in ("grad",):
            g, w = getattr(m, name), getattr(t, name)
            one = {"grad.value": None if g is None else mine.session.lib.array(g)}
            two = {"grad.value": None if w is None else theirs.session.lib.array(w)}
            for where, text in observe.differences(one, two, precision, f"v{1000 + i}"):
                return Mismatch(last, where, f"backward pass: argument {i}: {text}")
    return None


# --- for each row -------------------------------------------------------------------------------------


def compare_rows(program: Program, got: Lib, want: Lib) -> Mismatch | None:
    """`vmap` over two rows against a loop over them; what both refuse is no difference."""
    function = whole(program, "vmap", want)
    if not function.body or not function.names:
        raise InvalidProgram("nothing to map")
    last = len(program.lines) - 1
    first = _row(want, program, function)
    if isinstance(first, str):
        raise InvalidProgram(first)
    given, results = first
    dims = [_dim(name, t) for name, t in zip(function.names, given)]
    second = _row(want, program, function.elsewhere({n for n, d in zip(function.names, dims) if d is not None}))
    if isinstance(second, str):
        raise InvalidProgram(second)
    other_results = second[1]
    mapped, their_error = _mapped(want, program, function, dims)
    if their_error is not None:  # rows have the memory of a row where they come first
        dims = [None if d is None else 0 for d in dims]
    stacked, error = _mapped(got, program, function, dims)
    if error is not None:
        if (why := refusal(error, "vmap")) or their_error is not None:
            raise Refused(why or "torch refuses it as well")
        return Mismatch(last, "exception", f"vmap: got {error[0]}({error[1][:300]!r}), want no exception")
    precision = Precision()
    for line in (*function.head, *function.body):
        precision.after(line, None)
    for name in results:
        a, b = results[name], other_results.get(name)
        if b is None or a.shape != b.shape or a.dtype != b.dtype:
            continue  # as many as a mask leaves of each row
        wanted = np.stack([a, b])
        if name not in stacked:
            return Mismatch(last, name, f"{name}: missing")
        precision.after("", {name: {"dtype": wanted.dtype.name, "value": wanted}})
        one, two = {"value": stacked[name]}, {"value": wanted}
        found = observe.differences(one, two, precision, name)
        if found and name in mapped:  # memory of a batch does not lie as that of a row
            found = observe.differences(one, {"value": mapped[name]}, precision, name) and found
        for where, text in found:
            return Mismatch(last, where, f"vmap over dimensions {dims}: {where}: {text}")
    return None


def _dim(name: str, t: np.ndarray) -> int | None:
    """Along which dimension an argument is mapped: the first, the last, or none; never none of all."""
    n = int(name[1:])
    return 0 if n % 3 == 0 else (t.ndim if n % 3 == 1 else (None if n else 0))


def _row(lib: Lib, program: Program, function: Whole) -> Any:
    session = Session(lib, program.functions)
    for line in function.head:
        session.run(line)
    given = [lib.array(session.env[name]) for name in function.names]
    for line in function.body:
        error = session.run(line)
        if error is not None:
            return error[1]
    tensors = {
        k: v for k, v in session.env.items() if k[0] == "v" and k[1:].isdigit() and isinstance(v, lib.tensor_type)
    }
    return given, {k: lib.array(t) for k, t in tensors.items()}


def _mapped(lib: Lib, program: Program, function: Whole, dims: list[int | None]) -> Any:
    session = Session(lib, program.functions)
    env = session.env
    exec(compile(function.source(), "<program>", "exec"), env)
    batches = []
    for name, d, line, other in zip(function.names, dims, function.head, function.elsewhere().head):
        session.run(line)
        one = env[name]
        session.run(other if d is not None else line)
        batches.append(one if d is None else lib.module.stack([one, env[name]], d))
    env.update(given=batches, dims=tuple(dims))
    if all(d is None for d in dims):
        return {}, ("ValueError", "nothing to map over")
    error = session.run("results = torch.vmap(step, in_dims=dims)(*given)")
    if error is not None:
        return {}, error
    return {k: lib.array(t) for k, t in env["results"].items()}, None


# --- over two devices ---------------------------------------------------------------------------------


def spread(line: str) -> str:
    """A line that makes a tensor of numbers, with that tensor put on two devices."""
    made = MADE.fullmatch(line)
    if not made:
        return line
    flag = _FLAG.search(line)
    plain = _FLAG.sub("", line).partition(" = ")[2]
    return f"{made[1]} = placed({plain}){'.requires_grad_()' if flag else ''}"


def two_devices() -> None:
    """Have two devices on the CPU; called before JAX is loaded."""
    flag = "--xla_force_host_platform_device_count=2"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


def placing(lib: Lib) -> Callable[[Any], Any]:
    """What puts a tensor on two devices: along the first dimension that two divide, or whole on both."""
    if lib.name == "torch":
        return lambda t: t
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((2,), ("rows",))

    def placed(t: Any) -> Any:
        split = next((d for d, n in enumerate(t.shape) if n and n % 2 == 0), None)
        spec = PartitionSpec() if split is None else PartitionSpec(*[None] * split, "rows")
        return t.to(NamedSharding(mesh, spec))

    return placed


def moved(env: dict[str, Any], placed: dict[str, tuple[Any, Any]]) -> list[tuple[str, str]]:
    """Tensors that were put on two devices and do not lie there any more as they did; new ones are taken in."""
    found = []
    for name, (t, (shape, sharding)) in list(placed.items()):
        if env.get(name) is not t or tuple(t.shape) != shape:
            del placed[name]
        elif not t.sharding.is_equivalent_to(sharding, t.dim()):
            found.append((f"{name}.sharding", f"got {t.sharding}, want {sharding}"))
    return found


def compare_on_devices(program: Program, got: Lib, want: Lib) -> Mismatch | None:
    """Line by line, with tensors of numbers on two devices here and on one there."""
    lines = tuple(spread(x) for x in program.lines if not left_out(x, "devices"))
    placed: dict[str, tuple[Any, Any]] = {}

    def look(session: Session, line: str) -> list[tuple[str, str]]:
        made = re.match(r"(v\d+) = placed\(", line)
        if made and made[1] in session.env:
            t = session.env[made[1]]
            placed[made[1]] = t, (tuple(t.shape), t.sharding)
        if ".data = " in line or ".set_(" in line:
            placed.clear()
        return moved(session.env, placed)

    names = {"placed": placing(got)}, {"placed": placing(want)}
    return compare(replace(program, lines=lines, way="lines"), got, want, names, look)


COMPARISONS = {"compile": compare_compiled, "vmap": compare_rows, "devices": compare_on_devices}


def compare_in_its_way(program: Program, got: Lib, want: Lib) -> Mismatch | None:
    """The first difference of a program, run in its way."""
    try:
        found = COMPARISONS.get(program.way, compare)(program, got, want)
    except TypeError as error:
        if "ScalarType ComplexHalf" not in str(error):
            raise
        raise InvalidProgram("torch cannot tell what is in such a tensor") from error
    if found is None or program.way == "lines":
        return found
    return replace(found, line=len(program.lines) - 1)


def one_by_one(program: Program, torch: Lib) -> list[Program]:
    """The lines that torch runs, for each set of numbers: what rounding decides in them is no difference."""
    if program.way in ("lines", "devices"):
        return [replace(program, way="lines")]
    function = whole(program, program.way, torch)
    return [f.program(program.functions) for f in (function, function.elsewhere())]


def source(program: Program, torch: Lib, package: str = "torchgrad_jax") -> str:
    """The program of a finding as a file to run."""
    if program.way == "devices":
        lines = "\n".join(map(spread, program.lines))
        return f"{_DEVICES}import {package} as torch\n{prelude.used(lines)}\n{_PLACED}{lines}\n"
    function = whole(program, program.way, torch)
    names = ", ".join(function.names)
    head, other = "\n".join(function.head), "\n".join(function.elsewhere().head)
    call = f"print(step({names}))"
    if program.way == "compile":
        calls = f"step = torch.compile(step)\n{head}\n{call}\n{call}\n{other}\n{call}"
    else:
        batch = f"rows = [torch.stack(r) for r in zip(rows, [{names}])]"
        calls = f"{head}\nrows = [{names}]\n{other}\n{batch}\nprint(torch.vmap(step)(*rows))"
    return f"import {package} as torch\n{prelude.used(function.source())}\n{function.source()}\n{calls}\n"


_DEVICES = 'import os\nos.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"\n'
_PLACED = """from jax.sharding import NamedSharding, PartitionSpec
import jax
mesh = jax.make_mesh((2,), ("rows",))
def placed(t):
    split = next((d for d, n in enumerate(t.shape) if n and n % 2 == 0), None)
    return t.to(NamedSharding(mesh, PartitionSpec(*([] if split is None else [None] * split + ["rows"]))))
"""
