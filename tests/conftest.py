"""What many tests share: programs judged by live torch or by its recorded answers."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

from tests import ways
from tests.differential import Recording

_RECORDINGS: dict[str, Recording] = {}


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Threads take turns a thousand times as often as usual, so that races come up."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def jax_with_64_bits() -> Iterator[None]:
    """The process's JAX has 64-bit types in this test, also where it has 32 bits in others."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Programs run in several ways."""
    path = Path(str(metafunc.module.__file__))
    ways.parametrize(metafunc, path.relative_to(Path(__file__).parent).parts[0])


@pytest.fixture
def same(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Check that a program does the same under torch and under torchgrad_jax.

    Its answer is recorded under the given name, or else under its own. With `raises` it has to end in an error, and
    without it must not; None permits both.
    """
    file = str(request.path)
    recording = _RECORDINGS.setdefault(file, Recording(file))
    live = request.config.getoption("--oracle") != "recorded" and importlib.util.find_spec("torch") is not None

    way = getattr(request, "param", None)

    def check(program: Callable[[Any], Any], name: str | None = None, raises: bool | None = None) -> None:
        name = name or program.__name__
        run = ways.WAYS[way] if way else None
        if run and (why := ways.APART.get(f"{request.path.stem}::{name}")):
            with pytest.raises(AssertionError):  # an entry that does the same goes
                recording.check(name, program, live, raises, run)
            pytest.xfail(why)
        recording.check(name, program, live, raises, run)

    return check


@pytest.fixture(autouse=True)
def torch_checks_distributions() -> None:
    """Live torch checks the arguments of distributions, as it does at its start.

    The first function that it compiles switches these checks off for the rest of the process.
    """
    distributions = sys.modules.get("torch.distributions")
    if distributions is not None:
        distributions.Distribution.set_default_validate_args(True)
