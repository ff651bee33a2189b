"""How many programs a function starts on an accelerator, by line of the user: what makes eager code slow there.

    found = profile_launches(step, x, y)
    found.total    # 37
    print(found)   # which lines start them

XLA's profiler notes each start of a program. A mark of ours stands in its record from one line of the user to the next,
so each start lies within the mark of the line that was running.
"""

from __future__ import annotations

import collections
import linecache
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jax

from .._core.host.choice import VARIABLE, given_executor

_PACKAGES = (str(Path(__file__).resolve().parents[1]), str(Path(jax.__file__ or "").resolve().parent))
_MARK = "torchgrad_jax line"
_START = re.compile(r"LoadedExecutable::Execute(?:HelperOnSingleDevice)?$")
_CALL = re.compile(r"PjitFunction\((?:torch\.)?(.*)\)$")


class Launched(NamedTuple):
    """Programs of one name that one line of the user starts."""

    function: str
    file: str
    line: int
    program: str
    """The operator, such as `addmm`; `backward_pass` is all of a backward pass."""
    times: int


class Launches:
    """What `profile_launches` has counted."""

    def __init__(self, launched: list[Launched]) -> None:
        self.launched = launched
        """In the order in which they were first started."""

    @property
    def total(self) -> int:
        """How many programs were started."""
        return sum(row.times for row in self.launched)

    def lines(self) -> list[tuple[tuple[str, str, int], int, list[Launched]]]:
        """List for each line (function, file, number), how many programs, and which; the line with most first."""
        found: dict[tuple[str, str, int], list[Launched]] = {}
        for row in self.launched:
            found.setdefault(row[:3], []).append(row)
        rows = [(place, sum(row.times for row in v), v) for place, v in found.items()]
        return sorted(rows, key=lambda row: -row[1])

    def table(self, row_limit: int = 20) -> str:
        """Return the lines that start most programs, as text."""
        rows = [f"{'starts':>6}  function, line, and the programs that it starts"]
        for (function, file, line), times, launched in self.lines()[:row_limit]:
            names = ", ".join(f"{row.program} {row.times}" if row.times > 1 else row.program for row in launched[:6])
            more = f" and {len(launched) - 6} more" if len(launched) > 6 else ""
            rows.append(f"{times:6}  {function} {Path(file).name}:{line}  {names}{more}".rstrip())
            if source := linecache.getline(file, line).strip():
                rows.append(f"{'':8}{source}")
        return "\n".join([*rows, f"{self.total:6}  in all"])

    def __repr__(self) -> str:
        return self.table()


def profile_launches(fn: Any, *args: Any, warmup: int = 3, **kwargs: Any) -> Launches:
    """Call a function, and count the programs that it starts, by line of the user.

    On an accelerator each start costs time, some 15 to 40 us, however small the tensors are. Operators of an eager
    step are a program each, a backward pass that came before is one, and a compiled step is one.

    Args:
        fn: the function; compiled ones are counted, too.
        args, kwargs: what it is called with.
        warmup: how often it is called before. Backward passes are compiled when they come again, and the first calls
            start programs that later ones don't.

    Returns:
        The counts: printed as a table, `lines()` as data.

    Raises:
        RuntimeError: without an accelerator, unless `TORCHGRAD_JAX_EXECUTOR=xla` is in the environment: NumPy computes
            small tensors on a CPU, and starts nothing.

    Example:
        >>> import torchgrad_jax as torch
        >>> x = torch.ones(3)
        >>> torch.profiler.profile_launches(lambda: (x * x).sum()).total  # doctest: +SKIP
        2
    """
    if jax.default_backend() == "cpu" and given_executor() != "xla":
        raise RuntimeError(
            "NumPy computes small tensors on a CPU, so no programs are started that could be counted. With "
            f"{VARIABLE}=xla in the environment, operators start the programs that they start on an accelerator"
        )
    for _ in range(warmup):
        fn(*args, **kwargs)
    with tempfile.TemporaryDirectory() as folder:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level, options.host_tracer_level = 0, 2
        with jax.profiler.trace(folder, profiler_options=options):
            _call_with_marks(fn, args, kwargs)
        (path,) = Path(folder).rglob("*.xplane.pb")
        return Launches(_read(jax.profiler.ProfileData.from_file(str(path))))


def _call_with_marks(fn: Any, args: Any, kwargs: Any) -> None:
    """Call a function while XLA's record has a mark for each line of the user."""
    open_: list[Any] = []
    """The mark that is open, if one is."""

    def mark(frame: Any) -> None:
        while open_:
            open_.pop().__exit__(None, None, None)
        if frame is not None:
            code = frame.f_code
            name = f"{_MARK}|{code.co_name}|{code.co_filename}|{frame.f_lineno}"
            open_.append(jax.profiler.TraceAnnotation(name))
            open_[-1].__enter__()

    def of_line(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            mark(frame)
        elif event == "return":
            mark(_of_user(frame.f_back))
        return of_line

    def of_call(frame: Any, event: str, _: Any) -> Any:
        return of_line if _is_users(frame) else None

    before = sys.gettrace()
    mark(_of_user(sys._getframe()))
    sys.settrace(of_call)
    try:
        fn(*args, **kwargs)
    finally:
        sys.settrace(before)
        mark(None)


def _is_users(frame: Any) -> bool:
    file = frame.f_code.co_filename
    return file != "<string>" and not file.startswith(_PACKAGES)  # "<string>" is code that this package generates


def _of_user(frame: Any) -> Any:
    """The innermost frame of the user's from this one on."""
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    return frame


def _read(data: Any) -> list[Launched]:
    """The starts within marks, in the order of the first of each kind."""
    times: collections.Counter[tuple[str, str, int, str]] = collections.Counter()
    for plane in data.planes:
        for line in plane.lines:
            times.update(_starts_of(line.events))
    return [Launched(*kind, n) for kind, n in times.items()]


def _starts_of(events: Iterable[Any]) -> Iterable[tuple[str, str, int, str]]:
    """For each start of a program in one thread: the line of the user, and the name of the program."""
    spans = sorted((e.start_ns, -e.duration_ns, e.name) for e in events)
    open_: list[tuple[float, str]] = []
    for start, minus, name in spans:
        while open_ and open_[-1][0] <= start:
            open_.pop()
        outer = [n for _, n in open_]
        open_.append((start - minus, name))
        marks = [n for n in outer if n.startswith(_MARK)]
        if _START.search(name) and marks and not any(map(_START.search, outer)):
            _, function, file, number = marks[-1].split("|")
            calls = [m[1] for m in map(_CALL.match, outer) if m]
            yield function, file, int(number), calls[-1] if calls else "another program"


__all__ = ["Launched", "Launches", "profile_launches"]
