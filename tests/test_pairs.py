"""The porting pairs of examples/pairs: losses in torch, here eager, here compiled, and in JAX coincide."""

import importlib
import importlib.util
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

PAIRS = Path(__file__).resolve().parent.parent / "examples" / "pairs"
NAMES = sorted(p.stem for p in PAIRS.glob("*.py") if p.stem not in ("__main__", "common"))


@pytest.fixture
def pairs(monkeypatch):
    """The module that runs the pairs; their names are gone again afterwards."""
    monkeypatch.syspath_prepend(str(PAIRS))
    spec = importlib.util.spec_from_file_location("pairs_main", PAIRS / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # user code
        spec.loader.exec_module(module)
        yield module
    for name in ("common", *NAMES):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", NAMES)
def test_losses_coincide(name, pairs):
    found = pairs.curves(name, 5)
    assert len(found) >= 3
    assert pairs.apart(found) < 1e-5
    assert len({round(x, 4) for x in found["JAX"]}) > 1, "the losses do not change"


def test_twelve_pairs(pairs):
    assert sorted(pairs.NAMES) == NAMES
    assert len(NAMES) == 12


def test_curves_that_part_are_told(pairs, monkeypatch, capsys):
    monkeypatch.setattr(pairs, "curves", lambda name, steps: {"JAX": [1.0, 0.5], "torch": [1.0, 0.51]})
    monkeypatch.setattr(sys, "argv", ["pairs", "mlp"])
    assert pairs.main() == 1
    assert "mlp" in capsys.readouterr().out
    assert pairs.apart({"a": [1.0, np.nan], "b": [1.0, 2.0]}) != 0
