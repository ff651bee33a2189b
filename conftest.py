"""What every test runs under: strict JAX, fixed seeds, a shared compile cache, a named oracle."""

import importlib
import importlib.metadata
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent
SEED = 0
_SOME = 16
"""In so many parts the tests with the mark `long` are divided: each day that has a commit runs another one."""
_FIRST = 2
"""So many tests of each file are quick ones."""
_START_PROCESSES = ("tests/distributed", "tests/export", "tests/utils/loading")
"""Folders without quick tests: seconds go by until a process that a test starts has imported the package."""

# JAX reads these when it is imported; programs that the tests start inherit them.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch: the workers already occupy every core

import jax  # noqa: E402
import numpy as np  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--oracle",
        choices=("auto", "live", "recorded"),
        default="auto",
        help="who judges: live torch (fails without it), recorded results (torch is left alone), "
        "or live torch where it is installed (default)",
    )
    parser.addoption(
        "--long",
        choices=("yes", "some", "no", "only"),
        default="yes",
        help="what to do about tests with the mark `long`, which take long where no kernel is compiled yet: "
        f"run them, one in {_SOME} of them (which ones the day of the commit says), none, or no others",
    )
    parser.addoption(
        "--part",
        type=int,
        default=1,
        metavar="N",
        help="run one in N of the tests, other ones for other commits: a quick look at another Python or JAX",
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help=f"run the first case of the first {_FIRST} tests of each file, its plainest, none of them long",
    )


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("TORCHGRAD_JAX_X64") == "0":
        importlib.import_module("tests.narrowing").watch()
    else:
        jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    if config.getoption("--oracle") == "live" and not _torch_version():
        raise pytest.UsageError("--oracle=live: torch is not installed (`make oracle` installs it)")


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [_oracle(config), *_parts(config)]


def _parts(config: pytest.Config) -> list[str]:
    """Which parts of the tests the name of the commit has chosen."""
    out, parts = [], config.getoption("--part")
    if parts > 1:
        out.append(f"tests: part {_part(parts) + 1} of {parts}, by the name of the commit")
    if config.getoption("--long") == "some":
        out.append(f"long tests: part {_day() % _SOME + 1} of {_SOME}, by the day of the commit")
    return out


def _oracle(config: pytest.Config) -> str:
    if not _oracle_is_live(config):
        why = "torch is not installed" if not _torch_version() else "as asked for by --oracle"
        return f"oracle: recorded results ({why})"
    version, reference = _torch_version().partition("+")[0], _reference_version()
    note = "" if version == reference else f" (the reference is {reference})"
    return f"oracle: live torch {version}{note}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _choose_by_length(config, items)
    _choose_part(config, items)
    _choose_quick(config, items)
    if _oracle_is_live(config):
        return
    skip = pytest.mark.skip(reason="needs live torch")
    for item in items:
        if item.get_closest_marker("oracle") or "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker(skip)


def _choose_by_length(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--long")
    if wanted == "yes":
        return
    marked = [item for item in items if _is_long(item)]
    # Tests that follow one another are the variants of one, so that some of each run.
    left_out = set(map(id, marked)) - set(map(id, marked[_day() % _SOME :: _SOME] if wanted == "some" else ()))
    _keep(config, items, [item for item in items if (id(item) in left_out) is (wanted == "only")])


def _is_long(item: pytest.Item) -> bool:
    """Whether a test has the mark `long`, which may name those of its cases that are."""
    case = item.callspec.id if hasattr(item, "callspec") else ""
    return any(not mark.args or case in mark.args for mark in item.iter_markers("long"))


def _choose_part(config: pytest.Config, items: list[pytest.Item]) -> None:
    parts = config.getoption("--part")
    if parts > 1:
        _keep(config, items, items[_part(parts) :: parts])


def _choose_quick(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests stand in a file in the order in which a reader meets them, so that the plainest come first."""
    if not config.getoption("--quick"):
        return
    chosen: dict[Path, dict[str, pytest.Item]] = {}
    short = [item for item in items if not _is_long(item) and not item.nodeid.startswith(_START_PROCESSES)]
    for item in short:
        tests = chosen.setdefault(item.path, {})
        if len(tests) < _FIRST:
            tests.setdefault(getattr(item, "originalname", item.name), item)
    kept = [item for tests in chosen.values() for item in tests.values()]
    _left_out.update({"slow": len(items) - len(short), "others": len(short) - len(kept)})
    _keep(config, items, kept)


_left_out: dict[str, int] = {}
"""How many tests a quick run leaves out, by the reason."""


def _keep(config: pytest.Config, items: list[pytest.Item], chosen: list[pytest.Item]) -> None:
    if len(chosen) < len(items):
        kept = set(map(id, chosen))
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
        items[:] = chosen


def _part(parts: int) -> int:
    """Which of so many parts of the tests runs, by the name of the commit: the same again for the same commit."""
    return int(_of_commit("%H") or "0", 16) % parts


def _day() -> int:
    """The number of the day of the commit: within as many days as there are parts, each part runs."""
    return int(_of_commit("%ct") or "0") // 86_400


def _of_commit(what: str) -> str:
    """What git tells of the commit, in one of its formats; nothing where there is no git."""
    git = shutil.which("git")
    if git is None:
        return ""
    command = [git, "-C", str(ROOT), "log", "-1", f"--format={what}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


_SECONDS_COLD, _SECONDS_WARM = 0.04, 0.03
"""What a test takes on average on one core of 2.5 GHz, where few kernels are compiled yet, and where all are."""
_WARM = 2000
"""More files than this in the cache of kernels come from an earlier run of the tests; `make demo` leaves fewer."""


def _time_to_come(tests: int, workers: int) -> str:
    """How long a run will take, for who waits in front of it."""
    cache = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    cold = not cache.is_dir() or len(os.listdir(cache)) < _WARM
    each = _SECONDS_COLD if cold else _SECONDS_WARM
    minutes = max(1, round(tests * each / workers / 60))
    kernels = f"few kernels are compiled yet in {cache}" if cold else f"compiled kernels are in {cache}"
    return f"time: {tests} tests on {workers} cores take about {minutes} min ({kernels})"


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    return None if len(items) < _MANY else _time_to_come(len(items), 1)


_MANY = 1000
_said: list[str] = []


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, whose workers collect
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    if len(ids) >= _MANY and not _said:
        _said.append(_time_to_come(len(ids), len(node.config.option.tx)))
        reporter = node.config.pluginmanager.getplugin("terminalreporter")
        reporter.write_line(_said[0])


def _resident() -> int:
    """The megabytes of memory that this process holds; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


class _Memory:
    """Empties all caches between two tests once a process holds much, so that a worker stays below 1.5 GB.

    What the package keeps is bounded; JAX keeps all that tests compile with JAX alone.
    """

    much, step = 1000, 200

    def __init__(self) -> None:
        self.limit = self.much
        self.most = 0

    def look(self) -> None:
        held = _resident()
        self.most = max(self.most, held)
        if held > self.limit:
            jax.clear_caches()
            if "torchgrad_jax" in sys.modules:
                sys.modules["torchgrad_jax"].clear_caches()
            self.limit = max(self.much, _resident() + self.step)


_memory = _Memory()
_of_workers: list[int] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, Any, Any]:
    found = yield
    _memory.look()
    return found


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_testnodedown(node: Any) -> None:
    found = getattr(node, "workeroutput", {})
    _of_workers.append(found.get("megabytes", 0))
    _left_out.update(found.get("left_out", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    most = max([_memory.most, *_of_workers])
    if _left_out:
        terminalreporter.write_line(
            f"quick: left out are {_left_out['slow']} tests that are marked as long or start processes, and "
            f"{_left_out['others']} that are not among the first {_FIRST} of their file"
        )
    terminalreporter.write_line(f"memory: no process of the tests held more than {most} MB")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput.update(megabytes=_memory.most, left_out=_left_out)


@pytest.fixture(scope="session")
def oracle() -> ModuleType:
    """Live torch; a test that asks for it is skipped where results are recorded."""
    return importlib.import_module("torch")


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Each test starts from the same random state, whatever ran before it and on which worker."""
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002 -- the global state is what libraries under test may read
    for name in ("torch", "torchgrad_jax"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "manual_seed"):
            module.manual_seed(SEED)


def _reference_version() -> str:
    """The torch version that the `oracle` extra pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pin = project["optional-dependencies"]["oracle"][0]
    return pin.removeprefix("torch==")


def _torch_version() -> str:
    """The version of the installed torch, "" without one; does not import it."""
    if importlib.util.find_spec("torch") is None:
        return ""
    return importlib.metadata.version("torch")


def _oracle_is_live(config: pytest.Config) -> bool:
    return config.getoption("--oracle") != "recorded" and bool(_torch_version())
