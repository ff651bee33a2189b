"""Programs that load data give torch's batches, in torch's order, with torch's random numbers, whatever workers are."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchgrad_jax

from . import programs

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What torch gives, by program and number of workers; asked in a process without JAX, for torch forks."""
    file = tmp_path_factory.mktemp("torch") / "answers"
    command = [sys.executable, "-m", "tests.utils.loading.programs", str(file)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=120)
    return pickle.loads(file.read_bytes())


def same_types_and_order(ours: Any, torchs: Any, path: str = "") -> None:
    """Equal, floats up to rounding."""
    if isinstance(torchs, float):
        assert ours == pytest.approx(torchs, rel=2e-5, abs=1e-6, nan_ok=True), path
    elif isinstance(torchs, list | tuple):
        assert type(ours) is type(torchs), path
        assert len(ours) == len(torchs), path
        for i, (a, b) in enumerate(zip(ours, torchs)):
            same_types_and_order(a, b, f"{path}[{i}]")
    elif isinstance(torchs, dict):
        assert list(ours) == list(torchs), path
        for k in torchs:
            same_types_and_order(ours[k], torchs[k], f"{path}[{k!r}]")
    else:
        assert ours == torchs, path


@pytest.mark.oracle
@pytest.mark.parametrize("kind", programs.KINDS)
@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_as_torch(name: str, kind: str, answers: Any) -> None:
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    same_types_and_order(programs.run(torchgrad_jax, name, kind), answers[name, programs.KINDS[kind]])
    np.random.set_state(before)  # noqa: NPY002
