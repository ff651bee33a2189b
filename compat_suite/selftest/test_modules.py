"""Playing torch's samples of layers and optimizers: what agrees passes, what does not is seen."""

from argparse import Namespace
from typing import Any

import pytest

from compat_suite import modules
from compat_suite.modules.layers import Layers


def settings(**given: Any) -> Namespace:
    return Namespace(**{"only": None, "name": None, "samples": 1, "seed": 0, "jobs": 1, **given})


@pytest.mark.oracle
def test_rows_that_agree() -> None:
    assert modules.main(settings(name=["Linear", "SGD"])) == 0


@pytest.mark.oracle
def test_a_wrong_result_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Layers.call

    def shifted(self: Layers, lib: Any, module: Any, args: Any, kwargs: Any) -> Any:
        out = original(self, lib, module, args, kwargs)
        return out + 1 if lib is self.mine else out

    monkeypatch.setattr(Layers, "call", shifted)
    (job,) = modules.chosen(settings(name=["Linear"]))
    scores = modules.judge(job[1])
    assert scores["construct"].passed
    assert scores["forward"].failed
    assert not scores["forward"].passed
