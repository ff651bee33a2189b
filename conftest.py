"""What every test runs under: strict JAX, fixed seeds, a shared compile cache, a named oracle."""

import importlib
import importlib.metadata
import importlib.util
import os
import random
import sys
import tomllib
from collections.abc import Generator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent
SEED = 0
_FIRST, _QUICK = 2, 0.3
"""So many tests of each file are quick ones, of those that take less than so many seconds."""
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

from tests.measured import Measuring, Seconds, chosen, today  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--oracle",
        choices=("auto", "live", "recorded"),
        default="auto",
        help="who judges: live torch (fails without it), recorded results (torch is left alone), "
        "or live torch where it is installed (default)",
    )
    parser.addoption(
        "--seconds",
        type=float,
        default=0.0,
        metavar="N",
        help="run tests that take N seconds of a core in all, where no kernel is compiled yet: the short ones, and of "
        "the others those whose turn it is on the day of the commit; 0 runs all of them (default)",
    )
    parser.addoption(
        "--measure", type=Path, metavar="FOLDER", help="note there what each test takes, for `python -m tests.measured`"
    )
    parser.addoption(
        "--quick",
        action="store_true",
        help=f"run the first case of the first {_FIRST} tests of each file, its plainest, none of them long",
    )


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("TORCHGRAD_JAX_X64") == "1":
        jax.config.update("jax_enable_x64", True)
    elif not jax.config.jax_enable_x64:
        importlib.import_module("tests.narrowing").watch()
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    if config.getoption("--oracle") == "live" and not _torch_version():
        raise pytest.UsageError("--oracle=live: torch is not installed (`make oracle` installs it)")
    if config.getoption("--measure"):
        config.pluginmanager.register(Measuring(config.getoption("--measure")))


def pytest_report_header(config: pytest.Config) -> str:
    return _oracle(config)


def _oracle(config: pytest.Config) -> str:
    if not _oracle_is_live(config):
        why = "torch is not installed" if not _torch_version() else "as asked for by --oracle"
        return f"oracle: recorded results ({why})"
    version, reference = _torch_version().partition("+")[0], _reference_version()
    note = "" if version == reference else f" (the reference is {reference})"
    return f"oracle: live torch {version}{note}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _choose_by_time(config, items)
    _choose_quick(config, items)
    if _oracle_is_live(config):
        return
    skip = pytest.mark.skip(reason="needs live torch")
    for item in items:
        if item.get_closest_marker("oracle") or "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker(skip)


def _choose_by_time(config: pytest.Config, items: list[pytest.Item]) -> None:
    budget = config.getoption("--seconds")
    if budget and len(items) >= _MANY:
        names = [item.nodeid for item in items]
        kept = [item for item, runs in zip(items, chosen(names, _seconds, budget, today())) if runs]
        if len(kept) < len(items):
            _left_out["long"] = len(items) - len(kept)
            _left_out["seconds"] = round(sum(map(_seconds.of, names)) - sum(_seconds.of(item.nodeid) for item in kept))
        _keep(config, items, kept)


def _choose_quick(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests stand in a file in the order in which a reader meets them, so that the plainest come first."""
    if not config.getoption("--quick"):
        return
    of_files: dict[Path, dict[str, pytest.Item]] = {}
    short = [
        item for item in items if _seconds.of(item.nodeid) < _QUICK and not item.nodeid.startswith(_START_PROCESSES)
    ]
    for item in short:
        tests = of_files.setdefault(item.path, {})
        if len(tests) < _FIRST:
            tests.setdefault(getattr(item, "originalname", item.name), item)
    kept = [item for tests in of_files.values() for item in tests.values()]
    _left_out.update({"slow": len(items) - len(short), "others": len(short) - len(kept)})
    _keep(config, items, kept)


_seconds = Seconds.stored()
_left_out: dict[str, int] = {}
"""How many tests a run leaves out, by the reason."""


def _keep(config: pytest.Config, items: list[pytest.Item], wanted: list[pytest.Item]) -> None:
    if len(wanted) < len(items):
        kept = set(map(id, wanted))
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
        items[:] = wanted


def _time_to_come(tests: Sequence[str], workers: int) -> str:
    """How long a run will take, for who waits in front of it."""
    minutes = max(1, round(sum(map(_seconds.of, tests)) / workers / 60))
    return f"time: {len(tests)} tests on {workers} cores take about {minutes} min, more without compiled kernels"


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    return None if len(items) < _MANY else _time_to_come([item.nodeid for item in items], 1)


_MANY = 1000
"""Of fewer tests than these, which somebody has named, all run, and nobody waits long."""
_said: list[str] = []


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, whose workers collect
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    if len(ids) >= _MANY and not _said:
        _said.append(_time_to_come(ids, len(node.config.option.tx)))
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
    if "long" in _left_out:
        terminalreporter.write_line(
            f"left to other days and to `make conformance`: {_left_out['long']} tests, which take "
            f"{_left_out['seconds']} s of a core"
        )
    if "slow" in _left_out:
        terminalreporter.write_line(
            f"quick: left out are {_left_out['slow']} tests that take long or start processes, and "
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
