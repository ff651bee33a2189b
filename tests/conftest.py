"""What many tests share: programs judged by live torch or by its recorded answers."""

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

from tests.differential import Recording

_RECORDINGS: dict[str, Recording] = {}


@pytest.fixture
def same(request: pytest.FixtureRequest) -> Callable[[Callable[[Any], Any]], None]:
    """Check that a program does the same under torch and under torchgrad_jax."""
    file = str(request.path)
    recording = _RECORDINGS.setdefault(file, Recording(file))
    live = (
        request.config.getoption("--oracle") != "recorded"
        and importlib.util.find_spec("torch") is not None
    )
    return lambda program: recording.check(program.__name__, program, live)
