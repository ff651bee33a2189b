"""FlopCounterMode: what it answers before anything was counted, and that counting is refused."""

import warnings
from importlib import import_module

import pytest

from tests.programs import Programs
from torchgrad_jax.utils.flop_counter import FlopCounterMode

program = Programs()
test_same_as_torch = program.test()


@program
def nothing_counted(m):
    counter = import_module(m.__name__ + ".utils.flop_counter").FlopCounterMode
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = counter(mods=m.nn.ReLU(), depth=3, display=False)
    before = made.get_flop_counts()
    return (
        before,
        made.get_total_flops(),
        made.get_flop_counts(),
        made.depth,
        [str(w.message) for w in told],
    )


def test_counting_is_refused():
    with pytest.raises(NotImplementedError, match="cost_analysis"), FlopCounterMode(display=False):
        pass
