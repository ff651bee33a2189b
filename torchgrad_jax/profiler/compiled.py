"""Where the time of a compiled step goes: measured for each instruction of XLA, told by line of the user."""

from __future__ import annotations

import collections
import html
import linecache
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax


class Spent(NamedTuple):
    """The time of one kind of step on one line of the user's."""

    function: str
    file: str
    line: int
    operation: str
    """The primitive of JAX, such as `dot_general`."""
    microseconds: float
    """In one call, of all threads together."""


class CompiledProfile:
    """What `profile_compiled` has measured."""

    def __init__(self, spent: list[Spent]) -> None:
        self.spent = sorted(spent, key=lambda s: -s.microseconds)
        self.total = sum(s.microseconds for s in spent)
        """Microseconds of one call."""

    def lines(self) -> list[tuple[tuple[str, str, int], float, list[Spent]]]:
        """List for each line (function, file, number), microseconds, and what they went to; the longest first."""
        found: dict[tuple[str, str, int], list[Spent]] = {}
        for s in self.spent:
            found.setdefault((s.function, s.file, s.line), []).append(s)
        rows = [(k, sum(s.microseconds for s in v), v) for k, v in found.items()]
        return sorted(rows, key=lambda row: -row[1])

    def table(self, row_limit: int = 20) -> str:
        """Return the lines that take longest, as text."""
        rows = [f"{'share':>6} {'us':>9}  function, line, and the operations that take longest"]
        for (function, file, line), time, spent in self.lines()[:row_limit]:
            kinds = ", ".join(f"{s.operation} {s.microseconds / max(time, 1e-9):.0%}" for s in spent[:3])
            at = f"{Path(file).name}:{line}" if line else ""
            rows.append(f"{time / max(self.total, 1e-9):6.1%} {time:9.1f}  {function} {at}  {kinds}")
            if source := linecache.getline(file, line).strip():
                rows.append(f"{'':18}{source}")
        return "\n".join(rows)

    def export_html(self, path: str) -> None:
        """Write a page with a bar for each function and each of its lines."""
        functions: dict[str, list[Any]] = {}
        for row in self.lines():
            functions.setdefault(row[0][0], []).append(row)
        rows = []
        for function, lines in functions.items():
            name = html.escape(function or "Elsewhere")
            rows.append(self._row("function", sum(time for _, time, _ in lines), "", name))
            for (_, file, line), time, spent in lines:
                source = linecache.getline(file, line).strip() or "not on a line of yours"
                kinds = ", ".join(f"{s.operation} {_duration(s.microseconds)}" for s in spent[:6])
                at = f"{Path(file).name}:{line}" if line else ""
                what = f"<code>{html.escape(source)}</code><small>{html.escape(kinds)}</small>"
                rows.append(self._row("line", time, html.escape(at), what))
        page = _PAGE.format(total=_duration(self.total), rows="\n".join(rows))
        Path(path).write_text(page, "utf-8")

    def _row(self, kind: str, time: float, at: str, what: str) -> str:
        share = time / max(self.total, 1e-9)
        bar = f'<span class="bar" style="width:{share * 100:.1f}%"></span>'
        cells = (bar, f"{share:.1%}", _duration(time), at, what)
        return f'<tr class="{kind}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"

    def __repr__(self) -> str:
        return self.table()


def _duration(microseconds: float) -> str:
    """A time as people read it."""
    return f"{microseconds / 1000:.2f} ms" if microseconds >= 1000 else f"{microseconds:.1f} us"


_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>A compiled step</title><style>
:root {{ color-scheme: light dark }} small {{ display: block; color: GrayText }}
body {{ margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem; font: 15px/1.5 system-ui, sans-serif }}
h1 {{ font-size: 1.35rem }} div {{ overflow-x: auto }} table {{ border-collapse: collapse; width: 100% }}
td {{ padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884; vertical-align: top; white-space: nowrap }}
td:first-child {{ width: 25%; min-width: 5rem }} td:nth-child(2), td:nth-child(3) {{ text-align: right }}
td:last-child {{ width: 60%; min-width: 16rem; white-space: normal; overflow-wrap: anywhere }}
.bar {{ display: inline-block; height: .7rem; background: #5090d0 }} .line .bar {{ opacity: .6 }}
.function td {{ font-weight: 600; padding-top: 1rem }}
</style></head><body><h1>{total} in one call, all threads together</h1><div><table>
{rows}
</table></div></body></html>
"""


def profile_compiled(step: Any, *args: Any, calls: int = 5, **kwargs: Any) -> CompiledProfile:
    """Call a compiled function several times, and tell on which lines of the user its time is spent.

    What it writes is written: a training step is taken `calls` times, and once before if it has to be traced.

    Args:
        step: what `torch.compile` returned.
        args, kwargs: what it is called with.
        calls: how many calls are measured.

    Returns:
        The times: printed as a table, `lines()` as data, `export_html(path)` as a page.

    Raises:
        TypeError: if the function is not compiled.
        RuntimeError: if it runs eagerly.

    Example:
        >>> import torchgrad_jax as torch
        >>> f = torch.compile(lambda x: (x @ x).tanh().sum())
        >>> prof = torch.profiler.profile_compiled(f, torch.ones(300, 300))
        >>> prof.lines()[0][1] > 0
        True
    """
    if not hasattr(step, "lower") or not hasattr(step, "counts"):
        raise TypeError(f"profile_compiled takes a function that torch.compile returned, not {step!r}")
    _wait_for(step(*args, **kwargs))
    program = step.lower(*args, **kwargs)
    places = _Places(_fresh_text(program))
    backward = None if program.backward is None else _Places(_fresh_text(program.backward))
    times = _measured(lambda: step(*args, **kwargs), calls)
    spent: dict[tuple[str, str, int, str], float] = collections.defaultdict(float)
    for (module, op), time in times.items():
        for known in (places, backward):
            if known is not None and known.module == module:
                spent[known.of(op)] += time / calls / 1000
                break
    return CompiledProfile([Spent(*place, time) for place, time in spent.items()])


def _fresh_text(program: Any) -> str:
    """The optimized program, compiled again: one from the cache on disk may tell lines of other code."""
    kept = jax.config.jax_compilation_cache_include_metadata_in_key  # type: ignore[attr-defined]
    jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
    try:
        return program.as_jax().compile({"xla_embed_ir_in_executable": False}).as_text() or ""
    finally:
        jax.config.update("jax_compilation_cache_include_metadata_in_key", kept)


def _wait_for(_result: Any) -> None:
    """Wait until a call and what it wrote are done: the result is passed because only what is held is waited for."""
    for array in jax.live_arrays():
        array.block_until_ready()


def _measured(call: Any, calls: int) -> Mapping[tuple[str, str], float]:
    """Nanoseconds by program and instruction, without what is called inside of it."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(calls):
                _wait_for(call())
        (path,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(path))
        found: dict[tuple[str, str], float] = collections.defaultdict(float)
        for plane in data.planes:
            for line in plane.lines:
                _add_own_times(line.events, found)
    return found


def _add_own_times(events: Iterable[Any], found: dict[tuple[str, str], float]) -> None:
    """Add what the events of one thread took; one that lies within another (a step of a loop) is not the other's."""
    spans = []
    for event in events:
        stats = dict(event.stats)
        if "hlo_op" in stats and "hlo_module" in stats:
            key = (str(stats["hlo_module"]), str(stats["hlo_op"]))
            spans.append((event.start_ns, -event.duration_ns, key))
    open_: list[tuple[float, tuple[str, str]]] = []
    for start, minus, key in sorted(spans):
        while open_ and open_[-1][0] <= start:
            open_.pop()
        if open_:
            found[open_[-1][1]] += minus
        found[key] -= minus
        open_.append((start - minus, key))


class _Places:
    """Which line of the user an instruction of an optimized program comes from."""

    def __init__(self, text: str) -> None:
        self.module = (re.search(r"HloModule ([\w.<>-]+)", text) or ["", ""])[1]
        self._files = {number: rest.strip('"') for number, rest in _section(text, "FileNames")}
        self._functions = {number: rest.strip('"') for number, rest in _section(text, "FunctionNames")}
        self._locations, self._frames = _fields(text, "FileLocations"), _fields(text, "StackFrames")
        self._descriptions: dict[str, tuple[int, str]] = {}
        """By instruction: its frame, and its operation."""
        self._inner: dict[str, str] = {}
        """By instruction: the computation that it calls."""
        self._within: dict[str, list[str]] = {}
        """By computation: its instructions."""
        computation = ""
        for row in text.splitlines():
            if begun := _COMPUTATION.match(row):
                computation = begun[1]
            elif instruction := _INSTRUCTION.match(row):
                self._within.setdefault(computation, []).append(instruction[1])
                self._read(instruction[1], row)

    def _read(self, name: str, row: str) -> None:
        frame = re.search(r"stack_frame_id=(\d+)", row)
        operation = re.search(r'op_name="([^"]*)"', row)
        self._descriptions[name] = (int(frame[1]) if frame else 0, operation[1].rpartition("/")[2] if operation else "")
        if called := re.search(r"calls=%([\w.-]+)", row):
            self._inner[name] = called[1]

    def of(self, instruction: str) -> tuple[str, str, int, str]:
        """Function, file, line and operation; of a fusion those of the product in it, or of its result."""
        frame, operation = self._descriptions.get(instruction, (0, ""))
        for inner in self._within.get(self._inner.get(instruction, ""), ()):
            described = self._descriptions[inner]
            if described[1] in ("dot_general", "conv_general_dilated") or (not frame and described[0]):
                frame, operation = described
        while (fields := self._frames.get(frame)) is not None:
            place = self._locations[fields["file_location_id"]]
            file = self._files[place["file_name_id"]]
            if file != "<string>":  # code that this package has generated
                return self._functions[place["function_name_id"]], file, place["line"], operation
            # XLA prints the number of the caller's frame plus one.
            frame = fields["parent_frame_id"] - 1
        return "", "", 0, operation or instruction.rstrip("0123456789.")


_COMPUTATION = re.compile(r"(?:ENTRY )?%([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%([\w.-]+) = ")


def _section(text: str, name: str) -> list[tuple[int, str]]:
    """The numbered rows of a table in a program's text."""
    found = re.search(rf"^{name}\n((?:\d+ .*\n)*)", text, re.MULTILINE)
    rows = [row.partition(" ") for row in (found[1] if found else "").splitlines()]
    return [(int(number), rest) for number, _, rest in rows]


def _fields(text: str, name: str) -> dict[int, dict[str, int]]:
    return {
        number: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", rest)}
        for number, rest in _section(text, name)
    }


__all__ = ["CompiledProfile", "Spent", "profile_compiled"]
